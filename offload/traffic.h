/* traffic.h: the counters that this folder keeps, and the one way in which it waits. For this folder. */
#ifndef EBB_TRAFFIC_H
#define EBB_TRAFFIC_H

#include "alloc/device.h"
#include "offload/ebb_offload.h"

extern ebb_traffic_t ebb_traffic_of[EBB_STATES];
#define ebb_traffic_counters (ebb_traffic_of[ebb_here->number])

/* Forgets the bytes copied since then: what ebb measured for itself. */
void ebb_traffic_uncount(const ebb_traffic_t *before);

/* The host waits for a mark, and the time counts. */
ebb_status_t ebb_stall(ebb_mark_t mark);

#endif

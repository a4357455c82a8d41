/* traffic.h: the one way in which this folder waits, and what ebb measures for itself. For this folder. */
#ifndef EBB_TRAFFIC_H
#define EBB_TRAFFIC_H

#include "offload/ebb_offload.h"

/* Forgets the bytes copied since then: what ebb measured for itself. */
void ebb_traffic_uncount(ebb_device_t *dev, const ebb_traffic_t *before);

/* The host waits for a mark, and the time counts as the device's. */
ebb_status_t ebb_stall(ebb_device_t *dev, ebb_mark_t mark);

#endif

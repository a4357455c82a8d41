/* traffic.h: the counters that copy.c and residence.c keep. For this folder. */
#ifndef EBB_TRAFFIC_H
#define EBB_TRAFFIC_H

#include "ebb_offload.h"

extern ebb_traffic_t ebb_traffic_counters;

/* Forgets the bytes copied since then: what ebb measured for itself. */
void ebb_traffic_uncount(const ebb_traffic_t *before);

#endif

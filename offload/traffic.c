/* traffic.c: see traffic.h. */
#include "offload/traffic.h"

#include <time.h>

#include "alloc/device.h"
#include "offload/host.h"
#include "offload/pinned.h"
#include "offload/staging.h"

ebb_traffic_t ebb_traffic_of[EBB_STATES];

ebb_traffic_t ebb_traffic(void)
{
    ebb_traffic_t t = ebb_traffic_counters;
    ebb_pinned_usage_t u = ebb_pinned_usage();
    t.host_bytes = u.own_bytes - ebb_stage_bytes();
    t.host_peak_bytes = u.peak_bytes;
    t.host_budget_bytes = u.budget_bytes;
    t.pageable_bytes = ebb_pageable_usage().bytes;
    t.pageable_peak_bytes = ebb_pageable_usage().peak_bytes;
    return t;
}

void ebb_traffic_uncount(const ebb_traffic_t *before)
{
    ebb_traffic_counters.bytes_out = before->bytes_out;
    ebb_traffic_counters.bytes_in = before->bytes_in;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

ebb_status_t ebb_stall(ebb_mark_t mark)
{
    uint64_t start = now_ns();
    ebb_status_t status = ebb_mark_wait(mark);
    ebb_traffic_counters.stall_ns += now_ns() - start;
    return status;
}

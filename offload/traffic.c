/* traffic.c: see traffic.h. */
#include "offload/traffic.h"

#include <time.h>

#include "offload/host.h"
#include "offload/internal.h"
#include "offload/pinned.h"
#include "offload/staging.h"

ebb_traffic_t ebb_traffic(ebb_device_t *dev)
{
    ebb_traffic_t t = ebb_offload_of(dev)->traffic;
    ebb_pinned_usage_t u = ebb_pinned_usage(dev);
    t.host_bytes = u.own_bytes - ebb_stage_bytes(dev);
    t.host_peak_bytes = u.peak_bytes;
    t.host_budget_bytes = u.budget_bytes;
    t.pageable_bytes = ebb_pageable_usage(dev->ebb).bytes;
    t.pageable_peak_bytes = ebb_pageable_usage(dev->ebb).peak_bytes;
    return t;
}

ebb_traffic_t *ebb_traffic_counted(ebb_device_t *dev)
{
    return &ebb_offload_of(dev)->traffic;
}

void ebb_traffic_uncount(ebb_device_t *dev, const ebb_traffic_t *before)
{
    ebb_offload_of(dev)->traffic.bytes_out = before->bytes_out;
    ebb_offload_of(dev)->traffic.bytes_in = before->bytes_in;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

ebb_status_t ebb_stall(ebb_device_t *dev, ebb_mark_t mark)
{
    uint64_t start = now_ns();
    ebb_status_t status = ebb_mark_wait(mark);
    ebb_offload_of(dev)->traffic.stall_ns += now_ns() - start;
    return status;
}

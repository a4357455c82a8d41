#include "ckpt/run/stats/stats.h"

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/internal.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

_Static_assert((int)EBB_MOST_DEVICES == (int)EBB_DEVICES, "a device has at least one context");

static uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static ebb_device_statistics_t *entry_of(ebb_device_list_t *list, CUdevice device)
{
    uint32_t i = 0;
    while (i < list->count && list->device[i].device != (uint64_t)device)
        i++;
    if (i == list->count)
        list->device[list->count++] = (ebb_device_statistics_t){.device = (uint64_t)device};
    return &list->device[i];
}

static void add_context(ebb_device_t *dev, ebb_device_statistics_t *d)
{
    const ebb_usage_t u = ebb_usage(dev);
    const ebb_traffic_t t = ebb_traffic(dev);
    d->budget_bytes = u.budget_bytes;
    d->overhead_bytes = u.overhead_bytes - u.headroom_bytes;
    d->foreign_bytes = u.foreign_bytes;
    d->mapped_bytes = u.mapped_bytes;
    d->live_bytes = ebb_program_bytes(dev);
    d->host_bytes =
        t.host_bytes > ebb_scratch_pinned_bytes(dev) ? t.host_bytes - ebb_scratch_pinned_bytes(dev) : 0;
    d->peak_bytes = higher(d->peak_bytes, u.peak_bytes);
    d->live_peak_bytes = higher(d->live_peak_bytes, u.live_peak_bytes);
    d->in_flight_peak_bytes = higher(d->in_flight_peak_bytes, t.in_flight_peak_bytes);
    d->evictions += t.evictions;
    d->clean_evictions += t.clean_evictions;
    d->fetches += t.fetches;
    d->bytes_out += t.bytes_out;
    d->bytes_in += t.bytes_in;
    d->stall_ns += t.stall_ns;
    const ebb_steps_t s = ebb_steps(dev);
    const ebb_drive_counts_t driven = ebb_drive_counts(dev);
    d->step_operations = higher(d->step_operations, s.period);
    d->steps += s.completed;
    d->steps_driven += driven.steps;
    d->fallbacks += driven.fallbacks;
    d->predicted_peak_bytes = higher(d->predicted_peak_bytes, s.plans ? s.predicted_peak_bytes : 0);
    d->driven_peak_bytes = higher(d->driven_peak_bytes, driven.peak_bytes);
    d->wanted_bytes = higher(d->wanted_bytes, ebb_run_wanted_budget(dev, 1));
    d->wanted_double_bytes = higher(d->wanted_double_bytes, ebb_run_wanted_budget(dev, 2));
}

void ebb_devices_gather(ebb_t *ebb, ebb_device_list_t *out)
{
    out->count = out->spare = 0;
    for (unsigned i = 0; i < ebb->device_count; i++)
        if (!ebb->device[i].failed)
            add_context(&ebb->device[i], entry_of(out, ebb->device[i].device));
}

ebb_device_statistics_t ebb_devices_sum(const ebb_device_list_t *list)
{
    ebb_device_statistics_t sum = {.device = 0};
    for (uint32_t i = 0; i < list->count; i++) {
#define X(key, meaning) sum.key += list->device[i].key;
        EBB_DEVICE_STATISTICS(X)
#undef X
    }
    sum.device = list->count;
    return sum;
}

/* pin_budget.c: how much the process may pin, and has pinned (internal.h). */
#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "offload/internal.h"

/* Of the option: all of the machine's that may be pinned. Asking for more than there is would end with the kernel killing processes, not with
 * an error. */
static size_t whole_budget(const ebb_pinned_total_t *all)
{
    const int64_t option = ebb_options.host_budget;
    if (!option)
        return all->host_bytes / 2;
    if (option < 0)
        return (size_t)((double)all->host_bytes * (double)-option / 100.0);
    return (uint64_t)option < all->host_bytes ? (size_t)option : all->host_bytes;
}

static bool is_shared(void)
{
    return ebb_options.host_budget <= 0;
}

/* Of a budget that is shared: an equal part, or what the others have left, as of the last look at them. */
static size_t share(const ebb_pinned_total_t *all)
{
    const size_t whole = whole_budget(all), part = whole / (all->others.count + 1),
                 left = whole > all->others.pinned_bytes ? whole - all->others.pinned_bytes : 0;
    return part < left ? part : left;
}

void ebb_pin_look_at_others(ebb_t *ebb)
{
    ebb_pinned_total_t *all = &ebb->offload->pinned;
    if (is_shared())
        all->others = ebb_node_others(&all->node);
}

size_t ebb_pin_budget(ebb_t *ebb)
{
    ebb_pinned_total_t *all = &ebb->offload->pinned;
    if (!all->host_bytes) {
        const ebb_limits_t l = ebb_limits_read();
        all->host_bytes = l.cgroup_bytes < l.machine_bytes ? l.cgroup_bytes : l.machine_bytes;
        ebb_node_join(&all->node, l.cgroup);
        ebb_pin_look_at_others(ebb);
    }
    if (!is_shared())
        return whole_budget(all);
    return share(all) > all->registered ? share(all) : all->registered;
}

bool ebb_pin_fits(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    return bytes <= ebb_pin_budget(dev->ebb) && all->registered <= ebb_pin_budget(dev->ebb) - bytes;
}

void ebb_pin_count(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    pinned->registered += bytes;
    all->registered += bytes;
    ebb_node_tell(&all->node, all->registered);
}

void ebb_pin_uncount(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    pinned->registered -= bytes;
    all->registered -= bytes;
    ebb_node_tell(&all->node, all->registered);
}

/* The others see it at once, and of two that do so at the same time one at least sees the other. */
bool ebb_pin_count_if_fits(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    ebb_pin_count(dev, bytes);
    ebb_pin_look_at_others(dev->ebb);
    if (!is_shared() || all->registered <= share(all))
        return true;
    ebb_pin_uncount(dev, bytes);
    return false;
}

void ebb_pin_explain(ebb_device_t *dev, size_t bytes)
{
    ebb_pinned_t *pinned = &ebb_offload_of(dev)->pinned;
    ebb_pinned_total_t *all = &dev->ebb->offload->pinned;
    bool *said = pinned->refusal == -1 ? &all->said_budget : &all->said_other;
    if (*said || pinned->refusal == CUDA_ERROR_DEINITIALIZED)
        return;
    *said = true;
    const size_t mib = 1 << 20;
    if (pinned->refusal == -1) {
        ebb_log(EBB_WARN,
                "pinned host memory: %zu bytes more would exceed the %zu MiB that EBB_HOST_BUDGET and the "
                "machine allow%s",
                bytes, ebb_pin_budget(dev->ebb) / mib,
                all->others.count ? ", shared with other processes" : "");
        return;
    }
    char reason[256];
    ebb_limits_t limits = ebb_limits_read();
    bool known = ebb_limits_explain(&limits, all->registered, bytes, reason, sizeof reason);
    ebb_log(EBB_WARN, "host memory cannot be pinned (%s; %zu MiB are)%s%s", ebb_last_failure(),
            all->registered / mib, known ? ": " : "", known ? reason : "");
}

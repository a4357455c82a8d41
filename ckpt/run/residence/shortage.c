/* shortage.c: out of memory: what holds it, and which budget gets past it. */
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/residence/internal.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"

enum { MOST_REPORTS = 10, LARGEST = 5 };

struct ebb_shortage {
    bool on;
    unsigned reports;
};
const size_t ebb_part_shortage = sizeof(struct ebb_shortage);

/* Bytes of device memory, by what can be done about them. */
typedef struct holders {
    size_t needed;  /* by the operation, resident or not */
    size_t present; /* of them, resident */
    size_t may_leave, too_small, held, resident;
    const ebb_buffer_t *largest[LARGEST]; /* resident, in order */
    unsigned count;
} holders_t;

static size_t chunk_bytes(const ebb_buffer_t *b)
{
    return b->range->chunk_count * EBB_CHUNK_BYTES;
}

static bool is_accessed(const ebb_operation_t *op, const ebb_buffer_t *b)
{
    for (uint32_t i = 0; op && i < op->access_count; i++)
        if (op->access[i].buffer == b)
            return true;
    return op && op->opaque && !op->access_count;
}

static void rank(holders_t *h, const ebb_buffer_t *b)
{
    unsigned at = h->count;
    while (at && h->largest[at - 1]->bytes < b->bytes)
        at--;
    if (at == LARGEST)
        return;
    if (h->count < LARGEST)
        h->count++;
    memmove(h->largest + at + 1, h->largest + at, (h->count - 1 - at) * sizeof h->largest[0]);
    h->largest[at] = b;
}

static const char *why_here(const ebb_operation_t *op, const ebb_buffer_t *b)
{
    return is_accessed(op, b)                           ? "the operation needs it"
           : b->held                                    ? "held"
           : b->kept                                    ? "kept by the program"
           : b->bytes < (size_t)ebb_options.min_buffer  ? "smaller than EBB_MIN_BUFFER"
           : ebb_options.policy.code == EBB_POLICY_KEEP ? "EBB_POLICY=keep"
                                                        : "could leave";
}

static holders_t look_around(ebb_device_t *dev, const ebb_operation_t *op)
{
    holders_t h = {.needed = 0};
    for (const ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer) {
        const bool accessed = is_accessed(op, b);
        h.needed += accessed ? chunk_bytes(b) : 0;
        if (!b->range->mapped)
            continue;
        h.resident += chunk_bytes(b);
        h.present += accessed ? chunk_bytes(b) : 0;
        rank(&h, b);
        if (accessed)
            continue;
        if (b->held || b->kept)
            h.held += chunk_bytes(b);
        else if (ebb_may_evict(b) && ebb_options.policy.code != EBB_POLICY_KEEP)
            h.may_leave += chunk_bytes(b);
        else
            h.too_small += chunk_bytes(b);
    }
    return h;
}

static size_t device_bytes(void)
{
    CUdevice device;
    size_t bytes = SIZE_MAX;
    if (!ebb_driver.cuCtxGetDevice(&device))
        ebb_driver.cuDeviceTotalMem_v2(&bytes, device);
    return bytes;
}

static double mib(size_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void say_holders(ebb_device_t *dev, const ebb_operation_t *op, const holders_t *h,
                        const ebb_usage_t *u)
{
    const ebb_traffic_t t = ebb_traffic(dev);
    const size_t small = u->mapped_bytes - h->resident;
    ebb_log(EBB_WARN,
            "  of the budget of %.1f MiB %.1f are not ebb's (context, modules, libraries), %.1f could leave, "
            "%.1f cannot, %.1f are free",
            mib(u->budget_bytes + u->overhead_bytes), mib(u->overhead_bytes), mib(h->may_leave),
            mib(u->mapped_bytes - h->may_leave),
            /* What is not ebb's may have grown into what is in use. */
            mib(u->budget_bytes > u->mapped_bytes ? u->budget_bytes - u->mapped_bytes : 0));
    ebb_log(
        EBB_WARN,
        "  cannot leave: %.1f MiB in buffers up to %.3g MiB, which never do; %.1f for the operation; %.1f "
        "held; %.1f by the options",
        mib(small), mib(EBB_SMALL_BYTES), mib(h->present), mib(h->held), mib(h->too_small));
    ebb_log(EBB_WARN, "  host memory: %.1f of %.1f MiB pinned, %.1f pageable; %.1f on disk",
            mib(t.host_bytes), mib(t.host_budget_bytes), mib(t.pageable_bytes), mib(t.disk_bytes));
    for (unsigned i = 0; i < h->count; i++)
        ebb_log(EBB_WARN, "  %10.1f MiB at %#llx, allocation %llu: %s", mib(h->largest[i]->bytes),
                (unsigned long long)h->largest[i]->address, (unsigned long long)h->largest[i]->generation,
                why_here(op, h->largest[i]));
}

/* `wanted` bytes are to be had beside those that stay. */
static void say_advice(ebb_device_t *dev, const ebb_usage_t *u, size_t wanted, size_t stays)
{
    const size_t held = u->overhead_bytes - u->headroom_bytes,
                 needed = (ebb_chunks_with_headroom(wanted + stays + held) + (1 << 20) - 1) >> 20,
                 floor = ebb_run_wanted_budget(dev, 1) >> 20;
    if (wanted > device_bytes())
        ebb_log(EBB_WARN, "  that is more than the device has");
    else if (wanted + stays <= u->budget_bytes && !floor)
        ebb_log(EBB_WARN,
                "  it would fit if more could leave: what is in the way is host memory or the driver");
    else if (floor)
        ebb_log(EBB_WARN, "  the smallest budget with a plan for the program's step is %zu MiB",
                needed > floor ? needed : floor);
    else
        ebb_log(EBB_WARN, "  a budget of at least %zu MiB gets past this; what comes later may need more",
                needed);
}

void ebb_report_shortage(ebb_device_t *dev, const ebb_operation_t *op, size_t bytes)
{
    struct ebb_shortage *shortage = dev->run->shortage;
    if (shortage->on || shortage->reports == MOST_REPORTS)
        return;
    shortage->on = true;
    shortage->reports++;
    const ebb_usage_t u = ebb_usage(dev);
    const holders_t h = look_around(dev, op);
    const size_t wanted = op ? h.needed : (bytes + EBB_CHUNK_BYTES - 1) / EBB_CHUNK_BYTES * EBB_CHUNK_BYTES;
    const size_t stays = u.mapped_bytes - h.present - h.may_leave;
    if (op)
        ebb_log(EBB_WARN, "out of memory: an operation on %u buffers needs %.1f MiB of them at once (%s)",
                op->access_count, mib(h.needed), ebb_last_failure());
    else
        ebb_log(EBB_WARN, "out of memory for an allocation of %.1f MiB (%s)", mib(bytes), ebb_last_failure());
    say_holders(dev, op, &h, &u);
    say_advice(dev, &u, wanted, stays);
    if (shortage->reports == MOST_REPORTS)
        ebb_log(EBB_WARN, "  further shortages are not reported");
}

void ebb_shortage_over(ebb_device_t *dev)
{
    dev->run->shortage->on = false;
}

bool ebb_shortage_was(ebb_device_t *dev)
{
    return dev->run->shortage->reports != 0;
}

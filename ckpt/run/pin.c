#include "ckpt/run/run.h"

#include <stdatomic.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

struct ebb_pins {
    atomic_bool keeping;  /* nothing leaves the device */
    ebb_stream_t *stream; /* of ebb's own, on which residence is made: only the host waits for it */
};
const size_t ebb_part_pins = sizeof(struct ebb_pins);

struct ebb_rest {
    atomic_bool keeping; /* nothing leaves any device */
    atomic_bool ended;   /* no plans any more */
    atomic_uint paused;  /* > 0: no plans for now */
};
const size_t ebb_part_rest = sizeof(struct ebb_rest);

/* What plans have given up is made again first, for which something may have to leave. */
void ebb_keep_everything(ebb_t *ebb, const char *why)
{
    ebb_interrupt_all(ebb, why);
    if (!atomic_exchange(&ebb->run_shared->rest->keeping, true))
        ebb_log(EBB_WARN, "from now on nothing leaves the device: %s", why);
}

void ebb_keep_device(ebb_device_t *dev, const char *why)
{
    ebb_run_interrupted(dev, why);
    if (!atomic_exchange(&dev->run->pins->keeping, true))
        ebb_log(EBB_WARN, "from now on nothing leaves device %d: %s", dev->device, why);
}

bool ebb_keeps_everything(ebb_device_t *dev)
{
    return atomic_load_explicit(&dev->ebb->run_shared->rest->keeping, memory_order_relaxed) ||
           atomic_load_explicit(&dev->run->pins->keeping, memory_order_relaxed);
}

bool ebb_end_plans(ebb_t *ebb, const char *why)
{
    if (atomic_exchange(&ebb->run_shared->rest->ended, true))
        return false;
    ebb_log(EBB_INFO, "no plans from now on: %s", why);
    ebb_interrupt_all(ebb, why);
    for (unsigned i = 0; i < ebb->device_count; i++)
        ebb_pinned_expect_nothing(&ebb->device[i]);
    return true;
}

void ebb_run_pause(ebb_t *ebb, bool pause)
{
    atomic_uint *paused = &ebb->run_shared->rest->paused;
    if (pause)
        atomic_fetch_add(paused, 1);
    else if (atomic_load(paused)) /* with ebb_lock() held: no other changes it */
        atomic_fetch_sub(paused, 1);
}

bool ebb_plans_rest(ebb_device_t *dev)
{
    return ebb_keeps_everything(dev) ||
           atomic_load_explicit(&dev->ebb->run_shared->rest->ended, memory_order_relaxed) ||
           atomic_load_explicit(&dev->ebb->run_shared->rest->paused, memory_order_relaxed) ||
           ebb_captures_under_way(dev->ebb);
}

void ebb_interrupt_all(ebb_t *ebb, const char *why)
{
    ebb_visit_t visit;
    for (unsigned i = 0; i < ebb->device_count; i++)
        if (ebb->device[i].context && !ebb_device_visit(&ebb->device[i], &visit)) {
            ebb_run_interrupted(&ebb->device[i], why);
            ebb_device_return(visit);
        }
}

void ebb_buffer_hold(ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    if (!b->pinned++) {
        ebb_run_interrupted(dev, "a buffer must stay where it is");
        b->held++;
    }
}

void ebb_buffer_release(ebb_buffer_t *b)
{
    if (b->pinned && !--b->pinned)
        b->held--;
}

/* What the operation needs, which is none of the program's: it is no part of a step. */
static ebb_status_t bring(ebb_device_t *dev, ebb_operation_t op)
{
    ebb_stream_t *stream = dev->run->pins->stream;
    CUstream handle;
    if (!stream) {
        EBB_DRIVER(cuStreamCreate, 0, (&handle, CU_STREAM_NON_BLOCKING));
        stream = dev->run->pins->stream = ebb_stream_of(dev, handle);
    }
    op.stream = stream;
    ebb_pinned_call_is_final(); /* it may have changed something already */
    EBB_TRY(ebb_residence_acquire(dev, &op));
    CUresult result = ebb_await_stream(ebb_stream_handle(stream));
    ebb_residence_release(&op);
    return (ebb_status_t)result;
}

ebb_status_t ebb_buffer_bring(ebb_buffer_t *b)
{
    ebb_access_t access = {.buffer = b};
    if (b->range->mapped && !b->residence)
        return 0; /* it never left */
    return bring(b->range->device,
                 (ebb_operation_t){.kind = EBB_OTHER, .name = "pin", .access = &access, .access_count = 1});
}

ebb_status_t ebb_bring_everything(ebb_t *ebb, const char *why)
{
    ebb_visit_t visit;
    ebb_interrupt_all(ebb, why);
    for (unsigned i = 0; i < ebb->device_count; i++)
        if (ebb->device[i].context) {
            EBB_TRY(ebb_device_visit(&ebb->device[i], &visit));
            const ebb_status_t status =
                bring(&ebb->device[i], (ebb_operation_t){.kind = EBB_OTHER, .name = "pin", .opaque = true});
            ebb_device_return(visit);
            EBB_TRY(status);
        }
    return 0;
}

ebb_status_t ebb_buffer_pin(ebb_buffer_t *b)
{
    ebb_visit_t visit;
    EBB_TRY(ebb_device_visit(b->range->device, &visit));
    ebb_buffer_hold(b);
    ebb_status_t status = ebb_buffer_bring(b);
    if (status)
        ebb_buffer_release(b);
    ebb_device_return(visit);
    return status;
}

ebb_buffer_t *ebb_pinned_get(ebb_t *ebb, ebb_pinned_ref_t ref)
{
    ebb_buffer_t *b = ebb_buffer_at(ebb, ref.address);
    return b && b->generation == ref.generation ? b : NULL;
}

void ebb_pinned_release(ebb_t *ebb, ebb_pinned_ref_t ref)
{
    ebb_buffer_t *b = ebb_pinned_get(ebb, ref);
    if (b)
        ebb_buffer_release(b);
}

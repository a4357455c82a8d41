#include "ckpt/run/pin.h"

#include <stdatomic.h>

#include "alloc/device.h"
#include "alloc/base/driver.h"
#include "alloc/base/log.h"
#include "alloc/chunk.h"
#include "alloc/mark.h"
#include "ckpt/run/run.h"
#include "offload/pinned.h"

static atomic_bool keeping[EBB_STATES]; /* the last one: on every device */

/* What plans have given up is made again first, for which something may have to leave. */
void ebb_keep_everything(const char *why)
{
    ebb_interrupt_all(why);
    if (!atomic_exchange(&keeping[EBB_NOWHERE], true))
        ebb_log(EBB_WARN, "from now on nothing leaves the device: %s", why);
}

void ebb_keep_device(const char *why)
{
    ebb_run_interrupted(why);
    if (!atomic_exchange(&keeping[ebb_here->number], true))
        ebb_log(EBB_WARN, "from now on nothing leaves device %d: %s", ebb_chunk_device(ebb_here), why);
}

bool ebb_keeps_everything(void)
{
    return atomic_load_explicit(&keeping[EBB_NOWHERE], memory_order_relaxed) ||
           atomic_load_explicit(&keeping[ebb_here->number], memory_order_relaxed);
}

static atomic_bool ended;

void ebb_end_plans(const char *why)
{
    if (!atomic_exchange(&ended, true)) {
        ebb_log(EBB_INFO, "no plans from now on: %s", why);
        ebb_interrupt_all(why);
    }
}

bool ebb_plans_rest(void)
{
    return ebb_keeps_everything() || atomic_load_explicit(&ended, memory_order_relaxed) ||
           ebb_captures_under_way();
}

void ebb_interrupt_all(const char *why)
{
    ebb_visit_t visit;
    for (unsigned slot = 0; slot < ebb_process.device_count; slot++)
        if (ebb_process.device[slot].context && !ebb_slot_visit(slot, &visit)) {
            ebb_run_interrupted(why);
            ebb_slot_return(visit);
        }
}

void ebb_buffer_hold(ebb_buffer_t *b)
{
    if (!b->pinned++) {
        ebb_run_interrupted("a buffer must stay where it is");
        b->held++;
    }
}

void ebb_buffer_release(ebb_buffer_t *b)
{
    if (b->pinned && !--b->pinned)
        b->held--;
}

/* Residence is made on a stream of ebb's own, which nobody waits for but the host. */
static ebb_stream_t *stream_of[EBB_STATES];

static ebb_status_t make_resident(ebb_buffer_t *b)
{
    ebb_stream_t *stream = stream_of[ebb_here->number];
    CUstream handle;
    if (b->range->mapped && !b->residence)
        return 0; /* it never left */
    if (!stream) {
        EBB_DRIVER(cuStreamCreate, 0, (&handle, CU_STREAM_NON_BLOCKING));
        stream = stream_of[ebb_here->number] = ebb_stream_of(ebb_here, handle);
    }
    ebb_access_t access = {.buffer = b};
    ebb_operation_t op = {
        .kind = EBB_OTHER, .name = "pin", .stream = stream, .access = &access, .access_count = 1};
    ebb_pinned_call_is_final(); /* it may have changed something already */
    EBB_TRY(ebb_run_before(&op));
    CUresult result = ebb_driver.cuStreamSynchronize(ebb_stream_handle(stream));
    ebb_run_after(&op, CUDA_ERROR_NOT_READY); /* was none of the program's */
    return (ebb_status_t)result;
}

ebb_status_t ebb_buffer_pin(ebb_buffer_t *b)
{
    ebb_visit_t visit;
    EBB_TRY(ebb_slot_visit(b->range->device->number, &visit));
    ebb_buffer_hold(b);
    ebb_status_t status = make_resident(b);
    if (status)
        ebb_buffer_release(b);
    ebb_slot_return(visit);
    return status;
}

ebb_buffer_t *ebb_pinned_get(ebb_pinned_ref_t ref)
{
    ebb_buffer_t *b = ebb_buffer_at(ebb_here->ebb, ref.address);
    return b && b->generation == ref.generation ? b : NULL;
}

void ebb_pinned_release(ebb_pinned_ref_t ref)
{
    ebb_buffer_t *b = ebb_pinned_get(ref);
    if (b)
        ebb_buffer_release(b);
}

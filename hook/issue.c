/* issue.c: an operation of the program's is issued, everything being there that it touches, on whatever device. */
#include "hook/internal.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/status.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/run.h"

/* On a stream of a context that ebb does not serve: what it touches of ebb's memory can neither be ordered nor be
 * taken away. */
static CUresult issue_outside(ebb_device_t *dev, const ebb_operation_t *op,
                              CUresult (*issue)(const void *context), const void *context)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        if (!op->access[i].buffer->pinned)
            EBB_TRY(ebb_buffer_pin(op->access[i].buffer));
    return ebb_lock_step_out(dev, issue, context);
}

/* Operations on buffers of other devices than the stream's, which are pinned until it is issued; then it counts as a use of them, behind which their
 * own device puts what it does with them. They are known by reference: the program may free one meanwhile that only a word names which means
 * nothing. */
typedef struct peers {
    uint32_t count;
    ebb_pinned_ref_t *ref; /* [count] */
} peers_t;

static bool any_kept(const ebb_operation_t *op)
{
    bool kept = ebb_lock_is_kept(ebb_stream_device(op->stream));
    for (uint32_t i = 0; i < op->access_count && !kept; i++)
        kept = ebb_lock_is_kept(op->access[i].buffer->range->device);
    return kept;
}

/* Of all devices that it is about none is kept any more. What was freed until then it does not touch. */
static ebb_status_t await_devices(ebb_t *ebb, ebb_operation_t *op)
{
    if (!any_kept(op))
        return 0;
    const uint32_t count = op->access_count;
    ebb_pinned_ref_t *ref = malloc((count + 1) * sizeof *ref);
    if (!ref)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "malloc", count * sizeof *ref);
    for (uint32_t i = 0; i < count; i++)
        ref[i] = ebb_pinned_ref(op->access[i].buffer);
    while (any_kept(op)) {
        ebb_lock_device(ebb_stream_device(op->stream));
        op->access_count = 0;
        for (uint32_t i = 0; i < count; i++) {
            const ebb_access_t a = op->access[i];
            const ebb_pinned_ref_t r = ref[i];
            if (!ebb_pinned_get(ebb, r))
                continue;
            op->access[op->access_count] = a;
            ref[op->access_count++] = r;
        }
    }
    free(ref);
    return 0;
}

/* What follows the device's operations is told of the device's own buffers: they get to the front. The operation is not to be repeated if there
 * are others, which nothing of that device's keeps as they are. Returns how many there are. */
static uint32_t own_first(const ebb_device_t *dev, ebb_operation_t *op)
{
    uint32_t own = 0;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (op->access[i].buffer->range->device == dev) {
            const ebb_access_t a = op->access[i];
            memmove(&op->access[own + 1], &op->access[own], (i - own) * sizeof a);
            op->access[own++] = a;
        }
    op->plain &= own == op->access_count;
    return own;
}

static void let_go(ebb_t *ebb, const peers_t *peers)
{
    for (uint32_t i = 0; i < peers->count; i++)
        ebb_pinned_release(ebb, peers->ref[i]);
}

/* [count] accesses. All of them, or none. */
static ebb_status_t bring(ebb_t *ebb, const ebb_access_t *access, uint32_t count, peers_t *peers)
{
    for (; peers->count < count; peers->count++) {
        const ebb_status_t status = ebb_buffer_pin(access[peers->count].buffer);
        if (status) {
            let_go(ebb, peers);
            return status;
        }
        peers->ref[peers->count] = ebb_pinned_ref(access[peers->count].buffer);
    }
    return 0;
}

static void note_use(ebb_device_t *dev, ebb_operation_t *op, const peers_t *peers)
{
    ebb_mark_t mark = ebb_mark_issue(op->stream);
    ebb_operation_touch(dev, op, mark);
    for (uint32_t i = 0; i < peers->count; i++) {
        ebb_buffer_t *b = ebb_pinned_get(dev->ebb, peers->ref[i]);
        if (b) {
            b->peer_used = true;
            b->used_at = b->range->device->heap.operations;
            ebb_buffer_touch(b, mark);
        }
    }
    if (op->opaque)
        ebb_buffers_touch(dev, mark);
}

static CUresult issue_inside(ebb_device_t *dev, ebb_operation_t *op, const peers_t *peers,
                             CUresult (*issue)(const void *context), const void *context)
{
    CUresult result = (CUresult)ebb_run_before(dev, op);
    if (!result) {
        const bool looks_up = op->instead; /* where its arguments are, among what is known of functions */
        if (looks_up)
            ebb_lock_stay(true);
        result = ebb_lock_step_out(dev, issue, context);
        if (looks_up)
            ebb_lock_stay(false);
        if (!result)
            note_use(dev, op, peers);
        ebb_run_after(dev, op, result);
    }
    if (result)
        ebb_run_failed(dev, result);
    return result;
}

/* Where there are several devices. */
static CUresult issue_beside(ebb_device_t *dev, ebb_operation_t *op, CUresult (*issue)(const void *context),
                             const void *context)
{
    EBB_TRY(await_devices(dev->ebb, op));
    const uint32_t all = op->access_count, own = own_first(dev, op);
    peers_t peers = {.ref = all > own ? malloc((all - own) * sizeof *peers.ref) : NULL};
    CUresult result = all == own || peers.ref ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        result = (CUresult)bring(dev->ebb, op->access + own, all - own, &peers);
    if (!result) {
        op->access_count = own;
        result = issue_inside(dev, op, &peers, issue, context);
        op->access_count = all;
        let_go(dev->ebb, &peers);
    }
    free(peers.ref);
    return result;
}

CUresult ebb_issue(ebb_operation_t *op, CUresult (*issue)(const void *context), const void *context)
{
    ebb_device_t *dev = ebb_stream_device(op->stream);
    if (!ebb_is_device(dev) || !ebb_lock_go_to(dev))
        return issue_outside(dev, op, issue, context);
    if (ebb_captures_under_way(dev->ebb) && ebb_is_capturing(ebb_stream_handle(op->stream))) {
        EBB_TRY(ebb_capture_note(op));
        return ebb_lock_step_out(dev, issue,
                                 context); /* the driver refuses what may not be done while capturing */
    }
    return dev->ebb->device_count == 1 ? issue_inside(dev, op, &(peers_t){0}, issue, context)
                                       : issue_beside(dev, op, issue, context);
}

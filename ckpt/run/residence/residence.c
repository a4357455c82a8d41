/* residence.c: which buffers are on the device, decided as need arises: making resident what an operation is about
 * to touch. Making room for it: evict.c. Ahead of time: lookahead.c.
 *
 * A buffer that is not on the device keeps its address range, without chunks.
 */
#include "ckpt/run/residence/internal.h"

#include <stdlib.h>

#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

/* In case that there is no host memory when a plan hands its contents back. */
struct ebb_reserve {
    ebb_residence_t *first; /* through `spare` */
    uint32_t count;
};
const size_t ebb_part_reserve = sizeof(struct ebb_reserve);

ebb_status_t ebb_residence_reserve(ebb_device_t *dev, uint32_t buffers)
{
    struct ebb_reserve *reserve = dev->run->reserve;
    while (reserve->count < buffers) {
        ebb_residence_t *r = calloc(1, sizeof *r);
        if (!r)
            return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *r);
        r->spare = reserve->first;
        reserve->first = r;
        reserve->count++;
    }
    return 0;
}

static ebb_residence_t *take_reserved(ebb_device_t *dev)
{
    struct ebb_reserve *reserve = dev->run->reserve;
    ebb_residence_t *r = reserve->first;
    if (!r)
        return NULL;
    reserve->first = r->spare;
    reserve->count--;
    r->spare = NULL;
    return r;
}

ebb_residence_t *ebb_residence_of(ebb_buffer_t *b)
{
    if (!b->residence)
        b->residence = calloc(1, sizeof(ebb_residence_t));
    return b->residence;
}

/* ---- to the device ---- */

/* Chunks under it, which `stream` may use. */
static ebb_status_t map_for(ebb_buffer_t *b, ebb_stream_t *stream)
{
    if (b->range->mapped)
        return 0;
    return ebb_range_map_for(b->range, stream);
}

ebb_status_t ebb_fetch(ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    ebb_residence_t *r = b->residence;
    ebb_stream_t *in = ebb_copy_stream(dev, EBB_IN);
    if (!in)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "a stream for copies", 0);
    EBB_TRY(map_for(b, in));
    if (r->where == EBB_EMPTY) {
        r->ready = ebb_mark_issue(in); /* others may have used the chunks until here */
        r->where = EBB_RESIDENT;
        return 0;
    }
    ebb_status_t status = ebb_copy_in(b, r->host, &r->ready);
    if (status) {
        /* Its pieces may be on their way. If that can't be waited for it has chunks for nothing: it is on the host. */
        if (!ebb_stall(dev, ebb_mark_here(in)))
            ebb_range_unmap(b->range);
        return status;
    }
    if (r->hashed && r->host.pinned)
        r->kept = r->host;
    else
        ebb_free_host_at(dev, r->host, r->host.pinned ? r->ready : (ebb_mark_t){0});
    r->host = (ebb_host_t){0};
    r->where = EBB_RESIDENT;
    ebb_traffic_counted(dev)->fetches++;
    return 0;
}

/* Resident, and `stream` behind what ebb has done with it. */
static ebb_status_t acquire(ebb_buffer_t *b, ebb_stream_t *stream)
{
    switch (ebb_where(b)) {
    case EBB_LEAVING:
        ebb_stay(b);
        break;
    case EBB_ON_HOST:
    case EBB_EMPTY:
        EBB_TRY(ebb_fetch(b));
        break;
    case EBB_DROPPED:
        EBB_TRY(ebb_residence_restore(b, stream));
        break;
    default:
        break;
    }
    const ebb_residence_t *r = b->residence;
    return r ? ebb_mark_join(stream, r->ready) : 0;
}

/* ---- rebuilding ---- */

ebb_status_t ebb_residence_blank(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_residence_t *r = b->residence;
    EBB_DCHECK(r && r->where == EBB_DROPPED);
    EBB_TRY(map_for(b, stream));
    r->ready = ebb_mark_issue(stream);
    r->where = EBB_RESIDENT;
    r->hashed = false;
    return 0;
}

void ebb_residence_unblank(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_residence_t *r = b->residence;
    if (r->where != EBB_RESIDENT)
        return;
    if (ebb_stall(b->range->device, ebb_mark_here(stream)))
        ebb_log(EBB_WARN, "%s", ebb_last_failure()); /* it keeps its chunks, then */
    else if (b->range->mapped)
        ebb_range_unmap(b->range);
    r->where = EBB_DROPPED;
}

ebb_status_t ebb_residence_used(ebb_buffer_t *b, ebb_mark_t mark)
{
    ebb_residence_t *r = ebb_residence_of(b);
    ebb_buffer_touch(b, mark);
    if (!r) /* no record can hold the mark */
        return ebb_stall(b->range->device, mark);
    r->ready = mark;
    return 0;
}

/* What was made instead was wrong, or could not be made. */
static ebb_status_t bring_copy(ebb_buffer_t *b, ebb_residence_t *r)
{
    ebb_stream_t *in = ebb_copy_stream(b->range->device, EBB_IN);
    r->where = EBB_ON_HOST;
    if (b->range->mapped && in) /* behind the attempt */
        EBB_TRY(ebb_mark_join(in, r->ready));
    return ebb_fetch(b);
}

ebb_status_t ebb_residence_restore(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_residence_t *r = b->residence;
    if (r && r->where == EBB_LEAVING && r->dropping)
        ebb_stay(b);
    if (ebb_where(b) != EBB_DROPPED)
        return 0;
    ebb_status_t status = ebb_recipe_rebuild(b, stream);
    const bool good = !status && (!r->host.at || ebb_recipe_agrees(b));
    if (!good && !r->host.at)
        return status;
    ebb_recipe_dropped(b, false);
    if (!good)
        return bring_copy(b, r);
    if (r->host.at)
        ebb_free_host_at(b->range->device, r->host, r->left);
    r->host = (ebb_host_t){0};
    return 0;
}

void ebb_residence_want(ebb_buffer_t *b, bool wanted)
{
    ebb_residence_t *r = wanted ? ebb_residence_of(b) : b->residence;
    if (r && (wanted || r->wanted))
        r->wanted += wanted ? 1 : -1u;
}

/* What was dropped is rebuilt one by one, with nothing else held: so no more has to fit than the operation itself needs, or one
 * of those that are repeated for it. What is wanted is not dropped again meanwhile, only copied out. */
static ebb_status_t restore_dropped(const ebb_operation_t *op)
{
    ebb_status_t status = 0;
    bool any = false;
    for (uint32_t i = 0; i < op->access_count && !any; i++)
        any = ebb_where(op->access[i].buffer) == EBB_DROPPED;
    if (!any)
        return 0;
    for (uint32_t i = 0; i < op->access_count; i++)
        ebb_residence_want(op->access[i].buffer, true);
    for (uint32_t i = 0; i < op->access_count && !status; i++)
        status = ebb_residence_restore(op->access[i].buffer, op->stream);
    for (uint32_t i = 0; i < op->access_count; i++)
        ebb_residence_want(op->access[i].buffer, false);
    return status;
}

/* ---- operations ---- */

/* Rebuilding may send others away, but drops nothing that is wanted. */
static ebb_status_t restore_all(ebb_device_t *dev, ebb_stream_t *stream)
{
    ebb_status_t status = 0;
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer)
        ebb_residence_want(b, true);
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b && !status; b = b->newer)
        status = ebb_residence_restore(b, stream);
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer)
        ebb_residence_want(b, false);
    return status;
}

/* An opaque operation may touch anything: everything must be there. */
static ebb_status_t acquire_all(ebb_device_t *dev, ebb_stream_t *stream)
{
    EBB_TRY(restore_all(dev, stream));
    ebb_status_t status = 0;
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer)
        b->held++;
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b && !status; b = b->newer)
        status = acquire(b, stream);
    if (status == CUDA_ERROR_OUT_OF_MEMORY && !ebb_pinned_is_wanted())
        ebb_report_shortage(dev, &(ebb_operation_t){.opaque = true}, 0);
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer)
        b->held--;
    return status;
}

/* Holds them. False: of some it is not known that ebb has never moved them. */
static bool hold_unmoved(const ebb_operation_t *op)
{
    bool unmoved = !op->opaque;
    for (uint32_t i = 0; i < op->access_count; i++) {
        ebb_buffer_t *b = op->access[i].buffer;
        b->held++;
        unmoved &= !b->residence;
    }
    return unmoved;
}

ebb_status_t ebb_residence_acquire(ebb_device_t *dev, ebb_operation_t *op)
{
    ebb_residence_prepare(dev);
    if (hold_unmoved(op))
        return 0;
    ebb_residence_release(op);
    ebb_status_t status = restore_dropped(op);
    for (uint32_t i = 0; i < op->access_count; i++)
        op->access[i].buffer->held++;
    for (uint32_t i = 0; i < op->access_count && !status; i++)
        status = acquire(op->access[i].buffer, op->stream);
    if (status == CUDA_ERROR_OUT_OF_MEMORY && !ebb_pinned_is_wanted())
        ebb_report_shortage(dev, op, 0);
    if (!status && op->opaque)
        status = acquire_all(dev, op->stream);
    if (status)
        ebb_residence_release(op);
    return status;
}

void ebb_residence_release(const ebb_operation_t *op)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        op->access[i].buffer->held--;
}

/* ---- handing over to and from a plan ---- */

ebb_status_t ebb_residence_send(ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    ebb_residence_t *r = ebb_residence_of(b);
    if (!r)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *r);
    ebb_clean_forget(b);
    if (r->where == EBB_LEAVING && r->dropping)
        ebb_stay(b);
    r->hashed = r->same = false;
    if (r->where == EBB_RESIDENT)
        EBB_TRY(ebb_leave(b, false));
    if (r->where == EBB_LEAVING)
        EBB_TRY(ebb_vacate(b));
    if (r->where == EBB_ON_HOST && b->range->mapped) { /* for nothing */
        ebb_stream_t *in = ebb_copy_stream(dev, EBB_IN);
        EBB_TRY(in ? ebb_stall(dev, ebb_mark_here(in)) : 0);
        ebb_range_unmap(b->range);
    }
    return r->where == EBB_DROPPED ? ebb_fail(CUDA_ERROR_UNKNOWN, "a dropped content", b->bytes) : 0;
}

ebb_status_t ebb_residence_bring(ebb_buffer_t *b)
{
    ebb_residence_t *r = ebb_residence_of(b);
    if (!r)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *r);
    if (r->where == EBB_LEAVING)
        ebb_stay(b);
    r->hashed = false;
    if (r->where == EBB_ON_HOST || r->where == EBB_EMPTY)
        EBB_TRY(ebb_fetch(b));
    ebb_clean_forget(b);
    return r->where == EBB_DROPPED ? ebb_fail(CUDA_ERROR_UNKNOWN, "a dropped content", b->bytes) : 0;
}

ebb_status_t ebb_residence_pin(ebb_buffer_t *b)
{
    ebb_residence_t *r = b->residence;
    if (r && r->where == EBB_ON_HOST && !ebb_host_pin(b->range->device, &r->host))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pinned host memory", b->bytes);
    return 0;
}

size_t ebb_residence_pinned_bytes(const ebb_buffer_t *b)
{
    const ebb_residence_t *r = b->residence;
    if (!r)
        return 0;
    return (r->host.at && r->host.pinned ? r->host.bytes : 0) +
           (r->kept.at && r->kept.pinned ? r->kept.bytes : 0);
}

bool ebb_residence_give(ebb_buffer_t *b, ebb_host_t *host)
{
    ebb_residence_t *r = b->residence;
    const bool resident = r->where == EBB_RESIDENT;
    EBB_DCHECK(resident || r->where == EBB_EMPTY || (r->where == EBB_ON_HOST && r->host.pinned));
    *host = r->host;
    r->host = (ebb_host_t){0};
    r->where = EBB_RESIDENT; /* or the caller's affair */
    return resident;
}

static void put(ebb_buffer_t *b, ebb_whereabouts_t where, ebb_host_t host)
{
    ebb_device_t *dev = b->range->device;
    EBB_DCHECK(!b->range->mapped);
    if (!ebb_residence_of(b))
        b->residence = take_reserved(dev);
    ebb_residence_t *r = b->residence;
    EBB_ASSERT(r);
    if (!r) {
        ebb_fail_program(dev->ebb);
        return;
    }
    r->host = host;
    r->where = where;
    r->ready = r->left = (ebb_mark_t){0};
    r->hashed = false;
}

void ebb_residence_put(ebb_buffer_t *b, ebb_host_t host)
{
    put(b, host.at ? EBB_ON_HOST : EBB_EMPTY, host);
}

void ebb_residence_put_dropped(ebb_buffer_t *b, ebb_host_t copy)
{
    put(b, EBB_DROPPED, copy);
}

void ebb_residence_forget(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_residence_t *r = b->residence;
    if (!r)
        return;
    ebb_device_t *dev = b->range->device;
    ebb_clean_forget(b);
    if (r->where == EBB_LEAVING)
        ebb_stay(b);
    if (r->host.at)
        ebb_host_free(dev, r->host);
    else if ((!stream || ebb_mark_join(stream, r->ready)) && ebb_stall(dev, r->ready))
        ebb_log(EBB_WARN, "%s", ebb_last_failure());
    free(r);
    b->residence = NULL;
}

void ebb_residence_ended(ebb_device_t *dev)
{
    ebb_collect_hosts(dev);
    ebb_stage_end(dev);
    ebb_pinned_trim(dev);
}

/* residence.c: which buffers are on the device, decided as need arises: fetching what an operation is about
 * to touch. Making room for it: evict.c.
 *
 * A buffer on the host keeps its address range, without chunks.
 */
#include "residence.h"

#include <stdlib.h>

#include "clean.h"
#include "log.h"
#include "pinned.h"
#include "staging.h"
#include "traffic.h"

ebb_residence_t *ebb_residence_of(ebb_buffer_t *b)
{
    if (!b->listener_state)
        b->listener_state = calloc(1, sizeof(ebb_residence_t));
    return b->listener_state;
}

/* ---- fetching ---- */

/* Its pieces may be on their way: what they are to or from must not be taken away before they are over. */
static void wait_for(ebb_direction_t direction)
{
    ebb_stream_t *s = ebb_copy_stream(direction);
    if (s && ebb_stall(ebb_mark_here(s)))
        ebb_log(EBB_WARN, "%s", ebb_last_failure());
}

static ebb_status_t fetch(ebb_buffer_t *b)
{
    ebb_residence_t *r = b->listener_state;
    if (!b->range->mapped) {
        if (!ebb_heap_make_room(b->range->chunk_count))
            return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "fetching a buffer", b->bytes);
        EBB_TRY(ebb_range_map(b->range));
    }
    if (!r || !r->host.at)
        return 0; /* handed over without content */
    ebb_status_t status = ebb_copy_in(b, r->host, &r->ready);
    if (status) {
        wait_for(EBB_IN);
        ebb_range_unmap(b->range); /* if not: it still has a host block, so it does not count as resident */
        return status;
    }
    if (r->hashed && r->host.pinned)
        r->kept = r->host;
    else
        ebb_free_host_at(r->host, b->bytes, r->host.pinned ? r->ready : (ebb_mark_t){0});
    r->host = (ebb_host_t){0};
    ebb_traffic_counters.fetches++;
    return 0;
}

/* Resident, and `stream` behind what brought it. */
static ebb_status_t acquire(ebb_buffer_t *b, CUstream stream)
{
    if (!ebb_is_resident(b))
        EBB_TRY(fetch(b));
    const ebb_residence_t *r = b->listener_state;
    return r ? ebb_mark_join(stream, r->ready) : 0;
}

/* An operation that nobody can see through may touch anything: everything must be there. */
static ebb_status_t acquire_all(CUstream stream)
{
    for (ebb_buffer_t *b = ebb_buffer_oldest(); b; b = b->newer)
        b->held++;
    ebb_status_t status = 0;
    for (ebb_buffer_t *b = ebb_buffer_oldest(); b && !status; b = b->newer)
        status = acquire(b, stream);
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        ebb_report_shortage(&(ebb_operation_t){.opaque = true}, 0);
    for (ebb_buffer_t *b = ebb_buffer_oldest(); b; b = b->newer)
        b->held--;
    return status;
}

ebb_status_t ebb_residence_acquire(ebb_operation_t *op)
{
    CUstream stream = ebb_stream_handle(op->stream);
    ebb_status_t status = 0;
    ebb_residence_prepare();
    for (uint32_t i = 0; i < op->access_count; i++)
        op->access[i].buffer->held++;
    for (uint32_t i = 0; i < op->access_count && !status; i++)
        status = acquire(op->access[i].buffer, stream);
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        ebb_report_shortage(op, 0);
    if (!status && op->opaque)
        status = acquire_all(stream);
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

bool ebb_residence_take(ebb_buffer_t *b, void **host)
{
    ebb_residence_t *r = b->listener_state;
    *host = NULL;
    ebb_clean_forget(b);
    if (!r || !r->host.at)
        return true;
    if (!ebb_host_pin(&r->host, b->bytes))
        return false;
    if (b->range->mapped && ebb_range_unmap(b->range))
        return false;
    *host = r->host.at;
    r->host = (ebb_host_t){0};
    return true;
}

ebb_status_t ebb_residence_put(ebb_buffer_t *b, void *host)
{
    EBB_DCHECK(!b->range->mapped);
    ebb_residence_t *r = ebb_residence_of(b);
    if (!r)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *r);
    r->host = (ebb_host_t){.at = host, .pinned = host != NULL};
    r->ready = (ebb_mark_t){0};
    r->hashed = false;
    return 0;
}

void ebb_residence_forget(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_residence_t *r = b->listener_state;
    if (!r)
        return;
    ebb_clean_forget(b);
    if (r->host.at)
        ebb_host_free(r->host, b->bytes);
    else if (stream && ebb_stream_join(stream, r->ready) && ebb_stall(r->ready))
        ebb_log(EBB_WARN, "%s", ebb_last_failure());
    free(r);
    b->listener_state = NULL;
}

void ebb_residence_waited(void)
{
    ebb_collect_hosts();
}

void ebb_residence_ended(void)
{
    ebb_collect_hosts();
    ebb_stage_end();
    ebb_pinned_trim();
}

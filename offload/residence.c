/* residence.c: which buffers are on the device, decided as need arises.
 *
 * A buffer on the host keeps its address range, without chunks; its content lies in pinned memory. Victims
 * are the large buffers that were not used for the longest time; their copies are issued together, then the
 * host waits once, because mappings must not change under work that is under way.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "options.h"
#include "pinned.h"
#include "traffic.h"

typedef struct residence {
    void *host;       /* the content, while the buffer is not mapped; owned */
    ebb_mark_t ready; /* the buffer's bytes are in place from here on */
} residence_t;

/* Host memory whose copy back is still under way. */
typedef struct leftover {
    void *host;
    size_t bytes;
    ebb_mark_t until;
    struct leftover *next;
} leftover_t;

static leftover_t *leftovers;
ebb_traffic_t ebb_traffic_counters;

ebb_traffic_t ebb_traffic(void)
{
    ebb_traffic_t t = ebb_traffic_counters;
    ebb_pinned_usage_t u = ebb_pinned_usage();
    t.host_bytes = u.allocated_bytes;
    t.host_peak_bytes = u.peak_bytes;
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

static ebb_status_t stall(ebb_mark_t mark)
{
    uint64_t start = now_ns();
    ebb_status_t status = ebb_mark_wait(mark);
    ebb_traffic_counters.stall_ns += now_ns() - start;
    return status;
}

/* ---- host memory ---- */

static void collect_leftovers(void)
{
    for (leftover_t **link = &leftovers; *link;) {
        leftover_t *l = *link;
        if (!ebb_mark_reached(l->until)) {
            link = &l->next;
            continue;
        }
        *link = l->next;
        ebb_pinned_free(l->host, l->bytes);
        free(l);
    }
}

void ebb_residence_waited(void)
{
    collect_leftovers();
}

static void free_host_at(void *host, size_t bytes, ebb_mark_t until)
{
    leftover_t *l = ebb_mark_reached(until) ? NULL : malloc(sizeof *l);
    if (!l) {
        if (ebb_mark_wait(until))
            return; /* better lost than reused too early */
        ebb_pinned_free(host, bytes);
        return;
    }
    *l = (leftover_t){.host = host, .bytes = bytes, .until = until, .next = leftovers};
    leftovers = l;
}

/* ---- eviction ---- */

static bool may_evict(const ebb_buffer_t *b)
{
    return b->range->mapped && !b->held && b->bytes >= (size_t)ebb_options.min_buffer;
}

static residence_t *residence_of(ebb_buffer_t *b)
{
    if (!b->listener_state)
        b->listener_state = calloc(1, sizeof(residence_t));
    return b->listener_state;
}

/* Starts the copy out. */
static ebb_status_t leave(ebb_buffer_t *b, ebb_mark_t *done)
{
    residence_t *r = residence_of(b);
    if (!r)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *r);
    void *host = ebb_pinned_alloc(b->bytes);
    if (!host) {
        collect_leftovers();
        host = ebb_pinned_alloc(b->bytes);
    }
    if (!host)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pinned host memory", b->bytes);
    /* It may have been fetched and not used since. */
    ebb_stream_t *out = ebb_copy_stream(EBB_OUT);
    ebb_status_t status = out ? ebb_mark_join(ebb_stream_handle(out), r->ready) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!status)
        status = ebb_copy_out(b, host, done);
    if (status) {
        ebb_pinned_free(host, b->bytes);
        return status;
    }
    r->host = host;
    ebb_traffic_counters.evictions++;
    return 0;
}

bool ebb_residence_make_room(size_t chunks)
{
    if (!strcmp(ebb_options.policy, "keep") || ebb_keeps_everything())
        return false;
    collect_leftovers();
    ebb_buffer_t *victims = NULL; /* linked through `evicting` */
    size_t gained = ebb_chunks_available();
    chunks += gained;
    ebb_mark_t done = {0};
    ebb_status_t status = 0;
    for (ebb_buffer_t *b = ebb_buffer_oldest(); b && gained < chunks && !status; b = b->newer) {
        if (!may_evict(b))
            continue;
        status = leave(b, &done);
        if (status)
            break;
        b->evicting = victims;
        victims = b;
        gained += b->range->chunk_count;
    }
    if (status)
        ebb_log(EBB_WARN, "%s", ebb_last_failure());
    if (victims && stall(done))
        return false;
    for (ebb_buffer_t *b = victims; b; b = b->evicting)
        if (ebb_range_unmap(b->range))
            ebb_log(EBB_WARN, "%s", ebb_last_failure());
    return ebb_chunks_available() >= chunks;
}

/* ---- fetching ---- */

static ebb_status_t fetch(ebb_buffer_t *b)
{
    residence_t *r = b->listener_state;
    if (!ebb_heap_make_room(b->range->chunk_count))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "fetching a buffer", b->bytes);
    EBB_TRY(ebb_range_map(b->range));
    if (!r || !r->host)
        return 0; /* handed over without content */
    ebb_status_t status = ebb_copy_in(b, r->host, &r->ready);
    if (status) { /* without its content it must not count as resident */
        ebb_range_unmap(b->range);
        return status;
    }
    free_host_at(r->host, b->bytes, r->ready);
    r->host = NULL;
    ebb_traffic_counters.fetches++;
    return 0;
}

/* An operation that nobody can see through may touch anything: everything must be there. */
static ebb_status_t fetch_all(CUstream stream)
{
    for (ebb_buffer_t *b = ebb_buffer_oldest(); b; b = b->newer)
        b->held++;
    ebb_status_t status = 0;
    for (ebb_buffer_t *b = ebb_buffer_oldest(); b; b = b->newer) {
        if (!status && !b->range->mapped)
            status = fetch(b);
        if (!status && b->listener_state)
            status = ebb_mark_join(stream, ((residence_t *)b->listener_state)->ready);
    }
    for (ebb_buffer_t *b = ebb_buffer_oldest(); b; b = b->newer)
        b->held--;
    return status;
}

/* Why an operation cannot run, and what would do. Called while its buffers are held. */
static void explain(const ebb_operation_t *op)
{
    static unsigned said;
    size_t own = 0, evictable = 0;
    for (ebb_buffer_t *b = ebb_buffer_oldest(); b; b = b->newer) {
        if (b->held)
            own += b->range->chunk_count * EBB_CHUNK_BYTES;
        else if (may_evict(b))
            evictable += b->range->chunk_count * EBB_CHUNK_BYTES;
    }
    ebb_usage_t u = ebb_usage();
    for (const ebb_buffer_t *b = ebb_buffer_oldest(); b; b = b->newer)
        if (b->held && b->range->mapped)
            u.mapped_bytes -= b->range->chunk_count * EBB_CHUNK_BYTES;
    if (said++ < 10)
        ebb_log(EBB_WARN,
                "out of memory: %s. An operation on %u buffers needs %zu MiB of them at once beside %zu MiB "
                "that stay; "
                "budget %zu MiB, a budget of %zu MiB would do",
                ebb_last_failure(), op->access_count, own >> 20, (u.mapped_bytes - evictable) >> 20,
                u.budget_bytes >> 20, (own + u.mapped_bytes - evictable) >> 20);
}

ebb_status_t ebb_residence_acquire(ebb_operation_t *op)
{
    CUstream stream = ebb_stream_handle(op->stream);
    ebb_status_t status = 0;
    for (uint32_t i = 0; i < op->access_count; i++)
        op->access[i].buffer->held++;
    for (uint32_t i = 0; i < op->access_count && !status; i++) {
        ebb_buffer_t *b = op->access[i].buffer;
        if (!b->range->mapped)
            status = fetch(b);
        const residence_t *r = b->listener_state;
        if (!status && r)
            status = ebb_mark_join(stream, r->ready);
    }
    if (!status && op->opaque)
        status = fetch_all(stream);
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        explain(op);
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

void *ebb_residence_take(ebb_buffer_t *b)
{
    residence_t *r = b->listener_state;
    void *host = r ? r->host : NULL;
    if (host)
        r->host = NULL;
    return host;
}

ebb_status_t ebb_residence_put(ebb_buffer_t *b, void *host)
{
    EBB_DCHECK(!b->range->mapped);
    residence_t *r = residence_of(b);
    if (!r)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *r);
    r->host = host;
    r->ready = (ebb_mark_t){0};
    return 0;
}

ebb_status_t ebb_residence_evict(ebb_buffer_t *b)
{
    ebb_mark_t done = {0};
    EBB_TRY(leave(b, &done));
    EBB_TRY(stall(done));
    return ebb_range_unmap(b->range);
}

void ebb_residence_forget(ebb_buffer_t *b, ebb_stream_t *stream)
{
    residence_t *r = b->listener_state;
    if (!r)
        return;
    if (r->host)
        ebb_pinned_free(r->host, b->bytes);
    else if (stream && ebb_mark_join(ebb_stream_handle(stream), r->ready))
        ebb_log(EBB_WARN, "%s", ebb_last_failure());
    free(r);
    b->listener_state = NULL;
}

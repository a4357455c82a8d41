/* fuzz_memory.c: see fuzz.h. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

size_t fuzz_chunks(size_t bytes)
{
    return bytes <= FUZZ_SMALL ? 0 : (bytes + FUZZ_CHUNK - 1) / FUZZ_CHUNK * (size_t)FUZZ_CHUNK;
}

void fuzz_count_need(fuzz_worker_t *w, size_t bytes)
{
    if (bytes > w->need && !fuzz_arenas)
        w->need = bytes;
}

/* ---- order ---- */

/* What the default stream's rules do: everything on it is ordered against every blocking stream. */
static bool is_implied(const fuzz_worker_t *w, unsigned a, unsigned b)
{
    return (a == 0 && w->blocking[b]) || (b == 0 && w->blocking[a]);
}

void fuzz_order(fuzz_worker_t *w, fuzz_buffer_t *b, unsigned s, bool write)
{
    fuzz_trace_touch(w, b, write);
    fuzz_arena_touch(w, b);
    if (b->shared)
        return;
    const unsigned own = 1U << s, before = (write ? b->users : b->writer) & ~own;
    for (unsigned t = 0; t < w->streams; t++) {
        if (!(before >> t & 1) || is_implied(w, s, t))
            continue;
        CALL(w, cuEventRecord(w->event[t], w->stream[t]));
        CALL(w, cuStreamWaitEvent(w->stream[s], w->event[t], 0));
    }
    if (write)
        b->users = b->writer = own;
    else
        b->users |= own;
}

fuzz_buffer_t *fuzz_pick(fuzz_worker_t *w, bool write)
{
    if (!w->buffers)
        return NULL;
    /* Mostly a recent one. */
    unsigned from = fuzz_chance(w, 50) && w->buffers > 6 ? w->buffers - 6 : 0;
    fuzz_buffer_t *b = &w->buffer[from + fuzz_below(w, w->buffers - from)];
    return !b->address || (write && b->shared) ? NULL : b;
}

fuzz_buffer_t *fuzz_take(fuzz_worker_t *w, unsigned s, bool write)
{
    fuzz_buffer_t *b = fuzz_pick(w, write);
    if (b)
        fuzz_order(w, b, s, write);
    return b;
}

/* Every copy out has arrived, and host memory may go. */
static void collect_host(fuzz_worker_t *w)
{
    fuzz_host_t *ordered = NULL;
    for (fuzz_host_t *h = w->host, *next; h; h = next) { /* oldest first */
        next = h->next;
        h->next = ordered;
        ordered = h;
    }
    w->host = NULL;
    for (fuzz_host_t *h = ordered, *next; h; h = next) {
        next = h->next;
        if (h->fold) {
            fuzz_trace_copy(w, h);
            w->hash = fuzz_hash(w->hash, h->p, h->bytes);
        }
        if (h->kind == REGISTERED)
            CALL(w, cuMemHostUnregister(h->p));
        if (h->kind == ALLOCATED)
            CALL(w, cuMemFreeHost(h->p));
        else
            free(h->p);
        free(h);
    }
}

void *fuzz_host_memory(fuzz_worker_t *w, size_t bytes, bool fold)
{
    fuzz_host_t *h = calloc(1, sizeof *h);
    if (!h)
        abort();
    h->kind = fuzz_below(w, 4); /* pageable twice as often */
    h->bytes = bytes;
    h->fold = fold;
    h->operation = w->operations;
    if (h->kind == ALLOCATED)
        CALL(w, cuMemHostAlloc(&h->p, bytes, 0));
    else if (!(h->p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)))
        abort();
    if (h->kind == REGISTERED)
        CALL(w, cuMemHostRegister(h->p, bytes, 0));
    h->next = w->host;
    w->host = h;
    return h->p;
}

static void forget_users(fuzz_worker_t *w, unsigned streams)
{
    for (unsigned i = 0; i < w->buffers; i++) {
        w->buffer[i].users &= ~streams;
        w->buffer[i].writer &= ~streams;
    }
}

void fuzz_wait(fuzz_worker_t *w, unsigned s)
{
    CUresult result;
    switch (fuzz_below(w, 4)) {
    case 0:
        CALL(w, cuStreamSynchronize(w->stream[s]));
        break;
    case 1:
        CALL(w, cuEventRecord(w->event[s], w->stream[s]));
        CALL(w, cuEventSynchronize(w->event[s]));
        break;
    case 2:
        CALL(w, cuEventRecord(w->event[s], w->stream[s]));
        while ((result = cuEventQuery(w->event[s])) == CUDA_ERROR_NOT_READY)
            ;
        CALL(w, result);
        break;
    default:
        while ((result = cuStreamQuery(w->stream[s])) == CUDA_ERROR_NOT_READY)
            ;
        if (result) /* by another way, if this one was refused */
            CALL(w, cuStreamSynchronize(w->stream[s]));
    }
    forget_users(w, 1U << s);
}

void fuzz_wait_all(fuzz_worker_t *w)
{
    if (fuzz_chance(w, 50)) {
        CALL(w, cuCtxSynchronize());
    } else {
        for (unsigned s = 0; s < w->streams; s++)
            CALL(w, cuStreamSynchronize(w->stream[s]));
    }
    forget_users(w, ~0U);
    collect_host(w);
}

void fuzz_open_streams(fuzz_worker_t *w)
{
    const unsigned least = fuzz_streams ? 2 : 1;
    const unsigned count = w->lone ? 1 : least + fuzz_below(w, FUZZ_STREAMS - least + 1);
    for (unsigned s = 0; s < count; s++) {
        w->blocking[s] = s && fuzz_chance(w, 40);
        if (s == 1 && w->blocking[s] && fuzz_chance(w, 30))
            w->stream[s] = CU_STREAM_PER_THREAD;
        else if (s)
            CALL(w,
                 cuStreamCreate(&w->stream[s], w->blocking[s] ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
        const unsigned flags = fuzz_chance(w, 50) ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
        CALL(w, cuEventCreate(&w->event[s], flags));
        w->streams = s + 1;
    }
}

void fuzz_close_streams(fuzz_worker_t *w)
{
    for (unsigned s = 0; s < w->streams; s++) {
        if (s && w->stream[s] != CU_STREAM_PER_THREAD)
            CALL(w, cuStreamDestroy(w->stream[s]));
        CALL(w, cuEventDestroy(w->event[s]));
    }
    w->streams = 0;
}

/* ---- buffers ---- */

unsigned fuzz_choose_words(fuzz_worker_t *w, bool large)
{
    if (!large)
        return 1 + fuzz_below(w, fuzz_chance(w, 70) ? FUZZ_SMALL / 256 : FUZZ_SMALL / 4);
    unsigned words = FUZZ_SMALL / 4 + 1 + fuzz_below(w, (unsigned)(w->largest_bytes / 4) - FUZZ_SMALL / 4);
    return fuzz_chance(w, 40) ? (words + FUZZ_CHUNK / 4 - 1) / (FUZZ_CHUNK / 4) * (FUZZ_CHUNK / 4) : words;
}

void fuzz_allocate(fuzz_worker_t *w, bool large)
{
    const unsigned words = fuzz_choose_words(w, large);
    if (w->buffers == FUZZ_BUFFERS)
        return;
    w->buffer[w->buffers++].address = 0;
    fuzz_allocate_at(w, w->buffers - 1, words);
    if (!w->buffer[w->buffers - 1].address)
        w->buffers--;
}

static size_t small_bytes(size_t bytes)
{
    return bytes <= FUZZ_SMALL ? bytes : 0;
}

static void raise_to(size_t *peak, size_t bytes)
{
    *peak = bytes > *peak ? bytes : *peak;
}

static void count_allocated(fuzz_worker_t *w, size_t bytes)
{
    const size_t freeing = fuzz_mean_freeing_bytes(w);
    w->live += bytes;
    if (fuzz_arenas) /* counts segments */
        return;
    w->small += small_bytes(bytes);
    w->chunks += fuzz_chunks(bytes);
    raise_to(&w->peak, w->live + freeing);
    raise_to(&w->small_peak, w->small + small_bytes(freeing));
    raise_to(&w->chunks_peak, w->chunks + fuzz_chunks(freeing));
    fuzz_count_need(w, fuzz_chunks(bytes));
}

void fuzz_allocate_at(fuzz_worker_t *w, unsigned index, unsigned words)
{
    const unsigned s = fuzz_below(w, w->streams), how = fuzz_below(w, 4);
    const size_t bytes = (size_t)words * 4;
    if (w->live + bytes > w->most_bytes)
        return;
    fuzz_buffer_t b = {.words = words, .id = w->next_id++};
    if (fuzz_arenas && !fuzz_arena_take(w, bytes, &b))
        return;
    if (fuzz_arenas)
        ;
    else if (how == 0)
        CALL(w, cuMemAllocAsync(&b.address, bytes, w->stream[s]));
    else if (how == 1 && fuzz_pool)
        CALL(w, cuMemAllocFromPoolAsync(&b.address, bytes, fuzz_pool, w->stream[s]));
    else
        CALL(w, cuMemAlloc(&b.address, bytes));
    b.of_pool = !fuzz_arenas && (how == 0 || (how == 1 && fuzz_pool));
    if (b.of_pool)
        b.users = b.writer = 1U << s;
    fuzz_buffer_t *placed = &w->buffer[index];
    *placed = b;
    count_allocated(w, bytes);
    fuzz_initialise(w, placed, fuzz_below(w, w->streams));
}
void fuzz_free(fuzz_worker_t *w, unsigned index)
{
    fuzz_buffer_t *b = &w->buffer[index];
    const size_t bytes = (size_t)b->words * 4;
    const unsigned s = fuzz_below(w, w->streams);
    if (fuzz_arenas) {
        fuzz_arena_give(w, b);
    } else if (fuzz_chance(w, 60)) {
        fuzz_order(w, b, s, true);
        if (!fuzz_mean_free(w, b, w->stream[s], true))
            CALL(w, cuMemFreeAsync(b->address, w->stream[s]));
    } else if (!fuzz_mean_free(w, b, NULL, false)) {
        CALL(w, cuMemFree(b->address)); /* which waits for whoever uses it */
    }
    w->live -= bytes;
    w->chunks -= fuzz_arenas ? 0 : fuzz_chunks(bytes);
    w->small -= fuzz_arenas ? 0 : small_bytes(bytes);
    if (w->slots) {
        *b = (fuzz_buffer_t){.address = 0};
        return;
    }
    memmove(b, b + 1, (w->buffers - index - 1) * sizeof *b);
    w->buffers--;
}

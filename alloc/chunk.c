#include "chunk.h"

#include <stdlib.h>

#include "driver.h"
#include "mark.h"

/* Free chunks in no order. */
typedef struct chunk_list {
    ebb_chunk_t *chunk; /* [limit] */
    size_t count;
} chunk_list_t;

static struct {
    int device;
    size_t limit;         /* chunks that may exist */
    size_t created, peak; /* that do, and did */
    chunk_list_t idle;    /* nobody uses them */
    chunk_list_t late;    /* in use until their marks, when last asked */
    size_t budget_bytes, overhead_bytes;
} pool;

void ebb_chunks_init(CUdevice device, size_t budget_bytes, size_t others_bytes)
{
    pool.device = device;
    pool.budget_bytes = budget_bytes > others_bytes ? budget_bytes - others_bytes : 0;
    pool.overhead_bytes = others_bytes;
    pool.limit = pool.budget_bytes / EBB_CHUNK_BYTES;
    pool.idle.chunk = calloc(pool.limit + 1, sizeof(ebb_chunk_t));
    pool.late.chunk = calloc(pool.limit + 1, sizeof(ebb_chunk_t));
    if (!pool.idle.chunk || !pool.late.chunk)
        pool.limit = 0;
}

int ebb_chunk_device(void)
{
    return pool.device;
}

size_t ebb_chunks_limit(void)
{
    return pool.limit;
}

size_t ebb_chunks_created(void)
{
    return pool.created;
}

size_t ebb_chunks_free(void)
{
    return pool.idle.count + pool.late.count;
}

/* ---- the two lists ---- */

static void put(chunk_list_t *list, ebb_chunk_t c)
{
    c->free = true;
    c->at = (uint32_t)list->count;
    list->chunk[list->count++] = c;
}

static void remove_from(chunk_list_t *list, ebb_chunk_t c)
{
    ebb_chunk_t last = list->chunk[--list->count];
    list->chunk[c->at] = last;
    last->at = c->at;
    c->free = false;
}

void ebb_chunk_claim(ebb_chunk_t c)
{
    EBB_DCHECK(c->free);
    remove_from(c->at < pool.idle.count && pool.idle.chunk[c->at] == c ? &pool.idle : &pool.late, c);
}

static void give(ebb_chunk_t c)
{
    EBB_DCHECK(!c->free);
    c->holder = NULL;
    put(ebb_mark_reached_lately(c->freed) ? &pool.idle : &pool.late, c);
}

void ebb_chunks_give_back(size_t count, const ebb_chunk_t *chunks)
{
    for (size_t i = 0; i < count; i++)
        give(chunks[i]);
}

void ebb_chunks_give(size_t count, const ebb_chunk_t *chunks)
{
    for (size_t i = 0; i < count; i++) {
        chunks[i]->freed = (ebb_mark_t){0};
        give(chunks[i]);
    }
}

/* Moves those whose marks have been reached since. */
static void settle(void)
{
    ebb_marks_ask_again();
    for (size_t i = pool.late.count; i-- > 0;) {
        ebb_chunk_t c = pool.late.chunk[i];
        if (!ebb_mark_reached_lately(c->freed))
            continue;
        remove_from(&pool.late, c);
        put(&pool.idle, c);
    }
}

size_t ebb_chunks_available(void)
{
    settle();
    return pool.idle.count + (pool.limit - pool.created);
}

void ebb_chunks_wait(size_t chunks)
{
    while (ebb_chunks_available() < chunks && pool.late.count)
        if (ebb_mark_wait(pool.late.chunk[0]->freed))
            return;
}

/* ---- taking ---- */

size_t ebb_chunks_gather(size_t count, const ebb_stream_t *stream, ebb_chunk_t *out)
{
    size_t got = 0;
    /* What only this stream may have comes first. */
    for (size_t i = pool.late.count; i-- > 0 && got < count;) {
        ebb_chunk_t c = pool.late.chunk[i];
        if (!ebb_mark_suits(c->freed, stream))
            continue;
        remove_from(&pool.late, c);
        out[got++] = c;
    }
    while (got < count && pool.idle.count) {
        ebb_chunk_t c = pool.idle.chunk[pool.idle.count - 1];
        remove_from(&pool.idle, c);
        out[got++] = c;
    }
    return got;
}

size_t ebb_chunks_join(size_t count, ebb_stream_t *stream, ebb_chunk_t *out)
{
    size_t got = 0;
    while (got < count && pool.late.count) {
        ebb_chunk_t c = pool.late.chunk[pool.late.count - 1];
        if (ebb_mark_join(ebb_stream_handle(stream), c->freed))
            break;
        remove_from(&pool.late, c);
        out[got++] = c;
    }
    return got;
}

static ebb_status_t create(ebb_chunk_t *out)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pool.device}};
    ebb_chunk_t c = calloc(1, sizeof *c);
    if (!c)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *c);
    int result = ebb_driver.cuMemCreate(&c->handle, EBB_CHUNK_BYTES, &prop, 0);
    if (result) {
        free(c);
        return ebb_fail(result, "cuMemCreate", EBB_CHUNK_BYTES);
    }
    *out = c;
    if (++pool.created > pool.peak)
        pool.peak = pool.created;
    return 0;
}

size_t ebb_chunks_create(size_t count, ebb_chunk_t *out)
{
    size_t got = 0;
    while (got < count && pool.created < pool.limit && !create(&out[got]))
        got++;
    return got;
}

ebb_status_t ebb_chunks_take(size_t count, ebb_chunk_t *out)
{
    if (count > ebb_chunks_available())
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "taking chunks", count * EBB_CHUNK_BYTES);
    size_t got = ebb_chunks_gather(count, NULL, out);
    got += ebb_chunks_create(count - got, out + got);
    if (got == count)
        return 0;
    ebb_chunks_give(got, out); /* the driver has less than the budget says */
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void ebb_chunks_release(void)
{
    settle();
    for (size_t i = pool.idle.count; i-- > 0;) {
        ebb_chunk_t c = pool.idle.chunk[i];
        if (c->ghosts || ebb_driver.cuMemRelease(c->handle))
            continue;
        remove_from(&pool.idle, c);
        free(c);
        pool.created--;
    }
}

ebb_usage_t ebb_chunks_usage(void)
{
    return (ebb_usage_t){.budget_bytes = pool.budget_bytes,
                         .overhead_bytes = pool.overhead_bytes,
                         .created_bytes = pool.created * EBB_CHUNK_BYTES,
                         .peak_bytes = pool.peak * EBB_CHUNK_BYTES,
                         .mapped_bytes = (pool.created - ebb_chunks_free()) * EBB_CHUNK_BYTES};
}

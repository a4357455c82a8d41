#include "alloc/chunk.h"

#include <stdlib.h>

#include <time.h>

#include "alloc/ahead.h"
#include "alloc/base/driver.h"
#include "alloc/base/log.h"
#include "alloc/mark.h"
#include "alloc/overhead.h"
#include "alloc/vmm.h"

/* Ahead of need: one in so many of the chunks that exist, and at most so many. What is reserved beyond what is alive
 * stays small that way. */
enum { AHEAD_SHARE = 128, AHEAD_MOST = 16 };
/* How long it takes until the driver, which had no memory, is asked again. */
enum { REFUSAL_NS = 200 * 1000 * 1000 };

/* Free chunks in no order. */
typedef struct chunk_list {
    ebb_chunk_t *chunk; /* [limit] */
    size_t count;
} chunk_list_t;

static struct {
    int device;           /* the driver's number */
    size_t room;          /* of the lists */
    size_t limit;         /* chunks that may exist */
    size_t ceded;         /* chunks' worth of the budget that others have */
    size_t created, peak; /* that do, or are being created; and did */
    chunk_list_t idle;    /* nobody uses them */
    chunk_list_t late;    /* in use until their marks, when last asked */
    size_t total_bytes;   /* EBB_BUDGET */
    size_t budget_bytes, overhead_bytes;
    size_t least_overhead_bytes; /* what it was at first: a context does not shrink */
    size_t reserve_bytes;
    bool follow;        /* measure the overhead */
    bool ahead;         /* create ahead of need */
    bool wanted;        /* some have been taken since */
    size_t expected;    /* chunks that what is alive needs: ahead is beyond these */
    unsigned under_way; /* being created ahead */
    uint64_t released;  /* counts releases: what is under way then is not wanted any more */
    uint64_t under_way_since;
    uint64_t refused_ns;  /* when the driver last had none; 0: it had */
    ebb_status_t refusal; /* and what it said */
} pools[EBB_STATES];
#define pool (pools[ebb_slot])

static void set_limit(void)
{
    size_t taken = pool.overhead_bytes + pool.ceded * EBB_CHUNK_BYTES;
    pool.budget_bytes = pool.total_bytes > taken ? pool.total_bytes - taken : 0;
    size_t limit = pool.budget_bytes / EBB_CHUNK_BYTES;
    pool.limit = limit < pool.room ? limit : pool.room;
}

void ebb_chunks_init(CUdevice device, size_t budget_bytes, size_t others_bytes)
{
    pool.device = device;
    pool.total_bytes = budget_bytes;
    pool.room = budget_bytes / EBB_CHUNK_BYTES;
    pool.idle.chunk = calloc(pool.room + 1, sizeof(ebb_chunk_t));
    pool.late.chunk = calloc(pool.room + 1, sizeof(ebb_chunk_t));
    if (!pool.idle.chunk || !pool.late.chunk)
        pool.room = 0;
    pool.overhead_bytes = pool.least_overhead_bytes = others_bytes;
    set_limit();
}

void ebb_chunks_follow(size_t reserve_bytes, bool ahead)
{
    pool.follow = true;
    pool.reserve_bytes = reserve_bytes;
    pool.ahead = ahead;
}

void ebb_chunks_measure(void)
{
    if (!pool.follow || pool.under_way)
        return;
    /* What the driver serves itself has been taken off already, perhaps before it is there: NVML's word is not held against it. */
    const size_t before = pool.overhead_bytes, ceded = pool.ceded * EBB_CHUNK_BYTES;
    const ebb_overhead_t now = ebb_overhead(pool.device, pool.created * EBB_CHUNK_BYTES);
    const size_t bytes = (now.bytes > ceded ? now.bytes - ceded : 0) + pool.reserve_bytes;
    pool.overhead_bytes = bytes > pool.least_overhead_bytes ? bytes : pool.least_overhead_bytes;
    set_limit();
    if (pool.overhead_bytes > before && pool.created > pool.limit)
        ebb_log(EBB_INFO, "%zu MiB are held beside ebb's memory now%s, %zu MiB too much of that exists",
                pool.overhead_bytes >> 20, now.of_all ? ", other processes' included" : "",
                (pool.created - pool.limit) * EBB_CHUNK_BYTES >> 20);
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

size_t ebb_chunks_excess(void)
{
    return pool.created > pool.limit ? pool.created - pool.limit : 0;
}

static bool release(ebb_chunk_t c)
{
    if (c->ghosts || ebb_driver.cuMemRelease(c->handle))
        return false;
    remove_from(&pool.idle, c);
    free(c);
    pool.created--;
    pool.refused_ns = 0;
    return true;
}

/* Moves those whose marks have been reached since, and releases what is too much. */
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
    for (size_t i = pool.idle.count; i-- > 0 && ebb_chunks_excess();)
        release(pool.idle.chunk[i]);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* How many may be created. */
static size_t creatable(void)
{
    if (pool.refused_ns && now_ns() - pool.refused_ns > REFUSAL_NS)
        pool.refused_ns = 0;
    return pool.refused_ns || pool.created >= pool.limit ? 0 : pool.limit - pool.created;
}

/* How many of the free ones may be taken: while too many exist, fewer than there are. */
static size_t takeable(size_t free)
{
    size_t excess = ebb_chunks_excess();
    return free > excess ? free - excess : 0;
}

size_t ebb_chunks_available(void)
{
    if (pool.under_way && !creatable()) /* it may be the last one */
        ebb_ahead_collect();
    settle();
    return takeable(pool.idle.count) + creatable();
}

void ebb_chunks_wait(size_t chunks)
{
    while (ebb_chunks_available() < chunks && pool.late.count)
        if (ebb_mark_wait(pool.late.chunk[0]->freed))
            return;
}

/* ---- taking ---- */

size_t ebb_chunks_suiting(const ebb_stream_t *stream)
{
    size_t count = pool.idle.count;
    for (size_t i = 0; i < pool.late.count; i++)
        count += ebb_mark_suits(pool.late.chunk[i]->freed, stream);
    return takeable(count);
}

size_t ebb_chunks_gather(size_t count, const ebb_stream_t *stream, ebb_chunk_t *out)
{
    size_t got = 0, most = takeable(ebb_chunks_free());
    count = count < most ? count : most;
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
    size_t got = 0, most = takeable(ebb_chunks_free());
    count = count < most ? count : most;
    while (got < count && pool.late.count) {
        ebb_chunk_t c = pool.late.chunk[pool.late.count - 1];
        if (ebb_mark_join(ebb_stream_handle(stream), c->freed))
            break;
        remove_from(&pool.late, c);
        out[got++] = c;
    }
    return got;
}

ebb_status_t ebb_chunk_handle(CUdevice device, CUmemGenericAllocationHandle *out)
{
    const CUmemAllocationProp prop = ebb_chunk_properties(device);
    EBB_DRIVER(cuMemCreate, EBB_CHUNK_BYTES, (out, EBB_CHUNK_BYTES, &prop, 0));
    return 0;
}

static void count_created(void)
{
    if (++pool.created > pool.peak)
        pool.peak = pool.created;
}

static bool create(ebb_chunk_t *out)
{
    ebb_chunk_t c = calloc(1, sizeof *c);
    ebb_status_t status = c ? ebb_chunk_handle(pool.device, &c->handle) : CUDA_ERROR_OUT_OF_MEMORY;
    if (status) {
        free(c);
        pool.refused_ns = now_ns();
        pool.refusal = status;
        return false;
    }
    pool.refusal = 0;
    count_created();
    *out = c;
    return true;
}

ebb_status_t ebb_chunks_refusal(void)
{
    size_t free_bytes, total;
    if (pool.refused_ns && pool.refusal)
        return pool.refusal;
    ebb_status_t status = ebb_driver.cuMemGetInfo_v2(&free_bytes, &total);
    return status ? status : CUDA_ERROR_OUT_OF_MEMORY;
}

void ebb_chunks_expect(size_t count)
{
    pool.expected = count;
}

size_t ebb_chunks_create(size_t count, ebb_chunk_t *out)
{
    size_t got = 0;
    if (!count || !creatable())
        return 0;
    ebb_chunks_measure();
    while (got < count && creatable() && create(&out[got]))
        got++;
    if (got && pool.ahead) {
        pool.wanted = true;
        ebb_ahead_wake();
    }
    return got;
}

/* ---- ahead of need (ahead.c) ---- */

bool ebb_chunks_begin_ahead(void)
{
    size_t share = pool.created / AHEAD_SHARE, most = share < AHEAD_MOST ? share : AHEAD_MOST;
    if (!pool.wanted || pool.created >= pool.expected + most || pool.idle.count >= most || !creatable()) {
        pool.wanted = false;
        return false;
    }
    count_created();
    pool.under_way++;
    pool.under_way_since = pool.released;
    return true;
}

void ebb_chunks_end_ahead(const CUmemGenericAllocationHandle *handle)
{
    ebb_chunk_t c = handle ? calloc(1, sizeof *c) : NULL;
    pool.under_way--;
    if (handle && !c)
        ebb_driver.cuMemRelease(*handle);
    if (!c) { /* whoever needs one will see for himself whether the driver has it */
        pool.wanted = false;
        pool.created--;
    } else {
        c->handle = *handle;
        put(&pool.idle, c);
        if (pool.under_way_since != pool.released || ebb_chunks_excess())
            release(c);
    }
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
    return ebb_fail(ebb_chunks_refusal(), "taking chunks", count * EBB_CHUNK_BYTES);
}

void ebb_chunks_release(void)
{
    settle();
    pool.wanted = false;
    pool.released++;
    for (size_t i = pool.idle.count; i-- > 0;)
        release(pool.idle.chunk[i]);
}

bool ebb_chunks_cede(size_t count)
{
    if (count > ebb_chunks_available())
        return false;
    ebb_ahead_collect();
    pool.ceded += count;
    set_limit();
    settle(); /* releases what is too much now */
    if (!ebb_chunks_excess())
        return true;
    ebb_chunks_regain(count);
    return false;
}

void ebb_chunks_regain(size_t count)
{
    pool.ceded -= count;
    set_limit();
}

ebb_usage_t ebb_chunks_usage(void)
{
    return (ebb_usage_t){.budget_bytes = pool.budget_bytes,
                         .overhead_bytes = pool.overhead_bytes + pool.ceded * EBB_CHUNK_BYTES,
                         .created_bytes = pool.created * EBB_CHUNK_BYTES,
                         .peak_bytes = pool.peak * EBB_CHUNK_BYTES,
                         .mapped_bytes = (pool.created - ebb_chunks_free()) * EBB_CHUNK_BYTES};
}

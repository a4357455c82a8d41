#include "alloc/device.h"

#include <stdlib.h>

#include "alloc/base/clock.h"
#include "alloc/base/driver.h"
#include "alloc/base/status.h"

/* Ahead of need: one in so many of the chunks that exist, and at most so many. What is reserved beyond what is alive
 * stays small that way. */
enum { AHEAD_SHARE = 128, AHEAD_MOST = 16 };
/* Kept free for what grows by itself while the program runs, one in so many of the budget's chunks and so many at most: code that is
 * loaded late, the driver's tables for pinned memory (H200, driver 580.159: 16 MiB with 8 GiB of it). Whatever has grown is measured only when NVML shows
 * it, which is too late for the budget. */
enum { HEADROOM_SHARE = 128, HEADROOM_MOST_BYTES = 64 << 20 };
/* How long it takes until the driver, which had no memory, is asked again. */
enum { REFUSAL_NS = 200 * 1000 * 1000 };

static void set_limit(ebb_device_t *dev)
{
    size_t taken = dev->chunks.overhead_bytes + dev->chunks.lent * EBB_CHUNK_BYTES;
    dev->chunks.budget_bytes = dev->chunks.total_bytes > taken ? dev->chunks.total_bytes - taken : 0;
    size_t limit = dev->chunks.budget_bytes / EBB_CHUNK_BYTES;
    dev->chunks.limit = limit < dev->chunks.room ? limit : dev->chunks.room;
}

static size_t headroom(size_t budget_bytes)
{
    const size_t chunks = budget_bytes / EBB_CHUNK_BYTES / HEADROOM_SHARE,
                 most = HEADROOM_MOST_BYTES / EBB_CHUNK_BYTES;
    return (chunks < most ? chunks : most) * EBB_CHUNK_BYTES;
}

size_t ebb_chunks_with_headroom(size_t bytes)
{
    return bytes + headroom(bytes + bytes / (HEADROOM_SHARE / 2));
}

/* Beside `held` bytes that are not ebb's, once they are followed. */
static void keep_headroom(ebb_device_t *dev, size_t held)
{
    dev->chunks.headroom_bytes = dev->chunks.follow ? headroom(dev->chunks.total_bytes) : 0;
    dev->chunks.overhead_bytes = held + dev->chunks.headroom_bytes;
    set_limit(dev);
}

void ebb_chunks_init(ebb_device_t *dev, size_t budget_bytes, size_t others_bytes)
{
    dev->chunks.total_bytes = budget_bytes;
    dev->chunks.room = budget_bytes / EBB_CHUNK_BYTES;
    dev->chunks.idle.chunk = calloc(dev->chunks.room + 1, sizeof(ebb_chunk_t));
    dev->chunks.late.chunk = calloc(dev->chunks.room + 1, sizeof(ebb_chunk_t));
    if (!dev->chunks.idle.chunk || !dev->chunks.late.chunk)
        dev->chunks.room = 0;
    dev->chunks.overhead_bytes = dev->chunks.least_overhead_bytes = others_bytes;
    set_limit(dev);
}

void ebb_chunks_budget(ebb_device_t *dev, size_t budget_bytes)
{
    dev->chunks.total_bytes = budget_bytes;
    keep_headroom(dev, dev->chunks.overhead_bytes - dev->chunks.headroom_bytes);
}

void ebb_chunks_forget_peak(ebb_device_t *dev)
{
    dev->chunks.peak = dev->chunks.created;
}

void ebb_chunks_follow(ebb_device_t *dev, size_t reserve_bytes, bool ahead)
{
    dev->chunks.follow = true;
    dev->chunks.reserve_bytes = reserve_bytes;
    dev->chunks.ahead = ahead;
    keep_headroom(dev, dev->chunks.overhead_bytes);
}

void ebb_chunks_measure(ebb_device_t *dev)
{
    if (!dev->chunks.follow || dev->chunks.under_way)
        return;
    /* What the driver serves itself has been taken off already, perhaps before it is there: NVML's word is not held against it. */
    const size_t before = dev->chunks.overhead_bytes, lent = dev->chunks.lent * EBB_CHUNK_BYTES;
    const ebb_overhead_t now = ebb_overhead(dev->ebb, dev->device, dev->chunks.created * EBB_CHUNK_BYTES);
    const size_t bytes = (now.bytes > lent ? now.bytes - lent : 0) + dev->chunks.reserve_bytes,
                 held = bytes > dev->chunks.least_overhead_bytes ? bytes : dev->chunks.least_overhead_bytes,
                 free_bytes = headroom(dev->chunks.total_bytes);
    /* What grows within half of the headroom takes nothing from the program: no buffer leaves, and no plan ends for it. */
    if (held + free_bytes / 2 > before || held + free_bytes < before)
        keep_headroom(dev, held);
    else
        dev->chunks.headroom_bytes = before - held;
    if (dev->chunks.overhead_bytes > before && dev->chunks.created > dev->chunks.limit)
        ebb_log(EBB_INFO, "what ebb does not own has grown to %zu MiB%s: %zu MiB of the program's must leave",
                held >> 20, now.of_all ? ", other processes' included" : "",
                (dev->chunks.created - dev->chunks.limit) * EBB_CHUNK_BYTES >> 20);
}

size_t ebb_chunks_limit(ebb_device_t *dev)
{
    return dev->chunks.limit;
}

size_t ebb_chunks_created(ebb_device_t *dev)
{
    return dev->chunks.created;
}

size_t ebb_chunks_free(ebb_device_t *dev)
{
    return dev->chunks.idle.count + dev->chunks.late.count;
}

/* ---- the two lists ---- */

static void put(ebb_chunk_list_t *list, ebb_chunk_t c)
{
    c->free = true;
    c->at = (uint32_t)list->count;
    list->chunk[list->count++] = c;
}

static void remove_from(ebb_chunk_list_t *list, ebb_chunk_t c)
{
    ebb_chunk_t last = list->chunk[--list->count];
    list->chunk[c->at] = last;
    last->at = c->at;
    c->free = false;
}

void ebb_chunk_claim(ebb_device_t *dev, ebb_chunk_t c)
{
    EBB_DCHECK(c->free);
    remove_from(c->at < dev->chunks.idle.count && dev->chunks.idle.chunk[c->at] == c ? &dev->chunks.idle
                                                                                     : &dev->chunks.late,
                c);
}

static void give(ebb_device_t *dev, ebb_chunk_t c)
{
    EBB_DCHECK(!c->free);
    c->holder = NULL;
    put(ebb_mark_reached_lately(c->freed) ? &dev->chunks.idle : &dev->chunks.late, c);
}

void ebb_chunks_give_back(ebb_device_t *dev, size_t count, const ebb_chunk_t *chunks)
{
    for (size_t i = 0; i < count; i++)
        give(dev, chunks[i]);
}

void ebb_chunks_give(ebb_device_t *dev, size_t count, const ebb_chunk_t *chunks)
{
    for (size_t i = 0; i < count; i++) {
        chunks[i]->freed = (ebb_mark_t){0};
        give(dev, chunks[i]);
    }
}

size_t ebb_chunks_excess(ebb_device_t *dev)
{
    return dev->chunks.created > dev->chunks.limit ? dev->chunks.created - dev->chunks.limit : 0;
}

static bool release(ebb_device_t *dev, ebb_chunk_t c)
{
    if (c->ghosts || ebb_driver.cuMemRelease(c->handle))
        return false;
    remove_from(&dev->chunks.idle, c);
    free(c);
    dev->chunks.created--;
    dev->chunks.refused_ns = 0;
    return true;
}

/* Moves those whose marks have been reached since, and releases what is too much. */
static void settle(ebb_device_t *dev)
{
    ebb_marks_ask_again(dev->ebb);
    for (size_t i = dev->chunks.late.count; i-- > 0;) {
        ebb_chunk_t c = dev->chunks.late.chunk[i];
        if (!ebb_mark_reached_lately(c->freed))
            continue;
        remove_from(&dev->chunks.late, c);
        put(&dev->chunks.idle, c);
    }
    for (size_t i = dev->chunks.idle.count; i-- > 0 && ebb_chunks_excess(dev);)
        release(dev, dev->chunks.idle.chunk[i]);
}

/* How many may be created. */
static size_t creatable(ebb_device_t *dev)
{
    if (dev->chunks.refused_ns && ebb_now_ns() - dev->chunks.refused_ns > REFUSAL_NS)
        dev->chunks.refused_ns = 0;
    return dev->chunks.refused_ns || dev->chunks.created >= dev->chunks.limit
               ? 0
               : dev->chunks.limit - dev->chunks.created;
}

/* How many of the free ones may be taken: while too many exist, fewer than there are. */
static size_t takeable(ebb_device_t *dev, size_t free)
{
    size_t excess = ebb_chunks_excess(dev);
    return free > excess ? free - excess : 0;
}

size_t ebb_chunks_available(ebb_device_t *dev)
{
    if (dev->chunks.under_way && !creatable(dev)) /* it may be the last one */
        ebb_ahead_collect(dev);
    settle(dev);
    return takeable(dev, dev->chunks.idle.count) + creatable(dev);
}

void ebb_chunks_wait(ebb_device_t *dev, size_t chunks)
{
    while (ebb_chunks_available(dev) < chunks && dev->chunks.late.count)
        if (ebb_mark_wait(dev->chunks.late.chunk[0]->freed))
            return;
}

/* ---- taking ---- */

size_t ebb_chunks_suiting(ebb_device_t *dev, const ebb_stream_t *stream)
{
    size_t count = dev->chunks.idle.count;
    for (size_t i = 0; i < dev->chunks.late.count; i++)
        count += ebb_mark_suits(dev->chunks.late.chunk[i]->freed, stream);
    return takeable(dev, count);
}

size_t ebb_chunks_gather(ebb_device_t *dev, size_t count, const ebb_stream_t *stream, ebb_chunk_t *out)
{
    size_t got = 0, most = takeable(dev, ebb_chunks_free(dev));
    count = count < most ? count : most;
    /* What only this stream may have comes first. */
    for (size_t i = dev->chunks.late.count; i-- > 0 && got < count;) {
        ebb_chunk_t c = dev->chunks.late.chunk[i];
        if (!ebb_mark_suits(c->freed, stream))
            continue;
        remove_from(&dev->chunks.late, c);
        out[got++] = c;
    }
    while (got < count && dev->chunks.idle.count) {
        ebb_chunk_t c = dev->chunks.idle.chunk[dev->chunks.idle.count - 1];
        remove_from(&dev->chunks.idle, c);
        out[got++] = c;
    }
    return got;
}

size_t ebb_chunks_join(ebb_device_t *dev, size_t count, ebb_stream_t *stream, ebb_chunk_t *out)
{
    size_t got = 0, most = takeable(dev, ebb_chunks_free(dev));
    count = count < most ? count : most;
    while (got < count && dev->chunks.late.count) {
        ebb_chunk_t c = dev->chunks.late.chunk[dev->chunks.late.count - 1];
        if (ebb_mark_join(stream, c->freed))
            break;
        remove_from(&dev->chunks.late, c);
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

static void count_created(ebb_device_t *dev)
{
    if (++dev->chunks.created > dev->chunks.peak)
        dev->chunks.peak = dev->chunks.created;
}

static bool create(ebb_device_t *dev, ebb_chunk_t *out)
{
    ebb_chunk_t c = calloc(1, sizeof *c);
    ebb_status_t status = c ? ebb_chunk_handle(dev->device, &c->handle) : CUDA_ERROR_OUT_OF_MEMORY;
    if (status) {
        free(c);
        dev->chunks.refused_ns = ebb_now_ns();
        dev->chunks.refusal = status;
        return false;
    }
    dev->chunks.refusal = 0;
    count_created(dev);
    *out = c;
    return true;
}

ebb_status_t ebb_chunks_refusal(ebb_device_t *dev)
{
    size_t free_bytes, total;
    if (dev->chunks.refused_ns && dev->chunks.refusal)
        return dev->chunks.refusal;
    ebb_status_t status = ebb_driver.cuMemGetInfo_v2(&free_bytes, &total);
    return status ? status : CUDA_ERROR_OUT_OF_MEMORY;
}

void ebb_chunks_expect(ebb_device_t *dev, size_t count)
{
    dev->chunks.expected = count;
}

size_t ebb_chunks_create(ebb_device_t *dev, size_t count, ebb_chunk_t *out)
{
    size_t got = 0;
    if (!count || !creatable(dev))
        return 0;
    ebb_chunks_measure(dev);
    while (got < count && creatable(dev) && create(dev, &out[got]))
        got++;
    if (got && dev->chunks.ahead) {
        dev->chunks.wanted = true;
        ebb_ahead_wake(dev);
    }
    return got;
}

/* ---- ahead of need (ahead.c) ---- */

bool ebb_chunks_begin_ahead(ebb_device_t *dev)
{
    size_t share = dev->chunks.created / AHEAD_SHARE, most = share < AHEAD_MOST ? share : AHEAD_MOST;
    if (!dev->chunks.wanted || dev->chunks.created >= dev->chunks.expected + most ||
        dev->chunks.idle.count >= most || !creatable(dev)) {
        dev->chunks.wanted = false;
        return false;
    }
    count_created(dev);
    dev->chunks.under_way++;
    dev->chunks.under_way_since = dev->chunks.released;
    return true;
}

void ebb_chunks_end_ahead(ebb_device_t *dev, const CUmemGenericAllocationHandle *handle)
{
    ebb_chunk_t c = handle ? calloc(1, sizeof *c) : NULL;
    dev->chunks.under_way--;
    if (handle && !c)
        ebb_driver.cuMemRelease(*handle);
    if (!c) { /* the next request asks the driver itself */
        dev->chunks.wanted = false;
        dev->chunks.created--;
    } else {
        c->handle = *handle;
        put(&dev->chunks.idle, c);
        if (dev->chunks.under_way_since != dev->chunks.released || ebb_chunks_excess(dev))
            release(dev, c);
    }
}

ebb_status_t ebb_chunks_take(ebb_device_t *dev, size_t count, ebb_chunk_t *out)
{
    if (count > ebb_chunks_available(dev))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "taking chunks", count * EBB_CHUNK_BYTES);
    size_t got = ebb_chunks_gather(dev, count, NULL, out);
    got += ebb_chunks_create(dev, count - got, out + got);
    if (got == count)
        return 0;
    ebb_chunks_give(dev, got, out); /* the driver has less than the budget says */
    return ebb_fail(ebb_chunks_refusal(dev), "taking chunks", count * EBB_CHUNK_BYTES);
}

void ebb_chunks_release(ebb_device_t *dev)
{
    settle(dev);
    dev->chunks.wanted = false;
    dev->chunks.released++;
    for (size_t i = dev->chunks.idle.count; i-- > 0;)
        release(dev, dev->chunks.idle.chunk[i]);
}

bool ebb_chunks_lend(ebb_device_t *dev, size_t count)
{
    if (count > ebb_chunks_available(dev))
        return false;
    ebb_ahead_collect(dev);
    dev->chunks.lent += count;
    set_limit(dev);
    settle(dev); /* releases what is too much now */
    if (!ebb_chunks_excess(dev))
        return true;
    ebb_chunks_regain(dev, count);
    return false;
}

void ebb_chunks_regain(ebb_device_t *dev, size_t count)
{
    dev->chunks.lent -= count;
    set_limit(dev);
}

ebb_usage_t ebb_chunks_usage(ebb_device_t *dev)
{
    return (ebb_usage_t){.budget_bytes = dev->chunks.budget_bytes,
                         .overhead_bytes = dev->chunks.overhead_bytes + dev->chunks.lent * EBB_CHUNK_BYTES,
                         .headroom_bytes = dev->chunks.headroom_bytes,
                         .created_bytes = dev->chunks.created * EBB_CHUNK_BYTES,
                         .peak_bytes = dev->chunks.peak * EBB_CHUNK_BYTES,
                         .mapped_bytes =
                             (dev->chunks.created - dev->chunks.under_way - ebb_chunks_free(dev)) *
                             EBB_CHUNK_BYTES};
}

/* spare.c: what becomes of the ranges of freed buffers.
 *
 *   spare  mapped, unowned, and its chunks are its own: the next request of its size takes it as it is, which
 *          a training loop is sure to make
 *   ghost  still mapped, but its chunks are no longer its own: they are in the pool, or under another range
 *
 * A request of another size takes chunks away from the spares that have waited longest and maps them a second
 * time, under a new range. That needs no waiting where the stream is the same: what was issued on the old range
 * comes before what will be issued on the new one, and no new work uses the old one. It leaves a ghost
 * behind, which becomes a range again when its size is asked for and all its chunks are to be had. So a program
 * whose sizes come and go settles into a set of ranges over the same chunks, with no mapping calls at all, and no
 * more memory than it has alive at its peak. Without this, spares would have to be unmapped, which only work that
 * is over allows, or new memory be created beside them.
 *
 * Not every program settles: one range can be put together from other chunks in each step for ever (GPT-2's logits in PyTorch, 1572 chunks,
 * for which an H200 needed as long as for the rest of the step). One that goes on mapping gets new chunks, as long as the budget has them.
 */
#include "alloc/internal.h"

#include "alloc/device.h"

/* Mappings that ghosts may keep (each is a mapping of the process on the software device, of which there are 65,530),
 * and how many of a size are looked at. */
enum { GHOST_CHUNKS = 16384, GHOST_TRIES = 16 };
/* Beyond what was ever alive at once, one in so many is created rather than taken from a spare. */
enum { SLACK = 64 };
/* When so many times the chunks that exist have been mapped, a range gets new ones. The first step maps each of them once. A chunk's
 * access takes 30 us, unmapping it 20, creating it 12 (bench/gpu_costs.c; H200, driver 580.159). */
enum { UNSETTLED = 2 };

/* ---- lists ---- */

static size_t class_of(size_t chunk_count)
{
    return chunk_count < EBB_EXACT_CHUNKS ? chunk_count : EBB_EXACT_CHUNKS + chunk_count % EBB_SHARED_CLASSES;
}

static void link_range(ebb_range_list_t *list, ebb_range_t *r)
{
    ebb_range_t **head = &list->of_class[class_of(r->chunk_count)];
    r->prev = NULL;
    r->next = *head;
    if (*head)
        (*head)->prev = r;
    *head = r;
    r->older = list->newest;
    r->newer = NULL;
    *(list->newest ? &list->newest->newer : &list->oldest) = r;
    list->newest = r;
    list->chunks += r->chunk_count;
}

static void unlink_range(ebb_range_list_t *list, ebb_range_t *r)
{
    *(r->prev ? &r->prev->next : &list->of_class[class_of(r->chunk_count)]) = r->next;
    if (r->next)
        r->next->prev = r->prev;
    *(r->newer ? &r->newer->older : &list->newest) = r->older;
    *(r->older ? &r->older->newer : &list->oldest) = r->newer;
    r->next = r->prev = r->newer = r->older = NULL;
    list->chunks -= r->chunk_count;
}

/* ---- ghosts ---- */

static void drop_ghost(ebb_range_t *r)
{
    ebb_device_t *dev = r->device;
    unlink_range(&dev->spare.ghosts, r);
    ebb_range_unmap_from(r);
    for (uint32_t i = 0; i < r->chunk_count; i++)
        r->chunk[i]->ghosts--;
    ebb_range_delete(r);
}

static void limit_ghosts(ebb_device_t *dev, size_t most, bool wait)
{
    for (ebb_range_t *r = dev->spare.ghosts.oldest, *next; r && dev->spare.ghosts.chunks > most; r = next) {
        next = r->newer;
        if (wait ? ebb_mark_wait(r->freed) != 0 : !ebb_mark_reached_lately(r->freed))
            continue;
        drop_ghost(r);
    }
    ebb_arena_clear(dev);
}

/* A spare loses its chunks to the pool. */
static void break_spare(ebb_range_t *r)
{
    ebb_device_t *dev = r->device;
    unlink_range(&dev->spare.spares, r);
    r->spare = r->holds = false;
    for (uint32_t i = 0; i < r->chunk_count; i++) {
        r->chunk[i]->ghosts++;
        r->chunk[i]->freed = r->freed;
    }
    ebb_chunks_give_back(dev, r->chunk_count, r->chunk);
    link_range(&dev->spare.ghosts, r);
}

/* Can the stream have all chunks of a ghost? */
static bool may_rise(const ebb_range_t *r, const ebb_stream_t *stream)
{
    for (uint32_t i = 0; i < r->chunk_count; i++) {
        const struct ebb_chunk *c = r->chunk[i];
        const ebb_range_t *spare = c->holder && c->holder->spare ? c->holder : NULL;
        if (!c->free && !spare)
            return false;
        if (!ebb_mark_suits(spare ? spare->freed : c->freed, stream))
            return false;
    }
    return true;
}

static ebb_range_t *take_ghost(ebb_device_t *dev, size_t chunk_count, const ebb_stream_t *stream)
{
    unsigned tried = 0;
    ebb_range_t *r = dev->spare.ghosts.of_class[class_of(chunk_count)];
    for (; r && tried < GHOST_TRIES; r = r->next) {
        if (r->chunk_count != chunk_count)
            continue;
        if (may_rise(r, stream))
            break;
        tried++;
    }
    if (!r || tried == GHOST_TRIES)
        return NULL;
    unlink_range(&dev->spare.ghosts, r);
    for (uint32_t i = 0; i < chunk_count; i++) {
        if (!r->chunk[i]->free)
            break_spare(r->chunk[i]->holder);
        ebb_chunk_claim(dev, r->chunk[i]);
        r->chunk[i]->ghosts--;
    }
    return r;
}

/* ---- spares ---- */

static ebb_range_t *take_spare(ebb_device_t *dev, size_t chunk_count, const ebb_stream_t *stream)
{
    for (ebb_range_t *r = dev->spare.spares.of_class[class_of(chunk_count)]; r; r = r->next) {
        if (r->chunk_count != chunk_count || !ebb_mark_suits(r->freed, stream))
            continue;
        unlink_range(&dev->spare.spares, r);
        r->spare = false;
        return r;
    }
    return NULL;
}

void ebb_spare_give(ebb_range_t *r, ebb_mark_t at)
{
    ebb_device_t *dev = r->device;
    r->freed = at;
    for (uint32_t i = 0; !r->holds && i < r->chunk_count; i++)
        r->chunk[i]->holder = r;
    r->spare = r->holds = true;
    link_range(&dev->spare.spares, r);
}

size_t ebb_spare_ghosts(ebb_device_t *dev)
{
    return dev->spare.ghosts.chunks;
}

void ebb_spare_reclaim(ebb_device_t *dev, size_t chunks, bool wait)
{
    if (wait)
        ebb_chunks_wait(dev, chunks);
    ebb_marks_ask_again(dev->ebb);
    size_t available = ebb_chunks_available(dev);
    for (ebb_range_t *r = dev->spare.spares.oldest, *next; r && available < chunks; r = next) {
        next = r->newer;
        if (wait ? ebb_mark_wait(r->freed) != 0 : !ebb_mark_reached_lately(r->freed))
            continue;
        available += r->chunk_count;
        break_spare(r);
    }
    if (chunks == SIZE_MAX || ebb_chunks_excess(dev))
        limit_ghosts(dev, 0, wait);
}

void ebb_spare_drop_ghosts(ebb_device_t *dev, bool wait)
{
    ebb_marks_ask_again(dev->ebb);
    limit_ghosts(dev, 0, wait);
}

/* ---- chunks for a new range ---- */

typedef struct wanted {
    size_t count, got;
    ebb_stream_t *stream;
    ebb_chunk_t *out;
} wanted_t;

static void gather(ebb_device_t *dev, wanted_t *w)
{
    w->got += ebb_chunks_gather(dev, w->count - w->got, w->stream, w->out + w->got);
}

static void create(ebb_device_t *dev, wanted_t *w, size_t most)
{
    size_t missing = w->count - w->got;
    w->got += ebb_chunks_create(dev, missing < most ? missing : most, w->out + w->got);
}

/* Takes chunks from the spares that have waited longest. */
static void steal(ebb_device_t *dev, wanted_t *w)
{
    for (ebb_range_t *r = dev->spare.spares.oldest, *next; r && w->got < w->count; r = next) {
        next = r->newer;
        if (!ebb_mark_suits(r->freed, w->stream))
            continue;
        break_spare(r);
        gather(dev, w);
    }
}

/* The same from what is in use on other streams: this one waits for them. (So do the driver's own pools:
 * CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES.) */
static void steal_from_others(ebb_device_t *dev, wanted_t *w)
{
    size_t before = w->got;
    for (;;) {
        w->got += ebb_chunks_join(dev, w->count - w->got, w->stream, w->out + w->got);
        if (w->got == w->count || !dev->spare.spares.oldest)
            break;
        break_spare(dev->spare.spares.oldest);
        gather(dev, w);
    }
    /* What the stream has been given so far is over only when that wait is. */
    if (w->got > before)
        ebb_mark_issue(w->stream);
}

static size_t owned(ebb_device_t *dev)
{
    return ebb_chunks_created(dev) - ebb_chunks_free(dev) - dev->spare.spares.chunks;
}

/* How many chunks may exist without being too many for what is alive. */
static size_t enough(ebb_device_t *dev, size_t more)
{
    size_t most = owned(dev) + more > dev->spare.most_owned ? owned(dev) + more : dev->spare.most_owned;
    return most + most / SLACK;
}

/* What the stream may have without waiting, and without anything leaving the device. */
static void take_at_once(ebb_device_t *dev, wanted_t *w)
{
    gather(dev, w);
    size_t most = enough(dev, w->count - w->got), created = ebb_chunks_created(dev);
    ebb_chunks_expect(dev, most);
    if (w->got < w->count && most > created)
        create(dev, w, most - created);
    if (w->got < w->count)
        steal(dev, w);
    if (w->got < w->count)
        create(dev, w, SIZE_MAX);
    if (w->got < w->count && ebb_ahead_collect(dev))
        gather(dev, w);
}

static void note_owned(ebb_device_t *dev)
{
    if (owned(dev) > dev->spare.most_owned)
        dev->spare.most_owned = owned(dev);
}

/* The rest of what is wanted; or an error, and what there was goes back. Of more than the budget there is nothing yet. */
static ebb_status_t take(ebb_device_t *dev, wanted_t w)
{
    if (w.count > ebb_chunks_limit(dev))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "an allocation above the budget",
                        w.count * EBB_CHUNK_BYTES);
    take_at_once(dev, &w);
    if (w.got < w.count && w.stream)
        steal_from_others(dev, &w);
    if (w.got < w.count && ebb_heap_make_room(dev, w.count - w.got)) {
        gather(dev, &w);
        create(dev, &w, SIZE_MAX);
    }
    if (w.got < w.count) {
        ebb_chunks_give_back(dev, w.got, w.out);
        return ebb_fail(ebb_chunks_refusal(dev), "an allocation", w.count * EBB_CHUNK_BYTES);
    }
    note_owned(dev);
    return 0;
}

ebb_status_t ebb_spare_chunks(ebb_device_t *dev, size_t count, ebb_stream_t *stream, ebb_chunk_t *out)
{
    return take(dev, (wanted_t){count, 0, stream, out});
}

size_t ebb_spare_at_once(ebb_device_t *dev, const ebb_stream_t *stream)
{
    size_t count = ebb_chunks_suiting(dev, stream);
    for (const ebb_range_t *r = dev->spare.spares.oldest; r; r = r->newer)
        count += ebb_mark_suits(r->freed, stream) ? r->chunk_count : 0;
    return count;
}

bool ebb_range_map_at_once(ebb_range_t *r, ebb_stream_t *stream)
{
    ebb_device_t *dev = r->device;
    wanted_t w = {r->chunk_count, 0, stream, r->chunk};
    ebb_marks_ask_again(dev->ebb);
    take_at_once(dev, &w);
    if (w.got == w.count && !ebb_range_map_on(r, r->chunk)) {
        note_owned(dev);
        return true;
    }
    ebb_chunks_give_back(dev, w.got, r->chunk);
    return false;
}

size_t ebb_chunks_unowned(ebb_device_t *dev)
{
    size_t limit = ebb_chunks_limit(dev), taken = owned(dev);
    return limit > taken ? limit - taken : 0;
}

ebb_status_t ebb_range_map_for(ebb_range_t *r, ebb_stream_t *stream)
{
    ebb_device_t *dev = r->device;
    EBB_TRY(ebb_range_clear(r));
    EBB_TRY(ebb_spare_chunks(dev, r->chunk_count, stream, r->chunk));
    ebb_status_t status = ebb_range_map_on(r, r->chunk);
    if (status)
        ebb_chunks_give_back(dev, r->chunk_count, r->chunk);
    return status;
}

bool ebb_spare_take_whole(ebb_device_t *dev, size_t chunk_count, const ebb_stream_t *stream,
                          ebb_range_t **out)
{
    ebb_marks_ask_again(dev->ebb);
    return (*out = take_spare(dev, chunk_count, stream)) || (*out = take_ghost(dev, chunk_count, stream));
}

/* Now and then, of a program that does not settle, new chunks, as many as are wanted and may exist. */
static void create_for_unsettled(ebb_device_t *dev, wanted_t *w)
{
    if (dev->spare.mapped <= UNSETTLED * ebb_chunks_created(dev) || w->count > ebb_chunks_limit(dev))
        return;
    dev->spare.mapped = 0;
    create(dev, w, SIZE_MAX);
}

ebb_status_t ebb_spare_take(ebb_device_t *dev, size_t chunk_count, ebb_stream_t *stream, ebb_range_t **out)
{
    limit_ghosts(dev, GHOST_CHUNKS, false);
    ebb_range_t *r = ebb_range_new(dev, chunk_count);
    if (!r)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "an address range", chunk_count * EBB_CHUNK_BYTES);
    wanted_t w = {chunk_count, 0, stream, r->chunk};
    create_for_unsettled(dev, &w);
    ebb_status_t status = take(dev, w);
    if (!status && (status = ebb_range_map_on(r, r->chunk)))
        ebb_chunks_give_back(dev, chunk_count, r->chunk);
    if (status) {
        ebb_range_delete(r);
        return status;
    }
    dev->spare.mapped += chunk_count;
    *out = r;
    return 0;
}

static void check_list(const ebb_range_list_t *list, bool is_spare)
{
    size_t chunks = 0;
    for (const ebb_range_t *r = list->oldest; r; r = r->newer) {
        EBB_ASSERT(r->mapped && !r->buffer && !r->slab && r->spare == is_spare && r->holds == is_spare);
        EBB_ASSERT(r->newer ? r->newer->older == r : list->newest == r);
        EBB_ASSERT(r->prev ? r->prev->next == r : list->of_class[class_of(r->chunk_count)] == r);
        for (uint32_t i = 0; i < r->chunk_count; i++) {
            EBB_ASSERT((r->chunk[i]->holder == r) == is_spare);
            EBB_ASSERT(is_spare ? !r->chunk[i]->free : r->chunk[i]->ghosts > 0);
        }
        chunks += r->chunk_count;
    }
    EBB_ASSERT(chunks == list->chunks);
}

void ebb_spare_check(ebb_device_t *dev)
{
    check_list(&dev->spare.spares, true);
    check_list(&dev->spare.ghosts, false);
}

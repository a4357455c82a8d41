/* writes.c: the pass that shows what is written.
 *
 * Behind each operation, on its stream, one launch hashes what it has touched, tile by tile, and compares with the
 * hashes of before, which are in a table on the device: those that the operation in front of it has left, or where
 * there are none, those of another launch just before the operation. From a pointer on, tiles up to the next pointer
 * into the same buffer are its own, so that large shared buffers cost what is touched.
 *
 * Memory not written since it was allocated holds nothing to compare: the first operation that touches it counts
 * as writing it.
 *
 * In a buffer with several pointers an operation may write beyond its own tiles. So tiles of such buffers are also
 * compared just before an operation, if another one has touched the buffer since they were hashed, and all of them when
 * the step has used it last: a change that no operation accounts for makes all of them writers of the whole buffer.
 *
 * Of a buffer that several streams use, hashes are taken before and behind every operation, and kept apart, so that no
 * stream relies on what another one has left, and none waits for another.
 *
 * Small buffers are searched for words that look like pointers while they are hashed.
 */
#include "ckpt/run/profile/internal.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/base/table.h"
#include "alloc/device.h"
#include "ckpt/run/residence/internal.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"

const size_t ebb_part_writes = sizeof(struct ebb_writes);

static const ebb_trace_t *trace(struct ebb_writes *writes)
{
    return writes->profile->recorded.trace;
}

/* Those of an operation end where those of the next one begin. */
static piece_t *pieces_of(const struct ebb_writes *writes, uint32_t operation)
{
    return writes->piece + writes->operation[operation].first_piece;
}

/* ---- begin and end ---- */

static void clear(ebb_device_t *dev)
{
    struct ebb_writes *writes = dev->run->writes;
    ebb_tiles_delete(dev, writes->tiles);
    free(writes->piece);
    free(writes->operation);
    free(writes->buffer);
    free(writes->tile);
    free(writes->named);
    *writes = (struct ebb_writes){.steps_watched = writes->steps_watched};
}

bool ebb_writes_begin(ebb_device_t *dev)
{
    struct ebb_writes *writes = dev->run->writes;
    writes->profile = dev->run->pass->profile;
    writes->all = !writes->profile->turn;
    if (writes->all)
        ebb_sizes_note_watched(writes->profile);
    if (ebb_pieces_lay_out(dev) &&
        (writes->tiles = ebb_tiles_new(dev, writes->hashes, writes->results, writes->founds))) {
        writes->steps_watched++;
        return true;
    }
    clear(dev);
    return false;
}

/* ---- around an operation ---- */

/* None, where the buffer is smaller in this step. */
static size_t bytes_of(const piece_t *p, const ebb_buffer_t *b)
{
    const size_t from = (size_t)p->first * EBB_TILE_BYTES, bytes = (size_t)p->count * EBB_TILE_BYTES;
    return from + bytes < b->bytes ? bytes : from < b->bytes ? b->bytes - from : 0;
}

static tile_state_t state_of(struct ebb_writes *writes, const piece_t *p)
{
    tile_state_t least = FRESH, most = VIRGIN;
    for (uint32_t k = 0; k < p->count; k++) {
        tile_state_t s = ebb_piece_tile(writes, p->buffer, p->first + k)->state;
        least = s < least ? s : least;
        most = s > most ? s : most;
    }
    /* Partly untouched: what was there must be hashed. */
    return least == VIRGIN && most != VIRGIN ? STALE : least;
}

/* Whether another operation has touched the buffer since its tiles were hashed. */
static bool is_touched_since(struct ebb_writes *writes, const piece_t *p)
{
    for (uint32_t k = 0; k < p->count; k++)
        if (ebb_piece_tile(writes, p->buffer, p->first + k)->hashed_by < writes->buffer[p->buffer].touched)
            return true;
    return false;
}

static void set_fresh(struct ebb_writes *writes, const piece_t *p, uint32_t operation)
{
    for (uint32_t k = 0; k < p->count && !writes->profile->buffer[p->buffer].crossed; k++) {
        ebb_tile_t *t = ebb_piece_tile(writes, p->buffer, p->first + k);
        t->state = FRESH;
        t->hashed_by = operation + 1;
    }
}

static void hash_piece(ebb_device_t *dev, ebb_tile_list_t *list, const piece_t *p, uint32_t result,
                       uint32_t found)
{
    const ebb_buffer_t *b = ebb_match_buffer(dev, p->buffer);
    if (b && bytes_of(p, b))
        ebb_tiles_hash(dev, list, b->address + (size_t)p->first * EBB_TILE_BYTES, bytes_of(p, b), p->hash,
                       result, p->first ? EBB_NONE : found);
}

/* Whether it must be compared before its operation. */
static bool is_early(struct ebb_writes *writes, const piece_t *p)
{
    return p->early != EBB_NONE && state_of(writes, p) == FRESH && is_touched_since(writes, p);
}

/* On the device, and no copy to it under way. */
static bool is_recoverable(const ebb_buffer_t *b)
{
    const ebb_residence_t *r = b->residence;
    return ebb_is_resident(b) && (!r || ebb_mark_reached(r->ready));
}

/* How many of the piece's tiles the operation has, too. */
static uint32_t tiles_shared(struct ebb_writes *writes, const piece_t *p, uint32_t i)
{
    uint32_t shared = 0;
    for (const piece_t *x = pieces_of(writes, i); x < pieces_of(writes, i + 1); x++) {
        uint32_t first = x->first > p->first ? x->first : p->first;
        uint32_t end = x->first + x->count < p->first + p->count ? x->first + x->count : p->first + p->count;
        shared += x->buffer == p->buffer && first < end ? end - first : 0;
    }
    return shared;
}

/* Runs of tiles in a state, of the whole buffer, but for tiles with this `hashed_by`: hashed, and compared if `rest`. */
static void hash_whole(ebb_tile_list_t *list, const ebb_buffer_t *b, uint32_t id, tile_state_t state,
                       bool rest, uint32_t but_by)
{
    ebb_device_t *dev = b->range->device;
    struct ebb_writes *writes = dev->run->writes;
    const uint32_t is = ebb_tile_count(b->bytes), most = ebb_tile_count(trace(writes)->buffer[id].bytes);
    const uint32_t count = is < most ? is : most;
    ebb_tile_t *tile = ebb_piece_tile(writes, id, 0);
    for (uint32_t k = 0, n; k < count; k += n ? n : 1) {
        for (n = 0; k + n < count && tile[k + n].state == state && tile[k + n].hashed_by != but_by; n++)
            tile[k + n].rest |= rest;
        const piece_t p = {.buffer = id, .first = k, .count = n};
        if (n)
            ebb_tiles_hash(dev, list, b->address + (size_t)k * EBB_TILE_BYTES, bytes_of(&p, b),
                           writes->buffer[id].hash_at + k, rest ? writes->buffer[id].rest_at + k : EBB_NONE,
                           EBB_NONE);
    }
}

/* What is left of a large shared buffer is hashed once, when it is used first. */
static bool is_first_of_whole(struct ebb_writes *writes, const piece_t *p, uint32_t i)
{
    return writes->buffer[p->buffer].rest_at != EBB_NONE && writes->buffer[p->buffer].first_use == i &&
           (p == pieces_of(writes, i) || p[-1].buffer != p->buffer);
}

/* `hashed_by`: 1 + the operation behind which it happens. */
static void hash_first(ebb_tile_list_t *list, const ebb_buffer_t *b, uint32_t id, uint32_t hashed_by)
{
    ebb_tile_t *tile = ebb_piece_tile(b->range->device->run->writes, id, 0);
    hash_whole(list, b, id, STALE, false, EBB_NONE);
    for (uint32_t n = 0; n < ebb_tile_count(b->bytes); n++)
        if (tile[n].state == STALE) {
            tile[n].state = FRESH;
            tile[n].hashed_by = hashed_by;
        }
}

/* What the next operation on the stream asks for before it may be asked now, in the same launch: nothing is in between.
 * Not where a tile would be hashed twice in it. */
static void ask_for_next(ebb_device_t *dev, ebb_tile_list_t *list, uint32_t i)
{
    struct ebb_writes *writes = dev->run->writes;
    uint32_t next = ebb_match_next(dev, i);
    if (next == EBB_NONE)
        return;
    for (piece_t *p = pieces_of(writes, next); p < pieces_of(writes, next + 1); p++) {
        const ebb_buffer_t *b = ebb_match_buffer(dev, p->buffer);
        const uint32_t shared = tiles_shared(writes, p, i);
        if (!b || !is_recoverable(b) || writes->profile->buffer[p->buffer].crossed)
            continue;
        if (is_first_of_whole(writes, p, next)) {
            hash_first(list, b, p->buffer, i + 1);
            p->is_ready = true;
        }
        if (!shared && is_early(writes, p)) {
            hash_piece(dev, list, p, p->early, EBB_NONE);
            p->done_early = true;
        } else if (ebb_piece_is_kept(writes, p->buffer) && !shared && state_of(writes, p) == STALE) {
            hash_piece(dev, list, p, EBB_NONE, EBB_NONE);
            set_fresh(writes, p, i);
            p->is_ready = true;
        } else if (!ebb_piece_is_kept(writes, p->buffer) && (!shared || shared == p->count)) {
            if (!shared)
                hash_piece(dev, list, p, EBB_NONE, EBB_NONE);
            p->is_ready = true;
        }
    }
}

/* They are used until here, and are none of this operation's. */
static void touch_next(ebb_device_t *dev, uint32_t i, ebb_stream_t *stream)
{
    struct ebb_writes *writes = dev->run->writes;
    const uint32_t next = ebb_match_next(dev, i);
    if (next == EBB_NONE)
        return;
    for (const piece_t *p = pieces_of(writes, next); p < pieces_of(writes, next + 1); p++)
        if ((p->done_early || p->is_ready) && ebb_match_buffer(dev, p->buffer))
            ebb_buffer_touch(ebb_match_buffer(dev, p->buffer), ebb_mark_here(stream));
}

/* What something else has touched meanwhile must be hashed again. */
static void note_strays(ebb_device_t *dev, uint32_t i)
{
    struct ebb_writes *writes = dev->run->writes;
    for (piece_t *p = pieces_of(writes, i); p < pieces_of(writes, i + 1); p++) {
        if (!ebb_match_take_strayed(dev, p->buffer))
            continue;
        ebb_pieces_stale(writes, p->buffer, 0, ebb_tile_count(trace(writes)->buffer[p->buffer].bytes));
        for (piece_t *x = p; x < pieces_of(writes, i + 1); x++)
            if (x->buffer == p->buffer)
                x->done_early = false;
    }
}

void ebb_writes_before(ebb_device_t *dev, uint32_t i, const ebb_operation_t *op)
{
    struct ebb_writes *writes = dev->run->writes;
    ebb_tile_list_t list;
    writes->operation[i].seen = true;
    note_strays(dev, i);
    if (writes->failed || pieces_of(writes, i) == pieces_of(writes, i + 1))
        return;
    ebb_tiles_begin(&list, writes->tiles, op->stream, EBB_TILES_HASH);
    for (piece_t *p = pieces_of(writes, i); p < pieces_of(writes, i + 1); p++) {
        const ebb_buffer_t *b = ebb_match_buffer(dev, p->buffer);
        if (writes->interrupted)
            p->is_ready = p->done_early = false;
        if (b && is_first_of_whole(writes, p, i))
            hash_first(&list, b, p->buffer, i);
        p->there = b ? ebb_tile_count(bytes_of(p, b)) : p->count;
        tile_state_t state = ebb_piece_is_kept(writes, p->buffer) ? state_of(writes, p) : STALE;
        p->assumed = state == VIRGIN;
        if (state == STALE && !p->is_ready)
            hash_piece(dev, &list, p, EBB_NONE, EBB_NONE);
        p->asked_early = p->done_early || is_early(writes, p);
        if (p->asked_early && !p->done_early)
            hash_piece(dev, &list, p, p->early, EBB_NONE);
    }
    writes->failed = ebb_tiles_end(dev, &list) != 0;
}

/* Copies and memsets write what they say, other operations anything. */
static void note_unwatched(struct ebb_writes *writes, uint32_t i)
{
    const ebb_trace_operation_t *o = &trace(writes)->operation[i];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &trace(writes)->access[k];
        bool whole = o->kind == EBB_TRACE_OTHER;
        uint32_t first = whole ? 0 : a->first_tile;
        uint32_t count = whole ? ebb_tile_count(trace(writes)->buffer[a->buffer].bytes) : a->tile_count;
        ebb_pieces_stale(writes, a->buffer, first, count);
    }
}

void ebb_writes_stray(ebb_device_t *dev, const ebb_operation_t *op)
{
    (void)op;
    dev->run->writes->interrupted = true;
}

static void note_touched(struct ebb_writes *writes, uint32_t i)
{
    const ebb_trace_operation_t *o = &trace(writes)->operation[i];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        writes->buffer[trace(writes)->access[k].buffer].touched = i + 1;
}

static void note_named(struct ebb_writes *writes, uint32_t i, const ebb_operation_t *op)
{
    writes->operation[i].first_named = writes->named_count;
    for (uint32_t k = 0; op->named_at && k < op->access_count; k++) {
        const ebb_buffer_t *b = op->access[k].buffer;
        if (op->access[k].param_offset < op->named_at)
            continue;
        ebb_named_t *named = ebb_array_append((void **)&writes->named, &writes->named_count,
                                              &writes->named_room, sizeof *named);
        if (named)
            *named = (ebb_named_t){b->address, b->bytes};
    }
    writes->operation[i].named_count = writes->named_count - writes->operation[i].first_named;
}

static bool is_named(const struct ebb_writes *writes, uint32_t i, CUdeviceptr word)
{
    const ebb_named_t *named = writes->named + writes->operation[i].first_named;
    for (uint32_t k = 0; k < writes->operation[i].named_count; k++)
        if (word - named[k].address <= named[k].bytes)
            return true;
    return false;
}

void ebb_writes_after(ebb_device_t *dev, uint32_t i, const ebb_operation_t *op)
{
    struct ebb_writes *writes = dev->run->writes;
    ebb_tile_list_t list;
    note_named(writes, i, op);
    if (trace(writes)->operation[i].kind != EBB_TRACE_KERNEL)
        note_unwatched(writes, i);
    note_touched(writes, i);
    writes->interrupted = false;
    if (writes->failed || pieces_of(writes, i) == pieces_of(writes, i + 1))
        return;
    ebb_tiles_begin(&list, writes->tiles, op->stream, EBB_TILES_HASH);
    for (const piece_t *p = pieces_of(writes, i); p < pieces_of(writes, i + 1); p++) {
        hash_piece(dev, &list, p, p->assumed ? EBB_NONE : p->result, p->found);
        set_fresh(writes, p, i);
    }
    for (const piece_t *p = pieces_of(writes, i); p < pieces_of(writes, i + 1); p++) {
        const ebb_buffer_t *b = ebb_match_buffer(dev, p->buffer);
        if (b && writes->buffer[p->buffer].rest_at != EBB_NONE && writes->buffer[p->buffer].last_use == i &&
            (p == pieces_of(writes, i) || p[-1].buffer != p->buffer))
            hash_whole(&list, b, p->buffer, FRESH, true, i + 1);
    }
    ask_for_next(dev, &list, i);
    writes->failed = ebb_tiles_end(dev, &list) != 0;
    touch_next(dev, i, op->stream);
}

/* ---- what came out ---- */

static void widen(ebb_trace_access_t *a, uint32_t first, uint32_t count)
{
    uint32_t end = first + count;
    if (a->tile_count) {
        end = a->first_tile + a->tile_count > end ? a->first_tile + a->tile_count : end;
        first = a->first_tile < first ? a->first_tile : first;
    }
    a->first_tile = first;
    a->tile_count = end - first;
}

static bool reaches(const ebb_profile_t *l, uint32_t access, uint32_t tile)
{
    return tile >= l->reach[access].first && tile < l->reach[access].first + l->reach[access].count;
}

/* An operation's accesses to a tile are its writers. */
static void blame(ebb_device_t *dev, uint32_t i, const piece_t *p, uint32_t tile)
{
    struct ebb_writes *writes = dev->run->writes;
    const ebb_profile_t *l = writes->profile;
    const ebb_trace_operation_t *o = &trace(writes)->operation[i];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        ebb_trace_access_t *a = &l->recorded.trace->access[k];
        if (a->buffer != p->buffer || !reaches(l, k, tile))
            continue;
        ebb_know_write(dev, l->recorded.operation[i].function, ebb_word_of(&l->recorded, i, a));
        widen(a, tile, 1);
    }
}

/* A change that no operation accounts for. The first time, known writers of the buffer are taken to write beyond the
 * next pointer, and watched so; else any operation that touches it may have made it, anywhere. */
static void mark_all_as_writers(ebb_device_t *dev, uint32_t buffer)
{
    struct ebb_writes *writes = dev->run->writes;
    ebb_profile_t *l = writes->profile;
    if (writes->all) {
        l->buffer[buffer].wide = true;
        return;
    }
    for (uint32_t i = 0; i < trace(writes)->operation_count; i++)
        for (uint32_t k = 0; k < trace(writes)->operation[i].access_count; k++) {
            ebb_trace_access_t *a = &l->recorded.trace->access[trace(writes)->operation[i].first_access + k];
            if (a->buffer != buffer || trace(writes)->operation[i].kind != EBB_TRACE_KERNEL)
                continue;
            ebb_know_write(dev, l->recorded.operation[i].function, ebb_word_of(&l->recorded, i, a));
            widen(a, 0, ebb_tile_count(trace(writes)->buffer[buffer].bytes));
        }
}

static void judge_pointers(ebb_device_t *dev, uint32_t i, const piece_t *p)
{
    struct ebb_writes *writes = dev->run->writes;
    const uint64_t *found =
        p->first || p->found == EBB_NONE ? NULL : ebb_tiles_found(writes->tiles, p->found);
    unsigned type;
    if (!found)
        return;
    const uint64_t elsewhere = found[EBB_TILE_GROUPS];
    bool is_table =
        elsewhere && !ebb_driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, elsewhere);
    for (unsigned k = 0; k < EBB_TILE_GROUPS; k++) {
        const ebb_buffer_t *b = found[k] ? ebb_buffer_at(dev->ebb, found[k]) : NULL;
        is_table |= b != NULL;
        writes->profile->recorded.hidden |=
            b && (ebb_buffer_is_large(b) || b->is_table) && !b->pinned && !is_named(writes, i, found[k]);
    }
    if (is_table)
        writes->profile->fact[i].why = EBB_TABLE;
}

static void judge_words(ebb_device_t *dev, uint32_t i)
{
    struct ebb_writes *writes = dev->run->writes;
    const ebb_profile_t *l = writes->profile;
    const ebb_trace_operation_t *o = &trace(writes)->operation[i];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &trace(writes)->access[k];
        bool changed = false, watched = false;
        for (const piece_t *x = pieces_of(writes, i); x < pieces_of(writes, i + 1); x++) {
            watched |= x->buffer == a->buffer;
            for (uint32_t n = 0; x->buffer == a->buffer && n < x->there; n++)
                changed |= reaches(l, k, x->first + n) &&
                           (x->assumed || ebb_tiles_result(writes->tiles, x->result + n));
        }
        if (watched && !changed)
            ebb_know_unchanged(dev, l->recorded.operation[i].function, ebb_word_of(&l->recorded, i, a),
                               writes->steps_watched);
    }
}

static void judge_operation(ebb_device_t *dev, uint32_t i)
{
    struct ebb_writes *writes = dev->run->writes;
    for (const piece_t *p = pieces_of(writes, i); p < pieces_of(writes, i + 1); p++) {
        bool early = false;
        for (uint32_t n = 0; n < p->there; n++) {
            if (p->assumed || ebb_tiles_result(writes->tiles, p->result + n))
                blame(dev, i, p, p->first + n);
            early |= p->asked_early && ebb_tiles_result(writes->tiles, p->early + n);
        }
        if (early)
            mark_all_as_writers(dev, p->buffer);
        judge_pointers(dev, i, p);
    }
    judge_words(dev, i);
}

static void judge_rest(ebb_device_t *dev, uint32_t b)
{
    struct ebb_writes *writes = dev->run->writes;
    uint32_t count = ebb_tile_count(trace(writes)->buffer[b].bytes);
    bool changed = false;
    for (uint32_t n = 0; writes->buffer[b].rest_at != EBB_NONE && n < count; n++)
        changed |= writes->tile[writes->buffer[b].hash_at + n].rest &&
                   ebb_tiles_result(writes->tiles, writes->buffer[b].rest_at + n);
    if (changed)
        mark_all_as_writers(dev, b);
}

bool ebb_writes_end(ebb_device_t *dev, bool good)
{
    struct ebb_writes *writes = dev->run->writes;
    if (good && !writes->failed && !ebb_tiles_read(writes->tiles, dev->run->pass->stream)) {
        for (uint32_t i = 0; i < trace(writes)->operation_count; i++)
            if (writes->operation[i].seen)
                judge_operation(dev, i);
        for (uint32_t b = 0; b < trace(writes)->buffer_count; b++)
            judge_rest(dev, b);
    } else {
        if (good)
            ebb_log(EBB_WARN, "what a step writes could not be watched: %s", ebb_last_failure());
        ebb_wait_for_device(dev->ebb); /* what watches may be under way */
    }
    clear(dev);
    return true;
}

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

enum { LAUNCHES_OF_EACH = 1 }; /* of a kernel, in a second look: all of a step were watched in the first */

/* Tiles of one buffer that an operation touches. */
typedef struct piece {
    uint32_t buffer, first, count;
    uint32_t hash;   /* of its first tile, in the table */
    uint32_t result; /* of its first tile: changed behind the operation; tiles of `early` follow */
    uint32_t early;  /* changed before it; NO_RESULT: never asked */
    uint32_t found;
    bool assumed; /* not written before: the operation counts as its writer */
    bool asked_early;
    bool done_early; /* asked together with the operation in front of it */
    bool is_ready;   /* hashed together with it */
} piece_t;

typedef enum tile_state { VIRGIN, STALE, FRESH } tile_state_t;

struct ebb_watch {
    ebb_profile_t *profile;
    bool all;
    ebb_tiles_t *tiles;
    piece_t *piece;
    uint32_t piece_count, piece_room;
    uint32_t *first_piece;          /* [operations + 1] */
    bool *chosen;                   /* [operations] */
    bool *seen;                     /* [operations] in this step */
    uint32_t *hash_at, *rest_at;    /* [buffers] of its first tile; rest: NO_RESULT: no arena */
    uint32_t *first_use, *last_use; /* [buffers] by watched operations */
    uint32_t *touched;              /* [buffers] 1 + the operation that touched it last */
    unsigned char *state;           /* [hashes] tile_state_t */
    unsigned char *rest;            /* [hashes] its last comparison was issued */
    uint32_t *hashed_by;            /* [hashes] 1 + operation */
    uint32_t hashes, results, founds;
    bool failed;
    bool interrupted;       /* since the last operation */
    uint32_t steps_watched; /* in this process: a number for each */
};
const size_t ebb_part_watch = sizeof(struct ebb_watch);

static const ebb_trace_t *trace(struct ebb_watch *watch)
{
    return watch->profile->recorded.trace;
}

/* Hashes stay in the table from one operation to the next. */
static bool is_kept(struct ebb_watch *watch, uint32_t buffer)
{
    return (watch->all || watch->profile->wide[buffer]) && !watch->profile->crossed[buffer];
}

/* ---- what to watch ---- */

static bool has_unknown(ebb_device_t *dev, const ebb_profile_t *l, uint32_t i)
{
    const ebb_trace_operation_t *o = &l->recorded.trace->operation[i];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        if (ebb_know_word(dev, l->recorded.function[i], l->recorded.trace->access[k].param_offset) ==
            EBB_WORD_UNKNOWN)
            return true;
    return false;
}

bool ebb_watch_is_needed(ebb_device_t *dev, const ebb_profile_t *l)
{
    for (uint32_t b = 0; b < l->recorded.trace->buffer_count; b++)
        if (l->wide[b])
            return true;
    for (uint32_t i = 0; i < l->recorded.trace->operation_count; i++)
        if (l->recorded.trace->operation[i].kind == EBB_TRACE_KERNEL && has_unknown(dev, l, i))
            return true;
    return false;
}

/* Launches before this one of the same kernel that are chosen; few are. */
static void choose(ebb_device_t *dev)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    const ebb_recording_t *r = &watch->profile->recorded;
    CUfunction function[256];
    unsigned chosen[256], count = 0;
    for (uint32_t i = 0; i < r->trace->operation_count; i++) {
        if (r->trace->operation[i].kind != EBB_TRACE_KERNEL)
            continue;
        if (watch->all || !has_unknown(dev, watch->profile, i)) {
            watch->chosen[i] = watch->all;
            continue;
        }
        unsigned f = 0;
        while (f < count && function[f] != r->function[i])
            f++;
        if (f == count && count < 256) {
            function[count] = r->function[i];
            chosen[count++] = 0;
        }
        watch->chosen[i] = f == 256 || chosen[f]++ < LAUNCHES_OF_EACH;
    }
}

static int by_tile(const void *a, const void *b)
{
    const piece_t *x = a, *y = b;
    if (x->buffer != y->buffer)
        return x->buffer < y->buffer ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* In a second look only unknown words; of buffers with a change that no operation accounts for, the known writers, and
 * the first operation, at which all is hashed: what others change is seen before a writer. */
static bool is_asked(ebb_device_t *dev, uint32_t i, uint32_t access)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    const ebb_profile_t *l = watch->profile;
    const ebb_trace_access_t *a = &trace(watch)->access[access];
    if (watch->all)
        return true;
    const ebb_word_t word = ebb_know_word(dev, l->recorded.function[i], a->param_offset);
    return (watch->chosen[i] && word == EBB_WORD_UNKNOWN) ||
           (l->wide[a->buffer] &&
            (word == EBB_WORD_WRITES || l->first_use[a->buffer] >= trace(watch)->operation[i].first_access));
}

/* The pieces of one operation: what its accesses touch, each tile once. */
static bool add_pieces(ebb_device_t *dev, uint32_t i)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    const ebb_profile_t *l = watch->profile;
    const ebb_trace_operation_t *o = &trace(watch)->operation[i];
    uint32_t begin = watch->piece_count, kept = begin;
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        if (o->kind != EBB_TRACE_KERNEL || !is_asked(dev, i, k))
            continue;
        piece_t *p =
            ebb_array_append((void **)&watch->piece, &watch->piece_count, &watch->piece_room, sizeof *p);
        if (!p)
            return false;
        *p = (piece_t){
            .buffer = trace(watch)->access[k].buffer, .first = l->first_tile[k], .count = l->extent[k]};
    }
    if (watch->piece_count > begin)
        qsort(watch->piece + begin, watch->piece_count - begin, sizeof *watch->piece, by_tile);
    for (uint32_t k = begin; k < watch->piece_count; k++) {
        piece_t *last = kept > begin ? &watch->piece[kept - 1] : NULL;
        const piece_t p = watch->piece[k];
        if (!last || last->buffer != p.buffer || last->first + last->count < p.first)
            watch->piece[kept++] = p;
        else if (p.first + p.count > last->first + last->count)
            last->count = p.first + p.count - last->first;
    }
    watch->piece_count = kept;
    return true;
}

/* A known writer of such a buffer may write to its end. */
static void widen_extents(ebb_device_t *dev)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    ebb_profile_t *l = watch->profile;
    for (uint32_t i = 0; i < trace(watch)->operation_count; i++)
        for (uint32_t n = 0; n < trace(watch)->operation[i].access_count; n++) {
            uint32_t k = trace(watch)->operation[i].first_access + n, b = trace(watch)->access[k].buffer;
            if (l->wide[b] && ebb_know_word(dev, l->recorded.function[i],
                                            trace(watch)->access[k].param_offset) == EBB_WORD_WRITES)
                l->extent[k] = ebb_tile_count(trace(watch)->buffer[b].bytes) - l->first_tile[k];
        }
}

/* Gives every piece its places in table and results. */
static void number_pieces(struct ebb_watch *watch)
{
    const ebb_profile_t *l = watch->profile;
    for (uint32_t i = 0; i < watch->piece_count; i++) {
        piece_t *p = &watch->piece[i];
        const ebb_trace_buffer_t *b = &trace(watch)->buffer[p->buffer];
        bool own = l->crossed[p->buffer];
        p->hash = own ? watch->hashes : watch->hash_at[p->buffer] + p->first;
        watch->hashes += own ? p->count : 0;
        p->result = watch->results;
        watch->results += p->count;
        p->early = EBB_NONE;
        if (l->arena[p->buffer] && !own && is_kept(watch, p->buffer)) {
            p->early = watch->results;
            watch->results += p->count;
        }
        p->found = watch->all && b->bytes <= EBB_TILE_BYTES && b->bytes >= 8 ? watch->founds++ : EBB_NONE;
    }
}

static void number_buffers(struct ebb_watch *watch)
{
    const ebb_trace_t *t = trace(watch);
    for (uint32_t b = 0; b < t->buffer_count; b++) {
        watch->first_use[b] = watch->last_use[b] = watch->rest_at[b] = EBB_NONE;
        watch->hash_at[b] = watch->hashes;
        watch->hashes += ebb_tile_count(t->buffer[b].bytes);
    }
    for (uint32_t i = 0; i < t->operation_count; i++)
        for (uint32_t p = watch->first_piece[i]; p < watch->first_piece[i + 1]; p++) {
            uint32_t b = watch->piece[p].buffer;
            watch->first_use[b] = watch->first_use[b] == EBB_NONE ? i : watch->first_use[b];
            watch->last_use[b] = i;
        }
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (watch->profile->arena[b] && is_kept(watch, b) && watch->last_use[b] != EBB_NONE) {
            watch->rest_at[b] = watch->results;
            watch->results += ebb_tile_count(t->buffer[b].bytes);
        }
}

/* ---- begin and end ---- */

static void clear(ebb_device_t *dev)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    ebb_tiles_delete(dev, watch->tiles);
    free(watch->piece);
    free(watch->first_piece);
    free(watch->chosen);
    free(watch->seen);
    free(watch->hash_at);
    free(watch->rest_at);
    free(watch->first_use);
    free(watch->last_use);
    free(watch->touched);
    free(watch->state);
    free(watch->rest);
    free(watch->hashed_by);
    *watch = (struct ebb_watch){.steps_watched = watch->steps_watched};
}

static bool allocate(struct ebb_watch *watch)
{
    size_t n = (size_t)trace(watch)->operation_count + 1, m = (size_t)trace(watch)->buffer_count + 1;
    watch->first_piece = calloc(n + 1, sizeof *watch->first_piece);
    watch->chosen = calloc(n, sizeof *watch->chosen);
    watch->seen = calloc(n, sizeof *watch->seen);
    watch->hash_at = calloc(m, sizeof *watch->hash_at);
    watch->rest_at = calloc(m, sizeof *watch->rest_at);
    watch->first_use = calloc(m, sizeof *watch->first_use);
    watch->last_use = calloc(m, sizeof *watch->last_use);
    watch->touched = calloc(m, sizeof *watch->touched);
    return watch->first_piece && watch->chosen && watch->seen && watch->hash_at && watch->rest_at &&
           watch->first_use && watch->last_use && watch->touched;
}

static bool lay_out(ebb_device_t *dev)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    const ebb_trace_t *t = trace(watch);
    choose(dev);
    widen_extents(dev);
    for (uint32_t i = 0; i < t->operation_count; i++) {
        watch->first_piece[i] = watch->piece_count;
        if (!add_pieces(dev, i))
            return false;
    }
    watch->first_piece[t->operation_count] = watch->piece_count;
    number_buffers(watch);
    number_pieces(watch);
    watch->state = calloc((size_t)watch->hashes + 1, 1);
    watch->rest = calloc((size_t)watch->hashes + 1, 1);
    watch->hashed_by = calloc((size_t)watch->hashes + 1, sizeof *watch->hashed_by);
    if (!watch->state || !watch->rest || !watch->hashed_by)
        return false;
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (t->buffer[b].born == EBB_NONE)
            memset(watch->state + watch->hash_at[b], STALE, ebb_tile_count(t->buffer[b].bytes));
    return true;
}

bool ebb_watch_begin(ebb_device_t *dev, ebb_profile_t *l, bool all)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    watch->profile = l;
    watch->all = all;
    if (allocate(watch) && lay_out(dev) &&
        (watch->tiles = ebb_tiles_new(dev, watch->hashes, watch->results, watch->founds))) {
        watch->steps_watched++;
        return true;
    }
    clear(dev);
    return false;
}

/* ---- around an operation ---- */

static size_t bytes_of(const piece_t *p, const ebb_buffer_t *b)
{
    size_t from = (size_t)p->first * EBB_TILE_BYTES, bytes = (size_t)p->count * EBB_TILE_BYTES;
    return from + bytes < b->bytes ? bytes : b->bytes - from;
}

static tile_state_t state_of(struct ebb_watch *watch, const piece_t *p)
{
    tile_state_t least = FRESH, most = VIRGIN;
    for (uint32_t k = 0; k < p->count; k++) {
        tile_state_t s = (tile_state_t)watch->state[watch->hash_at[p->buffer] + p->first + k];
        least = s < least ? s : least;
        most = s > most ? s : most;
    }
    /* Partly untouched: what was there must be hashed. */
    return least == VIRGIN && most != VIRGIN ? STALE : least;
}

/* Whether another operation has touched the buffer since its tiles were hashed. */
static bool is_touched_since(struct ebb_watch *watch, const piece_t *p)
{
    for (uint32_t k = 0; k < p->count; k++)
        if (watch->hashed_by[watch->hash_at[p->buffer] + p->first + k] < watch->touched[p->buffer])
            return true;
    return false;
}

static void set_fresh(struct ebb_watch *watch, const piece_t *p, uint32_t operation)
{
    for (uint32_t k = 0; k < p->count && !watch->profile->crossed[p->buffer]; k++) {
        watch->state[watch->hash_at[p->buffer] + p->first + k] = FRESH;
        watch->hashed_by[watch->hash_at[p->buffer] + p->first + k] = operation + 1;
    }
}

static void hash_piece(ebb_device_t *dev, ebb_tile_list_t *list, const piece_t *p, uint32_t result,
                       uint32_t found)
{
    const ebb_buffer_t *b = ebb_match_buffer(dev->ebb, p->buffer);
    if (b)
        ebb_tiles_hash(dev, list, b->address + (size_t)p->first * EBB_TILE_BYTES, bytes_of(p, b), p->hash,
                       result, p->first ? EBB_NONE : found);
}

/* Whether it must be compared before its operation. */
static bool is_early(struct ebb_watch *watch, const piece_t *p)
{
    return p->early != EBB_NONE && state_of(watch, p) == FRESH && is_touched_since(watch, p);
}

/* On the device, and no copy to it under way. */
static bool is_recoverable(const ebb_buffer_t *b)
{
    const ebb_residence_t *r = b->residence;
    return ebb_is_resident(b) && (!r || ebb_mark_reached(r->ready));
}

/* How many of the piece's tiles the operation has, too. */
static uint32_t tiles_shared(struct ebb_watch *watch, const piece_t *p, uint32_t i)
{
    uint32_t shared = 0;
    for (uint32_t n = watch->first_piece[i]; n < watch->first_piece[i + 1]; n++) {
        const piece_t *x = &watch->piece[n];
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
    struct ebb_watch *watch = dev->ebb->run->watch;
    uint32_t count = ebb_tile_count(b->bytes), at = watch->hash_at[id];
    for (uint32_t k = 0, n; k < count; k += n) {
        const bool own = watch->hashed_by[at + k] == but_by;
        for (n = 1; k + n < count && watch->state[at + k + n] == watch->state[at + k] &&
                    (watch->hashed_by[at + k + n] == but_by) == own;
             n++)
            ;
        if (watch->state[at + k] != state || own)
            continue;
        const piece_t p = {.buffer = id, .first = k, .count = n};
        ebb_tiles_hash(dev, list, b->address + (size_t)k * EBB_TILE_BYTES, bytes_of(&p, b), at + k,
                       rest ? watch->rest_at[id] + k : EBB_NONE, EBB_NONE);
        if (rest)
            memset(watch->rest + at + k, 1, n);
    }
}

/* What is left of a large shared buffer is hashed once, when it is used first. */
static bool is_first_of_whole(struct ebb_watch *watch, const piece_t *p, uint32_t i)
{
    return watch->rest_at[p->buffer] != EBB_NONE && watch->first_use[p->buffer] == i &&
           (p == &watch->piece[watch->first_piece[i]] || p[-1].buffer != p->buffer);
}

/* `hashed_by`: 1 + the operation behind which it happens. */
static void hash_first(ebb_tile_list_t *list, const ebb_buffer_t *b, uint32_t id, uint32_t hashed_by)
{
    ebb_t *ebb = b->range->device->ebb;
    struct ebb_watch *watch = ebb->run->watch;
    const uint32_t at = watch->hash_at[id];
    hash_whole(list, b, id, STALE, false, EBB_NONE);
    for (uint32_t n = 0; n < ebb_tile_count(b->bytes); n++)
        if (watch->state[at + n] == STALE) {
            watch->state[at + n] = FRESH;
            watch->hashed_by[at + n] = hashed_by;
        }
}

/* What the next operation on the stream asks for before it may be asked now, in the same launch: nothing is in between.
 * Not where a tile would be hashed twice in it. */
static void ask_for_next(ebb_device_t *dev, ebb_tile_list_t *list, uint32_t i)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    uint32_t next = ebb_match_next(dev->ebb, i);
    if (next == EBB_NONE)
        return;
    for (uint32_t k = watch->first_piece[next]; k < watch->first_piece[next + 1]; k++) {
        piece_t *p = &watch->piece[k];
        const ebb_buffer_t *b = ebb_match_buffer(dev->ebb, p->buffer);
        const uint32_t shared = tiles_shared(watch, p, i);
        if (!b || !is_recoverable(b) || watch->profile->crossed[p->buffer])
            continue;
        if (is_first_of_whole(watch, p, next)) {
            hash_first(list, b, p->buffer, i + 1);
            p->is_ready = true;
        }
        if (!shared && is_early(watch, p)) {
            hash_piece(dev, list, p, p->early, EBB_NONE);
            p->done_early = true;
        } else if (is_kept(watch, p->buffer) && !shared && state_of(watch, p) == STALE) {
            hash_piece(dev, list, p, EBB_NONE, EBB_NONE);
            set_fresh(watch, p, i);
            p->is_ready = true;
        } else if (!is_kept(watch, p->buffer) && (!shared || shared == p->count)) {
            if (!shared)
                hash_piece(dev, list, p, EBB_NONE, EBB_NONE);
            p->is_ready = true;
        }
    }
}

/* They are used until here, and are none of this operation's. */
static void touch_next(ebb_t *ebb, uint32_t i, ebb_stream_t *stream)
{
    struct ebb_watch *watch = ebb->run->watch;
    uint32_t next = ebb_match_next(ebb, i);
    for (uint32_t k = next == EBB_NONE ? 0 : watch->first_piece[next];
         next != EBB_NONE && k < watch->first_piece[next + 1]; k++)
        if ((watch->piece[k].done_early || watch->piece[k].is_ready) &&
            ebb_match_buffer(ebb, watch->piece[k].buffer))
            ebb_buffer_touch(ebb_match_buffer(ebb, watch->piece[k].buffer), ebb_mark_here(stream));
}

/* What something else has touched meanwhile must be hashed again. */
static void note_strays(ebb_t *ebb, uint32_t i)
{
    struct ebb_watch *watch = ebb->run->watch;
    for (uint32_t k = watch->first_piece[i]; k < watch->first_piece[i + 1]; k++) {
        piece_t *p = &watch->piece[k];
        const uint32_t at = watch->hash_at[p->buffer],
                       tiles = ebb_tile_count(trace(watch)->buffer[p->buffer].bytes);
        if (!ebb_match_take_strayed(ebb, p->buffer))
            continue;
        memset(watch->state + at, STALE, tiles);
        for (uint32_t n = k; n < watch->first_piece[i + 1]; n++)
            if (watch->piece[n].buffer == p->buffer)
                watch->piece[n].done_early = false;
    }
}

void ebb_watch_before(ebb_device_t *dev, uint32_t i, const ebb_operation_t *op)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    ebb_tile_list_t list;
    watch->seen[i] = true;
    note_strays(dev->ebb, i);
    if (watch->failed || watch->first_piece[i] == watch->first_piece[i + 1])
        return;
    ebb_tiles_begin(&list, watch->tiles, op->stream, EBB_TILES_HASH);
    for (uint32_t k = watch->first_piece[i]; k < watch->first_piece[i + 1]; k++) {
        piece_t *p = &watch->piece[k];
        const ebb_buffer_t *b = ebb_match_buffer(dev->ebb, p->buffer);
        if (watch->interrupted)
            p->is_ready = p->done_early = false;
        if (b && is_first_of_whole(watch, p, i))
            hash_first(&list, b, p->buffer, i);
        tile_state_t state = is_kept(watch, p->buffer) ? state_of(watch, p) : STALE;
        p->assumed = state == VIRGIN;
        if (state == STALE && !p->is_ready)
            hash_piece(dev, &list, p, EBB_NONE, EBB_NONE);
        p->asked_early = p->done_early || is_early(watch, p);
        if (p->asked_early && !p->done_early)
            hash_piece(dev, &list, p, p->early, EBB_NONE);
    }
    watch->failed = ebb_tiles_end(dev, &list) != 0;
}

/* Copies and memsets write what they say, other operations anything. */
static void note_unwatched(struct ebb_watch *watch, uint32_t i)
{
    const ebb_trace_operation_t *o = &trace(watch)->operation[i];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &trace(watch)->access[k];
        bool whole = o->kind == EBB_TRACE_OTHER;
        uint32_t first = whole ? 0 : a->first_tile;
        uint32_t count = whole ? ebb_tile_count(trace(watch)->buffer[a->buffer].bytes) : a->tile_count;
        memset(watch->state + watch->hash_at[a->buffer] + first, STALE, count);
    }
}

void ebb_watch_interrupt(ebb_t *ebb)
{
    struct ebb_watch *watch = ebb->run->watch;
    watch->interrupted = true;
}

static void note_touched(struct ebb_watch *watch, uint32_t i)
{
    const ebb_trace_operation_t *o = &trace(watch)->operation[i];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        watch->touched[trace(watch)->access[k].buffer] = i + 1;
}

void ebb_watch_after(ebb_device_t *dev, uint32_t i, const ebb_operation_t *op)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    ebb_tile_list_t list;
    if (trace(watch)->operation[i].kind != EBB_TRACE_KERNEL)
        note_unwatched(watch, i);
    note_touched(watch, i);
    watch->interrupted = false;
    if (watch->failed || watch->first_piece[i] == watch->first_piece[i + 1])
        return;
    ebb_tiles_begin(&list, watch->tiles, op->stream, EBB_TILES_HASH);
    for (uint32_t k = watch->first_piece[i]; k < watch->first_piece[i + 1]; k++) {
        const piece_t *p = &watch->piece[k];
        hash_piece(dev, &list, p, p->assumed ? EBB_NONE : p->result, p->found);
        set_fresh(watch, p, i);
    }
    for (uint32_t k = watch->first_piece[i]; k < watch->first_piece[i + 1]; k++) {
        const piece_t *p = &watch->piece[k];
        const ebb_buffer_t *b = ebb_match_buffer(dev->ebb, p->buffer);
        if (b && watch->rest_at[p->buffer] != EBB_NONE && watch->last_use[p->buffer] == i &&
            (k == watch->first_piece[i] || p[-1].buffer != p->buffer))
            hash_whole(&list, b, p->buffer, FRESH, true, i + 1);
    }
    ask_for_next(dev, &list, i);
    watch->failed = ebb_tiles_end(dev, &list) != 0;
    touch_next(dev->ebb, i, op->stream);
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

/* An operation's accesses to a tile are its writers. */
static void blame(ebb_device_t *dev, uint32_t i, const piece_t *p, uint32_t tile)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    const ebb_profile_t *l = watch->profile;
    const ebb_trace_operation_t *o = &trace(watch)->operation[i];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        ebb_trace_access_t *a = &l->recorded.trace->access[k];
        if (a->buffer != p->buffer || tile < l->first_tile[k] || tile >= l->first_tile[k] + l->extent[k])
            continue;
        ebb_know_write(dev, l->recorded.function[i], a->param_offset);
        widen(a, tile, 1);
    }
}

/* A change that no operation accounts for. The first time, known writers of the buffer are taken to write beyond the
 * next pointer, and watched so; else any operation that touches it may have made it, anywhere. */
static void mark_all_as_writers(ebb_device_t *dev, uint32_t buffer)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    ebb_profile_t *l = watch->profile;
    if (watch->all) {
        l->wide[buffer] = true;
        return;
    }
    for (uint32_t i = 0; i < trace(watch)->operation_count; i++)
        for (uint32_t k = 0; k < trace(watch)->operation[i].access_count; k++) {
            ebb_trace_access_t *a = &l->recorded.trace->access[trace(watch)->operation[i].first_access + k];
            if (a->buffer != buffer || trace(watch)->operation[i].kind != EBB_TRACE_KERNEL)
                continue;
            ebb_know_write(dev, l->recorded.function[i], a->param_offset);
            widen(a, 0, ebb_tile_count(trace(watch)->buffer[buffer].bytes));
        }
}

static void judge_pointers(ebb_device_t *dev, uint32_t i, const piece_t *p)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    const uint64_t *found = p->first || p->found == EBB_NONE ? NULL : ebb_tiles_found(watch->tiles, p->found);
    unsigned type;
    if (!found)
        return;
    const ebb_buffer_t *inside = found[0] ? ebb_buffer_at(dev->ebb, found[0]) : NULL;
    bool outside =
        found[1] && !ebb_driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, found[1]);
    /* What the host has copied there is pinned. */
    watch->profile->recorded.hidden |= inside && ebb_buffer_is_large(inside) && !inside->pinned;
    if (inside || outside)
        watch->profile->fact[i].why = EBB_TABLE;
}

static void judge_words(ebb_device_t *dev, uint32_t i)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    const ebb_profile_t *l = watch->profile;
    const ebb_trace_operation_t *o = &trace(watch)->operation[i];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &trace(watch)->access[k];
        bool changed = false, watched = false;
        for (uint32_t p = watch->first_piece[i]; p < watch->first_piece[i + 1]; p++) {
            const piece_t *x = &watch->piece[p];
            watched |= x->buffer == a->buffer;
            for (uint32_t n = 0; x->buffer == a->buffer && n < x->count; n++)
                changed |= x->first + n >= l->first_tile[k] &&
                           x->first + n < l->first_tile[k] + l->extent[k] &&
                           (x->assumed || ebb_tiles_result(watch->tiles, x->result + n));
        }
        if (watched && !changed)
            ebb_know_unchanged(dev, l->recorded.function[i], a->param_offset, watch->steps_watched);
    }
}

static void judge_operation(ebb_device_t *dev, uint32_t i)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    for (uint32_t k = watch->first_piece[i]; k < watch->first_piece[i + 1]; k++) {
        const piece_t *p = &watch->piece[k];
        bool early = false;
        for (uint32_t n = 0; n < p->count; n++) {
            if (p->assumed || ebb_tiles_result(watch->tiles, p->result + n))
                blame(dev, i, p, p->first + n);
            early |= p->asked_early && ebb_tiles_result(watch->tiles, p->early + n);
        }
        if (early)
            mark_all_as_writers(dev, p->buffer);
        judge_pointers(dev, i, p);
    }
    judge_words(dev, i);
}

static void judge_rest(ebb_device_t *dev, uint32_t b)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    uint32_t count = ebb_tile_count(trace(watch)->buffer[b].bytes);
    bool changed = false;
    for (uint32_t n = 0; watch->rest_at[b] != EBB_NONE && n < count; n++)
        changed |=
            watch->rest[watch->hash_at[b] + n] && ebb_tiles_result(watch->tiles, watch->rest_at[b] + n);
    if (changed)
        mark_all_as_writers(dev, b);
}

void ebb_watch_end(ebb_device_t *dev, bool good, ebb_stream_t *stream)
{
    struct ebb_watch *watch = dev->ebb->run->watch;
    if (good && !watch->failed && !ebb_tiles_read(watch->tiles, stream)) {
        for (uint32_t i = 0; i < trace(watch)->operation_count; i++)
            if (watch->seen[i])
                judge_operation(dev, i);
        for (uint32_t b = 0; b < trace(watch)->buffer_count; b++)
            judge_rest(dev, b);
    } else {
        if (good)
            ebb_log(EBB_WARN, "what a step writes could not be watched: %s", ebb_last_failure());
        ebb_stale_hint(dev->ebb, ebb_wait_for_device(dev->ebb));
    }
    clear(dev);
}

/* pieces.c: what of its buffers an operation of a recorded step reaches, in tiles, and which of these are watched (internal.h). */
#include "ckpt/run/profile/internal.h"

#include <stdlib.h>

#include "alloc/base/table.h"
#include "ckpt/run/state.h"

/* ---- the shape of a recorded step ---- */

/* Of each buffer, the offsets at which pointers into it were seen: an operation is watched up to the next one. By a table it reaches all of it:
 * which of its pointers go where is not recorded. */
typedef struct pointer {
    uint32_t buffer;
    uint64_t offset;
    uint32_t access;
} pointer_t;

static int by_place(const void *a, const void *b)
{
    const pointer_t *x = a, *y = b;
    if (x->buffer != y->buffer)
        return x->buffer < y->buffer ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void measure_extents(ebb_profile_t *l, pointer_t *p, uint32_t count)
{
    qsort(p, count, sizeof *p, by_place);
    for (uint32_t i = 0; i < count; i++) {
        const ebb_trace_buffer_t *b = &l->recorded.trace->buffer[p[i].buffer];
        uint32_t next = i + 1;
        while (next < count && p[next].buffer == p[i].buffer && p[next].offset == p[i].offset)
            next++;
        bool last = next == count || p[next].buffer != p[i].buffer;
        uint64_t end = last ? b->bytes : p[next].offset;
        uint32_t tiles = ebb_tile_count(b->bytes), first = (uint32_t)(p[i].offset / EBB_TILE_BYTES);
        first = first < tiles ? first : tiles - 1; /* one past the end */
        uint32_t until = ebb_tile_count(end);
        l->buffer[p[i].buffer].arena |= !last;
        for (; i < next; i++) {
            l->reach[p[i].access].first = first;
            l->reach[p[i].access].count = until > first ? until - first : 1;
        }
        i--;
    }
}

/* The first operation that touches a fresh buffer may fill all of it: only its own pointers say how far it goes, not later
 * ones. */
static void reach_of_first(ebb_profile_t *l, uint32_t buffer)
{
    const ebb_trace_t *t = l->recorded.trace;
    const uint32_t tiles = ebb_tile_count(t->buffer[buffer].bytes);
    uint32_t k = l->buffer[buffer].first_use, i = 0;
    while (t->operation[i].first_access + t->operation[i].access_count <= k)
        i++;
    const uint32_t end = t->operation[i].first_access + t->operation[i].access_count;
    for (; k < end; k++) {
        uint32_t until = tiles;
        for (uint32_t n = t->operation[i].first_access; n < end; n++)
            if (t->access[n].buffer == buffer && l->reach[n].first > l->reach[k].first &&
                l->reach[n].first < until)
                until = l->reach[n].first;
        if (t->access[k].buffer == buffer && !ebb_is_by_table(&l->recorded, i, &t->access[k]))
            l->reach[k].count = until - l->reach[k].first;
    }
}

bool ebb_pieces_measure(ebb_profile_t *l)
{
    const ebb_trace_t *t = l->recorded.trace;
    uint32_t *stream = calloc((size_t)t->buffer_count + 1, sizeof *stream), pointers = 0;
    pointer_t *p = calloc((size_t)t->access_count + 1, sizeof *p);
    l->fact = calloc((size_t)t->operation_count + 1, sizeof *l->fact);
    l->reach = calloc((size_t)t->access_count + 1, sizeof *l->reach);
    l->buffer = calloc((size_t)t->buffer_count + 1, sizeof *l->buffer);
    bool good = stream && p && l->fact && l->reach && l->buffer;
    for (uint32_t i = 0; good && i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            const ebb_trace_access_t *a = &t->access[k];
            if (ebb_is_by_table(&l->recorded, i, a))
                l->reach[k].count = ebb_tile_count(t->buffer[a->buffer].bytes);
            else
                p[pointers++] = (pointer_t){a->buffer, a->offset_bytes, k};
            if (!stream[a->buffer])
                l->buffer[a->buffer].first_use = k;
            l->buffer[a->buffer].crossed |= stream[a->buffer] && stream[a->buffer] != o->stream + 1;
            stream[a->buffer] = o->stream + 1;
        }
    }
    if (good)
        measure_extents(l, p, pointers);
    for (uint32_t i = 0; good && i < t->buffer_count; i++)
        if (l->buffer[i].arena && t->buffer[i].born != EBB_NONE)
            reach_of_first(l, i);
    free(stream);
    free(p);
    return good;
}

/* ---- what to watch ---- */

static const ebb_trace_t *trace(struct ebb_writes *writes)
{
    return writes->profile->recorded.trace;
}

static bool has_unknown(ebb_device_t *dev, const ebb_profile_t *l, uint32_t i)
{
    const ebb_trace_operation_t *o = &l->recorded.trace->operation[i];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        if (ebb_know_word(dev, l->recorded.operation[i].function,
                          ebb_word_of(&l->recorded, i, &l->recorded.trace->access[k])) == EBB_WORD_UNKNOWN)
            return true;
    return false;
}

/* All of a step are watched once; once more, if a word or a change is not accounted for. */
bool ebb_writes_is_needed(ebb_device_t *dev, ebb_profile_t *l)
{
    if (!l->turn)
        return true;
    for (uint32_t b = 0; b < l->recorded.trace->buffer_count; b++)
        if (l->buffer[b].wide)
            return true;
    for (uint32_t i = 0; i < l->recorded.trace->operation_count; i++)
        if (l->recorded.trace->operation[i].kind == EBB_TRACE_KERNEL && has_unknown(dev, l, i))
            return true;
    return false;
}

/* All launches; in a second look the first one of each kernel of which not all is known. */
static void choose(ebb_device_t *dev)
{
    struct ebb_writes *writes = dev->run->writes;
    const ebb_recording_t *r = &writes->profile->recorded;
    ebb_table_t seen = {0};
    bool added = true;
    for (uint32_t i = 0; i < r->trace->operation_count; i++)
        if (r->trace->operation[i].kind == EBB_TRACE_KERNEL)
            writes->operation[i].chosen =
                writes->all ||
                (has_unknown(dev, writes->profile, i) &&
                 (!ebb_table_add(&seen, sizeof(uint64_t), (uintptr_t)r->operation[i].function, &added) ||
                  added));
    free(seen.at);
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
    struct ebb_writes *writes = dev->run->writes;
    const ebb_profile_t *l = writes->profile;
    const ebb_trace_access_t *a = &trace(writes)->access[access];
    if (writes->all)
        return true;
    const ebb_word_t word =
        ebb_know_word(dev, l->recorded.operation[i].function, ebb_word_of(&l->recorded, i, a));
    return (writes->operation[i].chosen && word == EBB_WORD_UNKNOWN) ||
           (l->buffer[a->buffer].wide &&
            (word == EBB_WORD_WRITES ||
             l->buffer[a->buffer].first_use >= trace(writes)->operation[i].first_access));
}

/* The pieces of one operation: what its accesses touch, each tile once. */
static bool add_pieces(ebb_device_t *dev, uint32_t i)
{
    struct ebb_writes *writes = dev->run->writes;
    const ebb_profile_t *l = writes->profile;
    const ebb_trace_operation_t *o = &trace(writes)->operation[i];
    uint32_t begin = writes->piece_count, kept = begin;
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        if (o->kind != EBB_TRACE_KERNEL || !is_asked(dev, i, k))
            continue;
        piece_t *p =
            ebb_array_append((void **)&writes->piece, &writes->piece_count, &writes->piece_room, sizeof *p);
        if (!p)
            return false;
        *p = (piece_t){.buffer = trace(writes)->access[k].buffer,
                       .first = l->reach[k].first,
                       .count = l->reach[k].count};
    }
    if (writes->piece_count > begin)
        qsort(writes->piece + begin, writes->piece_count - begin, sizeof *writes->piece, by_tile);
    for (uint32_t k = begin; k < writes->piece_count; k++) {
        piece_t *last = kept > begin ? &writes->piece[kept - 1] : NULL;
        const piece_t p = writes->piece[k];
        if (!last || last->buffer != p.buffer || last->first + last->count < p.first)
            writes->piece[kept++] = p;
        else if (p.first + p.count > last->first + last->count)
            last->count = p.first + p.count - last->first;
    }
    writes->piece_count = kept;
    return true;
}

/* A known writer of such a buffer may write to its end. */
static void widen_extents(ebb_device_t *dev)
{
    struct ebb_writes *writes = dev->run->writes;
    ebb_profile_t *l = writes->profile;
    for (uint32_t i = 0; i < trace(writes)->operation_count; i++)
        for (uint32_t n = 0; n < trace(writes)->operation[i].access_count; n++) {
            uint32_t k = trace(writes)->operation[i].first_access + n, b = trace(writes)->access[k].buffer;
            if (l->buffer[b].wide &&
                ebb_know_word(dev, l->recorded.operation[i].function,
                              ebb_word_of(&l->recorded, i, &trace(writes)->access[k])) == EBB_WORD_WRITES)
                l->reach[k].count = ebb_tile_count(trace(writes)->buffer[b].bytes) - l->reach[k].first;
        }
}

/* Gives every piece its places in table and results. */
static void number_pieces(struct ebb_writes *writes)
{
    const ebb_profile_t *l = writes->profile;
    for (uint32_t i = 0; i < writes->piece_count; i++) {
        piece_t *p = &writes->piece[i];
        p->there = p->count;
        const ebb_trace_buffer_t *b = &trace(writes)->buffer[p->buffer];
        bool own = l->buffer[p->buffer].crossed;
        p->hash = own ? writes->hashes : writes->buffer[p->buffer].hash_at + p->first;
        writes->hashes += own ? p->count : 0;
        p->result = writes->results;
        writes->results += p->count;
        p->early = EBB_NONE;
        if (l->buffer[p->buffer].arena && !own && ebb_piece_is_kept(writes, p->buffer)) {
            p->early = writes->results;
            writes->results += p->count;
        }
        p->found = writes->all && b->bytes <= EBB_TILE_BYTES && b->bytes >= 8 ? writes->founds++ : EBB_NONE;
    }
}

static void number_buffers(struct ebb_writes *writes)
{
    const ebb_trace_t *t = trace(writes);
    for (uint32_t b = 0; b < t->buffer_count; b++) {
        writes->buffer[b].first_use = writes->buffer[b].last_use = writes->buffer[b].rest_at = EBB_NONE;
        writes->buffer[b].hash_at = writes->hashes;
        writes->hashes += ebb_tile_count(t->buffer[b].bytes);
    }
    for (uint32_t i = 0; i < t->operation_count; i++)
        for (uint32_t p = writes->operation[i].first_piece; p < writes->operation[i + 1].first_piece; p++) {
            uint32_t b = writes->piece[p].buffer;
            if (writes->buffer[b].first_use == EBB_NONE)
                writes->buffer[b].first_use = i;
            writes->buffer[b].last_use = i;
        }
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (writes->profile->buffer[b].arena && ebb_piece_is_kept(writes, b) &&
            writes->buffer[b].last_use != EBB_NONE) {
            writes->buffer[b].rest_at = writes->results;
            writes->results += ebb_tile_count(t->buffer[b].bytes);
        }
}

void ebb_pieces_stale(struct ebb_writes *writes, uint32_t buffer, uint32_t first, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        ebb_piece_tile(writes, buffer, first + n)->state = STALE;
}

bool ebb_pieces_lay_out(ebb_device_t *dev)
{
    struct ebb_writes *writes = dev->run->writes;
    const ebb_trace_t *t = trace(writes);
    writes->operation = calloc((size_t)t->operation_count + 1, sizeof *writes->operation);
    writes->buffer = calloc((size_t)t->buffer_count + 1, sizeof *writes->buffer);
    if (!writes->operation || !writes->buffer)
        return false;
    choose(dev);
    widen_extents(dev);
    for (uint32_t i = 0; i < t->operation_count; i++) {
        writes->operation[i].first_piece = writes->piece_count;
        if (!add_pieces(dev, i))
            return false;
    }
    writes->operation[t->operation_count].first_piece = writes->piece_count;
    number_buffers(writes);
    number_pieces(writes);
    writes->tile = calloc((size_t)writes->hashes + 1, sizeof *writes->tile);
    if (!writes->tile)
        return false;
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (t->buffer[b].born == EBB_NONE)
            ebb_pieces_stale(writes, b, 0, ebb_tile_count(t->buffer[b].bytes));
    return true;
}

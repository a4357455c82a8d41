/* sizes.c: the largest sizes that a step's buffers were seen to have; see profile.h. */
#include "ckpt/run/profile/internal.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/run/replay/replay.h"
#include "ckpt/run/tracker/tracker.h"

/* A kernel may do otherwise with so much more. */
static const double much = 1.25;

/* Sizes that differ by no more are about the same. */
static const double alike = 4.0 / 3;

/* What is above the key's by so much was, in one step, and will be by more: where the longest of a batch says how large most are, and the key
 * goes by their sum, say. */
static const double margin = 2,
                    apart = 1e9; /* if that was not enough, they have nothing to do with each other */

double ebb_operand_bytes(const ebb_trace_t *t, uint32_t operation)
{
    const ebb_trace_operation_t *o = &t->operation[operation];
    double sum = 0;
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        sum += (double)t->buffer[t->access[k].buffer].bytes;
    return sum;
}

/* What went to the end of its buffer goes to the new one. */
static void stretch(ebb_profile_t *l, uint32_t access, uint32_t before)
{
    ebb_trace_access_t *a = &l->recorded.trace->access[access];
    const uint32_t now = ebb_tile_count(l->recorded.trace->buffer[a->buffer].bytes);
    if (l->reach[access].first + l->reach[access].count >= before)
        l->reach[access].count = now - l->reach[access].first;
    if (a->tile_count && a->first_tile + a->tile_count >= before)
        a->tile_count = now - a->first_tile;
}

static void scale_time(ebb_trace_t *t, uint32_t operation, double operands)
{
    ebb_trace_operation_t *o = &t->operation[operation];
    if (operands > 0)
        o->duration_ns = (uint64_t)((double)o->duration_ns * ebb_operand_bytes(t, operation) / operands);
}

/* Where steps grow one by one, an eighth of headroom, so that not every one of them is larger than what is known. */
static size_t larger(const ebb_profile_t *l, size_t bytes)
{
    return l->recorded.any_size && l->grew ? bytes + bytes / 8 : bytes;
}

static bool outgrows(ebb_device_t *dev, const ebb_trace_t *t, uint32_t id)
{
    return !ebb_trace_stays_itself(t, id) && ebb_match_bytes(dev, id) > t->buffer[id].bytes;
}

/* Buffers that go round have one size: any of them is in the place of any other some steps later. */
static bool is_uneven(const ebb_trace_t *t, uint32_t id)
{
    const uint32_t next = t->buffer[id].next;
    return next != EBB_NONE && next != id && t->buffer[next].bytes != t->buffer[id].bytes;
}

static void even_rings(ebb_trace_t *t)
{
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t id = 0; id < t->buffer_count; id++) {
            if (!is_uneven(t, id))
                continue;
            ebb_trace_buffer_t *b = &t->buffer[id], *next = &t->buffer[b->next];
            b->bytes = next->bytes = b->bytes > next->bytes ? b->bytes : next->bytes;
            more = true;
        }
    }
}

static size_t least(const ebb_profile_t *l, uint32_t id)
{
    const size_t most = l->recorded.trace->buffer[id].bytes, seen = l->seen ? l->seen[id].least : 0;
    return seen && seen < most ? seen : most;
}

static bool is_large(const ebb_trace_t *t, uint32_t id)
{
    return t->buffer[id].bytes > EBB_SMALL_BYTES;
}

/* The first large buffer that a step allocates: what is allocated before may be lists, counts and offsets, which say little about the rest. */
static uint32_t key_of(const ebb_trace_t *t)
{
    for (uint32_t id = 0; id < t->buffer_count; id++)
        if (t->buffer[id].born != EBB_NONE && is_large(t, id))
            return id;
    return EBB_NONE;
}

/* What lies behind others in a buffer that the step allocates is elsewhere in other steps: its operations are watched on all of it. */
void ebb_profile_is_any_size(ebb_profile_t *l)
{
    const ebb_trace_t *t = l->recorded.trace;
    if (!t || l->recorded.any_size)
        return;
    l->recorded.any_size = true;
    l->recorded.key = key_of(l->recorded.trace);
    for (uint32_t k = 0; k < t->access_count; k++)
        if (t->buffer[t->access[k].buffer].born != EBB_NONE)
            l->reach[k] = (ebb_reach_t){.count = ebb_tile_count(t->buffer[t->access[k].buffer].bytes)};
}

static int by_bytes(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

/* Where some of the buffers that vary have grown, and others of about their size have not, these do not follow one another: they are an
 * expert's, say, and what came to one of them comes to another later. */
static void grow_alike(ebb_profile_t *l, size_t *grown, uint32_t count)
{
    ebb_trace_t *t = l->recorded.trace;
    qsort(grown, count, sizeof *grown, by_bytes);
    for (uint32_t id = 0; id < t->buffer_count; id++) {
        ebb_trace_buffer_t *b = &t->buffer[id];
        if (b->born == EBB_NONE || least(l, id) == b->bytes)
            continue;
        uint32_t low = 0, high = count; /* of the first that is more than about as large */
        while (low < high) {
            const uint32_t middle = (low + high) / 2;
            if ((double)grown[middle] <= alike * (double)b->bytes)
                low = middle + 1;
            else
                high = middle;
        }
        if (low && grown[low - 1] > b->bytes)
            b->bytes = grown[low - 1];
    }
}

/* False: no host memory, and all is as it was. */
static bool grow(ebb_device_t *dev, ebb_profile_t *l)
{
    ebb_trace_t *t = l->recorded.trace;
    uint32_t *tiles = malloc(((size_t)t->buffer_count + 1) * sizeof *tiles);
    double *operands = malloc(((size_t)t->operation_count + 1) * sizeof *operands);
    size_t *grown = malloc(((size_t)t->buffer_count + 1) * sizeof *grown);
    uint32_t grown_count = 0;
    const bool good = tiles && operands && grown;
    for (uint32_t i = 0; good && i < t->operation_count; i++)
        operands[i] = ebb_operand_bytes(t, i);
    for (uint32_t id = 0; good && id < t->buffer_count; id++) {
        tiles[id] = ebb_tile_count(t->buffer[id].bytes);
        if (outgrows(dev, t, id))
            grown[grown_count++] = t->buffer[id].bytes = larger(l, ebb_match_bytes(dev, id));
    }
    if (good && l->recorded.any_size) {
        grow_alike(l, grown, grown_count);
        even_rings(t);
        l->recorded.key = key_of(l->recorded.trace);
    }
    free(grown);
    for (uint32_t k = 0; good && k < t->access_count; k++)
        stretch(l, k, tiles[t->access[k].buffer]);
    for (uint32_t i = 0; good && l->recorded.any_size && i < t->operation_count; i++)
        scale_time(t, i, operands[i]);
    free(tiles);
    free(operands);
    return good;
}

static double all_bytes(const ebb_trace_t *t)
{
    double sum = 0;
    for (uint32_t id = 0; id < t->buffer_count; id++)
        sum += (double)t->buffer[id].bytes;
    return sum;
}

bool ebb_sizes_are_new(const ebb_profile_t *l)
{
    return all_bytes(l->recorded.trace) > much * l->watched_bytes;
}

void ebb_sizes_note_watched(ebb_profile_t *l)
{
    l->watched_bytes = all_bytes(l->recorded.trace);
}

static void note_sizes(ebb_device_t *dev, ebb_profile_t *l)
{
    const uint32_t count = l->recorded.trace->buffer_count;
    if (!l->seen && l->recorded.any_size)
        l->seen = calloc((size_t)count + 1, sizeof *l->seen);
    for (uint32_t id = 0; l->seen && id < count; id++) {
        const size_t bytes = ebb_match_bytes(dev, id);
        if (bytes && (!l->seen[id].least || bytes < l->seen[id].least))
            l->seen[id].least = bytes;
        l->seen[id].any |= bytes;
    }
}

ebb_trace_t *ebb_profile_enlarged(const ebb_profile_t *l, unsigned times)
{
    const ebb_trace_t *now = l->recorded.trace;
    ebb_trace_t *t = ebb_trace_copy(now);
    for (uint32_t id = 0; t && id < t->buffer_count; id++)
        if (least(l, id) < now->buffer[id].bytes)
            t->buffer[id].bytes *= times;
    for (uint32_t i = 0; t && i < t->operation_count; i++)
        scale_time(t, i, ebb_operand_bytes(now, i));
    return t;
}

size_t ebb_profile_key_bytes(const ebb_profile_t *l, size_t *fewest)
{
    const uint32_t key = l->recorded.key;
    const size_t most = !l->recorded.any_size || key == EBB_NONE ? 0 : l->recorded.trace->buffer[key].bytes;
    *fewest = most ? least(l, key) : 0;
    return *fewest < most ? most : 0;
}

/* Large buffers stay large, for they have places of their own. */
static size_t in_place(size_t bytes)
{
    return bytes > EBB_SMALL_BYTES ? bytes : EBB_SMALL_BYTES + 1;
}

/* As all sizes were that it has had, and no more than the most. */
static size_t rounded_up(const ebb_profile_t *l, uint32_t id, double bytes)
{
    const size_t any = l->seen ? l->seen[id].any : 0, most = l->recorded.trace->buffer[id].bytes,
                 unit = any ? any & -any : 1;
    if (bytes >= (double)most)
        return most;
    const size_t rounded = ((size_t)(bytes + 0.999) + unit - 1) / unit * unit;
    return rounded < most ? rounded : most;
}

/* Where the key has so large a share of the most bytes it has had, rounded up as its place is: how far it is from the least (0) to these (1). */
static double at_share(const ebb_profile_t *l, double share)
{
    size_t fewest;
    const size_t most = ebb_profile_key_bytes(l, &fewest);
    const double bytes = most ? (double)in_place(rounded_up(l, l->recorded.key, share * (double)most)) : 0;
    return most && bytes > (double)fewest ? (bytes - (double)fewest) / (double)(most - fewest) : 0;
}

/* Evenly between the least and the most, without what was seen above that. */
static double even_bytes(const ebb_profile_t *l, uint32_t id, double at)
{
    const double low = (double)least(l, id), more = (double)l->recorded.trace->buffer[id].bytes - low;
    return low + more * at;
}

/* What lies evenly between two sizes that were rounded up is never less than what was not yet, so it is rounded up as well. */
static size_t bytes_at(const ebb_profile_t *l, uint32_t id, double at)
{
    return rounded_up(l, id, even_bytes(l, id, at) * (1 + (l->seen ? l->seen[id].above : 0)));
}

bool ebb_profile_note_above(ebb_profile_t *l, double share, uint32_t buffer, size_t bytes)
{
    const ebb_trace_t *t = l->recorded.trace;
    const double at = at_share(l, share);
    const size_t low = least(l, buffer), most = t->buffer[buffer].bytes;
    if (!l->seen || !is_large(t, buffer) || bytes_at(l, buffer, at) == most)
        return false;
    const double above = l->seen[buffer].above > 0 ? apart
                                                   : margin * ((double)bytes / even_bytes(l, buffer, at) - 1),
                 times = (double)most / (double)low;
    for (uint32_t id = 0; id < t->buffer_count; id++) {
        const double its = (double)t->buffer[id].bytes / (double)least(l, id);
        if (id != l->recorded.key && its > 1 && its < alike * times && times < alike * its &&
            l->seen[id].above < above)
            l->seen[id].above = above;
    }
    return true;
}

ebb_trace_t *ebb_profile_sized(const ebb_profile_t *l, double share)
{
    const ebb_trace_t *now = l->recorded.trace;
    const double at = at_share(l, share);
    ebb_trace_t *t = ebb_trace_copy(now);
    for (uint32_t id = 0; t && id < t->buffer_count; id++)
        if (t->buffer[id].born != EBB_NONE)
            t->buffer[id].bytes = bytes_at(l, id, at);
    for (uint32_t i = 0; t && i < t->operation_count; i++)
        scale_time(t, i, ebb_operand_bytes(now, i));
    for (uint32_t id = 0; t && id < t->buffer_count; id++) {
        ebb_trace_buffer_t *b = &t->buffer[id];
        b->bytes = is_large(now, id) ? in_place(b->bytes) : now->buffer[id].bytes;
    }
    for (uint32_t k = 0; t && k < t->access_count; k++) {
        ebb_trace_access_t *a = &t->access[k];
        ebb_trace_buffer_t *b = &t->buffer[a->buffer];
        b->bytes = b->bytes > a->offset_bytes ? b->bytes : a->offset_bytes + 1;
    }
    for (uint32_t k = 0; t && k < t->access_count; k++) {
        ebb_trace_access_t *a = &t->access[k];
        const uint32_t tiles = ebb_tile_count(t->buffer[a->buffer].bytes);
        a->first_tile = a->first_tile < tiles ? a->first_tile : 0;
        a->tile_count = a->first_tile + a->tile_count <= tiles ? a->tile_count : tiles - a->first_tile;
    }
    return t;
}

bool ebb_profile_grow(ebb_device_t *dev, ebb_profile_t *l)
{
    const ebb_trace_t *t = l->recorded.trace;
    uint32_t id = 0;
    note_sizes(dev, l);
    while (id < t->buffer_count && !outgrows(dev, t, id) && !(l->recorded.any_size && is_uneven(t, id)))
        id++;
    l->grew = id < t->buffer_count && grow(dev, l);
    if (l->grew) { /* these go by the old sizes */
        ebb_tracker_end(dev);
        ebb_verify_close(dev, &l->recorded);
    }
    return l->grew;
}

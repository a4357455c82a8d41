/* table.c: handles of graphs, nodes and executable graphs: a hash table from numbers to
 * objects, with linear probing. The number that was given back last is the next one, whatever it was the number of: only of a capture's id
 * does cuda.h say that it is unique over the life of the process (cuStreamGetCaptureInfo).
 */
#include "softgpu/driver/graph/graph.h"

#include <stdlib.h>

static struct {
    sg_object_t **slot; /* [capacity], a power of two; at most half of it taken */
    size_t capacity, count;
    uint64_t last,
        *unused; /* unused: [unused_count], of numbers up to the last; half the capacity has room for all */
    size_t unused_count;
} table;

/* Handles look like addresses of something: aligned, and far from small numbers, so that a handle of another
 * kind is hardly ever one of these. */
enum { HANDLE_STEP = 16 };
static const uint64_t handle_base = (uint64_t)0x5e << 40;

static size_t home_of(uint64_t id)
{
    return (size_t)((id / HANDLE_STEP * 0x9e3779b97f4a7c15u) >> 20) & (table.capacity - 1);
}

static void place(sg_object_t *object)
{
    size_t i = home_of(object->id);
    while (table.slot[i])
        i = (i + 1) & (table.capacity - 1);
    table.slot[i] = object;
}

static bool grow(void)
{
    sg_object_t **old = table.slot;
    size_t old_capacity = table.capacity, capacity = old_capacity ? 2 * old_capacity : 256;
    uint64_t *unused = realloc(table.unused, capacity / 2 * sizeof *unused);
    if (unused)
        table.unused = unused;
    sg_object_t **slot = unused ? calloc(capacity, sizeof *slot) : NULL;
    if (!slot)
        return false;
    table.slot = slot;
    table.capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i])
            place(old[i]);
    free(old);
    return true;
}

bool sg_object_add_locked(sg_object_t *object, sg_object_kind_t kind)
{
    if (2 * table.count >= table.capacity && !grow())
        return false;
    object->id =
        table.unused_count ? table.unused[--table.unused_count] : handle_base + (table.last += HANDLE_STEP);
    object->kind = kind;
    place(object);
    table.count++;
    return true;
}

/* Index of the number's slot, or of the empty one where it would be. */
static size_t find(uint64_t id)
{
    size_t i = home_of(id);
    while (table.slot[i] && table.slot[i]->id != id)
        i = (i + 1) & (table.capacity - 1);
    return i;
}

void sg_object_remove_locked(sg_object_t *object)
{
    if (!object->id)
        return;
    size_t hole = find(object->id);
    table.slot[hole] = NULL;
    table.count--;
    table.unused[table.unused_count++] = object->id;
    object->id = 0;
    /* What stands behind the hole and was pushed past it moves up. */
    for (size_t i = (hole + 1) & (table.capacity - 1); table.slot[i]; i = (i + 1) & (table.capacity - 1)) {
        sg_object_t *o = table.slot[i];
        table.slot[i] = NULL;
        place(o);
    }
}

void *sg_object_find_locked(const void *handle, sg_object_kind_t kind)
{
    uint64_t id = (uint64_t)(uintptr_t)handle;
    if (!id || !table.capacity)
        return NULL;
    sg_object_t *o = table.slot[find(id)];
    return o && o->kind == kind ? o : NULL;
}

CUresult sg_graph_enter(void)
{
    SG_TRY(sg_enter());
    return sg_on_caller_thread() ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

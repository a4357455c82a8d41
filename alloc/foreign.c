#include "alloc/foreign.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/chunk.h"
#include "alloc/heap.h"

typedef struct entry {
    ebb_foreign_t is;
    unsigned slot; /* on whose budget it counts */
} entry_t;

static struct {
    entry_t *range; /* by base; they do not overlap */
    size_t count, room;
} foreign;

static size_t counted_of[EBB_STATES];
#define counted_here (counted_of[ebb_slot])

/* The first range that begins behind the address. */
static size_t behind(CUdeviceptr address)
{
    size_t low = 0, high = foreign.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (foreign.range[middle].is.base > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

const ebb_foreign_t *ebb_foreign_at(CUdeviceptr address)
{
    size_t i = behind(address);
    const ebb_foreign_t *f = i ? &foreign.range[i - 1].is : NULL;
    return f && address - f->base < f->bytes ? f : NULL;
}

static bool grow(void)
{
    size_t room = foreign.room ? 2 * foreign.room : 64;
    entry_t *range = realloc(foreign.range, room * sizeof *range);
    if (!range)
        return false;
    foreign.range = range;
    foreign.room = room;
    return true;
}

bool ebb_foreign_add(const ebb_foreign_t *range)
{
    ebb_foreign_remove(range->base);
    if (foreign.count == foreign.room && !grow())
        return false;
    size_t i = behind(range->base);
    memmove(&foreign.range[i + 1], &foreign.range[i], (foreign.count - i) * sizeof *foreign.range);
    foreign.range[i] = (entry_t){*range, ebb_slot};
    foreign.count++;
    return true;
}

static void remove_at(size_t i)
{
    const unsigned slot = ebb_slot_swap(foreign.range[i].slot);
    ebb_foreign_uncount(foreign.range[i].is.counted);
    ebb_slot = slot;
    foreign.count--;
    memmove(&foreign.range[i], &foreign.range[i + 1], (foreign.count - i) * sizeof *foreign.range);
}

bool ebb_foreign_remove(CUdeviceptr base)
{
    size_t i = behind(base);
    if (!i || foreign.range[i - 1].is.base != base)
        return false;
    remove_at(i - 1);
    return true;
}

void ebb_foreign_forget(const void *owner)
{
    for (size_t i = foreign.count; i-- > 0;)
        if (foreign.range[i].is.owner == owner)
            remove_at(i);
}

/* ---- the budget: in whole chunks, of the sum ---- */

static size_t chunks_for(size_t bytes)
{
    return (bytes + EBB_CHUNK_BYTES - 1) / EBB_CHUNK_BYTES;
}

bool ebb_foreign_count(size_t bytes)
{
    size_t more = chunks_for(counted_here + bytes) - chunks_for(counted_here);
    if (more && !ebb_heap_cede(more))
        return false;
    counted_here += bytes;
    return true;
}

void ebb_foreign_uncount(size_t bytes)
{
    size_t before = chunks_for(counted_here);
    counted_here -= bytes;
    ebb_chunks_regain(before - chunks_for(counted_here));
}

size_t ebb_foreign_counted(void)
{
    return counted_here;
}

#include "alloc/device.h"

#include <stdlib.h>
#include <string.h>

typedef struct ebb_foreign_range {
    ebb_foreign_t is;
    ebb_device_t *device; /* on whose budget it counts */
} entry_t;

/* The first range that begins behind the address. */
static size_t behind(ebb_t *ebb, CUdeviceptr address)
{
    size_t low = 0, high = ebb->foreign.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ebb->foreign.range[middle].is.base > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

const ebb_foreign_t *ebb_foreign_at(ebb_t *ebb, CUdeviceptr address)
{
    size_t i = behind(ebb, address);
    const ebb_foreign_t *f = i ? &ebb->foreign.range[i - 1].is : NULL;
    return f && address - f->base < f->bytes ? f : NULL;
}

static bool grow(ebb_t *ebb)
{
    size_t room = ebb->foreign.room ? 2 * ebb->foreign.room : 64;
    entry_t *range = realloc(ebb->foreign.range, room * sizeof *range);
    if (!range)
        return false;
    ebb->foreign.range = range;
    ebb->foreign.room = room;
    return true;
}

bool ebb_foreign_add(ebb_device_t *dev, const ebb_foreign_t *range)
{
    ebb_foreign_remove(dev->ebb, range->base);
    if (dev->ebb->foreign.count == dev->ebb->foreign.room && !grow(dev->ebb))
        return false;
    size_t i = behind(dev->ebb, range->base);
    memmove(&dev->ebb->foreign.range[i + 1], &dev->ebb->foreign.range[i],
            (dev->ebb->foreign.count - i) * sizeof *dev->ebb->foreign.range);
    dev->ebb->foreign.range[i] = (entry_t){*range, dev};
    dev->ebb->foreign.count++;
    return true;
}

static void remove_at(ebb_t *ebb, size_t i)
{
    entry_t *e = &ebb->foreign.range[i];
    ebb_foreign_uncount(e->device, e->is.counted);
    ebb->foreign.count--;
    memmove(e, e + 1, (ebb->foreign.count - i) * sizeof *e);
}

bool ebb_foreign_remove(ebb_t *ebb, CUdeviceptr base)
{
    size_t i = behind(ebb, base);
    if (!i || ebb->foreign.range[i - 1].is.base != base)
        return false;
    remove_at(ebb, i - 1);
    return true;
}

void ebb_foreign_forget(ebb_t *ebb, const void *owner)
{
    for (size_t i = ebb->foreign.count; i-- > 0;)
        if (ebb->foreign.range[i].is.owner == owner)
            remove_at(ebb, i);
}

/* ---- the budget: in whole chunks, of the sum ---- */

static size_t chunks_for(size_t bytes)
{
    return (bytes + EBB_CHUNK_BYTES - 1) / EBB_CHUNK_BYTES;
}

bool ebb_foreign_count(ebb_device_t *dev, size_t bytes)
{
    size_t more = chunks_for(dev->foreign_bytes + bytes) - chunks_for(dev->foreign_bytes);
    if (more && !ebb_heap_lend(dev, more))
        return false;
    dev->foreign_bytes += bytes;
    return true;
}

void ebb_foreign_uncount(ebb_device_t *dev, size_t bytes)
{
    size_t before = chunks_for(dev->foreign_bytes);
    dev->foreign_bytes -= bytes;
    ebb_chunks_regain(dev, before - chunks_for(dev->foreign_bytes));
}

size_t ebb_foreign_counted(ebb_device_t *dev)
{
    return dev->foreign_bytes;
}

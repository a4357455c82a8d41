/* table.c: open addressing with linear probing; removal closes the gap (Knuth, volume 3, section 6.4, algorithm R). */
#include "softgpu/driver/table.h"

#include <stdint.h>
#include <stdlib.h>

static size_t home(const sg_table_t *t, const void *address)
{
    return (size_t)(((uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15u) >> 20) & (t->capacity - 1);
}

/* Where the address is, or the free slot where it would be. */
static size_t find(const sg_table_t *t, const void *address)
{
    size_t i = home(t, address);
    while (t->slot[i] && t->slot[i] != address)
        i = (i + 1) & (t->capacity - 1);
    return i;
}

static bool grow(sg_table_t *t)
{
    sg_table_t wider = {.capacity = t->capacity ? 2 * t->capacity : 64};
    wider.slot = calloc(wider.capacity, sizeof *wider.slot);
    if (!wider.slot)
        return false;
    for (size_t i = 0; i < t->capacity; i++)
        if (t->slot[i])
            wider.slot[find(&wider, t->slot[i])] = t->slot[i];
    wider.count = t->count;
    free(t->slot);
    *t = wider;
    return true;
}

bool sg_table_insert(sg_table_t *t, const void *address)
{
    if (2 * (t->count + 1) > t->capacity && !grow(t))
        return false;
    t->slot[find(t, address)] = address;
    t->count++;
    return true;
}

bool sg_table_contains(const sg_table_t *t, const void *address)
{
    return address && t->capacity && t->slot[find(t, address)];
}

void sg_table_remove(sg_table_t *t, const void *address)
{
    if (!sg_table_contains(t, address))
        return;
    size_t gap = find(t, address);
    for (size_t i = gap;;) {
        i = (i + 1) & (t->capacity - 1);
        if (!t->slot[i])
            break;
        /* What lies behind moves up unless its home is between the gap and itself. */
        if (((i - home(t, t->slot[i])) & (t->capacity - 1)) >= ((i - gap) & (t->capacity - 1))) {
            t->slot[gap] = t->slot[i];
            gap = i;
        }
    }
    t->slot[gap] = NULL;
    t->count--;
}

void *sg_table_next(const sg_table_t *t, size_t *at)
{
    while (*at < t->capacity) {
        const void *address = t->slot[(*at)++];
        if (address)
            return (void *)(uintptr_t)address;
    }
    return NULL;
}

#include "alloc/kernel/tensor_map.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/log.h"

typedef struct map {
    unsigned char bytes[EBB_TENSOR_MAP_BYTES];
    CUdeviceptr address; /* 0: free */
} map_t;

/* Open addressing by the bytes. Programs encode descriptors anew for every tensor, so when the table fills, those
 * go whose memory is no live buffer's. */
static map_t *table;
static size_t capacity; /* 0 or a power of two */
size_t ebb_tensor_map_count;

static size_t place_of(const map_t *slots, size_t room, const void *bytes)
{
    uint64_t word[EBB_TENSOR_MAP_BYTES / 8], h = 0;
    memcpy(word, bytes, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++)
        h = (h ^ word[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    size_t at = (size_t)h & (room - 1);
    while (slots[at].address && memcmp(slots[at].bytes, bytes, EBB_TENSOR_MAP_BYTES))
        at = (at + 1) & (room - 1);
    return at;
}

static bool make_space(void)
{
    size_t live = 0;
    for (size_t i = 0; i < capacity; i++)
        live += table[i].address && ebb_buffer_at(table[i].address);
    size_t room = 256;
    while (room < 4 * live)
        room *= 2;
    map_t *slots = calloc(room, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < capacity; i++)
        if (table[i].address && ebb_buffer_at(table[i].address))
            slots[place_of(slots, room, table[i].bytes)] = table[i];
    free(table);
    table = slots;
    capacity = room;
    ebb_tensor_map_count = live;
    return true;
}

bool ebb_tensor_map_note(const void *map, CUdeviceptr address)
{
    if (!address)
        return true;
    if (2 * ebb_tensor_map_count >= capacity && !make_space())
        return false;
    map_t *m = &table[place_of(table, capacity, map)];
    ebb_tensor_map_count += !m->address;
    memcpy(m->bytes, map, sizeof m->bytes);
    m->address = address;
    return true;
}

CUdeviceptr ebb_tensor_map_address(const void *bytes)
{
    return ebb_tensor_map_count ? table[place_of(table, capacity, bytes)].address : 0;
}

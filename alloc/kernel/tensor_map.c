#include "alloc/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/status.h"
#include "alloc/device.h"

typedef struct ebb_tensor_map {
    unsigned char bytes[EBB_TENSOR_MAP_BYTES];
    CUdeviceptr address; /* 0: free */
} map_t;

/* Open addressing by the bytes. Programs encode descriptors anew for every tensor, so when the table fills, those
 * go whose memory is no live buffer's. */
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

static bool make_space(ebb_t *ebb)
{
    size_t live = 0;
    for (size_t i = 0; i < ebb->tensor_maps.capacity; i++)
        live += ebb->tensor_maps.table[i].address && ebb_buffer_at(ebb, ebb->tensor_maps.table[i].address);
    size_t room = 256;
    while (room < 4 * live)
        room *= 2;
    map_t *slots = calloc(room, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < ebb->tensor_maps.capacity; i++)
        if (ebb->tensor_maps.table[i].address && ebb_buffer_at(ebb, ebb->tensor_maps.table[i].address))
            slots[place_of(slots, room, ebb->tensor_maps.table[i].bytes)] = ebb->tensor_maps.table[i];
    free(ebb->tensor_maps.table);
    ebb->tensor_maps.table = slots;
    ebb->tensor_maps.capacity = room;
    ebb->tensor_maps.count = live;
    return true;
}

bool ebb_tensor_map_note(ebb_t *ebb, const void *map, CUdeviceptr address)
{
    if (!address)
        return true;
    if (2 * ebb->tensor_maps.count >= ebb->tensor_maps.capacity && !make_space(ebb))
        return false;
    map_t *m = &ebb->tensor_maps.table[place_of(ebb->tensor_maps.table, ebb->tensor_maps.capacity, map)];
    ebb->tensor_maps.count += !m->address;
    memcpy(m->bytes, map, sizeof m->bytes);
    m->address = address;
    return true;
}

CUdeviceptr ebb_tensor_map_address(ebb_t *ebb, const void *bytes)
{
    return ebb->tensor_maps.count
               ? ebb->tensor_maps.table[place_of(ebb->tensor_maps.table, ebb->tensor_maps.capacity, bytes)]
                     .address
               : 0;
}

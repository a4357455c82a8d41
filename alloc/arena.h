/* arena.h: the arena's inside, for this folder: see ebb_alloc.h and arena.c. */
#ifndef EBB_ARENA_H
#define EBB_ARENA_H

#include "alloc/device.h"

/* No buffer lies less than this above a multiple of 4 GiB, if it can be helped: a word there is a number
 * below it beside the upper half of some pointer, as the padding of a struct often holds it. */
#define EBB_LOW_WORDS ((CUdeviceptr)32 << 20)
/* Nor where the lower half is a float from 1e-8 to 2, such as rates and factors are. */
#define EBB_FLOAT_WORDS_BEGIN ((CUdeviceptr)0x32000000)
#define EBB_FLOAT_WORDS_END   ((CUdeviceptr)0x40000000)

/* Once. `device_bytes`: of all devices. */
ebb_status_t ebb_arena_reserve(ebb_t *ebb, size_t device_bytes);

/* What the driver has refused to unmap goes now: of a range; of those that were deleted since. */
ebb_status_t ebb_range_clear(ebb_range_t *range);
void ebb_arena_clear(ebb_device_t *dev);

/* Puts chunks under a part of a range, or gives a part's back to the pool, which nobody may use any more. */
ebb_status_t ebb_range_map_part(ebb_range_t *range, uint32_t first, uint32_t count,
                                const ebb_chunk_t *chunks);
ebb_status_t ebb_range_unmap_part(ebb_range_t *range, uint32_t first, uint32_t count);

/* Also without the lock. */
static inline bool ebb_arena_contains(ebb_t *ebb, CUdeviceptr address)
{
    const size_t slots = atomic_load_explicit(&ebb->arena.slots, memory_order_acquire);
    return slots && address - ebb->arena.base < slots * EBB_CHUNK_BYTES;
}

/* The range at an address of the arena, or NULL. */
static inline ebb_range_t *ebb_arena_range(ebb_t *ebb, CUdeviceptr address)
{
    return ebb->arena.range[(address - ebb->arena.base) / EBB_CHUNK_BYTES];
}

/* Whose an address is: NULL if it is in no range. */
static inline ebb_device_t *ebb_arena_device(ebb_t *ebb, CUdeviceptr address)
{
    const ebb_range_t *r = ebb_arena_contains(ebb, address) ? ebb_arena_range(ebb, address) : NULL;
    return r ? r->device : NULL;
}

#endif

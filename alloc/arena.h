/* arena.h: the arena's inside, for this folder: see ebb_alloc.h and arena.c. */
#ifndef EBB_ARENA_H
#define EBB_ARENA_H

#include "alloc/ebb_alloc.h"

/* No buffer lies less than this above a multiple of 4 GiB, if it can be helped: a word there is a number
 * below it beside the upper half of some pointer, as the padding of a struct often holds it. */
#define EBB_LOW_WORDS ((CUdeviceptr)32 << 20)
/* Nor where the lower half is a float from 1e-8 to 2, such as rates and factors are. */
#define EBB_FLOAT_WORDS_BEGIN ((CUdeviceptr)0x32000000)
#define EBB_FLOAT_WORDS_END   ((CUdeviceptr)0x40000000)

typedef struct ebb_arena {
    CUdeviceptr base;
    size_t slots;
    size_t first_slot;   /* those in front of it are nobody's, ever: ebb_nowhere */
    ebb_range_t **range; /* [slots]: the range that a place belongs to, or NULL */
    size_t next_slot;    /* where the search for room goes on */
    ebb_range_t *stale;  /* deleted, but for what the driver has refused to unmap; through `next` */
} ebb_arena_t;

extern ebb_arena_t ebb_arena;

/* Once. `device_bytes`: of all devices. */
ebb_status_t ebb_arena_reserve(size_t device_bytes);

/* What the driver has refused to unmap goes now: of a range; of those that were deleted since. */
ebb_status_t ebb_range_clear(ebb_range_t *range);
void ebb_arena_clear(void);

/* Puts chunks under a part of a range, or gives a part's back to the pool, which nobody may use any more. */
ebb_status_t ebb_range_map_part(ebb_range_t *range, uint32_t first, uint32_t count,
                                const ebb_chunk_t *chunks);
ebb_status_t ebb_range_unmap_part(ebb_range_t *range, uint32_t first, uint32_t count);

static inline bool ebb_arena_contains(CUdeviceptr address)
{
    return address - ebb_arena.base < ebb_arena.slots * EBB_CHUNK_BYTES;
}

/* The range at an address of the arena, or NULL. */
static inline ebb_range_t *ebb_arena_range(CUdeviceptr address)
{
    return ebb_arena.range[(address - ebb_arena.base) / EBB_CHUNK_BYTES];
}

/* Whose an address is: EBB_NOWHERE if it is in no range. */
static inline unsigned ebb_arena_slot(CUdeviceptr address)
{
    const ebb_range_t *r = ebb_arena_contains(address) ? ebb_arena_range(address) : NULL;
    return r ? r->slot : EBB_NOWHERE;
}

#endif

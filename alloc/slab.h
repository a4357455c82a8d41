/* slab.h: address space that small buffers share, tiled by blocks in units of EBB_ALIGN_BYTES. For this folder.
 *
 * Every unit belongs to one block: live (a buffer), waiting (freed, kept for the next request of its size) or
 * free (merged with its neighbours). There are chunks only where blocks need them: a chunk's worth of units that
 * lies in free blocks may be without. */
#ifndef EBB_SLAB_H
#define EBB_SLAB_H

#include "alloc/ebb_alloc.h"

enum {
    EBB_CHUNK_UNITS = EBB_CHUNK_BYTES / EBB_ALIGN_BYTES,
    EBB_LARGEST_UNITS = EBB_SMALL_BYTES / EBB_ALIGN_BYTES
};

typedef enum ebb_block_state { EBB_LIVE, EBB_WAITING, EBB_FREE } ebb_block_state_t;

typedef struct ebb_block {
    ebb_buffer_t buffer; /* first: a small buffer is its block */
    uint32_t first, units;
    ebb_block_state_t state;
    ebb_mark_t freed;              /* waiting or free: may be in use until here */
    struct ebb_block *next, *prev; /* in its list (small.c) */
} ebb_block_t;

struct ebb_slab {
    ebb_range_t *range;
    struct ebb_slab *next;
    uint32_t units;
    uint32_t chunks;   /* of its range that are there */
    uint16_t *live;    /* live blocks that touch each chunk's worth of units */
    uint64_t *begins;  /* a bit for each unit: a block begins here */
    ebb_block_t *at[]; /* [units] the block that begins there */
};

/* A slab on a range, without blocks, not in the list. NULL: no host memory. */
ebb_slab_t *ebb_slab_new(ebb_range_t *range);
/* Unmaps and deletes range and slab; there must be no live block. False: the driver does not want to. */
bool ebb_slab_delete(ebb_slab_t *slab);

static inline ebb_slab_t *ebb_slab_of(const ebb_block_t *b)
{
    return b->buffer.range->slab;
}

/* A block at a place; it must be nobody's, and `units` above 0. NULL: no host memory. */
ebb_block_t *ebb_block_new(ebb_slab_t *slab, uint32_t first, uint32_t units);
void ebb_block_delete(ebb_block_t *block);
/* Its neighbours, or NULL. */
ebb_block_t *ebb_block_behind(const ebb_block_t *block);
ebb_block_t *ebb_block_before(const ebb_block_t *block);
/* The block of a unit, or NULL if there is none (in slabs of a plan) or it begins more than a large small buffer
 * before. */
ebb_block_t *ebb_block_of(const ebb_slab_t *slab, uint32_t unit);

/* The chunks, of those that the units touch, that are not there. */
unsigned ebb_slab_missing(const ebb_slab_t *slab, uint32_t first, uint32_t units);
/* Maps them on `chunks`; returns a failure when nothing has changed. */
ebb_status_t ebb_slab_back(ebb_slab_t *slab, uint32_t first, uint32_t units, const ebb_chunk_t *chunks);
/* A block comes to life, or dies. Returns in how many chunks' worth of units none was, or is, but it. */
unsigned ebb_slab_born(const ebb_block_t *block);
unsigned ebb_slab_died(const ebb_block_t *block);
/* Gives the chunks that lie wholly in these units, which nobody uses any more, back to the pool. */
void ebb_slab_strip(ebb_slab_t *slab, uint32_t first, uint32_t units);

#endif

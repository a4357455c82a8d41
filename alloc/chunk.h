/* chunk.h: the pool of physical memory. Chunks are created one by one up to the budget and kept: creating and
 * releasing them are the slowest calls of the VMM family.
 *
 * A chunk is free (in the pool) or taken. A free one may still be in use by work that was issued before it was
 * given: until its mark `freed`; a stream that has been given that work may have it at once. Ranges that nobody
 * owns any more may still be mapped on a chunk, free or taken: ghosts (heap.c).
 *
 * All chunks are of one size. Larger handles for large buffers that live long would be created in less time (published: 193 us each on an
 * A100, so 10 s for 100 GB in pieces of 2 MiB, once), but cuMemMap takes whole handles: what an eviction, a plan's overlay or a slab needs could
 * not be made of any free chunks any more, and memory that is free in the other size would be no use. bench/gpu_costs measures both. */
#ifndef EBB_CHUNK_H
#define EBB_CHUNK_H

#include "alloc/ebb_alloc.h"

struct ebb_chunk {
    CUmemGenericAllocationHandle handle;
    bool free;
    uint32_t at;     /* where in its list of free ones */
    uint32_t ghosts; /* ghosts mapped on it: it cannot be released */
    ebb_range_t
        *holder; /* the range, owned or spare, that has it to itself; NULL: none, or not known (spare.c) */
    ebb_mark_t freed; /* while free */
};

/* Fixes the budget. `others_bytes` of the budget are held by what ebb does not serve (context,
 * modules, libraries). */
void ebb_chunks_init(ebb_device_t *dev, size_t budget_bytes, size_t others_bytes);
/* From now on what else the process holds is measured before chunks are created, `reserve_bytes` more are held back,
 * and `ahead` of need some are created by a thread (ahead.c). */
void ebb_chunks_follow(ebb_device_t *dev, size_t reserve_bytes, bool ahead);
/* Measures now: for whoever knows that something was loaded. */
void ebb_chunks_measure(ebb_device_t *dev);

/* So many chunks less may exist, because the driver serves memory of that size itself; those that nobody has
 * taken go back to it. False: more of them are taken than that. And back. */
bool ebb_chunks_cede(ebb_device_t *dev, size_t count);
void ebb_chunks_regain(ebb_device_t *dev, size_t count);

/* All of ebb_usage() but the live bytes, which the heap knows. */
ebb_usage_t ebb_chunks_usage(ebb_device_t *dev);

/* Chunks that exist, and those of them that are free, whether or not in use until some mark. */
size_t ebb_chunks_created(ebb_device_t *dev);
size_t ebb_chunks_free(ebb_device_t *dev);

/* Chunks that exist beyond what the budget now allows, because what else the process holds has grown: they are
 * released when they are free, and not given out. */
size_t ebb_chunks_excess(ebb_device_t *dev);

/* Free chunks that `stream` may use now, or, if it is NULL, any stream. */
size_t ebb_chunks_suiting(ebb_device_t *dev, const ebb_stream_t *stream);
/* Takes up to `count` free chunks that `stream` may use now, or, if it is NULL, any stream; creates none.
 * Returns how many. */
size_t ebb_chunks_gather(ebb_device_t *dev, size_t count, const ebb_stream_t *stream, ebb_chunk_t *out);
/* The same, of those that `stream` may use after waiting for other streams: makes it wait. */
size_t ebb_chunks_join(ebb_device_t *dev, size_t count, ebb_stream_t *stream, ebb_chunk_t *out);
/* Waits for marks of free chunks until `chunks` can be taken, or there are none left to wait for. */
void ebb_chunks_wait(ebb_device_t *dev, size_t chunks);
/* Takes up to `count` new ones, as far as budget and driver allow. Returns how many. */
size_t ebb_chunks_create(ebb_device_t *dev, size_t count, ebb_chunk_t *out);
/* So many are needed for what is alive: no more are created ahead than a few beyond these. */
void ebb_chunks_expect(ebb_device_t *dev, size_t count);

/* What to tell the program when there are too few: CUDA_ERROR_OUT_OF_MEMORY, or, if the driver has refused the last
 * one for another reason, that, or a kernel's fault, which stays with the context (as its reference says, cuMemGetInfo
 * returns it, too). */
ebb_status_t ebb_chunks_refusal(ebb_device_t *dev);
/* For ahead.c, lock held: may one more be created? Then it counts already; end with the handle, or NULL if there is
 * none. */
bool ebb_chunks_begin_ahead(ebb_device_t *dev);
void ebb_chunks_end_ahead(ebb_device_t *dev, const CUmemGenericAllocationHandle *handle);
/* The driver's call; no lock. */
ebb_status_t ebb_chunk_handle(CUdevice device, CUmemGenericAllocationHandle *out);
/* Takes a free one. */
void ebb_chunk_claim(ebb_device_t *dev, ebb_chunk_t chunk);
/* Gives chunks that are in use until their marks `freed`. */
void ebb_chunks_give_back(ebb_device_t *dev, size_t count, const ebb_chunk_t *chunks);

#endif

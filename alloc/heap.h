/* heap.h: serving the program's allocations; see heap.c and small.c. For this folder. */
#ifndef EBB_HEAP_H
#define EBB_HEAP_H

#include "ebb_alloc.h"

typedef struct ebb_request {
    size_t bytes;
    ebb_stream_t *stream; /* stream-ordered on it; NULL: for every stream at once (cuMemAlloc) */
    CUmemoryPool pool;
} ebb_request_t;

/* A buffer for the request, or CUDA_ERROR_OUT_OF_MEMORY after everything spare was given up and the listener
 * could make no more room. */
ebb_status_t ebb_heap_alloc(const ebb_request_t *request, ebb_buffer_t **out);

/* Frees at a mark: memory is used again on the mark's stream at once, elsewhere when the mark is reached. The
 * buffer is gone. */
void ebb_heap_free(ebb_buffer_t *buffer, ebb_mark_t at);

/* The live buffer that begins at an address, or NULL. */
ebb_buffer_t *ebb_heap_find(CUdeviceptr address);

/* Unmaps spare memory until the pool can give `chunks`; waits for marks only if `wait`. True if it can. */
bool ebb_heap_reclaim(size_t chunks, bool wait);

/* Gets the pool to where it can give `chunks`, by all means there are, the listener's included. True if it
 * can. */
bool ebb_heap_make_room(size_t chunks);

/* Notes a use: the buffer becomes the newest. */
void ebb_buffer_touch(ebb_buffer_t *buffer, ebb_mark_t mark);

/* Checks all structures (debug builds and tests). */
void ebb_heap_check(void);

/* ---- small.c: buffers that share slabs; heap.c calls these ---- */

struct ebb_slab;
ebb_status_t ebb_small_alloc(const ebb_request_t *request, ebb_buffer_t **out);
void ebb_small_free(ebb_buffer_t *buffer, ebb_mark_t at);
ebb_buffer_t *ebb_small_at(const ebb_slab_t *slab, CUdeviceptr address);
/* Merges spare blocks whose marks are reached and deletes slabs that hold nothing. */
void ebb_small_reclaim(bool wait);
void ebb_small_check(void);

/* A mapped range for large buffers and slabs: spare, or new. */
ebb_status_t ebb_heap_range(size_t chunk_count, ebb_stream_t *stream, ebb_range_t **out);

#endif

/* chunk.h: the pool of physical memory. Chunks are created one by one up to the budget and kept: creating and
 * releasing them are the slowest calls of the VMM family. */
#ifndef EBB_CHUNK_H
#define EBB_CHUNK_H

#include "ebb_alloc.h"

/* Fixes device and budget. `others_bytes` of the budget are held by what ebb does not serve (context,
 * modules, libraries). */
void ebb_chunks_init(CUdevice device, size_t budget_bytes, size_t others_bytes);
int ebb_chunk_device(void);

/* Takes `count` chunks, creating what is missing. Nothing is taken on failure: CUDA_ERROR_OUT_OF_MEMORY when
 * that would exceed the budget or the driver has none. */
ebb_status_t ebb_chunks_take(size_t count, ebb_chunk_t *out);
void ebb_chunks_give(size_t count, const ebb_chunk_t *chunks);

/* How many can be taken. */
size_t ebb_chunks_available(void);
/* How many the budget allows in all. */
size_t ebb_chunks_limit(void);

/* All of ebb_usage() but the live bytes, which the heap knows. */
ebb_usage_t ebb_chunks_usage(void);

#endif

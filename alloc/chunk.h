/* chunk.h: the pool of physical memory. Chunks are created one by one up to the budget and kept: creating and
 * releasing them are the slowest calls of the VMM family. */
#ifndef EBB_CHUNK_H
#define EBB_CHUNK_H

#include "ebb_alloc.h"

/* Fixes device and budget. `others_bytes` of the budget are held by what ebb does not serve (context,
 * modules, libraries). */
void ebb_chunks_init(CUdevice device, size_t budget_bytes, size_t others_bytes);
int ebb_chunk_device(void);

/* So many chunks less may exist, because the driver serves memory of that size itself; those that nobody has
 * taken go back to it. False: more of them are taken than that. And back. */
bool ebb_chunks_cede(size_t count);
void ebb_chunks_regain(size_t count);

/* All of ebb_usage() but the live bytes, which the heap knows. */
ebb_usage_t ebb_chunks_usage(void);

#endif

/* other.h: operations that are neither launches nor linear copies and memsets (EBB_OTHER). For this folder. */
#ifndef EBB_OTHER_H
#define EBB_OTHER_H

#include "hook/enter.h"

/* What such an operation touches. An address in none of ebb's buffers is passed over, 0 among them. */
typedef struct ebb_other {
    const char *name; /* the driver's function: a literal of its own for each */
    CUstream stream;
    size_t bytes;               /* that it moves: part of what tells operations apart */
    const CUdeviceptr *address; /* [count] */
    size_t count;
    const size_t *span; /* [count] bytes from each address to the end of what it touches; NULL: not known */
} ebb_other_t;

/* Issues it by `issue(context)`, with everything resident that it touches. CUDA_ERROR_INVALID_VALUE, as from the
 * driver: an address lies in memory of ebb's that is no buffer (any more), or the span ends behind its buffer. */
CUresult ebb_issue_other(const ebb_other_t *other, CUresult (*issue)(const void *context),
                         const void *context);

/* The word that a memory operation of a stream is about, or 0. */
CUdeviceptr ebb_word_address(const CUstreamBatchMemOpParams *operation);
/* Where the two sides of a three-dimensional copy begin, the destination first; 0 for arrays. */
void ebb_copy_addresses(const CUDA_MEMCPY3D *copy, CUdeviceptr address[2]);

/* Whether one of the addresses lies in ebb's memory. Any thread. */
bool ebb_touches(const CUdeviceptr *address, size_t count);

/* Whether the host has to wait at the end of a synchronous memset or copy within the device: where one of the
 * addresses is host or managed memory, or has CU_POINTER_ATTRIBUTE_SYNC_MEMOPS (CUDA driver API, "API
 * synchronization behavior"). Any thread, lock not held. */
bool ebb_host_waits(const CUdeviceptr *address, size_t count);

#endif

/* tables.h: pointers and tensor maps that the program copies into device memory, where kernels may follow them (grouped matrix
 * products have such tables). What they point to is pinned for as long as they stand there: nothing else shows that
 * a kernel reaches it. Seen is what is copied from the host in small copies; what kernels write is not.
 *
 * For this folder; ebb_lock() held.
 */
#ifndef EBB_TABLES_H
#define EBB_TABLES_H

#include "ckpt/run/pin.h"

/* Larger copies are data. */
enum { EBB_LARGEST_TABLE = 64 << 10 };

/* `bytes` from host address `from` are about to be copied to `to`. CUDA_ERROR_OUT_OF_MEMORY: what they point to
 * does not fit beside what else must stay. What cannot be read is no host memory, and passed over. */
ebb_status_t ebb_table_written(CUdeviceptr to, const void *from, size_t bytes);
/* The memory is freed. */
void ebb_table_gone(CUdeviceptr base, size_t bytes);

#endif

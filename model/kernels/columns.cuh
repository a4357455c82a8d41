/* columns.cuh: sums over the rows of a tensor [N,C], in an order that depends on N only.
 *
 * A first kernel (any that walks over the rows) adds up chunks of rows; a second one adds up the chunks in
 * ascending order. In between lie partial sums [chunks, C] in the caller's scratch memory. */
#ifndef EBB_MODEL_COLUMNS_CUH
#define EBB_MODEL_COLUMNS_CUH

#include "block.cuh"

/* Columns whose sums a block holds in shared memory at a time: each thread has its own columns, without
 * barriers. */
enum { COLUMN_TILE = 1024 };

/* Rows per chunk: blocks long enough for a CPU, chunks few enough to be added up by one thread. */
static inline __host__ __device__ int chunk_rows(int N)
{
    return N <= 32 * 256 ? 32 : ceil_div(N, 256);
}

static inline __host__ __device__ int chunk_count(int N)
{
    return ceil_div(N, chunk_rows(N));
}

/* a[C] += column sums of partials[chunks, C]; b[C], unless NULL, those of the next [chunks, C], and so d[C], which takes b. */
void column_reduce(float *a, float *b, float *d, const float *partials, int chunks, int C, int accumulate,
                   cudaStream_t stream);

#endif

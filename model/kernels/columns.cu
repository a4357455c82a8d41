/* columns.cu: elementwise passes that also sum columns, and the sums themselves (kernels.h, columns.cuh). */
#include "columns.cuh"
#include "dropout.cuh"
#include "gelu.cuh"

enum { REDUCE_COLUMNS = 128 }; /* columns that a block of column_reduce takes */

/* Blocks (columns, which of the two). */
__global__ void column_reduce_kernel(float *__restrict__ a, float *__restrict__ b, /* [C] */
                                     const float *__restrict__ partials,           /* [1 or 2, chunks, C] */
                                     int chunks, int C, int accumulate)
{
    __shared__ float shared[REDUCE_COLUMNS];
    float *const acc = shared_pointer(shared);
    const int c0 = (int)blockIdx.x * REDUCE_COLUMNS, columns = smaller(REDUCE_COLUMNS, C - c0);
    const float *from = partials + (size_t)blockIdx.y * chunks * C + c0;
    float *const to = (blockIdx.y ? b : a) + c0;
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] = accumulate ? to[c] : 0.0f;
    for (int k = 0; k < chunks; k++, from += C) {
        SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] += from[c];
    }
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) to[c] = acc[c];
}
BLOCK_SIZE_INDEPENDENT(column_reduce_kernel);

inline softgpu_cost_t column_reduce_cost(dim3 grid, dim3, float *, float *, const float *, int chunks, int C,
                                         int accumulate)
{
    const double sums = (double)grid.y * C;
    return launch_cost(sums * chunks, sums * (chunks + (accumulate ? 2 : 1)));
}
KERNEL_COST(column_reduce_cost, column_reduce_kernel);

void column_reduce(float *a, float *b, const float *partials, int chunks, int C, int accumulate,
                   cudaStream_t stream)
{
    const dim3 grid((unsigned)ceil_div(C, REDUCE_COLUMNS), b ? 2u : 1u);
    column_reduce_kernel<<<grid, REDUCE_COLUMNS, 0, stream>>>(a, b, partials, chunks, C, accumulate);
}

/* What a pass does to each element before it is added to its column. */
enum { ONLY_SUM, COPY, THROUGH_DROPOUT, THROUGH_GELU };

/* Blocks (chunk of rows, tile of columns). to may be from. */
template <int WHAT>
__global__ void column_pass_kernel(float *__restrict__ partials, /* [chunks,C] */
                                   float *to,                    /* [N,C], unless ONLY_SUM */
                                   const float *from,            /* [N,C] */
                                   const float *__restrict__ x,
                                   const float *__restrict__ bias, /* [N,C], [C]: for GELU */
                                   int N, int C, mask_t mask)
{
    __shared__ float shared[COLUMN_TILE + (WHAT == THROUGH_DROPOUT ? KEEP + 8 : 0)];
    float *const acc = shared_pointer(shared), *const keep = acc + COLUMN_TILE;
    const int rows = chunk_rows(N), first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    const int c0 = (int)blockIdx.y * COLUMN_TILE, columns = smaller(COLUMN_TILE, C - c0);
    /* A mask covers several rows if they are whole rows. */
    const int batch = WHAT == THROUGH_DROPOUT && columns == C ? dropout_rows(C) : 1;
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] = 0.0f;
    for (int n0 = first; n0 < last; n0 += batch) {
        const int count = smaller(batch, last - n0);
        const size_t at = (size_t)n0 * C + c0;
        const int lead =
            WHAT == THROUGH_DROPOUT ? dropout_fill(keep, at, (count - 1) * C + columns, mask) : 0;
        for (int i = 0; i < count; i++) {
            const size_t row = at + (size_t)i * C;
            const float *const kept = keep + lead + i * C;
            SIMD for (int c = block_thread(); c < columns; c += block_threads())
            {
                float v = from[row + c];
                if (WHAT == THROUGH_DROPOUT)
                    v *= kept[c];
                if (WHAT == THROUGH_GELU)
                    v *= gelu_slope(x[row + c] + bias[c0 + c]);
                if (WHAT != ONLY_SUM)
                    to[row + c] = v;
                acc[c] += v;
            }
        }
    }
    float *const result = partials + (size_t)blockIdx.x * C + c0;
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) result[c] = acc[c];
}
BLOCK_SIZE_INDEPENDENT(column_pass_kernel<ONLY_SUM>);
BLOCK_SIZE_INDEPENDENT(column_pass_kernel<COPY>);
BLOCK_SIZE_INDEPENDENT(column_pass_kernel<THROUGH_DROPOUT>);
BLOCK_SIZE_INDEPENDENT(column_pass_kernel<THROUGH_GELU>);

template <int WHAT>
inline softgpu_cost_t column_pass_cost(dim3 grid, dim3, float *, float *, const float *, const float *,
                                       const float *, int N, int C, mask_t)
{
    const double elements = (double)N * C;
    return launch_cost((WHAT == THROUGH_GELU ? 16 : 2) * elements,
                       (1 + (WHAT != ONLY_SUM) + (WHAT == THROUGH_GELU)) * elements + (double)grid.x * C);
}
KERNEL_COST(column_pass_cost<ONLY_SUM>, column_pass_kernel<ONLY_SUM>);
KERNEL_COST(column_pass_cost<COPY>, column_pass_kernel<COPY>);
KERNEL_COST(column_pass_cost<THROUGH_DROPOUT>, column_pass_kernel<THROUGH_DROPOUT>);
KERNEL_COST(column_pass_cost<THROUGH_GELU>, column_pass_kernel<THROUGH_GELU>);

static dim3 pass_grid(int N, int C)
{
    return dim3((unsigned)chunk_count(N), (unsigned)ceil_div(C, COLUMN_TILE));
}

size_t column_sum_scratch(int N, int C)
{
    return (size_t)chunk_count(N) * (size_t)C * sizeof(float);
}

cudaError_t column_sum(float *dbias, const float *dy, int N, int C, int accumulate, void *scratch,
                       cudaStream_t stream)
{
    float *const partials = (float *)scratch;
    const mask_t none = {};
    column_pass_kernel<ONLY_SUM>
        <<<pass_grid(N, C), BLOCK_THREADS, 0, stream>>>(partials, NULL, dy, NULL, NULL, N, C, none);
    column_reduce(dbias, NULL, partials, chunk_count(N), C, accumulate, stream);
    return cudaGetLastError();
}

cudaError_t residual_backward(float *dy, float *dbias, const float *dsum, int N, int C, dropout_t drop,
                              int accumulate, void *scratch, cudaStream_t stream)
{
    float *const partials = (float *)scratch;
    const mask_t mask = dropout_mask(drop);
    if (mask.threshold == 0 && dy == dsum)
        return column_sum(dbias, dsum, N, C, accumulate, scratch, stream);
    if (mask.threshold == 0)
        column_pass_kernel<COPY>
            <<<pass_grid(N, C), BLOCK_THREADS, 0, stream>>>(partials, dy, dsum, NULL, NULL, N, C, mask);
    else
        column_pass_kernel<THROUGH_DROPOUT>
            <<<pass_grid(N, C), BLOCK_THREADS, 0, stream>>>(partials, dy, dsum, NULL, NULL, N, C, mask);
    column_reduce(dbias, NULL, partials, chunk_count(N), C, accumulate, stream);
    return cudaGetLastError();
}

cudaError_t bias_gelu_backward(float *dx, float *dbias, const float *dout, const float *x, const float *bias,
                               int N, int C, int accumulate, void *scratch, cudaStream_t stream)
{
    float *const partials = (float *)scratch;
    const mask_t none = {};
    column_pass_kernel<THROUGH_GELU>
        <<<pass_grid(N, C), BLOCK_THREADS, 0, stream>>>(partials, dx, dout, x, bias, N, C, none);
    column_reduce(dbias, NULL, partials, chunk_count(N), C, accumulate, stream);
    return cudaGetLastError();
}

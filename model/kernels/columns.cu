/* columns.cu: elementwise passes that also sum columns, and the sums themselves (kernels.h, columns.cuh). */
#include "columns.cuh"
#include "dropout.cuh"
#include "element.cuh"
#include "gelu.cuh"

enum { REDUCE_COLUMNS = 128 }; /* columns that a block of column_reduce takes */

/* Blocks (columns, which of the three). */
__global__ void column_reduce_kernel(float *__restrict__ a, float *__restrict__ b,
                                     float *__restrict__ d,              /* [C] */
                                     const float *__restrict__ partials, /* [1, 2 or 3, chunks, C] */
                                     int chunks, int C, int accumulate)
{
    __shared__ float shared[REDUCE_COLUMNS];
    float *const acc = shared_pointer(shared);
    const int c0 = (int)blockIdx.x * REDUCE_COLUMNS, columns = smaller(REDUCE_COLUMNS, C - c0);
    const float *from = partials + (size_t)blockIdx.y * chunks * C + c0;
    float *const to = (blockIdx.y == 0 ? a : blockIdx.y == 1 ? b : d) + c0;
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] = accumulate ? to[c] : 0.0f;
    for (int k = 0; k < chunks; k++, from += C) {
        SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] += from[c];
    }
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) to[c] = acc[c];
}

inline softgpu_cost_t column_reduce_cost(dim3 grid, dim3, float *, float *, float *, const float *,
                                         int chunks, int C, int accumulate)
{
    const double sums = (double)grid.y * C;
    return launch_cost(sums * chunks, sums * (chunks + (accumulate ? 2 : 1)));
}
INDEPENDENT_KERNEL(column_reduce_cost, column_reduce_kernel);

void column_reduce(float *a, float *b, float *d, const float *partials, int chunks, int C, int accumulate,
                   cudaStream_t stream)
{
    const dim3 grid((unsigned)ceil_div(C, REDUCE_COLUMNS), d ? 3u : b ? 2u : 1u);
    column_reduce_kernel<<<counted(grid), REDUCE_COLUMNS, 0, stream>>>(a, b, d, partials, chunks, C,
                                                                       accumulate);
}

/* What a pass does to each element before it is added to its column. */
enum { ONLY_SUM, COPY, THROUGH_DROPOUT, THROUGH_GELU };

/* Blocks (chunk of rows, tile of columns). to may be from. Without partials nothing is summed. */
template <int WHAT, typename E>
__global__ void column_pass_kernel(float *__restrict__ partials, /* [chunks,C] or NULL */
                                   E *to,                        /* [N,C], unless ONLY_SUM */
                                   const E *from,                /* [N,C] */
                                   const E *__restrict__ x,
                                   const E *__restrict__ bias, /* [N,C], [C]: for GELU */
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
                float v = load_f(from[row + c]);
                if (WHAT == THROUGH_DROPOUT)
                    v *= kept[c];
                if (WHAT == THROUGH_GELU)
                    v *= gelu_slope(load_f(x[row + c]) + load_f(bias[c0 + c]));
                if (WHAT != ONLY_SUM)
                    store_f(to + row + c, v);
                acc[c] += v;
            }
        }
    }
    if (!partials)
        return;
    float *const result = partials + (size_t)blockIdx.x * C + c0;
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) result[c] = acc[c];
}

/* passes: how often a whole tensor passes through memory. */
template <typename E>
static inline softgpu_cost_t pass_cost(dim3 grid, const float *partials, double operations, double passes,
                                       int N, int C)
{
    const double elements = (double)N * C;
    return launch_cost(operations * elements,
                       as_floats<E>(passes * elements) + (partials ? (double)grid.x * C : 0.0));
}
template <typename E>
inline softgpu_cost_t only_sum_cost(dim3 grid, dim3, float *partials, E *, const E *, const E *, const E *,
                                    int N, int C, mask_t)
{
    return pass_cost<E>(grid, partials, 1, 1, N, C);
}
template <typename E>
inline softgpu_cost_t copy_cost(dim3 grid, dim3, float *partials, E *, const E *, const E *, const E *, int N,
                                int C, mask_t)
{
    return pass_cost<E>(grid, partials, 2, 2, N, C);
}
template <typename E>
inline softgpu_cost_t gelu_backward_cost(dim3 grid, dim3, float *partials, E *, const E *, const E *,
                                         const E *, int N, int C, mask_t)
{
    return pass_cost<E>(grid, partials, 16, 3, N, C);
}

#define INSTANCE(WHAT, E, COST) INDEPENDENT_KERNEL(COST<E>, column_pass_kernel<WHAT, E>)
#define INSTANCES(E)                                                                                         \
    INSTANCE(ONLY_SUM, E, only_sum_cost);                                                                    \
    INSTANCE(COPY, E, copy_cost);                                                                            \
    INSTANCE(THROUGH_DROPOUT, E, copy_cost);                                                                 \
    INSTANCE(THROUGH_GELU, E, gelu_backward_cost)
FOR_TYPES(INSTANCES);
#undef INSTANCES
#undef INSTANCE

size_t column_sum_scratch(int N, int C)
{
    return (size_t)chunk_count(N) * (size_t)C * sizeof(float);
}

/* dbias[C] may be NULL: nothing is summed. */
template <int WHAT, typename E>
static void pass_launch(float *dbias, void *to, const void *from, const void *x, const void *bias, int N,
                        int C, mask_t mask, int accumulate, void *scratch, cudaStream_t stream)
{
    const dim3 grid((unsigned)chunk_count(N), (unsigned)ceil_div(C, COLUMN_TILE));
    float *const partials = dbias ? (float *)scratch : NULL;
    column_pass_kernel<WHAT, E><<<counted(grid), BLOCK_THREADS, 0, stream>>>(
        partials, (E *)to, (const E *)from, (const E *)x, (const E *)bias, N, C, mask);
    if (dbias)
        column_reduce(dbias, NULL, NULL, partials, chunk_count(N), C, accumulate, stream);
}

cudaError_t column_sum(dtype_t type, float *dbias, const void *dy, int N, int C, int accumulate,
                       void *scratch, cudaStream_t stream)
{
    const mask_t none = {};
    if (type == DTYPE_BF16)
        pass_launch<ONLY_SUM, bf16>(dbias, NULL, dy, NULL, NULL, N, C, none, accumulate, scratch, stream);
    else
        pass_launch<ONLY_SUM, float>(dbias, NULL, dy, NULL, NULL, N, C, none, accumulate, scratch, stream);
    return cudaGetLastError();
}

template <typename E>
static void residual_launch(void *dy, float *dbias, const void *dsum, int N, int C, mask_t mask,
                            int accumulate, void *scratch, cudaStream_t stream)
{
    if (mask.threshold)
        pass_launch<THROUGH_DROPOUT, E>(dbias, dy, dsum, NULL, NULL, N, C, mask, accumulate, scratch, stream);
    else if (dy != dsum)
        pass_launch<COPY, E>(dbias, dy, dsum, NULL, NULL, N, C, mask, accumulate, scratch, stream);
    else if (dbias)
        pass_launch<ONLY_SUM, E>(dbias, NULL, dsum, NULL, NULL, N, C, mask, accumulate, scratch, stream);
}

cudaError_t residual_backward(dtype_t type, void *dy, float *dbias, const void *dsum, int N, int C,
                              dropout_t drop, int accumulate, void *scratch, cudaStream_t stream)
{
    FOR_DTYPE(type, residual_launch, dy, dbias, dsum, N, C, dropout_mask(drop), accumulate, scratch, stream);
    return cudaGetLastError();
}

cudaError_t bias_gelu_backward(dtype_t type, void *dx, float *dbias, const void *dout, const void *x,
                               const void *bias, int N, int C, int accumulate, void *scratch,
                               cudaStream_t stream)
{
    const mask_t none = {};
    if (type == DTYPE_BF16)
        pass_launch<THROUGH_GELU, bf16>(dbias, dx, dout, x, bias, N, C, none, accumulate, scratch, stream);
    else
        pass_launch<THROUGH_GELU, float>(dbias, dx, dout, x, bias, N, C, none, accumulate, scratch, stream);
    return cudaGetLastError();
}

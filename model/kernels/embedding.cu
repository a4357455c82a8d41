/* embedding.cu: token and position embeddings (kernels.h). */
#include "columns.cuh"
#include "dropout.cuh"

/* A block takes `rows` rows. */
template <bool DROPOUT>
__global__ void embedding_forward_kernel(float *__restrict__ x,          /* [N,C] */
                                         const int *__restrict__ tokens, /* [N] */
                                         const float *__restrict__ wte,  /* [V,C] */
                                         const float *__restrict__ wpe,  /* [T,C] */
                                         int N, int T, int C, int rows, mask_t mask)
{
    __shared__ float shared[DROPOUT ? KEEP + 8 : 1];
    float *const keep = shared_pointer(shared);
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N), batch = dropout_rows(C);
    for (int n0 = first; n0 < last; n0 += batch) {
        const int count = smaller(batch, last - n0);
        for (int c0 = 0; c0 < C; c0 += KEEP) {
            const int columns = smaller(KEEP, C - c0);
            const size_t at = (size_t)n0 * C + c0;
            const int lead = DROPOUT ? dropout_fill(keep, at, count > 1 ? count * C : columns, mask) : 0;
            for (int i = 0; i < count; i++) {
                const float *const token = wte + (size_t)tokens[n0 + i] * C + c0;
                const float *const position = wpe + (size_t)((n0 + i) % T) * C + c0, *const kept =
                                                                                         keep + lead + i * C;
                float *const to = x + at + (size_t)i * C;
                SIMD for (int c = block_thread(); c < columns; c += block_threads())
                {
                    const float v = token[c] + position[c];
                    to[c] = DROPOUT ? v * kept[c] : v;
                }
            }
        }
    }
}
BLOCK_SIZE_INDEPENDENT(embedding_forward_kernel<false>);
BLOCK_SIZE_INDEPENDENT(embedding_forward_kernel<true>);

inline softgpu_cost_t embedding_forward_cost(dim3, dim3, float *, const int *, const float *, const float *,
                                             int N, int T, int C, int, mask_t)
{
    return launch_cost((double)N * C, 2.0 * N * C + (double)T * C + N);
}
KERNEL_COST(embedding_forward_cost, embedding_forward_kernel<false>);
KERNEL_COST(embedding_forward_cost, embedding_forward_kernel<true>);

cudaError_t embedding_forward(float *x, const int *tokens, const float *wte, const float *wpe, int B, int T,
                              int C, dropout_t drop, cudaStream_t stream)
{
    const int N = B * T, rows = rows_per_block(C);
    const unsigned blocks = (unsigned)ceil_div(N, rows);
    const mask_t mask = dropout_mask(drop);
    if (mask.threshold)
        embedding_forward_kernel<true>
            <<<blocks, BLOCK_THREADS, 0, stream>>>(x, tokens, wte, wpe, N, T, C, rows, mask);
    else
        embedding_forward_kernel<false>
            <<<blocks, BLOCK_THREADS, 0, stream>>>(x, tokens, wte, wpe, N, T, C, rows, mask);
    return cudaGetLastError();
}

enum { EMBEDDING_COLUMNS = 256 }; /* columns that a block of the backward kernels takes */

/* acc[columns] += row dx[n, c0 ...], through dropout. */
template <bool DROPOUT>
static __device__ __forceinline__ void add_row(float *acc, float *keep, const float *dx, int n, int C, int c0,
                                               int columns, mask_t mask)
{
    const size_t at = (size_t)n * C + c0;
    const int lead = DROPOUT ? dropout_fill(keep, at, columns, mask) : 0;
    const float *const from = dx + at, *const kept = keep + lead;
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] +=
        DROPOUT ? from[c] * kept[c] : from[c];
}

/* Blocks (class, columns): one class's rows in ascending order. */
template <bool DROPOUT>
__global__ void embedding_tokens_kernel(float *__restrict__ dwte,     /* [V,C] */
                                        const float *__restrict__ dx, /* [N,C] */
                                        token_index_t index, int C, mask_t mask)
{
    __shared__ float shared[EMBEDDING_COLUMNS + (DROPOUT ? EMBEDDING_COLUMNS + 8 : 0)];
    float *const acc = shared_pointer(shared), *const keep = acc + EMBEDDING_COLUMNS;
    const int k = (int)blockIdx.x, c0 = (int)blockIdx.y * EMBEDDING_COLUMNS,
              columns = smaller(EMBEDDING_COLUMNS, C - c0);
    float *const to = dwte + (size_t)index.token[k] * C + c0;
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] = 0.0f;
    for (int i = index.first[k]; i < index.first[k + 1]; i++)
        add_row<DROPOUT>(acc, keep, dx, index.order[i], C, c0, columns, mask);
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) to[c] += acc[c];
}
BLOCK_SIZE_INDEPENDENT(embedding_tokens_kernel<false>);
BLOCK_SIZE_INDEPENDENT(embedding_tokens_kernel<true>);

/* How many rows there are lies in memory: counted is one for each class. */
inline softgpu_cost_t embedding_tokens_cost(dim3 grid, dim3, float *, const float *, token_index_t, int C,
                                            mask_t)
{
    return launch_cost((double)grid.x * C, 3.0 * grid.x * C);
}
KERNEL_COST(embedding_tokens_cost, embedding_tokens_kernel<false>);
KERNEL_COST(embedding_tokens_cost, embedding_tokens_kernel<true>);

/* Blocks (positions, columns): `rows` positions each, summed over the sequences in ascending order. */
template <bool DROPOUT>
__global__ void embedding_positions_kernel(float *__restrict__ dwpe,     /* [T,C] */
                                           const float *__restrict__ dx, /* [B,T,C] */
                                           int B, int T, int C, int rows, mask_t mask, int accumulate)
{
    __shared__ float shared[EMBEDDING_COLUMNS + (DROPOUT ? EMBEDDING_COLUMNS + 8 : 0)];
    float *const acc = shared_pointer(shared), *const keep = acc + EMBEDDING_COLUMNS;
    const int c0 = (int)blockIdx.y * EMBEDDING_COLUMNS, columns = smaller(EMBEDDING_COLUMNS, C - c0);
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, T);
    for (int t = first; t < last; t++) {
        float *const to = dwpe + (size_t)t * C + c0;
        SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] = 0.0f;
        for (int b = 0; b < B; b++)
            add_row<DROPOUT>(acc, keep, dx, b * T + t, C, c0, columns, mask);
        SIMD for (int c = block_thread(); c < columns; c += block_threads()) to[c] =
            accumulate ? to[c] + acc[c] : acc[c];
    }
}
BLOCK_SIZE_INDEPENDENT(embedding_positions_kernel<false>);
BLOCK_SIZE_INDEPENDENT(embedding_positions_kernel<true>);

inline softgpu_cost_t embedding_positions_cost(dim3, dim3, float *, const float *, int B, int T, int C, int,
                                               mask_t, int accumulate)
{
    return launch_cost((double)B * T * C, (B + (accumulate ? 2.0 : 1.0)) * T * C);
}
KERNEL_COST(embedding_positions_cost, embedding_positions_kernel<false>);
KERNEL_COST(embedding_positions_cost, embedding_positions_kernel<true>);

cudaError_t embedding_backward(float *dwte, float *dwpe, const float *dx, token_index_t index, int B, int T,
                               int C, dropout_t drop, int accumulate, cudaStream_t stream)
{
    const unsigned columns = (unsigned)ceil_div(C, EMBEDDING_COLUMNS);
    const int each = B * smaller(C, EMBEDDING_COLUMNS); /* elements that a position costs */
    const int rows = each < BLOCK_ELEMENTS ? BLOCK_ELEMENTS / each : 1;
    const dim3 tokens((unsigned)index.count, columns), positions((unsigned)ceil_div(T, rows), columns);
    const mask_t mask = dropout_mask(drop);
    if (mask.threshold) {
        if (index.count)
            embedding_tokens_kernel<true><<<tokens, BLOCK_THREADS, 0, stream>>>(dwte, dx, index, C, mask);
        embedding_positions_kernel<true>
            <<<positions, BLOCK_THREADS, 0, stream>>>(dwpe, dx, B, T, C, rows, mask, accumulate);
    } else {
        if (index.count)
            embedding_tokens_kernel<false><<<tokens, BLOCK_THREADS, 0, stream>>>(dwte, dx, index, C, mask);
        embedding_positions_kernel<false>
            <<<positions, BLOCK_THREADS, 0, stream>>>(dwpe, dx, B, T, C, rows, mask, accumulate);
    }
    return cudaGetLastError();
}

/* embedding.cu: token and position embeddings (kernels.h). */
#include "columns.cuh"
#include "dropout.cuh"
#include "element.cuh"

/* A block takes `rows` rows. wpe NULL: no positions. */
template <bool POSITIONS, bool DROPOUT, typename E>
__global__ void embedding_forward_kernel(E *__restrict__ x,              /* [N,C] */
                                         const int *__restrict__ tokens, /* [N] */
                                         const E *__restrict__ wte,      /* [V,C] */
                                         const E *__restrict__ wpe,      /* [T,C] */
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
                const E *const token = wte + (size_t)tokens[n0 + i] * C + c0;
                const E *const position = POSITIONS ? wpe + (size_t)((n0 + i) % T) * C + c0 : NULL;
                const float *const kept = keep + lead + i * C;
                E *const to = x + at + (size_t)i * C;
                SIMD for (int c = block_thread(); c < columns; c += block_threads())
                {
                    const float v = POSITIONS ? load_f(token[c]) + load_f(position[c]) : load_f(token[c]);
                    store_f(to + c, DROPOUT ? v * kept[c] : v);
                }
            }
        }
    }
}

template <typename E>
inline softgpu_cost_t embedding_forward_cost(dim3, dim3, E *, const int *, const E *, const E *wpe, int N,
                                             int T, int C, int, mask_t)
{
    return launch_cost(wpe ? (double)N * C : 0.0,
                       as_floats<E>(2.0 * N * C + (wpe ? (double)T * C : 0.0)) + N);
}
#define INSTANCE(POSITIONS, DROPOUT, E)                                                                      \
    INDEPENDENT_KERNEL(embedding_forward_cost<E>, embedding_forward_kernel<POSITIONS, DROPOUT, E>)
FOR_TWO_FLAGS(INSTANCE);
#undef INSTANCE

template <bool POSITIONS, typename E>
static void forward_launch(void *x, const int *tokens, const void *wte, const void *wpe, int N, int T, int C,
                           mask_t mask, cudaStream_t stream)
{
    const int rows = rows_per_block(C);
    const unsigned blocks = (unsigned)ceil_div(N, rows);
    if (mask.threshold)
        embedding_forward_kernel<POSITIONS, true, E><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(
            (E *)x, tokens, (const E *)wte, (const E *)wpe, N, T, C, rows, mask);
    else
        embedding_forward_kernel<POSITIONS, false, E><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(
            (E *)x, tokens, (const E *)wte, (const E *)wpe, N, T, C, rows, mask);
}

cudaError_t embedding_forward(dtype_t type, void *x, const int *tokens, const void *wte, const void *wpe,
                              int B, int T, int C, dropout_t drop, cudaStream_t stream)
{
    const mask_t mask = dropout_mask(drop);
    if (type == DTYPE_BF16 && wpe)
        forward_launch<true, bf16>(x, tokens, wte, wpe, B * T, T, C, mask, stream);
    else if (type == DTYPE_BF16)
        forward_launch<false, bf16>(x, tokens, wte, wpe, B * T, T, C, mask, stream);
    else if (wpe)
        forward_launch<true, float>(x, tokens, wte, wpe, B * T, T, C, mask, stream);
    else
        forward_launch<false, float>(x, tokens, wte, wpe, B * T, T, C, mask, stream);
    return cudaGetLastError();
}

enum { EMBEDDING_COLUMNS = 256 }; /* columns that a block of the backward kernels takes */

/* acc[columns] += row dx[n, c0 ...], through dropout. */
template <bool DROPOUT, typename E>
static __device__ __forceinline__ void add_row(float *acc, float *keep, const E *dx, int n, int C, int c0,
                                               int columns, mask_t mask)
{
    const size_t at = (size_t)n * C + c0;
    const int lead = DROPOUT ? dropout_fill(keep, at, columns, mask) : 0;
    const E *const from = dx + at;
    const float *const kept = keep + lead;
    SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] +=
        DROPOUT ? load_f(from[c]) * kept[c] : load_f(from[c]);
}

/* Blocks (class, columns): one class's rows in ascending order. */
template <bool DROPOUT, typename E>
__global__ void embedding_tokens_kernel(float *__restrict__ dwte, /* [V,C] */
                                        const E *__restrict__ dx, /* [N,C] */
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

/* How many rows there are lies in memory: counted is one for each class. */
template <typename E>
inline softgpu_cost_t embedding_tokens_cost(dim3 grid, dim3, float *, const E *, token_index_t, int C, mask_t)
{
    return launch_cost((double)grid.x * C, as_floats<E>((double)grid.x * C) + 2.0 * grid.x * C);
}

/* Blocks (positions, columns): `rows` positions each, summed over the sequences in ascending order. */
template <bool DROPOUT, typename E>
__global__ void embedding_positions_kernel(float *__restrict__ dwpe, /* [positions,C] */
                                           const E *__restrict__ dx, /* [B,T,C] */
                                           int B, int T, int positions, int C, int rows, mask_t mask,
                                           int accumulate)
{
    __shared__ float shared[EMBEDDING_COLUMNS + (DROPOUT ? EMBEDDING_COLUMNS + 8 : 0)];
    float *const acc = shared_pointer(shared), *const keep = acc + EMBEDDING_COLUMNS;
    const int c0 = (int)blockIdx.y * EMBEDDING_COLUMNS, columns = smaller(EMBEDDING_COLUMNS, C - c0);
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, positions);
    for (int t = first; t < last; t++) {
        float *const to = dwpe + (size_t)t * C + c0;
        SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] = 0.0f;
        for (int b = 0; b < B && t < T; b++)
            add_row<DROPOUT>(acc, keep, dx, b * T + t, C, c0, columns, mask);
        SIMD for (int c = block_thread(); c < columns; c += block_threads()) to[c] =
            accumulate ? to[c] + acc[c] : acc[c];
    }
}

template <typename E>
inline softgpu_cost_t embedding_positions_cost(dim3, dim3, float *, const E *, int B, int T, int positions,
                                               int C, int, mask_t, int accumulate)
{
    return launch_cost((double)B * T * C,
                       as_floats<E>((double)B * T * C) + (accumulate ? 2.0 : 1.0) * positions * C);
}

#define INSTANCE(DROPOUT, E)                                                                                 \
    INDEPENDENT_KERNEL(embedding_tokens_cost<E>, embedding_tokens_kernel<DROPOUT, E>);                       \
    INDEPENDENT_KERNEL(embedding_positions_cost<E>, embedding_positions_kernel<DROPOUT, E>)
FOR_FLAGS(INSTANCE);
#undef INSTANCE

template <bool DROPOUT, typename E>
static void backward_launch(float *dwte, float *dwpe, const void *dx, token_index_t index, int B, int T,
                            int positions, int C, mask_t mask, int accumulate, cudaStream_t stream)
{
    const unsigned columns = (unsigned)ceil_div(C, EMBEDDING_COLUMNS);
    const int each = B * smaller(C, EMBEDDING_COLUMNS); /* elements that a position costs */
    const int rows = each < BLOCK_ELEMENTS ? BLOCK_ELEMENTS / each : 1;
    const dim3 tokens((unsigned)index.count, columns), all((unsigned)ceil_div(positions, rows), columns);
    if (index.count)
        embedding_tokens_kernel<DROPOUT, E>
            <<<counted(tokens), BLOCK_THREADS, 0, stream>>>(dwte, (const E *)dx, index, C, mask);
    if (dwpe)
        embedding_positions_kernel<DROPOUT, E><<<counted(all), BLOCK_THREADS, 0, stream>>>(
            dwpe, (const E *)dx, B, T, positions, C, rows, mask, accumulate);
}

cudaError_t embedding_backward(dtype_t type, float *dwte, float *dwpe, const void *dx, token_index_t index,
                               int B, int T, int positions, int C, dropout_t drop, int accumulate,
                               cudaStream_t stream)
{
    const mask_t mask = dropout_mask(drop);
    if (type == DTYPE_BF16 && mask.threshold)
        backward_launch<true, bf16>(dwte, dwpe, dx, index, B, T, positions, C, mask, accumulate, stream);
    else if (type == DTYPE_BF16)
        backward_launch<false, bf16>(dwte, dwpe, dx, index, B, T, positions, C, mask, accumulate, stream);
    else if (mask.threshold)
        backward_launch<true, float>(dwte, dwpe, dx, index, B, T, positions, C, mask, accumulate, stream);
    else
        backward_launch<false, float>(dwte, dwpe, dx, index, B, T, positions, C, mask, accumulate, stream);
    return cudaGetLastError();
}

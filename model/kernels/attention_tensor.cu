/* attention_tensor.cu: causal self-attention on matrix instructions, forward (kernels.h, tensor.cuh).
 *
 * Queries are loaded once into registers; keys and values go through shared memory, asynchronously: values while scores are
 * made, the next keys while values are used. Scores, probabilities and the output stay in registers; probabilities are
 * rounded to bf16 for their product with the values, their sum is of what they were before.
 *
 * By ptxas (CUDA 13.0) for 8.0, 8.6, 8.9, 9.0, 10.0 and 12.0: D 64: 128 registers, which leave room for four blocks, 17 KiB of
 * shared memory; D 128: 212-236 and 33 KiB; nothing is spilled. No GPU has run it. */
#include <math.h>

#include "attention.cuh"
#include "attention_tensor.cuh"

/* Arguments of the forward kernel. */
typedef struct tensor_forward {
    bf16 *out;       /* [B,T,H,D] */
    float *lse;      /* [B,H,T] */
    const bf16 *qkv; /* [B,T,H+2KV,D] */
    int B, T, H, KV;
    float factor;
    mask_t mask;
} tensor_forward_t;

#if MATRIX_INSTRUCTIONS

/* Of a lane's two rows: maxima and its part of the sums so far, in units of log 2, and by how much what was before shrinks. */
typedef struct running {
    float most[2], sum[2], shrink[2];
} running_t;

/* s[16,KEYS] becomes probabilities, up to the rows' sums. The first key of the tile is `ahead` after the warp's first
 * query (negative: before). */
template <int KEYS>
static __device__ __forceinline__ void softmax_tile(float (&s)[KEYS / 8][4], running_t *running, int ahead,
                                                    float factor)
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        const int last = lane_group() + 8 * half - ahead; /* the last column that this row sees */
        float most = -INFINITY;
        UNROLL
        for (int n = 0; n < KEYS / 8; n++) {
            UNROLL
            for (int i = 0; i < 2; i++) {
                float *const x = &s[n][2 * half + i];
                *x = 8 * n + lane_pair() + i > last ? -INFINITY : *x;
                most = larger(*x, most);
            }
        }
        most = larger(row_max(most) * factor, running->most[half]);
        running->shrink[half] = exp2f(running->most[half] - most);
        running->most[half] = most;
        float total = running->sum[half] * running->shrink[half];
        UNROLL
        for (int n = 0; n < KEYS / 8; n++) {
            UNROLL
            for (int i = 0; i < 2; i++) {
                const float x = exp2f(fmaf(s[n][2 * half + i], factor, -most));
                s[n][2 * half + i] = x;
                total += x;
            }
        }
        running->sum[half] = total;
    }
}

/* What dropout does not keep becomes 0. kept: the warp's rows. */
template <int KEYS>
static __device__ __forceinline__ void drop_tile(float (&s)[KEYS / 8][4], const uint8_t *kept)
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        const uint8_t *const row = kept + (lane_group() + 8 * half) * (KEYS / 4) + lane_pair() / 4;
        UNROLL
        for (int n = 0; n < KEYS / 8; n++) {
            const int bits = row[2 * n] >> lane_pair() % 4;
            s[n][2 * half] = bits & 1 ? s[n][2 * half] : 0.0f;
            s[n][2 * half + 1] = bits & 2 ? s[n][2 * half + 1] : 0.0f;
        }
    }
}

template <int D>
static __device__ __forceinline__ void store_rows(const tensor_forward_t &p, const float (&o)[D / 8][4],
                                                  const running_t &running, size_t bh, int first)
{
    float factor[2];
    UNROLL
    for (int half = 0; half < 2; half++) {
        const float total = row_sum(running.sum[half]);
        const int row = first + lane_group() + 8 * half;
        factor[half] = p.mask.scale / total;
        if (lane_pair() == 0 && row < p.T)
            p.lse[bh * p.T + row] = running.most[half] * (float)LN_2 + logf(total);
    }
    const size_t stride = (size_t)p.H * D, b = (unsigned)bh / (unsigned)p.H, h = (unsigned)bh % (unsigned)p.H;
    store_product<D>(p.out + (b * p.T + first) * stride + h * D, stride, o, factor, p.T - first);
}
#endif

/* A block: 64 queries of a head (attention_grid: of a head the last and longest first), 16 for each warp. */
template <int D>
__global__ void __launch_bounds__(TENSOR_THREADS, D > 64 ? 2 : 4)
    attention_tensor_forward_kernel(tensor_forward_t p)
{
#if MATRIX_INSTRUCTIONS
    constexpr int QUERIES = TENSOR_ROWS, KEYS = 64;
    __shared__ __align__(16) bf16 keys_tile[KEYS * D], values_tile[KEYS * D];
    __shared__ uint8_t kept[QUERIES * KEYS / 4];
    const block_place_t place = attention_place(p.T, QUERIES, p.H);
    const int T = p.T, h = place.h, b = place.b, q0 = (ceil_div(T, QUERIES) - 1 - place.tile) * QUERIES,
              first = block_warp() * WARP_ROWS, end = ceil_div(smaller(q0 + QUERIES, T), KEYS) * KEYS;
    const size_t bh = (size_t)b * p.H + h;
    const tensor_head_t from = tensor_head(p.qkv, b, h, T, p.H, p.KV, D);

    tile_fetch<QUERIES, D>(values_tile, from.q + q0 * from.stride, from.stride, T - q0);
    cp_async_commit();
    tile_fetch<KEYS, D>(keys_tile, from.k, from.stride, T);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    uint32_t q[D / 16][4];
    left_factors<D>(q, values_tile, first);
    __syncthreads();

    float o[D / 8][4];
    UNROLL
    for (int n = 0; n < D / 8; n++)
        o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0.0f;
    running_t running = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}, {0.0f, 0.0f}};
    for (int k0 = 0; k0 < end; k0 += KEYS) {
        tile_fetch<KEYS, D>(values_tile, from.v + k0 * from.stride, from.stride, T - k0);
        cp_async_commit();
        if (p.mask.threshold)
            fill_kept<QUERIES, KEYS>(kept, bh, T, q0, k0, p.mask);
        cp_async_wait<1>(); /* keys */
        __syncthreads();
        float s[KEYS / 8][4];
        product_by_rows<D, KEYS>(s, q, keys_tile);
        softmax_tile<KEYS>(s, &running, k0 - q0 - first, p.factor);
        if (p.mask.threshold)
            drop_tile<KEYS>(s, kept + first * (KEYS / 4));
        cp_async_wait<0>(); /* values */
        __syncthreads();    /* keys have been used */
        if (k0 + KEYS < end) {
            tile_fetch<KEYS, D>(keys_tile, from.k + (k0 + KEYS) * from.stride, from.stride, T - k0 - KEYS);
            cp_async_commit();
        }
        UNROLL
        for (int n = 0; n < D / 8; n++) {
            UNROLL
            for (int i = 0; i < 4; i++)
                o[n][i] *= running.shrink[i / 2];
        }
        uint32_t probabilities[KEYS / 16][4];
        round_product<KEYS>(probabilities, s);
        add_product_by_columns<D, KEYS>(o, probabilities, values_tile);
        __syncthreads();
    }
    store_rows<D>(p, o, running, bh, q0 + first);
#endif
}

/* As of attention.cu. */
template <int D> inline softgpu_cost_t tensor_forward_cost(dim3, dim3, tensor_forward_t p)
{
    const double rows = (double)p.B * p.T, heads = p.H;
    return softgpu_cost_t{rows * heads * (p.T + 1) / 2 * 4 * D, SOFTGPU_BF16,
                          2 * rows * (2.0 * heads + 2.0 * p.KV) * D + 4 * rows * heads};
}
KERNEL_COST(tensor_forward_cost<64>, attention_tensor_forward_kernel<64>);
KERNEL_COST(tensor_forward_cost<128>, attention_tensor_forward_kernel<128>);

cudaError_t attention_tensor_forward(void *out, float *lse, const void *qkv, attention_shape_t s,
                                     dropout_t drop, cudaStream_t stream)
{
    const tensor_forward_t p = {
        (bf16 *)out, lse, (const bf16 *)qkv, s.B, s.T, s.H, s.KV, attention_factor(s.D), dropout_mask(drop)};
    const unsigned grid = attention_grid(s.T, (int)TENSOR_ROWS, s.H, s.B);
    if (s.D == 64)
        attention_tensor_forward_kernel<64><<<counted(grid), TENSOR_THREADS, 0, stream>>>(p);
    else if (s.D == 128)
        attention_tensor_forward_kernel<128><<<counted(grid), TENSOR_THREADS, 0, stream>>>(p);
    else
        return cudaErrorInvalidValue;
    return cudaGetLastError();
}

/* ---- can this device run it? ---- */

__global__ void matrix_instructions_kernel(int *usable)
{
    if (block_thread() == 0)
        *usable = MATRIX_INSTRUCTIONS && LANES == 32;
}
BLOCK_SIZE_INDEPENDENT(matrix_instructions_kernel);

cudaError_t matrix_instructions_usable(int *usable, cudaStream_t stream)
{
    matrix_instructions_kernel<<<counted(1), 32, 0, stream>>>(usable);
    return cudaGetLastError();
}

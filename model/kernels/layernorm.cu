/* layernorm.cu: layer normalisation, with and without the residual addition before it (kernels.h).
 * Ba, Kiros, Hinton, "Layer normalization", arXiv:1607.06450. */
#include <math.h>

#include "columns.cuh"
#include "dropout.cuh"

#define LAYERNORM_EPS 1e-5f

/* out[C] = norm of x[C], by a warp. The variance is summed around the mean: two passes, no cancellation. */
static __device__ __forceinline__ void normalize_row(float *out, float *mean, float *rstd, const float *x,
                                                     const float *gamma, const float *beta, int C)
{
    float total = 0.0f;
    SIMD_SUM(total)
    for (int c = block_lane(); c < C; c += LANES)
        total += x[c];
    const float m = warp_sum(total) / (float)C;
    float squares = 0.0f;
    SIMD_SUM(squares)
    for (int c = block_lane(); c < C; c += LANES)
        squares += (x[c] - m) * (x[c] - m);
    const float s = rsqrtf(warp_sum(squares) / (float)C + LAYERNORM_EPS);
    SIMD for (int c = block_lane(); c < C; c += LANES) out[c] = (x[c] - m) * s * gamma[c] + beta[c];
    if (block_lane() == 0) {
        *mean = m;
        *rstd = s;
    }
}

/* A block takes `rows` rows, a warp one at a time. */
__global__ void layernorm_forward_kernel(float *__restrict__ out,                            /* [N,C] */
                                         float *__restrict__ mean, float *__restrict__ rstd, /* [N] */
                                         const float *__restrict__ x,                        /* [N,C] */
                                         const float *__restrict__ gamma,
                                         const float *__restrict__ beta, /* [C] */
                                         int N, int C, int rows)
{
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    for (int n = first + block_warp(); n < last; n += block_warps())
        normalize_row(out + (size_t)n * C, mean + n, rstd + n, x + (size_t)n * C, gamma, beta, C);
}
BLOCK_SIZE_INDEPENDENT(layernorm_forward_kernel);

inline softgpu_cost_t layernorm_forward_cost(dim3, dim3, float *, float *, float *, const float *,
                                             const float *, const float *, int N, int C, int)
{
    return launch_cost(8.0 * N * C, 2.0 * N * C + 2.0 * N);
}
KERNEL_COST(layernorm_forward_cost, layernorm_forward_kernel);

cudaError_t layernorm_forward(float *out, float *mean, float *rstd, const float *x, const float *gamma,
                              const float *beta, int N, int C, cudaStream_t stream)
{
    const int rows = rows_per_block(C);
    layernorm_forward_kernel<<<(unsigned)ceil_div(N, rows), BLOCK_THREADS, 0, stream>>>(
        out, mean, rstd, x, gamma, beta, N, C, rows);
    return cudaGetLastError();
}

typedef struct residual_layernorm {
    float *sum;                /* [N,C], may be residual or y */
    float *out, *mean, *rstd;  /* [N,C], [N], [N] */
    const float *residual, *y; /* [N,C] */
    const float *bias;         /* [C] */
    const float *gamma, *beta; /* [C] */
    int N, C, rows;
    mask_t mask;
} residual_layernorm_t;

/* A block first forms the sums of its rows, then normalises them: they are still in its cache. */
template <bool DROPOUT> __global__ void residual_layernorm_kernel(residual_layernorm_t p)
{
    __shared__ float shared[DROPOUT ? KEEP + 8 : 1];
    float *const keep = shared_pointer(shared);
    const int C = p.C, first = (int)blockIdx.x * p.rows, last = smaller(first + p.rows, p.N);
    const int batch = dropout_rows(C);
    for (int n0 = first; n0 < last; n0 += batch) {
        const int count = smaller(batch, last - n0);
        for (int c0 = 0; c0 < C; c0 += KEEP) {
            const int columns = smaller(KEEP, C - c0);
            const size_t at = (size_t)n0 * C + c0;
            const int lead = DROPOUT ? dropout_fill(keep, at, count > 1 ? count * C : columns, p.mask) : 0;
            for (int i = 0; i < count; i++) {
                const size_t row = at + (size_t)i * C;
                float *const sum = p.sum + row;
                const float *const residual = p.residual + row, *const y = p.y + row,
                                   *const bias = p.bias + c0, *const kept = keep + lead + i * C;
                SIMD for (int c = block_thread(); c < columns; c += block_threads())
                {
                    const float v = y[c] + bias[c];
                    sum[c] = residual[c] + (DROPOUT ? v * kept[c] : v);
                }
            }
        }
    }
    __syncthreads();
    for (int n = first + block_warp(); n < last; n += block_warps())
        normalize_row(p.out + (size_t)n * C, p.mean + n, p.rstd + n, p.sum + (size_t)n * C, p.gamma, p.beta,
                      C);
}
BLOCK_SIZE_INDEPENDENT(residual_layernorm_kernel<false>);
BLOCK_SIZE_INDEPENDENT(residual_layernorm_kernel<true>);

inline softgpu_cost_t residual_layernorm_cost(dim3, dim3, residual_layernorm_t p)
{
    return launch_cost(10.0 * p.N * p.C, 4.0 * p.N * p.C + 2.0 * p.N);
}
KERNEL_COST(residual_layernorm_cost, residual_layernorm_kernel<false>);
KERNEL_COST(residual_layernorm_cost, residual_layernorm_kernel<true>);

cudaError_t residual_layernorm_forward(float *sum, float *out, float *mean, float *rstd,
                                       const float *residual, const float *y, const float *bias,
                                       const float *gamma, const float *beta, int N, int C, dropout_t drop,
                                       cudaStream_t stream)
{
    const residual_layernorm_t p = {
        sum, out, mean, rstd, residual, y, bias, gamma, beta, N, C, rows_per_block(C), dropout_mask(drop)};
    const unsigned blocks = (unsigned)ceil_div(N, p.rows);
    if (p.mask.threshold)
        residual_layernorm_kernel<true><<<blocks, BLOCK_THREADS, 0, stream>>>(p);
    else
        residual_layernorm_kernel<false><<<blocks, BLOCK_THREADS, 0, stream>>>(p);
    return cudaGetLastError();
}

typedef struct layernorm_grad {
    float *partials;          /* [2,chunks,C]: of dgamma, of dbeta */
    float *dx;                /* [N,C], may be dresidual */
    const float *dresidual;   /* [N,C] or NULL */
    const float *dout, *x;    /* [N,C] */
    const float *mean, *rstd; /* [N] */
    const float *gamma;       /* [C] */
    int N, C;
} layernorm_grad_t;

/* A block takes a chunk of rows. With xhat = (x - mean) rstd: dgamma = sum of dout xhat, dbeta = sum of dout,
 * by columns; dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = dout gamma, by rows. */
__global__ void layernorm_backward_kernel(layernorm_grad_t p)
{
    __shared__ float shared[2 * COLUMN_TILE];
    float *const dgamma = shared_pointer(shared), *const dbeta = dgamma + COLUMN_TILE;
    const int C = p.C, rows = chunk_rows(p.N), first = (int)blockIdx.x * rows,
              last = smaller(first + rows, p.N);
    for (int c0 = 0; c0 < C; c0 += COLUMN_TILE) {
        const int columns = smaller(COLUMN_TILE, C - c0);
        SIMD for (int c = block_thread(); c < columns; c += block_threads()) dgamma[c] = dbeta[c] = 0.0f;
        for (int n = first; n < last; n++) {
            const float *const dout = p.dout + (size_t)n * C + c0, *const x = p.x + (size_t)n * C + c0;
            const float m = p.mean[n], s = p.rstd[n];
            SIMD for (int c = block_thread(); c < columns; c += block_threads())
            {
                dgamma[c] += dout[c] * ((x[c] - m) * s);
                dbeta[c] += dout[c];
            }
        }
        float *const to = p.partials + (size_t)blockIdx.x * C + c0;
        const size_t next = (size_t)gridDim.x * C;
        SIMD for (int c = block_thread(); c < columns; c += block_threads())
        {
            to[c] = dgamma[c];
            to[next + c] = dbeta[c];
        }
    }
    __syncthreads(); /* from here on dx may overwrite what was read by column */
    for (int n = first + block_warp(); n < last; n += block_warps()) {
        const size_t row = (size_t)n * C;
        const float *const dout = p.dout + row, *const x = p.x + row, *const gamma = p.gamma;
        const float m = p.mean[n], s = p.rstd[n];
        float g1 = 0.0f, g2 = 0.0f;
        SIMD_SUM(g1, g2)
        for (int c = block_lane(); c < C; c += LANES) {
            const float g = dout[c] * gamma[c];
            g1 += g;
            g2 += g * (x[c] - m);
        }
        g1 = warp_sum(g1) / (float)C;
        g2 = warp_sum(g2) * s / (float)C;
        float *const dx = p.dx + row;
        const float *const past = p.dresidual ? p.dresidual + row : NULL;
        if (past) {
            SIMD for (int c = block_lane(); c < C; c += LANES) dx[c] =
                past[c] + s * (dout[c] * gamma[c] - g1 - (x[c] - m) * s * g2);
        } else {
            SIMD for (int c = block_lane(); c < C; c += LANES) dx[c] =
                s * (dout[c] * gamma[c] - g1 - (x[c] - m) * s * g2);
        }
    }
}
BLOCK_SIZE_INDEPENDENT(layernorm_backward_kernel);

inline softgpu_cost_t layernorm_backward_cost(dim3 grid, dim3, layernorm_grad_t p)
{
    return launch_cost(16.0 * p.N * p.C,
                       (p.dresidual ? 4.0 : 3.0) * p.N * p.C + 2.0 * grid.x * p.C + 2.0 * p.N);
}
KERNEL_COST(layernorm_backward_cost, layernorm_backward_kernel);

size_t layernorm_backward_scratch(int N, int C)
{
    return 2 * (size_t)chunk_count(N) * (size_t)C * sizeof(float);
}

cudaError_t layernorm_backward(float *dx, float *dgamma, float *dbeta, const float *dresidual,
                               const float *dout, const float *x, const float *mean, const float *rstd,
                               const float *gamma, int N, int C, int accumulate, void *scratch,
                               cudaStream_t stream)
{
    const layernorm_grad_t p = {(float *)scratch, dx, dresidual, dout, x, mean, rstd, gamma, N, C};
    layernorm_backward_kernel<<<(unsigned)chunk_count(N), BLOCK_THREADS, 0, stream>>>(p);
    column_reduce(dgamma, dbeta, p.partials, chunk_count(N), C, accumulate, stream);
    return cudaGetLastError();
}

/* norm.cu: layer normalisation and its variant without a mean, with and without the residual addition before it
 * (kernels.h). Ba, Kiros, Hinton, "Layer normalization", arXiv:1607.06450; Zhang, Sennrich, "Root mean square layer
 * normalization", arXiv:1910.07467.
 *
 * RMS: the mean is 0, there is no bias; all else is the same. */
#include <math.h>

#include "columns.cuh"
#include "dropout.cuh"
#include "element.cuh"

/* out[C] = norm of x[C], by a warp. The variance is summed around the mean: two passes, no cancellation. */
template <bool RMS, typename E>
static __device__ __forceinline__ void normalize_row(E *out, float *mean, float *rstd, const E *x,
                                                     const E *gamma, const E *beta, float eps, int C)
{
    float m = 0.0f;
    if (!RMS) {
        float total = 0.0f;
        SIMD_SUM(total)
        for (int c = block_lane(); c < C; c += LANES)
            total += load_f(x[c]);
        m = warp_sum(total) / (float)C;
    }
    float squares = 0.0f;
    SIMD_SUM(squares)
    for (int c = block_lane(); c < C; c += LANES)
        squares += (load_f(x[c]) - m) * (load_f(x[c]) - m);
    const float s = rsqrtf(warp_sum(squares) / (float)C + eps);
    if (RMS) {
        SIMD for (int c = block_lane(); c < C; c += LANES)
            store_f(out + c, load_f(x[c]) * s * load_f(gamma[c]));
    } else {
        SIMD for (int c = block_lane(); c < C; c += LANES)
            store_f(out + c, (load_f(x[c]) - m) * s * load_f(gamma[c]) + load_f(beta[c]));
    }
    if (block_lane() == 0) {
        if (!RMS)
            *mean = m;
        *rstd = s;
    }
}

/* A block takes `rows` rows, a warp one at a time. mean and beta: NULL if RMS. */
template <bool RMS, typename E>
__global__ void layernorm_forward_kernel(E *__restrict__ out,                                     /* [N,C] */
                                         float *__restrict__ mean, float *__restrict__ rstd,      /* [N] */
                                         const E *__restrict__ x,                                 /* [N,C] */
                                         const E *__restrict__ gamma, const E *__restrict__ beta, /* [C] */
                                         int N, int C, int rows, float eps)
{
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    for (int n = first + block_warp(); n < last; n += block_warps())
        normalize_row<RMS>(out + (size_t)n * C, RMS ? NULL : mean + n, rstd + n, x + (size_t)n * C, gamma,
                           beta, eps, C);
}

template <typename E>
inline softgpu_cost_t layernorm_forward_cost(dim3, dim3, E *, float *mean, float *, const E *, const E *,
                                             const E *, int N, int C, int, float)
{
    return launch_cost((mean ? 8.0 : 5.0) * N * C, as_floats<E>(2.0 * N * C) + (mean ? 2.0 : 1.0) * N);
}
#define INSTANCE(RMS, E) INDEPENDENT_KERNEL(layernorm_forward_cost<E>, layernorm_forward_kernel<RMS, E>)
FOR_FLAGS(INSTANCE);
#undef INSTANCE

template <bool RMS, typename E>
static void forward_launch(void *out, float *mean, float *rstd, const void *x, const void *gamma,
                           const void *beta, float eps, int N, int C, cudaStream_t stream)
{
    const int rows = rows_per_block(C);
    layernorm_forward_kernel<RMS, E><<<counted((unsigned)ceil_div(N, rows)), BLOCK_THREADS, 0, stream>>>(
        (E *)out, mean, rstd, (const E *)x, (const E *)gamma, (const E *)beta, N, C, rows, eps);
}

cudaError_t layernorm_forward(dtype_t type, void *out, float *mean, float *rstd, const void *x,
                              const void *gamma, const void *beta, float eps, int N, int C,
                              cudaStream_t stream)
{
    if (type == DTYPE_BF16)
        forward_launch<false, bf16>(out, mean, rstd, x, gamma, beta, eps, N, C, stream);
    else
        forward_launch<false, float>(out, mean, rstd, x, gamma, beta, eps, N, C, stream);
    return cudaGetLastError();
}

cudaError_t rmsnorm_forward(dtype_t type, void *out, float *rstd, const void *x, const void *gamma, float eps,
                            int N, int C, cudaStream_t stream)
{
    if (type == DTYPE_BF16)
        forward_launch<true, bf16>(out, NULL, rstd, x, gamma, NULL, eps, N, C, stream);
    else
        forward_launch<true, float>(out, NULL, rstd, x, gamma, NULL, eps, N, C, stream);
    return cudaGetLastError();
}

/* Of elements E. RMS: without mean, bias and beta. */
typedef struct residual_layernorm {
    void *sum;                /* [N,C], may be residual or y */
    void *out;                /* [N,C] */
    float *mean, *rstd;       /* [N] */
    const void *residual, *y; /* [N,C] */
    const void *bias;         /* [C] */
    const void *gamma, *beta; /* [C] */
    int N, C, rows;
    float eps;
    mask_t mask;
} residual_layernorm_t;

/* A block first forms the sums of its rows, then normalises them: they are still in its cache. */
template <bool RMS, bool DROPOUT, typename E>
__global__ void residual_layernorm_kernel(residual_layernorm_t p)
{
    __shared__ float shared[DROPOUT ? KEEP + 8 : 1];
    float *const keep = shared_pointer(shared);
    E *const all_sum = (E *)p.sum, *const all_out = (E *)p.out;
    const E *const all_residual = (const E *)p.residual, *const all_y = (const E *)p.y,
                   *const all_bias = (const E *)p.bias;
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
                E *const sum = all_sum + row;
                const E *const residual = all_residual + row, *const y = all_y + row,
                               *const bias = all_bias + c0;
                const float *const kept = keep + lead + i * C;
                SIMD for (int c = block_thread(); c < columns; c += block_threads())
                {
                    const float v = RMS ? load_f(y[c]) : load_f(y[c]) + load_f(bias[c]);
                    store_f(sum + c, load_f(residual[c]) + (DROPOUT ? v * kept[c] : v));
                }
            }
        }
    }
    __syncthreads();
    for (int n = first + block_warp(); n < last; n += block_warps())
        normalize_row<RMS>(all_out + (size_t)n * C, RMS ? NULL : p.mean + n, p.rstd + n,
                           (const E *)all_sum + (size_t)n * C, (const E *)p.gamma, (const E *)p.beta, p.eps,
                           C);
}

template <typename E> inline softgpu_cost_t residual_layernorm_cost(dim3, dim3, residual_layernorm_t p)
{
    return launch_cost((p.mean ? 10.0 : 6.0) * p.N * p.C,
                       as_floats<E>(4.0 * p.N * p.C) + (p.mean ? 2.0 : 1.0) * p.N);
}
#define INSTANCE(RMS, DROPOUT, E)                                                                            \
    INDEPENDENT_KERNEL(residual_layernorm_cost<E>, residual_layernorm_kernel<RMS, DROPOUT, E>)
FOR_TWO_FLAGS(INSTANCE);
#undef INSTANCE

template <bool RMS, typename E>
static void residual_launch(const residual_layernorm_t *p, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)ceil_div(p->N, p->rows);
    if (p->mask.threshold)
        residual_layernorm_kernel<RMS, true, E><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(*p);
    else
        residual_layernorm_kernel<RMS, false, E><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(*p);
}

cudaError_t residual_layernorm_forward(dtype_t type, void *sum, void *out, float *mean, float *rstd,
                                       const void *residual, const void *y, const void *bias,
                                       const void *gamma, const void *beta, float eps, int N, int C,
                                       dropout_t drop, cudaStream_t stream)
{
    const residual_layernorm_t p = {sum,   out,  mean, rstd, residual,          y,   bias,
                                    gamma, beta, N,    C,    rows_per_block(C), eps, dropout_mask(drop)};
    if (type == DTYPE_BF16)
        residual_launch<false, bf16>(&p, stream);
    else
        residual_launch<false, float>(&p, stream);
    return cudaGetLastError();
}

cudaError_t residual_rmsnorm_forward(dtype_t type, void *sum, void *out, float *rstd, const void *residual,
                                     const void *y, const void *gamma, float eps, int N, int C,
                                     dropout_t drop, cudaStream_t stream)
{
    const residual_layernorm_t p = {sum,   out,  NULL, rstd, residual,          y,   NULL,
                                    gamma, NULL, N,    C,    rows_per_block(C), eps, dropout_mask(drop)};
    if (type == DTYPE_BF16)
        residual_launch<true, bf16>(&p, stream);
    else
        residual_launch<true, float>(&p, stream);
    return cudaGetLastError();
}

/* dx, dresidual, dout, x, gamma: of elements E. RMS: without mean, and partials of dgamma alone. */
typedef struct layernorm_grad {
    float *partials;          /* [2 or 3,chunks,C]: of dgamma, of dbeta, of dx; NULL: dx is all that is wanted */
    void *dx;                 /* [N,C], may be dresidual */
    const void *dresidual;    /* [N,C] or NULL */
    const void *dout, *x;     /* [N,C] */
    const float *mean, *rstd; /* [N] */
    const void *gamma;        /* [C] */
    int N, C;
    bool sums; /* of dx, too */
} layernorm_grad_t;

/* A block takes a chunk of rows. With xhat = (x - mean) rstd: dgamma = sum of dout xhat, dbeta = sum of dout,
 * by columns; dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = dout gamma, by rows. */
template <bool RMS, typename E> __global__ void layernorm_backward_kernel(layernorm_grad_t p)
{
    __shared__ float shared[2 * COLUMN_TILE];
    float *const dgamma = shared_pointer(shared), *const dbeta = dgamma + COLUMN_TILE;
    const E *const all_dout = (const E *)p.dout, *const all_x = (const E *)p.x,
                   *const gamma = (const E *)p.gamma, *const dresidual = (const E *)p.dresidual;
    const int C = p.C, rows = chunk_rows(p.N), first = (int)blockIdx.x * rows,
              last = smaller(first + rows, p.N);
    for (int c0 = 0; c0 < C && p.partials; c0 += COLUMN_TILE) {
        const int columns = smaller(COLUMN_TILE, C - c0);
        SIMD for (int c = block_thread(); c < columns; c += block_threads()) dgamma[c] = dbeta[c] = 0.0f;
        for (int n = first; n < last; n++) {
            const E *const dout = all_dout + (size_t)n * C + c0, *const x = all_x + (size_t)n * C + c0;
            const float m = RMS ? 0.0f : p.mean[n], s = p.rstd[n];
            SIMD for (int c = block_thread(); c < columns; c += block_threads())
            {
                dgamma[c] += load_f(dout[c]) * ((load_f(x[c]) - m) * s);
                if (!RMS)
                    dbeta[c] += load_f(dout[c]);
            }
        }
        float *const to = p.partials + (size_t)blockIdx.x * C + c0;
        const size_t next = (size_t)gridDim.x * C;
        SIMD for (int c = block_thread(); c < columns; c += block_threads())
        {
            to[c] = dgamma[c];
            if (!RMS)
                to[next + c] = dbeta[c];
        }
    }
    __syncthreads(); /* from here on dx may overwrite what was read by column */
    for (int n = first + block_warp(); n < last; n += block_warps()) {
        const size_t row = (size_t)n * C;
        const E *const dout = all_dout + row, *const x = all_x + row;
        const float m = RMS ? 0.0f : p.mean[n], s = p.rstd[n];
        float g1 = 0.0f, g2 = 0.0f;
        SIMD_SUM(g1, g2)
        for (int c = block_lane(); c < C; c += LANES) {
            const float g = load_f(dout[c]) * load_f(gamma[c]);
            if (!RMS)
                g1 += g;
            g2 += g * (load_f(x[c]) - m);
        }
        g1 = RMS ? 0.0f : warp_sum(g1) / (float)C;
        g2 = warp_sum(g2) * s / (float)C;
        E *const dx = (E *)p.dx + row;
        const E *const past = dresidual ? dresidual + row : NULL;
        if (past) {
            SIMD for (int c = block_lane(); c < C; c += LANES)
                store_f(dx + c, load_f(past[c]) + s * (load_f(dout[c]) * load_f(gamma[c]) - g1 -
                                                       (load_f(x[c]) - m) * s * g2));
        } else {
            SIMD for (int c = block_lane(); c < C; c += LANES)
                store_f(dx + c, s * (load_f(dout[c]) * load_f(gamma[c]) - g1 - (load_f(x[c]) - m) * s * g2));
        }
    }
    if (!p.sums)
        return;
    __syncthreads(); /* rows were written by warps */
    float *const acc = dgamma;
    for (int c0 = 0; c0 < C; c0 += COLUMN_TILE) {
        const int columns = smaller(COLUMN_TILE, C - c0);
        SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] = 0.0f;
        for (int n = first; n < last; n++) {
            const E *const dx = (const E *)p.dx + (size_t)n * C + c0;
            SIMD for (int c = block_thread(); c < columns; c += block_threads()) acc[c] += load_f(dx[c]);
        }
        float *const to = p.partials + (2 * (size_t)gridDim.x + blockIdx.x) * C + c0;
        SIMD for (int c = block_thread(); c < columns; c += block_threads()) to[c] = acc[c];
    }
}

template <typename E> inline softgpu_cost_t layernorm_backward_cost(dim3 grid, dim3, layernorm_grad_t p)
{
    const double vectors = !p.partials ? 0.0 : p.mean ? 2.0 : 1.0;
    return launch_cost(((p.mean ? 12.0 : 9.0) + (p.partials ? p.mean ? 4.0 : 3.0 : 0.0)) * p.N * p.C,
                       as_floats<E>((p.dresidual ? 4.0 : 3.0) * p.N * p.C) + vectors * grid.x * p.C +
                           vectors * p.N);
}
#define INSTANCE(RMS, E) INDEPENDENT_KERNEL(layernorm_backward_cost<E>, layernorm_backward_kernel<RMS, E>)
FOR_FLAGS(INSTANCE);
#undef INSTANCE

size_t layernorm_backward_scratch(int N, int C)
{
    return 3 * rmsnorm_backward_scratch(N, C);
}

size_t rmsnorm_backward_scratch(int N, int C)
{
    return (size_t)chunk_count(N) * (size_t)C * sizeof(float);
}

cudaError_t layernorm_backward(dtype_t type, void *dx, float *dgamma, float *dbeta, float *dsum,
                               const void *dresidual, const void *dout, const void *x, const float *mean,
                               const float *rstd, const void *gamma, int N, int C, int accumulate,
                               void *scratch, cudaStream_t stream)
{
    const layernorm_grad_t p = {(float *)scratch, dx, dresidual, dout, x, mean, rstd, gamma, N, C,
                                dsum != NULL};
    const unsigned blocks = (unsigned)chunk_count(N);
    if (type == DTYPE_BF16)
        layernorm_backward_kernel<false, bf16><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(p);
    else
        layernorm_backward_kernel<false, float><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(p);
    if (dgamma)
        column_reduce(dgamma, dbeta, dsum, p.partials, chunk_count(N), C, accumulate, stream);
    return cudaGetLastError();
}

cudaError_t rmsnorm_backward(dtype_t type, void *dx, float *dgamma, const void *dresidual, const void *dout,
                             const void *x, const float *rstd, const void *gamma, int N, int C,
                             int accumulate, void *scratch, cudaStream_t stream)
{
    const layernorm_grad_t p = {(float *)scratch, dx, dresidual, dout, x, NULL, rstd, gamma, N, C, false};
    const unsigned blocks = (unsigned)chunk_count(N);
    if (type == DTYPE_BF16)
        layernorm_backward_kernel<true, bf16><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(p);
    else
        layernorm_backward_kernel<true, float><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(p);
    if (dgamma)
        column_reduce(dgamma, NULL, NULL, p.partials, chunk_count(N), C, accumulate, stream);
    return cudaGetLastError();
}

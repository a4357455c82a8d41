/* cross_entropy.cu: softmax and cross-entropy in one pass over the logits, in place (kernels.h). */
#include <math.h>

#include "block.cuh"
#include "kernels.h"

enum { WIDE_ROW = 4096 }; /* from here on a row is work for a block, below for a warp */

/* A block takes `rows` rows of logits[N,V]. */
template <bool WIDE>
__global__ void cross_entropy_kernel(float *__restrict__ logits,      /* [N,V] */
                                     float *__restrict__ losses,      /* [N] */
                                     const int *__restrict__ targets, /* [N] */
                                     int N, int V, int rows, float scale, int gradient)
{
    const int start = WIDE ? block_thread() : block_lane(), step = WIDE ? block_threads() : LANES;
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    for (int n = first + (WIDE ? 0 : block_warp()); n < last; n += WIDE ? 1 : block_warps()) {
        float *const x = logits + (size_t)n * V;
        const int target = targets[n];
        const float wanted = x[target];
        __syncwarp(); /* before another lane overwrites it; if WIDE, block_max has the barrier */
        float most = -INFINITY;
        SIMD_MAX(most)
        for (int v = start; v < V; v += step)
            most = larger(x[v], most);
        most = WIDE ? block_max(most) : warp_max(most);
        float total = 0.0f;
        if (gradient) {
            SIMD_SUM(total)
            for (int v = start; v < V; v += step) {
                const float e = expf(x[v] - most);
                x[v] = e;
                total += e;
            }
        } else {
            SIMD_SUM(total)
            for (int v = start; v < V; v += step)
                total += expf(x[v] - most);
        }
        total = WIDE ? block_sum(total) : warp_sum(total);
        if (start == 0)
            losses[n] = logf(total) + (most - wanted);
        if (gradient) {
            const float factor = scale / total;
            SIMD for (int v = start; v < V; v += step) x[v] = x[v] * factor;
            /* The lane that wrote the target's element takes its 1 away. */
            if (target % step == start)
                x[target] -= scale;
        }
    }
}
BLOCK_SIZE_INDEPENDENT(cross_entropy_kernel<false>);
BLOCK_SIZE_INDEPENDENT(cross_entropy_kernel<true>);

inline softgpu_cost_t cross_entropy_cost(dim3, dim3, float *, float *, const int *, int N, int V, int, float,
                                         int gradient)
{
    const double elements = (double)N * V;
    return launch_cost(4 * elements, (gradient ? 2 : 1) * elements + 2.0 * N);
}
KERNEL_COST(cross_entropy_cost, cross_entropy_kernel<false>);
KERNEL_COST(cross_entropy_cost, cross_entropy_kernel<true>);

cudaError_t cross_entropy(float *logits, float *losses, const int *targets, int N, int V, float scale,
                          int gradient, cudaStream_t stream)
{
    const int rows = rows_per_block(V);
    const unsigned blocks = (unsigned)ceil_div(N, rows);
    if (V >= WIDE_ROW)
        cross_entropy_kernel<true>
            <<<blocks, BLOCK_THREADS, 0, stream>>>(logits, losses, targets, N, V, rows, scale, gradient);
    else
        cross_entropy_kernel<false>
            <<<blocks, BLOCK_THREADS, 0, stream>>>(logits, losses, targets, N, V, rows, scale, gradient);
    return cudaGetLastError();
}

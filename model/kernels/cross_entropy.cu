/* cross_entropy.cu: softmax and cross-entropy in one pass over the logits (kernels.h). */
#include <math.h>

#include "element.cuh"
#include "kernels.h"

enum { WIDE_ROW = 4096 }; /* from here on a row is work for a block, below for a warp */

/* A block takes `rows` rows of logits[N,V], which it overwrites if there is a gradient to make. */
template <bool WIDE, typename E>
__global__ void cross_entropy_kernel(float *logits,                   /* [N,V] */
                                     float *__restrict__ losses,      /* [N] */
                                     E *dlogits,                      /* [N,V], NULL, or the logits */
                                     const int *__restrict__ targets, /* [N] */
                                     int N, int V, int rows, float scale)
{
    const int start = WIDE ? block_thread() : block_lane(), step = WIDE ? block_threads() : LANES;
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    for (int n = first + (WIDE ? 0 : block_warp()); n < last; n += WIDE ? 1 : block_warps()) {
        float *const x = logits + (size_t)n * V;
        const int target = targets[n];
        if (target < 0) {
            if (start == 0)
                losses[n] = 0.0f;
            if (dlogits)
                SIMD for (int v = start; v < V; v += step) store_f(dlogits + (size_t)n * V + v, 0.0f);
            continue;
        }
        const float wanted = x[target];
        __syncwarp(); /* before another lane overwrites it; if WIDE, block_max has the barrier */
        float most = -INFINITY;
        SIMD_MAX(most)
        for (int v = start; v < V; v += step)
            most = larger(x[v], most);
        most = WIDE ? block_max(most) : warp_max(most);
        float total = 0.0f;
        if (dlogits) {
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
        if (dlogits) {
            E *const y = dlogits + (size_t)n * V;
            const float factor = scale / total;
            /* The lane that has the target's element takes its 1 away. */
            const float of_target = target % step == start ? x[target] * factor - scale : 0.0f;
            SIMD for (int v = start; v < V; v += step) store_f(y + v, x[v] * factor);
            if (target % step == start)
                store_f(y + target, of_target);
        }
    }
}

template <typename E>
inline softgpu_cost_t cross_entropy_cost(dim3, dim3, float *, float *, E *dlogits, const int *, int N, int V,
                                         int, float)
{
    const double elements = (double)N * V;
    return launch_cost(4 * elements, elements + (dlogits ? as_floats<E>(elements) : 0.0) + 2.0 * N);
}
#define INSTANCE(WIDE, E) INDEPENDENT_KERNEL(cross_entropy_cost<E>, cross_entropy_kernel<WIDE, E>)
FOR_FLAGS(INSTANCE);
#undef INSTANCE

template <typename E>
static void launch(float *logits, float *losses, void *dlogits, const int *targets, int N, int V, float scale,
                   cudaStream_t stream)
{
    const int rows = rows_per_block(V);
    const unsigned blocks = (unsigned)ceil_div(N, rows);
    if (V >= WIDE_ROW)
        cross_entropy_kernel<true, E><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(
            logits, losses, (E *)dlogits, targets, N, V, rows, scale);
    else
        cross_entropy_kernel<false, E><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(
            logits, losses, (E *)dlogits, targets, N, V, rows, scale);
}

cudaError_t cross_entropy(dtype_t type, void *dlogits, float *losses, float *logits, const int *targets,
                          int N, int V, float scale, cudaStream_t stream)
{
    FOR_DTYPE(type, launch, logits, losses, dlogits, targets, N, V, scale, stream);
    return cudaGetLastError();
}

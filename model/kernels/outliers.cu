/* outliers.cu: which steps are too far off to be taken (kernels.h). */
#include <math.h>

#include "block.cuh"
#include "kernels.h"

/* Is x more than `threshold` standard deviations above the mean of the last `count` of past[OUTLIER_WINDOW]? Sums in the
 * order of the places, in double. */
static inline __device__ bool far_above(const float *past, int count, float x, float threshold)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += (double)past[i];
    const double mean = sum / count;
    for (int i = 0; i < count; i++)
        squares += ((double)past[i] - mean) * ((double)past[i] - mean);
    return (double)x > mean + (double)threshold * sqrt(squares / (count - 1));
}

/* One thread: it is 256 numbers at most. */
__global__ void outlier_check_kernel(float *__restrict__ past, /* [OUTLIER_FLOATS] */
                                     float *__restrict__ result, const float *__restrict__ loss,
                                     float threshold)
{
    if (block_thread() != 0)
        return;
    float *losses = past + OUTLIER_LOSSES, *norms = past + OUTLIER_NORMS;
    const long seen = (long)past[OUTLIER_COUNT];
    const int count = seen < OUTLIER_WINDOW ? (int)seen : OUTLIER_WINDOW;
    const float x = loss[0], norm = result[0];
    const bool number = isfinite(x) && isfinite(norm);
    bool skip = !number;
    if (number && count >= OUTLIER_LEAST)
        skip = far_above(losses, count, x, threshold) || far_above(norms, count, norm, threshold);
    if (number) { /* an outlier, too: a level that stays becomes the usual one */
        const int place = (int)(seen % OUTLIER_WINDOW);
        losses[place] = x;
        norms[place] = norm;
        past[OUTLIER_COUNT] = seen + 1 < 1 << 24 ? (float)(seen + 1) : (float)(seen + 1 - OUTLIER_WINDOW);
    }
    result[1] = skip ? -1.0f : result[1];
    result[2] = skip ? 1.0f : 0.0f;
}

inline softgpu_cost_t outlier_check_cost(dim3, dim3, float *, float *, const float *, float)
{
    return launch_cost(6.0 * OUTLIER_WINDOW, 2.0 * OUTLIER_WINDOW);
}
INDEPENDENT_KERNEL(outlier_check_cost, outlier_check_kernel);

cudaError_t outlier_check(float *past, float *result, const float *loss, float threshold, cudaStream_t stream)
{
    outlier_check_kernel<<<counted(1), 32, 0, stream>>>(past, result, loss, threshold);
    return cudaGetLastError();
}

/* gelu.cuh: GELU by tanh and its slope.
 *
 * With z = sqrt(2/pi) (u + 0.044715 u^3): 0.5 (1 + tanh(z)) = 1 / (1 + exp(-2z)) = s, so gelu = u s. One
 * exponential and one division, and no cancellation where tanh is near -1. exp(-2z) is formed as a power of
 * 2; when it overflows to infinity, s is 0, as it should be. */
#ifndef EBB_MODEL_GELU_CUH
#define EBB_MODEL_GELU_CUH

#include <math.h>

#include "block.cuh"

#define GELU_A (-2.0f * 0.7978845608028654f) /* -2 sqrt(2/pi) */
#define GELU_B 0.044715f
#define GELU_C (GELU_A * 1.4426950408889634f) /* for powers of 2 */

/* 1 + exp(-2z) */
static __device__ __forceinline__ float gelu_divisor(float u)
{
    return 1.0f + exp2f(u * (GELU_C + GELU_C * GELU_B * (u * u)));
}

static __device__ __forceinline__ float gelu(float u)
{
    return u / gelu_divisor(u);
}

/* d gelu/du = s + u s (1 - s) 2 dz/du. */
static __device__ __forceinline__ float gelu_slope(float u)
{
    const float s = 1.0f / gelu_divisor(u);
    return s - u * s * (1.0f - s) * (GELU_A + 3.0f * GELU_A * GELU_B * (u * u));
}

#endif

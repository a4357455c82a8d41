/* block.h: reductions by the threads of a block, in an order that depends on nothing but the block's shape. Blocks are whole warps: what else is
 * launched traps. */
#ifndef COMPUTE_BLOCK_H
#define COMPUTE_BLOCK_H

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cstdint>
#include <limits>

namespace compute
{

struct sum {
    static constexpr float identity = 0;
    __device__ static float of(float a, float b)
    {
        return a + b;
    }
};

struct maximum {
    static constexpr float identity = -std::numeric_limits<float>::infinity();
    __device__ static float of(float a, float b)
    {
        return a != a || a > b ? a : b;
    } /* NaN stays */
};

__device__ inline unsigned rank()
{
    return threadIdx.x + blockDim.x * threadIdx.y;
}
__device__ inline unsigned threads()
{
    return blockDim.x * blockDim.y;
}

/* Over each `lanes` lanes that lie together, a power of two; all lanes of the warp take part. */
template <typename Operation> __device__ float over_lanes(float value, unsigned lanes)
{
    for (unsigned away = lanes / 2; away; away /= 2)
        value = Operation::of(value, __shfl_xor_sync(~0u, value, away));
    return value;
}

/* Over the block; all its threads have the result. */
template <typename Operation> __device__ float over_block(float value)
{
    __shared__ float of_warp[32];
    if (threads() % 32)
        __trap();
    value = over_lanes<Operation>(value, 32);
    __syncthreads(); /* the results of the call before have been read */
    if (rank() % 32 == 0)
        of_warp[rank() / 32] = value;
    __syncthreads();
    value = of_warp[0];
    for (unsigned i = 1; i < threads() / 32; i++)
        value = Operation::of(value, of_warp[i]);
    return value;
}

} // namespace compute

#endif

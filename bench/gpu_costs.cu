/* gpu_costs.cu: the one kernel of gpu_costs.c: reads and writes n words. Blocks own slices. */
#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif

enum { SLICE = 4096 };

extern "C" __global__ void add(unsigned *p, unsigned value, unsigned long long n)
{
    const unsigned long long first = (unsigned long long)blockIdx.x * SLICE;
    const unsigned long long end = first + SLICE < n ? first + SLICE : n;
    for (unsigned long long i = first + threadIdx.x; i < end; i += blockDim.x)
        p[i] += value;
}
BLOCK_SIZE_INDEPENDENT(add);

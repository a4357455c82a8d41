/* kernels.cu: the kernels of the conformance programs, with C names. Blocks own slices of 1024 elements, so that they run
 * with any block size. */
#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif

enum { SLICE = 1024 };

#define FOR_SLICE(i, n)                                                                                      \
    for (int i = (int)blockIdx.x * SLICE + (int)threadIdx.x; i < ((int)blockIdx.x + 1) * SLICE && i < (n);   \
         i += (int)blockDim.x)

extern "C" __global__ void fill(int *p, int value, int n)
{
    FOR_SLICE(i, n)
    p[i] = value;
}
BLOCK_SIZE_INDEPENDENT(fill);

extern "C" __global__ void add(int *p, int value, int n)
{
    FOR_SLICE(i, n)
    p[i] += value;
}
BLOCK_SIZE_INDEPENDENT(add);

/* out[i] = 31 out[i] + 7 a[i] + b[i] + c: the order of such kernels shows in the result. */
extern "C" __global__ void mix(unsigned *out, const unsigned *a, const unsigned *b, unsigned c, int n)
{
    FOR_SLICE(i, n)
    out[i] = 31u * out[i] + 7u * a[i] + b[i] + c;
}
BLOCK_SIZE_INDEPENDENT(mix);

/* Until the host has written to mapped memory. */
extern "C" __global__ void wait_for(const int *gate)
{
    while (*(volatile const int *)gate == 0) {
    }
}
BLOCK_SIZE_INDEPENDENT(wait_for);

/* variables.cu: kernels that write a variable of their module. */
static __device__ unsigned calls;

extern "C" __global__ void counts(float *x)
{
    calls++;
    x[0] += (float)calls;
}

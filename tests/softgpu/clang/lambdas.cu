/* Lambdas with captures as arguments of kernels. */
#include "check.h"

template <typename F> __global__ void for_each(int n, F f)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        f(i);
}

int main()
{
    array<float> x(500);
    float *p = x.device, scale = 1.5f;
    int shift = 7;
    for_each<<<2, 64>>>(500, [=] __device__(int i) { p[i] = scale * (float)(i + shift); });
    for_each<<<3, 32>>>(500, [p] __device__(int i) {
        auto half = [](float v) { return v / 2; };
        p[i] = half(p[i]);
    });
    x.down();
    for (int i = 0; i < 500; i++)
        CHECK(x[i] == 1.5f * (float)(i + 7) / 2);
}

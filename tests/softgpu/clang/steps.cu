/* A loop of equal steps over more memory than a budget may allow: what a memory layer that is preloaded has to leave as it is. */
#include "check.h"

template <typename F> __global__ void update(float *out, const float *in, int n, F f)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = f(out[i], in[i]);
}

int main()
{
    const int buffers = 10, steps = 8, n = 1 << 19;
    float *x[buffers], expected[buffers], *host = (float *)malloc(n * sizeof *host);
    for (int k = 0; k < buffers; k++) {
        OK(cudaMalloc(&x[k], n * sizeof(float)));
        OK(cudaMemset(x[k], 0, n * sizeof(float)));
        expected[k] = 0;
    }
    for (int s = 0; s < steps; s++)
        for (int k = 0; k < buffers; k++) {
            const float by = (float)(k + 1);
            update<<<16, 128>>>(x[k], x[(k + 1) % buffers], n,
                                [by] __device__(float a, float b) { return a * 0.5f + b * 0.25f + by; });
            expected[k] = expected[k] * 0.5f + expected[(k + 1) % buffers] * 0.25f + by;
        }
    for (int k = 0; k < buffers; k++) {
        OK(cudaMemcpy(host, x[k], n * sizeof *host, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; i++)
            CHECK(near(host[i], expected[k], 1e-6));
    }
}

/* cuda_fp16.h: conversions, arithmetic, pairs. */
#include "check.h"

#include <cuda_fp16.h>

__global__ void run(const float *in, __half *out, __half2 *pairs, float *back)
{
    const int i = threadIdx.x;
    const __half x = __float2half(in[i]);
    out[4 * i] = x;
    out[4 * i + 1] = __hadd(x, __float2half(0.5f));
    out[4 * i + 2] = x * x;
    out[4 * i + 3] = __hfma(x, x, x);
    pairs[i] = __hmul2(__floats2half2_rn(in[i], -in[i]), __half2half2(__float2half(2.0f)));
    back[i] = __half2float(__hlt(x, __float2half(1.0f)) ? x : hsqrt(x));
}

int main()
{
    array<float> in(32), back(32);
    array<__half> out(128);
    array<__half2> pairs(32);
    for (int i = 0; i < 32; i++)
        in[i] = 0.25f * i; /* exact, and its square */
    in.up();
    run<<<1, 32>>>(in.device, out.device, pairs.device, back.device);
    out.down(), pairs.down(), back.down();
    for (int i = 0; i < 32; i++) {
        const float x = 0.25f * i;
        CHECK(__half2float(out[4 * i]) == x && __half2float(out[4 * i + 1]) == x + 0.5f);
        CHECK(__half2float(out[4 * i + 2]) == __half2float(__float2half(x * x)));
        CHECK(__half2float(out[4 * i + 3]) == __half2float(__float2half(x * x + x)));
        CHECK(__low2float(pairs[i]) == 2 * x && __high2float(pairs[i]) == -2 * x);
        CHECK(near(back[i], x < 1 ? x : std::sqrt(x), 1e-3));
    }
}

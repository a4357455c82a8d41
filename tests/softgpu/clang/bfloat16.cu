/* cuda_bf16.h: conversions and arithmetic. */
#include "check.h"

#include <cuda_bf16.h>

__global__ void run(const float *in, __nv_bfloat16 *out, float *sum)
{
    const int i = threadIdx.x;
    const __nv_bfloat16 x = __float2bfloat16(in[i]);
    out[3 * i] = x;
    out[3 * i + 1] = __hmul(x, __float2bfloat16(2.0f));
    out[3 * i + 2] = __hfma(x, x, x);
    const __nv_bfloat162 pair = __floats2bfloat162_rn(in[i], 1.0f);
    atomicAdd(sum, __bfloat162float(pair.x) + __bfloat162float(pair.y));
}

int main()
{
    array<float> in(32), sum(1);
    array<__nv_bfloat16> out(96);
    float expected = 0;
    for (int i = 0; i < 32; i++) {
        in[i] = 1.0f + i / 7.0f;
        expected += __bfloat162float(__float2bfloat16(in[i])) + 1;
    }
    in.up();
    run<<<1, 32>>>(in.device, out.device, sum.device);
    out.down(), sum.down();
    for (int i = 0; i < 32; i++) {
        const float x = __bfloat162float(__float2bfloat16(in[i]));
        CHECK(__bfloat162float(out[3 * i]) == x && __bfloat162float(out[3 * i + 1]) == 2 * x);
        CHECK(__bfloat162float(out[3 * i + 2]) == __bfloat162float(__float2bfloat16(x * x + x)));
    }
    CHECK(near(sum[0], expected, 1e-6));
}

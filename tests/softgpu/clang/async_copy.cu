/* Asynchronous copies to shared memory (cp.async, through the toolkit's pipeline header), in two stages. */
#include "check.h"

#include <cuda_pipeline_primitives.h>

__global__ void run(const float4 *in, float4 *out, int rounds)
{
    __shared__ float4 room[2][32];
    const int i = threadIdx.x;
    __pipeline_memcpy_async(&room[0][i], in + i, sizeof(float4));
    __pipeline_commit();
    for (int r = 0; r < rounds; r++) {
        if (r + 1 < rounds)
            __pipeline_memcpy_async(&room[(r + 1) % 2][i], in + (r + 1) * 32 + i, sizeof(float4));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        out[r * 32 + i] = room[r % 2][31 - i];
        __syncthreads();
    }
}

int main()
{
    array<float4> in(128), out(128);
    for (int i = 0; i < 128; i++)
        in[i] = make_float4((float)i, 0, 1, (float)(2 * i));
    in.up();
    run<<<1, 32>>>(in.device, out.device, 4);
    out.down();
    for (int i = 0; i < 128; i++)
        CHECK(out[i].x == i / 32 * 32 + 31 - i % 32 && out[i].w == 2 * out[i].x);
}

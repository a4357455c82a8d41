/* Vector types, cached and streaming loads and stores. */
#include "check.h"

__global__ void run(const float4 *in, float4 *out, const int2 *pairs, uchar4 *bytes)
{
    const int i = threadIdx.x;
    float4 x = __ldg(in + i);
    const int2 p = __ldcs(pairs + i);
    x.x += (float)p.x;
    x.w *= (float)p.y;
    __stcs(out + i, x);
    bytes[i] = make_uchar4((unsigned char)p.x, (unsigned char)p.y, (unsigned char)i, 255);
}

int main()
{
    array<float4> in(33), out(33);
    array<int2> pairs(33);
    array<uchar4> bytes(33);
    for (int i = 0; i < 33; i++) {
        in[i] = make_float4((float)i, 1, 2, (float)-i);
        pairs[i] = make_int2(i * 3, 2);
    }
    in.up(), pairs.up();
    run<<<1, 33>>>(in.device, out.device, pairs.device, bytes.device);
    out.down(), bytes.down();
    for (int i = 0; i < 33; i++) {
        CHECK(out[i].x == 4 * i && out[i].y == 1 && out[i].z == 2 && out[i].w == -2 * i);
        CHECK(bytes[i].x == i * 3 && bytes[i].y == 2 && bytes[i].z == i && bytes[i].w == 255);
    }
}

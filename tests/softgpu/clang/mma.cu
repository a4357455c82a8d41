/* Tensor cores by inline PTX: D = A B + C, 16 x 8 x 16, half with sums in float. */
#include "check.h"

#include <cuda_fp16.h>

__global__ void multiply(const __half *a, const __half *b, float *d)
{
    const int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
    unsigned ra[4], rb[2];
    float rd[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++)
        ra[i] = *(const unsigned *)(a + (group + i % 2 * 8) * 16 + pair + i / 2 * 8);
    for (int i = 0; i < 2; i++) {
        const __half2 two = __halves2half2(b[(pair + i * 8) * 8 + group], b[(pair + i * 8 + 1) * 8 + group]);
        rb[i] = *(const unsigned *)&two;
    }
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(rd[0]), "+f"(rd[1]), "+f"(rd[2]), "+f"(rd[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
#endif
    for (int i = 0; i < 4; i++)
        d[(group + i / 2 * 8) * 8 + pair + i % 2] = rd[i];
}

int main()
{
    array<__half> a(256), b(128);
    array<float> d(128);
    for (int i = 0; i < 256; i++)
        a[i] = __float2half((float)(i * 7 % 11 - 5));
    for (int i = 0; i < 128; i++)
        b[i] = __float2half((float)(i * 5 % 13 - 6) / 4);
    a.up(), b.up();
    multiply<<<1, 32>>>(a.device, b.device, d.device);
    d.down();
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            float sum = 0;
            for (int k = 0; k < 16; k++)
                sum += __half2float(a[m * 16 + k]) * __half2float(b[k * 8 + n]);
            CHECK(d[m * 8 + n] == sum);
        }
}

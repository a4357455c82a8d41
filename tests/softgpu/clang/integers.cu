/* Integer intrinsics, and divisions of all widths. */
#include "check.h"

__global__ void run(unsigned x, unsigned long long y, long long *out)
{
    out[0] = __popc(x) + 100 * __popcll(y);
    out[1] = __clz((int)x) + 100 * __clzll((long long)y);
    out[2] = __brev(x);
    out[3] = __byte_perm(x, (unsigned)y, 0x5140);
    out[4] = __umulhi(x, 0xdeadbeefu);
    out[5] = (long long)__umul64hi(y, 0x123456789abcdefull);
    out[6] = __ffs((int)x) + 100 * __ffsll((long long)y);
    out[7] = __funnelshift_l((unsigned)y, x, 9);
    out[8] = (int)x / -7 + (long long)(y % 1000003) + (short)x % 13;
    out[9] = __dp4a((int)x, 0x01020304, 5);
    out[10] = __sad(-5, (int)(x & 0xff), 3u);
}

int main()
{
    const unsigned x = 0x00b7c3d5u;
    const unsigned long long y = 0x0000123400c0ffeeull;
    array<long long> out(11);
    run<<<1, 1>>>(x, y, out.device);
    out.down();
    unsigned reversed = 0;
    int dot = 5;
    for (int i = 0; i < 32; i++)
        reversed |= (x >> i & 1) << (31 - i);
    for (int i = 0; i < 4; i++)
        dot += (signed char)(x >> 8 * i) * (4 - i);
    CHECK(out[0] == __builtin_popcount(x) + 100 * __builtin_popcountll(y));
    CHECK(out[1] == __builtin_clz(x) + 100 * __builtin_clzll(y));
    CHECK(out[2] == reversed && out[3] == 0xffc3eed5ll);
    CHECK(out[4] == (long long)((x * 0xdeadbeefull) >> 32));
    CHECK(out[5] == (long long)(((unsigned __int128)y * 0x123456789abcdefull) >> 64));
    CHECK(out[6] == __builtin_ffs((int)x) + 100 * __builtin_ffsll((long long)y));
    CHECK(out[7] == (unsigned)(((unsigned long long)x << 32 | (unsigned)y) << 9 >> 32));
    CHECK(out[8] == (int)x / -7 + (long long)(y % 1000003) + (short)x % 13);
    CHECK(out[9] == dot && out[10] == 5 + 0xd5 + 3);
}

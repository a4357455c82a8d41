/* Integers and floats of every size, conversions between them, bits, comparisons. */
#include "words.h"

extern "C" __global__ void integers(int *out, const int *a, const unsigned *b, long n)
{
    int i = INDEX;
    if (i >= n)
        return;
    int x = a[i];
    unsigned y = b[i] | 1;
    long wide = (long)x * (int)y + x;
    out[i] = x / (int)y + (int)(b[i] / y) + x % 7 + (x >> 3) + (int)(y >> 3) + (x << 2) + (x & 12) + (x | 5) + (x ^ (int)y) + ~x - -x;
    out[i] += __builtin_popcount(y) + __builtin_clz(y) + __builtin_ctz(y) + (int)(wide >> 7) + (int)(wide / n) + __nvvm_mulhi_i(x, 77);
    out[i] += (x < (int)y ? x : (int)y) + (b[i] > 9u ? 1 : 0) + (int)__builtin_bswap32(y) + (int)__builtin_bitreverse32(y) + __builtin_abs(x);
    out[i] += (int)__builtin_rotateleft32(y, 5) + (int)(short)x + (int)(signed char)x + (int)(unsigned char)y + (int)(unsigned short)y;
    __int128 product = (__int128)wide * n; // carries
    out[i] += (int)(product >> 70);
}

extern "C" __global__ void small(short *out, const short *a, const signed char *c, unsigned char *d, long *e, bool *f)
{
    int i = INDEX;
    out[i] = (short)(a[i] * a[i + 1] + (a[i] >> 2) + c[i]);
    d[i] = (unsigned char)(d[i] * 3 + (a[i] > 4 ? 1 : 2));
    e[i] = e[i] * 5 / (a[i] | 1) + (e[i] << 3) - __builtin_popcountl((unsigned long)e[i]);
    f[i] = !f[i] || (f[i + 1] && a[i] != 3);
}

extern "C" __global__ void floats(float *out, const float *a, double *d, const double *e)
{
    int i = INDEX;
    float x = a[i];
    out[i] = x * 2.5f + 1.0f / (x + 3.0f) - __builtin_sqrtf(x) + __builtin_fabsf(x) + __builtin_fmaf(x, x, 0.1f);
    out[i] += __builtin_floorf(x) + __builtin_ceilf(x) + __builtin_truncf(x) + __builtin_rintf(x) + __builtin_fminf(x, 1) + __builtin_fmaxf(x, 2);
    out[i] += (x < 1.0f) + (x != x) + (float)i + (float)(unsigned)i + (float)(long)i + (float)e[i] + __builtin_copysignf(x, out[i + 1]);
    out[i] += __nvvm_ex2_approx_f(x) + __nvvm_lg2_approx_ftz_f(x) + __nvvm_sin_approx_f(x) + __nvvm_rsqrt_approx_f(x) + __nvvm_rcp_rn_f(x) + __nvvm_div_approx_f(x, 3);
    d[i] = e[i] * 2.5 / (e[i] + 1) + __builtin_sqrt(e[i]) + (double)x + (double)i + (double)(unsigned long)i + __builtin_fma(e[i], e[i], 3) + (e[i] > 1 ? 2 : e[i + 1]);
    d[i] += (double)(int)e[i] + (double)(unsigned)x + (double)(long)x + (double)(unsigned long)e[i] + __builtin_fmin(e[i], 3) + __builtin_floor(e[i]) - __builtin_fabs(e[i]);
}

extern "C" __global__ void halves(__fp16 *out, const __fp16 *a, float *f)
{
    int i = INDEX;
    f[i] += (float)a[i] * 3;
    out[i] = (__fp16)f[i];
}

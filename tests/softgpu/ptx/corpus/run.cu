/* Kernels whose results test_translate_clang.c computes, too. The functions between the lines are C and are included by it. */
#include "words.h"

#define DEVICE __device__ __noinline__ static
/* ---- */
struct pair {
    int low;
    float high;
    long rest[3];
};

DEVICE unsigned scramble(unsigned x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

DEVICE struct pair make(int i)
{
    struct pair p = {i, (float)i * 0.5f, {i, -i, i * 3L}};
    return p;
}

DEVICE long use(struct pair p, int which)
{
    switch (which % 5) {
    case 0:
        return p.low;
    case 1:
        return (long)(p.high * 4);
    case 2:
        return p.rest[p.low & 1];
    case 3:
        return p.rest[2] / (p.low + 1);
    default:
        return p.rest[2] % (p.low + 7);
    }
}

DEVICE int sorted(unsigned seed, int n)
{
    int v[24];
    unsigned sum = 0; /* runs over */
    for (int i = 0; i < n; i++)
        v[i] = (int)(scramble(seed + (unsigned)i) % 1000);
    for (int i = 1; i < n; i++) {
        int x = v[i], k = i;
        for (; k > 0 && v[k - 1] > x; k--)
            v[k] = v[k - 1];
        v[k] = x;
    }
    for (int i = 0; i < n; i++)
        sum = sum * 3 + (unsigned)v[i];
    return (int)sum;
}

DEVICE int collatz(unsigned n)
{
    int steps = 0;
    while (n != 1) {
        if (steps > 300)
            break;
        if (n % 2)
            n = 3 * n + 1;
        else
            n /= 2;
        if (n % 97 == 5)
            continue;
        steps++;
    }
    return steps;
}

DEVICE int ackermann(int m, int n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

DEVICE double series(float x, int n)
{
    double sum = 0;
    float term = 1;
    for (int i = 1; i < n; i++) {
        sum += term;
        term = term * x / (float)i;
        if (term < 1e-6f && term > -1e-6f)
            return sum;
    }
    return -sum;
}

DEVICE unsigned long mixed(unsigned i)
{
    short s = (short)(i * 257u);
    unsigned char b = (unsigned char)(i * 5u);
    signed char c = (signed char)(i * 91u);
    long l = ((long)s * (1L << 20)) - c * 1234567L + b;
    return (unsigned long)(l / (c | 1) + (l >> 5) * b) ^ (unsigned long)(s % (b + 1));
}
/* ---- */

#define KERNEL(name, type, expression)                                                                                  \
    extern "C" __global__ void name(type *to)                                                                           \
    {                                                                                                                   \
        const int i = INDEX;                                                                                            \
        to[i] = expression;                                                                                             \
    }
KERNEL(k_use, long, use(make(i), (int)(scramble((unsigned)i) % 100)))
KERNEL(k_sorted, int, sorted((unsigned)i, i % 24))
KERNEL(k_collatz, int, collatz((unsigned)i + 1))
KERNEL(k_ackermann, int, ackermann(i % 3, i % 5))
KERNEL(k_series, double, series((float)(i % 13) * 0.25f - 1, i % 40))
KERNEL(k_mixed, unsigned long, mixed((unsigned)i))

__device__ __noinline__ static int twice(int x)
{
    return 2 * x;
}
__device__ __noinline__ static int square(int x)
{
    return x * x;
}
__device__ int (*functions[2])(int) = {twice, square};

extern "C" __global__ void k_pointers(int *to)
{
    to[INDEX] = functions[INDEX % 3 == 0](INDEX);
}

/* The sum over the block, and how many words have each value of two bits. */
extern "C" __global__ void k_block(int *to)
{
    __shared__ int parts[128], counts[4];
    const int t = THREAD, n = (int)__nvvm_read_ptx_sreg_ntid_x();
    if (t < 4)
        counts[t] = 0;
    parts[t] = INDEX * 3;
    __syncthreads();
    __nvvm_atom_add_gen_i(&counts[parts[t] & 3], 1);
    for (int step = 64; step > 0; step /= 2) {
        if (t < step && t + step < n)
            parts[t] += parts[t + step];
        __syncthreads();
    }
    to[INDEX] = t == 0 ? parts[0] : t < 5 ? counts[t - 1] : -1;
}

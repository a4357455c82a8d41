/* Loops, switches, calls (direct, indirect, recursive, of what does not return), warps, inline assembly. */
#include "words.h"

struct big {
    int v[7];
};

extern "C" __device__ int vprintf(const char *, void *);
extern "C" __device__ __attribute__((noreturn)) void __assertfail(const char *, const char *, unsigned, const char *, size_t);

__device__ __noinline__ static int fold(struct big b, int n)
{
    int sum = 0;
    for (int i = 0; i < 7; i++)
        sum += b.v[i] * n;
    return sum;
}

__device__ __noinline__ static struct big unfold(int n)
{
    struct big b;
    for (int i = 0; i < 7; i++)
        b.v[i] = n + i;
    return b;
}

__device__ __noinline__ int depth(int n)
{
    return n < 2 ? n : depth(n - 1) + depth(n - 2);
}

__device__ __noinline__ static float apply(float (*f)(float), float x)
{
    return f(x) + f(x + 1);
}

__device__ static float square(float x)
{
    return x * x;
}

__device__ static float half(float x)
{
    return x / 2;
}

extern "C" __global__ void __launch_bounds__(128, 2) switches(int *out, const int *in, int n)
{
    int i = INDEX;
    if (i >= n)
        return;
    switch (in[i]) {
    case 0: out[i] = 7; break;
    case 1: out[i] += fold(unfold(i), n); break;
    case 2: out[i] *= 3; // falls through
    case 3: out[i] -= in[i + 1]; break;
    case 4: out[i] = out[i + 2] / 3; break;
    case 5: out[i] ^= 99; break;
    case 6: return;
    case 7: out[i] = depth(in[i + 3]); break;
    default: out[i] = -1;
    }
    while (out[i] > 100 && in[out[i] & 15] != i) {
        if (out[i] == 1000)
            break;
        out[i] -= in[i];
    }
}

extern "C" __global__ void calls(float *out, const int *which)
{
    int i = INDEX;
    out[i] = apply(which[i] ? square : half, out[i]);
    if (which[i] > 7) {
        int arguments[2] = {i, which[i]};
        vprintf("thread %d: %d\n", arguments);
        __assertfail("which[i] <= 7", "control.cu", 80, "calls", 1);
    }
    if (which[i] < 0)
        __builtin_trap();
}

extern "C" __global__ void warps(int *out, float *f)
{
    int x = out[INDEX], lane = (int)__nvvm_read_ptx_sreg_laneid();
    for (int step = 16; step; step >>= 1)
        x += __nvvm_shfl_sync_bfly_i32(0xffffffff, x, step, 31);
    f[INDEX] = __nvvm_shfl_sync_idx_f32(0xffffffff, f[INDEX], 3, 31) + __nvvm_shfl_sync_up_f32(0xffffffff, f[lane], 1, 0);
    x += (int)__nvvm_vote_ballot_sync(0xffffffff, x > 3) + __nvvm_vote_any_sync(0xffffffff, x > 5) + __nvvm_vote_all_sync(0xffffffff, x > 6);
    x += (int)__nvvm_match_any_sync_i32(0xffffffff, (unsigned)x) + (int)__nvvm_read_ptx_sreg_clock() + (int)__nvvm_read_ptx_sreg_lanemask_lt();
    __nvvm_bar_warp_sync(0xffffffff);
    int y, ok;
    asm volatile("{\n\t.reg .pred p;\n\t.reg .b32 t<2>;\n\tmov.b32 t0, %1;\n\tsetp.gt.s32 p, t0, 0;\n\t@p bra L;\n\tadd.s32 t0, t0, 4;\nL:\n\tmov.b32 %0, t0;\n\t}" : "=r"(y) : "r"(x));
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.b32 %0, 1, 0, p;\n\t}" : "=r"(ok));
    asm volatile("{\n\t.reg .pred p;\n\tsetp.gt.s32 p, %1, 0;\n\t@!p bra L;\n\tprmt.b32 %0, %1, %0, 0x3210;\nL:\n\t}" : "+r"(y) : "r"(x));
    out[INDEX] = x + y + ok;
}

extern "C" __global__ void spin(volatile int *flag, int *out)
{
    while (*flag == 0) {
        if (*out == 3)
            *out = 4;
    }
    for (;;)
        if (flag[1])
            out[flag[2]]++;
}

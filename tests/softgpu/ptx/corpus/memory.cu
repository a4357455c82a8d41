/* State spaces, vectors, structures as parameters, local arrays, atomics, initialised variables. */
#include "words.h"

struct point {
    float x, y;
    double weight;
    char tags[5];
};

typedef float float4v __attribute__((ext_vector_type(4)));
typedef int int2v __attribute__((ext_vector_type(2)));

__constant__ int table[8] = {1, -2, 3, 0x7fffffff};
__attribute__((device)) double scale = 2.5;
__attribute__((device)) float field[4] = {1.5f, -0.0f, 3};
__attribute__((device)) double *where = &scale;
__attribute__((device)) struct { char tag; double at; short last; } mixed = {'x', 3, -7};
__attribute__((device)) unsigned counter;
extern __attribute__((shared)) char dynamic[];

__device__ void (*hook)(float *);
__device__ static void twice(float *p)
{
    *p *= 2;
}
__device__ void (*hooks[2])(float *) = {twice, twice};

extern "C" __global__ void shared_sums(float *out, const float *in, int n)
{
    __shared__ float sums[256];
    __shared__ double pair[2];
    int t = THREAD;
    float sum = 0;
    for (int i = t; i < n; i += 256)
        sum += in[i];
    sums[t] = sum;
    ((float *)dynamic)[t] = sum;
    __nvvm_bar_sync(0);
    for (int step = 128; step; step >>= 1) {
        if (t < step)
            sums[t] += sums[t + step];
        __nvvm_bar_sync(0);
    }
    if (t < 2)
        pair[t] = sums[t] * scale;
    __nvvm_bar_sync(0);
    out[t] = sums[0] + (float)pair[1] + ((float *)dynamic)[t ^ 1] + (float)table[t & 7] + field[t & 3] + (float)*where + (float)mixed.last;
}

extern "C" __global__ void vectors(float4v *out, const float4v *in, int2v *pairs, struct point p, struct point *q)
{
    int i = INDEX;
    out[i] = in[i] * p.x + in[i + 1];
    pairs[i].x += pairs[i].y + p.tags[i & 3];
    q[i] = p;
    q[i].weight *= 3;
}

extern "C" __global__ void local_arrays(int *out, const int *in, int n)
{
    int hist[32];
    for (int i = 0; i < 32; i++)
        hist[i] = 0;
    for (int i = 0; i < n; i++)
        hist[in[i] & 31]++;
    out[INDEX] = hist[in[0] & 31];
    hook((float *)hist);
    hooks[in[1] & 1]((float *)hist);
    out[INDEX] += hist[5];
}

extern "C" __global__ void atomics(int *a, unsigned *b, float *f, double *d, unsigned long *l)
{
    __shared__ int inside;
    a[0] += __nvvm_atom_add_gen_i(a, 3) + __nvvm_atom_xchg_gen_i(a + 1, 4) + __nvvm_atom_cas_gen_i(a + 2, 5, 6) + __nvvm_atom_max_gen_i(a + 3, 7);
    b[0] = __nvvm_atom_min_gen_ui(b, 3) + __nvvm_atom_and_gen_i(a, 7) + __nvvm_atom_or_gen_i(a, 8) + __nvvm_atom_xor_gen_i(a, 1) + __nvvm_atom_inc_gen_ui(b, 9) + __nvvm_atom_dec_gen_ui(b, 9);
    __nvvm_atom_add_gen_f(f, 1.5f);
    d[0] = __nvvm_atom_add_gen_d(d, 1.5);
    __nvvm_atom_add_gen_ll((long long *)l, 1);
    __atomic_fetch_add(&counter, 1u, __ATOMIC_RELAXED);
    __atomic_fetch_add(&inside, 1, __ATOMIC_RELAXED);
    __nvvm_membar_gl();
    *(volatile int *)a = *(volatile int *)(a + 1);
}

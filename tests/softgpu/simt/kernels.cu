/* kernels.cu: kernels that need threads: for the tests of SIMT and checked mode. C names where a name is not the point. */
#include <cuda_runtime.h>
#include <stdint.h>

#define KERNEL extern "C" __global__ void

/* ---- threads and barriers ---- */

/* out[i] = a number made of all indices of thread i of the grid. */
KERNEL indices(unsigned *out)
{
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[block * threads + thread] = block * 10000 + threadIdx.x + 100 * threadIdx.y + 1000 * threadIdx.z;
}

/* Each block reverses its slice, through shared memory. */
KERNEL reverse(int *p)
{
    __shared__ int s[1024];
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = p[i];
    __syncthreads();
    p[i] = s[blockDim.x - 1 - threadIdx.x];
}

/* The same without the barrier. */
KERNEL reverse_unsynchronised(int *p)
{
    __shared__ int s[1024];
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = p[i];
    p[i] = s[blockDim.x - 1 - threadIdx.x];
}

/* out[0..2] = how many threads are multiples of 3; whether all, any are >= limit. */
KERNEL count_and_or(int *out, int limit)
{
    const int count = __syncthreads_count(threadIdx.x % 3 == 0);
    const int all = __syncthreads_and((int)threadIdx.x >= limit),
              any = __syncthreads_or((int)threadIdx.x >= limit);
    if (threadIdx.x == blockDim.x - 1) {
        out[0] = count;
        out[1] = all != 0;
        out[2] = any != 0;
    }
}

/* Threads that leave early do not hold the others up. */
KERNEL early_exit(int *out, int stay)
{
    __shared__ int sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    if ((int)threadIdx.x >= stay)
        return;
    atomicAdd(&sum, 1);
    __syncthreads();
    out[threadIdx.x] = sum;
}

/* Warps, or lanes of a warp, part at `lanes`. */
KERNEL divergent_barrier(int *out, int lanes)
{
    if ((int)threadIdx.x < lanes) {
        out[threadIdx.x] = 1;
        __syncthreads();
    } else {
        out[threadIdx.x] = 2;
        __syncthreads();
    }
}

/* Lanes wait for lane 31, which waits for the block. */
KERNEL barrier_against_shuffle(int *out)
{
    if (threadIdx.x == 31)
        __syncthreads();
    out[threadIdx.x] = __shfl_sync(0xffffffffu, (int)threadIdx.x, 0);
}

KERNEL mask_without_caller(int *out)
{
    out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 0);
}

KERNEL masks_that_differ(int *out)
{
    out[threadIdx.x] = __shfl_sync(threadIdx.x < 16 ? 0xffffffffu : 0xffff0000u, 1, 16);
    __syncwarp();
}

/* ---- lanes ---- */

/* out[5][32] for one warp: idx, up, down, xor within groups of `width`; a 64-bit value. */
KERNEL shuffles(long long *out, int width)
{
    const int lane = (int)threadIdx.x, v = 100 + lane;
    out[lane] = __shfl_sync(0xffffffffu, v, 3, width);
    out[32 + lane] = __shfl_up_sync(0xffffffffu, (unsigned)v, 2, width);
    out[64 + lane] = (long long)__shfl_down_sync(0xffffffffu, (double)v, 5, width);
    out[96 + lane] = (long long)__shfl_xor_sync(0xffffffffu, (float)v, 9, width);
    out[128 + lane] = __shfl_sync(0xffffffffu, (long long)lane << 40 | 7, 31 - lane);
}

/* out[8][32] of one warp. */
KERNEL votes(unsigned *out)
{
    const unsigned lane = threadIdx.x, full = 0xffffffffu;
    out[lane] = __ballot_sync(full, lane % 5 == 0);
    out[32 + lane] = (unsigned)__any_sync(full, lane == 40) * 2 + (unsigned)__all_sync(full, lane < 32);
    out[64 + lane] = __match_any_sync(full, lane / 3);
    int same = 0;
    const unsigned all = __match_all_sync(full, 12345678901ll, &same);
    out[96 + lane] = all + (unsigned)same;
    out[128 + lane] = __reduce_add_sync(full, lane) + __reduce_xor_sync(full, 1u << lane);
    out[160 + lane] =
        (unsigned)(__reduce_min_sync(full, (int)lane - 7) + 100 * __reduce_max_sync(full, (int)lane));
    if (lane % 2) { /* half a warp */
        out[192 + lane] = __ballot_sync(0xaaaaaaaau, lane > 16);
        out[224 + lane] = __activemask();
    } else {
        out[192 + lane] = __shfl_down_sync(0x55555555u, lane, 2);
        out[224 + lane] = __activemask();
    }
}

/* Sums of a row each warp, in a block that is no multiple of 32. */
KERNEL warp_sums(float *out, const float *x, int n)
{
    float v = 0;
    for (int i = (int)(threadIdx.x % 32); i < n; i += 32)
        v += x[i];
    __syncwarp();
    const int lane = (int)(threadIdx.x % 32), rest = (int)(blockDim.x - threadIdx.x) + lane;
    for (int o = 16; o > 0; o /= 2) { /* what a lane that is not there has is undefined */
        const float other = __shfl_sync(0xffffffffu, v, lane + o < rest ? lane + o : lane);
        v += lane + o < rest && lane + o < 32 ? other : 0;
    }
    if (lane == 0)
        out[threadIdx.x / 32] = v;
}

/* ---- atomics ---- */

/* From 0 (cas: 0): what every thread of the grid does to it. */
struct cells {
    int add, sub, min, max;
    unsigned inc, dec, and_, or_, xor_, exch, cas;
    float f;
    double d;
    unsigned long long ull;
};
KERNEL atomics(struct cells *c)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(&c->add, i);
    atomicSub(&c->sub, i);
    atomicMin(&c->min, -i);
    atomicMax(&c->max, i);
    atomicInc(&c->inc, 9);
    atomicDec(&c->dec, 9);
    atomicAnd(&c->and_, ~(1u << i % 32));
    atomicOr(&c->or_, 1u << i % 32);
    atomicXor(&c->xor_, (unsigned)i);
    atomicExch(&c->exch, 5u);
    atomicAdd(&c->f, 0.5f);
    atomicAdd_system(&c->d, 0.25);
    atomicAdd(&c->ull, 1ull << 33);
    for (unsigned seen = c->cas, old; (old = atomicCAS(&c->cas, seen, seen + 2)) != seen;)
        seen = old;
}

/* A lock that threads of one block spin for. */
KERNEL spin_lock(int *count)
{
    __shared__ int lock;
    if (threadIdx.x == 0)
        lock = 0;
    __syncthreads();
    for (bool done = false; !done;) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            count[0] = count[0] + 1;
            __threadfence();
            atomicExch(&lock, 0);
            done = true;
        }
    }
}

/* ---- shared memory ---- */

KERNEL dynamic_shared(int *out, int n)
{
    extern __shared__ int pool[];
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        pool[i] = i + (int)blockIdx.x;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        out[(int)blockIdx.x * n + i] = pool[n - 1 - i];
}

/* Two names, one memory. */
KERNEL dynamic_by_two_names(int *out)
{
    extern __shared__ int pool[];
    extern __shared__ float floats[];
    floats[threadIdx.x] = 1.0f;
    out[threadIdx.x] = pool[threadIdx.x];
}

static __device__ __noinline__ float sum_of_block(float v)
{
    __shared__ float part[256];
    part[threadIdx.x] = v;
    __syncthreads();
    float total = 0;
    for (unsigned i = 0; i < blockDim.x; i++)
        total += part[i];
    __syncthreads();
    return total;
}
/* 1024 bytes of the function's, 64 of its own. */
KERNEL shared_of_a_function(float *out)
{
    __shared__ float own[16];
    own[threadIdx.x % 16] = 1.0f;
    out[threadIdx.x] = sum_of_block((float)threadIdx.x) + own[0];
}

/* ---- kernels that are hard to name ---- */

template <typename T, int N> __global__ void scaled(T *p)
{
    __shared__ T s[N];
    s[threadIdx.x % N] = (T)N;
    __syncthreads();
    p[threadIdx.x] *= s[N - 1 - threadIdx.x % N];
}
template __global__ void scaled<int, 3>(int *);
template __global__ void scaled<double, 4>(double *);

static __global__ void of_this_file(int *p)
{
    p[threadIdx.x] = 11;
}

namespace
{
struct pair {
    int a, b;
};
__device__ int hidden_variable = 21;
__global__ void unnamed(pair v, int *p)
{
    extern __shared__ int unnamed_pool[];
    unnamed_pool[threadIdx.x] = v.a + v.b;
    __syncthreads();
    p[threadIdx.x] = unnamed_pool[(threadIdx.x + 1) % blockDim.x] + hidden_variable;
}
template <typename T> __global__ void unnamed_template(T *p)
{
    p[threadIdx.x] = (T)13;
}
} // namespace
namespace named
{
__device__ double number = 1.5;
__global__ void kernel(double *p)
{
    p[threadIdx.x] = number;
}
} // namespace named

extern "C" void use_them(void) /* so that nvcc keeps them */
{
    of_this_file<<<1, 1>>>(nullptr);
    unnamed<<<1, 1, 64>>>(pair{1, 2}, nullptr);
    unnamed_template<short><<<1, 1>>>(nullptr);
    int v = 0;
    cudaMemcpyToSymbol(hidden_variable, &v, sizeof v);
}

/* ---- variables ---- */

__device__ int counter = 5;
__device__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__constant__ int factors[3];
static __constant__ int of_file = 7;
__device__ const int never_changes = 9;
__device__ int *where;

KERNEL use_variables(int *out)
{
    if (threadIdx.x == 0) {
        where = &counter;
        out[0] = counter + factors[0] + factors[1] + factors[2] + of_file + never_changes + (int)table[2];
        table[2] = 30.0f;
    }
    atomicAdd(&counter, 1);
}
KERNEL follow_variable(int *out)
{
    out[0] = *where;
}
/* A marked kernel beside others: the two modes share the variable. */
KERNEL add_to_counter(int by)
{
    if (threadIdx.x == 0)
        counter += by;
}
#ifdef __SOFTGPU_FAST__
BLOCK_SIZE_INDEPENDENT(add_to_counter);
#endif

/* ---- a grid ---- */

#ifndef __SOFTGPU_FAST__
#include <cooperative_groups.h>
static __device__ void __grid_sync(void)
{
    cooperative_groups::this_grid().sync();
}
#endif
/* out[block] = sum over the grid of what blocks have left in `part`; shared memory stays the block's own. */
KERNEL grid_sum(int *out, int *part)
{
    __shared__ int mine;
    if (threadIdx.x == 0)
        mine = (int)blockIdx.x + 1;
    __syncthreads();
    if (threadIdx.x == 1)
        part[blockIdx.x] = mine;
    __grid_sync();
    int total = 0;
    for (unsigned b = 0; b < gridDim.x; b++)
        total += part[b];
    __grid_sync();
    if (threadIdx.x == 0)
        out[blockIdx.x] = total * 100 + mine;
}

/* ---- failing ---- */

KERNEL traps(int *p)
{
    if (p[threadIdx.x] == 3)
        __trap();
}

#include <assert.h>
KERNEL asserts(int *p)
{
    assert(p[threadIdx.x] != 3);
    p[threadIdx.x] = 4;
}

/* A tebibyte further: far outside, but where the device has its addresses, so that nothing of the host's is there. */
KERNEL wild_store(int *p)
{
    if (threadIdx.x == 5 && blockIdx.x == 1)
        p[1ll << 38] = 1;
}

static __device__ int deep(int n, int *p)
{
    volatile int room[256];
    for (int i = 0; i < 256; i++)
        room[i] = n + i;
    return n > 0 ? deep(n - 1, p) + room[n % 256] : p[0];
}
KERNEL deep_recursion(int *p, int n)
{
    p[threadIdx.x] = deep(n, p);
}

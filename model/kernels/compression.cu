/* compression.cu: gradients in fewer bytes (kernels.h). */
#include <float.h>
#include <math.h>

#include "block.cuh"
#include "kernels.h"

/* A block takes a slice. */
__global__ void add_scaled_kernel(float *__restrict__ sum, const float *__restrict__ x, float factor, size_t n)
{
    const size_t begin = (size_t)blockIdx.x * SLICE_ELEMENTS, end = slice_end(n);
    SIMD for (size_t i = begin + (size_t)block_thread(); i < end; i += (size_t)block_threads())
        sum[i] += factor * x[i];
}

inline softgpu_cost_t add_scaled_cost(dim3, dim3, float *, const float *, float, size_t n)
{
    return launch_cost(2.0 * (double)n, 3.0 * (double)n);
}
INDEPENDENT_KERNEL(add_scaled_cost, add_scaled_kernel);

cudaError_t add_scaled(float *sum, const float *x, float factor, size_t n, cudaStream_t stream)
{
    add_scaled_kernel<<<counted(slices(n)), BLOCK_THREADS, 0, stream>>>(sum, x, factor, n);
    return cudaGetLastError();
}

/* ---- columns ---- */

static __device__ double column_product(const float *p, int rows, int columns, int a, int b)
{
    double sum = 0;
    for (int i = block_thread(); i < rows; i += block_threads())
        sum += (double)p[(size_t)i * (size_t)columns + (size_t)a] * (double)p[(size_t)i * (size_t)columns + (size_t)b];
    return block_sum(sum);
}

/* What a column takes along those before it is taken out of it, twice: what rounding leaves of the first time (Kahan's "twice is
 * enough"). Returns the square of what is left. */
static __device__ double take_out(float *p, int rows, int columns, int column)
{
    for (int k = 0; k < 2 * column; k++) {
        const int other = k % column;
        const double along = column_product(p, rows, columns, other, column);
        for (int i = block_thread(); i < rows; i += block_threads())
            p[(size_t)i * (size_t)columns + (size_t)column] -=
                (float)(along * (double)p[(size_t)i * (size_t)columns + (size_t)other]);
    }
    return column_product(p, rows, columns, column, column);
}

/* A column of ones and minus ones, as if by chance. */
static __device__ float any_sign(int row, int column, int attempt)
{
    const uint32_t word = ((uint32_t)row * 0x9e3779b9u) ^ ((uint32_t)(column * 64 + attempt + 1) * 0x85ebca6bu);
    return (word ^ word >> 15) * 0x2c1b3c6du >> 31 ? 1.0f : -1.0f;
}

/* One block. A thread has the same rows throughout. */
__global__ void orthonormalize_kernel(float *__restrict__ p, int rows, int columns)
{
    const int begin = block_thread(), step = block_threads();
    const size_t width = (size_t)columns;
    for (int column = 0; column < columns; column++) {
        double squares = take_out(p, rows, columns, column);
        for (int attempt = 0; attempt < 8 && !(squares > (double)FLT_MIN); attempt++) {
            for (int i = begin; i < rows; i += step)
                p[(size_t)i * width + (size_t)column] = any_sign(i, column, attempt);
            squares = take_out(p, rows, columns, column);
        }
        const double factor = squares > (double)FLT_MIN ? 1 / sqrt(squares) : 0;
        for (int i = begin; i < rows; i += step) {
            float *const at = p + (size_t)i * width + column;
            *at = (float)(factor * (double)*at);
        }
    }
}

/* One multiprocessor's share of the memory's rate, a thirtieth or so; of each pass over a column whole rows come along. */
inline softgpu_cost_t orthonormalize_cost(dim3, dim3, float *, int rows, int columns)
{
    const double elements = (double)rows * columns, passes = 2.0 * columns * columns;
    return launch_cost(8.0 * elements * columns, 30.0 * passes * elements);
}
INDEPENDENT_KERNEL(orthonormalize_cost, orthonormalize_kernel);

cudaError_t orthonormalize(float *p, int rows, int columns, cudaStream_t stream)
{
    orthonormalize_kernel<<<counted(1), 1024, 0, stream>>>(p, rows, columns);
    return cudaGetLastError();
}

/* ---- the largest ----
 * Radix selection: bits of the k-th largest magnitude, from the highest on, four with each pass over the array. Then each slice's largest are
 * counted, the counts added up, and the numbers put where those before them leave off. A slice has a block, which writes its own counts. */

enum { DIGIT_BITS = 4, DIGITS = 1 << DIGIT_BITS };

typedef struct top {
    uint32_t bits;   /* of the k-th largest, as far as they are known */
    uint32_t wanted; /* so many of those that begin with them */
} top_t;

typedef struct slice_top {
    uint32_t larger, equal; /* so many are larger than the k-th, or equal it; later in all slices before it */
    uint32_t count[DIGITS]; /* of those that begin with the bits, by the next digit */
} slice_top_t;

static __device__ __forceinline__ uint32_t magnitude(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

/* One thread. */
__global__ void top_begin_kernel(top_t *__restrict__ top, uint32_t k)
{
    if (block_thread() == 0)
        *top = top_t{0, k};
}

inline softgpu_cost_t top_begin_cost(dim3, dim3, top_t *, uint32_t)
{
    return launch_cost(1, 2);
}
INDEPENDENT_KERNEL(top_begin_cost, top_begin_kernel);

/* Counts of a slice are exact in float. */
__global__ void top_count_kernel(slice_top_t *__restrict__ slice, const top_t *__restrict__ top, const float *__restrict__ x, size_t n, int shift)
{
    const size_t begin = (size_t)blockIdx.x * SLICE_ELEMENTS, end = slice_end(n);
    const uint32_t bits = top->bits >> shift >> DIGIT_BITS;
    float count[DIGITS] = {};
    for (size_t i = begin + (size_t)block_thread(); i < end; i += (size_t)block_threads()) {
        const uint32_t its = magnitude(x[i]) >> shift;
        UNROLL
        for (uint32_t d = 0; d < DIGITS; d++)
            count[d] += its >> DIGIT_BITS == bits && its % DIGITS == d ? 1.0f : 0.0f;
    }
    UNROLL
    for (int d = 0; d < DIGITS; d++) {
        const float all = block_sum(count[d]);
        if (block_thread() == 0)
            slice[blockIdx.x].count[d] = (uint32_t)all;
    }
}

inline softgpu_cost_t top_count_cost(dim3 grid, dim3, slice_top_t *, const top_t *, const float *, size_t n, int)
{
    return launch_cost(3.0 * DIGITS * (double)n, (double)n + (double)DIGITS * grid.x);
}
INDEPENDENT_KERNEL(top_count_cost, top_count_kernel);

/* One block. */
__global__ void top_digit_kernel(top_t *__restrict__ top, const slice_top_t *__restrict__ slice, int slices, int shift)
{
    uint32_t wanted = top->wanted;
    int digit = DIGITS - 1;
    for (; digit > 0; digit--) {
        double count = 0;
        for (int i = block_thread(); i < slices; i += block_threads())
            count += (double)slice[i].count[digit];
        const uint32_t all = (uint32_t)block_sum(count);
        if (all >= wanted)
            break;
        wanted -= all;
    }
    if (block_thread() == 0)
        *top = top_t{top->bits | (uint32_t)digit << shift, wanted};
}

inline softgpu_cost_t top_digit_cost(dim3, dim3, top_t *, const slice_top_t *, int slices, int)
{
    return launch_cost((double)DIGITS * slices, (double)DIGITS * slices);
}
INDEPENDENT_KERNEL(top_digit_cost, top_digit_kernel);

/* How many of a thread's share are larger, how many equal. */
typedef struct share_top {
    uint32_t larger, equal;
} share_top_t;

static __device__ share_top_t count_larger(const float *x, size_t begin, size_t end, size_t step, uint32_t bits)
{
    share_top_t its = {};
    for (size_t i = begin; i < end; i += step) {
        its.larger += magnitude(x[i]) > bits;
        its.equal += magnitude(x[i]) == bits;
    }
    return its;
}

__global__ void top_slices_kernel(slice_top_t *__restrict__ slice, const top_t *__restrict__ top, const float *__restrict__ x,
                                  size_t n)
{
    const share_top_t its = count_larger(x, (size_t)blockIdx.x * SLICE_ELEMENTS + (size_t)block_thread(), slice_end(n),
                                         (size_t)block_threads(), top->bits);
    const float larger = block_sum((float)its.larger), equal = block_sum((float)its.equal);
    if (block_thread() == 0) {
        slice[blockIdx.x].larger = (uint32_t)larger;
        slice[blockIdx.x].equal = (uint32_t)equal;
    }
}

inline softgpu_cost_t top_slices_cost(dim3 grid, dim3, slice_top_t *, const top_t *, const float *, size_t n)
{
    return launch_cost(4.0 * (double)n, (double)n + 2.0 * grid.x);
}
INDEPENDENT_KERNEL(top_slices_cost, top_slices_kernel);

/* Counts of the threads' shares become those of all before each. Every thread of the block calls it. */
static __device__ void add_up(share_top_t *shares)
{
    __syncthreads();
    share_top_t before = {0, 0};
    for (int t = 0; block_thread() == 0 && t < block_threads(); t++) {
        const share_top_t its = shares[t];
        shares[t] = before;
        before.larger += its.larger;
        before.equal += its.equal;
    }
    __syncthreads();
}

/* One block. */
__global__ void top_offsets_kernel(slice_top_t *__restrict__ slice, int count)
{
    __shared__ share_top_t shares[BLOCK_THREADS];
    const int share = ceil_div(count, block_threads()), begin = smaller(block_thread() * share, count),
              end = smaller(begin + share, count);
    share_top_t own = {0, 0};
    for (int i = begin; i < end; i++) {
        own.larger += slice[i].larger;
        own.equal += slice[i].equal;
    }
    shares[block_thread()] = own;
    add_up(shares);
    share_top_t before = shares[block_thread()];
    for (int i = begin; i < end; i++) {
        const share_top_t its = {slice[i].larger, slice[i].equal};
        slice[i].larger = before.larger;
        slice[i].equal = before.equal;
        before.larger += its.larger;
        before.equal += its.equal;
    }
}

inline softgpu_cost_t top_offsets_cost(dim3, dim3, slice_top_t *, int count)
{
    return launch_cost(4.0 * count, 6.0 * count);
}
INDEPENDENT_KERNEL(top_offsets_cost, top_offsets_kernel);

/* A thread takes a part of the slice, in order. */
__global__ void top_take_kernel(uint32_t *__restrict__ place, float *__restrict__ value, float *__restrict__ x, size_t n,
                                const top_t *__restrict__ top, const slice_top_t *__restrict__ slice)
{
    __shared__ share_top_t shares[BLOCK_THREADS];
    const size_t first = (size_t)blockIdx.x * SLICE_ELEMENTS, last = slice_end(n),
                 share = ceil_div((size_t)SLICE_ELEMENTS, (size_t)block_threads()), own = first + (size_t)block_thread() * share,
                 begin = own < last ? own : last, end = begin + share < last ? begin + share : last;
    const uint32_t bits = top->bits, wanted = top->wanted;
    shares[block_thread()] = count_larger(x, begin, end, 1, bits);
    add_up(shares);
    uint32_t larger = slice[blockIdx.x].larger + shares[block_thread()].larger,
             equal = slice[blockIdx.x].equal + shares[block_thread()].equal;
    for (size_t i = begin; i < end; i++) {
        const uint32_t its = magnitude(x[i]);
        if (its < bits || (its == bits && equal >= wanted))
            continue;
        const uint32_t at = larger + (equal < wanted ? equal : wanted);
        place[at] = (uint32_t)i;
        value[at] = x[i];
        x[i] = 0.0f;
        larger += its > bits;
        equal += its == bits;
    }
}

inline softgpu_cost_t top_take_cost(dim3 grid, dim3, uint32_t *, float *, float *, size_t n, const top_t *, const slice_top_t *)
{
    return launch_cost(4.0 * (double)n, (double)n + 2.0 * grid.x);
}
INDEPENDENT_KERNEL(top_take_cost, top_take_kernel);

size_t top_scratch(size_t n)
{
    return sizeof(top_t) + slices(n) * sizeof(slice_top_t);
}

cudaError_t take_top(uint32_t *place, float *value, float *x, size_t n, size_t k, void *scratch, cudaStream_t stream)
{
    top_t *const top = (top_t *)scratch;
    slice_top_t *const slice = (slice_top_t *)(top + 1);
    const unsigned blocks = slices(n);
    top_begin_kernel<<<counted(1), 32, 0, stream>>>(top, (uint32_t)k);
    for (int shift = 32 - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        top_count_kernel<<<counted(blocks), BLOCK_THREADS, 0, stream>>>(slice, top, x, n, shift);
        top_digit_kernel<<<counted(1), BLOCK_THREADS, 0, stream>>>(top, slice, (int)blocks, shift);
    }
    top_slices_kernel<<<counted(blocks), BLOCK_THREADS, 0, stream>>>(slice, top, x, n);
    top_offsets_kernel<<<counted(1), BLOCK_THREADS, 0, stream>>>(slice, (int)blocks);
    top_take_kernel<<<counted(blocks), BLOCK_THREADS, 0, stream>>>(place, value, x, n, top, slice);
    return cudaGetLastError();
}

/* A block takes a slice. */
__global__ void add_at_kernel(float *__restrict__ sum, const uint32_t *__restrict__ place, const float *__restrict__ value, size_t k)
{
    const size_t begin = (size_t)blockIdx.x * SLICE_ELEMENTS, end = slice_end(k);
    for (size_t i = begin + (size_t)block_thread(); i < end; i += (size_t)block_threads())
        sum[place[i]] += value[i];
}

inline softgpu_cost_t add_at_cost(dim3, dim3, float *, const uint32_t *, const float *, size_t k)
{
    return launch_cost((double)k, 16.0 * (double)k); /* of each number a sector of 32 bytes, there and back */
}
INDEPENDENT_KERNEL(add_at_cost, add_at_kernel);

cudaError_t add_at(float *sum, const uint32_t *place, const float *value, size_t k, cudaStream_t stream)
{
    add_at_kernel<<<counted(slices(k)), BLOCK_THREADS, 0, stream>>>(sum, place, value, k);
    return cudaGetLastError();
}

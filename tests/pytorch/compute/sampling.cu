/* sampling.cu: sampling by given weights: with replacement by their running sums, without by the largest quotients of weights and exponential numbers. */
#include "compute.h"

#include <ATen/cuda/PhiloxUtils.cuh>
#include <ATen/cuda/detail/TensorInfo.cuh>
#include <ATen/native/cuda/SortingRadixSelect.cuh>
#include <curand_kernel.h>

namespace at::cuda::cub {

/* Running sums of all numbers. The wheel's kernels share them out among blocks, whose sums the first computes; one thread does all here. */
template <int threads, int items, bool nonzero, typename T, typename Sum> __global__ void calc_block_sums(const T *, Sum *, int64_t, int) {}
template __global__ void calc_block_sums<512, 16, false, float, float>(const float *, float *, int64_t, int);

template <int threads, int items, typename T> __global__ void final_scan_kernel(const T *in, T *out, T *, int64_t count, int)
{
    if (blockIdx.x || threadIdx.x)
        return;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        out[i] = T(sum += in[i]);
}
template __global__ void final_scan_kernel<512, 16, float>(const float *, float *, float *, int64_t, int);

} // namespace at::cuda::cub

namespace compute {

using at::cuda::detail::IndexToOffset;
using at::cuda::detail::TensorInfo;

/* How many of a row's keys come before that of number i: keys in the order of numbers, or the reverse; of equal ones the first. */
template <typename Index> __device__ Index place(const float *keys, Index count, Index stride, Index i, bool descending)
{
    const auto of = [=](Index k) {
        const uint32_t key = at::native::TopKTypeConfig<float>::convert(keys[k * stride]);
        return descending ? ~key : key;
    };
    const uint32_t own = of(i);
    Index before = 0;
    for (Index k = 0; k < count; k++)
        before += of(k) < own || (of(k) == own && k < i);
    return before;
}

/* Sorts a row in place by so many threads, each with up to so many numbers. All threads of the block call it; those without a row have count 0. */
template <int items, typename V, typename Index>
__device__ void sort_row(float *keys, Index count, Index key_stride, V *values, Index value_stride, bool descending, unsigned thread, unsigned threads)
{
    float key[items];
    V value[items];
    Index to[items];
    Index n = 0;
    for (Index i = thread; i < count; i += threads, n++) {
        key[n] = keys[i * key_stride];
        value[n] = values[i * value_stride];
        to[n] = place(keys, count, key_stride, i, descending);
    }
    __syncthreads();
    for (Index i = 0; i < n; i++) {
        keys[to[i] * key_stride] = key[i];
        values[to[i] * value_stride] = value[i];
    }
}

} // namespace compute

namespace at::native {

namespace sbtopk {

using at::cuda::detail::IndexToOffset;
using at::cuda::detail::TensorInfo;

/* Of each row the `wanted` largest or smallest numbers, sorted, and where they are. A block for each row. */
template <typename T, typename Index, int dimensions, bool with_last>
__global__ void gatherTopK(TensorInfo<const T, Index> in, Index count, Index wanted, bool largest, Index rows, Index stride, TensorInfo<T, Index> out,
                           Index out_stride, TensorInfo<int64_t, Index> places, Index place_stride, T *)
{
    static_assert(!with_last);
    const Index row = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    if (row >= rows)
        return;
    const T *numbers = in.data + IndexToOffset<const T, Index, dimensions>::get(row, in);
    T *to = out.data + IndexToOffset<T, Index, dimensions>::get(row, out);
    int64_t *to_places = places.data + IndexToOffset<int64_t, Index, dimensions>::get(row, places);
    for (Index i = threadIdx.x; i < count; i += blockDim.x)
        if (const Index k = compute::place(numbers, count, stride, i, largest); k < wanted) {
            to[k * out_stride] = numbers[i * stride];
            to_places[k * place_stride] = i;
        }
}
#define OF_DIMENSIONS(dimensions)                                                                                                            \
    template __global__ void gatherTopK<float, unsigned, dimensions, false>(TensorInfo<const float, unsigned>, unsigned, unsigned, bool,     \
                                                                            unsigned, unsigned, TensorInfo<float, unsigned>, unsigned,       \
                                                                            TensorInfo<int64_t, unsigned>, unsigned, float *);
OF_DIMENSIONS(1)
OF_DIMENSIONS(2)
#undef OF_DIMENSIONS

} // namespace sbtopk

using at::cuda::detail::IndexToOffset;
using at::cuda::detail::TensorInfo;

template <typename, bool> struct GTOp {};

/* Rows of up to 32 pairs, along y; half as many threads along x. */
template <int key_dimensions, int value_dimensions, int half, int rows_of_block, typename K, typename V, typename Operation, typename Index>
__global__ void bitonicSortKVInPlace(TensorInfo<K, Index> keys, Index rows, Index count, Index stride, TensorInfo<V, Index> values, Index value_stride,
                                     Operation)
{
    const Index row = ((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.y + threadIdx.y;
    const Index first = row < rows ? row : 0;
    compute::sort_row<2>(keys.data + IndexToOffset<K, Index, key_dimensions>::get(first, keys), row < rows ? count : 0, stride,
                         values.data + IndexToOffset<V, Index, value_dimensions>::get(first, values), value_stride, true, threadIdx.x, blockDim.x);
}

/* Rows of up to threads * items pairs, a block for each. */
template <int key_dimensions, int value_dimensions, int threads, int items, typename K, typename V, typename Index>
__global__ void radixSortKVInPlace(TensorInfo<K, Index> keys, Index rows, Index count, Index stride, TensorInfo<V, Index> values, Index value_stride,
                                   bool descending)
{
    const Index row = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const Index first = row < rows ? row : 0;
    compute::sort_row<items>(keys.data + IndexToOffset<K, Index, key_dimensions>::get(first, keys), row < rows ? count : 0, stride,
                             values.data + IndexToOffset<V, Index, value_dimensions>::get(first, values), value_stride, descending, threadIdx.x,
                             threads);
}

#define OF_LARGEST(dimensions)                                                                                                               \
    template __global__ void bitonicSortKVInPlace<dimensions, -1, 16, 16, float, int64_t, GTOp<float, true>, unsigned>(                      \
        TensorInfo<float, unsigned>, unsigned, unsigned, unsigned, TensorInfo<int64_t, unsigned>, unsigned, GTOp<float, true>);
#define OF_SIZE(dimensions, threads, items)                                                                                                  \
    template __global__ void radixSortKVInPlace<dimensions, -1, threads, items, float, int64_t, unsigned>(                                   \
        TensorInfo<float, unsigned>, unsigned, unsigned, unsigned, TensorInfo<int64_t, unsigned>, unsigned, bool);
#define OF_ROWS(dimensions)                                                                                                                  \
    OF_LARGEST(dimensions)                                                                                                                   \
    OF_SIZE(dimensions, 16, 2) OF_SIZE(dimensions, 32, 4) OF_SIZE(dimensions, 32, 32) OF_SIZE(dimensions, 64, 32) OF_SIZE(dimensions, 128, 32)
OF_ROWS(-2)
OF_ROWS(-1)
OF_ROWS(2)

namespace {

/* Rows divided by their sums. One thread for each row. */
template <typename T> __global__ void renormRowsL1(T *weights, long rows, long columns)
{
    for (long row = blockIdx.x; row < rows && !threadIdx.x; row += gridDim.x) {
        double sum = 0;
        for (long i = 0; i < columns; i++) {
            CUDA_KERNEL_ASSERT(weights[row * columns + i] >= 0);
            sum += weights[row * columns + i];
        }
        for (long i = 0; i < columns && sum > 0; i++)
            weights[row * columns + i] /= T(sum);
    }
}
template __global__ void renormRowsL1<float>(float *, long, long);

/* Of each row so many samples: the first column whose running sum reaches the number drawn. A thread for each sample, a row of blocks for each of
 * `weights`. */
template <typename T>
__global__ void sampleMultinomialWithReplacement(PhiloxCudaState random, int count, int64_t *samples, int64_t rows, int columns, const T *sums,
                                                 const T *weights)
{
    const auto [seed, offset] = at::cuda::philox::unpack(random);
    const int first = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, blockIdx.y * all + first, offset, &state);
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y)
        for (int i = first; i < count; i += all) {
            const T drawn = curand_uniform4(&state).x, *sum = sums + row * columns, *weight = weights + row * columns;
            int begin = 0, end = columns;
            while (begin < end) {
                const int middle = begin + (end - begin) / 2;
                if (sum[middle] < drawn)
                    begin = middle + 1;
                else
                    end = middle;
            }
            int column = std::min(begin, columns - 1);
            while (column && weight[column] == 0) /* sums are rounded */
                column--;
            samples[row * count + i] = column;
        }
}
template __global__ void sampleMultinomialWithReplacement<float>(PhiloxCudaState, int, int64_t *, int64_t, int, const float *, const float *);

} // namespace
} // namespace at::native

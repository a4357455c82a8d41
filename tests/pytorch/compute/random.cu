/* random.cu: random numbers: the header's kernels for uniform, normal, exponential and Bernoulli's numbers and integers, the ends of a permutation;
 * sampling by given weights. */
#include "compute.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

namespace at::native {
namespace {
template <int size> struct alignas(size) OpaqueType {
    char data[size];
};
} // namespace
} // namespace at::native

#include <ATen/native/cuda/Randperm.cuh>

namespace compute {

/* Types that have random numbers here; with all of them this takes minutes to compile. */
template <typename T>
inline constexpr bool is_random = std::is_same_v<T, float> || std::is_same_v<T, BFloat16> || std::is_same_v<T, c10::Half> ||
                                  std::is_same_v<T, int> || std::is_same_v<T, int64_t>;

} // namespace compute

/* Kernels are named after lambdas, and these are numbered: each type has one, be it empty. */
#pragma push_macro("AT_DISPATCH_CASE")
#undef AT_DISPATCH_CASE
#define AT_DISPATCH_CASE(type, ...)                                                                                                          \
    case type: {                                                                                                                             \
        using scalar_t = c10::impl::ScalarTypeToCPPTypeT<type>;                                                                              \
        if constexpr (compute::is_random<scalar_t>)                                                                                          \
            return __VA_ARGS__();                                                                                                            \
        else                                                                                                                                 \
            return [] {}();                                                                                                                  \
    }
#include <ATen/native/cuda/DistributionTemplates.h>
#pragma pop_macro("AT_DISPATCH_CASE")

namespace at::native::templates::cuda {

using generator = CUDAGeneratorImpl *;

template void uniform_kernel(TensorIteratorBase &, double, double, generator);
template void normal_kernel(const TensorBase &, double, double, generator);
template void exponential_kernel(TensorIteratorBase &, double, generator);
template void bernoulli_kernel(TensorIteratorBase &, double, generator);
template void bernoulli_tensor_cuda_kernel<float, float>(const TensorBase &, const TensorBase &, PhiloxCudaState);
template void random_from_to_kernel(TensorIteratorBase &, uint64_t, int64_t, generator);
template void random_full_64_bits_range_kernel(TensorIteratorBase &, generator);

} // namespace at::native::templates::cuda

namespace {

template __global__ void randperm_handle_duplicate_keys_kernel(int *, at::native::OpaqueType<8> *, int, int, at::PhiloxCudaState);

} // namespace

namespace at::native {
namespace {

/* Rows divided by their sums. One thread for each row. */
template <typename T> __global__ void renormRowsL1(T *weights, long rows, long columns)
{
    for (long row = blockIdx.x; row < rows && !threadIdx.x; row += gridDim.x) {
        T sum = 0;
        for (long i = 0; i < columns; i++) {
            CUDA_KERNEL_ASSERT(weights[row * columns + i] >= 0);
            sum += weights[row * columns + i];
        }
        for (long i = 0; i < columns && sum > 0; i++)
            weights[row * columns + i] /= sum;
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

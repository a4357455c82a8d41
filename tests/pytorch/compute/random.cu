/* random.cu: random numbers: the header's kernels for uniform, normal, exponential and Bernoulli's numbers and integers, and the
 * ends of a permutation. */
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
template __global__ void randperm_handle_duplicate_keys_kernel(int64_t *, at::native::OpaqueType<8> *, int64_t, int, at::PhiloxCudaState);

} // namespace

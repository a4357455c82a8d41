/* reduce.cu: sums, means, norms and extremes; whether all hold, or any. */
#include "compute.h"

#include <ATen/native/ReduceOps.h>
#include <ATen/native/SharedReduceOps.h>
#include <ATen/native/cuda/Reduce.cuh>

namespace compute {

using namespace at::native;
using at::opmath_type;

template <typename T>
struct sum {
    __device__ T operator()(T a, T b) const { return a + b; }
};

template <typename T>
struct both {
    __device__ T operator()(T a, T b) const { return a && b; }
};

template <typename T>
struct either {
    __device__ T operator()(T a, T b) const { return a || b; }
};

} // namespace compute

namespace at::native {

template <typename T>
struct MaxNanFunctor {
    __device__ T operator()(T a, T b) const { return a != a || a > b ? a : b; }
};

template <typename T>
struct MinNanFunctor {
    __device__ T operator()(T a, T b) const { return a != a || a < b ? a : b; }
};

} // namespace at::native

namespace compute {

/* Of elements of type T, with an operation: so many outputs of a thread, in a block of that many threads at most. */
template <int threads, int outputs, typename T, typename Operation, typename Out = T>
void reduced()
{
    (void)(reduce_kernel<threads, outputs, ReduceOp<T, Operation, uint32_t, Out, 4, sizeof(T) == 2 ? 8 : 4>>);
}

template <typename T>
void summed()
{
    using operation = func_wrapper_t<T, sum<opmath_type<T>>>;
    reduced<512, 1, T, operation>();
    reduced<256, 2, T, operation>();
    reduced<128, 4, T, operation>();
}

template void summed<float>();
template void summed<BFloat16>();
template void summed<c10::Half>();
template void reduced<512, 1, int64_t, func_wrapper_t<int64_t, sum<int64_t>>>();
template void reduced<512, 1, float, func_wrapper_t<float, MaxNanFunctor<float>>>();
template void reduced<512, 1, float, func_wrapper_t<float, MinNanFunctor<float>>>();
template void reduced<512, 1, float, ArgMaxOps<float>, int64_t>();
template void reduced<512, 1, float, NormTwoOps<float, float, float, true>>();
template void reduced<512, 1, float, MeanOps<float, float, float, float>>();
template void reduced<512, 1, bool, func_wrapper_t<bool, both<bool>>>();
template void reduced<512, 1, bool, func_wrapper_t<bool, either<bool>>>();
template void reduced<512, 1, int64_t, func_wrapper_t<int64_t, MaxNanFunctor<int64_t>>>();
template void reduced<512, 1, int64_t, func_wrapper_t<int64_t, MinNanFunctor<int64_t>>>();

} // namespace compute

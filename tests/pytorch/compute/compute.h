/* compute.h: what every source here begins with: PyTorch's headers as Clang takes them, and how the wheel's functors lie in memory.
 *
 * The sources instantiate the kernels that the wheel's own headers hold (torch/include/ATen/native/cuda), and define those that are in none.
 * make.py gives the wheel's kernels the code by name. A functor that the wheel has in no header is either defined here under its own name, or,
 * if it is a lambda, under one in namespace compute that make.py knows (`functors`). */
#ifndef COMPUTE_H
#define COMPUTE_H

#include <tuple>
#include <utility>

/* Clang asks on the host's behalf whether std::apply's function can be called: one of the device's cannot. More special than that of <tuple>,
 * and declared before the headers that call it. */
namespace std {
template <typename Function, typename... Arguments>
__device__ inline auto apply(Function &function, tuple<Arguments...> &arguments)
{
    return [&]<size_t... I>(index_sequence<I...>) { return function(get<I>(arguments)...); }(index_sequence_for<Arguments...>());
}
} // namespace std

/* Types that are known at run time only: those that models have. With all of them a kernel takes minutes to compile; others are an assertion. */
#include <c10/core/ScalarType.h>
#pragma push_macro("AT_FORALL_SCALAR_TYPES_WITH_COMPLEX")
#undef AT_FORALL_SCALAR_TYPES_WITH_COMPLEX
#define AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(_) _(float, Float) _(double, Double) _(c10::BFloat16, BFloat16) _(c10::Half, Half) _(int64_t, Long) _(bool, Bool)
#include <c10/core/DynamicCast.h>
#pragma pop_macro("AT_FORALL_SCALAR_TYPES_WITH_COMPLEX")

#include <ATen/native/cuda/Loops.cuh>

namespace compute {

using c10::BFloat16;

/* The output, and the operands of a functor. */
template <typename F>
inline constexpr int operands = function_traits<F>::arity + 1;

/* The lambda of gpu_kernel_impl_nocast, for operands that are not contiguous. nvcc puts the address of the host's copy behind the captures of a
 * lambda for host and device. */
template <typename F>
struct strided {
    OffsetCalculator<operands<F>> calculator;
    std::array<char *, operands<F>> data;
    F f;
    void *host;

    __device__ void operator()(int i) const
    {
        auto offsets = calculator.get(i);
        using result = typename function_traits<F>::result_type;
        *(result *)(data[0] + offsets[0]) = at::native::invoke(f, &data[1], &offsets[1], 1);
    }
};

/* The lambda of gpu_kernel_impl: operands of other types than the functor's as well. */
template <typename F>
struct strided_converted {
    OffsetCalculator<operands<F>> calculator;
    std::array<char *, operands<F>> data;
    F f;
    std::array<c10::ScalarType, operands<F>> types;
    void *host;

    __device__ void operator()(int i) const
    {
        auto offsets = calculator.get(i);
        c10::cast_and_store(types[0], data[0] + offsets[0], at::native::invoke(f, &data[1], &offsets[1], &types[1], 1));
    }
};

} // namespace compute

#endif

/* elementwise.cu: operations that work element by element, or by its place. */
#include "compute.h"

#include <ATen/native/TensorCompare.h>
#include <ATen/native/cuda/BinaryInternal.h>

namespace at::native
{

template <typename T> struct FillFunctor {
    T value;
    __device__ T operator()() const
    {
        return value;
    }
};

template <typename T> struct CUDAFunctor_add {
    opmath_type<T> alpha;
    __device__ T operator()(T a, T b) const
    {
        return opmath_type<T>(a) + alpha * opmath_type<T>(b);
    }
};

template <typename T> struct CUDAFunctorOnSelf_add {
    opmath_type<T> b, alpha;
    __device__ T operator()(T a) const
    {
        return opmath_type<T>(a) + alpha * b;
    }
};

template <typename T> struct AbsFunctor {
    __device__ T operator()(T a) const
    {
        return std::abs(a);
    }
};

template <typename T> struct BitwiseAndFunctor {
    __device__ T operator()(T a, T b) const
    {
        return a & b;
    }
};

namespace
{

enum class OpType { GE, GT, LE, LT };

template <typename T> struct CompareFunctor {
    OpType operation;
    __device__ bool operator()(T a, T b) const
    {
        return operation == OpType::GE   ? a >= b
               : operation == OpType::GT ? a > b
               : operation == OpType::LE ? a <= b
                                         : a < b;
    }
};

template <typename T> struct CompareEqFunctor {
    enum { equal, different } operation;
    __device__ bool operator()(T a, T b) const
    {
        return (a == b) == (operation == equal);
    }
};

} // namespace

struct Msg {
    char text[256];
};

template <typename T> __global__ void _assert_async_cuda_kernel(const T *condition, Msg)
{
    if (!*condition)
        __trap();
}
template __global__ void _assert_async_cuda_kernel<bool>(const bool *, Msg);

} // namespace at::native

namespace
{

/* A thread has one element. */
template <typename Index, typename F>
__global__ void elementwise_kernel_with_index(Index count, F f, typename function_traits<F>::result_type *out)
{
    const Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = f(i);
}

} // namespace

namespace compute
{

using namespace at::native;
using at::opmath_type;

template <typename T> struct arange {
    T first, step;
    void *host;

    __device__ T operator()(int64_t i) const
    {
        return first + step * T(i);
    }
};

void with_index()
{
    (void)(elementwise_kernel_with_index<int, arange<int64_t>>);
    (void)(elementwise_kernel_with_index<int, arange<float>>);
}

template <typename T> struct copy {
    __device__ T operator()(T x) const
    {
        return x;
    }
};

template <typename T> struct narrowed {
    __device__ T operator()(float x) const
    {
        return x;
    }
};

template <typename T> struct neg {
    __device__ T operator()(T x) const
    {
        return -x;
    }
};

template <typename T> struct bitwise_not {
    __device__ T operator()(T x) const
    {
        static_assert(std::is_same_v<T, bool>);
        return !x;
    }
};

template <typename T> struct reciprocal {
    __device__ T operator()(T x) const
    {
        return T(1) / x;
    }
};

template <typename T> struct rsqrt {
    __device__ T operator()(T x) const
    {
        return ::rsqrt(x);
    }
};

template <typename T> struct sqrt {
    __device__ T operator()(T x) const
    {
        return std::sqrt(x);
    }
};

template <typename T> struct cos {
    __device__ T operator()(T x) const
    {
        return std::cos(x);
    }
};

template <typename T> struct sin {
    __device__ T operator()(T x) const
    {
        return std::sin(x);
    }
};

template <typename T> struct exp {
    __device__ T operator()(T x) const
    {
        return std::exp(x);
    }
};

/* x log y, and 0 where x is */
template <typename T> struct xlogy {
    __device__ T operator()(T x, T y) const
    {
        return y != y ? y : x == 0 ? T(0) : x * std::log(y);
    }
};

template <typename T> struct addcmul {
    opmath_type<T> alpha;
    void *host;
    __device__ T operator()(T a, T b, T c) const
    {
        return a + alpha * b * c;
    }
};

template <typename T> struct addcdiv {
    opmath_type<T> alpha;
    void *host;
    __device__ T operator()(T a, T b, T c) const
    {
        return a + alpha * (b / c);
    }
};

/* From the nearer end. */
template <typename T> struct lerp_scalar {
    opmath_type<T> weight;
    void *host;
    __device__ T operator()(T a, T b) const
    {
        return std::abs(weight) < opmath_type<T>(0.5) ? a + weight * (b - a) : b - (b - a) * (1 - weight);
    }
};

template <typename T> struct square {
    void *host;
    __device__ T operator()(T x) const
    {
        return x * x;
    }
};

template <typename T> struct cube {
    void *host;
    __device__ T operator()(T x) const
    {
        return x * x * x;
    }
};

template <typename T> struct tanh {
    __device__ T operator()(T x) const
    {
        return std::tanh(x);
    }
};

template <typename T> struct tanh_backward {
    __device__ T operator()(T gradient, T y) const
    {
        return gradient * (1 - y * y);
    }
};

template <typename T> __device__ inline opmath_type<T> logistic(opmath_type<T> x)
{
    return 1 / (1 + std::exp(-x));
}

template <typename T> struct silu {
    __device__ T operator()(T x_) const
    {
        const opmath_type<T> x = x_;
        return x / (1 + std::exp(-x));
    }
};

template <typename T> struct silu_backward {
    __device__ T operator()(T gradient, T x_) const
    {
        const opmath_type<T> x = x_, s = logistic<T>(x);
        return opmath_type<T>(gradient) * s * (1 + x * (1 - s));
    }
};

/* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
template <typename T> struct gelu_tanh {
    __device__ T operator()(T x_) const
    {
        const opmath_type<T> x = x_, inner = opmath_type<T>(0.7978845608028654) *
                                             (x + opmath_type<T>(0.044715) * x * x * x);
        return opmath_type<T>(0.5) * x * (1 + std::tanh(inner));
    }
};

template <typename T> struct gelu_tanh_backward {
    __device__ T operator()(T gradient, T x_) const
    {
        using F = opmath_type<T>;
        const F x = x_, scale = F(0.7978845608028654), cubic = F(0.044715);
        const F t = std::tanh(scale * (x + cubic * x * x * x));
        const F slope = (1 - t * t) * scale * (1 + 3 * cubic * x * x);
        return F(gradient) * F(0.5) * (1 + t + x * slope);
    }
};

/* x times the normal distribution's share below x */
template <typename T> struct gelu {
    __device__ T operator()(T x_) const
    {
        using F = opmath_type<T>;
        const F x = x_;
        return x * F(0.5) * (1 + std::erf(x * F(M_SQRT1_2)));
    }
};

template <typename T> struct gelu_backward {
    __device__ T operator()(T gradient, T x_) const
    {
        using F = opmath_type<T>;
        const F x = x_, below = F(0.5) * (1 + std::erf(x * F(M_SQRT1_2)));
        const F density = std::exp(F(-0.5) * x * x) * F(M_2_SQRTPI * M_SQRT1_2 * 0.5);
        return F(gradient) * (below + x * density);
    }
};

/* The clamping of a scalar: which limits hold, then these; nvcc's lambda keeps them in this order. */
template <typename T> struct clamp {
    at::native::detail::ClampLimits limits;
    opmath_type<T> low, high;
    void *host;

    __device__ T operator()(T x_) const
    {
        const opmath_type<T> x = x_;
        if (x != x)
            return x_;
        if (limits == at::native::detail::ClampLimits::Min)
            return std::max(x, low);
        if (limits == at::native::detail::ClampLimits::Max)
            return std::min(x, low);
        return std::min(std::max(x, low), high);
    }
};

/* The backward pass of dropout. */
template <typename T> struct masked_scale {
    float scale;
    void *host;
    __device__ T operator()(T gradient, bool kept) const
    {
        return float(gradient) * kept * scale;
    }
};

template <typename T> struct where {
    __device__ T operator()(bool which, T a, T b) const
    {
        return which ? a : b;
    }
};

/* Of integers, as its signs are Python's. */
template <typename T> struct remainder {
    __device__ T operator()(T a, T b) const
    {
        const T r = a % b;
        return r && (r < 0) != (b < 0) ? r + b : r;
    }
};

template <typename T> struct div_trunc {
    __device__ T operator()(T a, T b) const
    {
        return a / b;
    }
};

/* Which comparison: >=, >, <=, <. */
template <typename T> struct compare_scalar {
    int operation;
    T b;
    void *host;

    __device__ bool operator()(T a) const
    {
        return operation == 0 ? a >= b : operation == 1 ? a > b : operation == 2 ? a <= b : a < b;
    }
};

template <typename F> using addresses = std::array<char *, operands<F>>;

/* A thread takes so many elements at once: 16 bytes, and four at most. */
template <int vector, typename... F> void contiguous()
{
    ((void)(vectorized_elementwise_kernel<vector, F, addresses<F>>), ...);
}

template <typename... F> void not_contiguous()
{
    ((void)(elementwise_kernel < 128, sizeof(typename function_traits<F>::result_type) >= 4 ? 2 : 4,
            strided < F >>),
     ...);
}

template <typename... F> void not_contiguous_converted()
{
    ((void)(elementwise_kernel<128, 4, strided_converted<F>>), ...);
}

/* Operands of other types than the functor's. */
template <typename... F> void converted()
{
    ((void)(unrolled_elementwise_kernel<F, addresses<F>, 4, TrivialOffsetCalculator<operands<F> - 1>,
                                        TrivialOffsetCalculator<1>, memory::LoadWithCast<operands<F> - 1>,
                                        memory::StoreWithCast<1>>),
     ...);
}

template <typename T> using product = BinaryFunctor<T, T, T, binary_internal::MulFunctor<float>>;
template <typename T> using scaled = BUnaryFunctor<T, T, T, binary_internal::MulFunctor<float>>;
template <typename T> using scaling = AUnaryFunctor<T, T, T, binary_internal::MulFunctor<float>>;
template <typename T> using divided = BUnaryFunctor<T, T, T, binary_internal::DivFunctor<float>>;
template <typename T> using equal = BinaryFunctor<T, T, bool, CompareEqFunctor<T>>;
template <typename T> using equal_to = AUnaryFunctor<T, T, bool, CompareEqFunctor<T>>;
using quotient = BinaryFunctor<float, float, float, binary_internal::DivFunctor<float>>;
using both = BinaryFunctor<bool, bool, bool, BitwiseAndFunctor<bool>>;

template void
contiguous<4, FillFunctor<float>, FillFunctor<BFloat16>, FillFunctor<c10::Half>, FillFunctor<int>,
           FillFunctor<unsigned char>, CUDAFunctor_add<float>, CUDAFunctor_add<BFloat16>,
           CUDAFunctor_add<c10::Half>, CUDAFunctorOnSelf_add<float>, CUDAFunctorOnSelf_add<BFloat16>,
           CUDAFunctorOnSelf_add<c10::Half>, product<float>, product<BFloat16>, product<c10::Half>,
           scaled<float>, scaling<float>, narrowed<BFloat16>, narrowed<c10::Half>, reciprocal<float>, silu<float>,
           silu<BFloat16>, silu<c10::Half>, silu_backward<float>, silu_backward<BFloat16>, silu_backward<c10::Half>,
           gelu_tanh<float>, gelu_tanh<BFloat16>, gelu_tanh<c10::Half>, gelu_tanh_backward<float>,
           gelu_tanh_backward<BFloat16>, gelu_tanh_backward<c10::Half>, gelu<float>, gelu<BFloat16>, gelu<c10::Half>,
           gelu_backward<float>, gelu_backward<BFloat16>, gelu_backward<c10::Half>, clamp<float>, masked_scale<float>,
           masked_scale<BFloat16>, masked_scale<c10::Half>, compare_scalar<int64_t>, compare_scalar<float>,
           FillFunctor<bool>, both, bitwise_not<bool>, equal<float>, equal_to<int64_t>, equal_to<float>, quotient, neg<float>, rsqrt<float>, sqrt<float>, cos<float>, sin<float>, square<float>, cube<float>, tanh<float>,
           tanh_backward<float>, AbsFunctor<float>, exp<float>, BinaryFunctor<float, float, float, xlogy<float>>, addcmul<float>, addcdiv<float>, lerp_scalar<float>>();
template void contiguous<2, FillFunctor<int64_t>, reciprocal<double>, CUDAFunctor_add<int64_t>, CUDAFunctorOnSelf_add<int64_t>,
                         AUnaryFunctor<int64_t, int64_t, int64_t, binary_internal::MulFunctor<int64_t>>,
                         BUnaryFunctor<int64_t, int64_t, int64_t, div_trunc<int64_t>>,
                         BUnaryFunctor<int64_t, int64_t, int64_t, remainder<int64_t>>>();
template void
not_contiguous<CUDAFunctor_add<float>, CUDAFunctor_add<BFloat16>, CUDAFunctor_add<c10::Half>, product<float>,
               product<BFloat16>, product<c10::Half>, neg<float>, neg<BFloat16>, neg<c10::Half>, copy<float>, copy<BFloat16>, copy<c10::Half>,
               copy<int64_t>, where<float>, where<BFloat16>, where<c10::Half>,
               BUnaryFunctor<int64_t, int64_t, int64_t, remainder<int64_t>>, CUDAFunctor_add<int64_t>,
               CUDAFunctorOnSelf_add<int64_t>, scaled<float>, divided<float>, quotient, narrowed<BFloat16>, narrowed<c10::Half>, copy<bool>, both,
               equal<int64_t>, equal_to<int64_t>, CompareFunctor<int64_t>>();
template void not_contiguous_converted<product<float>>();
template void converted<CUDAFunctor_add<float>, copy<float>, copy<double>, copy<int64_t>, scaled<float>, scaling<float>>();

} // namespace compute

/* multi_tensor.cu: operations on lists of tensors: optimizers, clipping; the scale of AMP's gradients. */
#include "compute.h"

#include <ATen/native/cuda/ForeachFunctors.cuh>
#include <ATen/native/cuda/block_reduce.cuh>
#include <ATen/native/cuda/fused_adam_utils.cuh>

namespace at::native {

template <typename T>
struct Sqrt {
    __device__ T operator()(T x) const { return std::sqrt(x); }
};

template <typename T>
struct LerpFunctor {
    __device__ T operator()(T from, T to, T weight) const
    {
        return std::abs(weight) < T(0.5) ? from + weight * (to - from) : to - (to - from) * (1 - weight);
    }
};

template <typename To, typename From = To>
struct Copy {
    __device__ To operator()(const From &x) const { return To(x); }
};

enum class NormType { L1, L2, LInf };

/* A block's sum of squares, of one chunk. */
template <typename T, NormType norm, typename Out, int depth, int read, int result>
struct LpNormFunctor {
    __device__ void operator()(int64_t chunk_size, TensorListMetadata<depth> &list, Out *sums, int most_chunks)
    {
        static_assert(norm == NormType::L2);
        __shared__ float shared[C10_WARP_SIZE];
        const int tensor = list.block_to_tensor[blockIdx.x], chunk = list.block_to_chunk[blockIdx.x];
        const T *at = (const T *)list.addresses[0][tensor] + chunk * chunk_size;
        const int64_t left = list.numel_for_tensor[tensor] - chunk * chunk_size, count = left < chunk_size ? left : chunk_size;
        float sum = 0;
        for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
            sum += float(at[i]) * float(at[i]);
        sum = cuda_utils::BlockReduceSum(sum, shared);
        if (threadIdx.x == 0)
            sums[(list.start_tensor_this_launch + tensor) * most_chunks + chunk] = sum;
    }
};

struct TensorListAddresses {
    const void *addresses[400];
};

/* A block for each tensor. */
template <typename T, NormType norm, typename Out, bool root, typename Sum>
__global__ void lpnorm_cleanup(const Sum *sums, TensorListAddresses out, int most_chunks)
{
    static_assert(norm == NormType::L2 && root);
    __shared__ Sum shared[C10_WARP_SIZE];
    Sum sum = 0;
    for (int i = threadIdx.x; i < most_chunks; i += blockDim.x)
        sum += sums[int64_t(blockIdx.x) * most_chunks + i];
    sum = cuda_utils::BlockReduceSum(sum, shared);
    if (threadIdx.x == 0)
        *(Out *)out.addresses[blockIdx.x] = std::sqrt(sum);
}
template __global__ void lpnorm_cleanup<float, NormType::L2, float, true, float>(const float *, TensorListAddresses, int);

/* AMP's scale: less where a gradient was not finite, more after so many steps in which all were. One thread. */
__global__ void amp_update_scale_cuda_kernel(float *scale, int *finite_steps, const float *found, double growth, double backoff, int interval)
{
    if (*found) {
        *scale = float(*scale * backoff);
        *finite_steps = 0;
    } else if (++*finite_steps == interval) {
        const float more = float(*scale * growth);
        if (std::isfinite(more))
            *scale = more;
        *finite_steps = 0;
    }
}

} // namespace at::native

namespace compute {

using namespace at::native;

/* AMP's unscaling of a gradient: 1 to `found` if it is not finite. */
template <typename T>
struct unscale {
    float *found;
    const float *inverse;
    void *host;

    __device__ T operator()(T x) const
    {
        if (!std::isfinite(x))
            *found = 1;
        return *inverse == 1 ? x : x * *inverse;
    }
};

template <typename List, typename Functor, typename... Arguments>
void applied()
{
    (void)(multi_tensor_apply_kernel<List, Functor, Arguments...>);
}

template void applied<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4, ADAM_MODE::ADAMW, false>, const float *, double, double,
                      double, double, double, bool, const float *, const float *>();

template void applied<TensorListMetadata<1>, BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>, float>();
template void applied<TensorListMetadata<1>, BinaryOpScalarFunctor<float, 1, 1, 0>, std::plus<float>, float>();
template void applied<TensorListMetadata<1>, BinaryOpScalarTensorFunctor<float, 1, 1, 0>, std::multiplies<float>, float *, float>();
template void applied<TensorListMetadata<2>, TernaryOpScalarFunctor<float, 2, 2, 0>, LerpFunctor<float>, float>();
template void applied<TensorListMetadata<2>, UnaryOpFunctor<float, 2, 1, 1>, Sqrt<float>>();
template void applied<TensorListMetadata<2>, UnaryOpFunctor<float, 2, 1, 1>, Copy<float, float>>();
template void applied<TensorListMetadata<2>, UnaryOpFunctor<c10::BFloat16, 2, 1, 1>, Copy<c10::BFloat16, c10::BFloat16>>();
template void applied<TensorListMetadata<3>, PointwiseOpScalarFunctor<float, 3, 3, 0>, std::multiplies<float>, float>();
template void applied<TensorListScalarListMetadata<float, 1>, BinaryOpScalarListFunctor<float, 1, 1, 0>, std::divides<float>>();
template void applied<TensorListScalarListMetadata<float, 3>, PointwiseOpScalarListFunctor<float, 3, 3, 0>, std::divides<float>>();

template void applied<TensorListMetadata<1>, ZeroFunctor<float, 1, 1, 0>>();
template void applied<TensorListMetadata<1>, UnaryOpFunctor<float, 1, 1, 0>, unscale<float>>();
template void applied<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>();
template void applied<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::minus<float>, float>();

template void applied<TensorListMetadata<1>, LpNormFunctor<float, NormType::L2, float, 1, 1, 0>, float *, int>();

} // namespace compute

/* dropout.cu: fused dropout: what is kept is scaled by the inverse of the probability p with which it is kept. */
#include <tuple>

#include <ATen/cuda/PhiloxCudaState.h>
#include <ATen/cuda/detail/TensorInfo.cuh>
#include <ATen/cuda/detail/UnpackRaw.cuh> /* wants <tuple> */
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <curand_kernel.h>

namespace at::native {
namespace {

/* A subsequence of Philox for each thread: four numbers for each four of its elements, which lie VEC together. */
template <int VEC, int ADims, int BDims, typename scalar_t, typename Index, typename mask_t>
__device__ void drop(const cuda::detail::TensorInfo<const scalar_t, Index> &a, const cuda::detail::TensorInfo<scalar_t, Index> &b,
                     const cuda::detail::TensorInfo<mask_t, Index> &c, Index count, float p, PhiloxCudaState random)
{
    const auto [seed, offset] = cuda::philox::unpack(random);
    const Index thread = Index(blockIdx.x) * blockDim.x + threadIdx.x, all = Index(gridDim.x) * blockDim.x;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, thread, offset, &state);
    float number[4];
    unsigned used = 4;
    for (Index first = thread * VEC; first < count; first += all * VEC)
        for (Index i = first; i < first + VEC && i < count; i++) {
            if (used == 4) {
                const float4 four = curand_uniform4(&state);
                number[0] = four.x, number[1] = four.y, number[2] = four.z, number[3] = four.w;
                used = 0;
            }
            const bool kept = number[used++] < p;
            const Index from = cuda::detail::IndexToOffset<const scalar_t, Index, ADims>::get(i, a);
            const Index to = cuda::detail::IndexToOffset<scalar_t, Index, BDims>::get(i, b);
            b.data[to] = scalar_t(kept ? float(a.data[from]) * (1.0f / p) : 0.0f);
            c.data[to] = mask_t(kept);
        }
}

template <typename scalar_t, typename accscalar_t, typename IndexType, int ADims, int VEC, typename mask_t>
__global__ void fused_dropout_kernel_vec(cuda::detail::TensorInfo<const scalar_t, IndexType> a, cuda::detail::TensorInfo<scalar_t, IndexType> b,
                                         cuda::detail::TensorInfo<mask_t, IndexType> c, IndexType totalElements, accscalar_t p,
                                         PhiloxCudaState philox_args)
{
    drop<VEC, ADims, ADims>(a, b, c, totalElements, p, philox_args);
}

template <typename scalar_t, typename accscalar_t, typename IndexType, int ADims, int BDims, typename mask_t>
__global__ void fused_dropout_kernel(cuda::detail::TensorInfo<const scalar_t, IndexType> a, cuda::detail::TensorInfo<scalar_t, IndexType> b,
                                     cuda::detail::TensorInfo<mask_t, IndexType> c, IndexType totalElements, accscalar_t p,
                                     PhiloxCudaState philox_args)
{
    drop<1, ADims, BDims>(a, b, c, totalElements, p, philox_args);
}

#define OF_SHAPE(name, T, x, y)                                                                                                              \
    template __global__ void name<T, float, unsigned, x, y, bool>(                                                                          \
        cuda::detail::TensorInfo<const T, unsigned>, cuda::detail::TensorInfo<T, unsigned>, cuda::detail::TensorInfo<bool, unsigned>,       \
        unsigned, float, PhiloxCudaState);
#define OF_TYPE(T)                                                                                                                           \
    OF_SHAPE(fused_dropout_kernel_vec, T, 1, 16)                                                                                            \
    OF_SHAPE(fused_dropout_kernel_vec, T, 1, 8)                                                                                             \
    OF_SHAPE(fused_dropout_kernel_vec, T, 1, 4)                                                                                             \
    OF_SHAPE(fused_dropout_kernel_vec, T, 1, 2)                                                                                             \
    OF_SHAPE(fused_dropout_kernel, T, 1, 1)                                                                                                 \
    OF_SHAPE(fused_dropout_kernel, T, -1, 1)                                                                                                \
    OF_SHAPE(fused_dropout_kernel, T, -1, -1)

OF_TYPE(float)
OF_TYPE(c10::Half)
OF_TYPE(c10::BFloat16)

} // namespace
} // namespace at::native

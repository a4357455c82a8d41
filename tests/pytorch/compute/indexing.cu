/* indexing.cu: elements by index, and rows as embeddings take them; their gradient, and the sort before it; running sums. */
#include <array>
#include <utility> /* the next wants both */

#include <ATen/cuda/detail/OffsetCalculator.cuh>
#include <ATen/cuda/detail/TensorInfo.cuh>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cstdint>
#include <functional>

/* The sort of pairs: of few by one kernel, else by one for each eight bits or less. */
namespace at_cuda_detail::cub {
enum class SortOrder { Ascending, Descending };

namespace detail {
struct identity_decomposer_t {};

namespace radix {
template <typename...> struct policy_hub {
    struct Policy1000 {};
};
} // namespace radix

namespace radix_sort {
/* By `digits` bits of the key from `begin`. An element's place: how many are less, and how many equal ones are before it. */
template <typename Key, typename Value, typename Count>
__device__ void sort(const Key *keys, Key *to_keys, const Value *values, Value *to_values, Count count, int begin, int digits)
{
    const auto bits = [=](Key key) { return (uint64_t(key) ^ 1ull << 63) << (64 - begin - digits) >> (64 - digits); };
    for (Count i = Count(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const uint64_t own = bits(keys[i]);
        Count place = 0;
        for (Count k = 0; k < count; k++)
            place += bits(keys[k]) < own || (bits(keys[k]) == own && k < i);
        to_keys[place] = keys[i];
        to_values[place] = values[i];
    }
}

template <typename Policy, SortOrder Order, typename Key, typename Value, typename Count, typename Decomposer>
__global__ void DeviceRadixSortSingleTileKernel(const Key *keys, Key *to_keys, const Value *values, Value *to_values, Count count, int begin, int end,
                                                Decomposer)
{
    sort(keys, to_keys, values, to_values, count, begin, end - begin);
}

template <typename Policy, SortOrder Order, typename Key, typename Value, typename Total, typename Count, typename Counter, typename Decomposer>
__global__ void DeviceRadixSortOnesweepKernel(Counter *, Counter *, Total *, const Total *, Key *to_keys, const Key *keys, Value *to_values,
                                              const Value *values, Count count, int begin, int digits, Decomposer)
{
    sort(keys, to_keys, values, to_values, count, begin, digits);
}

/* What these count is not needed above. */
template <typename Policy, SortOrder Order, typename Key, typename Total, typename Decomposer>
__global__ void DeviceRadixSortHistogramKernel(Total *, const Key *, Total, int, int, Decomposer)
{
}

template <typename Policy, typename Total> __global__ void DeviceRadixSortExclusiveSumKernel(Total *) {}
} // namespace radix_sort
} // namespace detail
} // namespace at_cuda_detail::cub

namespace at::cuda::cub::detail {
template <int size> struct alignas(size) OpaqueType {
    char data[size];
};
} // namespace at::cuda::cub::detail

namespace at_cuda_detail::cub::detail::radix_sort {

using value = at::cuda::cub::detail::OpaqueType<8>;
using total = unsigned long long;
using policy = radix::policy_hub<int64_t, value, total>::Policy1000;

template __global__ void DeviceRadixSortSingleTileKernel<policy, SortOrder::Ascending, int64_t, value, total, identity_decomposer_t>(
    const int64_t *, int64_t *, const value *, value *, total, int, int, identity_decomposer_t);
template __global__ void DeviceRadixSortOnesweepKernel<policy, SortOrder::Ascending, int64_t, value, total, int, int, identity_decomposer_t>(
    int *, int *, total *, const total *, int64_t *, const int64_t *, value *, const value *, int, int, int, identity_decomposer_t);
template __global__ void DeviceRadixSortHistogramKernel<policy, SortOrder::Ascending, int64_t, total, identity_decomposer_t>(
    total *, const int64_t *, total, int, int, identity_decomposer_t);
template __global__ void DeviceRadixSortExclusiveSumKernel<policy, total>(total *);

} // namespace at_cuda_detail::cub::detail::radix_sort

namespace {

/* The gradient of an index: to each row of `weights`, those of `gradients` that belong to it. A warp along x begins where a row's first index
 * is, and takes columns of 32 times SZ. */
template <typename T, int SZ>
__global__ void indexing_backward_kernel(const int64_t *rows, const int64_t *positions, const T *gradients, T *weights, int64_t count,
                                         int64_t stride, int64_t stride_before, int64_t outer, bool accumulate)
{
    const int64_t first = int64_t(blockIdx.x) * blockDim.y + threadIdx.y;
    if (first >= count || (first && rows[first] == rows[first - 1]))
        return;
    for (int64_t z = blockIdx.z; z < outer; z += gridDim.z)
        for (int64_t column = threadIdx.x + int64_t(blockIdx.y) * blockDim.x; column < stride; column += int64_t(gridDim.y) * blockDim.x) {
            T &weight = weights[rows[first] * stride + z * stride_before + column];
            float sum = accumulate ? float(weight) : 0;
            for (int64_t i = first; i < count && rows[i] == rows[first]; i++) {
                const float gradient = float(gradients[(positions[i] + z * count) * stride + column]);
                sum = accumulate ? sum + gradient : gradient;
            }
            weight = T(sum);
        }
}
template __global__ void indexing_backward_kernel<float, 4>(const int64_t *, const int64_t *, const float *, float *, int64_t, int64_t, int64_t,
                                                            int64_t, bool);

} // namespace

namespace compute {

/* The lambda of gpu_index_kernel that reads an element. */
template <int bytes> struct indexed {
    OffsetCalculator<3> calculator;
    char *out;
    const char *in;
    int count;
    const char *indices[MAX_DIMS];
    int64_t sizes[MAX_DIMS], strides[MAX_DIMS];
    char f;

    __device__ void operator()(int64_t i) const
    {
        using element = at::cuda::cub::detail::OpaqueType<bytes>;
        const auto offsets = calculator.get(i);
        const char *from = in + offsets[1];
        for (int k = 0; k < count; k++) {
            int64_t index = *reinterpret_cast<const int64_t *>(indices[k] + offsets[2]);
            if (index < -sizes[k] || index >= sizes[k])
                __trap();
            from += (index < 0 ? index + sizes[k] : index) * strides[k];
        }
        *reinterpret_cast<element *>(out + offsets[0]) = *reinterpret_cast<const element *>(from);
    }
};

} // namespace compute

namespace at::native {

template <int threads, int elements, typename F> __global__ void index_elementwise_kernel(int64_t count, F f)
{
    for (int e = 0; e < elements; e++) {
        const int64_t i = int64_t(threads) * (elements * blockIdx.x + e) + threadIdx.x;
        if (i < count)
            f(i);
    }
}

template __global__ void index_elementwise_kernel<128, 4, compute::indexed<1>>(int64_t, compute::indexed<1>);
template __global__ void index_elementwise_kernel<128, 4, compute::indexed<2>>(int64_t, compute::indexed<2>);
template __global__ void index_elementwise_kernel<128, 4, compute::indexed<4>>(int64_t, compute::indexed<4>);
template __global__ void index_elementwise_kernel<128, 4, compute::indexed<8>>(int64_t, compute::indexed<8>);

/* A block along x for each index; 16 bytes a thread. */
template <int Alignment, typename index_t>
__global__ void vectorized_gather_kernel(char *out, char *inp, index_t *idx, int num_ind, int64_t slice_size, int64_t ind_dim_size,
                                         int64_t inp_stride, int64_t out_stride, bool allow_neg_indices)
{
    int64_t index = idx[blockIdx.x];
    if (allow_neg_indices && index < 0)
        index += ind_dim_size;
    if (index < 0 || index >= ind_dim_size)
        __trap();
    const int64_t at = (int64_t(blockDim.x) * blockIdx.y + threadIdx.x) * Alignment;
    if (at < slice_size)
        *reinterpret_cast<uint4 *>(out + blockIdx.x * out_stride + at) = *reinterpret_cast<const uint4 *>(inp + index * inp_stride + at);
}

template __global__ void vectorized_gather_kernel<16, int>(char *, char *, int *, int, int64_t, int64_t, int64_t, int64_t, bool);
template __global__ void vectorized_gather_kernel<16, int64_t>(char *, char *, int64_t *, int, int64_t, int64_t, int64_t, int64_t, bool);

/* Running sums of rows. */
template <typename T, class BinaryFunction>
__global__ void tensor_kernel_scan_innermost_dim(T *tgt_, const T *src_, uint32_t num_rows, uint32_t row_size, uint32_t log_num_threads_x, T init,
                                                 BinaryFunction binary_op)
{
    if (threadIdx.x)
        return;
    for (uint32_t row = blockIdx.x * blockDim.y + threadIdx.y; row < num_rows; row += gridDim.x * blockDim.y) {
        T sum = init;
        for (uint32_t i = 0; i < row_size; i++)
            tgt_[uint64_t(row) * row_size + i] = sum = binary_op(sum, src_[uint64_t(row) * row_size + i]);
    }
}

template __global__ void tensor_kernel_scan_innermost_dim<int64_t, std::plus<int64_t>>(int64_t *, const int64_t *, uint32_t, uint32_t, uint32_t,
                                                                                     int64_t, std::plus<int64_t>);

namespace {

/* For few indices. The selected dimension of both counts as of size 1 here: innerSize elements for each index. */
template <typename T, typename IndicesType, typename IndexType, int DstDim, int SrcDim, int IdxDim>
__global__ void indexSelectSmallIndex(cuda::detail::TensorInfo<T, IndexType> dst, cuda::detail::TensorInfo<const T, IndexType> src,
                                      cuda::detail::TensorInfo<const IndicesType, IndexType> indices, int dstSelectDim, int srcSelectDim,
                                      IndexType innerSize, int64_t srcSelectDimSize)
{
    for (IndexType at = 0; at < indices.sizes[0]; at++) {
        const IndicesType index = indices.data[cuda::detail::IndexToOffset<const IndicesType, IndexType, IdxDim>::get(at, indices)];
        if (index < 0 || index >= srcSelectDimSize)
            __trap();
        for (IndexType i = blockIdx.x * blockDim.x + threadIdx.x; i < innerSize; i += gridDim.x * blockDim.x)
            dst.data[cuda::detail::IndexToOffset<T, IndexType, DstDim>::get(i, dst) + at * dst.strides[dstSelectDim]] =
                src.data[cuda::detail::IndexToOffset<const T, IndexType, SrcDim>::get(i, src) + IndexType(index) * src.strides[srcSelectDim]];
    }
}

/* A column for each thread of the first row, in the order of the indices. */
template <typename scalar_t, typename accscalar_t, typename index_t>
__global__ void embedding_backward_feature_kernel(const index_t *indices, const scalar_t *grad, scalar_t *grad_weight, int n, int64_t stride,
                                                  int padding_idx)
{
    const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (threadIdx.y || column >= stride)
        return;
    for (int64_t i = 0; i < n; i++)
        if (indices[i] != padding_idx) {
            scalar_t &sum = grad_weight[indices[i] * stride + column];
            sum = scalar_t(accscalar_t(sum) + accscalar_t(grad[i * stride + column]));
        }
}

#define OF_DIMS(T, dims)                                                                                                                     \
    template __global__ void indexSelectSmallIndex<T, int64_t, unsigned, dims, dims, -2>(                                                   \
        cuda::detail::TensorInfo<T, unsigned>, cuda::detail::TensorInfo<const T, unsigned>, cuda::detail::TensorInfo<const int64_t, unsigned>, \
        int, int, unsigned, int64_t);
#define OF_TYPE(T)                                                                                                                           \
    OF_DIMS(T, 1)                                                                                                                           \
    OF_DIMS(T, 2)                                                                                                                           \
    OF_DIMS(T, 3)                                                                                                                           \
    template __global__ void embedding_backward_feature_kernel<T, float, int64_t>(const int64_t *, const T *, T *, int, int64_t, int);

OF_TYPE(float)
OF_TYPE(c10::Half)
OF_TYPE(c10::BFloat16)

} // namespace
} // namespace at::native

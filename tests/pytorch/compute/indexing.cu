/* indexing.cu: rows by index, as embeddings take them; their gradient; running sums. */
#include <ATen/cuda/detail/TensorInfo.cuh>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cstdint>
#include <functional>

namespace at::native {

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

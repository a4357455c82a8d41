/* indexing.cu: elements by index, and rows as embeddings take them; their gradients; running sums of rows. */
#include <array>
#include <utility> /* the next wants both */

#include <ATen/AccumulateType.h>
#include <ATen/cuda/detail/OffsetCalculator.cuh>
#include <ATen/cuda/detail/TensorInfo.cuh>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cstdint>
#include <functional>

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
        struct alignas(bytes) element {
            char data[bytes];
        };
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
template __global__ void tensor_kernel_scan_innermost_dim<float, std::plus<float>>(float *, const float *, uint32_t, uint32_t, uint32_t, float,
                                                                                   std::plus<float>);

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

/* The gradient of an embedding of many rows, of which the indices are sorted: those that are equal are a segment, and so many of it a part. First
 * the sum of each part, then that of each segment's parts. */
constexpr int64_t rows_of_part = 10;

/* Where segment or part `i` ends, of so many. */
template <typename index_t> __device__ int64_t end_of(const index_t *begins, int64_t i, int64_t count, int64_t all)
{
    return i + 1 < count ? begins[i + 1] : all;
}

template <typename index_t> __global__ void krn_partials_per_segment(index_t *parts, const index_t *segments, const int64_t *count, int64_t rows)
{
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < *count)
        parts[i] = (end_of(segments, i, *count, rows) - segments[i] + rows_of_part - 1) / rows_of_part;
}

template <typename index_t>
__global__ void compute_num_of_partial_segments(const index_t *parts, const index_t *parts_before, const int64_t *count, int64_t *all)
{
    *all = parts[*count - 1] + parts_before[*count - 1];
}

template <typename index_t>
__global__ void krn_partial_segment_offset(index_t *begins, const index_t *parts, const index_t *parts_before, const index_t *segments,
                                           const int64_t *count)
{
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < *count)
        for (index_t part = 0; part < parts[i]; part++)
            begins[parts_before[i] + part] = segments[i] + part * rows_of_part;
}

/* A thread for a column of a part: `warped` is the number of columns in whole warps. Each row by the inverse of how often its index is there, if
 * that is given. */
template <typename scalar_t, typename index_t>
__global__ void compute_grad_weight(const index_t *order, const scalar_t *grad, const index_t *often, int64_t rows, int64_t stride,
                                    const index_t *begins, const int64_t *count, acc_type<scalar_t, true> *sums, int64_t warped)
{
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, part = thread / warped, column = thread % warped;
    if (column >= stride || part >= *count)
        return;
    acc_type<scalar_t, true> sum = 0;
    for (int64_t i = begins[part], end = end_of(begins, part, *count, rows); i < end; i++)
        sum += acc_type<scalar_t, true>(grad[order[i] * stride + column]) * (often ? 1 / acc_type<scalar_t, true>(often[i]) : 1);
    sums[part * stride + column] = sum;
}

template <typename scalar_t, typename index_t>
__global__ void sum_and_scatter(const index_t *sorted, scalar_t *grad_weight, int64_t stride, const index_t *segments, const int64_t *count,
                                const acc_type<scalar_t, true> *sums, const index_t *parts_before, const int64_t *all, int64_t padding_idx,
                                int64_t warped)
{
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, segment = thread / warped, column = thread % warped;
    if (column >= stride || segment >= *count || sorted[segments[segment]] == padding_idx)
        return;
    acc_type<scalar_t, true> sum = 0;
    for (int64_t i = parts_before[segment], end = end_of(parts_before, segment, *count, *all); i < end; i++)
        sum += sums[i * stride + column];
    grad_weight[sorted[segments[segment]] * stride + column] = scalar_t(sum);
}

template __global__ void krn_partials_per_segment<int64_t>(int64_t *, const int64_t *, const int64_t *, int64_t);
template __global__ void compute_num_of_partial_segments<int64_t>(const int64_t *, const int64_t *, const int64_t *, int64_t *);
template __global__ void krn_partial_segment_offset<int64_t>(int64_t *, const int64_t *, const int64_t *, const int64_t *, const int64_t *);

#define OF_DIMS(T, dims)                                                                                                                     \
    template __global__ void indexSelectSmallIndex<T, int64_t, unsigned, dims, dims, -2>(                                                   \
        cuda::detail::TensorInfo<T, unsigned>, cuda::detail::TensorInfo<const T, unsigned>, cuda::detail::TensorInfo<const int64_t, unsigned>, \
        int, int, unsigned, int64_t);
#define OF_TYPE(T)                                                                                                                           \
    OF_DIMS(T, 1)                                                                                                                           \
    OF_DIMS(T, 2)                                                                                                                           \
    OF_DIMS(T, 3)                                                                                                                           \
    template __global__ void embedding_backward_feature_kernel<T, float, int64_t>(const int64_t *, const T *, T *, int, int64_t, int);       \
    template __global__ void compute_grad_weight<T, int64_t>(const int64_t *, const T *, const int64_t *, int64_t, int64_t, const int64_t *, \
                                                             const int64_t *, acc_type<T, true> *, int64_t);                                 \
    template __global__ void sum_and_scatter<T, int64_t>(const int64_t *, T *, int64_t, const int64_t *, const int64_t *,                    \
                                                         const acc_type<T, true> *, const int64_t *, const int64_t *, int64_t, int64_t);

OF_TYPE(float)
OF_TYPE(c10::Half)
OF_TYPE(c10::BFloat16)

} // namespace
} // namespace at::native

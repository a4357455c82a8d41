/* shape.cu: concatenation; the upper and lower triangle of matrices; what FSDP packs into what its collectives move, and takes out of it. */
#include <ATen/cuda/detail/TensorInfo.cuh>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cstdint>

namespace at::native {
namespace {

template <unsigned size> struct alignas(size) OpaqueType {
    char data[size];
};

/* Where `index` lies in a tensor, one dimension of which is as long as the concatenated tensor's. */
template <typename IndexType, unsigned maximum> struct TensorSizeStride {
    IndexType tensorSize[maximum], tensorStride[maximum];

    template <int Dims> __device__ IndexType of(IndexType index, int concatDim, IndexType concatSize) const
    {
        IndexType at = 0;
        for (int i = Dims - 1; i > 0; i--) {
            const IndexType size = i == concatDim ? concatSize : tensorSize[i];
            at += index % size * tensorStride[i];
            index /= size;
        }
        return at + index * tensorStride[0];
    }
};

template <typename T, typename IndexType, int n, int stride_size> struct CatArrInputTensorMetadata {
    const T *input[n];
    IndexType offset[n]; /* along the dimension */
    IndexType dimSize[n];
    IndexType nElements[n];
    bool isContiguous[n];
    TensorSizeStride<IndexType, 4> tensorStride[stride_size]; /* of each, or all are contiguous */
};

/* Blocks along y have a tensor each. */
template <int Dims, typename T, typename IndexType, int batch_size, int stride_size>
__device__ void concatenate(T *output, const CatArrInputTensorMetadata<T, IndexType, batch_size, stride_size> &inputs,
                            const TensorSizeStride<IndexType, 4> &os, int concatDim, IndexType dimStride)
{
    const unsigned tensor = blockIdx.y;
    const IndexType size = inputs.dimSize[tensor];
    for (IndexType i = blockIdx.x * blockDim.x + threadIdx.x; i < inputs.nElements[tensor]; i += gridDim.x * blockDim.x) {
        const bool strided = stride_size > 1 && !inputs.isContiguous[tensor];
        const IndexType from = strided ? inputs.tensorStride[stride_size > 1 ? tensor : 0].template of<Dims>(i, concatDim, size) : i;
        output[inputs.offset[tensor] * dimStride + os.template of<Dims>(i, concatDim, size)] = inputs.input[tensor][from];
    }
}

template <typename T, typename IndexType, int Dims, int batch_size, int stride_size>
__global__ void CatArrayBatchedCopy(T *output, CatArrInputTensorMetadata<T, IndexType, batch_size, stride_size> inputs,
                                    TensorSizeStride<IndexType, 4> os, int concatDim, IndexType dimStride)
{
    concatenate<Dims>(output, inputs, os, concatDim, dimStride);
}

template <typename T, typename IndexType, int Dims, int batch_size, int stride_size>
__global__ void CatArrayBatchedCopy_contig(T *output, CatArrInputTensorMetadata<T, IndexType, batch_size, stride_size> inputs,
                                           TensorSizeStride<IndexType, 4> os, int concatDim, IndexType dimStride)
{
    concatenate<Dims>(output, inputs, os, concatDim, dimStride);
}

template <typename T, typename IndexType, int Dims, int batch_size, int stride_size, int load_bytes>
__global__ void CatArrayBatchedCopy_alignedK_contig(T *output, CatArrInputTensorMetadata<T, IndexType, batch_size, stride_size> inputs,
                                                    TensorSizeStride<IndexType, 4> os, int concatDim, IndexType dimStride)
{
    concatenate<Dims>(output, inputs, os, concatDim, dimStride);
}

/* All contiguous. The output's sizes are in vectors; the tensors' and trailingSize, the elements of one index of the dimension, are not. */
template <typename T, typename IndexType, int Dims, int batch_size, int stride_size, int alignment, int elements>
__global__ void CatArrayBatchedCopy_vectorized(char *output, CatArrInputTensorMetadata<T, IndexType, batch_size, stride_size> inputs,
                                               TensorSizeStride<IndexType, 4> os, int concatDim, IndexType trailingSize)
{
    using vector = OpaqueType<alignment>;
    const unsigned tensor = blockIdx.y;
    const IndexType size = concatDim == Dims - 1 ? inputs.dimSize[tensor] * trailingSize / elements : inputs.dimSize[tensor];
    vector *to = reinterpret_cast<vector *>(output) + inputs.offset[tensor] * trailingSize / elements;
    const vector *from = reinterpret_cast<const vector *>(inputs.input[tensor]);
    for (IndexType i = blockIdx.x * blockDim.x + threadIdx.x; i < inputs.nElements[tensor] / elements; i += gridDim.x * blockDim.x)
        to[os.template of<Dims>(i, concatDim, size)] = from[i];
}

#define OF_DIMS(bytes, dims)                                                                                                                 \
    OF_CAT_AS(CatArrayBatchedCopy, bytes, dims, 64, 64)                                                                                     \
    OF_CAT_AS(CatArrayBatchedCopy, bytes, dims, 128, 1)                                                                                     \
    OF_CAT_AS(CatArrayBatchedCopy_contig, bytes, dims, 64, 64)                                                                              \
    OF_CAT_AS(CatArrayBatchedCopy_contig, bytes, dims, 128, 1)                                                                              \
    OF_CAT_AS(CatArrayBatchedCopy_alignedK_contig, bytes, dims, 64, 64, 16)                                                                 \
    OF_CAT_AS(CatArrayBatchedCopy_alignedK_contig, bytes, dims, 64, 64, 8)                                                                  \
    OF_CAT_AS(CatArrayBatchedCopy_alignedK_contig, bytes, dims, 128, 1, 16)                                                                 \
    OF_CAT_AS(CatArrayBatchedCopy_alignedK_contig, bytes, dims, 128, 1, 8)                                                                  \
    template __global__ void CatArrayBatchedCopy_vectorized<OpaqueType<bytes>, unsigned, dims, 128, 1, 16, 16 / bytes>(                     \
        char *, CatArrInputTensorMetadata<OpaqueType<bytes>, unsigned, 128, 1>, TensorSizeStride<unsigned, 4>, int, unsigned);
#define OF_CAT_AS(kernel, bytes, dims, n, strides, ...)                                                                                      \
    template __global__ void kernel<OpaqueType<bytes>, unsigned, dims, n, strides __VA_OPT__(, ) __VA_ARGS__>(                              \
        OpaqueType<bytes> *, CatArrInputTensorMetadata<OpaqueType<bytes>, unsigned, n, strides>, TensorSizeStride<unsigned, 4>, int,        \
        unsigned);
#define OF_BYTES(bytes)                                                                                                                      \
    OF_DIMS(bytes, 1)                                                                                                                       \
    OF_DIMS(bytes, 2)                                                                                                                       \
    OF_DIMS(bytes, 3)                                                                                                                       \
    OF_DIMS(bytes, 4)

OF_BYTES(1)
OF_BYTES(2)
OF_BYTES(4)
OF_BYTES(8)

} // namespace

namespace detail {

/* Of FSDP, whose pointers and sizes are tables in device memory. Blocks along x belong to tensors, several to each. */
struct piece {
    int64_t tensor, thread, threads; /* which of its tensor's */
};

static __device__ piece piece_of(const int64_t *tensors, const int64_t *first)
{
    const int64_t tensor = tensors[blockIdx.x];
    return {tensor, (blockIdx.x - first[tensor]) * int64_t(blockDim.x) + threadIdx.x, (first[tensor + 1] - first[tensor]) * int64_t(blockDim.x)};
}

/* Each row of a matrix divided among the tensors. */
__global__ void split_with_sizes_copy_out_contiguous_no_cast_kernel(char **to, char **from, int64_t *bytes, int64_t *tensors, int64_t *first,
                                                                    int64_t row_bytes, int64_t rows)
{
    const piece p = piece_of(tensors, first);
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y)
        for (int64_t i = p.thread; i < bytes[p.tensor]; i += p.threads)
            to[p.tensor][row * bytes[p.tensor] + i] = from[p.tensor][row * row_bytes + i];
}

/* Each tensor in as many chunks as there are blocks along y, of `padded` bytes of what they become; zeros where it has no more. Behind one another:
 * the first chunks of all tensors, the second ones, ...; along z as often as there are slices. */
template <typename To, typename From>
__global__ void chunk_cat_cuda_kernel(From **from, To *to, int64_t *tensors, int64_t *begin, int64_t *first, int64_t *bytes, int64_t *padded,
                                      int64_t *, int64_t slice_bytes, int64_t chunk_bytes, int64_t)
{
    const piece p = piece_of(tensors, first);
    const int64_t count = padded[p.tensor] / sizeof(To), all = bytes[p.tensor] / sizeof(From), before = blockIdx.y * count;
    const From *its = from[p.tensor] + blockIdx.z * all;
    To *out = (To *)((char *)to + blockIdx.z * slice_bytes + blockIdx.y * chunk_bytes + begin[p.tensor]);
    for (int64_t i = p.thread; i < count; i += p.threads)
        out[i] = before + i < all ? To(its[before + i]) : To(0);
}
template __global__ void chunk_cat_cuda_kernel<char, char>(char **, char *, int64_t *, int64_t *, int64_t *, int64_t *, int64_t *, int64_t *, int64_t,
                                                           int64_t, int64_t);
template __global__ void chunk_cat_cuda_kernel<float, c10::BFloat16>(c10::BFloat16 **, float *, int64_t *, int64_t *, int64_t *, int64_t *, int64_t *,
                                                                     int64_t *, int64_t, int64_t, int64_t);

} // namespace detail

/* `elements` together, of rows that are padded to whole such; the innermost two dimensions are the matrices. */
template <typename scalar_t, typename IndexType, bool upper, int elements, bool inplace>
__global__ void triu_tril_kernel(cuda::detail::TensorInfo<scalar_t, IndexType> result, cuda::detail::TensorInfo<const scalar_t, IndexType> self,
                                 int64_t k, int64_t N_padded, IndexType last_dim_padded)
{
    const int64_t first = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * elements;
    if (first >= N_padded)
        return;
    const int last = self.dims - 1;
    IndexType column = first % last_dim_padded, rest = first / last_dim_padded;
    const IndexType row = rest % self.sizes[last - 1];
    IndexType from = column * self.strides[last], to = column * result.strides[last];
    for (int i = last - 1; i >= 0; rest /= self.sizes[i--]) {
        from += rest % self.sizes[i] * self.strides[i];
        to += rest % self.sizes[i] * result.strides[i];
    }
    for (int i = 0; i < elements && column < self.sizes[last]; i++, column++) {
        const bool kept = upper ? int64_t(column) - row >= k : int64_t(column) - row <= k;
        if (!kept)
            result.data[to] = scalar_t(0);
        else if (!inplace)
            result.data[to] = self.data[from];
        from += self.strides[last], to += result.strides[last];
    }
}

#define OF_TRIANGLE_AS(T, upper, elements, inplace)                                                                                          \
    template __global__ void triu_tril_kernel<T, int, upper, elements, inplace>(                                                            \
        cuda::detail::TensorInfo<T, int>, cuda::detail::TensorInfo<const T, int>, int64_t, int64_t, int);
#define OF_TRIANGLE(T, elements)                                                                                                             \
    OF_TRIANGLE_AS(T, false, elements, false)                                                                                               \
    OF_TRIANGLE_AS(T, false, elements, true)                                                                                                \
    OF_TRIANGLE_AS(T, true, elements, false)                                                                                                \
    OF_TRIANGLE_AS(T, true, elements, true)

OF_TRIANGLE(float, 2)
OF_TRIANGLE(c10::Half, 4)
OF_TRIANGLE(c10::BFloat16, 4)
OF_TRIANGLE(int64_t, 1)
OF_TRIANGLE(bool, 8)

} // namespace at::native

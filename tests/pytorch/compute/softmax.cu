/* softmax.cu: softmax and its logarithm, forward and backward. A row is dealt to the lanes of a part of a warp, to a block, or to one thread, as the
 * wheel launches it; what is computed is the same.
 */
#include "block.h"

using namespace compute;

namespace {

struct of_lanes { /* of one row of the warp */
    unsigned rank, size;
    template <typename Operation> __device__ float over(float value) const { return over_lanes<Operation>(value, size); }
};

struct of_block {
    unsigned rank, size;
    template <typename Operation> __device__ float over(float value) const { return over_block<Operation>(value); }
};

struct of_thread {
    unsigned rank, size;
    template <typename Operation> __device__ float over(float value) const { return value; }
};

/* Elements lie `stride` apart. A row of no threads' (n < 0) takes part in the reductions only. */
template <bool log, typename Group, typename In, typename Out>
__device__ __noinline__ void forward(Group group, Out *y, const In *x, int64_t n, int64_t stride)
{
    float largest = maximum::identity, part = 0;
    for (int64_t j = group.rank; j < n; j += group.size)
        largest = maximum::of(largest, float(x[j * stride]));
    largest = group.template over<maximum>(largest);
    for (int64_t j = group.rank; j < n; j += group.size)
        part += expf(float(x[j * stride]) - largest);
    const float all = group.template over<sum>(part), log_all = logf(all);
    for (int64_t j = group.rank; j < n; j += group.size) {
        const float away = float(x[j * stride]) - largest;
        y[j * stride] = Out(log ? away - log_all : expf(away) / all);
    }
}

/* Without `log`, dy is the gradient times y: the wheel's host code multiplies. */
template <bool log, typename Group, typename In, typename Out>
__device__ __noinline__ void backward(Group group, In *dx, const Out *y, const Out *dy, int64_t n, int64_t stride)
{
    float part = 0;
    for (int64_t j = group.rank; j < n; j += group.size)
        part += float(dy[j * stride]);
    const float all = group.template over<sum>(part);
    for (int64_t j = group.rank; j < n; j += group.size) {
        const float of_y = float(y[j * stride]);
        dx[j * stride] = In(float(dy[j * stride]) - (log ? expf(of_y) : of_y) * all);
    }
}

/* Up to 128 elements a warp, or less than a warp, has two rows. */
template <typename Of_row> __device__ void for_rows(int log2_elements, int batch_size, int element_count, Of_row of_row)
{
    const int elements = 1 << log2_elements, rows = elements <= 128 ? 2 : 1;
    const unsigned lanes = elements < 32 ? elements : 32;
    if (blockDim.x != lanes || threads() % 32)
        __trap();
    for (int i = 0; i < rows; i++) {
        const int64_t row = (int64_t(blockIdx.x) * blockDim.y + threadIdx.y) * rows + i;
        of_row(of_lanes{threadIdx.x, lanes}, row, row < batch_size ? element_count : -1);
    }
}

template <typename input_t, typename output_t, typename acc_t, int log2_elements, bool is_log_softmax, bool is_masked>
__global__ void softmax_warp_forward(output_t *dst, const input_t *src, int batch_size, int stride, int element_count, const bool *mask,
                                     int head_chunk_size, bool is_transformer_mask)
{
    for_rows(log2_elements, batch_size, element_count, [&](of_lanes group, int64_t row, int n) {
        forward<is_log_softmax>(group, dst + row * stride, src + row * stride, n, 1);
    });
}

template <typename input_t, typename output_t, typename acc_t, int log2_elements, bool is_log_softmax, bool is_masked>
__global__ void softmax_warp_backward(output_t *gradInput, const input_t *grad, const input_t *output, int batch_size, int stride,
                                      int element_count, const bool *mask)
{
    for_rows(log2_elements, batch_size, element_count, [&](of_lanes group, int64_t row, int n) {
        backward<is_log_softmax>(group, gradInput + row * stride, output + row * stride, grad + row * stride, n, 1);
    });
}

#define OF_WARPS_FORWARD(In, Out, log2, log)                                                                                                      \
    template __global__ void softmax_warp_forward<In, Out, float, log2, log, false>(Out *, const In *, int, int, int, const bool *, int,    \
                                                                                    bool);
#define OF_WARPS_BACKWARD(In, Out, log2, log)                                                                                                \
    template __global__ void softmax_warp_backward<Out, In, float, log2, log, false>(In *, const Out *, const Out *, int, int, int,         \
                                                                                     const bool *);
#define OF_WARPS_LOG2(In, Out, log2)                                                                                                         \
    OF_WARPS_FORWARD(In, Out, log2, false)                                                                                                  \
    OF_WARPS_FORWARD(In, Out, log2, true)                                                                                                   \
    OF_WARPS_BACKWARD(In, Out, log2, false)                                                                                                 \
    OF_WARPS_BACKWARD(In, Out, log2, true)
#define OF_WARPS(In, Out)                                                                                                                    \
    OF_WARPS_LOG2(In, Out, 0)                                                                                                               \
    OF_WARPS_LOG2(In, Out, 1)                                                                                                               \
    OF_WARPS_LOG2(In, Out, 2)                                                                                                               \
    OF_WARPS_LOG2(In, Out, 3)                                                                                                               \
    OF_WARPS_LOG2(In, Out, 4)                                                                                                               \
    OF_WARPS_LOG2(In, Out, 5)                                                                                                               \
    OF_WARPS_LOG2(In, Out, 6)                                                                                                               \
    OF_WARPS_LOG2(In, Out, 7)                                                                                                               \
    OF_WARPS_LOG2(In, Out, 8)                                                                                                               \
    OF_WARPS_LOG2(In, Out, 9)                                                                                                               \
    OF_WARPS_LOG2(In, Out, 10)                                                                                                              \
    OF_WARPS_FORWARD(In, Out, 11, false)                                                                                                    \
    OF_WARPS_FORWARD(In, Out, 11, true)

OF_WARPS(float, float)
OF_WARPS(c10::Half, c10::Half)
OF_WARPS(c10::Half, float)
OF_WARPS(c10::BFloat16, c10::BFloat16)
OF_WARPS(c10::BFloat16, float)

} // namespace

namespace at::native {
namespace {

/* In the kernels' names only. */
template <typename, typename, typename> struct SoftMaxForwardEpilogue {
    static constexpr bool log = false;
};
template <typename, typename, typename> struct LogSoftMaxForwardEpilogue {
    static constexpr bool log = true;
};
template <typename, typename, typename> struct SoftMaxBackwardEpilogue {
    static constexpr bool log = false;
};
template <typename, typename, typename> struct LogSoftMaxBackwardEpilogue {
    static constexpr bool log = true;
};

template <typename Epilogue, typename In, typename Out> __device__ void forward_row(Out *output, const In *input, int64_t classes)
{
    const int64_t at = blockIdx.x * classes;
    forward<Epilogue::log>(of_block{rank(), threads()}, output + at, input + at, classes, 1);
}

template <typename Epilogue, typename In, typename Out>
__device__ void backward_row(In *gradInput, const Out *output, const Out *gradOutput, int64_t classes)
{
    const int64_t at = blockIdx.x * classes;
    backward<Epilogue::log>(of_block{rank(), threads()}, gradInput + at, output + at, gradOutput + at, classes, 1);
}

template <typename scalar_t, typename accscalar_t, typename outscalar_t, template <typename, typename, typename> class Epilogue,
          typename index_t, int reg_cnt>
__global__ void cunn_SoftMaxForwardReg(outscalar_t *output, const scalar_t *input, index_t classes)
{
    forward_row<Epilogue<scalar_t, accscalar_t, outscalar_t>>(output, input, classes);
}

template <int ILP, typename scalar_t, typename accscalar_t, typename outscalar_t, template <typename, typename, typename> class Epilogue,
          typename index_t>
__global__ void cunn_SoftMaxForwardSmem(outscalar_t *output, const scalar_t *input, index_t classes)
{
    forward_row<Epilogue<scalar_t, accscalar_t, outscalar_t>>(output, input, classes);
}

template <int ILP, typename scalar_t, typename accscalar_t, typename outscalar_t, template <typename, typename, typename> class Epilogue>
__global__ void cunn_SoftMaxForward(outscalar_t *output, const scalar_t *input, int classes)
{
    forward_row<Epilogue<scalar_t, accscalar_t, outscalar_t>>(output, input, classes);
}

template <int ILP, typename scalar_t, typename accscalar_t, typename outscalar_t, template <typename, typename, typename> class Epilogue>
__global__ void cunn_SoftMaxBackwardSmem(scalar_t *gradInput, const outscalar_t *output, const outscalar_t *gradOutput, int64_t classes)
{
    backward_row<Epilogue<scalar_t, accscalar_t, outscalar_t>>(gradInput, output, gradOutput, classes);
}

template <int ILP, typename scalar_t, typename accscalar_t, typename outscalar_t, template <typename, typename, typename> class Epilogue>
__global__ void cunn_SoftMaxBackward(scalar_t *gradInput, const outscalar_t *output, const outscalar_t *gradOutput, int64_t classes)
{
    backward_row<Epilogue<scalar_t, accscalar_t, outscalar_t>>(gradInput, output, gradOutput, classes);
}

/* Over a dimension that is not the last: outer x dim x inner elements. The first thread along x has the row. */
template <typename Of_row> __device__ void for_inner(int64_t outer, int64_t dim, int64_t inner, Of_row of_row)
{
    if (threadIdx.x)
        return;
    for (int64_t o = blockIdx.x; o < outer; o += gridDim.x)
        for (int64_t i = int64_t(blockIdx.y) * blockDim.y + threadIdx.y; i < inner; i += int64_t(gridDim.y) * blockDim.y)
            of_row(of_thread{0, 1}, o * dim * inner + i);
}

template <typename scalar_t, typename accscalar_t, typename outscalar_t, typename index_t,
          template <typename, typename, typename> class Epilogue>
__global__ void cunn_SpatialSoftMaxForward(outscalar_t *output, const scalar_t *input, index_t outer_size, index_t dim_size, index_t inner_size)
{
    for_inner(outer_size, dim_size, inner_size, [&](of_thread group, int64_t at) {
        forward<Epilogue<scalar_t, accscalar_t, outscalar_t>::log>(group, output + at, input + at, dim_size, inner_size);
    });
}

template <typename scalar_t, typename accscalar_t, typename outscalar_t, template <typename, typename, typename> class Epilogue>
__global__ void cunn_SpatialSoftMaxBackward(scalar_t *gradInput, const outscalar_t *output, const outscalar_t *gradOutput,
                                            uint32_t outer_size, uint32_t dim_size, uint32_t inner_size)
{
    for_inner(outer_size, dim_size, inner_size, [&](of_thread group, int64_t at) {
        backward<Epilogue<scalar_t, accscalar_t, outscalar_t>::log>(group, gradInput + at, output + at, gradOutput + at, dim_size, inner_size);
    });
}

#define OF_BLOCKS_REG(T, Epilogue, count)                                                                                                    \
    template __global__ void cunn_SoftMaxForwardReg<T, float, T, Epilogue, int64_t, count>(T *, const T *, int64_t);
#define OF_BLOCKS_AS(In, Out, Epilogue)                                                                                                      \
    template __global__ void cunn_SoftMaxForwardSmem<16 / sizeof(In), In, float, Out, Epilogue##ForwardEpilogue, int64_t>(                  \
        Out *, const In *, int64_t);                                                                                                        \
    template __global__ void cunn_SoftMaxForward<16 / sizeof(In), In, float, Out, Epilogue##ForwardEpilogue>(Out *, const In *, int);       \
    template __global__ void cunn_SpatialSoftMaxForward<In, float, Out, int, Epilogue##ForwardEpilogue>(Out *, const In *, int, int, int);  \
    template __global__ void cunn_SpatialSoftMaxBackward<In, float, Out, Epilogue##BackwardEpilogue>(In *, const Out *, const Out *,        \
                                                                                                     uint32_t, uint32_t, uint32_t);         \
    template __global__ void cunn_SoftMaxBackwardSmem<16 / sizeof(Out), In, float, Out, Epilogue##BackwardEpilogue>(In *, const Out *,      \
                                                                                                                    const Out *, int64_t);  \
    template __global__ void cunn_SoftMaxBackward<16 / sizeof(Out), In, float, Out, Epilogue##BackwardEpilogue>(In *, const Out *,          \
                                                                                                                const Out *, int64_t);
#define OF_BLOCKS(In, Out)                                                                                                                   \
    OF_BLOCKS_AS(In, Out, SoftMax)                                                                                                          \
    OF_BLOCKS_AS(In, Out, LogSoftMax)
#define OF_REGISTERS_AS(T, Epilogue)                                                                                                         \
    OF_BLOCKS_REG(T, Epilogue, 1)                                                                                                           \
    OF_BLOCKS_REG(T, Epilogue, 2)                                                                                                           \
    OF_BLOCKS_REG(T, Epilogue, 3)                                                                                                           \
    OF_BLOCKS_REG(T, Epilogue, 4)                                                                                                           \
    OF_BLOCKS_REG(T, Epilogue, 5)                                                                                                           \
    OF_BLOCKS_REG(T, Epilogue, 6)                                                                                                           \
    OF_BLOCKS_REG(T, Epilogue, 7)                                                                                                           \
    OF_BLOCKS_REG(T, Epilogue, 8)                                                                                                           \
    OF_BLOCKS_REG(T, Epilogue, 9)
#define OF_REGISTERS(T)                                                                                                                      \
    OF_REGISTERS_AS(T, SoftMaxForwardEpilogue)                                                                                              \
    OF_REGISTERS_AS(T, LogSoftMaxForwardEpilogue)

OF_BLOCKS(float, float)
OF_BLOCKS(c10::Half, c10::Half)
OF_BLOCKS(c10::Half, float)
OF_BLOCKS(c10::BFloat16, c10::BFloat16)
OF_BLOCKS(c10::BFloat16, float)
OF_REGISTERS(float)
OF_REGISTERS(c10::Half)
OF_REGISTERS(c10::BFloat16)

} // namespace
} // namespace at::native

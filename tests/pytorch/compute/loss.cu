/* loss.cu: the negative log-likelihood of classes, summed or averaged, and its gradient. */
#include "block.h"

using namespace compute;

namespace at::native {
namespace {

/* What a row adds: its target's class and weight, none if it is to be ignored. */
template <typename T, typename Index>
__device__ bool counts(Index target, const T *weights, int64_t n_classes, int64_t ignore_index, float &weight)
{
    if (int64_t(target) == ignore_index)
        return false;
    if (int64_t(target) < 0 || int64_t(target) >= n_classes)
        __trap();
    weight = weights ? float(weights[target]) : 1;
    return true;
}

/* One block has it all. */
template <typename scalar_t, typename accscalar_t, typename index_t>
__global__ void nll_loss_forward_reduce_cuda_kernel_2d(scalar_t *output, scalar_t *total_weight, const scalar_t *input, const index_t *target,
                                                       const scalar_t *weights, bool size_average, int64_t nframe, int64_t ndim,
                                                       int64_t n_classes, int64_t ignore_index)
{
    float part = 0, part_weight = 0, weight;
    for (int64_t i = rank(); i < nframe; i += threads())
        if (counts(target[i], weights, n_classes, ignore_index, weight)) {
            part -= weight * float(input[i * ndim + target[i]]);
            part_weight += weight;
        }
    const float all = over_block<sum>(part), all_weight = over_block<sum>(part_weight);
    if (rank() == 0) {
        *total_weight = scalar_t(all_weight);
        *output = scalar_t(size_average ? all / all_weight : all);
    }
}

/* One row. */
template <typename scalar_t, typename index_t>
__global__ void nll_loss_forward_reduce_cuda_kernel_1d(scalar_t *output, scalar_t *total_weight, const scalar_t *input, const index_t *target,
                                                       const scalar_t *weights, bool size_average, int64_t n_classes, int64_t ignore_index)
{
    float weight;
    if (rank())
        return;
    if (counts(*target, weights, n_classes, ignore_index, weight)) {
        const float value = -float(input[*target]);
        *total_weight = scalar_t(weight);
        *output = scalar_t(size_average ? value : value * weight);
    } else {
        *total_weight = scalar_t(0.0f);
        *output = scalar_t(size_average ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
    }
}

template <typename scalar_t, typename index_t>
__global__ void nll_loss_backward_reduce_cuda_kernel_2d(scalar_t *grad_input, const scalar_t *grad_output, const index_t *target,
                                                        const scalar_t *weights, const scalar_t *total_weight, bool size_average, int nframe,
                                                        int ndim, int64_t n_classes, int64_t ignore_index)
{
    const float grad = -float(*grad_output) / (size_average ? float(*total_weight) : 1);
    float weight;
    for (int64_t i = int64_t(blockIdx.x) * threads() + rank(); i < nframe; i += int64_t(gridDim.x) * threads())
        if (counts(target[i], weights, n_classes, ignore_index, weight))
            grad_input[i * ndim + target[i]] = scalar_t(weight * grad);
}

template <typename scalar_t, typename index_t>
__global__ void nll_loss_backward_reduce_cuda_kernel_1d(scalar_t *grad_input, const scalar_t *grad_output, const scalar_t *weights,
                                                        const index_t *target, const scalar_t *total_weight, bool size_average,
                                                        int64_t n_classes, int64_t ignore_index)
{
    float weight;
    if (rank() == 0 && counts(*target, weights, n_classes, ignore_index, weight))
        grad_input[*target] = scalar_t(-weight * float(*grad_output) / (size_average ? float(*total_weight) : 1));
}

#define OF_TYPE(T)                                                                                                                           \
    template __global__ void nll_loss_forward_reduce_cuda_kernel_2d<T, float, int64_t>(T *, T *, const T *, const int64_t *, const T *,     \
                                                                                       bool, int64_t, int64_t, int64_t, int64_t);           \
    template __global__ void nll_loss_forward_reduce_cuda_kernel_1d<T, int64_t>(T *, T *, const T *, const int64_t *, const T *, bool,      \
                                                                                int64_t, int64_t);                                          \
    template __global__ void nll_loss_backward_reduce_cuda_kernel_2d<T, int64_t>(T *, const T *, const int64_t *, const T *, const T *,     \
                                                                                 bool, int, int, int64_t, int64_t);                         \
    template __global__ void nll_loss_backward_reduce_cuda_kernel_1d<T, int64_t>(T *, const T *, const T *, const int64_t *, const T *,     \
                                                                                 bool, int64_t, int64_t);

OF_TYPE(float)
OF_TYPE(c10::Half)
OF_TYPE(c10::BFloat16)

} // namespace
} // namespace at::native

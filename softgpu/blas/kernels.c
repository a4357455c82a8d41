/* kernels.c: the table of this library's kernels (softgpu/kernel_abi.h). */
#include "softgpu/blas/device.h"
#include "softgpu/blas/gemm.h"
#include "softgpu/blas/vector.h"

#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ARGUMENT(type, member)                                                                               \
    {                                                                                                        \
        offsetof(type, member), sizeof(((type *)0)->member), __alignof__(((type *)0)->member)                \
    }

/* clang-format off */
static const softgpu_param_t direct_params[] = {
    ARGUMENT(gemm_direct_t, a), ARGUMENT(gemm_direct_t, b), ARGUMENT(gemm_direct_t, c),
    ARGUMENT(gemm_direct_t, device_alpha), ARGUMENT(gemm_direct_t, device_beta), ARGUMENT(gemm_direct_t, shape),
};
static const softgpu_param_t mixed_params[] = {
    {offsetof(gemm_mixed_t, maps), sizeof(gemm_maps_t), _Alignof(CUtensorMap)},
    ARGUMENT(gemm_mixed_t, a), ARGUMENT(gemm_mixed_t, b), ARGUMENT(gemm_mixed_t, c), ARGUMENT(gemm_mixed_t, d),
    ARGUMENT(gemm_mixed_t, bias), ARGUMENT(gemm_mixed_t, aux), ARGUMENT(gemm_mixed_t, device_alpha),
    ARGUMENT(gemm_mixed_t, device_beta), ARGUMENT(gemm_mixed_t, workspace), ARGUMENT(gemm_mixed_t, counters),
    ARGUMENT(gemm_mixed_t, shape),
};
static const softgpu_param_t geam_params[] = {
    ARGUMENT(geam_arguments_t, a), ARGUMENT(geam_arguments_t, b), ARGUMENT(geam_arguments_t, c),
    ARGUMENT(geam_arguments_t, device_alpha), ARGUMENT(geam_arguments_t, device_beta),
    ARGUMENT(geam_arguments_t, shape),
};
static const softgpu_param_t vector_params[] = {
    ARGUMENT(vector_arguments_t, x), ARGUMENT(vector_arguments_t, y), ARGUMENT(vector_arguments_t, result),
    ARGUMENT(vector_arguments_t, device_alpha), ARGUMENT(vector_arguments_t, shape),
};

#define KERNELS(K)                                                                                           \
    K(BLAS_SGEMM, "softgpu_sgemm", direct_params, gemm_run_direct_f32, gemm_cost_direct)                     \
    K(BLAS_SGEMM_BATCHED, "softgpu_sgemm_batched", direct_params, gemm_run_direct_f32_batched, gemm_cost_direct) \
    K(BLAS_DGEMM, "softgpu_dgemm", direct_params, gemm_run_direct_f64, gemm_cost_direct)                     \
    K(BLAS_DGEMM_BATCHED, "softgpu_dgemm_batched", direct_params, gemm_run_direct_f64_batched, gemm_cost_direct) \
    K(BLAS_GEMM, "softgpu_gemm", mixed_params, gemm_run_mixed, gemm_cost_mixed)                              \
    K(BLAS_GEMM_BATCHED, "softgpu_gemm_batched", mixed_params, gemm_run_mixed_batched, gemm_cost_mixed)      \
    K(BLAS_GEMM_SPLITK, "softgpu_gemm_splitk", mixed_params, gemm_run_mixed, gemm_cost_mixed)                \
    K(BLAS_GEMM_SPLITK_BATCHED, "softgpu_gemm_splitk_batched", mixed_params, gemm_run_mixed_batched, gemm_cost_mixed) \
    K(BLAS_SPLITK_REDUCE, "softgpu_splitk_reduce", mixed_params, gemm_run_reduce, gemm_cost_reduce)          \
    K(BLAS_SPLITK_REDUCE_BATCHED, "softgpu_splitk_reduce_batched", mixed_params, gemm_run_reduce_batched, gemm_cost_reduce) \
    K(BLAS_GEMM_GRAD, "softgpu_gemm_grad", mixed_params, gemm_run_mixed, gemm_cost_mixed)                    \
    K(BLAS_GEMM_GRAD_BATCHED, "softgpu_gemm_grad_batched", mixed_params, gemm_run_mixed_batched, gemm_cost_mixed) \
    K(BLAS_GEMM_GRAD_SPLITK, "softgpu_gemm_grad_splitk", mixed_params, gemm_run_mixed, gemm_cost_mixed)      \
    K(BLAS_GEMM_GRAD_SPLITK_BATCHED, "softgpu_gemm_grad_splitk_batched", mixed_params, gemm_run_mixed_batched, gemm_cost_mixed) \
    K(BLAS_GRAD_SPLITK_REDUCE, "softgpu_grad_splitk_reduce", mixed_params, gemm_run_reduce, gemm_cost_reduce) \
    K(BLAS_GRAD_SPLITK_REDUCE_BATCHED, "softgpu_grad_splitk_reduce_batched", mixed_params, gemm_run_reduce_batched, gemm_cost_reduce) \
    K(BLAS_GEAM, "softgpu_geam", geam_params, geam_run, geam_cost)                                           \
    K(BLAS_AXPY, "softgpu_axpy", vector_params, vector_run_axpy, vector_cost)                                \
    K(BLAS_SCAL, "softgpu_scal", vector_params, vector_run_scal, vector_cost)                                \
    K(BLAS_COPY, "softgpu_copy", vector_params, vector_run_copy, vector_cost_copy)                           \
    K(BLAS_DOT, "softgpu_dot", vector_params, vector_run_dot, vector_cost)                                   \
    K(BLAS_NRM2, "softgpu_nrm2", vector_params, vector_run_nrm2, vector_cost)                                \
    K(BLAS_ASUM, "softgpu_asum", vector_params, vector_run_asum, vector_cost)                                \
    K(BLAS_IAMAX, "softgpu_iamax", vector_params, vector_run_iamax, vector_cost)                             \
    K(BLAS_IAMIN, "softgpu_iamin", vector_params, vector_run_iamin, vector_cost)
/* clang-format on */

const char *const blas_kernel_names[BLAS_KERNEL_COUNT] = {
#define NAME(id, name, params, run, cost) [id] = name,
    KERNELS(NAME)
#undef NAME
};

static const softgpu_kernel_t kernels[BLAS_KERNEL_COUNT] = {
#define KERNEL(id, name_, params_, run_, cost_)                                                              \
    [id] = {.name = name_,                                                                                   \
            .param_count = COUNT(params_),                                                                   \
            .params = params_,                                                                               \
            .run = {[SOFTGPU_FAST] = run_},                                                                  \
            .cost = cost_},
    KERNELS(KERNEL)
#undef KERNEL
};

static const softgpu_kernel_t *const kernel_list[BLAS_KERNEL_COUNT] = {
#define POINTER(id, name, params, run, cost) [id] = &kernels[id],
    KERNELS(POINTER)
#undef POINTER
};

extern const softgpu_kernel_table_t softgpu_kernel_table __attribute__((visibility("default")));
const softgpu_kernel_table_t softgpu_kernel_table = {
    .abi_version = SOFTGPU_ABI_VERSION, .kernel_count = BLAS_KERNEL_COUNT, .kernels = kernel_list};

/* algorithm.c: the two algorithms, how they can be configured, and what they can do. */
#include "softgpu/blas/element.h"
#include "softgpu/cublaslt/lt.h"

#include <string.h>

/* What is called a wave: so many blocks. A number of its own, so that nothing depends on the number of workers. */
enum { WAVE_BLOCKS = 64 };

static void set_types(lt_algorithm_t *algorithm, int compute, int scale, const int types[4])
{
    algorithm->compute_type = compute;
    algorithm->scale_type = scale;
    algorithm->type_a = (int16_t)types[0];
    algorithm->type_b = (int16_t)types[1];
    algorithm->type_c = (int16_t)types[2];
    algorithm->type_d = (int16_t)types[3];
}

static void init(lt_algorithm_t *algorithm, int id)
{
    *algorithm = (lt_algorithm_t){.magic = LT_ALGORITHM,
                                  .id = id,
                                  .tile = CUBLASLT_MATMUL_TILE_UNDEFINED,
                                  .stages = CUBLASLT_MATMUL_STAGES_UNDEFINED,
                                  .scheme = CUBLASLT_REDUCTION_SCHEME_NONE,
                                  .splits = 1};
}

void lt_algorithm_init(lt_algorithm_t *algorithm, int id, const lt_operation_t *operation,
                       const lt_layouts_t *l)
{
    const int types[] = {(int)l->a->type, (int)l->b->type, (int)l->c->type, (int)l->d->type};
    init(algorithm, id);
    set_types(algorithm, operation->compute_type, operation->scale_type, types);
}

static int is_algorithm(const lt_algorithm_t *algorithm)
{
    return algorithm && algorithm->magic == LT_ALGORITHM;
}

static int matches(const lt_algorithm_t *a, const lt_operation_t *operation, const lt_layouts_t *l)
{
    return a->compute_type == operation->compute_type && a->scale_type == operation->scale_type &&
           a->type_a == (int)l->a->type && a->type_b == (int)l->b->type && a->type_c == (int)l->c->type &&
           a->type_d == (int)l->d->type;
}

cublasStatus_t lt_apply(const lt_algorithm_t *a, const lt_operation_t *operation, const lt_layouts_t *layouts,
                        gemm_call_t *call)
{
    if (!is_algorithm(a) || !matches(a, operation, layouts))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (a->tile || a->stages || a->swizzling || a->custom || a->inner_shape || a->cluster_shape)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (a->splits <= 1)
        return CUBLAS_STATUS_SUCCESS;
    if (a->id != LT_SPLIT || a->splits > LT_MOST_SPLITS || !gemm_may_split(call) ||
        (a->scheme != CUBLASLT_REDUCTION_SCHEME_INPLACE &&
         a->scheme != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    call->splits = a->splits;
    call->reduce_apart = a->scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    return CUBLAS_STATUS_SUCCESS;
}

void lt_describe(const gemm_call_t *call, cublasLtMatmulHeuristicResult_t *result)
{
    const int64_t splits = call->splits > 1 ? call->splits : 1;
    result->workspaceSize = gemm_workspace_bytes(call);
    result->wavesCount =
        call->m && call->n ? (float)(gemm_tile_count(call) * splits) / (float)WAVE_BLOCKS : 0.0f;
    result->state = CUBLAS_STATUS_SUCCESS;
}

uint64_t lt_implementation(const lt_algorithm_t *a)
{
    const uint64_t input = a->type_a == CUDA_R_16F    ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F
                           : a->type_a == CUDA_R_16BF ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF
                                                      : CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F;
    return CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F | input;
}

static int types_supported(cublasComputeType_t compute, const int types[4], int scale)
{
    softgpu_arithmetic_t arithmetic;
    return scale == CUDA_R_32F && types[2] == types[3] && element_is_small_float(types[3]) &&
           gemm_types_supported(compute, (cudaDataType)types[0], (cudaDataType)types[1],
                                (cudaDataType)types[3], &arithmetic);
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t compute,
                                        cudaDataType_t scale, cudaDataType_t type_a, cudaDataType_t type_b,
                                        cudaDataType_t type_c, cudaDataType_t type_d, int requested,
                                        int ids[], int *returned)
{
    const int types[] = {(int)type_a, (int)type_b, (int)type_c, (int)type_d};
    int count = 0;
    if (!lt_context(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (requested <= 0 || !ids || !returned)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (types_supported(compute, types, (int)scale))
        for (; count < requested && count < LT_ALGORITHM_COUNT; count++)
            ids[count] = count;
    *returned = count;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                      cudaDataType_t scale, cudaDataType_t type_a, cudaDataType_t type_b,
                                      cudaDataType_t type_c, cudaDataType_t type_d, int id,
                                      cublasLtMatmulAlgo_t *out)
{
    const int types[] = {(int)type_a, (int)type_b, (int)type_c, (int)type_d};
    if (!lt_context(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!out || id < 0 || id >= LT_ALGORITHM_COUNT)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_supported(compute, types, (int)scale))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    init((lt_algorithm_t *)(void *)out, id);
    set_types((lt_algorithm_t *)(void *)out, (int)compute, (int)scale, types);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    const lt_layouts_t layouts = {(void *)a, (void *)b, (void *)c, (void *)d};
    gemm_call_t call;
    if (!lt_context(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!algorithm || !result)
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = lt_plan((void *)operation, &layouts, &call);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lt_apply((const void *)algorithm, (void *)operation, &layouts, &call);
    result->state = status;
    if (status == CUBLAS_STATUS_SUCCESS)
        lt_describe(&call, result);
    return status;
}

/* ---- configuration ---- */

/* clang-format off */
#define A(id, member) {CUBLASLT_ALGO_CONFIG_##id, offsetof(lt_algorithm_t, member), sizeof(((lt_algorithm_t *)0)->member)}
static const lt_attribute_t config_attributes[] = {
    A(ID, id), A(TILE_ID, tile), A(SPLITK_NUM, splits), A(REDUCTION_SCHEME, scheme), A(CTA_SWIZZLING, swizzling),
    A(CUSTOM_OPTION, custom), A(STAGES_ID, stages), A(INNER_SHAPE_ID, inner_shape),
    A(CLUSTER_SHAPE_ID, cluster_shape),
};
#undef A
/* clang-format on */
static const lt_attributes_t config = {config_attributes,
                                       sizeof config_attributes / sizeof config_attributes[0]};

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    if (!is_algorithm((const void *)algorithm) || attribute == CUBLASLT_ALGO_CONFIG_ID)
        return CUBLAS_STATUS_INVALID_VALUE;
    return lt_set(config, algorithm, (int)attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written)
{
    if (!is_algorithm((const void *)algorithm))
        return CUBLAS_STATUS_INVALID_VALUE;
    return lt_get(config, algorithm, (int)attribute, value, bytes, written);
}

/* ---- capabilities ---- */

static uint32_t all_epilogues(void)
{
    return CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_RELU_AUX_BIAS | CUBLASLT_EPILOGUE_GELU_AUX_BIAS |
           CUBLASLT_EPILOGUE_DRELU_BGRAD | CUBLASLT_EPILOGUE_DGELU_BGRAD | CUBLASLT_EPILOGUE_BGRADA |
           CUBLASLT_EPILOGUE_BGRADB;
}

/* All that are 32 bits long, signed or not. -1: none of them. */
static int64_t small_capability(const lt_algorithm_t *a, cublasLtMatmulAlgoCapAttributes_t attribute)
{
    switch (attribute) {
    case CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
        return a->id == LT_SPLIT;
    case CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
        return a->id == LT_SPLIT ? CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                 : CUBLASLT_REDUCTION_SCHEME_NONE;
    case CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT:
    case CUBLASLT_ALGO_CAP_POINTER_ARRAY_BATCH_SUPPORT:
    case CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT:
        return 1;
    case CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT:
    case CUBLASLT_ALGO_CAP_UPLO_SUPPORT:
    case CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX:
    case CUBLASLT_ALGO_CAP_CUSTOM_MEMORY_ORDER:
    case CUBLASLT_ALGO_CAP_LD_NEGATIVE:
    case CUBLASLT_ALGO_CAP_FLOATING_POINT_EMULATION_SUPPORT:
        return 0;
    case CUBLASLT_ALGO_CAP_POINTER_MODE_MASK:
        return CUBLASLT_POINTER_MODE_MASK_HOST | CUBLASLT_POINTER_MODE_MASK_DEVICE;
    case CUBLASLT_ALGO_CAP_EPILOGUE_MASK:
        return all_epilogues();
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES:
        return element_bytes(a->type_a);
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES:
        return element_bytes(a->type_d);
    default:
        return -1;
    }
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute, void *value,
                                                 size_t bytes, size_t *written)
{
    const lt_algorithm_t *a = (const void *)algorithm;
    if (!is_algorithm(a))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute == CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS) {
        const uint64_t flags = lt_implementation(a);
        return lt_give(&flags, sizeof flags, value, bytes, written);
    }
    if (attribute == CUBLASLT_ALGO_CAP_TILE_IDS || attribute == CUBLASLT_ALGO_CAP_STAGES_IDS)
        return lt_give("", 0, value, bytes, written); /* none to choose from */
    const int64_t capability = small_capability(a, attribute);
    const uint32_t small = (uint32_t)capability;
    return capability < 0 ? CUBLAS_STATUS_INVALID_VALUE
                          : lt_give(&small, sizeof small, value, bytes, written);
}

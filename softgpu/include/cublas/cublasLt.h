/* cublasLt.h: the part of cuBLASLt's interface that softgpu's libcublasLt.so.13 provides; see cublas_v2.h, which it
 * completes. Matrices are column-major unless their layout says otherwise.
 */
#ifndef SOFTGPU_CUBLASLT_H
#define SOFTGPU_CUBLASLT_H

#include "cublas_v2.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As in cublas_v2.h. */
#ifndef SOFTGPU_CUBLAS_CHECK
#define SOFTGPU_ENUM                typedef enum {
#define SOFTGPU_VALUE(name, number) name = number,
#define SOFTGPU_ENUM_END(type)                                                                               \
    }                                                                                                        \
    type;
#define SOFTGPU_WORDS(type, count)                                                                           \
    typedef struct {                                                                                         \
        uint64_t data[count];                                                                                \
    } type;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef uint64_t cublasLtNumericalImplFlags_t;
typedef void (*cublasLtLoggerCallback_t)(int level, const char *function, const char *message);
#else
#define SOFTGPU_ENUM
#define SOFTGPU_VALUE(name, number) _Static_assert(name == number, #name);
#define SOFTGPU_ENUM_END(type)      _Static_assert(sizeof(type) == sizeof(int), #type);
#define SOFTGPU_WORDS(type, count)  _Static_assert(sizeof(type) == count * sizeof(uint64_t), #type);
#endif

/* clang-format off */
SOFTGPU_WORDS(cublasLtMatrixLayoutOpaque_t, 8)
SOFTGPU_WORDS(cublasLtMatmulAlgo_t, 8)
SOFTGPU_WORDS(cublasLtMatmulDescOpaque_t, 32)
SOFTGPU_WORDS(cublasLtMatrixTransformDescOpaque_t, 8)
SOFTGPU_WORDS(cublasLtMatmulPreferenceOpaque_t, 8)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_MATMUL_TILE_UNDEFINED, 0)
SOFTGPU_ENUM_END(cublasLtMatmulTile_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_MATMUL_STAGES_UNDEFINED, 0)
SOFTGPU_ENUM_END(cublasLtMatmulStages_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_POINTER_MODE_HOST, 0)
    SOFTGPU_VALUE(CUBLASLT_POINTER_MODE_DEVICE, 1)
    SOFTGPU_VALUE(CUBLASLT_POINTER_MODE_DEVICE_VECTOR, 2)
    SOFTGPU_VALUE(CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO, 3)
    SOFTGPU_VALUE(CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST, 4)
SOFTGPU_ENUM_END(cublasLtPointerMode_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_POINTER_MODE_MASK_HOST, 1)
    SOFTGPU_VALUE(CUBLASLT_POINTER_MODE_MASK_DEVICE, 2)
    SOFTGPU_VALUE(CUBLASLT_POINTER_MODE_MASK_DEVICE_VECTOR, 4)
    SOFTGPU_VALUE(CUBLASLT_POINTER_MODE_MASK_ALPHA_DEVICE_VECTOR_BETA_ZERO, 8)
    SOFTGPU_VALUE(CUBLASLT_POINTER_MODE_MASK_ALPHA_DEVICE_VECTOR_BETA_HOST, 16)
SOFTGPU_ENUM_END(cublasLtPointerModeMask_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_ORDER_COL, 0)
    SOFTGPU_VALUE(CUBLASLT_ORDER_ROW, 1)
    SOFTGPU_VALUE(CUBLASLT_ORDER_COL32, 2)
    SOFTGPU_VALUE(CUBLASLT_ORDER_COL4_4R2_8C, 3)
    SOFTGPU_VALUE(CUBLASLT_ORDER_COL32_2R_4R4, 4)
SOFTGPU_ENUM_END(cublasLtOrder_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_BATCH_MODE_STRIDED, 0)
    SOFTGPU_VALUE(CUBLASLT_BATCH_MODE_POINTER_ARRAY, 1)
SOFTGPU_ENUM_END(cublasLtBatchMode_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_MATRIX_LAYOUT_TYPE, 0)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_LAYOUT_ORDER, 1)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_LAYOUT_ROWS, 2)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_LAYOUT_COLS, 3)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_LAYOUT_LD, 4)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, 7)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 8)
SOFTGPU_ENUM_END(cublasLtMatrixLayoutAttribute_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 0)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_SCALE_TYPE, 1)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_POINTER_MODE, 2)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_TRANSA, 3)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_TRANSB, 4)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_TRANSC, 5)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_FILL_MODE, 6)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 10)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 11)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 12)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 13)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, 14)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 15)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 17)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 18)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, 19)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, 20)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, 21)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, 22)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, 23)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, 24)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_FAST_ACCUM, 25)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 26)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, 31)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, 32)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_C_SCALE_MODE, 33)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_D_SCALE_MODE, 34)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, 35)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, 36)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, 37)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR, 38)
SOFTGPU_ENUM_END(cublasLtMatmulDescAttributes_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, 0)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE, 1)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA, 2)
    SOFTGPU_VALUE(CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB, 3)
SOFTGPU_ENUM_END(cublasLtMatrixTransformDescAttributes_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_REDUCTION_SCHEME_NONE, 0)
    SOFTGPU_VALUE(CUBLASLT_REDUCTION_SCHEME_INPLACE, 1)
    SOFTGPU_VALUE(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)
    SOFTGPU_VALUE(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 4)
    SOFTGPU_VALUE(CUBLASLT_REDUCTION_SCHEME_MASK, 7)
SOFTGPU_ENUM_END(cublasLtReductionScheme_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_DEFAULT, 1)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_RELU, 2)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_RELU_AUX, 130)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_BIAS, 4)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_RELU_BIAS, 6)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_RELU_AUX_BIAS, 134)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_DRELU, 136)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_DRELU_BGRAD, 152)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_GELU, 32)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_GELU_AUX, 160)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_GELU_BIAS, 36)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 164)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_DGELU, 192)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_DGELU_BGRAD, 208)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_BGRADA, 256)
    SOFTGPU_VALUE(CUBLASLT_EPILOGUE_BGRADB, 512)
SOFTGPU_ENUM_END(cublasLtEpilogue_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_SEARCH_BEST_FIT, 0)
    SOFTGPU_VALUE(CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID, 1)
SOFTGPU_ENUM_END(cublasLtMatmulSearch_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_MATMUL_PREF_SEARCH_MODE, 0)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 9)
    SOFTGPU_VALUE(CUBLASLT_MATMUL_PREF_IMPL_MASK, 12)
SOFTGPU_ENUM_END(cublasLtMatmulPreferenceAttributes_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_SPLITK_SUPPORT, 0)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK, 1)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT, 2)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT, 3)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT, 4)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_UPLO_SUPPORT, 5)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_TILE_IDS, 6)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX, 7)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_CUSTOM_MEMORY_ORDER, 10)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_POINTER_MODE_MASK, 11)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_EPILOGUE_MASK, 12)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_STAGES_IDS, 13)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_LD_NEGATIVE, 14)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, 15)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES, 16)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES, 17)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES, 18)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES, 19)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_POINTER_ARRAY_BATCH_SUPPORT, 21)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CAP_FLOATING_POINT_EMULATION_SUPPORT, 22)
SOFTGPU_ENUM_END(cublasLtMatmulAlgoCapAttributes_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLASLT_ALGO_CONFIG_ID, 0)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CONFIG_TILE_ID, 1)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 3)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 5)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CONFIG_STAGES_ID, 6)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 7)
    SOFTGPU_VALUE(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 8)
SOFTGPU_ENUM_END(cublasLtMatmulAlgoConfigAttributes_t)

#ifndef SOFTGPU_CUBLAS_CHECK
typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef cublasLtMatrixTransformDescOpaque_t *cublasLtMatrixTransformDesc_t;
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;

/* One proposal of the heuristic: valid if state is CUBLAS_STATUS_SUCCESS. */
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize; /* bytes that it needs */
    cublasStatus_t state;
    float wavesCount; /* how often the device would be filled */
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

/* How an algorithm computes. */
#define CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA             (0x01ull << 0)
#define CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F (0x02ull << 8)
#define CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F       (0x01ull << 16)
#define CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF      (0x02ull << 16)
#define CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F       (0x08ull << 16)
#else
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96, "cublasLtMatmulHeuristicResult_t");
_Static_assert(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64, "workspaceSize");
_Static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) == 72, "state");
_Static_assert(offsetof(cublasLtMatmulHeuristicResult_t, wavesCount) == 76, "wavesCount");
_Static_assert(CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA == 1, "FMA");
_Static_assert(CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F == 0x200, "ACCUMULATOR_32F");
_Static_assert(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F == 0x10000, "INPUT_16F");
_Static_assert(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF == 0x20000, "INPUT_16BF");
_Static_assert(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F == 0x80000, "INPUT_32F");
#endif
/* clang-format on */

#undef SOFTGPU_ENUM
#undef SOFTGPU_VALUE
#undef SOFTGPU_ENUM_END
#undef SOFTGPU_WORDS

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
const char *cublasLtGetStatusName(cublasStatus_t status);
const char *cublasLtGetStatusString(cublasStatus_t status);
size_t cublasLtGetVersion(void);
size_t cublasLtGetCudartVersion(void);
cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value);
cublasStatus_t cublasLtHeuristicsCacheGetCapacity(size_t *capacity);
cublasStatus_t cublasLtHeuristicsCacheSetCapacity(size_t capacity);

/* D = epilogue(alpha op(A) op(B) + beta C), on `stream`. No algorithm: one that the workspace suffices for is
 * chosen. */
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t Adesc, const void *B,
                              cublasLtMatrixLayout_t Bdesc, const void *beta, const void *C,
                              cublasLtMatrixLayout_t Cdesc, void *D, cublasLtMatrixLayout_t Ddesc,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspaceSizeInBytes,
                              cudaStream_t stream);
/* C = alpha op(A) + beta op(B), from layouts to layouts. */
cublasStatus_t cublasLtMatrixTransform(cublasLtHandle_t handle, cublasLtMatrixTransformDesc_t transform,
                                       const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc,
                                       const void *beta, const void *B, cublasLtMatrixLayout_t Bdesc, void *C,
                                       cublasLtMatrixLayout_t Cdesc, cudaStream_t stream);

/* Descriptors. _Init makes one in memory of the caller's. A value of `bytes` must have its attribute's size;
 * asking with 0 bytes tells the size. */
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t object, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t ld);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t object);
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t object,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes);
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t object,
                                                cublasLtMatrixLayoutAttribute_t attribute, void *value,
                                                size_t bytes, size_t *written);
#ifndef SOFTGPU_CUBLAS_CHECK
static inline cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t object, cudaDataType type,
                                                      uint64_t rows, uint64_t columns, int64_t ld)
{
    return cublasLtMatrixLayoutInit_internal(object, sizeof *object, type, rows, columns, ld);
}
#endif

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t object, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t object);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t object,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t bytes);
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t object,
                                              cublasLtMatmulDescAttributes_t attribute, void *value,
                                              size_t bytes, size_t *written);
#ifndef SOFTGPU_CUBLAS_CHECK
static inline cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t object, cublasComputeType_t compute,
                                                    cudaDataType_t scale)
{
    return cublasLtMatmulDescInit_internal(object, sizeof *object, compute, scale);
}
#endif

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out);
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t object, size_t size);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t object);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t object,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes);
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t object,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written);
#ifndef SOFTGPU_CUBLAS_CHECK
static inline cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t object)
{
    return cublasLtMatmulPreferenceInit_internal(object, sizeof *object);
}
#endif

cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t *out, cudaDataType scale);
cublasStatus_t cublasLtMatrixTransformDescInit_internal(cublasLtMatrixTransformDesc_t object, size_t size,
                                                        cudaDataType scale);
cublasStatus_t cublasLtMatrixTransformDescDestroy(cublasLtMatrixTransformDesc_t object);
cublasStatus_t cublasLtMatrixTransformDescSetAttribute(cublasLtMatrixTransformDesc_t object,
                                                       cublasLtMatrixTransformDescAttributes_t attribute,
                                                       const void *value, size_t bytes);
cublasStatus_t cublasLtMatrixTransformDescGetAttribute(cublasLtMatrixTransformDesc_t object,
                                                       cublasLtMatrixTransformDescAttributes_t attribute,
                                                       void *value, size_t bytes, size_t *written);
#ifndef SOFTGPU_CUBLAS_CHECK
static inline cublasStatus_t cublasLtMatrixTransformDescInit(cublasLtMatrixTransformDesc_t object,
                                                             cudaDataType scale)
{
    return cublasLtMatrixTransformDescInit_internal(object, sizeof *object, scale);
}
#endif

/* Algorithms. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                              cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int *returned);
cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t compute,
                                        cudaDataType_t scale, cudaDataType_t Atype, cudaDataType_t Btype,
                                        cudaDataType_t Ctype, cudaDataType_t Dtype, int requested, int ids[],
                                        int *returned);
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                      cudaDataType_t scale, cudaDataType_t Atype, cudaDataType_t Btype,
                                      cudaDataType_t Ctype, cudaDataType_t Dtype, int id,
                                      cublasLtMatmulAlgo_t *algo);
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                       cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result);
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute, void *value,
                                                 size_t bytes, size_t *written);
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void *value, size_t bytes);
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written);

cublasStatus_t cublasLtLoggerSetCallback(cublasLtLoggerCallback_t callback);
cublasStatus_t cublasLtLoggerSetFile(FILE *file);
cublasStatus_t cublasLtLoggerOpenFile(const char *name);
cublasStatus_t cublasLtLoggerSetLevel(int level);
cublasStatus_t cublasLtLoggerSetMask(int mask);
cublasStatus_t cublasLtLoggerForceDisable(void);

#ifdef __cplusplus
}
#endif
#endif

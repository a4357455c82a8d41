/* attributes.c: descriptors: how they are made, and what can be set on them and asked. */
#include "softgpu/cublaslt/lt.h"

#include <stdlib.h>
#include <string.h>

static const lt_attribute_t *find(lt_attributes_t attributes, int id)
{
    for (size_t i = 0; i < attributes.count; i++)
        if (attributes.list[i].id == id)
            return &attributes.list[i];
    return NULL;
}

cublasStatus_t lt_set(lt_attributes_t attributes, void *object, int id, const void *value, size_t bytes)
{
    const lt_attribute_t *a = find(attributes, id);
    if (!object || !a || !value || bytes != a->bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy((char *)object + a->offset, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t lt_give(const void *from, size_t bytes, void *value, size_t room, size_t *written)
{
    if (room == 0) {
        if (!written)
            return CUBLAS_STATUS_INVALID_VALUE;
        *written = bytes;
        return CUBLAS_STATUS_SUCCESS;
    }
    if (!value || room < bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, from, bytes);
    if (written)
        *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t lt_get(lt_attributes_t attributes, const void *object, int id, void *value, size_t bytes,
                      size_t *written)
{
    const lt_attribute_t *a = find(attributes, id);
    if (!object || !a || (bytes && bytes != a->bytes))
        return CUBLAS_STATUS_INVALID_VALUE;
    return lt_give((const char *)object + a->offset, a->bytes, value, bytes, written);
}

#define ATTRIBUTE(id, type, member)                                                                          \
    {                                                                                                        \
        id, offsetof(type, member), sizeof(((type *)0)->member)                                              \
    }
#define LIST(array)                                                                                          \
    (lt_attributes_t)                                                                                        \
    {                                                                                                        \
        array, sizeof(array) / sizeof(array)[0]                                                              \
    }

/* clang-format off */
#define A(id, member) ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_##id, lt_layout_t, member)
static const lt_attribute_t layout_attributes[] = {
    A(TYPE, type), A(ORDER, order), A(ROWS, rows), A(COLS, columns), A(LD, ld), A(BATCH_COUNT, batch_count),
    A(STRIDED_BATCH_OFFSET, stride), A(PLANE_OFFSET, plane_offset), A(BATCH_MODE, batch_mode),
};
#undef A

#define A(id, member) ATTRIBUTE(CUBLASLT_MATMUL_DESC_##id, lt_operation_t, member)
static const lt_attribute_t operation_attributes[] = {
    A(COMPUTE_TYPE, compute_type), A(SCALE_TYPE, scale_type), A(POINTER_MODE, pointer_mode), A(TRANSA, transa),
    A(TRANSB, transb), A(TRANSC, transc), A(FILL_MODE, fill_mode), A(EPILOGUE, epilogue), A(BIAS_POINTER, bias),
    A(BIAS_BATCH_STRIDE, bias_stride), A(EPILOGUE_AUX_POINTER, aux), A(EPILOGUE_AUX_LD, aux_ld),
    A(EPILOGUE_AUX_BATCH_STRIDE, aux_stride), A(ALPHA_VECTOR_BATCH_STRIDE, alpha_stride),
    A(SM_COUNT_TARGET, sm_count_target), A(A_SCALE_POINTER, scale[0]), A(B_SCALE_POINTER, scale[1]),
    A(C_SCALE_POINTER, scale[2]), A(D_SCALE_POINTER, scale[3]), A(EPILOGUE_AUX_SCALE_POINTER, scale[4]),
    A(D_OUT_SCALE_POINTER, scale[5]), A(A_SCALE_MODE, scale_mode[0]), A(B_SCALE_MODE, scale_mode[1]),
    A(C_SCALE_MODE, scale_mode[2]), A(D_SCALE_MODE, scale_mode[3]), A(EPILOGUE_AUX_SCALE_MODE, scale_mode[4]),
    A(D_OUT_SCALE_MODE, scale_mode[5]), A(AMAX_D_POINTER, amax_d), A(EPILOGUE_AUX_AMAX_POINTER, amax_aux),
    A(EPILOGUE_AUX_DATA_TYPE, aux_type), A(FAST_ACCUM, fast_accumulation), A(BIAS_DATA_TYPE, bias_type),
    A(EMULATION_DESCRIPTOR, emulation),
};
#undef A

#define A(id, member) ATTRIBUTE(CUBLASLT_MATMUL_PREF_##id, lt_preference_t, member)
static const lt_attribute_t preference_attributes[] = {
    A(SEARCH_MODE, search_mode), A(MAX_WORKSPACE_BYTES, workspace_bytes), A(REDUCTION_SCHEME_MASK, scheme_mask),
    A(MIN_ALIGNMENT_A_BYTES, alignment[0]), A(MIN_ALIGNMENT_B_BYTES, alignment[1]),
    A(MIN_ALIGNMENT_C_BYTES, alignment[2]), A(MIN_ALIGNMENT_D_BYTES, alignment[3]), A(MAX_WAVES_COUNT, waves),
    A(IMPL_MASK, implementations),
};
#undef A

#define A(id, member) ATTRIBUTE(CUBLASLT_MATRIX_TRANSFORM_DESC_##id, lt_transform_t, member)
static const lt_attribute_t transform_attributes[] = {
    A(SCALE_TYPE, scale_type), A(POINTER_MODE, pointer_mode), A(TRANSA, transa), A(TRANSB, transb),
};
#undef A
/* clang-format on */

/* Defines Create, Destroy, SetAttribute and GetAttribute of a descriptor; PARAMETERS and ARGUMENTS are those of its Init
 * after the size. */
#define DEFINE_DESCRIPTOR(name, handle_type, attribute_type, attributes, parameters, arguments)              \
    cublasStatus_t name##Create parameters                                                                   \
    {                                                                                                        \
        if (!out)                                                                                            \
            return CUBLAS_STATUS_INVALID_VALUE;                                                              \
        handle_type made = malloc(sizeof *made);                                                             \
        *out = made;                                                                                         \
        return made ? name##Init_internal arguments : CUBLAS_STATUS_ALLOC_FAILED;                            \
    }                                                                                                        \
    cublasStatus_t name##Destroy(handle_type object)                                                         \
    {                                                                                                        \
        free(object);                                                                                        \
        return CUBLAS_STATUS_SUCCESS;                                                                        \
    }                                                                                                        \
    cublasStatus_t name##SetAttribute(handle_type object, attribute_type id, const void *value,              \
                                      size_t bytes)                                                          \
    {                                                                                                        \
        return lt_set(LIST(attributes), object, (int)id, value, bytes);                                      \
    }                                                                                                        \
    cublasStatus_t name##GetAttribute(handle_type object, attribute_type id, void *value, size_t bytes,      \
                                      size_t *written)                                                       \
    {                                                                                                        \
        return lt_get(LIST(attributes), object, (int)id, value, bytes, written);                             \
    }

/* Init_internal begins so: an object of the caller's, of a size that its header knew. */
static cublasStatus_t clear(void *object, size_t bytes, size_t needed)
{
    if (!object)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes < needed)
        return CUBLAS_STATUS_ALLOC_FAILED;
    memset(object, 0, needed);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t object, size_t bytes,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t ld)
{
    cublasStatus_t status = clear(object, bytes, sizeof *object);
    if (status == CUBLAS_STATUS_SUCCESS)
        *(lt_layout_t *)(void *)object = (lt_layout_t){.type = (uint32_t)type,
                                                       .order = CUBLASLT_ORDER_COL,
                                                       .batch_count = 1,
                                                       .rows = rows,
                                                       .columns = columns,
                                                       .ld = ld};
    return status;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t object, size_t bytes,
                                               cublasComputeType_t compute, cudaDataType_t scale)
{
    cublasStatus_t status = clear(object, bytes, sizeof *object);
    if (status == CUBLAS_STATUS_SUCCESS)
        *(lt_operation_t *)(void *)object = (lt_operation_t){.compute_type = (int32_t)compute,
                                                             .scale_type = (int32_t)scale,
                                                             .fill_mode = CUBLAS_FILL_MODE_FULL,
                                                             .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                                                             .bias_type = -1,
                                                             .aux_type = -1};
    return status;
}

void lt_preference_init(lt_preference_t *preference)
{
    *preference = (lt_preference_t){.search_mode = CUBLASLT_SEARCH_BEST_FIT,
                                    .scheme_mask = CUBLASLT_REDUCTION_SCHEME_MASK,
                                    .alignment = {256, 256, 256, 256},
                                    .implementations = UINT64_MAX};
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t object, size_t bytes)
{
    cublasStatus_t status = clear(object, bytes, sizeof *object);
    if (status == CUBLAS_STATUS_SUCCESS)
        lt_preference_init((lt_preference_t *)(void *)object);
    return status;
}

cublasStatus_t cublasLtMatrixTransformDescInit_internal(cublasLtMatrixTransformDesc_t object, size_t bytes,
                                                        cudaDataType scale)
{
    cublasStatus_t status = clear(object, bytes, sizeof *object);
    if (status == CUBLAS_STATUS_SUCCESS)
        *(lt_transform_t *)(void *)object = (lt_transform_t){.scale_type = (int32_t)scale};
    return status;
}

DEFINE_DESCRIPTOR(cublasLtMatrixLayout, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
                  layout_attributes,
                  (cublasLtMatrixLayout_t * out, cudaDataType type, uint64_t rows, uint64_t columns,
                   int64_t ld),
                  (made, sizeof *made, type, rows, columns, ld))
DEFINE_DESCRIPTOR(cublasLtMatmulDesc, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
                  operation_attributes,
                  (cublasLtMatmulDesc_t * out, cublasComputeType_t compute, cudaDataType_t scale),
                  (made, sizeof *made, compute, scale))
DEFINE_DESCRIPTOR(cublasLtMatmulPreference, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                  preference_attributes, (cublasLtMatmulPreference_t * out), (made, sizeof *made))
DEFINE_DESCRIPTOR(cublasLtMatrixTransformDesc, cublasLtMatrixTransformDesc_t,
                  cublasLtMatrixTransformDescAttributes_t, transform_attributes,
                  (cublasLtMatrixTransformDesc_t * out, cudaDataType scale), (made, sizeof *made, scale))

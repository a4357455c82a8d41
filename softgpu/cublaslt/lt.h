/* lt.h: what the files of softgpu's cuBLASLt share.
 *
 * The descriptors that the interface calls opaque are plain structures here, laid over its arrays of words; what can be
 * set on them is listed in attributes.c. plan.c makes a product (cublas/gemm.h) of an operation and four layouts,
 * algorithm.c says how it may be computed, heuristic.c in which order of preference.
 *
 * Threads: a handle may be used by several at once; a descriptor is guarded by nobody.
 */
#ifndef SOFTGPU_CUBLASLT_LT_H
#define SOFTGPU_CUBLASLT_LT_H

#include "softgpu/blas/gemm.h"

#include <cublasLt.h>

struct cublasLtContext {
    blas_context_t base;
};

/* The context behind a handle, which may also be cuBLAS's (NVIDIA documents that a cublasHandle_t will do), or NULL. That library has a
 * table of the driver of its own, so that with such a handle this one's may be empty yet. */
static inline blas_context_t *lt_context(cublasLtHandle_t handle)
{
    blas_context_t *context = handle ? &handle->base : NULL;
    if (context && context->magic == BLAS_MAGIC && blas_start())
        return NULL;
    return context && (context->magic == BLAS_LT_MAGIC || context->magic == BLAS_MAGIC) ? context : NULL;
}

/* The objects belong to the program, which declares them as arrays of words. */
#define LT_OVERLAY __attribute__((may_alias))

/* cublasLtMatrixLayout_t */
typedef struct lt_layout {
    uint32_t type; /* cudaDataType */
    int32_t order, batch_count;
    uint32_t batch_mode;
    uint64_t rows, columns;
    int64_t ld, stride, plane_offset;
} LT_OVERLAY lt_layout_t;

/* cublasLtMatmulDesc_t */
typedef struct lt_operation {
    int32_t compute_type, scale_type, pointer_mode, transa, transb, transc, fill_mode;
    uint32_t epilogue;
    void *bias, *aux;
    int64_t bias_stride, aux_ld, aux_stride, alpha_stride;
    int32_t bias_type, aux_type, sm_count_target;
    int8_t fast_accumulation;
    const void *scale[6]; /* of A, B, C, D, the auxiliary matrix and D's blocks: all for 8-bit types */
    int32_t scale_mode[6];
    void *amax_d, *amax_aux;
    void *emulation;
} LT_OVERLAY lt_operation_t;

/* cublasLtMatmulPreference_t */
typedef struct lt_preference {
    uint32_t search_mode, scheme_mask;
    uint64_t workspace_bytes;
    uint32_t alignment[4]; /* of A to D; every algorithm takes what its elements need */
    float waves;
    uint64_t implementations;
} LT_OVERLAY lt_preference_t;

/* cublasLtMatrixTransformDesc_t */
typedef struct lt_transform {
    int32_t scale_type, pointer_mode, transa, transb;
} LT_OVERLAY lt_transform_t;

/* cublasLtMatmulAlgo_t */
typedef struct lt_algorithm {
    uint32_t magic; /* LT_ALGORITHM once it is initialised */
    int32_t id;
    uint32_t tile, stages, swizzling, custom, scheme;
    int32_t splits;
    uint16_t inner_shape, cluster_shape;
    int32_t compute_type, scale_type;
    int16_t type_a, type_b, type_c, type_d;
} LT_OVERLAY lt_algorithm_t;
#define LT_ALGORITHM 0x616c676fu

enum {
    LT_WHOLE = 0, /* a block sums all of k */
    LT_SPLIT = 1, /* k in parts, CUBLASLT_ALGO_CONFIG_SPLITK_NUM and _REDUCTION_SCHEME */
    LT_ALGORITHM_COUNT
};
enum { LT_MOST_SPLITS = 64 };

#define LT_FITS(type, opaque) _Static_assert(sizeof(type) <= sizeof(opaque), #type)
LT_FITS(lt_layout_t, cublasLtMatrixLayoutOpaque_t);
LT_FITS(lt_operation_t, cublasLtMatmulDescOpaque_t);
LT_FITS(lt_preference_t, cublasLtMatmulPreferenceOpaque_t);
LT_FITS(lt_transform_t, cublasLtMatrixTransformDescOpaque_t);
LT_FITS(lt_algorithm_t, cublasLtMatmulAlgo_t);

/* One attribute: where its value is in the structure, and how long. */
typedef struct lt_attribute {
    int id;
    size_t offset, bytes;
} lt_attribute_t;
typedef struct lt_attributes {
    const lt_attribute_t *list;
    size_t count;
} lt_attributes_t;

/* attributes.c: as the interface's functions of these names; no `object` is INVALID_VALUE. */
cublasStatus_t lt_set(lt_attributes_t attributes, void *object, int id, const void *value, size_t bytes);
cublasStatus_t lt_get(lt_attributes_t attributes, const void *object, int id, void *value, size_t bytes,
                      size_t *written);
/* Hands out `from[bytes]`; bytes 0 asks how many there are. */
cublasStatus_t lt_give(const void *from, size_t bytes, void *value, size_t room, size_t *written);

/* The layouts of a product's operands, each as the program gave it. */
typedef struct lt_layouts {
    const lt_layout_t *a, *b, *c, *d;
} lt_layouts_t;

/* plan.c: checks operation and layouts and makes a product of them, without pointers and scalars. */
cublasStatus_t lt_plan(const lt_operation_t *operation, const lt_layouts_t *layouts, gemm_call_t *call);
/* Sets the product's operands, in its own order (a row-major D swaps them). */
void lt_set_operands(const lt_layouts_t *layouts, const void *a, const void *b, const void *c, void *d,
                     gemm_call_t *call);

/* algorithm.c */
void lt_algorithm_init(lt_algorithm_t *algorithm, int id, const lt_operation_t *operation,
                       const lt_layouts_t *layouts);
/* Sets on a product how it is computed. INVALID_VALUE: made for other types; NOT_SUPPORTED: not in that way. */
cublasStatus_t lt_apply(const lt_algorithm_t *algorithm, const lt_operation_t *operation,
                        const lt_layouts_t *layouts, gemm_call_t *call);
uint64_t lt_implementation(const lt_algorithm_t *algorithm); /* CUBLASLT_NUMERICAL_IMPL_FLAGS_* */
/* What is told of an algorithm that was applied to a product: workspace, waves. */
void lt_describe(const gemm_call_t *call, cublasLtMatmulHeuristicResult_t *result);

/* heuristic.c: at most `most` algorithms that satisfy the preference, best first. Returns how many. */
int lt_choose(const lt_operation_t *operation, const lt_layouts_t *layouts, const lt_preference_t *preference,
              int only_id, int most, cublasLtMatmulHeuristicResult_t *results);
void lt_preference_init(lt_preference_t *preference);

#endif

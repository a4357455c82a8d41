/* Handles, descriptors and their attributes, names and version nodes, and what cublasLtMatmul refuses. */
#define _GNU_SOURCE
#include "lt_test.h"

#include <dlfcn.h>

static void attributes_are_kept_and_their_sizes_checked(void **state)
{
    (void)state;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulPreference_t preference;
    BLAS_OK(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    BLAS_OK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16F, 30, 20, 32));
    BLAS_OK(cublasLtMatmulPreferenceCreate(&preference));
    int32_t i32 = -5;
    uint32_t u32 = 0;
    int64_t i64 = 0;
    uint64_t u64 = 0;
    void *p = &p;
    size_t written = 0;
    /* what they are made with */
    BLAS_OK(cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &i32, sizeof i32,
                                           &written));
    assert_int_equal(i32, CUBLAS_COMPUTE_32F);
    assert_int_equal(written, 4);
    BLAS_OK(cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &u32, sizeof u32, NULL));
    assert_int_equal(u32, CUBLASLT_EPILOGUE_DEFAULT);
    BLAS_OK(cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &i32, sizeof i32,
                                           NULL));
    assert_int_equal(i32, -1);
    BLAS_OK(cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p, sizeof p, NULL));
    assert_null(p);
    BLAS_OK(cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &u64, sizeof u64, NULL));
    assert_int_equal(u64, 30);
    BLAS_OK(cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_LD, &i64, sizeof i64, NULL));
    assert_int_equal(i64, 32);
    BLAS_OK(
        cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &i32, sizeof i32, NULL));
    assert_int_equal(i32, 1);
    BLAS_OK(cublasLtMatmulPreferenceGetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &u64,
                                                 sizeof u64, NULL));
    assert_int_equal(u64, 0);
    BLAS_OK(cublasLtMatmulPreferenceGetAttribute(preference, CUBLASLT_MATMUL_PREF_IMPL_MASK, &u64, sizeof u64,
                                                 NULL));
    assert_true(u64 == UINT64_MAX);
    BLAS_OK(cublasLtMatmulPreferenceGetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &u32,
                                                 sizeof u32, NULL));
    assert_int_equal(u32, 256);
    /* what is set comes back */
    i32 = CUBLAS_OP_T;
    BLAS_OK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &i32, sizeof i32));
    i32 = 0;
    BLAS_OK(cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &i32, sizeof i32, NULL));
    assert_int_equal(i32, CUBLAS_OP_T);
    /* sizes */
    BLAS_OK(cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, NULL, 0, &written));
    assert_int_equal(written, 8);
    assert_int_equal(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &i64, sizeof i64),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, NULL, sizeof i32),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(
        cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &i64, sizeof i64, NULL),
        CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, NULL, 0, NULL),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(
        cublasLtMatmulDescSetAttribute(operation, (cublasLtMatmulDescAttributes_t)9, &i32, sizeof i32),
        CUBLAS_STATUS_INVALID_VALUE);
    BLAS_OK(cublasLtMatmulDescDestroy(operation));
    BLAS_OK(cublasLtMatrixLayoutDestroy(layout));
    BLAS_OK(cublasLtMatmulPreferenceDestroy(preference));
}

static void descriptors_are_made_in_the_callers_memory_too(void **state)
{
    (void)state;
    cublasLtMatrixLayoutOpaque_t layout;
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatrixTransformDescOpaque_t transform;
    uint64_t columns = 0;
    BLAS_OK(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, 3, 4, 3));
    BLAS_OK(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    BLAS_OK(cublasLtMatmulPreferenceInit(&preference));
    BLAS_OK(cublasLtMatrixTransformDescInit(&transform, CUDA_R_32F));
    BLAS_OK(cublasLtMatrixLayoutGetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns,
                                             NULL));
    assert_int_equal(columns, 4);
    assert_int_equal(cublasLtMatrixLayoutInit_internal(&layout, sizeof layout - 8, CUDA_R_32F, 3, 4, 3),
                     CUBLAS_STATUS_ALLOC_FAILED);
}

/* With these attributes a valid call becomes a wrong one. */
static void expect(cublasStatus_t want, void (*spoil)(problem_t *))
{
    const product_t p = {.m = 24, .n = 16, .k = 32, .in = CUDA_R_16BF, .out = CUDA_R_16BF, .alpha = 1};
    problem_t q = problem_new(&p);
    BLAS_OK(matmul(&q, NULL, NULL, 0, NULL));
    spoil(&q);
    assert_int_equal(matmul(&q, NULL, NULL, 0, NULL), want);
    problem_free(&q);
}

#define SPOIL(name, body)                                                                                    \
    static void name(problem_t *q)                                                                           \
    {                                                                                                        \
        body                                                                                                 \
    }
#define SET_LAYOUT(matrix, what, type, number)                                                               \
    do {                                                                                                     \
        const type value_ = (type)(number);                                                                  \
        BLAS_OK(cublasLtMatrixLayoutSetAttribute(q->matrix.layout, CUBLASLT_MATRIX_LAYOUT_##what, &value_,   \
                                                 sizeof value_));                                            \
    } while (0)
#define SET_OPERATION(what, type, number)                                                                    \
    do {                                                                                                     \
        const type value_ = (type)(number);                                                                  \
        SET(q->operation, what, value_);                                                                     \
    } while (0)

SPOIL(other_rows, SET_LAYOUT(a, ROWS, uint64_t, 23);)
SPOIL(other_inner_size, SET_LAYOUT(b, ROWS, uint64_t, 31);)
SPOIL(transposed_a, SET_OPERATION(TRANSA, int32_t, CUBLAS_OP_T);)
SPOIL(small_ld, SET_LAYOUT(d, LD, int64_t, 23);)
SPOIL(other_batch, SET_LAYOUT(b, BATCH_COUNT, int32_t, 2);)
SPOIL(other_type_of_d, SET_LAYOUT(d, TYPE, uint32_t, CUDA_R_32F);)
SPOIL(types_of_a_and_b_differ, SET_LAYOUT(a, TYPE, uint32_t, CUDA_R_16F);)
SPOIL(half_scale, SET_OPERATION(SCALE_TYPE, int32_t, CUDA_R_16F);)
SPOIL(integer_compute, SET_OPERATION(COMPUTE_TYPE, int32_t, CUBLAS_COMPUTE_32I);)
SPOIL(bias_without_pointer, SET_OPERATION(EPILOGUE, uint32_t, CUBLASLT_EPILOGUE_BIAS);)
SPOIL(no_such_epilogue, SET_OPERATION(EPILOGUE, uint32_t, 3);)
SPOIL(aux_without_ld, SET_OPERATION(EPILOGUE, uint32_t, CUBLASLT_EPILOGUE_GELU_AUX);
      SET_OPERATION(EPILOGUE_AUX_POINTER, void *, q->aux.device);)
SPOIL(aux_with_odd_ld, SET_OPERATION(EPILOGUE, uint32_t, CUBLASLT_EPILOGUE_GELU_AUX);
      SET_OPERATION(EPILOGUE_AUX_POINTER, void *, q->aux.device);
      SET_OPERATION(EPILOGUE_AUX_LD, int64_t, 28);)
SPOIL(mask_with_small_unit, SET_OPERATION(EPILOGUE, uint32_t, CUBLASLT_EPILOGUE_RELU_AUX);
      SET_OPERATION(EPILOGUE_AUX_POINTER, void *, q->aux.device);
      SET_OPERATION(EPILOGUE_AUX_LD, int64_t, 64);)
SPOIL(exotic_order, SET_LAYOUT(a, ORDER, int32_t, CUBLASLT_ORDER_COL32);)
SPOIL(c_and_d_ordered_differently, SET_LAYOUT(c, ORDER, int32_t, CUBLASLT_ORDER_ROW);)
SPOIL(vector_scalars, SET_OPERATION(POINTER_MODE, int32_t, CUBLASLT_POINTER_MODE_DEVICE_VECTOR);)
SPOIL(scale_of_an_8_bit_type, SET_OPERATION(A_SCALE_POINTER, void *, q->scalars.device);)
SPOIL(upper_half_only, SET_OPERATION(FILL_MODE, int32_t, CUBLAS_FILL_MODE_UPPER);)

static void wrong_operations_are_refused(void **state)
{
    (void)state;
    void (*const invalid[])(problem_t *) = {
        other_rows,      other_inner_size,     transposed_a,          small_ld,
        other_batch,     bias_without_pointer, no_such_epilogue,      aux_without_ld,
        aux_with_odd_ld, mask_with_small_unit, scale_of_an_8_bit_type};
    void (*const unsupported[])(problem_t *) = {
        other_type_of_d, types_of_a_and_b_differ,     half_scale,     integer_compute,
        exotic_order,    c_and_d_ordered_differently, vector_scalars, upper_half_only};
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++)
        expect(CUBLAS_STATUS_INVALID_VALUE, invalid[i]);
    for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++)
        expect(CUBLAS_STATUS_NOT_SUPPORTED, unsupported[i]);
}

static void wrong_pointers_are_refused(void **state)
{
    (void)state;
    const product_t p = {.m = 8, .n = 8, .k = 8, .in = CUDA_R_32F, .out = CUDA_R_32F, .alpha = 1};
    problem_t q = problem_new(&p);
    const float one = 1, zero = 0;
    void *a = q.a.array.device, *b = q.b.array.device, *d = q.d.array.device;
#define CALL(h, alpha, beta, pa, pb, pc, pd)                                                                 \
    cublasLtMatmul(h, q.operation, alpha, pa, q.a.layout, pb, q.b.layout, beta, pc, q.c.layout, pd,          \
                   q.d.layout, NULL, NULL, 0, NULL)
    assert_int_equal(CALL(NULL, &one, &zero, a, b, d, d), CUBLAS_STATUS_NOT_INITIALIZED);
    assert_int_equal(CALL(lt, NULL, &zero, a, b, d, d), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(lt, &one, NULL, a, b, d, d), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(lt, &one, &zero, NULL, b, d, d), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(lt, &one, &zero, a, b, d, NULL), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(lt, &one, &one, a, b, NULL, d), CUBLAS_STATUS_INVALID_VALUE);
    BLAS_OK(CALL(lt, &one, &zero, a, b, NULL, d)); /* C is not read */
    assert_int_equal(cublasLtMatmul(lt, q.operation, &one, a, NULL, b, q.b.layout, &zero, d, q.c.layout, d,
                                    q.d.layout, NULL, NULL, 0, NULL),
                     CUBLAS_STATUS_INVALID_VALUE);
    problem_free(&q);
}

/* NVIDIA documents the cast. */
static void a_cublas_handle_is_a_cublaslt_handle(void **state)
{
    (void)state;
    const product_t p = {.m = 96, .n = 80, .k = 4096, .in = CUDA_R_16BF, .out = CUDA_R_32F, .alpha = 1};
    cublasHandle_t blas;
    cublasLtMatmulHeuristicResult_t result;
    cublasLtHandle_t before = lt;
    void *workspace;
    BLAS_OK(cublasCreate(&blas));
    lt = (cublasLtHandle_t)(void *)blas;
    problem_t q = problem_new(&p);
    assert_int_equal(propose(&q, (size_t)64 << 20, 1, &result), 1);
    assert_true(result.workspaceSize > 0); /* the handle needs counters */
    OK(cudaMalloc(&workspace, result.workspaceSize));
    BLAS_OK(matmul(&q, &result.algo, workspace, result.workspaceSize, NULL));
    check_result(&q);
    assert_int_equal(cublasLtDestroy(lt), CUBLAS_STATUS_NOT_INITIALIZED);
    problem_free(&q);
    OK(cudaFree(workspace));
    lt = before;
    BLAS_OK(cublasDestroy(blas));
}

static void versions_texts_and_settings(void **state)
{
    (void)state;
    int major = 0;
    size_t capacity = 0;
    assert_int_equal(cublasLtGetVersion(), CUBLAS_VERSION);
    BLAS_OK(cublasLtGetProperty(MAJOR_VERSION, &major));
    assert_int_equal(major, CUBLAS_VER_MAJOR);
    assert_string_equal(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
    BLAS_OK(cublasLtHeuristicsCacheSetCapacity(17));
    BLAS_OK(cublasLtHeuristicsCacheGetCapacity(&capacity));
    assert_int_equal(capacity, 17);
    assert_int_equal(cublasLtLoggerSetLevel(9), CUBLAS_STATUS_INVALID_VALUE);
    BLAS_OK(cublasLtLoggerSetLevel(0));
    assert_int_equal(cublasLtCreate(NULL), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasLtDestroy(NULL), CUBLAS_STATUS_NOT_INITIALIZED);
}

/* NAMES lists the real library's, if the toolkit has it. */
static void every_name_has_the_version_node(void **state)
{
    (void)state;
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW);
    FILE *names = fopen(NAMES, "r");
    assert_non_null(library);
    if (!names)
        skip();
    char name[128];
    int count = 0, (*stub)(void);
    for (; fscanf(names, "%127s", name) == 1; count++)
        if (!dlvsym(library, name, "libcublasLt.so.13"))
            fail_msg("%s@libcublasLt.so.13 is missing", name);
    fclose(names);
    assert_true(count > 150);
    assert_null(dlsym(library, "gemm_launch"));
    void *symbol = dlsym(library, "cublasLtEmulationDescCreate");
    memcpy(&stub, &symbol, sizeof stub);
    assert_int_equal(stub(), CUBLAS_STATUS_NOT_SUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_kept_and_their_sizes_checked),
        cmocka_unit_test(descriptors_are_made_in_the_callers_memory_too),
        cmocka_unit_test(wrong_operations_are_refused),
        cmocka_unit_test(wrong_pointers_are_refused),
        cmocka_unit_test(a_cublas_handle_is_a_cublaslt_handle),
        cmocka_unit_test(versions_texts_and_settings),
        cmocka_unit_test(every_name_has_the_version_node),
    };
    return cmocka_run_group_tests(tests, lt_setup, lt_teardown);
}

/* cublasLtMatrixTransform against a reference: types, transpositions, orders, batches. */
#include "lt_test.h"

typedef struct sum {
    int m, n;
    cublasOperation_t ta, tb;
    cudaDataType type_a, type_b, type_c;
    cublasLtOrder_t order_a, order_b, order_c;
    float alpha, beta;
    int without_b, batch;
} sum_t;

static void run(const sum_t *s)
{
    const product_t frame = {.pad = 3, .batch = s->batch}; /* what matrix_new asks */
    const int na = s->ta == CUBLAS_OP_N, nb = s->tb == CUBLAS_OP_N;
    matrix_t a = matrix_new(&frame, s->type_a, na ? s->m : s->n, na ? s->n : s->m, s->order_a, 1),
             b = matrix_new(&frame, s->type_b, nb ? s->m : s->n, nb ? s->n : s->m, s->order_b, 2),
             c = matrix_new(&frame, s->type_c, s->m, s->n, s->order_c, 0);
    cublasLtMatrixTransformDesc_t transform;
    const int32_t ta = (int32_t)s->ta, tb = (int32_t)s->tb;
    BLAS_OK(cublasLtMatrixTransformDescCreate(&transform, CUDA_R_32F));
    BLAS_OK(cublasLtMatrixTransformDescSetAttribute(transform, CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA, &ta,
                                                    sizeof ta));
    BLAS_OK(cublasLtMatrixTransformDescSetAttribute(transform, CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB, &tb,
                                                    sizeof tb));
    BLAS_OK(cublasLtMatrixTransform(lt, transform, &s->alpha, a.array.device, a.layout,
                                    s->without_b ? NULL : &s->beta, s->without_b ? NULL : b.array.device,
                                    s->without_b ? NULL : b.layout, c.array.device, c.layout, NULL));
    download(&c.array);
    for (int one = 0; one < batch_of(&frame); one++)
        for (int j = 0; j < s->n; j++)
            for (int i = 0; i < s->m; i++) {
                double want = (double)s->alpha * op_at(&a, s->ta, one, i, j);
                if (!s->without_b)
                    want += (double)s->beta * op_at(&b, s->tb, one, i, j);
                const double got = get(&c.array, place(&c, one, i, j));
                if (!(fabs(got - want) <= 1.01 * type_epsilon(s->type_c) * fabs(want) + 3e-7))
                    fail_msg("ops %d%d orders %d%d%d types %d %d %d: product %d [%d,%d] is %g, not %g", s->ta,
                             s->tb, s->order_a, s->order_b, s->order_c, s->type_a, s->type_b, s->type_c, one,
                             i, j, got, want);
            }
    BLAS_OK(cublasLtMatrixTransformDescDestroy(transform));
    matrix_free(&a);
    matrix_free(&b);
    matrix_free(&c);
}

static void every_order_and_transpose_matches_the_reference(void **state)
{
    (void)state;
    const cublasLtOrder_t order[] = {CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW};
    for (int i = 0; i < 32; i++)
        run(&(sum_t){.m = 150,
                     .n = 37,
                     .ta = i & 1 ? CUBLAS_OP_T : CUBLAS_OP_N,
                     .tb = i & 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                     .type_a = CUDA_R_32F,
                     .type_b = CUDA_R_32F,
                     .type_c = CUDA_R_32F,
                     .order_a = order[i >> 2 & 1],
                     .order_b = order[i >> 3 & 1],
                     .order_c = order[i >> 4],
                     .alpha = 2,
                     .beta = -0.5f,
                     .without_b = i % 3 == 0,
                     .batch = i % 5 == 0 ? 3 : 0});
}

static void types_are_converted(void **state)
{
    (void)state;
    const cudaDataType types[] = {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F};
    for (int i = 0; i < 27; i++)
        run(&(sum_t){.m = 20,
                     .n = 30,
                     .ta = CUBLAS_OP_T,
                     .type_a = types[i % 3],
                     .type_b = types[i / 3 % 3],
                     .type_c = types[i / 9],
                     .alpha = 1,
                     .beta = 1});
}

static void wrong_transforms_are_refused(void **state)
{
    (void)state;
    const product_t frame = {0};
    const float one = 1;
    matrix_t a = matrix_new(&frame, CUDA_R_32F, 4, 5, CUBLASLT_ORDER_COL, 1),
             c = matrix_new(&frame, CUDA_R_32F, 5, 4, CUBLASLT_ORDER_COL, 1);
    cublasLtMatrixTransformDesc_t transform;
    BLAS_OK(cublasLtMatrixTransformDescCreate(&transform, CUDA_R_32F));
#define CALL(h, pa, la, pc)                                                                                  \
    cublasLtMatrixTransform(h, transform, &one, pa, la, NULL, NULL, NULL, pc, c.layout, NULL)
    assert_int_equal(CALL(NULL, a.array.device, a.layout, c.array.device), CUBLAS_STATUS_NOT_INITIALIZED);
    assert_int_equal(CALL(lt, a.array.device, NULL, c.array.device), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(lt, a.array.device, a.layout, NULL), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(CALL(lt, a.array.device, a.layout, c.array.device),
                     CUBLAS_STATUS_INVALID_VALUE); /* 4 x 5 */
    const int32_t exotic = CUBLASLT_ORDER_COL32;
    BLAS_OK(cublasLtMatrixLayoutSetAttribute(a.layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &exotic, sizeof exotic));
    assert_int_equal(CALL(lt, a.array.device, a.layout, c.array.device), CUBLAS_STATUS_NOT_SUPPORTED);
    BLAS_OK(cublasLtMatrixTransformDescDestroy(transform));
    matrix_free(&a);
    matrix_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_and_transpose_matches_the_reference),
        cmocka_unit_test(types_are_converted),
        cmocka_unit_test(wrong_transforms_are_refused),
    };
    return cmocka_run_group_tests(tests, lt_setup, lt_teardown);
}

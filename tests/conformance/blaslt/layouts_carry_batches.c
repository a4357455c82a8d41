/* behaviour: the batch count and stride of the layouts make one call several products.
 * rules: none
 * source: cuBLASLt documentation, cublasLtMatrixLayoutAttribute_t
 * uses: cublasLt
 */
#include "blaslt.h"

static void set_batch(cublasLtMatrixLayout_t layout, int32_t count, int64_t stride)
{
    BLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    BLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                          sizeof stride));
}

CONFORMANCE
{
    enum { M = 32, N = 24, K = 16, BATCH = 4 };
    float *a = integers(M * K * BATCH, 1), *b = integers(K * N, 2), got[M * N * BATCH];
    void *da = to_device(a, M * K * BATCH * sizeof *a), *db = to_device(b, K * N * sizeof *b),
         *dd = to_device(got, sizeof got);
    operation_t o = new_operation(M, N, K, CUDA_R_32F, CUDA_R_32F);
    set_batch(o.a, BATCH, M * K);
    set_batch(o.b, BATCH, 0); /* the same for all */
    set_batch(o.c, BATCH, M * N);
    multiply(&o, da, db, dd);
    to_host(got, dd, sizeof got);
    for (int i = 0; i < BATCH; i++)
        CHECK(same(got + i * M * N, product_of(a + i * M * K, b, M, N, K), M * N));
}

/* behaviour: an attribute is set and read with exactly its size; asking with size 0 tells it.
 * rules: none
 * source: cublasLt.h, cublasLtMatmulDescSetAttribute and cublasLtMatmulDescGetAttribute
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    operation_t o = new_operation(8, 8, 8, CUDA_R_32F, CUDA_R_32F);
    int32_t op = CUBLAS_OP_T, got = -1;
    int64_t wide = 0;
    uint64_t rows = 0;
    size_t written = 0;
    BLAS(cublasLtMatmulDescSetAttribute(o.desc, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof op));
    BLAS(cublasLtMatmulDescGetAttribute(o.desc, CUBLASLT_MATMUL_DESC_TRANSA, &got, sizeof got, &written));
    CHECK(got == CUBLAS_OP_T && written == sizeof got);
    BLAS(cublasLtMatmulDescGetAttribute(o.desc, CUBLASLT_MATMUL_DESC_TRANSA, NULL, 0, &written));
    CHECK(written == sizeof got);
    BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE,
                cublasLtMatmulDescSetAttribute(o.desc, CUBLASLT_MATMUL_DESC_TRANSA, &wide, sizeof wide));
    BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE,
                cublasLtMatmulDescSetAttribute(o.desc, CUBLASLT_MATMUL_DESC_TRANSA, NULL, sizeof op));
    BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE,
                cublasLtMatmulDescGetAttribute(o.desc, CUBLASLT_MATMUL_DESC_TRANSA, NULL, 0, NULL));
    BLAS(cublasLtMatrixLayoutGetAttribute(o.a, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows, NULL));
    CHECK(rows == 8);
}

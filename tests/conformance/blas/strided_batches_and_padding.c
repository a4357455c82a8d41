/* behaviour: a strided batch finds its operands stride elements apart, a stride of 0 is the same matrix for all, and what lies
 * between columns and matrices of C is not written.
 * rules: none
 * source: cuBLAS documentation, cublas<t>gemmStridedBatched
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { M = 19, N = 21, K = 23, LDC = M + 4, STRIDE = LDC * N + 7, BATCH = 3 };
    const float one = 1, zero = 0;
    float *a = integers(M * K, 1), *b = integers(K * N * BATCH, 2), got[STRIDE * BATCH];
    for (int i = 0; i < STRIDE * BATCH; i++)
        got[i] = 99;
    float *da = to_device(a, M * K * sizeof *a), *db = to_device(b, K * N * BATCH * sizeof *b),
          *dc = to_device(got, sizeof got);
    cublasHandle_t handle = new_handle(NULL);
    BLAS(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, da, M, 0, db, K, K * N,
                                   &zero, dc, LDC, STRIDE, BATCH));
    to_host(got, dc, sizeof got);
    for (int one_of = 0; one_of < BATCH; one_of++) {
        const float *c = got + one_of * STRIDE, *want = product_of(a, b + one_of * K * N, M, N, K);
        for (int i = 0; i < STRIDE; i++)
            CHECK(c[i] == (i % LDC < M && i / LDC < N ? want[i % LDC + i / LDC * M] : 99));
    }
    BLAS(cublasDestroy(handle));
}

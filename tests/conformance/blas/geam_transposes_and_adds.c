/* behaviour: cublasSgeam adds scaled, transposed matrices; in place only where an element depends on itself alone.
 * rules: none
 * source: cuBLAS documentation, cublas<t>geam
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { M = 45, N = 30 };
    const float two = 2, minus = -1;
    float *a = integers(M * N, 1), *b = integers(M * N, 2), got[M * N], want[M * N];
    float *da = to_device(a, sizeof got), *db = to_device(b, sizeof got), *dc = to_device(b, sizeof got);
    cublasHandle_t handle = new_handle(NULL);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++)
            want[i + j * M] = 2 * a[j + i * N] - b[i + j * M]; /* a is N x M */
    BLAS(cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, M, N, &two, da, N, &minus, db, M, dc, M));
    to_host(got, dc, sizeof got);
    CHECK(same(got, want, M * N));
    BLAS(cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, M, N, &two, da, N, &minus, db, M, db, M)); /* B is C */
    to_host(got, db, sizeof got);
    CHECK(same(got, want, M * N));
    BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE,
                cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, M, M, &two, da, M, &minus, db, M, da, M));
    BLAS(cublasDestroy(handle));
}

/* behaviour: vectors with increments above 1 are read and written at those elements only.
 * rules: none
 * source: cuBLAS documentation, cublas<t>axpy
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { N = 500 };
    const float three = 3;
    float *x = integers(2 * N, 1), *y = integers(3 * N, 2), got[3 * N], dot = 0, want = 0;
    float *dx = to_device(x, 2 * N * sizeof *x), *dy = to_device(y, sizeof got);
    cublasHandle_t handle = new_handle(NULL);
    BLAS(cublasSaxpy(handle, N, &three, dx, 2, dy, 3));
    to_host(got, dy, sizeof got);
    for (int i = 0; i < N; i++)
        y[3 * i] += 3 * x[2 * i];
    CHECK(same(got, y, 3 * N));
    for (int i = 0; i < N; i++)
        want += x[2 * i] * y[3 * i];
    BLAS(cublasSdot(handle, N, dx, 2, dy, 3, &dot));
    CHECK(dot == want);
    BLAS(cublasDestroy(handle));
}

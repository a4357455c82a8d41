/* behaviour: with device pointer mode results are written and scalars read on the device, in stream order.
 * rules: none
 * source: cuBLAS documentation, Scalar Parameters
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { N = 100 };
    float x[N], scalars[2] = {0, 0}, sum = 0;
    for (int i = 0; i < N; i++)
        x[i] = 1;
    float *d = to_device(x, sizeof x), *s = to_device(scalars, sizeof scalars);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    cublasHandle_t handle = new_handle(stream);
    BLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    BLAS(cublasSdot(handle, N, d, 1, d, 1, s));  /* 100 */
    BLAS(cublasSscal(handle, N, s, d, 1));       /* all 100 */
    BLAS(cublasSasum(handle, N, d, 1, s + 1));   /* 10000 */
    BLAS(cublasSaxpy(handle, N, s, d, 1, d, 1)); /* all 100 + 100 * 100 */
    BLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    BLAS(cublasSasum(handle, N, d, 1, &sum));
    CHECK(sum == 1010000);
    to_host(scalars, s, sizeof scalars);
    CHECK(scalars[0] == 100 && scalars[1] == 10000);
    BLAS(cublasDestroy(handle));
}

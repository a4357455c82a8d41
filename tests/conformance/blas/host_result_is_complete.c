/* behaviour: with host pointer mode a routine that returns a number has it in the host's variable when it returns, the work
 * before it in the stream included.
 * rules: none
 * source: cuBLAS documentation, Scalar Parameters
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { N = 3000 };
    const float two = 2;
    float dot = 0, norm = 0, sum = 0, want = 0, magnitude = 0;
    int index = 0;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    cublasHandle_t handle = new_handle(stream);
    float *x = integers(N, 1), *d = to_device(x, N * sizeof *x);
    x[1234] = -8;
    OK(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)d, x, N * sizeof *x));
    for (int i = 0; i < N; i++) {
        want += 4 * x[i] * x[i];
        magnitude += 2 * fabsf(x[i]);
    }
    BLAS(cublasSscal(handle, N, &two, d, 1));
    BLAS(cublasSdot(handle, N, d, 1, d, 1, &dot));
    CHECK(dot == want);
    BLAS(cublasSnrm2(handle, N, d, 1, &norm));
    CHECK(fabsf(norm - sqrtf(want)) <= 1e-5f * norm);
    BLAS(cublasSasum(handle, N, d, 1, &sum));
    CHECK(sum == magnitude);
    BLAS(cublasIsamax(handle, N, d, 1, &index));
    CHECK(index == 1235); /* counted from 1 */
    BLAS(cublasDestroy(handle));
}

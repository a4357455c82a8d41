/* behaviour: with host pointer mode alpha and beta may change as soon as the call has returned, whenever the kernel runs.
 * rules: none
 * source: cuBLAS documentation, Scalar Parameters
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { N = 32, CELLS = N * N };
    float alpha = 1, beta = 0;
    float *a = integers(CELLS, 1), *b = integers(CELLS, 2), *want = product_of(a, b, N, N, N),
          *got = malloc(CELLS * sizeof *got);
    float *da = to_device(a, CELLS * sizeof *a), *db = to_device(b, CELLS * sizeof *b),
          *dc = to_device(a, CELLS * sizeof *a);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    cublasHandle_t handle = new_handle(stream);
    BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &alpha, da, N, db, N, &beta, dc, N));
    OK(cuStreamSynchronize(stream));
    hold_t h = hold(stream);
    BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &alpha, da, N, db, N, &beta, dc, N));
    alpha = 17;
    beta = 17;
    let_go(h);
    OK(cuStreamSynchronize(stream));
    to_host(got, dc, CELLS * sizeof *got);
    CHECK(same(got, want, CELLS));
    BLAS(cublasDestroy(handle));
}

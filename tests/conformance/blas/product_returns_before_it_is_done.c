/* behaviour: cublasSgemm returns while the work before it in its stream is under way, and takes its turn in the stream.
 * rules: none
 * source: cuBLAS documentation, Parallelism with Streams
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { N = 64, CELLS = N * N };
    const float one = 1, zero = 0;
    float *a = integers(CELLS, 1), *want, *got = malloc(CELLS * sizeof *got);
    float *d = to_device(a, CELLS * sizeof *a), *c = to_device(a, CELLS * sizeof *a);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    cublasHandle_t handle = new_handle(stream);
    BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, d, N, d, N, &zero, c, N));
    OK(cuStreamSynchronize(stream)); /* what is loaded at first use is loaded */
    hold_t h = hold(stream);
    OK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)d, 0x3f800000, CELLS, stream)); /* ones */
    BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, d, N, d, N, &zero, c, N));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    let_go(h);
    OK(cuStreamSynchronize(stream));
    to_host(got, c, CELLS * sizeof *got);
    for (int i = 0; i < CELLS; i++)
        a[i] = 1;
    want = product_of(a, a, N, N, N);
    CHECK(same(got, want, CELLS));
    BLAS(cublasDestroy(handle));
}

/* behaviour: the arrays of pointers of a batched product lie on the device and are read in stream order: they need not be filled
 * yet when the call is made.
 * rules: none
 * source: cuBLAS documentation, cublas<t>gemmBatched ("Device pointers to array of <type> arrays")
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { N = 16, CELLS = N * N, BATCH = 5 };
    const float one = 1, zero = 0;
    void **pinned;
    float *a = integers(CELLS * BATCH, 1), *b = integers(CELLS * BATCH, 2), got[CELLS * BATCH];
    float *da = to_device(a, sizeof got), *db = to_device(b, sizeof got), *dc = to_device(a, sizeof got);
    CUdeviceptr tables = device_alloc(3 * BATCH * sizeof(void *));
    OK(cuMemHostAlloc((void **)&pinned, 3 * BATCH * sizeof(void *), 0));
    for (int i = 0; i < BATCH; i++) {
        pinned[i] = da + i * CELLS;
        pinned[BATCH + i] = db + i * CELLS;
        pinned[2 * BATCH + i] = dc + (BATCH - 1 - i) * CELLS; /* any order */
    }
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    cublasHandle_t handle = new_handle(stream);
    float **t = (float **)(uintptr_t)tables;
    OK(cuMemcpyHtoD(tables, pinned, 3 * BATCH * sizeof(void *)));
    BLAS(cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, (const float *const *)t, N,
                            (const float *const *)(t + BATCH), N, &zero, t + 2 * BATCH, N, BATCH));
    OK(cuStreamSynchronize(stream)); /* what is loaded at first use is loaded */
    OK(cuMemsetD8(tables, 0, 3 * BATCH * sizeof(void *)));
    OK(cuMemsetD8((CUdeviceptr)(uintptr_t)dc, 0, sizeof got));
    OK(cuCtxSynchronize());
    hold_t h = hold(stream);
    OK(cuMemcpyHtoDAsync(tables, pinned, 3 * BATCH * sizeof(void *), stream));
    BLAS(cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, (const float *const *)t, N,
                            (const float *const *)(t + BATCH), N, &zero, t + 2 * BATCH, N, BATCH));
    let_go(h);
    OK(cuStreamSynchronize(stream));
    to_host(got, dc, sizeof got);
    for (int i = 0; i < BATCH; i++)
        CHECK(same(got + (BATCH - 1 - i) * CELLS, product_of(a + i * CELLS, b + i * CELLS, N, N, N), CELLS));
    BLAS(cublasDestroy(handle));
}

/* behaviour: with beta 0 the old C is not read: NaN in it does not reach the result.
 * rules: none
 * source: cuBLAS documentation, cublas<t>gemm ("if beta == 0, C does not have to be a valid input")
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { M = 70, N = 33, K = 50 };
    const float one = 1, zero = 0;
    float *a = integers(M * K, 1), *b = integers(K * N, 2), *want = product_of(a, b, M, N, K), got[M * N];
    for (int i = 0; i < M * N; i++)
        got[i] = NAN;
    float *da = to_device(a, M * K * sizeof *a), *db = to_device(b, K * N * sizeof *b),
          *dc = to_device(got, sizeof got);
    cublasHandle_t handle = new_handle(NULL);
    BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, da, M, db, K, &zero, dc, M));
    to_host(got, dc, sizeof got);
    CHECK(same(got, want, M * N));
    /* The same for 16-bit factors, whose way may be another. */
    uint16_t *sa = bf16s(a, M * K), *sb = bf16s(b, K * N);
    void *ha = to_device(sa, M * K * 2), *hb = to_device(sb, K * N * 2);
    OK(cuMemsetD32((CUdeviceptr)(uintptr_t)dc, 0x7fc00000, M * N));
    BLAS(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, ha, CUDA_R_16BF, M, hb, CUDA_R_16BF, K,
                      &zero, dc, CUDA_R_32F, M, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    to_host(got, dc, sizeof got);
    CHECK(same(got, want, M * N));
    BLAS(cublasDestroy(handle));
}

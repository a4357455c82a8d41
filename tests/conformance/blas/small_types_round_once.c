/* behaviour: products of bf16 and fp16 are summed in fp32 and rounded to the result's type once, to nearest, ties to even.
 * rules: none
 * source: cuBLAS documentation, cublasGemmEx, compute type CUBLAS_COMPUTE_32F; IEEE 754 rounding as in cuda_bf16.h
 * uses: cublas
 */
#include "blas.h"

/* Sums of K ones, and one number more in each column: exact in fp32, too long for 16 bits. */
enum { M = 8, N = 32, K = 272 };

static float wanted(int column, int mantissa)
{
    const float exact = (float)(K - 16 + column), unit = exp2f(floorf(log2f(exact)) - (float)mantissa);
    return rintf(exact / unit) * unit; /* to nearest even */
}

static void check(cudaDataType type, uint16_t one, int mantissa, bool as_bf16)
{
    const float alpha = 1, beta = 0;
    uint16_t a[M * K], b[K * N], c[M * N];
    float wide[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = one;
    for (int j = 0; j < N; j++)
        for (int l = 0; l < K; l++)
            b[l + j * K] = l < K - 16 + j && l < K ? one : 0;
    cublasHandle_t handle = new_handle(NULL);
    void *da = to_device(a, sizeof a), *db = to_device(b, sizeof b), *dc = to_device(wide, sizeof wide);
    BLAS(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &alpha, da, type, M, db, type, K, &beta, dc,
                      CUDA_R_32F, M, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    to_host(wide, dc, sizeof wide);
    for (int j = 0; j < 16; j++)
        for (int i = 0; i < M; i++)
            CHECK(wide[i + j * M] == (float)(K - 16 + j));
    BLAS(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &alpha, da, type, M, db, type, K, &beta, dc,
                      type, M, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    to_host(c, dc, sizeof c);
    for (int j = 0; j < 16 && as_bf16; j++)
        for (int i = 0; i < M; i++)
            CHECK(float_of_bf16(c[i + j * M]) == wanted(j, mantissa));
    BLAS(cublasDestroy(handle));
}

CONFORMANCE
{
    check(CUDA_R_16BF, 0x3f80, 7, true);
    check(CUDA_R_16F, 0x3c00, 10, false); /* fp16 holds these numbers: only the sums are checked */
}

/* behaviour: the epilogue RELU_BIAS adds the bias of each row and cuts off below 0.
 * rules: none
 * source: cuBLASLt documentation, cublasLtEpilogue_t
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    enum { M = 64, N = 40, K = 32, CELLS = M * N };
    const uint32_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
    float *a = integers(M * K, 1), *b = integers(K * N, 2), *bias = integers(M, 3),
          *want = product_of(a, b, M, N, K), d[CELLS];
    void *da = to_device(a, M * K * sizeof *a), *db = to_device(b, K * N * sizeof *b),
         *dd = to_device(d, sizeof d), *dbias = to_device(bias, M * sizeof *bias);
    operation_t o = new_operation(M, N, K, CUDA_R_32F, CUDA_R_32F);
    SET(&o, EPILOGUE, epilogue);
    SET(&o, BIAS_POINTER, dbias);
    multiply(&o, da, db, dd);
    to_host(d, dd, sizeof d);
    for (int i = 0; i < CELLS; i++)
        want[i] = fmaxf(want[i] + bias[i % M], 0);
    CHECK(same(d, want, CELLS));
}

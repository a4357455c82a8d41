/* behaviour: the epilogue GELU_AUX_BIAS adds the bias, stores the sum as auxiliary matrix, and applies GELU to it.
 * rules: none
 * source: cuBLASLt documentation, cublasLtEpilogue_t
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    enum { M = 64, N = 48, K = 32, CELLS = M * N };
    const uint32_t epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    const int64_t ld = M;
    float *a = integers(M * K, 1), *b = integers(K * N, 2), *bias = integers(M, 3), d[CELLS], aux[CELLS];
    for (int i = 0; i < K * N; i++)
        b[i] /= 16; /* where GELU is neither 0 nor its argument; still exact in bf16 */
    float *want = product_of(a, b, M, N, K);
    uint16_t *sa = bf16s(a, M * K), *sb = bf16s(b, K * N);
    void *da = to_device(sa, M * K * 2), *db = to_device(sb, K * N * 2), *dd = to_device(d, sizeof d),
         *daux = to_device(aux, sizeof aux), *dbias = to_device(bias, M * sizeof *bias);
    operation_t o = new_operation(M, N, K, CUDA_R_16BF, CUDA_R_32F);
    SET(&o, EPILOGUE, epilogue);
    SET(&o, BIAS_POINTER, dbias);
    SET(&o, EPILOGUE_AUX_POINTER, daux);
    SET(&o, EPILOGUE_AUX_LD, ld);
    multiply(&o, da, db, dd);
    to_host(d, dd, sizeof d);
    to_host(aux, daux, sizeof aux);
    for (int i = 0; i < CELLS; i++)
        want[i] += bias[i % M];
    CHECK(same(aux, want, CELLS));
    for (int i = 0; i < CELLS; i++)
        want[i] = gelu_of(want[i]);
    CHECK(near(d, want, CELLS, 2e-3f)); /* GELU by erf or by tanh */
}

/* behaviour: the epilogue DGELU_BGRAD multiplies by GELU's slope at the auxiliary matrix and stores the sums of the result's rows.
 * rules: none
 * source: cuBLASLt documentation, cublasLtEpilogue_t
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    enum { M = 64, N = 48, K = 32, CELLS = M * N };
    const uint32_t epilogue = CUBLASLT_EPILOGUE_DGELU_BGRAD;
    const int64_t ld = M;
    const float h = 1e-2f;
    float *a = integers(M * K, 1), *b = integers(K * N, 2), *x = integers(CELLS, 3),
          *want = product_of(a, b, M, N, K), d[CELLS], sums[M], want_sums[M] = {0};
    uint16_t *sa = bf16s(a, M * K), *sb = bf16s(b, K * N), *saux, result[CELLS], bias[M];
    for (int i = 0; i < CELLS; i++)
        x[i] /= 2;
    saux = bf16s(x, CELLS);
    void *da = to_device(sa, M * K * 2), *db = to_device(sb, K * N * 2),
         *dd = to_device(result, sizeof result), *daux = to_device(saux, CELLS * 2),
         *dbias = to_device(bias, sizeof bias);
    operation_t o = new_operation(M, N, K, CUDA_R_16BF, CUDA_R_16BF);
    SET(&o, EPILOGUE, epilogue);
    SET(&o, BIAS_POINTER, dbias);
    SET(&o, EPILOGUE_AUX_POINTER, daux);
    SET(&o, EPILOGUE_AUX_LD, ld);
    multiply(&o, da, db, dd);
    to_host(result, dd, sizeof result);
    to_host(bias, dbias, sizeof bias);
    for (int i = 0; i < CELLS; i++) {
        d[i] = float_of_bf16(result[i]);
        want[i] *= (gelu_of(x[i] + h) - gelu_of(x[i] - h)) / (2 * h);
        want_sums[i % M] += want[i];
    }
    CHECK(near(d, want, CELLS, 0.01f));
    for (int i = 0; i < M; i++)
        sums[i] = float_of_bf16(bias[i]);
    CHECK(near(sums, want_sums, M, 0.05f));
}

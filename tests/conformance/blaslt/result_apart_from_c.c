/* behaviour: D may be another matrix than C, which then stays as it is.
 * rules: none
 * source: cuBLASLt documentation, cublasLtMatmul
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    enum { M = 64, N = 48, K = 32, CELLS = M * N };
    const float one = 1, two = 2;
    float *a = integers(M * K, 1), *b = integers(K * N, 2), *c = integers(CELLS, 3),
          *want = product_of(a, b, M, N, K), got[CELLS];
    void *da = to_device(a, M * K * sizeof *a), *db = to_device(b, K * N * sizeof *b),
         *dc = to_device(c, sizeof got), *dd = to_device(want, sizeof got);
    operation_t o = new_operation(M, N, K, CUDA_R_32F, CUDA_R_32F);
    BLAS(cublasLtMatmul(o.handle, o.desc, &one, da, o.a, db, o.b, &two, dc, o.c, dd, o.c, NULL, NULL, 0,
                        NULL));
    OK(cuCtxSynchronize());
    to_host(got, dc, sizeof got);
    CHECK(same(got, c, CELLS));
    for (int i = 0; i < CELLS; i++)
        want[i] += 2 * c[i];
    to_host(got, dd, sizeof got);
    CHECK(same(got, want, CELLS));
}

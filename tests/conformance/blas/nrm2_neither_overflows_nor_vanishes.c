/* behaviour: cublasSnrm2 is right where the squares are beyond fp32's range.
 * rules: none
 * source: cuBLAS documentation, cublas<t>nrm2 (accumulation in several phases to avoid overflow and underflow)
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    const float scales[] = {1e30f, 1e-30f};
    cublasHandle_t handle = new_handle(NULL);
    for (int s = 0; s < 2; s++) {
        float norm = 0, x[2] = {3 * scales[s], 4 * scales[s]};
        BLAS(cublasSnrm2(handle, 2, to_device(x, sizeof x), 1, &norm));
        CHECK(fabsf(norm / scales[s] - 5) <= 1e-5f);
    }
    BLAS(cublasDestroy(handle));
}

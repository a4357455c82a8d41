/* arena.cuh: the kernels of arena.c as C functions. All elementwise but sum. */
#ifndef EBB_TESTS_ARENA_CUH
#define EBB_TESTS_ARENA_CUH

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* to[n] += from[n] + 1 */
cudaError_t arena_add(float *to, const float *from, size_t n, cudaStream_t stream);
/* x[n] = 0.5 - 0.9 x[n] + by[0]: it never settles */
cudaError_t arena_scale(float *x, const float *by, size_t n, cudaStream_t stream);
/* out[0] = 1 / (1 + the square of the sum of x[n]) */
cudaError_t arena_sum(float *out, const float *x, size_t n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif

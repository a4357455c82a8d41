/* kernels.h: the kernels of kernels.cu, launched by `<<<>>>` from C, and by name. */
#ifndef RUNTIME_TEST_KERNELS_H
#define RUNTIME_TEST_KERNELS_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* p[i] = value for i < n, by `blocks` blocks of 64 threads. */
cudaError_t launch_fill(float *p, float value, int n, int blocks, cudaStream_t stream);
/* p[i] += value: a template's instance. */
cudaError_t launch_add(float *p, float value, int n, cudaStream_t stream);
/* p[0] += 1, after about `rounds` nanoseconds. */
cudaError_t launch_slow_increment(int *p, unsigned rounds, cudaStream_t stream);
/* Not marked BLOCK_SIZE_INDEPENDENT. */
cudaError_t launch_unmarked(int *p);
/* An impossible launch: more threads per block than any device has. */
cudaError_t launch_too_wide(float *p);
/* Writes beyond what is mapped. */
cudaError_t launch_wild_store(void);
/* An argument that launches itself: configurations nest. */
cudaError_t launch_nested(float *p, int n);

/* The host functions of fill and increment, for cudaLaunchKernel. */
extern const void *const fill_kernel;
extern const void *const increment_kernel;
/* A __device__ variable's host address. */
extern const void *const device_variable;

#ifdef __cplusplus
}
#endif
#endif

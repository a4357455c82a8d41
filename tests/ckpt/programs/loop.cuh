/* loop.cuh: the kernels of loop.c as C functions. All elementwise: the same bits whatever the block size. */
#ifndef EBB_TESTS_LOOP_CUH
#define EBB_TESTS_LOOP_CUH

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[n] = squash(in[n] * w[n % m] + shift), shift from host memory that a table on the device points to if `table` is not
 * NULL (which nobody sees from the arguments), else 0.1. */
cudaError_t loop_forward(float *out, const float *in, const float *w, float *const *table, size_t n, size_t m,
                         cudaStream_t stream);
/* x[n] = x[n] * gain + 0.01, in place, where flag[0] is not 0; else nothing is written. */
cudaError_t loop_adjust(float *x, const int *flag, float gain, size_t n, cudaStream_t stream);
/* x[n] and y[n] from each other, both in place. */
cudaError_t loop_couple(float *x, float *y, size_t n, cudaStream_t stream);
/* din[n] from dout[n]; dw[m] = sums over n; n is a multiple of m. */
cudaError_t loop_backward(float *din, float *dw, const float *dout, const float *in, const float *out, const float *w,
                          size_t n, size_t m, int add, cudaStream_t stream);
/* out[n] = in[n], but for every 16th element, which stays as it is. */
cudaError_t loop_rows(float *out, const float *in, size_t n, cudaStream_t stream);
/* out[n] = in[n] + beta * out[n]; what was there is not read where beta is 0. */
cudaError_t loop_blend(float *out, const float *in, float beta, size_t n, cudaStream_t stream);
/* x[n] *= by. */
cudaError_t loop_scale(float *x, float by, size_t n, cudaStream_t stream);
/* w[m] -= rate * dw[m], and the counter goes up: state on the device that every step changes. */
cudaError_t loop_update(float *w, const float *dw, unsigned *counter, float rate, size_t m, cudaStream_t stream);
/* sums[blocks of 16384] += sums of x[n]. */
cudaError_t loop_probe(float *sums, const float *x, size_t n, cudaStream_t stream);
/* The same, launched as a cooperative kernel. */
cudaError_t loop_probe_together(float *sums, const float *x, size_t n, cudaStream_t stream);
/* sums[0] += the float at address `hidden` ^ LOOP_MASK: nobody sees from the arguments that it is one. */
#define LOOP_MASK 0x5a5a5a5a5a5a5a5aull
cudaError_t loop_peek(float *sums, unsigned long long hidden, cudaStream_t stream);
/* x[n] = a fixed function of index and seed. */
cudaError_t loop_fill(float *x, unsigned seed, size_t n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

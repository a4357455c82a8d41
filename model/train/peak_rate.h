/* peak_rate.h: what GPUs can compute at most, for the model FLOP utilisation: the share of that which a run's tokens/s make
 * of the model's FLOPs (flops.h; Chowdhery et al., arXiv:2204.02311, appendix B).
 *
 * The rates are those of NVIDIA's own publications, dense: where a data sheet gives a rate "with sparsity", its half. A
 * consumer GPU's bf16 rate is the one with accumulation in fp32, which is all that training uses. fp32 is that of the CUDA
 * cores: fp32 products go through cublasSgemm in its default mode, which does not round to TF32.
 */
#ifndef EBB_MODEL_PEAK_RATE_H
#define EBB_MODEL_PEAK_RATE_H

#include "model/kernels/dtype.h"

/* FLOP/s of products of this type on the device of this name (cudaDeviceProp.name, exactly); 0: not known, and no guess. */
double peak_rate(const char *device_name, dtype_t dtype);

#endif

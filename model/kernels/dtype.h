/* dtype.h: the types of a tensor's elements.
 *
 * A run has one of them for its activations and for the weights that it computes with. Statistics, losses, gradients
 * of parameters, moments and masters are fp32 in every run, and every sum is accumulated in fp32. */
#ifndef EBB_MODEL_DTYPE_H
#define EBB_MODEL_DTYPE_H

#include <stddef.h>

typedef enum dtype {
    DTYPE_FP32,
    DTYPE_BF16 /* the upper half of an fp32 */
} dtype_t;

static inline size_t dtype_bytes(dtype_t dtype)
{
    return dtype == DTYPE_BF16 ? 2 : 4;
}

#endif

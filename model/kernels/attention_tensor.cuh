/* attention_tensor.cuh: what forward and backward of the attention on matrix instructions share. */
#ifndef EBB_MODEL_ATTENTION_TENSOR_CUH
#define EBB_MODEL_ATTENTION_TENSOR_CUH

#include "kernels.h"
#include "tensor.cuh"

/* Head h of sequence b. */
typedef struct tensor_head {
    const bf16 *q, *k, *v; /* rows `stride` apart */
    size_t stride;
} tensor_head_t;

static __device__ __forceinline__ tensor_head_t tensor_head(const bf16 *qkv, int b, int h, int T, int H,
                                                            int KV, int D)
{
    const size_t stride = ((size_t)H + 2 * (size_t)KV) * D;
    const bf16 *const sequence = qkv + (size_t)b * T * stride, *const k =
                                                                   sequence + ((size_t)H + h / (H / KV)) * D;
    const tensor_head_t head = {sequence + (size_t)h * D, k, k + (size_t)KV * D, stride};
    return head;
}

#endif

/* gpt2.h: GPT-2 (Radford et al., 2019): pre-LayerNorm blocks, GELU by tanh, learned positions, biases, and a
 * head that shares the token embedding's matrix. fp32.
 *
 * Parameters (parameters.h). Group 0: wte[V,C], wpe[context,C], then the last norm's weight[C] and bias[C].
 * Group 1 + l: block l, in the order of block_t (pass.h). Matrices are [out,in].
 *
 * Initial values: biases 0, norm weights 1, matrices normal with deviation 0.02; of proj_w and down_w, which
 * add to the residual stream, 0.02 / sqrt(2 layers). Element i of matrix number t is normal number i (rng.h)
 * of the stream RNG_INIT + t, times the deviation, rounded to fp32; t is 0 for wte, 1 for wpe, 2 + 4l + (0,
 * 1, 2, 3) for block l's qkv, proj, up and down.
 *
 * Everything is issued on gpu->stream and nothing waits.
 */
#ifndef EBB_MODEL_GPT2_H
#define EBB_MODEL_GPT2_H

#include <stdint.h>

#include "batch.h"
#include "gpu.h"
#include "options.h"
#include "parameters.h"

typedef struct gpt2 {
    gpu_t *gpu; /* borrowed */
    shape_t shape;
    attention_kind_t attention;
    parameters_t parameters;
    struct activations *kept; /* owns: one forward pass's, empty between passes */
} gpt2_t;

/* One micro-batch of a training step. */
typedef struct micro_batch {
    float *loss;     /* device: += scale * the sum of the rows' losses (overwritten unless accumulate) */
    float scale;     /* 1 / (rows of the whole step) */
    int accumulate;  /* not the first one of its step: add to gradients and loss */
    float dropout;   /* rate */
    uint64_t seed;   /* of dropout */
    uint64_t number; /* of this micro-batch since training began: chooses the masks */
} micro_batch_t;

/* Elements of a parameter group, and how many of them are matrices'; the arrays stay NULL. */
group_t gpt2_group(shape_t shape, int group);

void gpt2_open(gpt2_t *model, gpu_t *gpu, const options_t *options);
void gpt2_close(gpt2_t *model);

/* Forward and backward: writes or adds to every gradient. batch->T must be the model's context. */
void gpt2_train(gpt2_t *model, const batch_t *batch, micro_batch_t micro);

/* *loss (device) = sum of the losses of the batch's rows, in nats. Without dropout; keeps nothing. */
void gpt2_loss(gpt2_t *model, const batch_t *batch, float *loss);

/* Logits [V] after the last token of a batch of one sequence. The caller owns them. */
tensor_t gpt2_next(gpt2_t *model, const batch_t *batch);

#endif

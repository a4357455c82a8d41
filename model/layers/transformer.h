/* transformer.h: the model: pre-norm transformer blocks of either family (layout.h), forward and backward.
 *
 * Everything is issued on gpu->stream, but for what ranks tell one another (ranks.h), and nothing waits. With --zero 3 every rank makes the same
 * passes, in the same order: their values come from all of them.
 */
#ifndef EBB_MODEL_TRANSFORMER_H
#define EBB_MODEL_TRANSFORMER_H

#include <stdint.h>

#include "model/base/gpu.h"
#include "model/data/batch.h"
#include "model/layers/parameters.h"
#include "model/options/options.h"

/* A tensor saved for the backward pass: of block `layer` ("norm1.x", "attention.qkv", "mlp.up", ...), or, with the number of
 * layers, of the last norm. */
typedef void (*saved_fn)(void *context, int layer, const char *name, size_t bytes);

struct kv_cache;

typedef struct transformer {
    gpu_t *gpu; /* borrowed */
    shape_t shape;
    layout_t layout;
    dtype_t dtype;              /* of activations and working weights */
    attention_kind_t attention; /* not AUTO */
    parameters_t parameters;
    tensor_t rope;            /* fp32 [context,2,D/2]: rope.h; empty where positions are learned */
    struct activations *kept; /* owns: one forward pass's, empty between passes */
    int lean;                 /* --save lean */
    saved_fn saved;      /* NULL, or called for each tensor that a training step's forward pass has saved, */
    void *saved_context; /* with this */
} transformer_t;

/* One micro-batch of a training step. */
typedef struct micro_batch {
    float *loss;     /* device: += scale * the sum of the rows' losses (overwritten unless accumulate) */
    float scale;     /* 1 / (rows of the whole step) */
    int accumulate;  /* not the first one of its step: add to gradients and loss */
    float dropout;   /* rate */
    uint64_t seed;   /* of dropout */
    uint64_t number; /* of this micro-batch since training began: chooses the masks */
    const uint64_t
        *counter; /* unless NULL, instead of the number: device memory with its transformer_counter() */
    bool last;    /* of its step: gradients are then summed over all ranks */
} micro_batch_t;

/* With initial values; to generate (options->command), with weights alone, which are zero and cannot be trained. ranks: NULL to generate. */
void transformer_open(transformer_t *model, gpu_t *gpu, ranks_t *ranks, const options_t *options);
void transformer_close(transformer_t *model);

/* Which attention --attention has come to: "flash", "tensor" or "naive". */
const char *transformer_attention(const transformer_t *model);

/* The first Philox counter of a micro-batch B x T of that number. */
uint64_t transformer_counter(const transformer_t *model, int B, int T, uint64_t number);

/* Forward and backward: writes or adds to every gradient. A row whose target is -1 counts for nothing. */
void transformer_train(transformer_t *model, const batch_t *batch, micro_batch_t micro);

/* *loss (device) = sum of the losses of the batch's rows, in nats. Without dropout; keeps nothing. */
void transformer_loss(transformer_t *model, const batch_t *batch, float *loss);

/* The losses of the batch's rows [B,T], in nats. The caller owns them. Without dropout; keeps nothing. */
tensor_t transformer_row_losses(transformer_t *model, const batch_t *batch);

/* Logits [V] after the last token of a batch of one sequence, fp32. The caller owns them. The batch follows what the
 * cache (decode.h) has, of which it is one token unless the cache is empty; keys and values go there, the caller counts. */
tensor_t transformer_next(transformer_t *model, const batch_t *batch, const struct kv_cache *cache);

#endif

/* decode.h: a text that goes on token by token. The keys and values of its tokens are kept, so that the next token takes
 * a pass over one row, and attention over what is kept, instead of a pass over all of the text.
 *
 * Memory: allocated by decode_open in stream order, freed by decode_close; there is none of it in between.
 * Threads: the trainer's one. Functions that return logits wait for them.
 */
#ifndef EBB_MODEL_DECODE_H
#define EBB_MODEL_DECODE_H

#include "model/data/batch.h"
#include "model/layers/transformer.h"

typedef struct kv_cache {
    tensor_t
        rows; /* owned: [L,room,2KV,D] in the run's type: of each token the keys, turned by its position, and values */
    int room;  /* tokens */
    int count; /* tokens that are there */
} kv_cache_t;

typedef struct decode {
    transformer_t *model; /* borrowed */
    batch_ring_t *ring;   /* borrowed; nothing may be in flight in it */
    kv_cache_t cache;
} decode_t;

/* For texts of at most `room` tokens, which are at most the model's context. */
void decode_open(decode_t *decode, transformer_t *model, batch_ring_t *ring, int room);
void decode_close(decode_t *decode);

/* A new text: what was kept is forgotten. logits[classes]: of the first `classes` classes after tokens[count], fp32. */
void decode_start(decode_t *decode, const int *tokens, int count, float *logits, int classes);

/* The text's next token, for which there must be room. The logits are those of decode_start with the whole text, but for
 * rounding: sums have another order. */
void decode_next(decode_t *decode, int token, float *logits, int classes);

#endif

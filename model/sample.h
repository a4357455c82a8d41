/* sample.h: text from the model, token by token. */
#ifndef EBB_MODEL_SAMPLE_H
#define EBB_MODEL_SAMPLE_H

#include <stdint.h>

#include "batch.h"
#include "tokenizer.h"
#include "transformer.h"

/* Draws a class: softmax(logits / temperature) over the top_k largest logits (all if 0), the smaller class
 * first among equals; the largest one if temperature is 0. `random` decides. */
int sample_choose(const float *logits, int classes, double temperature, int top_k, uint64_t random);

/* Fills sample[options->sample] with what follows options->prompt, or else the token that ends a text: a full
 * forward pass over the last `context` tokens for each. Only the tokenizer's tokens are drawn. Nothing may be in
 * flight in the ring. Waits. */
void sample_tokens(transformer_t *model, batch_ring_t *ring, const options_t *options,
                   const tokenizer_t *tokenizer, int *sample);

#endif

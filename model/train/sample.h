/* sample.h: text from the model, token by token. */
#ifndef EBB_MODEL_SAMPLE_H
#define EBB_MODEL_SAMPLE_H

#include <stdint.h>

#include "model/data/batch.h"
#include "model/data/tokenizer.h"
#include "model/layers/transformer.h"

/* Draws a class: softmax(logits / temperature) over the top_k largest logits (all if 0), the smaller class
 * first among equals; the largest one if temperature is 0. `random` decides. */
int sample_choose(const float *logits, int classes, double temperature, int top_k, uint64_t random);

/* Where the window begins in which the token after `count` tokens is predicted: at 0 while they fit into the model's
 * context. When the window is full its older half is forgotten, so that it always begins at a multiple of half the context
 * and has at least that many tokens. */
size_t sample_window(size_t count, size_t context);

/* Fills sample[options->sample] with what follows options->prompt, or else the token that ends a text. A token takes a
 * pass over one row (decode.h), the first one of a window a pass over the window. Only the tokenizer's tokens are drawn. Nothing may be in
 * flight in the ring. Waits. */
void sample_tokens(transformer_t *model, batch_ring_t *ring, const options_t *options,
                   const tokenizer_t *tokenizer, int *sample);

/* The same as bytes, which the caller frees. */
unsigned char *sample_text(transformer_t *model, batch_ring_t *ring, const options_t *options,
                           const tokenizer_t *tokenizer, size_t *length);

/* The prompt and its sample, on stdout. Control characters, which could do anything to a terminal, become dots. */
void sample_print(const options_t *options, const unsigned char *text, size_t length);

#endif

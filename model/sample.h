/* sample.h: text from the model, byte by byte. */
#ifndef EBB_MODEL_SAMPLE_H
#define EBB_MODEL_SAMPLE_H

#include <stdint.h>

#include "batch.h"
#include "transformer.h"

/* Draws a class: softmax(logits / temperature) over the top_k largest logits (all if 0), the smaller class
 * first among equals; the largest one if temperature is 0. `random` decides. */
int sample_choose(const float *logits, int classes, double temperature, int top_k, uint64_t random);

/* Fills text[options->sample] with what follows options->prompt: a full forward pass over the last `context`
 * bytes for each byte. Nothing may be in flight in the ring. Waits. */
void sample_text(transformer_t *model, batch_ring_t *ring, const options_t *options, unsigned char *text);

#endif

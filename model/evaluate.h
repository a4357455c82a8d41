/* evaluate.h: the loss on the held-out part of the corpus. */
#ifndef EBB_MODEL_EVALUATE_H
#define EBB_MODEL_EVALUATE_H

#include "batch.h"
#include "transformer.h"

typedef struct evaluation {
    double loss;   /* mean, in nats per token */
    size_t tokens; /* over so many */
} evaluation_t;

/* Batches of at most B rows of T tokens, the first `most` of them (all if 0). Nothing may be in flight in the
 * ring. Waits. */
evaluation_t evaluate(transformer_t *model, batch_ring_t *ring, const corpus_t *corpus, int B, int T, size_t most);

#endif

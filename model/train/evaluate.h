/* evaluate.h: the loss on held-out tokens, and the share of multiple-choice questions that are answered right. */
#ifndef EBB_MODEL_EVALUATE_H
#define EBB_MODEL_EVALUATE_H

#include "model/data/batch.h"
#include "model/data/choices.h"
#include "model/data/data.h"
#include "model/layers/transformer.h"
#include "model/ranks/ranks.h"
#include "model/train/progress.h"

typedef struct evaluation {
    double loss;   /* mean, in nats per token */
    size_t tokens; /* over so many */
} evaluation_t;

/* What an evaluation takes: all borrowed. Nothing may be in flight in the ring. */
typedef struct evaluator {
    transformer_t *model;
    batch_ring_t *ring;
    progress_t *progress;
    ranks_t *ranks; /* which share the batches of a loss */
} evaluator_t;

/* Batches of at most B rows of T tokens, the first `most` of them (all if 0). Waits. */
evaluation_t evaluate(const evaluator_t *evaluator, const held_out_t *held_out, int B, int T, size_t most);

/* The first `most` questions (all if 0), in batches of at most B rows. Waits. */
choices_score_t evaluate_choices(const evaluator_t *evaluator, const choices_t *choices, int B, int most);

#endif

/* choices.h: multiple-choice questions (HellaSwag: Zellers et al., arXiv:1905.07830; MMLU) as llm.c writes them, and
 * how many a model answers right.
 *
 * The file: 256 little-endian int32: magic 20240522, version 1, number of examples, bytes of the longest
 * example; then the examples, each of uint16: 65535, the example's bytes, its number from 0, the number of the
 * right completion, the number of completions, the number of context tokens and those tokens, and for each
 * completion its number of tokens and those tokens. The file ends with the last example.
 *
 * The answer of a model is the completion with the largest log-likelihood after the context: the sum over the
 * completion's tokens (accuracy), or their mean (accuracy_norm); of equals, the first. A context that is too
 * long for the model loses its beginning; a completion that alone is too long is judged by its end.
 */
#ifndef EBB_MODEL_DATA_CHOICES_H
#define EBB_MODEL_DATA_CHOICES_H

#include <stddef.h>
#include <stdint.h>

#include "model/base/fault.h"

#define CHOICES_MOST 64 /* completions of an example */

typedef struct choices {
    uint16_t *words; /* owns: all examples */
    size_t *first;   /* owns [count + 1]: where in words each begins */
    int count;       /* examples */
} choices_t;

/* An example; borrows from the choices. */
typedef struct example {
    int right, completions;
    int context_length;
    const uint16_t *context;
    int lengths[CHOICES_MOST];
    const uint16_t *tokens[CHOICES_MOST];
} example_t;

/* Reads and checks a whole file; every token must be below vocab. */
bool choices_open(choices_t *choices, const char *path, int vocab, fault_t *fault);
void choices_close(choices_t *choices);

example_t choices_example(const choices_t *choices, int number);

/* ---- the evaluation (choices_score.c) ---- */

/* losses[B,T] = -log p(targets[b,t] | inputs[b,0..t]), in nats, of a model: rows do not depend on one another. */
typedef void (*choices_losses_fn)(void *context, const int *inputs, const int *targets, int B, int T,
                                  float *losses);

typedef struct choices_model {
    choices_losses_fn losses;
    void *context;
    int B, T; /* most rows of a call, and most tokens of a row */
} choices_model_t;

typedef struct choices_score {
    int examples, right, right_norm;
} choices_score_t;

/* Asks the first `most` examples (all if 0). False only if there is no memory. */
bool choices_evaluate(const choices_t *choices, choices_model_t model, int most, choices_score_t *score,
                      fault_t *fault);

#endif

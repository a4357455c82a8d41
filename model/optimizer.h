/* optimizer.h: a training step's end: gradient norm, clipping, AdamW; and the learning-rate schedule.
 *
 * Nothing waits: the norm and the clipping factor stay on the device, where the update reads them.
 */
#ifndef EBB_MODEL_OPTIMIZER_H
#define EBB_MODEL_OPTIMIZER_H

#include "options.h"
#include "parameters.h"

typedef struct optimizer {
    parameters_t *parameters; /* borrowed */
    tensor_t partials;        /* partial sums of squares of all gradients; zero between the groups' parts */
    size_t partial_count;
    float beta1, beta2, eps, decay, clip;
    int stochastic; /* bf16 copies are rounded so */
    uint64_t seed;  /* of that */
} optimizer_t;

void optimizer_open(optimizer_t *optimizer, parameters_t *parameters, const options_t *options);
void optimizer_close(optimizer_t *optimizer);

/* Updates all parameters from their gradients. result[0] (device) becomes the gradient's norm before
 * clipping, result[1] the factor that clipped it. step counts from 1. */
void optimizer_step(optimizer_t *optimizer, float *result, double rate, int step);

/* Learning rate of step 1 .. options->steps: rises linearly to options->rate over the warm-up steps, the last
 * of which has it in full, then falls along half a cosine (Loshchilov, Hutter, arXiv:1608.03983) to rate *
 * final_rate at the last step. */
double optimizer_rate(const options_t *options, int step);

#endif

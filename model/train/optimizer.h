/* optimizer.h: a training step's end: gradient norm, clipping, AdamW; and the learning-rate schedule.
 *
 * Nothing waits: the norm and the clipping factor stay on the device, where the update reads them.
 */
#ifndef EBB_MODEL_OPTIMIZER_H
#define EBB_MODEL_OPTIMIZER_H

#include "model/kernels/kernels.h"
#include "model/layers/parameters.h"
#include "model/options/options.h"

typedef struct optimizer {
    parameters_t *parameters; /* borrowed */
    tensor_t partials; /* [ranks, partial_count]: partial sums of squares of all gradients, shard by shard */
    size_t partial_count;
    tensor_t past; /* for outlier_check; empty: every step is taken */
    float threshold;
    float beta1, beta2, eps, clip;
    float decay, decay_outer; /* of the blocks' matrices; of group 0's */
    int stochastic;           /* bf16 copies are rounded so */
    uint64_t seed;            /* of that */
} optimizer_t;

void optimizer_open(optimizer_t *optimizer, parameters_t *parameters, const options_t *options);
void optimizer_close(optimizer_t *optimizer);

/* Updates all parameters from their gradients, unless the step is an outlier (--skip-outliers). loss and result are
 * on the device: result[0] becomes the gradient's norm before clipping, result[1] the factor that clipped it, or -1 if the
 * step is skipped, and result[2] whether it is, if outliers are. step counts from 1, skipped ones too. */
void optimizer_step(optimizer_t *optimizer, float *result, const float *loss, double rate, int step);

/* The same in two parts, for a step that is issued by a graph (step_graph.h): the numbers that change from step to step, on the
 * host; and all else, which takes them from device memory when it runs. */
enum { OPTIMIZER_SCALARS = 2 };
void optimizer_scalars(const optimizer_t *optimizer, double rate, int step,
                       adamw_scalars_t scalars[OPTIMIZER_SCALARS]);
void optimizer_any_step(optimizer_t *optimizer, float *result, const float *loss,
                        const adamw_scalars_t *scalars);

/* Learning rate of step 1 .. options->steps: rises linearly to options->rate over the warm-up steps, the last
 * of which has it in full; then x, from 0 to 1, is the share of the other steps that is done, and the rate is
 *   cosine    rate * (f + (1 - f) * (1 + cos(pi x)) / 2), f = final_rate (Loshchilov, Hutter, arXiv:1608.03983)
 *   linear    rate * (f + (1 - f) * (1 - x))
 *   constant  rate
 *   wsd       rate until the cooldown, the last steps, of which y, from 0 to 1, is done: rate * (f + (1 - f) * (1 -
 *             sqrt(y))) (warm-up, stable, decay: Hu et al., arXiv:2404.06395; the root: Haegele et al.,
 *             arXiv:2405.18392). The cooldown does not reach into the warm-up. */
double optimizer_rate(const options_t *options, int step);

#endif

/* train.h: one training run, from the corpus to the sample.
 *
 * A step issues everything on one stream and waits for nothing; then the host waits for the results of the
 * step before it (one copy of a few floats, and an event), logs them, and goes on. So the device always has a
 * step's work ahead of it, and the printed progress lags by one step.
 */
#ifndef EBB_MODEL_TRAIN_H
#define EBB_MODEL_TRAIN_H

#include "model/options/options.h"
#include "model/ranks/ranks.h"

/* As one of the world's ranks, all of which have the same options. */
void train(const options_t *options, world_t world);

#endif

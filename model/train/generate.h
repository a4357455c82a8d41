/* generate.h: `ebb-train generate`: text from a checkpoint, without data. */
#ifndef EBB_MODEL_GENERATE_H
#define EBB_MODEL_GENERATE_H

#include "model/options/options.h"

/* The prompt and what follows it, on stdout: with a training's seed and flags, the sample that it ends with. */
void generate(const options_t *options);

#endif

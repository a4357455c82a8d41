/* presets.h: the models that --model knows by name. */
#ifndef EBB_MODEL_PRESETS_H
#define EBB_MODEL_PRESETS_H

#include "model/options/options.h"

#define PRESETS "tiny, gpt2:124M, gpt2:355M, gpt2:774M, gpt2:1558M, llama:tiny, llama:1B, llama:7B, llama:8B"

/* Sets shape, batch and rate. A name that there is not ends the program: exit code 2. */
void preset_apply(options_t *options, const char *name);

#endif

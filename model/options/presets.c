#include "model/options/presets.h"

#include <string.h>

#include "model/base/check.h"

typedef struct preset {
    const char *name;
    shape_t shape;
    int batch;
    double rate;
} preset_t;

#define GPT2(L, C, H, T, V)                                                                                  \
    {                                                                                                        \
        .family = FAMILY_GPT2, .layers = L, .width = C, .heads = H, .context = T, .vocab = V, .tied = true,  \
        .norm_eps = 1e-5, .rope_theta = 1e4, .rope_factor = 1                                                \
    }
#define LLAMA(L, C, H, KV, F, T, V, TIED, THETA, FACTOR)                                                     \
    {                                                                                                        \
        .family = FAMILY_LLAMA, .layers = L, .width = C, .heads = H, .kv_heads = KV, .hidden = F,            \
        .context = T, .vocab = V, .tied = TIED, .norm_eps = 1e-5, .rope_theta = THETA, .rope_factor = FACTOR \
    }

/* tiny, the default, comes first.
 *
 * GPT-2's shapes: Radford et al., "Language models are unsupervised multitask learners", 2019; their rates: Brown et al.,
 * arXiv:2005.14165, table 2.1. Llama's shapes and rates: 7B is Llama 2's (Touvron et al., arXiv:2307.09288), 8B
 * Llama 3.1's (Grattafiori et al., arXiv:2407.21783), 1B Llama 3.2's (the published configuration; its rate is 8B's);
 * contexts are those of the pre-training. */
static const preset_t presets[] = {
    {"tiny", GPT2(3, 128, 4, 64, 256), 16, 4e-3},
    {"gpt2:124M", GPT2(12, 768, 12, 1024, 50257), 4, 6e-4},
    {"gpt2:355M", GPT2(24, 1024, 16, 1024, 50257), 4, 3e-4},
    {"gpt2:774M", GPT2(36, 1280, 20, 1024, 50257), 4, 2.5e-4},
    {"gpt2:1558M", GPT2(48, 1600, 25, 1024, 50257), 4, 2e-4},
    {"llama:tiny", LLAMA(3, 128, 4, 2, 352, 64, 256, false, 1e4, 1), 16, 4e-3},
    {"llama:1B", LLAMA(16, 2048, 32, 8, 8192, 8192, 128256, true, 5e5, 32), 1, 3e-4},
    {"llama:7B", LLAMA(32, 4096, 32, 32, 11008, 4096, 32000, false, 1e4, 1), 1, 3e-4},
    {"llama:8B", LLAMA(32, 4096, 32, 8, 14336, 8192, 128256, false, 5e5, 8), 1, 3e-4},
};
#define PRESET_COUNT (sizeof presets / sizeof *presets)

static const preset_t *find_preset(const char *name)
{
    for (size_t i = 0; i < PRESET_COUNT; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    usage_error("--model %s: no such preset; there are " PRESETS, name);
}

void preset_apply(options_t *options, const char *name)
{
    const preset_t *preset = find_preset(name);
    options_set_shape(options, &preset->shape);
    options->batch = preset->batch;
    options->rate = preset->rate;
}

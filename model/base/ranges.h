/* ranges.h: NVTX ranges name what the trainer is doing: step, micro-batch, forward, backward, embedding,
 * layer 0, attention, mlp, head, optimizer, evaluation, sample. Tools (profilers among them) show them;
 * nothing here depends on one being there, and without one a range costs a test of a pointer. */
#ifndef EBB_MODEL_RANGES_H
#define EBB_MODEL_RANGES_H

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

static inline void range_begin(const char *name)
{
    nvtxRangePushA(name);
}

static inline void range_begin_layer(int layer)
{
    char name[32];
    snprintf(name, sizeof name, "layer %d", layer);
    nvtxRangePushA(name);
}

static inline void range_end(void)
{
    nvtxRangePop();
}

#endif

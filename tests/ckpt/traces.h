/* traces.h: made-up steps for the tests of planner and checker. */
#ifndef TESTS_CKPT_TRACES_H
#define TESTS_CKPT_TRACES_H

#include "ckpt/trace/trace.h"

typedef struct trace_shape {
    uint32_t layers;        /* fewer than 512 */
    uint32_t width_chunks;  /* of one activation as wide as the residual stream */
    uint32_t weight_chunks; /* of a layer */
    uint32_t micro_batches;
    bool stored_scores; /* attention that keeps its scores */
    double kernel_ns;   /* per chunk that an operation touches */
} trace_shape_t;

/* One step of a transformer's training: forward, backward, optimizer. The caller owns it. */
ebb_trace_t *trace_of_transformer(const trace_shape_t *shape);

/* A uniform chain: forward operation i makes state i + 1 from state i, all of the same size and CHAIN_NS each, and backward
 * needs the states in the opposite order, state 0 last, which is always there. One gradient, updated in place. */
ebb_trace_t *trace_of_chain(uint32_t stages, uint32_t chunks);
enum { CHAIN_NS = 1000 };

/* A chain of stages by chance (Beaumont et al., Optimal checkpointing for heterogeneous chains, 2019): forward of a stage makes the next
 * state and something that only its own backward reads; backward of a stage reads both and the gradient, and makes the gradient of the
 * state before. Sizes and times are by chance. */
ebb_trace_t *trace_of_stages(uint32_t seed, uint32_t stages);

/* Steps by chance of other shapes, as chains of stages are: every buffer is written once, as a whole, and backward has an operation for each
 * of forward, with a gradient of its own. Sizes and times are by chance. */
typedef struct trace_family {
    const char *name;
    ebb_trace_t *(*make)(uint32_t seed, uint32_t size);
    uint32_t least, most; /* sizes for which the best plan can be found (plan_exact.h) */
} trace_family_t;

/* Stages that read the three states before them (dense skip connections); two layers of LSTM cells over time; down and up again with
 * connections across (U-Net). `size`: stages; moments; depths. The caller owns the trace. */
ebb_trace_t *trace_of_skips(uint32_t seed, uint32_t size);
ebb_trace_t *trace_of_lstm(uint32_t seed, uint32_t size);
ebb_trace_t *trace_of_unet(uint32_t seed, uint32_t size);

/* Those and chains of stages, up to one without a name. */
extern const trace_family_t trace_families[];

/* A chain of stages that save nothing but large states: with a slow link it is best to copy a few out, and to rebuild others from them (two
 * levels). */
ebb_trace_t *trace_of_two_levels(uint32_t seed, uint32_t stages);

/* Layers whose weights are gathered, by what nothing can repeat, before each is used, forward and backward, and freed behind that; `weight` and
 * `width` in chunks. If `reused`, all are gathered into one buffer. */
ebb_trace_t *trace_of_gathered(uint32_t layers, uint32_t weight, uint32_t width, bool reused);

/* A number by chance below another one. */
uint32_t trace_draw(uint32_t *state, uint32_t below);

/* Any step: buffers and operations by chance, with in-place updates, scratch, small buffers, unproven
 * operations. */
ebb_trace_t *trace_by_chance(uint32_t seed, uint32_t operations);

#endif

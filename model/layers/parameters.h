/* parameters.h: a model's parameters in the groups of its layout (layout.h), each group with its gradient and AdamW's two
 * moments.
 *
 * A group's arrays are allocations of their own with the same layout. What the passes compute with, `value`, has the
 * run's type; masters, gradients and moments are fp32. In an fp32 run the value is its own master.
 *
 * Several ranks (ranks.h). Each of R has a shard of every group, an R-th, and of what a group consists of keeps that shard alone, as --zero
 * says (Rajbhandari et al., arXiv:1910.02054):
 *
 *   0   nothing: every rank has all
 *   1   masters and moments: it updates its shard, and gets the others' values from them
 *   2   and gradients: all of a group's is there from the first micro-batch that writes it until it is summed in the last one (with one
 *       micro-batch in a step two or three blocks', with several all of them)
 *   3   and values: all of a block's are there while a pass is at it, and while it is at the one before; those outside of the blocks until
 *       the head's backward pass
 *
 * A gradient is summed shard by shard, each by its rank, at every level (at 0 the sums are then sent to all), and its norm is taken shard by shard.
 * So all levels have the same bits.
 *
 * Files. parameters_dump() writes, without any header, for each group in turn: masters, m, v, as little-endian fp32. The
 * state hash is taken over the same bytes in the same order: h = 0; for each 8 bytes, as a little-endian word w, h =
 * mix((h + 0x9e3779b97f4a7c15) xor w), mix being splitmix64's output function (rng.h: rng_hash). Groups have an even
 * number of elements.
 */
#ifndef EBB_MODEL_PARAMETERS_H
#define EBB_MODEL_PARAMETERS_H

#include <stdint.h>

#include "model/base/gpu.h"
#include "model/base/layout.h"
#include "model/layers/compression.h"
#include "model/ranks/ranks.h"

typedef struct group {
    size_t count;   /* elements */
    size_t decayed; /* the first so many are matrices */
    bool trained;   /* else it has a value alone, and is frozen */
    /* The rank's shard: its elements, with what fills up the last ones' (a multiple of 8 if there are several ranks); its first element in the
     * group; and how many are the group's. */
    size_t shard, first, mine;
    size_t start, kept; /* what this rank updates: its shard, or with --zero 0 all */

    /* [ranks * shard]. With --zero 3 the value is empty but from parameters_expect to parameters_done, from --zero 2 on the gradient but from
     * parameters_gradient until it is summed; then there is the rank's own [shard] of it. */
    tensor_t value, own_value;
    tensor_t gradient, own_gradient;
    tensor_t master, m, v;     /* of what it updates; master: empty in an fp32 run */
    cudaEvent_t there, summed; /* value, gradient, as of the last that was begun */
    bool awaited;              /* nothing has waited for `there` yet */
} group_t;

enum { SUMS_UNDER_WAY = 2 }; /* whose gradients still take memory, from --zero 2 on */

typedef struct parameters {
    gpu_t *gpu;                 /* borrowed */
    ranks_t *ranks;             /* borrowed; NULL: one */
    int zero;                   /* 0 with one rank */
    compression_t *compression; /* owns, whoever sets it; NULL: gradients are summed as they are */
    dtype_t dtype;
    group_t *groups;
    int group_count;
    group_t *summing[SUMS_UNDER_WAY]; /* NULL: none; the next one takes the place of [0] */
} parameters_t;

/* Allocates the layout's groups; everything zero. Unless they are trained, of `value` alone. ranks may be NULL. */
void parameters_open(parameters_t *parameters, gpu_t *gpu, ranks_t *ranks, int zero, const layout_t *layout,
                     dtype_t dtype, bool trained);
void parameters_close(parameters_t *parameters);

/* Of a group of so many elements, shared out to so many ranks: a shard's elements, the first of them, how many of them there are. */
typedef struct group_shard {
    size_t size, first, count;
} group_shard_t;
group_shard_t parameters_shard(size_t elements, int ranks, int rank);

/* The fp32 values of what a rank updates, whatever the run's type; what the passes will compute with, and the sum of its gradient, from
 * the same element on; and the latter from the rank's shard on. */
float *group_masters(const group_t *group);
void *group_kept_value(const group_t *group);
float *group_kept_gradient(const group_t *group);
float *group_own_gradient(const group_t *group);

/* Copies a group's values [count] to the device and waits. */
void parameters_upload(parameters_t *parameters, int group, const float *values);

/* Hashes weights and moments of all that is trained, and writes them to `path` unless it is NULL. Waits for the stream. Every rank calls it. */
uint64_t parameters_dump(const parameters_t *parameters, const char *path);

/* ---- what ranks share out (shards.c); with one rank nothing of it does anything ----
 * Every rank calls these in the same order. What they issue is ordered against the GPU's stream. */

/* A pass will use the group's value soon: its shards are on the way. */
void parameters_expect(parameters_t *parameters, int group);
/* What is issued now may read it. */
const tensor_t *parameters_use(parameters_t *parameters, int group);
/* What has been issued does, and nothing will until the next use. */
void parameters_done(parameters_t *parameters, int group);

/* What is issued now may write the group's gradient; empty: it is frozen. */
const tensor_t *parameters_gradient(parameters_t *parameters, int group);
/* All that writes it has been issued: it is summed over all ranks. */
void parameters_sum(parameters_t *parameters, int group);
/* All gradients are, for what is issued now. */
void parameters_summed(parameters_t *parameters);
/* The rank has updated what it does: the others get it. */
void parameters_updated(parameters_t *parameters, int group);

/* What has been updated is there for all that is issued from now on, without a wait of its own: a graph's operations cannot wait for those
 * that are not among them. */
void parameters_settle(parameters_t *parameters);

/* All of a group's masters or moments, of which this rank keeps `kept` (which may lie in a larger array): borrowed from it, or *room, which is
 * to be freed. */
const float *parameters_all(const parameters_t *parameters, const group_t *group, const float *kept,
                            tensor_t *room);

#endif

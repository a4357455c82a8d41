/* parameters.h: a model's parameters in groups, each group with its gradient and AdamW's two moments.
 *
 * A group is what one launch of the optimizer updates: the embeddings with the last norm, or one block. Its
 * four arrays are allocations of their own with the same layout: first the matrices (which weight decay
 * applies to), then the vectors.
 *
 * Files. parameters_dump() writes, without any header, for each group in turn: parameters, m, v, as
 * little-endian fp32. The state hash is taken over the same bytes in the same order: h = 0; for each 8 bytes,
 * as a little-endian word w, h = mix((h + 0x9e3779b97f4a7c15) xor w), mix being splitmix64's output function
 * (rng.h: rng_hash). Groups have an even number of elements.
 */
#ifndef EBB_MODEL_PARAMETERS_H
#define EBB_MODEL_PARAMETERS_H

#include <stdint.h>

#include "gpu.h"

typedef struct group {
    size_t count;   /* elements */
    size_t decayed; /* the first so many are matrices */
    tensor_t value, gradient, m, v;
} group_t;

typedef struct parameters {
    gpu_t *gpu; /* borrowed */
    group_t *groups;
    int group_count;
} parameters_t;

/* Allocates `group_count` groups whose count and decayed are given in `sizes`; everything zero. */
void parameters_open(parameters_t *parameters, gpu_t *gpu, const group_t *sizes, int group_count);
void parameters_close(parameters_t *parameters);

size_t parameters_count(const parameters_t *parameters);

/* Copies a group's initial values to the device and waits. */
void parameters_upload(parameters_t *parameters, int group, const float *values);

/* Hashes weights and moments, and writes them to `path` unless it is NULL. Waits for the stream. */
uint64_t parameters_dump(const parameters_t *parameters, const char *path);

#endif

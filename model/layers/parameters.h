/* parameters.h: a model's parameters in the groups of its layout (layout.h), each group with its gradient and AdamW's two
 * moments.
 *
 * A group's arrays are allocations of their own with the same layout. What the passes compute with, `value`, has the
 * run's type; masters, gradients and moments are fp32. In an fp32 run the value is its own master.
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

typedef struct group {
    size_t count;   /* elements */
    size_t decayed; /* the first so many are matrices */
    tensor_t value;
    tensor_t master; /* empty in an fp32 run */
    tensor_t gradient, m, v;
} group_t;

typedef struct parameters {
    gpu_t *gpu; /* borrowed */
    dtype_t dtype;
    group_t *groups;
    int group_count;
} parameters_t;

/* Allocates the layout's groups; everything zero. Unless they are trained, of `value` alone. */
void parameters_open(parameters_t *parameters, gpu_t *gpu, const layout_t *layout, dtype_t dtype,
                     bool trained);
void parameters_close(parameters_t *parameters);

size_t parameters_count(const parameters_t *parameters);

/* The fp32 values of a group, whatever the run's type. */
tensor_t *group_master(group_t *group);

/* Copies a group's values to the device and waits. */
void parameters_upload(parameters_t *parameters, int group, const float *values);

/* Hashes weights and moments, and writes them to `path` unless it is NULL. Waits for the stream. */
uint64_t parameters_dump(const parameters_t *parameters, const char *path);

#endif

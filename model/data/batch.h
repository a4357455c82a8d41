/* batch.h: batches on their way to the device: laid out in pinned memory, copied by the compute stream.
 *
 * A ring of pinned slots. Laying out a batch waits for nothing, so the caller promises that of the copies
 * issued, at most `slots` are unfinished: train.c by reading back each step's loss, evaluate.c by waiting now
 * and then.
 */
#ifndef EBB_MODEL_BATCH_H
#define EBB_MODEL_BATCH_H

#include "model/base/gpu.h"
#include "model/kernels/kernels.h"

/* On the device, for one forward pass and its backward pass; freed by batch_free. */
typedef struct batch {
    int B, T;
    const int *tokens;       /* [B,T] */
    const int *targets;      /* [B,T] */
    token_index_t index;     /* its count is the same for all batches of a size */
    const uint64_t *counter; /* what batch_refill was given; 0 otherwise */
    tensor_t memory;         /* owns all of the above */
} batch_t;

typedef struct batch_ring {
    gpu_t *gpu; /* borrowed */
    int V;
    int max_rows;   /* largest B*T */
    int slots;      /* batches that may be in flight */
    int next;       /* slot of the next one */
    int *pinned;    /* owns [slots, slot_ints] */
    int *workspace; /* owns [V] */
} batch_ring_t;

void batch_ring_open(batch_ring_t *ring, gpu_t *gpu, int max_rows, int V, int slots);
void batch_ring_close(batch_ring_t *ring);

/* Room for a batch, with nothing in it. */
batch_t batch_reserve(gpu_t *gpu, int V, int B, int T);

/* inputs[B,T] and targets[B,T] are copied before it returns. */
batch_t batch_upload(batch_ring_t *ring, const int *inputs, const int *targets, int B, int T);
/* Another content for a batch of the same size, in the order of the stream. */
void batch_refill(batch_ring_t *ring, batch_t *batch, const int *inputs, const int *targets,
                  uint64_t counter);
void batch_free(batch_ring_t *ring, batch_t *batch);

#endif

/* ranks.h: the processes that train one model together, a GPU each, and what they do together.
 *
 * Who starts them: torchrun, mpirun (Open MPI, MPICH), srun, or ebb-train itself (--gpus). Each sets other variables of the environment (world.c).
 * They meet by TCP, at MASTER_ADDR and MASTER_PORT (meet.c), and talk through NCCL, which is opened when there are several: libnccl.so.2, from
 * version 2.4 on.
 *
 * Sums. Each rank trains on sequences of its own, with parameters that all have or share out (parameters.h). As soon as a group's gradient is there
 * (layout.h: a block, or what is outside of them), it is summed over all ranks, on a stream of its own, while the backward pass goes on. The order in which NCCL adds is the same
 * in every run with so many ranks on such links (it depends on sizes and topology, not on time), so weights stay the same on all of them.
 *
 * With one rank nothing of this happens, and NCCL is not looked for.
 *
 * Threads: one.
 */
#ifndef EBB_MODEL_RANKS_H
#define EBB_MODEL_RANKS_H

#include <stdbool.h>

#include "model/base/gpu.h"

/* Who a process is. */
typedef struct world {
    int count, rank;
    int local; /* among those on this machine */
    const char *address;
    int port;
    const char *starter; /* "torchrun", ..., for messages; NULL: nobody, a world of one */
} world_t;

/* By the environment; wrong numbers there end the program. */
world_t world_find(void);

/* Starts the program with these arguments so often on this machine, waits, and returns the exit code: 0, or the first that was another. When one
 * ends badly the others are ended. */
int world_start(int count, char **argv);

/* ---- together ---- */

typedef struct ranks {
    world_t world;
    gpu_t *gpu;                        /* borrowed */
    const struct nccl_functions *nccl; /* NULL: a world of one */
    struct ncclComm *comm;
    cudaStream_t stream;
    cudaEvent_t ready, done;
    float *token; /* device; of ranks_agree */
} ranks_t;

/* Waits for the others. */
void ranks_open(ranks_t *ranks, gpu_t *gpu, world_t world);
void ranks_close(ranks_t *ranks);

/* What follows is done on the ranks' own stream, behind what the GPU's stream has been given. Every rank calls the same functions in the same
 * order. Pointers are to device memory. */

/* The ranks' stream waits for what the GPU's has been given so far. */
void ranks_follow(ranks_t *ranks);
/* values[count] become the sum over all ranks. */
void ranks_all_reduce(ranks_t *ranks, float *values, size_t count);
/* own[count] becomes the sum of the rank's shard of all[ranks, count], in which it may lie. */
void ranks_reduce_scatter(ranks_t *ranks, const float *all, float *own, size_t count);
/* all[ranks, bytes] becomes every rank's own[bytes], which may lie in it. */
void ranks_all_gather(ranks_t *ranks, const void *own, void *all, size_t bytes);

/* Waits until every rank has come here; whether all were good. */
bool ranks_agree(ranks_t *ranks, bool good);

/* Where the ranks' stream is. A stream that waits for it has everything so far. */
void ranks_mark(ranks_t *ranks, cudaEvent_t event);
/* The GPU's stream waits for everything so far. */
void ranks_join(ranks_t *ranks);

/* ---- meet.c ---- */

/* Every rank gets what rank 0 has: bytes[count], by TCP. Ends the program if they do not come within some minutes. */
void ranks_meet(const world_t *world, void *bytes, size_t count);

#endif

/* compression.h: gradients that ranks send each other in fewer bytes. What that loses is added to the next step's gradient (error
 * feedback), so that it comes late, but comes.
 *
 *   COMPRESS_POWERSGD   a matrix M[m,n] goes as P[m,r] Q[n,r]^T: P = M Q of the last step's Q, summed over all ranks, its columns made
 *                       orthonormal; Q = M^T P, summed. r (m + n) numbers instead of m n (Vogels et al., arXiv:1905.13727, algorithm 1). Vectors, and
 *                       matrices of which it would not halve the bytes, go as they are.
 *   COMPRESS_TOP        of a group each rank sends the k numbers of largest magnitude with their places, of equal ones the first
 *                       (Lin et al., arXiv:1712.01887; without what they do to the momentum, which is SGD's). They are added in the order of ranks.
 *
 * Only without shards (--zero 0). All of it is done on the ranks' stream, while the backward pass goes on. Every rank ends with the same sums, in every run
 * the same: products of the same numbers on GPUs of the same sort. With GPUs of several sorts weights would drift apart.
 *
 * What was lost is each rank's own, as large as its gradients. It is
 * only read when its group's gradient is there, so under ebb it may be elsewhere for most of a step.
 */
#ifndef EBB_MODEL_COMPRESSION_H
#define EBB_MODEL_COMPRESSION_H

#include <stdint.h>

#include "model/base/gpu.h"
#include "model/base/layout.h"
#include "model/ranks/ranks.h"

typedef enum compress { COMPRESS_NONE, COMPRESS_POWERSGD, COMPRESS_TOP } compress_t;

typedef struct compression compression_t;

/* `rank`: r of COMPRESS_POWERSGD, whose first Q is random, by the seed. `share`: k of COMPRESS_TOP is that part of a group, 1 at least.
 * gpu, ranks and layout are borrowed. NULL with COMPRESS_NONE, or if there is one rank. */
compression_t *compression_open(gpu_t *gpu, ranks_t *ranks, const layout_t *layout, compress_t how, int rank,
                                double share, uint64_t seed);
void compression_close(compression_t *compression);

/* A group's gradient, of which this rank has its own, becomes the sum over all ranks, or what the others are told of it. Every rank calls it
 * in the same order; on the ranks' stream, behind what the GPU's has been given. */
void compression_sum(compression_t *compression, int group, float *gradient);

/* What is kept of a group from step to step: what was lost, and of COMPRESS_POWERSGD the last Q, the same on every rank; empty if no
 * matrix goes as factors. */
typedef struct compression_kept {
    const tensor_t *lost, *q;
    size_t lost_count, q_count;
} compression_kept_t;
compression_kept_t compression_kept(const compression_t *compression, int group);
compress_t compression_how(const compression_t *compression);
/* Columns of Q; 0 with COMPRESS_TOP. */
int compression_rank(const compression_t *compression);

/* Bytes that a rank sends of each step's gradients, of fp32 without compression. */
size_t compression_bytes(const compression_t *compression);

#endif

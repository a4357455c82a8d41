/* ahead.h: training batches, read by a thread of their own while the training works.
 *
 * A bounded queue: the thread lays out at most AHEAD_BATCHES batches that are not taken yet, then waits. Which
 * tokens a batch has does not depend on when it is read (data.h). The thread makes no CUDA call and takes no
 * signals. What goes wrong in it is told by ahead_next(), to the thread that takes the batches.
 */
#ifndef EBB_MODEL_DATA_AHEAD_H
#define EBB_MODEL_DATA_AHEAD_H

#include "model/data/data.h"

#define AHEAD_BATCHES 4

typedef struct ahead ahead_t;

/* Batches of B training sequences, the first of them number q, the first of the next batch q + stride. Borrows the dataset, split for T,
 * until ahead_close(). NULL, with a fault, if there is no memory or no thread. */
ahead_t *ahead_open(const dataset_t *data, uint64_t seed, uint64_t q, uint64_t stride, int B, fault_t *fault);

/* The next batch's inputs[B,T] and targets[B,T], borrowed until the next call or ahead_close(). Waits for it. T is the dataset's; of documents that
 * of the longest, rounded up to a multiple of 8: behind the shorter ones are end tokens, and the target -1 (kernels.h: cross_entropy). */
bool ahead_next(ahead_t *ahead, const int **inputs, const int **targets, int *T, fault_t *fault);

/* Stops the thread, whatever it is doing, and waits for it. NULL is left alone. */
void ahead_close(ahead_t *ahead);

#endif

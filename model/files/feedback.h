/* feedback.h: what --compress keeps from step to step (compression.h), in a checkpoint. Each rank has a file of its own, lost-00001-of-00002.bin,
 * whose fields (state.h) are, in this order:
 *
 *   which one           uint64 step, rank, ranks
 *   how                 uint64 compress (compress_t), columns: of Q, or 0
 *   for each group g    float lost.g; with PowerSGD, where a matrix goes as factors, q.g
 *
 * As many ranks that compress in the same way go on with the same bits. Others begin without what was lost, and say so; a training that does
 * not compress has no use for it.
 */
#ifndef EBB_MODEL_FILES_FEEDBACK_H
#define EBB_MODEL_FILES_FEEDBACK_H

#include <stdint.h>

#include "model/base/fault.h"
#include "model/files/staging.h"

/* Both do nothing without compression. Every rank calls them. */
bool feedback_save(const char *checkpoint, const staging_t *staging, uint64_t step, fault_t *fault);
bool feedback_load(const char *checkpoint, const staging_t *staging, uint64_t step, fault_t *fault);

#endif

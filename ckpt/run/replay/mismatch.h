/* mismatch.h: what happens when an operation that was repeated has made other bits than before, whoever has noticed.
 *
 * With ebb_lock() held.
 */
#ifndef EBB_MISMATCH_H
#define EBB_MISMATCH_H

#include "alloc/ebb_alloc.h"
#include "ckpt/trace/trace.h"

/* Buffer `buffer` of the step, made again by `operation`, is not what it was: logged, and the operation is not repeated any
 * more, by a plan neither. `has_copy`: the right bytes are put back; else EBB_ON_MISMATCH says whether the program is told. */
void ebb_mismatch(ebb_t *ebb, ebb_trace_t *trace, uint32_t operation, uint32_t buffer, bool has_copy);

/* The content of a buffer of the step is lost for another reason: the program is told. */
void ebb_content_lost(ebb_t *ebb, uint32_t buffer, const char *why);

#endif

/* files.h: what libebb writes for others while the program runs: the trace (EBB_TRACE) and the plan (EBB_SAVE_PLAN) of each
 * kind of step.
 *
 * The kind that has something written first has the names that the options give; another one's files end in a dot and its
 * number, as the statistics give it. What a kind has written before is replaced. What cannot be written is logged. The statistics
 * are told of both (planned.h).
 *
 * With ebb_lock() held.
 */
#ifndef EBB_FILES_H
#define EBB_FILES_H

#include "alloc/ebb_alloc.h"
#include "ckpt/plan/plan.h"
#include "ckpt/trace/trace.h"

void ebb_files_trace(ebb_t *ebb, unsigned kind, const ebb_trace_t *trace);
void ebb_files_plan(ebb_t *ebb, unsigned kind, const ebb_plan_t *plan);
/* There is no such kind any more: the names that it had are free. */
void ebb_files_forget(ebb_t *ebb, unsigned kind);

#endif

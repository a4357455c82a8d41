/* completions.h: which replay completes what a discard has given up. */
#ifndef EBB_COMPLETIONS_H
#define EBB_COMPLETIONS_H

#include "ckpt/plan/plan.h"

/* [actions]: of a discard the last replay in the step that writes its place before something else happens to it; EBB_TRACE_NEVER:
 * there is none (its buffer is freed before anybody wants it back), or the action is none. NULL: no memory. The caller's, by free. */
uint32_t *ebb_plan_completions(const ebb_plan_t *plan, const ebb_trace_t *trace);

#endif

/* planning.h: the plan for a learned step, by what the options say: EBB_PLAN's, or that of the planner that EBB_POLICY names. */
#ifndef EBB_PLANNING_H
#define EBB_PLANNING_H

#include <stddef.h>

#include "plan.h"

/* A plan that has passed the checker, for so many device bytes, the host memory that is left, and the measured link; the
 * caller's. NULL: there is none, `why` says in one line why not. With ebb_lock() held. */
ebb_plan_t *ebb_planning(const ebb_trace_t *trace, size_t device_bytes, char *why, size_t why_bytes);

#endif

/* planning.h: the plan for a learned step, by what the options say: EBB_PLAN's, or that of the planner that EBB_POLICY names. */
#ifndef EBB_PLANNING_H
#define EBB_PLANNING_H

#include <stddef.h>

#include "ckpt/checker/checker.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/drive.h"

/* What copies get of the link; 0: as it is when nothing else uses it (ebb_link). */
typedef struct ebb_rates {
    double out, in; /* bytes per ns */
} ebb_rates_t;

/* The trace says on what device and link it was recorded; they are measured, if they have not been. With ebb_lock() held. */
void ebb_planning_describe(ebb_device_t *dev, ebb_trace_t *trace);

/* A plan that has passed the checker, for so many bytes of device and of pinned host memory, and the link; it agrees
 * with the boundary, if one is given; the caller's. NULL: there is none, `why` says in one line why not. With ebb_lock() held. */
ebb_plan_t *ebb_planning(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_check_limits_t *limits,
                         const ebb_rates_t *rates, const ebb_boundary_t *boundary, char *why,
                         size_t why_bytes);

/* The program has waited for copies longer than the plan foresaw, by more than 3% of a step, and they were slower than the rates
 * that it was made with, by more than a tenth: those become what was measured. With ebb_lock() held. */
bool ebb_planning_is_late(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_plan_t *plan,
                          const ebb_drive_pace_t *pace, ebb_rates_t *rates);

#endif

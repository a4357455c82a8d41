/* planned.h: for each kind of step that was learned or planned, where its trace is, what its plan was made for, and the plan:
 * behind the numbers in the file of EBB_STATS, so that `ebb report` has all of a run from one name. Kept as text from the time
 * when it is known, since the step may be forgotten before the process ends; only where both EBB_STATS and EBB_TRACE are set.
 *
 *   "planned": [{"kind": .., "trace": "path", "request": {"policy": .., "device_bytes": .., "host_bytes": .., "min_buffer": ..,
 *                "out_bytes_per_s": .., "in_bytes_per_s": ..}, "plan": [the lines of a plan's file (plan.h)]}]
 * kind: as in "kinds"; request and plan are missing where nothing was planned.
 *
 * With ebb_lock() held.
 */
#ifndef EBB_STATS_PLANNED_H
#define EBB_STATS_PLANNED_H

#include "alloc/ebb_alloc.h"
#include "ckpt/planner/planner.h"

/* What the next plan is for, whatever its kind. The policy is not kept. */
void ebb_planned_request(ebb_t *ebb, const ebb_plan_request_t *request);
void ebb_planned_trace(ebb_t *ebb, unsigned kind, const char *path);
void ebb_planned_plan(ebb_t *ebb, unsigned kind, const ebb_plan_t *plan);
/* There is no such kind any more. */
void ebb_planned_forget(ebb_t *ebb, unsigned kind);

/* ", "planned": [..]", on lines of its own; nothing if nothing is known. */
void ebb_planned_print(ebb_t *ebb, FILE *out);

#endif

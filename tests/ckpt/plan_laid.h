/* plan_laid.h: from a schedule to its plan. For CMocka programs: what fails, fails the test. */
#ifndef PLAN_LAID_H
#define PLAN_LAID_H

#include "ckpt/planner/internal.h"

/* The schedule's plan, on as many chunks as it takes; it has passed the checker. The caller's to delete. */
ebb_plan_t *plan_laid(const ebb_schedule_t *schedule, const ebb_model_t *model);

#endif

/* levels.h: how much memory is in use over a simulated step (simulate.h). */
#ifndef EBB_LEVELS_H
#define EBB_LEVELS_H

#include "ckpt/plan/simulate.h"

/* Fills in `level`, from the spans. False: no memory. */
bool ebb_simulate_levels(ebb_simulation_t *simulation, const ebb_plan_t *plan, const ebb_trace_t *trace);

#endif

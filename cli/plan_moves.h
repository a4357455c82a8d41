/* plan_moves.h: the buffers that a plan moves. */
#ifndef EBB_CLI_PLAN_MOVES_H
#define EBB_CLI_PLAN_MOVES_H

#include "ckpt/plan/plan.h"

/* Prints the buffers that leave the device in a step, the largest first: the first few, or all of them and why. False: no memory. */
bool ebb_show_moves(const ebb_trace_t *trace, const ebb_plan_t *plan, const ebb_hardware_t *hardware,
                    bool all);

#endif

/* auto.h: the planner that looks for the fastest plan, buffer by buffer. */
#ifndef EBB_PLANNER_AUTO_H
#define EBB_PLANNER_AUTO_H

#include "ckpt/planner/planner.h"

/* See ebb_planner_t. */
ebb_plan_t *ebb_auto_make(const ebb_trace_t *trace, const ebb_plan_request_t *request, const char *argument,
                          char *why, size_t why_bytes);

#endif

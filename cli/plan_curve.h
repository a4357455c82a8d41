/* plan_curve.h: what a step costs over the range of budgets. */
#ifndef EBB_CLI_PLAN_CURVE_H
#define EBB_CLI_PLAN_CURVE_H

#include "cli/report/curve.h"

/* Plans for budgets from the smallest that does to what keeping everything takes (`keep_bytes`), proves each, prints a line for
 * each, and draws them into an SVG file if there is a path. An exit code. */
int ebb_plan_curve(const ebb_trace_t *trace, const ebb_plan_request_t *request, uint64_t keep_bytes,
                   const char *svg);

/* A line for each point. */
void ebb_plan_curve_print(const ebb_curve_t *curve, uint64_t keep_bytes);

#endif

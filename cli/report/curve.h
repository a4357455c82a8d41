/* curve.h: what a step costs over the range of budgets, for `ebb plan --curve` and the report.
 *
 * From the smallest budget for which there is a plan to what keeping everything takes, in equal steps; each plan is proven.
 */
#ifndef EBB_REPORT_CURVE_H
#define EBB_REPORT_CURVE_H

#include "ckpt/planner/planner.h"

enum { EBB_CURVE_POINTS = 17, EBB_CURVE_SENSIBLE_PERCENT = 5 };

typedef struct ebb_curve_point {
    uint64_t budget_bytes;
    double percent;       /* that the step takes longer than its operations */
    double least_percent; /* that it would take longer at least, whatever the plan */
    uint64_t state_bytes; /* moved, of buffers that outlive the step: weights, moments */
    ebb_plan_sum_t sum;
} ebb_curve_point_t;

typedef struct ebb_curve {
    double most_percent;
    ebb_curve_point_t point[EBB_CURVE_POINTS]; /* by budget */
    unsigned count;
    int sensible; /* the first point from which on no step takes EBB_CURVE_SENSIBLE_PERCENT longer; -1: none */
    int state;    /* the last point at which state moves; -1: it never does */
} ebb_curve_t;

/* For the budgets given, in ascending order; those for which there is no plan are left out. False: `why` says why there is none, in one line. */
bool ebb_curve_at(ebb_curve_t *out, const ebb_trace_t *trace, const ebb_plan_request_t *request,
                  const uint64_t *budgets, unsigned count, char *why, size_t why_bytes);
/* The same, of so many points, 2 at least. `keep_bytes`: what keeping everything takes. False: `why` says why there is none, in one line. */
bool ebb_curve_make(ebb_curve_t *out, const ebb_trace_t *trace, const ebb_plan_request_t *request,
                    uint64_t keep_bytes, unsigned points, char *why, size_t why_bytes);

#endif

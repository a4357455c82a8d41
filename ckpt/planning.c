/* planning.c: the request that options and measurements make, and who answers it. */
#include "planning.h"

#include <stdio.h>

#include "checker.h"
#include "ebb_offload.h"
#include "log.h"
#include "options.h"
#include "pinned.h"
#include "planner.h"

static ebb_plan_request_t request_for(size_t device_bytes)
{
    ebb_link_t link = ebb_link();
    ebb_pinned_usage_t host = ebb_pinned_usage();
    return (ebb_plan_request_t){.policy = ebb_options.policy,
                                .device_bytes = device_bytes,
                                .host_bytes = host.budget_bytes - host.others_bytes,
                                .min_buffer = (uint64_t)ebb_options.min_buffer,
                                .offload = ebb_options.offload,
                                .recompute = ebb_options.recompute,
                                .hardware = {.out_bytes_per_ns = link.out, .in_bytes_per_ns = link.in},
                                .max_cost = (double)ebb_options.recompute_max_cost / 100,
                                .min_gap_ns = (uint64_t)ebb_options.offload_min_gap * 1000};
}

/* EBB_PLAN's, if it is good for this step; else NULL, logged. */
static ebb_plan_t *given_plan(const ebb_trace_t *trace, const ebb_plan_request_t *q)
{
    char why[256] = "";
    const ebb_check_limits_t limits = {q->device_bytes, q->host_bytes};
    ebb_plan_t *plan = ebb_plan_given(ebb_options.plan, trace, &q->hardware, why, sizeof why);
    if (plan && ebb_check_plan(trace, plan, &limits, why, sizeof why)) {
        ebb_log(EBB_INFO, "the plan in %s is good for this step", ebb_options.plan);
        return plan;
    }
    ebb_log(EBB_WARN, "the plan in %s is not driven, ebb makes its own: %s", ebb_options.plan, why);
    ebb_plan_delete(plan);
    return NULL;
}

static ebb_plan_t *own_plan(const ebb_trace_t *trace, const ebb_plan_request_t *q, char *why,
                            size_t why_bytes)
{
    char refusal[200] = "";
    const ebb_check_limits_t limits = {q->device_bytes, q->host_bytes};
    ebb_plan_t *plan = ebb_plan_make(trace, q, why, why_bytes);
    if (!plan || ebb_check_plan(trace, plan, &limits, refusal, sizeof refusal))
        return plan;
    snprintf(why, why_bytes, "a plan of ebb's own did not pass its check, please report this: %s", refusal);
    ebb_plan_delete(plan);
    return NULL;
}

ebb_plan_t *ebb_planning(const ebb_trace_t *trace, size_t device_bytes, char *why, size_t why_bytes)
{
    const ebb_plan_request_t q = request_for(device_bytes);
    ebb_plan_t *plan = *ebb_options.plan ? given_plan(trace, &q) : NULL;
    return plan ? plan : own_plan(trace, &q, why, why_bytes);
}

/* planning.c: the request that options and measurements make, and who answers it. */
#include "planning.h"

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

/* NULL, logged: there is none. */
static ebb_plan_t *own_plan(const ebb_trace_t *trace, const ebb_plan_request_t *q)
{
    char why[256] = "";
    const ebb_check_limits_t limits = {q->device_bytes, q->host_bytes};
    ebb_plan_t *plan = ebb_plan_make(trace, q, why, sizeof why);
    if (!plan) {
        ebb_log(EBB_WARN, "there is no plan for %zu MiB, ebb stays reactive: %s",
                (size_t)q->device_bytes >> 20, why);
        return NULL;
    }
    if (ebb_check_plan(trace, plan, &limits, why, sizeof why))
        return plan;
    ebb_log(EBB_WARN,
            "a plan of ebb's own did not pass its check, ebb stays reactive; please report this: %s", why);
    ebb_plan_delete(plan);
    return NULL;
}

ebb_plan_t *ebb_planning(const ebb_trace_t *trace, size_t device_bytes)
{
    const ebb_plan_request_t q = request_for(device_bytes);
    ebb_plan_t *plan = *ebb_options.plan ? given_plan(trace, &q) : NULL;
    return plan ? plan : own_plan(trace, &q);
}

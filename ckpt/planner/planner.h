/* planner.h: decides for every buffer of a trace, in each of its gaps, whether it is kept, offloaded or
 * dropped. There are several planners; all of them write the same kind of plan.
 *
 * Only large buffers (above half a chunk, and at least min_buffer) that are born and die within the step, or
 * outlive it on both sides, are moved. What a planner returns must pass the checker (checker.h); the caller
 * makes sure.
 */
#ifndef EBB_PLANNER_H
#define EBB_PLANNER_H

#include "alloc/base/options.h"
#include "ckpt/plan/plan.h"

typedef struct ebb_plan_request {
    const char *policy;    /* a policy's name, with its argument behind a colon; NULL: auto */
    uint64_t device_bytes; /* for places and the small region together */
    uint64_t host_bytes;   /* pinned, for host blocks */
    uint64_t min_buffer;   /* smaller ones are kept */
    bool offload, recompute;
    ebb_hardware_t hardware;
    double max_cost;     /* recompute nothing that costs more than this many times its transfer both ways;
                            0: no limit. Ignored without offload, and by fixed strategies */
    uint64_t min_gap_ns; /* offload nothing that lies idle for less */
    const ebb_boundary_t *boundary; /* that the plan agrees with; borrowed. NULL: none */
    uint64_t *
        smallest; /* if not NULL, gets the least device bytes that would have done, as far as they are known; 0: they are
                            not */
} ebb_plan_request_t;

/* A way to plan, as ebb_plan_make; the policies' (options.h). */
typedef ebb_plan_t *ebb_plan_maker_t(const ebb_trace_t *trace, const ebb_plan_request_t *request,
                                     const ebb_policy_t *policy, char *why, size_t why_bytes);
ebb_plan_maker_t ebb_auto_make, ebb_strategy_make;

/* ", auto, keep, ..": the policies that make plans. */
#define EBB_PLANNER_LISTED_NULL(text)
#define EBB_PLANNER_LISTED_ebb_auto_make(text)     text
#define EBB_PLANNER_LISTED_ebb_strategy_make(text) text
#define EBB_PLANNER_LIST(code, name, argument, make, tries)                                                  \
    EBB_PLANNER_LISTED_##make(EBB_POLICY_LIST(code, name, argument, make, tries))
#define EBB_PLANNER_POLICIES EBB_POLICIES(EBB_PLANNER_LIST)

/* The policy with its argument. False: there is none that makes plans, or the argument is not one of its. */
bool ebb_planner_find(ebb_policy_t *policy, const char *text);

/* A plan that fits, or NULL: `why` then says what is in the way, in one line, with the smallest device_bytes
 * that would do as far as it is known. Deterministic: the same trace and request give the same plan. A value
 * function: any thread. */
ebb_plan_t *ebb_plan_make(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                          size_t why_bytes);

/* The smallest device_bytes for which the request's planner has a plan, as far as it looks; 0: for none, or no memory. */
uint64_t ebb_plan_floor(const ebb_trace_t *trace, const ebb_plan_request_t *request);

/* A plan from a file, if it is one for this trace, with the time that it takes on this hardware; else NULL and why. It must
 * pass the checker like any other. */
ebb_plan_t *ebb_plan_given(const char *path, const ebb_trace_t *trace, const ebb_hardware_t *hardware,
                           char *why, size_t why_bytes);

#endif

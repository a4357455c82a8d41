/* planner.h: decides for every buffer of a trace, in each of its gaps, whether it is kept, offloaded or
 * dropped. There are several planners; all of them write the same kind of plan.
 *
 * Only large buffers (above half a chunk, and at least min_buffer) that are born and die within the step, or
 * outlive it on both sides, are moved. What a planner returns must pass the checker (checker.h); the caller
 * makes sure.
 */
#ifndef EBB_PLANNER_H
#define EBB_PLANNER_H

#include "ckpt/plan/boundary.h"
#include "ckpt/plan/simulate.h"

typedef struct ebb_plan_request {
    const char *policy;    /* a planner's name, with its argument behind a colon; NULL: auto */
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

/* A way to plan. `make` as ebb_plan_make; `argument` is what followed the name and a colon, or NULL. */
typedef struct ebb_planner {
    const char *name,
        *argument; /* argument: "N", a number from 1; "names", with commas; NULL: there is none */
    bool argument_needed;
    const char *help;
    ebb_plan_t *(*make)(const ebb_trace_t *trace, const ebb_plan_request_t *request, const char *argument,
                        char *why, size_t why_bytes);
} ebb_planner_t;

/* The planners one after another; NULL: there are not that many. The first one is `auto`. */
const ebb_planner_t *ebb_planner(unsigned index);
/* The planner that a policy names, with its argument; NULL: there is none, or the argument is not one of its. */
const ebb_planner_t *ebb_planner_find(const char *policy, const char **argument);

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

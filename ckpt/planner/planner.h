/* planner.h: decides for every buffer of a trace, in each of its gaps, whether it is kept, offloaded or
 * dropped.
 *
 * Only large buffers (above half a chunk, and at least min_buffer) that are born and die within the step, or
 * outlive it on both sides, are moved. What the planner returns must pass the checker (checker.h); the caller
 * makes sure.
 */
#ifndef EBB_PLANNER_H
#define EBB_PLANNER_H

#include "plan.h"

typedef struct ebb_plan_request {
    uint64_t device_bytes; /* for places and the small region together */
    uint64_t host_bytes;   /* pinned, for host blocks */
    uint64_t min_buffer;   /* smaller ones are kept */
    bool offload, recompute;
    double out_bytes_per_ns, in_bytes_per_ns; /* the link, each way */
    double max_cost;     /* recompute nothing that costs more than this many times its transfer both ways;
                            0: no limit. Ignored without offload */
    uint64_t min_gap_ns; /* offload nothing that lies idle for less */
} ebb_plan_request_t;

/* A plan that fits, or NULL: `why` then says what is in the way, in one line, with the smallest device_bytes
 * that would do as far as it is known. Deterministic: the same trace and request give the same plan. A value
 * function: any thread. */
ebb_plan_t *ebb_plan_make(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                          size_t why_bytes);

#endif

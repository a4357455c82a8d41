/* candidates.h: what all planners share: a model of the trace, schedules by the walk, plans of them, and the best plan so far.
 *
 * The best is the fastest that fits, of equally fast ones the first. If candidates and their order do not depend on the budget,
 * predicted time does not rise with the budget, and predicted peak does not fall: what a larger budget prefers is faster or
 * comes earlier, and so is something that the smaller one had no room for.
 */
#ifndef EBB_PLANNER_CANDIDATES_H
#define EBB_PLANNER_CANDIDATES_H

#include "planner_schedule.h"

typedef struct ebb_candidates {
    ebb_model_t model;
    ebb_schedule_t schedule;
    uint32_t limit;    /* chunks */
    uint32_t smallest; /* chunks of the smallest plan seen, EBB_NONE: none */
    uint64_t best_ns;
    ebb_plan_t *best;
    bool no_memory;
} ebb_candidates_t;

/* False: the trace cannot be planned, or not with this request; `why` says why, and there is nothing to end. Borrows both
 * until the end. */
bool ebb_candidates_begin(ebb_candidates_t *candidates, const ebb_trace_t *trace,
                          const ebb_plan_request_t *request, char *why, size_t why_bytes);
/* The best, which is the caller's, or NULL: `why` says why. */
ebb_plan_t *ebb_candidates_end(ebb_candidates_t *candidates, char *why, size_t why_bytes);

/* Nothing can be faster: no candidate needs to be tried any more. */
bool ebb_candidates_done(const ebb_candidates_t *candidates);
/* Replays that take longer make no plan faster than the best. */
uint64_t ebb_candidates_most_replay(const ebb_candidates_t *candidates);

/* Walks with a taste, and offers what comes of it. */
void ebb_candidates_try(ebb_candidates_t *candidates, const ebb_taste_t *taste);

/* Chunks that are in use at once if nothing is given up. 0: no memory. */
uint32_t ebb_candidates_keep_peak(ebb_candidates_t *candidates);

/* A fixed strategy (fates.h), as it is: its copies in early, or as late as they must be. */
void ebb_candidates_try_strategy(ebb_candidates_t *candidates, ebb_strategy_t strategy, const char *argument);

#endif

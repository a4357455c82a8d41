/* candidates.h: what all planners share: a model of the trace, schedules by the walk, plans of them, and the front of those that
 * nothing beats: from the smallest to the fastest.
 */
#ifndef EBB_PLANNER_CANDIDATES_H
#define EBB_PLANNER_CANDIDATES_H

#include "ckpt/planner/planner_schedule.h"

typedef struct ebb_candidate {
    uint32_t chunks;
    uint64_t ns;
    ebb_plan_t *plan; /* owned */
} ebb_candidate_t;

/* By chunks; none is slower than one before it. Owns its array and the plans in it. */
typedef struct ebb_front {
    ebb_candidate_t *candidate;
    uint32_t count, room;
} ebb_front_t;

typedef struct ebb_candidates {
    ebb_model_t model;
    ebb_schedule_t schedule;
    uint32_t limit;    /* chunks */
    uint32_t least;    /* plans that take fewer chunks take as many as these */
    uint64_t floor_ns; /* plans that are faster are not taken */
    uint32_t reached;  /* the plan that is chosen takes as many chunks */
    ebb_front_t front;
    uint32_t tries;  /* walks with their plans */
    uint32_t chunks; /* that the last plan takes; 0: there is none */
    bool no_memory;
} ebb_candidates_t;

/* False: the trace cannot be planned, or not with this request; `why` says why, and there is nothing to end. Borrows both
 * until the end. */
bool ebb_candidates_begin(ebb_candidates_t *candidates, const ebb_trace_t *trace,
                          const ebb_plan_request_t *request, char *why, size_t why_bytes);
/* The best, which is the caller's, or NULL: `why` says why. */
ebb_plan_t *ebb_candidates_end(ebb_candidates_t *candidates, char *why, size_t why_bytes);

/* The fastest that takes no more chunks, of equally fast ones the largest, which moves least; NULL: there is none. Valid until the next is tried. */
const ebb_candidate_t *ebb_candidates_best(const ebb_candidates_t *candidates, uint32_t chunks);
/* Empties the front, for a search that knows nothing of what others have found; what it was, which is to be joined with what comes of
 * that. */
ebb_front_t ebb_candidates_apart(ebb_candidates_t *candidates);
void ebb_candidates_join(ebb_candidates_t *candidates, ebb_front_t *others);

/* Nothing can be faster than what there is for so many chunks. */
bool ebb_candidates_done(const ebb_candidates_t *candidates, uint32_t chunks);

/* What replays may take for a plan to be faster than this one; NULL: anything. */
uint64_t ebb_candidates_slack(const ebb_candidates_t *candidates, const ebb_candidate_t *rival);

/* Walks with a taste, and offers what comes of it. What came of it at best, in ns; UINT64_MAX: nothing. */
uint64_t ebb_candidates_try(ebb_candidates_t *candidates, const ebb_taste_t *taste);

/* Chunks that are in use at once if nothing is given up. 0: no memory. */
uint32_t ebb_candidates_keep_peak(ebb_candidates_t *candidates);

/* A fixed strategy (fates.h), as it is: its copies in early, or as late as they must be. Given up where its replays alone make it
 * slower than a candidate that fits. */
void ebb_candidates_try_strategy(ebb_candidates_t *candidates, const ebb_policy_t *policy);

#endif

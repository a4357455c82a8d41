/* bound.h: what no plan can do better: the least time of a step within so many chunks. For levels that need not be searched
 * (auto.c), and to tell how far a plan is from the best one.
 *
 * One moment of the step is looked at: an operation is at work, and of all that the step still needs then, besides what that
 * operation touches, what does not fit is on the host or dropped. What is on the host goes over the link both ways, between its
 * last use before and its next one after; what is dropped is made again, each replay that this takes counted once, with all that it
 * reads at hand. What the step takes longer may give the link more time: the least that is enough is the bound. It is a relaxation:
 * fractions of buffers may go, either way of the link has the other's waits, memory at other moments is free, and so are
 * comparing, the host's calls and the latency of copies.
 */
#ifndef EBB_PLANNER_BOUND_H
#define EBB_PLANNER_BOUND_H

#include "ckpt/planner/planner_model.h"

/* What is idle at the moment and could go; a group: what the replay of one operation brings back. */
typedef struct ebb_bound_item {
    uint32_t chunks;
    double out_ns, in_ns; /* of the link */
    /* from its last use to the moment, and from there to its next use, if nothing ever waits */
    double before, behind;
} ebb_bound_item_t;

typedef struct ebb_bound_group {
    uint32_t chunks;
    double ns;
} ebb_bound_group_t;

/* Owns its arrays. */
typedef struct ebb_bound {
    uint64_t step_ns; /* without a plan */
    double copy_cost; /* that compute takes longer, for each nanosecond of a copy */
    uint32_t needed;  /* chunks, at the moment */
    /* [item_count] by `before`, by `behind`, and by chunks for their time of the link */
    ebb_bound_item_t *out, *in, *dense_out, *dense_in;
    ebb_bound_group_t *group; /* by what a chunk costs */
    uint32_t item_count, group_count;
} ebb_bound_t;

/* Takes the moment at which most is needed. False: no memory; nothing is owned then. */
bool ebb_bound_make(ebb_bound_t *bound, const ebb_model_t *model);
void ebb_bound_delete(ebb_bound_t *bound);

/* No plan within so many chunks has a shorter step; UINT64_MAX: there is none. Where the program has several streams: what the step
 * takes without a plan. */
uint64_t ebb_bound_ns(const ebb_bound_t *bound, uint32_t chunks);

#endif

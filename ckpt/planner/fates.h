/* fates.h: the fixed strategies: what each of them does with what a forward saves, wherever there is a budget or not.
 *
 * A strategy says which borders (stages.h) are checkpoints while a stage is being reversed: what goes over them is held then.
 * What the stage itself needs is rebuilt from there and stays until it is reversed; everything else that was saved is dropped
 * and rebuilt when it is needed. The walk follows this instead of looking for the cheapest when memory runs out; what cannot be
 * rebuilt is kept.
 *
 *   keep         gives nothing up
 *   offload      copies out what forward saves, if there is time for both copies before it is needed
 *   uniform:N    every N-th border is a checkpoint
 *   sqrt         borders that balance the checkpoints against the largest segment: 2 sqrt(n) of n equal stages at most, one
 *                forward more at most (Chen, Xu, Zhang, Guestrin: Training Deep Nets with Sublinear Memory Cost, 2016,
 *                arXiv:1604.06174, section 3)
 *   recursive    the border in the middle of what is left to reverse, and so on into its second half: log2(n) checkpoints,
 *                less than n/2 log2(n) stages more (there, section 4.3)
 *   revolve:N    N checkpoints, the start counted, and the fewest stages that are possible with so many (Griewank, Walther:
 *                Algorithm 799, revolve, ACM TOMS 26(1), 2000)
 *   selective    drops what is cheap: what takes less time a byte to make again than all that is saved together (with names:
 *                what operations in NVTX ranges or kernels of such a name make), and rebuilds it from what is held: all that is
 *                not dropped, and what goes over borders. Names that cover stages which save nothing but what goes over their
 *                border (a chain of single operations, say) drop that too; where they cover many in a row, but for the root of
 *                their number
 */
#ifndef EBB_PLANNER_FATES_H
#define EBB_PLANNER_FATES_H

#include "ckpt/planner/stages.h"

typedef enum ebb_fate { EBB_KEEP, EBB_FORGET, EBB_DROP, EBB_OFFLOAD } ebb_fate_t;

/* Owns its arrays; borrows the model. */
typedef struct ebb_fates {
    const ebb_model_t *model;
    ebb_policy_code_t strategy;
    uint32_t number;   /* of uniform and revolve */
    const char *names; /* of selective, with commas; NULL: none. Borrowed from the policy */
    ebb_stages_t stages;
    uint32_t *segment; /* per stage */
    uint8_t *fate;     /* per content: what it meets when it is not held */
    uint32_t *
        checkpoints; /* per stage, while `stage` is reversed: how many borders up to its own are checkpoints */
    uint32_t stage, segments;
} ebb_fates_t;

/* False: no memory. */
bool ebb_fates_make(ebb_fates_t *fates, const ebb_model_t *model, const ebb_policy_t *policy);
void ebb_fates_delete(ebb_fates_t *fates);

/* Another operation is being prepared. True: another segment is reversed from here on. */
bool ebb_fates_turn(ebb_fates_t *fates, uint32_t operation);
/* What becomes of a content that the walk could give up now, whose next use is `next` (EBB_NONE: there is none). */
ebb_fate_t ebb_fates_of(const ebb_fates_t *fates, uint32_t content, uint32_t operation, uint32_t next);

/* The fewest stages that must be gone through to reverse `length` of them with so many checkpoints, the start counted: the
 * t(l, c) of Algorithm 799. `length` and `checkpoints` at least 1. */
uint64_t ebb_revolve_cost(uint32_t length, uint32_t checkpoints);

#endif

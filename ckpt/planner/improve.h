/* improve.h: local search: from one schedule to a better one, in the prices that the walk decides by. */
#ifndef EBB_IMPROVE_H
#define EBB_IMPROVE_H

#include "ckpt/planner/candidates.h"

/* Prices that have proven good, from one target to the next: what is dear to give up under one limit is so under another that is
 * not far from it. Owns its arrays; borrows the candidates. */
typedef struct ebb_improver {
    ebb_candidates_t *candidates;
    uint32_t buffers;
    double *drop, *offload;           /* per buffer: ns on top of the price, being tried */
    double *best_drop, *best_offload; /* of the best so far */
    uint64_t chance;
    uint32_t round;
} ebb_improver_t;

/* All prices zero, at the beginning and again. False: no memory; there is nothing to end then. */
bool ebb_improver_begin(ebb_improver_t *improver, ebb_candidates_t *candidates);
void ebb_improver_reset(ebb_improver_t *improver);
void ebb_improver_end(ebb_improver_t *improver);

/* Walks `walks` times more with this taste, which came to `ns` without prices, for plans that fit `chunks`: first with those that are known; then, from the best
 * so far each time, with what the simulator says was wrong about it: what compute waited for becomes dearer to move, what was
 * replayed again and again dearer to drop; and a little of everything by chance. What comes of it goes to the candidates.
 * Deterministic. */
void ebb_improve(ebb_improver_t *improver, const ebb_taste_t *taste, uint32_t chunks, uint64_t ns,
                 uint32_t walks);

#endif

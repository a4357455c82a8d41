/* improve.h: local search: from one schedule to a better one. */
#ifndef EBB_IMPROVE_H
#define EBB_IMPROVE_H

#include "candidates.h"

/* Walks `walks` times more with this taste, which came to `ns`, and with what the simulator says was wrong about it: what compute
 * waited for becomes dearer to move, what was replayed again and again dearer to drop; and a little of everything by chance. From
 * the best so far each time. What comes of it goes to the candidates. Deterministic. */
void ebb_improve(ebb_candidates_t *candidates, const ebb_taste_t *taste, uint64_t ns, uint32_t walks);

#endif

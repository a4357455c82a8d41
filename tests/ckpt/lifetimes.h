/* lifetimes.h: made-up buffers for packing (planner.h), for its test and bench_planner. */
#ifndef TESTS_CKPT_LIFETIMES_H
#define TESTS_CKPT_LIFETIMES_H

#include "ckpt/planner/planner.h"

/* A rectangle of `points` of time (above `count`) and so many bytes, cut into `count` pieces, each across one piece that is there: they fit
 * into exactly its height. In no order. */
void lifetimes_by_cuts(ebb_lifetime_t *lifetime, uint32_t count, uint32_t points, uint32_t bytes,
                       uint32_t seed);

/* Small buffers as a step has them: one is born at each point. Most die soon; some of the first half die in the second one, the last
 * ones first. */
void lifetimes_of_step(ebb_lifetime_t *lifetime, uint32_t count, uint32_t seed);

/* What is alive at once at most. */
uint64_t lifetimes_alive(const ebb_lifetime_t *lifetime, uint32_t count);

#endif

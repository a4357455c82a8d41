/* plan_dtr.h: what greedy eviction at run time makes of a step: what plans are measured against. By Dynamic Tensor Rematerialization
 * (Kirisame et al., ICLR 2021) with its best heuristic, h_DTR: when memory is short, what goes is the content whose making again, with
 * all evicted ones around it that this takes or saves, costs least for its size and the time for which it was not used.
 *
 * Recomputing only, on one stream. Contents are versions of buffers. What outlives the step stays, as does what operations without
 * proofs have made, and what is not large; what dies may be made again as an input of others. Memory is counted in chunks.
 */
#ifndef TESTS_CKPT_PLAN_DTR_H
#define TESTS_CKPT_PLAN_DTR_H

#include "ckpt/trace/trace.h"

/* The time of the step within so many chunks, the operations' own included; UINT64_MAX: it runs out of memory. Aborts without host
 * memory. */
uint64_t plan_dtr_ns(const ebb_trace_t *trace, uint32_t chunks);

#endif

/* plan_exact.h: the shortest step that is possible, by going through all that may be resident: what plans are measured against.
 *
 * For small steps of one stream in which every large buffer is written once, as a whole, and nothing is copied: between two launches
 * anything may be dropped and any launch replayed whose inputs are there. Chunks are counted, not placed.
 */
#ifndef TESTS_CKPT_PLAN_EXACT_H
#define TESTS_CKPT_PLAN_EXACT_H

#include "ckpt/planner/planner.h"

/* The time of the shortest step within so many chunks; UINT64_MAX: there is none. The trace has at most 32 buffers. Aborts without
 * memory. (Dijkstra: A note on two problems in connexion with graphs, 1959; a state is the next launch and what is resident.) */
uint64_t plan_exact_ns(const ebb_trace_t *trace, uint32_t chunks);

#endif

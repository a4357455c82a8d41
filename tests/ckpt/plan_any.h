/* plan_any.h: requests by chance for one step. For CMocka programs: what fails, fails the test. */
#ifndef PLAN_ANY_H
#define PLAN_ANY_H

#include "ckpt/trace/trace.h"

/* Asks for so many plans: times as a program might measure them (the trace keeps the last), budgets from the widest operation to what keeps
 * everything, hosts, links, prices, means and policies by chance (rand). Each plan must pass the checker. How many there are. */
unsigned plan_any(ebb_trace_t *trace, unsigned requests);

/* What is taken by a buffer of a chunk's half and less: none of its own. */
uint64_t plan_chunks(const ebb_trace_t *trace, uint32_t buffer);
/* Bytes of the operation that touches most, in whole chunks. */
uint64_t plan_widest(const ebb_trace_t *trace);

#endif

/* plan_oracle.h: executes a plan on a tiny memory, and compares what operations read with the same steps
 * without any plan.
 *
 * Shares nothing with the checker: it knows no versions' clocks and proves nothing, it runs. Memory is one
 * cell per chunk, and copies that are spared (ebb_plan_spared) are not made from the second step on; a cell holds a 64-bit value and which part of it. A launch reads its buffers, mixes what it
 * read with its own number and the step, and writes the result; copies go chunk by chunk. The program's streams, out and in
 * are queues whose heads run piece by piece in an order drawn from a seed, from evenly mixed to one stream
 * starving the others, as far as the program's events, waits, joins and orders allow.
 */
#ifndef PLAN_ORACLE_H
#define PLAN_ORACLE_H

#include "ckpt/plan/plan.h"

/* False: something read wrong values or a step ended wrong; `what` says what. The plan's indices must be in
 * range. */
bool oracle_run(const ebb_trace_t *trace, const ebb_plan_t *plan, unsigned seed, char *what,
                size_t what_bytes);

/* Leaves the plan before every operation of two steps, with the driver's own books (which place and which
 * host block it believes to hold a live buffer): false if these would not give every live buffer its content,
 * by rebuilding where needed. */
bool oracle_leave(const ebb_trace_t *trace, const ebb_plan_t *plan, char *what, size_t what_bytes);

/* Both: runs by so many seeds from the given one on, and leaving. */
bool oracle_executes(const ebb_trace_t *trace, const ebb_plan_t *plan, unsigned seed, unsigned runs,
                     char *what, size_t what_bytes);

#endif

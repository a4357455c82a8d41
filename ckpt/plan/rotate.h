/* rotate.h: buffers that are another one of the trace in the next step (trace.h: next).
 *
 * Such buffers form rings. A chain begins with one that is born in the step and outlives it, goes on through those that it is
 * in the steps behind, and ends with one that dies; a cycle is what changes places. A ring of n buffers has n places: in the
 * first step of a plan, buffer i is in place i; with each step every content stays where it is and goes by its next number,
 * and the one that is born gets the place of the one that has died. After n steps all is as in the first one; after the
 * period, the least common multiple of all rings, the whole step is.
 *
 * Values; any thread.
 */
#ifndef EBB_ROTATE_H
#define EBB_ROTATE_H

#include "ckpt/trace/trace.h"

enum { EBB_MOST_TURNS = 12 }; /* the longest period */

/* The period in steps; 1: nothing rotates. 0: what outlives the step forms no rings of equal buffers, or the period is too
 * long; `why` says which buffer, in one line. */
uint32_t ebb_rotation_period(const ebb_trace_t *trace, char *why, size_t why_bytes);

/* From one step to the next: place [buffers], by the buffers' numbers. The period must not be 0. */
void ebb_rotation_turn(const ebb_trace_t *trace, uint32_t *place);

#endif

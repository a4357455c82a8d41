/* step.h: finds the training step in the sequence of operations, and its boundaries from then on.
 *
 * An operation is seen as its signature (function, geometry, shape of arguments: no addresses, no scalar
 * values) and the fewest bytes that were in live buffers since the operation before. A step is a stretch that
 * repeats at once, gives back all that it allocates, and is longer than any repetition that has turned out to
 * be none before: the layers of a network repeat too, but a forward pass keeps allocating, and the launches
 * of an optimizer come to an end.
 *
 * Once found, the step is a word that is searched for in what follows (Knuth, Morris, Pratt, "Fast pattern
 * matching in strings", SIAM J. Comput. 6, 1977), so that an evaluation or a save in between costs the step
 * it interrupts and no more. The boundary is put where the fewest bytes are live.
 *
 * A finder is a value without outside references but its own memory; any thread, one at a time.
 */
#ifndef EBB_STEP_H
#define EBB_STEP_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef enum ebb_step_event {
    EBB_STEP_NONE,     /* nothing to report */
    EBB_STEP_FOUND,    /* a step is known from now on, in place of what was known before */
    EBB_STEP_BOUNDARY, /* a step that matched throughout ends with this operation */
    EBB_STEP_LOST,     /* this operation does not continue the step */
    EBB_STEP_GIVEN_UP  /* the step has not been seen for long: looking for another one */
} ebb_step_event_t;

typedef struct ebb_step_finder ebb_step_finder_t;

/* Steps of up to `longest` operations can be found. NULL: no memory. */
ebb_step_finder_t *ebb_step_finder_new(size_t longest);
void ebb_step_finder_delete(ebb_step_finder_t *finder);

/* FOUND comes at any place in the step; the position is 0 if it is a boundary as well. */
ebb_step_event_t ebb_step_push(ebb_step_finder_t *finder, uint64_t signature, uint64_t live_bytes);

/* Operations of the step; 0: none is known. */
size_t ebb_step_period(const ebb_step_finder_t *finder);
/* How many operations of the step the last ones match: the position within it. */
size_t ebb_step_position(const ebb_step_finder_t *finder);

#endif

/* learn.h: what two recordings of a step have in common.
 *
 * Two steps in a row are recorded and must agree: the same operations on the same buffers. What is then
 * believed is the worse of both: an operation may be replayed if no trial has refuted it, at least three
 * agreed, and both steps have some; a buffer is replaced if it was in both steps; it is read only if the
 * argument through which it is reached was never seen to write, in any launch of that function. Times are the
 * shorter ones.
 */
#ifndef EBB_LEARN_H
#define EBB_LEARN_H

#include "record.h"

/* Merges `second` into `first`. NULL: done. Else they differ: what and where, a text valid until the next
 * call; `first` is unchanged. */
const char *ebb_learn_merge(ebb_recording_t *first, const ebb_recording_t *second);

#endif

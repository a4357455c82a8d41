/* match.h: follows a step that was recorded before, operation by operation: which one of the recording is this?
 *
 * Operations are matched stream by stream, so that the interleaving of streams and threads may differ from step to
 * step. Buffers are bound as operations touch them: a buffer of the recording to one of this step, of the same size.
 * What was there before the step is the same buffer as recorded, or what the step before has left behind in a certain
 * place: from step to step the same place (trace.h: next).
 *
 * Small buffers may have other sizes from step to step; the trace then says the most (ebb_match_note_left).
 *
 * Steps may deviate a little: an operation too many, one that is left out, a free or an allocation that comes early or late.
 * Such a step still tells about the operations that are as recorded. Too much of it, and it is another step.
 *
 * One step at a time; with ebb_lock() held.
 */
#ifndef EBB_MATCH_H
#define EBB_MATCH_H

#include "ckpt/run/profile/record.h"

/* Borrows both until the end or the next begin. `left`: [buffers] the generation that the last step has left behind; 0:
 * it was freed. False: no memory. */
bool ebb_match_begin(ebb_t *ebb, const ebb_recording_t *recorded, const uint64_t *left);
void ebb_match_end(ebb_t *ebb);

void ebb_match_allocated(const ebb_buffer_t *buffer);
void ebb_match_freed(ebb_buffer_t *buffer);
/* The operation's number in the recording; EBB_NONE: it is an extra one, or the first one behind some that were left
 * out, or this step is another one from here on (ebb_match_difference). */
uint32_t ebb_match_operation(ebb_t *ebb, const ebb_operation_t *operation);
/* It is the one of the recording as far as order goes, but it or a buffer of it has another size, or some words of its structures lead
 * elsewhere: nothing can be learned about what it does. */
bool ebb_match_is_resized(ebb_t *ebb);
/* Counts the one matched last as issued; before it, allocations and frees belong in front of it. */
void ebb_match_advance(ebb_t *ebb, uint32_t operation);
/* The one behind it on its stream; EBB_NONE: there is none. */
uint32_t ebb_match_next(ebb_t *ebb, uint32_t operation);
/* What differs, valid until the next call; NULL: it is this step so far, and if `whole`, to the end. */
const char *ebb_match_difference(ebb_t *ebb, bool whole);
/* Operations that were left out, so far. */
uint32_t ebb_match_missing(ebb_t *ebb);
/* At the end of a step that has matched: the trace's `next` and sizes, and what this step has left behind. */
void ebb_match_note_left(ebb_t *ebb, ebb_trace_t *trace, uint64_t *left);

/* The buffer that stands for one of the recording; NULL: none yet. */
ebb_buffer_t *ebb_match_buffer(ebb_t *ebb, uint32_t id);
/* Whether an operation that is not recorded has touched it since this was asked last. */
bool ebb_match_take_strayed(ebb_t *ebb, uint32_t id);

#endif

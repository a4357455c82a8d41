/* match.h: follows a step that was recorded before, operation by operation: which one of the recording is this?
 *
 * Operations are matched stream by stream, so that the interleaving of streams and threads may differ from step to
 * step. Buffers are bound as operations touch them: a buffer of the recording to one of this step, of the same size;
 * one that was there before the step must be the same. Where the program has one stream, allocations and frees must
 * come at the same places too.
 *
 * One step at a time; with ebb_lock() held.
 */
#ifndef EBB_MATCH_H
#define EBB_MATCH_H

#include "record.h"

/* Borrows the recording until the end or the next begin. False: no memory. */
bool ebb_match_begin(const ebb_recording_t *recorded);
void ebb_match_end(void);

void ebb_match_allocated(const ebb_buffer_t *buffer);
void ebb_match_freed(const ebb_buffer_t *buffer);
/* The operation's number in the recording; EBB_TRACE_NEVER: this step is another one, from here on. */
uint32_t ebb_match_operation(const ebb_operation_t *operation);
/* Counts the one matched last as issued; before it, allocations and frees belong in front of it. */
void ebb_match_advance(uint32_t operation);
/* The one behind it on its stream; NEVER: there is none. */
uint32_t ebb_match_next(uint32_t operation);
/* What differs, valid until the next call; NULL: all has matched so far, and if `whole`, to the end. */
const char *ebb_match_difference(bool whole);

/* The buffer that stands for one of the recording; NULL: none yet. */
ebb_buffer_t *ebb_match_buffer(uint32_t id);

#endif

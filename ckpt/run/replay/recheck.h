/* recheck.h: whether what was made again is what was dropped (recipe.h).
 *
 * What is dropped is hashed on a stream of ebb's own, and hashed again when it is made. While an operation is on trial (its
 * first contents) the host waits for both, a copy at hand. Later the device compares, of each a part (EBB_VERIFY); the host looks
 * at the verdict once that is over. With ebb_lock() held.
 */
#ifndef EBB_RECHECK_H
#define EBB_RECHECK_H

#include "offload/ebb_offload.h"

/* For the step that is followed. False: there is no memory to compare with, so nothing may be dropped. */
bool ebb_recheck_begin(ebb_device_t *dev);
void ebb_recheck_end(ebb_t *ebb);
/* A stream of ebb's own, for what is done besides the program's work; the step's, if there is none to be had. */
ebb_stream_t *ebb_recheck_side(ebb_device_t *dev);
/* One more content can be compared. */
bool ebb_recheck_ready(ebb_t *ebb);

/* Of what an operation makes, it has not been seen often enough that it was the same. */
bool ebb_recheck_is_trial(ebb_t *ebb, uint32_t operation);

/* Content `id`, the work of `operation`, is about to be dropped; what ebb does with it on the device ends with `ready`. Its
 * bytes are looked at until the mark that is returned. `keep_copy`: the operation is on trial. */
ebb_mark_t ebb_recheck_dropping(ebb_buffer_t *buffer, uint32_t id, uint32_t operation, ebb_mark_t ready,
                                bool *keep_copy);
/* It was made on `stream`. */
ebb_status_t ebb_recheck_made(ebb_buffer_t *buffer, uint32_t id, ebb_stream_t *stream);
/* Right after that, of one on trial: is it the same? The host waits. */
bool ebb_recheck_agrees(ebb_t *ebb, uint32_t id);
/* The verdict on content `id`, the work of `operation`, that somebody else has compared. */
void ebb_recheck_judged(ebb_t *ebb, uint32_t id, uint32_t operation, bool same, bool has_copy);
/* It was not dropped, or is gone. */
void ebb_recheck_forget(ebb_t *ebb, uint32_t id);

void ebb_recheck_poll(ebb_t *ebb); /* does not wait */

void ebb_recheck_count(ebb_t *ebb, uint64_t *verified, uint64_t *mismatches);

#endif

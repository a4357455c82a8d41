/* recipe.h: contents that the reactive half may drop, because they can be made again.
 *
 * While the program is followed through a recorded step (follow.h), every buffer's content is known as the work of certain
 * operations of this step: the last one that replaced it, and those that updated it since. If all of these are proven, and
 * what they read is alive and has not been written since, they are its recipe: launched again in order, with the argument
 * bytes of this step, they give the same bits. What they write beside it goes to private scratch. What they read may itself
 * be dropped, and is made first.
 *
 * What a plan has dropped when the program departs from it has recipes as well (left.h).
 *
 * A recipe holds as long as that is so. Before an operation that may write what a dropped buffer's recipe reads, before
 * that is freed, at the end of the step and when the program is not followed any more, the dropped buffer is made.
 * Who may write: every operation that is not the recorded one on the recorded buffers; and of those the arguments that
 * learning has not found to be read only.
 *
 * Checking: what is dropped is hashed, and hashed again when it is made. The first times of every operation the host keeps a
 * copy, as far as it has memory, and waits for the comparison: other bits are replaced by the copy, and nothing is lost.
 * Later EBB_VERIFY says which are compared, on the device; the host hears of it later, and EBB_ON_MISMATCH says what
 * happens then. Either way the operation has lost its proofs.
 *
 * With ebb_lock() held; for follow.c.
 */
#ifndef EBB_RECIPE_H
#define EBB_RECIPE_H

#include "offload/ebb_offload.h"

typedef struct ebb_recipe_counts {
    uint64_t dropped, rebuilt, replays, verified, mismatches;
} ebb_recipe_counts_t;
ebb_recipe_counts_t ebb_recipe_counts(ebb_t *ebb);

void ebb_recipe_begin(ebb_device_t *dev);
void ebb_recipe_end(ebb_device_t *dev);
void ebb_recipe_step_ends(ebb_device_t *dev);
ebb_status_t ebb_recipe_before(ebb_t *ebb, const ebb_operation_t *operation);
void ebb_recipe_after(ebb_t *ebb, const ebb_operation_t *operation, bool issued);
void ebb_recipe_freeing(ebb_buffer_t *buffer, ebb_stream_t *stream); /* on the stream; NULL: now */
/* The program has waited: comparisons that are over are looked at. */
void ebb_recipe_waited(ebb_t *ebb);

/* ---- for residence/ ---- */

/* Whether the content can be made again, and how long that would take the device. */
bool ebb_recipe_can_rebuild(const ebb_buffer_t *buffer, uint64_t *cost_ns);
/* The content is about to be dropped: behind `ready` and all that touched it its bytes may be looked at, until the mark that is
 * returned. `keep_copy`: the host shall keep them as well, if it has memory for that. */
ebb_mark_t ebb_recipe_dropping(ebb_buffer_t *buffer, ebb_mark_t ready, bool *keep_copy);
/* Whether that may be so. */
bool ebb_recipe_may_keep_copy(const ebb_buffer_t *buffer);
/* It is dropped (true), or is not after all (false). */
void ebb_recipe_dropped(ebb_buffer_t *buffer, bool dropped);
/* Makes the content of a DROPPED buffer, for `stream`, by ebb_residence_blank and launches behind that. On failure nothing has changed, but
 * what was fetched for it. */
ebb_status_t ebb_recipe_rebuild(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* After that, of a buffer that the host has a copy of: whether it is the same. The host waits. */
bool ebb_recipe_agrees(ebb_buffer_t *buffer, ebb_stream_t *stream);

#endif

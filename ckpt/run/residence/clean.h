/* clean.h: host blocks that outlive the fetch: when their buffer leaves again and has not changed, nothing need be
 * copied. For this folder.
 *
 * Whether it has changed is not believed but looked up: every content that leaves is hashed on the device, and only the same hash as when the block was filled counts. A program for
 * which that seldom pays (its buffers are always written) is left in peace for a while. EBB_CLEAN=0: never.
 * Threads and locks: ebb_lock() held.
 */
#ifndef EBB_CLEAN_H
#define EBB_CLEAN_H

#include "ckpt/run/residence/residence_state.h"

/* An operation is about to be prepared. */
void ebb_residence_prepare(ebb_device_t *dev);

/* Hashes a list of buffers (by `evicting`) that are about to leave, after all that touched them; the host waits. Notes in
 * each residence its hash, and `same` if its block holds the same bytes. */
void ebb_clean_look(ebb_buffer_t *list);

/* Kept blocks of other buffers go until `bytes` of them are free. False: there are none any more. */
bool ebb_clean_drop(ebb_device_t *dev, size_t bytes);

/* The buffer has no use for its kept block any more. */
void ebb_clean_forget(ebb_buffer_t *buffer);

#endif

/* own.h: memory of this folder's own: hashes, verdicts, scratch for learning. It counts against the budgets, and is none of the
 * program's buffers: statistics leave it out of live_bytes and host_bytes. ebb_lock() held.
 */
#ifndef EBB_OWN_H
#define EBB_OWN_H

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"

/* Device memory that stays where it is (held), for use in the order of a stream; of none (NULL): at once. NULL: there is
 * none. */
ebb_buffer_t *ebb_own_alloc(ebb_device_t *dev, size_t bytes, ebb_stream_t *stream);
/* Behind what was issued into the stream; of none (NULL): no work is under way that uses it. NULL: nothing. */
void ebb_own_free(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* Pinned host memory. NULL: there is none. */
void *ebb_own_pinned_alloc(ebb_device_t *dev, size_t bytes);
void ebb_own_pinned_free(ebb_device_t *dev, void *p, size_t bytes);

/* So much of either there is now. */
size_t ebb_own_bytes(ebb_device_t *dev);
size_t ebb_own_pinned_bytes(ebb_device_t *dev);

/* ebb_live_bytes() without it: what the program itself has. */
size_t ebb_program_bytes(ebb_device_t *dev);

#endif

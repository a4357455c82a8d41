/* ebb_offload.h: the room between device and host memory: buffers leave the device and come back.
 *
 * Glossary
 *   residence  where a buffer's content is: on the device, or in pinned host memory
 *   evict      copy a buffer out, take its chunks away; the address stays
 *   fetch      put chunks under it again and copy it back
 *   engine     two streams of ebb's own, one each way (copy.c)
 *
 * Here is the reactive half of ebb: a buffer is fetched when an operation is about to touch it, and the
 * buffers that were not used for the longest time make room. Slow, and always correct, whatever the program
 * does. A driven step (ckpt/) uses the same engine, but no residence changes: its buffers are mapped
 * throughout.
 *
 * Threads and locks: everything here is called with ebb_lock() held (alloc/ebb_alloc.h).
 */
#ifndef EBB_OFFLOAD_H
#define EBB_OFFLOAD_H

#include "ebb_alloc.h"

typedef struct ebb_traffic {
    uint64_t evictions, fetches;
    uint64_t bytes_out, bytes_in;
    uint64_t stall_ns; /* host time spent waiting for copies */
    size_t host_bytes, host_peak_bytes;
} ebb_traffic_t;
ebb_traffic_t ebb_traffic(void);

/* ---- the copy engine (copy.c): ordered on its own two streams, by events against all others ---- */

/* Copies all of a buffer, after everything that touched it so far. `done`: where the copy ends. The buffer
 * must be mapped, `host` be pinned and of its size. */
ebb_status_t ebb_copy_out(ebb_buffer_t *buffer, void *host, ebb_mark_t *done);
/* Copies back. Nothing that is under way may touch the buffer; what follows must join `done`. */
ebb_status_t ebb_copy_in(ebb_buffer_t *buffer, const void *host, ebb_mark_t *done);

/* ---- residence (residence.c) ---- */

/* Makes all buffers of the operation resident and orders it behind their copies. They stay until
 * ebb_residence_release. CUDA_ERROR_OUT_OF_MEMORY: they do not fit into the budget together. */
ebb_status_t ebb_residence_acquire(ebb_operation_t *operation);
void ebb_residence_release(const ebb_operation_t *operation);

/* Evicts until the pool can give `chunks` more. False: not enough may be evicted, or there is no host memory
 * for it. */
bool ebb_residence_make_room(size_t chunks);

/* The buffer is about to be freed, as of now on `stream` (NULL: nothing uses it any more). */
void ebb_residence_forget(ebb_buffer_t *buffer, ebb_stream_t *stream);

#endif

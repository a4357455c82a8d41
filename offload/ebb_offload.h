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

/* The engine's own two streams, opened at the first use. NULL: they cannot be (noted for ebb_last_failure).
 */
typedef enum ebb_direction { EBB_OUT, EBB_IN } ebb_direction_t;
ebb_stream_t *ebb_copy_stream(ebb_direction_t direction);

/* Copies `bytes` between a device address and pinned host memory, behind what the direction's stream has been
 * given so far; the caller has made that wait for what it must. */
ebb_status_t ebb_copy_issue(ebb_direction_t direction, CUdeviceptr device, void *host, size_t bytes);

/* Bytes per nanosecond each way, measured once with a few MiB of device memory that are free now; EBB_LINK,
 * if set, instead. The host waits (about 10 ms). */
typedef struct ebb_link {
    double out, in;
} ebb_link_t;
ebb_link_t ebb_link(void);

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

/* For the rooms above, which place buffers themselves while they drive a plan: the host block of an evicted
 * buffer (NULL: it is on the device) becomes the caller's; and back: the content of an unmapped buffer lies
 * in `host`, which is residence's from then on (NULL: its content is lost on purpose and will be written). */
void *ebb_residence_take(ebb_buffer_t *buffer);
ebb_status_t ebb_residence_put(ebb_buffer_t *buffer, void *host);
/* Out now, also if it is held, host waiting; the large buffer must be mapped. */
ebb_status_t ebb_residence_evict(ebb_buffer_t *buffer);

/* The buffer is about to be freed, as of now on `stream` (NULL: nothing uses it any more). */
void ebb_residence_forget(ebb_buffer_t *buffer, ebb_stream_t *stream);

/* The program has waited for the device: host memory that only a copy kept busy is free. */
void ebb_residence_waited(void);

#endif

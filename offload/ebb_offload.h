/* ebb_offload.h: the room between device and host memory: buffers leave the device and come back.
 *
 * Glossary
 *   residence  where a buffer's content is: on the device, or in host memory, pinned if possible (host.h)
 *   evict      copy a buffer out, take its chunks away; the address stays
 *   fetch      put chunks under it again and copy it back
 *   drop       take a buffer's chunks away without a copy: its content is made again when it is needed
 *   engine     two streams of ebb's own, one each way (copy.c)
 *
 * Here is the reactive half of ebb: a buffer is made resident when an operation is about to touch it, and others make
 * room. While the room above knows the program's next operations (future.h), those go that are needed last and cost
 * least, and what is needed next comes ahead of time; else those that were not used for the longest time go. Always
 * correct, whatever the program does. A driven step (ckpt/) uses the same engine, but no residence changes: its buffers
 * are mapped throughout.
 *
 * Every device has its own (alloc/slot.h): engine, link, pinned memory (a registration ends with its context, and the
 * nearest NUMA node is the device's), counters. EBB_HOST_BUDGET and pageable memory are the process's.
 *
 * Threads and locks: everything here is called with ebb_lock() held, about the device of ebb_slot.
 */
#ifndef EBB_OFFLOAD_H
#define EBB_OFFLOAD_H

#include "alloc/ebb_alloc.h"
#include "offload/future.h"
#include "offload/host.h"
#include "offload/link_cache.h"

typedef struct ebb_traffic {
    uint64_t evictions, fetches;
    uint64_t unchanged; /* evictions that copied nothing */
    uint64_t drops;     /* contents dropped */
    uint64_t ahead;     /* fetches before they were needed */
    uint64_t bytes_out, bytes_in;
    uint64_t stall_ns;           /* host time spent waiting for copies */
    size_t in_flight_peak_bytes; /* of evictions */
    size_t host_bytes;           /* pinned, in use */
    /* Of the process, not of the device: */
    size_t host_peak_bytes; /* pinned at most */
    size_t host_budget_bytes;
    size_t pageable_bytes, pageable_peak_bytes;
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

/* The same on any stream, not counted as the engine's: one call of the driver for each piece of host memory that is pinned by itself
 * (extent.h). */
ebb_status_t ebb_copy_pieces(ebb_direction_t direction, CUdeviceptr device, void *host, size_t bytes,
                             ebb_stream_t *stream);

/* The link. Measured once per machine, device and driver, with a few MiB of device memory that are free now,
 * and kept in a file (link_cache.h); EBB_LINK, if set, instead. The host waits (about 20 ms) while it is
 * measured. */
ebb_link_t ebb_link(void);

/* Copies all of a buffer, after everything that touched it so far. `done`: where the copy ends. The buffer
 * must be mapped, `host` be of its size. Host memory that is not pinned is filled when this returns. After a
 * failure a part may still be under way on the engine's stream. */
ebb_status_t ebb_copy_out(ebb_buffer_t *buffer, ebb_host_t host, ebb_mark_t *done);
/* Copies back. Nothing that is under way may touch the buffer; what follows must join `done`. Host memory
 * that is not pinned is free at once. After a failure a part may be under way. */
ebb_status_t ebb_copy_in(ebb_buffer_t *buffer, ebb_host_t host, ebb_mark_t *done);

/* ---- residence (residence.c, evict.c) ---- */

/* Makes all buffers of the operation resident and orders it behind their copies. They stay until
 * ebb_residence_release. CUDA_ERROR_OUT_OF_MEMORY: they do not fit into the budget together. */
ebb_status_t ebb_residence_acquire(ebb_operation_t *operation);
void ebb_residence_release(const ebb_operation_t *operation);

/* Tells on the device whether bytes have changed: the room above has the kernel. `issue` hashes into a slot on a stream;
 * `read` gives the first `count` slots, the host waits. `open` may take memory, once. */
typedef struct ebb_fingerprints {
    unsigned slots;
    bool (*open)(void);
    ebb_status_t (*issue)(unsigned slot, ebb_stream_t *stream, CUdeviceptr address, size_t bytes);
    ebb_status_t (*read)(unsigned count, ebb_stream_t *stream, uint64_t *out);
} ebb_fingerprints_t;
/* With it, what the host still has the same bytes of is not copied out again. Set once, before any operation. */
void ebb_residence_fingerprints(const ebb_fingerprints_t *fingerprints);

/* Evicts until the pool can give `chunks` more. False: not enough may be evicted, or there is no host memory
 * for it. */
bool ebb_residence_make_room(size_t chunks);

/* For the rooms above, which place large buffers themselves while they drive a plan. A content has one owner: it is residence's
 * until `give`, which cannot fail, and the caller's until `put`.
 *
 * Before that, what may fail, also of buffers that are held, and leaves a content residence's: to the host, the host waiting (`send`);
 * to the device, behind the mark of its copy (`bring`); from pageable to pinned memory (`pin`). A buffer without content has none
 * on the host. */
ebb_status_t ebb_residence_send(ebb_buffer_t *buffer);
ebb_status_t ebb_residence_bring(ebb_buffer_t *buffer);
ebb_status_t ebb_residence_pin(ebb_buffer_t *buffer);
/* Of a buffer that has been sent and pinned, or brought: true: the content is on the device; false: it is in `*host`, pinned, the
 * caller's from now on (NULL: there is none). */
bool ebb_residence_give(ebb_buffer_t *buffer, void **host);
/* And back, of an unmapped buffer, which cannot fail either: it lies in `host`, which is residence's from then on. NULL: its content is
 * lost on purpose and will be written. Of so many buffers, for which `reserve` must have seen to the host memory. */
void ebb_residence_put(ebb_buffer_t *buffer, void *host);
ebb_status_t ebb_residence_reserve(uint32_t buffers);
/* That residence has for the buffer. */
size_t ebb_residence_pinned_bytes(const ebb_buffer_t *buffer);

/* The buffer is about to be freed, as of now on `stream`; NULL: the program does not use it any more. Another thread may have begun to
 * bring it out or in since: that is waited for, on the stream or by the host. */
void ebb_residence_forget(ebb_buffer_t *buffer, ebb_stream_t *stream);

/* An allocation of so many bytes could not be served: says what holds the memory, once until one can be. */
void ebb_shortage_of(size_t bytes);
void ebb_shortage_over(void);

/* The program has waited for the device: host memory that only a copy kept busy is free. */
void ebb_residence_waited(void);

/* The device's context is at its end, no buffer is left: host memory that was pinned for it goes back. */
void ebb_residence_ended(void);

#endif

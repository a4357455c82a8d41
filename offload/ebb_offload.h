/* ebb_offload.h: the room between device and host memory: pinned memory, copies, the link. Mechanism only: what leaves the device, and
 * when, is decided in ckpt/run (residence/, drive/).
 *
 * Glossary
 *   evict      copy a buffer out, take its chunks away; the address stays
 *   fetch      put chunks under it again and copy it back
 *   engine     two streams of ebb's own, one each way (copy.c)
 *
 * Every device has its own (internal.h): engine, link, pinned memory (a registration ends with its context, and the
 * nearest NUMA node is the device's), counters. EBB_HOST_BUDGET and pageable memory are the process's.
 *
 * Threads and locks: everything here is called with ebb_lock() held and the context of the device current that it is given.
 */
#ifndef EBB_OFFLOAD_H
#define EBB_OFFLOAD_H

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "offload/host.h"
#include "offload/link_cache.h"

/* What this folder remembers begins empty. Once, before anything else. False: no host memory. */
bool ebb_offload_open(ebb_t *ebb);
/* The process is at its end: no thread of this folder runs any more, nothing is pinned or unpinned. Lock not held; nothing happens if it
 * was not opened. */
void ebb_offload_stop(ebb_t *ebb);

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
ebb_traffic_t ebb_traffic(ebb_device_t *dev);
/* What counts up to `in_flight_peak_bytes` is counted here. */
ebb_traffic_t *ebb_traffic_counted(ebb_device_t *dev);

/* ---- the copy engine (copy.c): ordered on its own two streams, by events against all others ---- */

/* The engine's own two streams, opened at the first use. NULL: they cannot be (noted for ebb_last_failure).
 */
typedef enum ebb_direction { EBB_OUT, EBB_IN } ebb_direction_t;
ebb_stream_t *ebb_copy_stream(ebb_device_t *dev, ebb_direction_t direction);

/* Copies `bytes` between a device address and pinned host memory, behind what the direction's stream has been
 * given so far; the caller has made that wait for what it must. */
ebb_status_t ebb_copy_issue(ebb_device_t *dev, ebb_direction_t direction, CUdeviceptr device, void *host,
                            size_t bytes);

/* The same on any stream, not counted as the engine's: one call of the driver for each piece of host memory that is pinned by itself
 * (extent.h). */
ebb_status_t ebb_copy_pieces(ebb_device_t *dev, ebb_direction_t direction, CUdeviceptr device, void *host,
                             size_t bytes, ebb_stream_t *stream);

/* The link. Measured once per machine, device and driver, with a few MiB of device memory that are free now,
 * and kept in a file (link_cache.h); EBB_LINK, if set, instead. The host waits (about 20 ms) while it is
 * measured. */
ebb_link_t ebb_link(ebb_device_t *dev);

/* Copies all of a buffer, after everything that touched it so far. `done`: where the copy ends. The buffer
 * must be mapped, `host` be of its size. Host memory that is not pinned is filled when this returns. After a
 * failure a part may still be under way on the engine's stream. */
ebb_status_t ebb_copy_out(ebb_buffer_t *buffer, ebb_host_t host, ebb_mark_t *done);
/* Copies back. Nothing that is under way may touch the buffer; what follows must join `done`. Host memory
 * that is not pinned is free at once. After a failure a part may be under way. */
ebb_status_t ebb_copy_in(ebb_buffer_t *buffer, ebb_host_t host, ebb_mark_t *done);

#endif

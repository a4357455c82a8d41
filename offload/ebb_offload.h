/* ebb_offload.h: the room between device and host memory: pinned memory, copies, the link. Mechanism only: what leaves the device, and
 * when, is decided in ckpt/run (residence/, drive/).
 *
 * Glossary
 *   evict      copy a buffer out, take its chunks away; the address stays
 *   fetch      put chunks under it again and copy it back
 *   engine     two streams of ebb's own, one each way (copy.c)
 *   block      pinned memory for a caller; from half a page up it is rounded to pages and to nothing else, below to 64 bytes
 *   extent     memory that was pinned at once (internal.h): one block, or a slab of small ones
 *   cached     of a block: pinned and free
 *
 * Every device has its own (internal.h): engine, link, pinned memory (a registration ends with its context, and the
 * nearest NUMA node is the device's), counters. EBB_HOST_BUDGET and pageable memory are the process's.
 *
 * Threads and locks: everything here is called with ebb_lock() held and the context of the device current that it is given.
 */
#ifndef EBB_OFFLOAD_H
#define EBB_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/ebb_alloc.h"
#include "offload/link.h"

/* What this folder remembers begins empty. Once, before anything else. False: no host memory. */
bool ebb_offload_open(ebb_t *ebb);
/* The process is at its end: no thread of this folder runs any more, nothing is pinned or unpinned. Lock not held; nothing happens if it
 * was not opened. */
void ebb_offload_stop(ebb_t *ebb);

/* ---- pinned memory (pinned.c, pin_ahead.c) ---- */

/* Page-locked host memory, which the device's copy engines reach at full speed and without waiting.
 *
 * Pinning is slow (the kernel has to find and lock every page, the driver to map them: it costs about as much
 * as copying the bytes), so freed blocks stay pinned and are given out again for the same size: a training
 * step asks for the same sizes over and over. Blocks of sizes that are not asked for any more make room when
 * the budget is reached.
 *
 * Memory comes from the NUMA node of the calling thread's current device (machine.h) and is not inherited by forked
 * children. Each device has an arena of its own, for its node and because a registration ends with the context that
 * made it: a block is given back to the device of which it was taken. The budget is one for all, and if it is a share of the machine's
 * memory, one for all processes on it (internal.h).
 *
 * The driver is called to pin and unpin; never after the process began to exit.
 *
 * An operation or an allocation whose evictions want blocks that are not cached says so before it has changed anything (ebb_pinned_want).
 * It ends as if there was no memory; the call pins the blocks without the lock, and is made again (hook/internal.h). So does the operation
 * or allocation at whose beginning a plan is to be installed, which is not by a call that cannot be made again. The lock is held for a MiB
 * and less, which takes less than a millisecond, and where nothing can be given up: scratch memory of learning, copies that the first driven
 * steps keep, what is dropped and has to be made before the program frees something, buffers that are to stay where they are, memory that is
 * lent to the driver; and when the fourth attempt of an eviction wants more still. */

typedef struct ebb_pinned_usage {
    size_t allocated_bytes;  /* in blocks in use, as requested */
    size_t cached_bytes;     /* in cached blocks */
    size_t registered_bytes; /* in all extents: what the machine has less because of us */
    size_t peak_bytes;       /* the most that was ever registered */
    size_t budget_bytes;     /* EBB_HOST_BUDGET, or half of what the machine or control group has; this process's part of a share */
    size_t own_bytes;        /* of allocated_bytes, this device's */
    size_t others_bytes;     /* of registered_bytes, other devices' */
} ebb_pinned_usage_t;

/* A block of pinned memory, contents undefined. NULL: the budget does not allow it, or it could not be
 * pinned; the first time, the log says why and what to do. */
void *ebb_pinned_alloc(ebb_device_t *dev, size_t bytes);

/* The same for contents that may be pageable: an eighth of the budget is left to ebb's own memory, without which no step is learned. */
void *ebb_pinned_alloc_content(ebb_device_t *dev, size_t bytes);

/* Where the memory of a block is from `*at` on, and how much of `bytes` is pinned at once there: for copies, which no more than that may
 * be (internal.h). A block that is larger than a piece is known to the CPU by this alone. */
size_t ebb_pinned_piece(ebb_device_t *dev, void **at, size_t bytes);

/* Gives a block back; `bytes` as requested. Nothing may be under way to or from it. NULL is ignored. */
void ebb_pinned_free(ebb_device_t *dev, void *block, size_t bytes);

/* So many blocks of these sizes will be wanted next: a thread pins those that are not cached (pin_ahead.c), without the lock. What was
 * expected before, on this device, is not any more. No more than all of these together is ever pinned and yet unused. After a refusal of
 * the driver's, and with EBB_PREALLOC=0, none is pinned. */
void ebb_pinned_expect(ebb_device_t *dev, const size_t *bytes, size_t count);
/* No block; and what the thread is at is over when this returns. */
void ebb_pinned_expect_nothing(ebb_device_t *dev);

/* ---- what is pinned before it is needed, by the call that needs it ---- */

/* The thread's call of the driver. */
typedef struct ebb_pinned_call {
    /* It has wanted something, or is final. Of nearly all it is false, so asking that is all that they pay. */
    bool open;
    bool final, deferring;
    unsigned tries;
    ebb_device_t *device;
    CUcontext context;    /* the device's when it wanted */
    size_t *bytes, count; /* owns; what is wanted there */
} ebb_pinned_call_t;
extern _Thread_local ebb_pinned_call_t ebb_pinned_call __attribute__((tls_model("initial-exec")));
/* Such a call has ended, with the driver's error or not: what it wanted is pinned. True: it is to be made again. Lock not held. */
bool ebb_pinned_call_again(bool failed);
/* The call under way cannot be made again: it may have changed something. */
void ebb_pinned_call_is_final(void);
/* From here on, what this thread does can be given up, or not any more. False: it cannot, for the call is final, or has been made again too
 * often. */
bool ebb_pinned_defer(bool defer);
/* So many blocks of these sizes will be asked for; `content`: by ebb_pinned_alloc_content, where contents may be pageable. False: some have
 * to be pinned first, and what is under way shall be given up. */
bool ebb_pinned_want(ebb_device_t *dev, const size_t *bytes, size_t count, bool content);
/* It is being given up. */
bool ebb_pinned_is_wanted(void);

/* Unpins all cached blocks and returns them to the system. Returns how many bytes that were. Waits for the
 * device. */
size_t ebb_pinned_trim(ebb_device_t *dev);

ebb_pinned_usage_t ebb_pinned_usage(ebb_device_t *dev);

/* Checks all structures (debug builds and tests). */
void ebb_pinned_check(ebb_device_t *dev);

/* ---- where contents go (host.c) ---- */

/* Where evicted contents go: pinned memory first, and when no more can be pinned, ordinary
 * pageable memory, which costs a second copy by the CPU but is far better than refusing the program memory; when that is short, too, a
 * disk, if there is one (EBB_DISK; internal.h).
 *
 * Pageable memory is bounded by what the machine and its control group have left, less a sixteenth of it all;
 * EBB_PAGEABLE=0 forbids it. */

typedef struct ebb_host {
    void *at; /* NULL: none. No address, but this folder's, if it is on disk */
    bool pinned, on_disk;
    size_t bytes; /* of the block; what is in it may be less */
} ebb_host_t;

typedef struct ebb_pageable_usage {
    size_t bytes, peak_bytes;
} ebb_pageable_usage_t;

/* Contents undefined. CUDA_ERROR_OUT_OF_MEMORY (noted): no kind is to be had; the log has said why. `spare`: a copy that can be done without is not
 * worth a disk's time. */
ebb_status_t ebb_host_alloc(ebb_device_t *dev, size_t bytes, bool spare, ebb_host_t *out);
/* Bytes that contents may have for certain beyond what is pinned: this device's part of what EBB_DISK has reserved. */
size_t ebb_host_behind(ebb_device_t *dev);
/* Nothing may be under way to or from it. */
void ebb_host_free(ebb_device_t *dev, ebb_host_t host);

ebb_pageable_usage_t ebb_pageable_usage(ebb_t *ebb);

/* Moves what is in another block into a pinned one. False: there is none to be had, or the disk fails. */
bool ebb_host_pin(ebb_device_t *dev, ebb_host_t *host);

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
 * (internal.h). */
ebb_status_t ebb_copy_pieces(ebb_device_t *dev, ebb_direction_t direction, CUdeviceptr device, void *host,
                             size_t bytes, ebb_stream_t *stream);

/* The link. Measured once per machine, device and driver, with a few MiB of device memory that are free now,
 * and kept in a file (link.h); EBB_LINK, if set, instead. The host waits (about 20 ms) while it is
 * measured. */
ebb_link_t ebb_link(ebb_device_t *dev);

/* Copies all of a buffer, after everything that touched it so far. `done`: where the copy ends. The buffer
 * must be mapped, `host` be of its size at least. What is not pinned is filled when this returns. After a
 * failure a part may still be under way on the engine's stream. */
ebb_status_t ebb_copy_out(ebb_buffer_t *buffer, ebb_host_t host, ebb_mark_t *done);
/* Copies back. Nothing that is under way may touch the buffer; what follows must join `done`. What
 * is not pinned is free at once. After a failure a part may be under way. */
ebb_status_t ebb_copy_in(ebb_buffer_t *buffer, ebb_host_t host, ebb_mark_t *done);

/* Sets aside the pinned blocks through which pageable memory is copied, before other things take what may be pinned. */
void ebb_stage_prepare(ebb_device_t *dev);
/* They are free: the context is at its end. */
void ebb_stage_end(ebb_device_t *dev);

/* ---- what is counted (copy.c) ---- */

typedef struct ebb_traffic {
    uint64_t evictions, fetches;
    uint64_t clean_evictions; /* evictions that copied nothing */
    uint64_t drops;           /* contents dropped */
    uint64_t ahead;           /* fetches before they were needed */
    uint64_t bytes_out, bytes_in;
    uint64_t stall_ns;           /* host time spent waiting for copies */
    size_t in_flight_peak_bytes; /* of evictions */
    size_t host_bytes;           /* pinned, in use */
    /* Of the process, not of the device: */
    size_t host_peak_bytes; /* pinned at most */
    size_t host_budget_bytes;
    size_t pageable_bytes, pageable_peak_bytes;
    size_t disk_bytes, disk_peak_bytes, disk_reserved_bytes;
    uint64_t disk_written_bytes, disk_read_bytes;
} ebb_traffic_t;
ebb_traffic_t ebb_traffic(ebb_device_t *dev);
/* What counts up to `in_flight_peak_bytes` is counted here. */
ebb_traffic_t *ebb_traffic_counted(ebb_device_t *dev);

/* Forgets the bytes copied since then: what ebb measured for itself. */
void ebb_traffic_uncount(ebb_device_t *dev, const ebb_traffic_t *before);

/* The host waits for a mark, and the time counts as the device's. */
ebb_status_t ebb_stall(ebb_device_t *dev, ebb_mark_t mark);

#endif

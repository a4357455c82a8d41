/* internal.h: what this folder remembers, of the process and of each device. Guarded by ebb_lock() but for what says otherwise. */
#ifndef EBB_OFFLOAD_INTERNAL_H
#define EBB_OFFLOAD_INTERNAL_H

#include <stdatomic.h>

#include "alloc/base/thread.h"
#include "alloc/device.h"
#include "offload/ebb_offload.h"
#include "offload/machine.h"

/* ---- making pinned memory, and giving it back (extent.c) ---- */

/* Memory of the process is registered with the driver, in pieces: one registration of 512 GiB and more fails (NVIDIA's
 * open-gpu-kernel-modules, pull request 1234), and others wait for the driver's locks meanwhile (vLLM issue 42632). What has several
 * pieces has them at multiples of their size; no copy crosses from one into the next (ebb_copy_pieces). Its pages are touched before by
 * several threads near the device, because registering finds them one after the other: 8 GiB took 1.0 s instead of 2.8 (dynamo issue
 * 13710).
 *
 * Where registering is not supported (confidential computing, GB10: vLLM issue 55428; asked once), the driver allocates it, in pieces of the
 * same size; more at once is refused in places (2 GiB, WSL2). They can't be put side by side: what has several of them has addresses
 * without memory, one range for all of it, and the copies find the pieces by these (ebb_pinned_piece).
 *
 * Any thread, with or without ebb_lock(); a context must be current. */

typedef struct ebb_extent {
    char *base;
    size_t bytes;    /* whole pages; one without access rights behind them if the addresses are ebb's */
    bool registered; /* else the driver's */
    char **piece;    /* the driver's, where it has given several; owned. NULL: all of it is at `base` */
} ebb_extent_t;

/* How the process pins. */
typedef struct ebb_pinning {
    size_t piece_bytes;    /* a power of two; tests make it smaller, before anything is pinned */
    atomic_bool allocates; /* the driver has said that registering is not supported */
} ebb_pinning_t;
#define EBB_PINNING ((ebb_pinning_t){.piece_bytes = (size_t)1 << 30})

/* Nothing has changed on failure. */
ebb_status_t ebb_extent_make(ebb_pinning_t *pinning, const ebb_place_t *place, size_t bytes,
                             ebb_extent_t *out);
/* Waits for the device. After a failure all of it stays as it is, but what the driver has unregistered already. */
ebb_status_t ebb_extent_delete(const ebb_pinning_t *pinning, const ebb_extent_t *extent);

/* How many of `bytes` from `host` on are in one piece, whatever it belongs to. */
size_t ebb_pin_piece(const ebb_pinning_t *pinning, const void *host, size_t bytes);

/* ---- the processes on this machine that pin memory by ebb (node.c) ---- */

/* The ranks of a job, and what else runs under ebb. Where the budget is a share of the machine's memory they pin no more than it together,
 * each no more than an equal part of it, but that what is pinned when others come stays so; a budget in bytes is a process's own, and what it
 * pins is missing to the others. A process is one of them from the first time on that it may need pinned memory. They meet in shared memory, one file for each user, where a process has a slot that says what it has pinned. A slot is taken by a lock on its byte
 * of the file (fcntl(2), not inherited by children), which ends with the process, however that ends; so nothing has to be cleaned up.
 * What has a memory limit of its own, by a control group, shares only with those under the same one.
 *
 * The file stays, with 4 KiB, until the machine is started anew, or its user is logged out where that removes such files (RemoveIPC in
 * logind.conf(5)): who sees that takes a slot in a new one. Containers that have a /dev/shm of their own do not meet. The pages of
 * `ebb top` would not do: a process may have none (EBB_LIVE=0), and leaves it behind when it is killed. */
#define EBB_NODE_NAME "/ebb-host-1-%u" /* with the user's number */
enum { EBB_NODE_SLOTS = 255 };
typedef struct ebb_node {
    char name[32];              /* of the shared memory (shm_open(3)); tests have one of their own */
    struct ebb_node_page *page; /* NULL: alone */
    int file;
    unsigned slot;
    uint64_t cgroup; /* ebb_limits_t */
} ebb_node_t;

/* The others of the same control group. */
typedef struct ebb_others {
    unsigned count;
    size_t pinned_bytes;
} ebb_others_t;

/* Takes a slot. It stays alone if none is to be had. */
void ebb_node_join(ebb_node_t *node, uint64_t cgroup);
/* What this process has pinned, for the others. */
void ebb_node_tell(const ebb_node_t *node, size_t pinned_bytes);
/* A system call, and one more for each slot in use; none if it is alone. */
ebb_others_t ebb_node_others(ebb_node_t *node);

/* ---- how much the process may pin (pin_budget.c); ebb_lock() held ---- */

/* Of EBB_HOST_BUDGET and what the others have, as of the last look at them, bytes; no less than what is pinned already, where it is shared: one
 * that comes late may find less. */
size_t ebb_pin_budget(ebb_t *ebb);
/* As ebb_node_others; nothing where the budget is not shared. */
void ebb_pin_look_at_others(ebb_t *ebb);
bool ebb_pin_fits(ebb_device_t *dev, size_t bytes);
/* What is pinned is counted before it is there, and what is unpinned when it is gone. */
void ebb_pin_count(ebb_device_t *dev, size_t bytes);
void ebb_pin_uncount(ebb_device_t *dev, size_t bytes);
/* False: others have taken what there was, and it is not counted. */
bool ebb_pin_count_if_fits(ebb_device_t *dev, size_t bytes);
/* Says why so many bytes more are not pinned, once for each kind of reason. */
void ebb_pin_explain(ebb_device_t *dev, size_t bytes);

/* ---- between pinned.c and pin_ahead.c; ebb_lock() held ---- */

/* One thing to do without the lock. */
typedef struct ebb_pin_job {
    bool unpin; /* `extent`, a cached block; else pin one of extent.bytes, from `place`, and put it there */
    ebb_extent_t extent;
    const ebb_place_t *place;
} ebb_pin_job_t;

/* What is next to be done so that so many blocks of these sizes are cached, the first one first. Blocks that are pinned ahead and were
 * never used are together no more than that: those of other sizes go before another is pinned. False: nothing, or what is left of the
 * budget is for what is asked for. Nothing has changed. */
bool ebb_pinned_next_ahead(ebb_device_t *dev, const size_t *bytes, size_t count, ebb_pin_job_t *job);
/* It is about to be done, from then on none of the cached blocks, but counted as pinned. */
void ebb_pinned_begin_ahead(ebb_device_t *dev, const ebb_pin_job_t *job);
/* It is done, or could not be; a block that has been pinned is cached. False: there is none. */
bool ebb_pinned_end_ahead(ebb_device_t *dev, const ebb_pin_job_t *job, ebb_status_t status);

/* Of these, those that are not cached, rounded, into `missing` [count]: what takes longer than a call of the driver, and what the budget
 * allows, of contents as of others. Returns how many. */
size_t ebb_pinned_missing(ebb_device_t *dev, const size_t *bytes, size_t count, bool content,
                          size_t *missing);
/* One of this size, rounded, is about to be pinned, after others have made room. False: the budget does not allow it. */
bool ebb_pinned_begin_wanted(ebb_device_t *dev, size_t rounded, ebb_pin_job_t *job);
/* Cached blocks are unpinned, so many bytes at least. False: there is none. */
bool ebb_pinned_make_room(ebb_device_t *dev, size_t bytes);

/* Whether the thread is pinning a block of this size, for this device. */
bool ebb_pin_ahead_has(ebb_device_t *dev, size_t rounded);
/* What the thread is pinning or unpinning, for any device, becomes a cached block or is gone; the host waits for it. False: it does
 * neither. */
bool ebb_pin_ahead_collect(ebb_t *ebb);

/* ---- copies of what is not pinned (staging.c) ---- */

/* Copies between the device and pageable memory or the disk, through two pinned blocks that take turns: while
 * one is being copied over the link, the CPU empties or fills the other. Without pinned
 * blocks (nothing at all can be pinned) the driver's own way for pageable memory is taken, until a disk has made pageable blocks. */

/* The host waits for all of it; behind what the engine's stream has been given. */
ebb_status_t ebb_stage_out(ebb_device_t *dev, CUdeviceptr device, ebb_host_t host, size_t bytes);
/* `host` is free at return; the last pieces may still be under way on the engine's stream. */
ebb_status_t ebb_stage_in(ebb_device_t *dev, CUdeviceptr device, ebb_host_t host, size_t bytes);
/* A part of what is on disk, as ebb_disk_read; good until the next copy. */
ebb_status_t ebb_stage_read(ebb_device_t *dev, ebb_host_t host, size_t at, size_t bytes,
                            const void **content);
/* Bytes of each block, and of the parts in which the disk is gone through; pageable ones, if none can be pinned. 0: no host memory. */
size_t ebb_stage_piece(ebb_device_t *dev);
size_t ebb_stage_bytes(ebb_device_t *dev); /* of the pinned blocks */

/* ---- a disk (disk.c) ---- */

/* EBB_DISK=FOLDER[:BYTES]. Contents lie in a file of that folder that has no name (open(2), O_TMPFILE; or loses it at once), so that however the process ends nothing
 * is left behind. The file is divided into pieces of a MiB, or a chunk, if that is smaller; a content takes as many as it needs, wherever they are. With BYTES so much
 * is allocated (fallocate(2)) when the file is opened, and plans may count on it; else the file grows when it has to, before anything is written, and does
 * not shrink.
 *
 * It is gone through past the page cache (O_DIRECT) where the file system can, in parts as large as the blocks that they are staged through. Each part
 * has a checksum.
 *
 * No error loses a content or changes a byte of it. A part that cannot be written fails the eviction: the content stays where it is, and nothing
 * more goes to the disk. One that cannot be read, or comes back with other bytes, is read a second time; if that fails, too, so does the program's call that
 * needs it (CUDA_ERROR_OPERATING_SYSTEM), and the content stays on the disk. */

typedef struct ebb_stretch ebb_stretch_t; /* a content's place there */
typedef struct ebb_disk {
    int file;
    size_t piece_bytes;       /* 0: it has not been opened yet */
    size_t pieces;            /* of the file */
    uint64_t *used;           /* a bit for each: whether it is in use */
    size_t first_free;        /* no free one lies before it */
    size_t reserved_bytes;    /* 0: it grows */
    size_t bytes, peak_bytes; /* of pieces in use */
    uint64_t written_bytes, read_bytes;
    bool closed, full; /* nothing more goes there; it had no room once */
} ebb_disk_t;

/* A stretch, contents undefined. NULL (noted): there is no disk, or no room. */
void *ebb_disk_alloc(ebb_device_t *dev, size_t bytes);
void ebb_disk_free(ebb_t *ebb, ebb_stretch_t *stretch);
/* A part: `at` is a multiple of the blocks' size; the memory begins with a page, and has whole pages. The host waits. */
ebb_status_t ebb_disk_write(ebb_t *ebb, ebb_stretch_t *stretch, size_t at, const void *from, size_t bytes);
ebb_status_t ebb_disk_read(ebb_t *ebb, const ebb_stretch_t *stretch, size_t at, void *to, size_t bytes);

/* ---- of a device ---- */

/* copy.c. At 25 GB/s a piece takes 0.6 ms, 40 times what issuing it costs, and the window 2.7 ms. */
enum {
    EBB_PIECE_BYTES = 16 << 20,
    EBB_WINDOW_BYTES = 64 << 20,
    EBB_WINDOW_PIECES = EBB_WINDOW_BYTES / EBB_PIECE_BYTES
};

/* The last pieces out, in a ring: those from `first` on may still be under way. */
typedef struct ebb_window {
    ebb_mark_t end[EBB_WINDOW_PIECES];
    size_t bytes[EBB_WINDOW_PIECES], in_flight;
    unsigned first, count;
} ebb_window_t;

/* staging.c */
typedef struct ebb_staging {
    void *block[2];
    size_t bytes;          /* of each; 0: there are none */
    bool pageable;         /* they are not pinned */
    ebb_mark_t busy[2];    /* a copy to or from it is under way until here */
    size_t refused_pinned; /* bytes that were pinned when there was no room for the blocks */
} ebb_staging_t;

/* pinned.c */
struct ebb_shelf;
struct ebb_arena_hooks;
typedef struct ebb_pinned {
    bool tried, ready;
    unsigned arena;
    struct ebb_arena_hooks *hooks; /* the arena's; owns */
    const ebb_place_t *place;
    ebb_status_t refusal; /* why the last extent could not be made; -1: the budget */
    void *extents;        /* ebb_extent_t by base (tsearch) */
    size_t scattered;     /* of the extents, those in several places (extent.c) */
    size_t apart;         /* of `registered`: no extent, being pinned or unpinned, or could not be unpinned */
    size_t unmeasured;    /* bytes pinned since what else is on the device was measured */
    size_t shelf_count, shelf_capacity;
    struct ebb_shelf *shelf; /* owns; sorted by size, none empty */
    uint64_t clock;
    size_t allocated, cached, registered;
} ebb_pinned_t;

/* pin_ahead.c: what is expected, the next one first. */
enum { EBB_MOST_EXPECTED = 32 };
typedef struct ebb_expected {
    size_t bytes[EBB_MOST_EXPECTED], count;
    bool refused; /* once: a device that has refused one would refuse the next, for ever */
} ebb_expected_t;

typedef struct ebb_offload_device {
    ebb_stream_t *stream[2]; /* the copy engine's, one each way */
    ebb_window_t window;
    ebb_staging_t staging;
    ebb_pinned_t pinned;
    ebb_expected_t expected;
    ebb_link_t link; /* not known yet: zeros */
    ebb_traffic_t traffic;
} ebb_offload_device_t;

/* ---- of the process ---- */

/* host.c */
enum { EBB_PAGEABLE_KEPT = 4 };
typedef struct ebb_pageable {
    struct {
        void *at;
        size_t bytes;
    } kept[EBB_PAGEABLE_KEPT];
    unsigned next; /* of them to be replaced */
    size_t bytes, peak_bytes;
    size_t allowance; /* what may still be mapped before the limits are read again */
    bool said;
} ebb_pageable_t;

/* pin_budget.c: budget and machine are one for all devices. */
typedef struct ebb_pinned_total {
    size_t host_bytes; /* what the machine or the control group has; 0: not looked at yet */
    ebb_node_t node;
    ebb_others_t others; /* when they were last looked at */
    size_t allocated, cached, registered, peak;
    bool said_budget, said_other;
} ebb_pinned_total_t;

/* pin_ahead.c: what its thread does. It fills `made` and `status` while it works. */
typedef struct ebb_pin_thread {
    ebb_thread_t thread;
    _Atomic enum { EBB_PIN_IDLE, EBB_PIN_WORKING, EBB_PIN_DONE } state;
    ebb_device_t *device;
    CUcontext context; /* the device's when the work began */
    ebb_pin_job_t job;
    ebb_extent_t made;
    ebb_status_t status;
} ebb_pin_thread_t;

struct ebb_offload {
    ebb_offload_device_t device[EBB_STATES];
    ebb_pageable_t pageable;
    ebb_disk_t disk;
    ebb_pinned_total_t pinned;
    ebb_pinning_t pinning;
    ebb_pin_thread_t pins;
    ebb_topology_t topology;
    atomic_bool exiting; /* any thread */
};

static inline ebb_offload_device_t *ebb_offload_of(const ebb_device_t *dev)
{
    return &dev->ebb->offload->device[dev->number];
}

#endif

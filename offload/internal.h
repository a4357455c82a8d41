/* internal.h: what this folder remembers, of the process and of each device. Guarded by ebb_lock() but for what says otherwise. */
#ifndef EBB_OFFLOAD_INTERNAL_H
#define EBB_OFFLOAD_INTERNAL_H

#include <stdatomic.h>

#include "alloc/base/thread.h"
#include "alloc/device.h"
#include "offload/ebb_offload.h"
#include "offload/pin_ahead.h"
#include "offload/topology.h"

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
    size_t scattered;     /* of the extents, those in several places (extent.h) */
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

/* pinned.c: budget and machine are one for all devices. */
typedef struct ebb_pinned_total {
    size_t host_bytes;
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

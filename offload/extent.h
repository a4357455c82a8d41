/* extent.h: making pinned host memory, and giving it back; see pinned.h for what is made of it. For this folder.
 *
 * Memory of the process is registered with the driver, in pieces: one registration of 512 GiB and more fails (NVIDIA's
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
#ifndef EBB_EXTENT_H
#define EBB_EXTENT_H

#include <stdatomic.h>

#include "alloc/base/status.h"
#include "offload/topology.h"

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

#endif

/* live.h: statistics of a running process, for `ebb top`: a page of shared memory that ebb writes now and then and
 * any process of the same user may read. No thread, no system call per operation.
 *
 * The page is a file in memory, $XDG_RUNTIME_DIR/ebb-PID or /dev/shm/ebb-UID-PID, made at the first operation and
 * removed when the process ends; one that a killed process has left is removed by the next `ebb top`. EBB_LIVE=0: none.
 */
#ifndef EBB_LIVE_H
#define EBB_LIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "alloc/ebb_alloc.h"
#include "ckpt/run/stats/stats.h"

#define EBB_LIVE_MAGIC   0x65626200u
#define EBB_LIVE_VERSION 11u

typedef struct ebb_live {
    uint32_t magic, version, bytes; /* of this structure */
    int32_t process;
    /* Odd while the rest is written. A reader copies, and has a good copy if the count was even and is still the
     * same (a sequence lock). */
    _Atomic uint32_t sequence;
    uint32_t spare;
    uint64_t started_ns, updated_ns; /* CLOCK_MONOTONIC */
    ebb_statistics_t statistics;
    ebb_device_list_t devices;
} ebb_live_t;

/* Where the page of a process is. False: there is no place. */
bool ebb_live_path(pid_t process, char *out, size_t out_bytes);

/* An operation has been issued: every now and then the page is refreshed. ebb_lock() held. */
void ebb_live_tick(ebb_t *ebb);
/* The page is written if it is older than a millisecond. ebb_lock() held. */
void ebb_live_refresh(ebb_t *ebb);
/* The page is written now. ebb_lock() held. */
void ebb_live_update(ebb_t *ebb);
/* The page is gone. */
void ebb_live_end(ebb_t *ebb);

#endif

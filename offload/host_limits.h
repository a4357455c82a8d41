/* host_limits.h: how much host memory this process may have, and may pin; and why it did not get it. For this
 * folder.
 *
 * Reads files under /proc and /sys; no locks, any thread.
 */
#ifndef EBB_HOST_LIMITS_H
#define EBB_HOST_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ebb_limits {
    size_t machine_bytes;   /* all of its memory */
    size_t available_bytes; /* what the kernel could give now */
    size_t cgroup_bytes;    /* the smallest limit of the control groups above this process; SIZE_MAX: none */
    size_t cgroup_used_bytes; /* in the group that has it */
    size_t
        memlock_bytes; /* RLIMIT_MEMLOCK; SIZE_MAX: none, or this process need not obey it (CAP_IPC_LOCK) */
} ebb_limits_t;

ebb_limits_t ebb_limits_read(void);

/* Why page-locking `bytes` more failed when `pinned_bytes` were pinned already: a sentence part for the log,
 * with the remedy. False: none of the limits explains it. */
bool ebb_limits_explain(const ebb_limits_t *limits, size_t pinned_bytes, size_t bytes, char *out,
                        size_t out_bytes);

#endif

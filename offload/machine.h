/* machine.h: the machine that the devices are in: NUMA nodes, and how much of its memory may be pinned. For this folder and for tools. */
#ifndef EBB_MACHINE_H
#define EBB_MACHINE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- its topology ---- */

/* Where a GPU sits in the machine: which NUMA node's memory is nearest to it.
 *
 * Everything here is a preference: where hwloc is missing, the machine has one node, or the GPU's place is not
 * known, there is no place (NULL) and nothing is bound. hwloc is loaded at the first look-up, never
 * linked.
 *
 * Threads: the first look-up of a device wants ebb_lock() held; a place never changes and may be used by any
 * thread. */

typedef struct ebb_place ebb_place_t; /* lives as long as the topology */

/* Begins as zeros. */
typedef struct ebb_topology {
    bool tried;
    struct ebb_hwloc *hwloc; /* owns; NULL: hwloc is missing, or nothing is to be chosen on this machine */
    ebb_place_t *places;     /* owns; also those without a preference */
} ebb_topology_t;

/* The place of a device, or NULL: no preference. Milliseconds at the first call for a device. */
const ebb_place_t *ebb_topology_find(ebb_topology_t *topology, CUdevice device);

/* The node's number as the operating system counts. -1: no place, or several nodes are equally near. */
int ebb_topology_node(const ebb_place_t *place);

/* Pages touched from now on in [p, p + bytes) come from the place's node as long as it has any. False: not
 * bound. */
bool ebb_topology_bind_memory(const ebb_place_t *place, void *p, size_t bytes);

/* The calling thread runs on the place's CPUs from now on. False: anywhere. */
bool ebb_topology_bind_thread(const ebb_place_t *place);
/* CPUs of the place; without one, those that this process may use. At least 1. */
size_t ebb_topology_cpus(const ebb_place_t *place);

/* All places are gone; hwloc is loaded again at the next look-up. */
void ebb_topology_forget(ebb_topology_t *topology);

/* ---- its limits on host memory ---- */

/* How much host memory this process may have, and may pin; and why it did not get it. Reads files under
 * /proc and /sys; no locks, any thread. */

typedef struct ebb_limits {
    size_t machine_bytes;   /* all of its memory */
    size_t available_bytes; /* what the kernel could give now */
    size_t cgroup_bytes;    /* the smallest limit of the control groups above this process; SIZE_MAX: none */
    size_t cgroup_used_bytes; /* in the group that has it */
    uint64_t cgroup;          /* that group: the inode of its folder; 0: none */
    size_t
        memlock_bytes; /* RLIMIT_MEMLOCK; SIZE_MAX: none, or this process need not obey it (CAP_IPC_LOCK) */
} ebb_limits_t;

ebb_limits_t ebb_limits_read(void);

/* Why page-locking `bytes` more failed when `pinned_bytes` were pinned already: a sentence part for the log,
 * with the remedy. False: none of the limits explains it. */
bool ebb_limits_explain(const ebb_limits_t *limits, size_t pinned_bytes, size_t bytes, char *out,
                        size_t out_bytes);

#endif

/* topology.h: where a GPU sits in the machine: which NUMA node's memory is nearest to it.
 *
 * Everything here is a preference: where hwloc is missing, the machine has one node, or nobody knows where
 * the GPU is, there is no place (NULL) and nothing is bound. hwloc is loaded at the first look-up, never
 * linked.
 *
 * Threads: the first look-up of a device wants ebb_lock() held; a place never changes and may be used by any
 * thread.
 */
#ifndef EBB_TOPOLOGY_H
#define EBB_TOPOLOGY_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif

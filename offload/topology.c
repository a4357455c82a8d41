/* topology.c: hwloc knows the machine; the driver knows the GPU's PCI address; the kernel knows which CPUs
 * are near it. */
#include "offload/topology.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <hwloc/linux.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/log.h"

struct ebb_place {
    const struct ebb_hwloc *hw;
    CUdevice device;
    hwloc_cpuset_t cpus;
    hwloc_nodeset_t nodes;
    ebb_place_t *next;
};

/* X(name): the functions of hwloc that are used. */
#define HWLOC_FUNCTIONS(X)                                                                                   \
    X(hwloc_topology_init)                                                                                   \
    X(hwloc_topology_load)                                                                                   \
    X(hwloc_topology_destroy)                                                                                \
    X(hwloc_topology_get_topology_cpuset)                                                                    \
    X(hwloc_topology_get_topology_nodeset)                                                                   \
    X(hwloc_get_obj_by_depth)                                                                                \
    X(hwloc_get_type_depth)                                                                                  \
    X(hwloc_linux_read_path_as_cpumask)                                                                      \
    X(hwloc_set_cpubind)                                                                                     \
    X(hwloc_set_area_membind)                                                                                \
    X(hwloc_bitmap_alloc)                                                                                    \
    X(hwloc_bitmap_free)                                                                                     \
    X(hwloc_bitmap_and)                                                                                      \
    X(hwloc_bitmap_set)                                                                                      \
    X(hwloc_bitmap_first)                                                                                    \
    X(hwloc_bitmap_weight)                                                                                   \
    X(hwloc_bitmap_iszero)                                                                                   \
    X(hwloc_bitmap_isequal)                                                                                  \
    X(hwloc_bitmap_intersects)

struct ebb_hwloc {
    hwloc_topology_t topology;
#define X(name) __typeof__(&name) name;
    HWLOC_FUNCTIONS(X)
#undef X
};

static bool load_hwloc(struct ebb_hwloc *hw)
{
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    bool complete = true;
#define X(name)                                                                                              \
    *(void **)&hw->name = dlsym(library, #name);                                                             \
    complete = complete && hw->name;
    HWLOC_FUNCTIONS(X)
#undef X
    return complete;
}

/* The topology without I/O devices: their discovery takes longer and may start libraries of its own. */
static bool load_topology(struct ebb_hwloc *hw)
{
    hwloc_topology_t *t = &hw->topology;
    if (!load_hwloc(hw)) {
        ebb_log(EBB_DEBUG, "hwloc is missing: host memory goes where the kernel puts it");
        return false;
    }
    if (hw->hwloc_topology_init(t))
        return false;
    if (!hw->hwloc_topology_load(*t) &&
        hw->hwloc_bitmap_weight(hw->hwloc_topology_get_topology_nodeset(*t)) > 1)
        return true;
    hw->hwloc_topology_destroy(*t);
    return false;
}

static struct ebb_hwloc *load(void)
{
    struct ebb_hwloc *hw = calloc(1, sizeof *hw);
    if (!hw || load_topology(hw))
        return hw;
    free(hw);
    return NULL;
}

/* The CPUs near a PCI device, of those that this process may use. */
static bool near_cpus(const struct ebb_hwloc *hw, CUdevice device, hwloc_cpuset_t cpus)
{
    char id[64], path[128];
    if (!ebb_driver.cuDeviceGetPCIBusId || ebb_driver.cuDeviceGetPCIBusId(id, (int)sizeof id, device))
        return false;
    for (char *c = id; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'F' ? *c - 'A' + 'a' : *c);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpus", id);
    if (hw->hwloc_linux_read_path_as_cpumask(path, cpus))
        return false;
    hwloc_const_cpuset_t all = hw->hwloc_topology_get_topology_cpuset(hw->topology);
    hw->hwloc_bitmap_and(cpus, cpus, all);
    /* A device that is near to all CPUs is near to none. */
    return !hw->hwloc_bitmap_iszero(cpus) && !hw->hwloc_bitmap_isequal(cpus, all);
}

/* Ordinary memory only: a GPU's own memory may be a NUMA node, too. */
static void find_nodes(ebb_place_t *place)
{
    const struct ebb_hwloc *hw = place->hw;
    int depth = hw->hwloc_get_type_depth(hw->topology, HWLOC_OBJ_NUMANODE);
    hwloc_obj_t node;
    for (unsigned i = 0; (node = hw->hwloc_get_obj_by_depth(hw->topology, depth, i)); i++)
        if ((!node->subtype || !strcmp(node->subtype, "DRAM")) &&
            hw->hwloc_bitmap_intersects(node->cpuset, place->cpus))
            hw->hwloc_bitmap_set(place->nodes, node->os_index);
}

static const ebb_place_t *with_preference(const ebb_place_t *place)
{
    return place->nodes && !place->hw->hwloc_bitmap_iszero(place->nodes) ? place : NULL;
}

const ebb_place_t *ebb_topology_find(ebb_topology_t *topology, CUdevice device)
{
    if (!topology->tried)
        *topology = (ebb_topology_t){.tried = true, .hwloc = load()};
    const struct ebb_hwloc *hw = topology->hwloc;
    if (!hw)
        return NULL;
    for (ebb_place_t *p = topology->places; p; p = p->next)
        if (p->device == device)
            return with_preference(p);
    ebb_place_t *place = calloc(1, sizeof *place);
    if (!place)
        return NULL;
    place->hw = hw;
    place->device = device;
    place->cpus = hw->hwloc_bitmap_alloc();
    place->nodes = hw->hwloc_bitmap_alloc();
    place->next = topology->places;
    topology->places = place;
    if (place->cpus && place->nodes && near_cpus(hw, device, place->cpus))
        find_nodes(place);
    return with_preference(place);
}

int ebb_topology_node(const ebb_place_t *place)
{
    return place && place->hw->hwloc_bitmap_weight(place->nodes) == 1
               ? place->hw->hwloc_bitmap_first(place->nodes)
               : -1;
}

bool ebb_topology_bind_memory(const ebb_place_t *place, void *p, size_t bytes)
{
    /* Without HWLOC_MEMBIND_STRICT: preferred, not enforced. */
    return place && !place->hw->hwloc_set_area_membind(place->hw->topology, p, bytes, place->nodes,
                                                       HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_BYNODESET);
}

bool ebb_topology_bind_thread(const ebb_place_t *place)
{
    return place && !place->hw->hwloc_set_cpubind(place->hw->topology, place->cpus, HWLOC_CPUBIND_THREAD);
}

size_t ebb_topology_cpus(const ebb_place_t *place)
{
    cpu_set_t set;
    const int count = place                                    ? place->hw->hwloc_bitmap_weight(place->cpus)
                      : sched_getaffinity(0, sizeof set, &set) ? 1
                                                               : CPU_COUNT(&set);
    return count > 0 ? (size_t)count : 1;
}

void ebb_topology_forget(ebb_topology_t *topology)
{
    struct ebb_hwloc *hw = topology->hwloc;
    for (ebb_place_t *p = topology->places, *next; p; p = next) {
        next = p->next;
        hw->hwloc_bitmap_free(p->cpus);
        hw->hwloc_bitmap_free(p->nodes);
        free(p);
    }
    if (hw)
        hw->hwloc_topology_destroy(hw->topology);
    free(hw);
    *topology = (ebb_topology_t){.tried = false};
}

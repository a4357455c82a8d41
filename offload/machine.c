/* machine.c: see machine.h. */
#include "offload/machine.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <hwloc/linux.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"

/* ---- its topology: hwloc knows the machine; the driver knows the GPU's PCI address; the kernel knows which CPUs are near it. ---- */

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

/* ---- its limits on host memory ---- */

#define CAP_IPC_LOCK_BIT 14

/* The number that follows `key` in a file of lines such as "MemAvailable:  123 kB"; an empty key: the file's
 * first. */
static bool read_number(const char *path, const char *key, int base, uint64_t *out)
{
    char line[256];
    bool found = false;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    while (!found && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)))
            continue;
        char *digits = line + strlen(key), *end;
        *out = strtoull(digits, &end, base);
        found = end != digits; /* "max" is no number */
        break;
    }
    fclose(f);
    return found;
}

/* Takes the limit of one control group unless it is higher: of equal ones the outer one counts, which holds for more processes. */
static void consider_group(ebb_limits_t *l, const char *folder, const char *limit, const char *usage)
{
    char path[4352];
    uint64_t bytes, used = 0;
    struct stat group;
    snprintf(path, sizeof path, "%s/%s", folder, limit);
    if (!read_number(path, "", 10, &bytes) || bytes > l->cgroup_bytes || bytes >= l->machine_bytes)
        return;
    snprintf(path, sizeof path, "%s/%s", folder, usage);
    read_number(path, "", 10, &used);
    l->cgroup_bytes = bytes;
    l->cgroup_used_bytes = used;
    l->cgroup = stat(folder, &group) ? 0 : group.st_ino;
}

/* All groups from `group` ("/a/b") up. In a container the path may be the host's: then only the root is
 * found. */
static void walk_groups(ebb_limits_t *l, const char *root, char *group, const char *limit, const char *usage)
{
    char folder[4096];
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", root, group);
        consider_group(l, folder, limit, usage);
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* /proc/self/cgroup: "0::/path" (version 2) or "4:memory:/path" (version 1). */
static void read_groups(ebb_limits_t *l)
{
    char line[4000];
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        if (!controllers[1])
            walk_groups(l, "/sys/fs/cgroup", group, "memory.max", "memory.current");
        else if (!strcmp(controllers + 1, "memory"))
            walk_groups(l, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes");
    }
    fclose(f);
}

ebb_limits_t ebb_limits_read(void)
{
    ebb_limits_t l = {.cgroup_bytes = SIZE_MAX, .memlock_bytes = SIZE_MAX, .available_bytes = SIZE_MAX};
    uint64_t n;
    struct rlimit memlock;
    l.machine_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (read_number("/proc/meminfo", "MemAvailable:", 10, &n))
        l.available_bytes = (size_t)n << 10;
    bool privileged = read_number("/proc/self/status", "CapEff:", 16, &n) && n >> CAP_IPC_LOCK_BIT & 1;
    if (!privileged && !getrlimit(RLIMIT_MEMLOCK, &memlock) && memlock.rlim_cur != RLIM_INFINITY)
        l.memlock_bytes = memlock.rlim_cur;
    read_groups(&l);
    return l;
}

bool ebb_limits_explain(const ebb_limits_t *l, size_t pinned_bytes, size_t bytes, char *out, size_t out_bytes)
{
    const size_t mib = 1 << 20;
    size_t group_left = l->cgroup_bytes > l->cgroup_used_bytes ? l->cgroup_bytes - l->cgroup_used_bytes : 0;
    if (l->cgroup_bytes != SIZE_MAX && group_left < bytes)
        snprintf(out, out_bytes,
                 "the control group's memory limit is %zu MiB and %zu MiB are in use; raise it or lower "
                 "EBB_HOST_BUDGET",
                 l->cgroup_bytes / mib, l->cgroup_used_bytes / mib);
    else if (l->available_bytes < bytes)
        snprintf(out, out_bytes, "the machine has %zu MiB of memory left; lower EBB_HOST_BUDGET",
                 l->available_bytes / mib);
    else if (l->memlock_bytes < pinned_bytes + bytes)
        snprintf(out, out_bytes,
                 "`ulimit -l` allows %zu KiB of locked memory; raise it (unlimited is usual for GPU work)",
                 l->memlock_bytes >> 10);
    else
        return false;
    return true;
}

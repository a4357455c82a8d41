#include "offload/host_limits.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

/* Takes the limit of one control group if it is lower. */
static void consider_group(ebb_limits_t *l, const char *folder, const char *limit, const char *usage)
{
    char path[4352];
    uint64_t bytes, used = 0;
    snprintf(path, sizeof path, "%s/%s", folder, limit);
    if (!read_number(path, "", 10, &bytes) || bytes >= l->cgroup_bytes || bytes >= l->machine_bytes)
        return;
    snprintf(path, sizeof path, "%s/%s", folder, usage);
    read_number(path, "", 10, &used);
    l->cgroup_bytes = bytes;
    l->cgroup_used_bytes = used;
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

/* host.c: see host.h. Freed pageable blocks wait in a short list for the next of their size: new pages would
 * have to be cleared by the kernel first. */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "offload/internal.h"

static size_t whole_pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* A quarter of what is left, so that the files need not be read for every block. */
static bool is_allowed(ebb_pageable_t *pageable, size_t bytes)
{
    if (pageable->allowance >= bytes)
        return true;
    const ebb_limits_t l = ebb_limits_read();
    size_t left = l.available_bytes, reserve = l.machine_bytes / 16;
    if (l.cgroup_bytes != SIZE_MAX) {
        const size_t group = l.cgroup_bytes > l.cgroup_used_bytes ? l.cgroup_bytes - l.cgroup_used_bytes : 0;
        left = group < left ? group : left;
        reserve = l.cgroup_bytes / 16 < reserve ? l.cgroup_bytes / 16 : reserve;
    }
    left = left > reserve ? left - reserve : 0;
    pageable->allowance = left / 4 > bytes ? left / 4 : left;
    return pageable->allowance >= bytes;
}

static void *take_kept(ebb_pageable_t *pageable, size_t bytes)
{
    for (unsigned i = 0; i < EBB_PAGEABLE_KEPT; i++)
        if (pageable->kept[i].at && pageable->kept[i].bytes == bytes) {
            void *p = pageable->kept[i].at;
            pageable->kept[i].at = NULL;
            return p;
        }
    return NULL;
}

static void *map_block(ebb_t *ebb, size_t bytes)
{
    ebb_pageable_t *pageable = &ebb->offload->pageable;
    if (!is_allowed(pageable, bytes)) {
        ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pageable host memory", bytes);
        return NULL;
    }
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "mmap", bytes);
        return NULL;
    }
    madvise(p, bytes, MADV_DONTFORK);
    if (ebb_options.huge_pages)
        madvise(p, bytes, MADV_HUGEPAGE);
    CUdevice device;
    if (!ebb_driver.cuCtxGetDevice(&device))
        ebb_topology_bind_memory(ebb_topology_find(&ebb->offload->topology, device), p, bytes);
    pageable->allowance -= bytes;
    return p;
}

static void *alloc_pageable(ebb_t *ebb, size_t bytes)
{
    ebb_pageable_t *pageable = &ebb->offload->pageable;
    bytes = whole_pages(bytes);
    void *p = take_kept(pageable, bytes);
    if (!p)
        p = map_block(ebb, bytes);
    if (!p)
        return NULL;
    pageable->bytes += bytes;
    if (pageable->bytes > pageable->peak_bytes)
        pageable->peak_bytes = pageable->bytes;
    if (!pageable->said)
        ebb_log(EBB_WARN,
                "no more host memory is pinned: what leaves the device now goes to pageable memory, "
                "at a fraction of the link's speed");
    pageable->said = true;
    return p;
}

static void *alloc_pinned(ebb_device_t *dev, size_t bytes)
{
    return ebb_options.pageable || *ebb_options.disk ? ebb_pinned_alloc_content(dev, bytes)
                                                     : ebb_pinned_alloc(dev, bytes);
}

ebb_status_t ebb_host_alloc(ebb_device_t *dev, size_t bytes, bool spare, ebb_host_t *out)
{
    *out = (ebb_host_t){.at = alloc_pinned(dev, bytes), .pinned = true, .bytes = bytes};
    if (out->at)
        return 0;
    ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pinned host memory", bytes);
    if (ebb_options.pageable)
        *out = (ebb_host_t){.at = alloc_pageable(dev->ebb, bytes), .bytes = bytes};
    if (!out->at && *ebb_options.disk && !spare)
        *out = (ebb_host_t){.at = ebb_disk_alloc(dev, bytes), .on_disk = true, .bytes = bytes};
    return out->at ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

static void free_pageable(ebb_t *ebb, ebb_host_t host)
{
    ebb_pageable_t *pageable = &ebb->offload->pageable;
    const size_t bytes = whole_pages(host.bytes);
    pageable->bytes -= bytes;
    unsigned i = 0;
    while (i < EBB_PAGEABLE_KEPT && pageable->kept[i].at)
        i++;
    if (i == EBB_PAGEABLE_KEPT) {
        i = pageable->next++ % EBB_PAGEABLE_KEPT;
        munmap(pageable->kept[i].at, pageable->kept[i].bytes);
        pageable->allowance += pageable->kept[i].bytes;
    }
    pageable->kept[i].at = host.at;
    pageable->kept[i].bytes = bytes;
}

void ebb_host_free(ebb_device_t *dev, ebb_host_t host)
{
    if (!host.at || host.pinned)
        ebb_pinned_free(dev, host.at, host.bytes);
    else if (host.on_disk)
        ebb_disk_free(dev->ebb, host.at);
    else
        free_pageable(dev->ebb, host);
}

/* Into a pinned block. */
static ebb_status_t move(ebb_device_t *dev, void *to, ebb_host_t from)
{
    const size_t piece = from.on_disk ? ebb_stage_piece(dev) : from.bytes;
    const void *content = from.at;
    for (size_t at = 0; at < from.bytes; at += piece) {
        const size_t bytes = from.bytes - at < piece ? from.bytes - at : piece;
        if (from.on_disk)
            EBB_TRY(ebb_stage_read(dev, from, at, bytes, &content));
        for (size_t i = 0, count; i < bytes; i += count) {
            void *part = (char *)to + at + i;
            count = ebb_pinned_piece(dev, &part, bytes - i);
            memcpy(part, (const char *)content + i, count);
        }
    }
    return 0;
}

bool ebb_host_pin(ebb_device_t *dev, ebb_host_t *host)
{
    const size_t bytes = host->bytes;
    if (!host->at || host->pinned)
        return true;
    ebb_host_t better = {.at = alloc_pinned(dev, bytes), .pinned = true, .bytes = bytes};
    if (!better.at)
        return false;
    const bool moved = !move(dev, better.at, *host);
    ebb_host_free(dev, moved ? *host : better);
    if (moved)
        *host = better;
    return moved;
}

ebb_pageable_usage_t ebb_pageable_usage(ebb_t *ebb)
{
    const ebb_pageable_t *pageable = &ebb->offload->pageable;
    return (ebb_pageable_usage_t){.bytes = pageable->bytes, .peak_bytes = pageable->peak_bytes};
}

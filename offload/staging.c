/* staging.c: copies between the device and what is not pinned (internal.h). */
#include <stdlib.h>
#include <string.h>

#include "offload/internal.h"

/* Large enough that a copy's start does not count, small enough that the CPU's caches hold what it copies; both together no more than
 * that part of the host budget. */
enum { LARGEST = 1 << 20, LEAST = 4 << 10, SHARE = 16 };

/* Once there are blocks they stay: they are needed when nothing else can be pinned. */
static bool find_blocks(ebb_device_t *dev)
{
    ebb_staging_t *staging = &ebb_offload_of(dev)->staging;
    if (staging->bytes)
        return true;
    const ebb_pinned_usage_t u = ebb_pinned_usage(dev);
    const size_t pinned = u.registered_bytes;
    if (staging->refused_pinned && pinned >= staging->refused_pinned)
        return false;
    for (size_t bytes = LARGEST; bytes >= LEAST; bytes /= 4) {
        if (2 * bytes > u.budget_bytes / SHARE)
            continue;
        staging->block[0] = ebb_pinned_alloc(dev, bytes);
        staging->block[1] = staging->block[0] ? ebb_pinned_alloc(dev, bytes) : NULL;
        if (staging->block[1]) {
            staging->bytes = bytes;
            return true;
        }
        ebb_pinned_free(dev, staging->block[0], bytes);
    }
    staging->refused_pinned = pinned + 1;
    return false;
}

void ebb_stage_prepare(ebb_device_t *dev)
{
    find_blocks(dev);
}

size_t ebb_stage_piece(ebb_device_t *dev)
{
    ebb_staging_t *staging = &ebb_offload_of(dev)->staging;
    if (find_blocks(dev))
        return staging->bytes;
    staging->block[0] = aligned_alloc(LEAST, 2 * (size_t)LARGEST);
    if (!staging->block[0])
        return 0;
    staging->block[1] = (char *)staging->block[0] + LARGEST;
    staging->pageable = true;
    return staging->bytes = LARGEST;
}

size_t ebb_stage_bytes(ebb_device_t *dev)
{
    const ebb_staging_t *staging = &ebb_offload_of(dev)->staging;
    return staging->pageable ? 0 : 2 * staging->bytes;
}

void ebb_stage_end(ebb_device_t *dev)
{
    ebb_staging_t *staging = &ebb_offload_of(dev)->staging;
    if (staging->pageable)
        free(staging->block[0]);
    for (unsigned i = 0; i < 2 && staging->bytes && !staging->pageable; i++)
        ebb_pinned_free(dev, staging->block[i], staging->bytes);
    staging->bytes = 0;
    staging->pageable = false;
}

static size_t piece_at(const ebb_staging_t *staging, size_t at, size_t bytes)
{
    return bytes - at < staging->bytes ? bytes - at : staging->bytes;
}

/* Both blocks are free. */
static ebb_status_t wait_for_both(ebb_device_t *dev)
{
    ebb_staging_t *staging = &ebb_offload_of(dev)->staging;
    EBB_TRY(ebb_stall(dev, staging->busy[0]));
    return ebb_stall(dev, staging->busy[1]);
}

/* To the content, from that place on. */
static ebb_status_t empty(ebb_device_t *dev, unsigned slot, ebb_host_t host, size_t at, size_t bytes)
{
    ebb_staging_t *staging = &ebb_offload_of(dev)->staging;
    EBB_TRY(ebb_stall(dev, staging->busy[slot]));
    if (host.on_disk)
        return ebb_disk_write(dev->ebb, host.at, at, staging->block[slot], bytes);
    memcpy((char *)host.at + at, staging->block[slot], bytes);
    return 0;
}

static ebb_status_t fill(ebb_device_t *dev, unsigned slot, ebb_host_t host, size_t at, size_t bytes)
{
    ebb_staging_t *staging = &ebb_offload_of(dev)->staging;
    EBB_TRY(ebb_stall(dev, staging->busy[slot]));
    if (host.on_disk)
        return ebb_disk_read(dev->ebb, host.at, at, staging->block[slot], bytes);
    memcpy(staging->block[slot], (const char *)host.at + at, bytes);
    return 0;
}

ebb_status_t ebb_stage_read(ebb_device_t *dev, ebb_host_t host, size_t at, size_t bytes, const void **content)
{
    *content = ebb_offload_of(dev)->staging.block[0];
    return fill(dev, 0, host, at, bytes);
}

ebb_status_t ebb_stage_out(ebb_device_t *dev, CUdeviceptr device, ebb_host_t host, size_t bytes)
{
    ebb_staging_t *staging = &ebb_offload_of(dev)->staging;
    if (!find_blocks(dev)) { /* so it is not on disk: ebb_stage_piece */
        EBB_TRY(ebb_copy_issue(dev, EBB_OUT, device, host.at, bytes));
        return ebb_stall(dev, ebb_mark_here(ebb_copy_stream(dev, EBB_OUT)));
    }
    EBB_TRY(wait_for_both(dev));
    unsigned slot = 0;
    size_t before = 0; /* bytes of the piece before this one, which wait in the other block */
    for (size_t at = 0, piece; at < bytes; at += piece, slot ^= 1) {
        piece = piece_at(staging, at, bytes);
        EBB_TRY(ebb_copy_issue(dev, EBB_OUT, device + at, staging->block[slot], piece));
        staging->busy[slot] = ebb_mark_here(ebb_copy_stream(dev, EBB_OUT));
        if (before)
            EBB_TRY(empty(dev, slot ^ 1, host, at - before, before));
        before = piece;
    }
    return before ? empty(dev, slot ^ 1, host, bytes - before, before) : 0;
}

ebb_status_t ebb_stage_in(ebb_device_t *dev, CUdeviceptr device, ebb_host_t host, size_t bytes)
{
    ebb_staging_t *staging = &ebb_offload_of(dev)->staging;
    if (!find_blocks(dev)) {
        EBB_TRY(ebb_copy_issue(dev, EBB_IN, device, host.at, bytes));
        return ebb_stall(dev, ebb_mark_here(ebb_copy_stream(dev, EBB_IN)));
    }
    unsigned slot = 0;
    for (size_t at = 0, piece; at < bytes; at += piece, slot ^= 1) {
        piece = piece_at(staging, at, bytes);
        EBB_TRY(fill(dev, slot, host, at, piece));
        EBB_TRY(ebb_copy_issue(dev, EBB_IN, device + at, staging->block[slot], piece));
        staging->busy[slot] = ebb_mark_here(ebb_copy_stream(dev, EBB_IN));
    }
    return 0;
}

/* arena.c: addresses, for all devices. One reservation, made with the first context; a place is one chunk's worth of it.
 *
 * A sixteenth at the front is never handed out: pointers into it fault. The rest is handed out first fit, each range followed by one free
 * place: a pointer one past the end of a buffer never is the beginning of another. A table from place to range makes
 * every look-up one subtraction and one load.
 */
#include "alloc/device.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"

ebb_status_t ebb_arena_reserve(ebb_t *ebb, size_t device_bytes)
{
    /* Many times the devices' size: ranges of evicted buffers keep their addresses. A process whose address space is limited gets
     * along with less. */
    size_t bytes = device_bytes * 16;
    if (bytes < (size_t)64 << 30)
        bytes = (size_t)64 << 30;
    CUresult result;
    for (;; bytes /= 2) {
        bytes = bytes / EBB_CHUNK_BYTES * EBB_CHUNK_BYTES;
        result = ebb_driver.cuMemAddressReserve(&ebb->arena.base, bytes, EBB_CHUNK_BYTES, 0, 0);
        if (!result)
            break;
        if (bytes / 4 < device_bytes)
            return ebb_fail((ebb_status_t)result, "cuMemAddressReserve", bytes);
    }
    const size_t slots = bytes / EBB_CHUNK_BYTES;
    ebb->arena.first_slot = ebb->arena.next_slot = slots / 16;
    ebb->arena.range = calloc(slots, sizeof *ebb->arena.range);
    if (ebb->arena.range) {
        atomic_store_explicit(&ebb->arena.slots, slots, memory_order_release);
        return 0;
    }
    ebb_driver.cuMemAddressFree(ebb->arena.base, bytes);
    return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "the table of the arena", slots * sizeof *ebb->arena.range);
}

CUdeviceptr ebb_nowhere(ebb_t *ebb, CUdeviceptr word)
{
    return ebb->arena.base + ebb->arena.first_slot / 2 * EBB_CHUNK_BYTES + word % EBB_CHUNK_BYTES;
}

bool ebb_address_is_served(ebb_t *ebb, CUdeviceptr address)
{
    return ebb_arena_contains(ebb, address);
}

/* See EBB_LOW_WORDS. */
static bool looks_like_a_number(ebb_t *ebb, size_t slot)
{
    const CUdeviceptr low = (ebb->arena.base + slot * EBB_CHUNK_BYTES) & UINT32_MAX;
    return low < EBB_LOW_WORDS || (low >= EBB_FLOAT_WORDS_BEGIN && low < EBB_FLOAT_WORDS_END);
}

/* A run of free slots, one longer at each end than what is needed. From where the last range was put, round
 * once: the search stays short while the arena is mostly free. */
static bool find_slots(ebb_t *ebb, size_t count, bool choosy, size_t *first)
{
    size_t run = 0, at = ebb->arena.next_slot;
    if (count + 2 > ebb->arena.slots) /* a program may ask for any number of bytes */
        return false;
    for (size_t tried = 0; tried < ebb->arena.slots + count + 2; tried++, at++) {
        if (at >= ebb->arena.slots) {
            at = ebb->arena.first_slot;
            run = 0;
        }
        run = ebb->arena.range[at] || (choosy && looks_like_a_number(ebb, at)) ? 0 : run + 1;
        if (run == count + 2) {
            *first = at - count;
            return true;
        }
    }
    return false;
}

ebb_range_t *ebb_range_new(ebb_device_t *dev, size_t chunk_count)
{
    size_t first;
    if (!find_slots(dev->ebb, chunk_count, true, &first) && !find_slots(dev->ebb, chunk_count, false, &first))
        return NULL;
    ebb_range_t *r = calloc(1, sizeof *r + chunk_count * sizeof r->chunk[0]);
    if (!r)
        return NULL;
    r->base = dev->ebb->arena.base + first * EBB_CHUNK_BYTES;
    r->chunk_count = (uint32_t)chunk_count;
    r->device = dev;
    for (size_t i = first; i < first + chunk_count; i++)
        dev->ebb->arena.range[i] = r;
    dev->ebb->arena.next_slot = first + chunk_count;
    return r;
}

static void forget(ebb_range_t *r)
{
    ebb_t *ebb = r->device->ebb;
    size_t first = (r->base - ebb->arena.base) / EBB_CHUNK_BYTES;
    for (size_t i = first; i < first + r->chunk_count; i++)
        ebb->arena.range[i] = NULL;
    free(r);
}

void ebb_range_delete(ebb_range_t *r)
{
    ebb_t *ebb = r->device->ebb;
    EBB_DCHECK(!r->mapped);
    if (!ebb_range_clear(r)) {
        forget(r);
        return;
    }
    r->next = ebb->arena.stale;
    ebb->arena.stale = r;
}

/* ---- what the driver has refused to unmap ---- */

/* The first `count` chunks stay mapped, without an owner here: like those of a ghost (spare.c). */
static void note_stale(ebb_range_t *r, uint32_t count, const ebb_chunk_t *chunks)
{
    if (chunks != r->chunk)
        memcpy(r->chunk, chunks, count * sizeof(ebb_chunk_t));
    for (uint32_t i = 0; i < count; i++)
        r->chunk[i]->ghosts++;
    r->stale = count;
    ebb_log(EBB_DEBUG, "%zu bytes at %#llx could not be unmapped: once more later", count * EBB_CHUNK_BYTES,
            (unsigned long long)r->base);
}

ebb_status_t ebb_range_clear(ebb_range_t *r)
{
    if (!r->stale)
        return 0;
    EBB_DRIVER(cuMemUnmap, r->stale * EBB_CHUNK_BYTES, (r->base, r->stale * EBB_CHUNK_BYTES));
    for (uint32_t i = 0; i < r->stale; i++)
        r->chunk[i]->ghosts--;
    r->stale = 0;
    return 0;
}

void ebb_arena_clear(ebb_device_t *dev)
{
    for (ebb_range_t **link = &dev->ebb->arena.stale; *link;) {
        ebb_range_t *r = *link;
        if (r->device != dev || ebb_range_clear(r)) {
            link = &r->next;
            continue;
        }
        *link = r->next;
        forget(r);
    }
}

/* ---- mapping ---- */

static ebb_status_t set_access(ebb_device_t *dev, CUdeviceptr base, size_t bytes)
{
    size_t count;
    const CUmemAccessDesc *desc = ebb_access_descs(dev, &count);
    EBB_DRIVER(cuMemSetAccess, bytes, (base, bytes, desc, count));
    return 0;
}

/* One call for each chunk, for a mapping takes a whole one, and one for the access to all of them. After a failure `*stale` of
 * them, from the first on, are mapped all the same. */
static ebb_status_t map_chunks(ebb_device_t *dev, CUdeviceptr base, size_t count, const ebb_chunk_t *chunks,
                               uint32_t *stale)
{
    size_t done = 0;
    ebb_status_t status = 0;
    while (!status && done < count) {
        status = (ebb_status_t)ebb_driver.cuMemMap(base + done * EBB_CHUNK_BYTES, EBB_CHUNK_BYTES, 0,
                                                   chunks[done]->handle, 0);
        done += !status;
    }
    if (!status)
        status = set_access(dev, base, count * EBB_CHUNK_BYTES);
    if (!status)
        return 0;
    *stale = done && ebb_driver.cuMemUnmap(base, done * EBB_CHUNK_BYTES) ? (uint32_t)done : 0;
    return ebb_fail(status, "cuMemMap", count * EBB_CHUNK_BYTES);
}

ebb_status_t ebb_range_map_on(ebb_range_t *r, const ebb_chunk_t *chunks)
{
    ebb_device_t *dev = r->device;
    uint32_t stale = 0;
    EBB_DCHECK(!r->mapped);
    EBB_TRY(ebb_range_clear(r));
    ebb_status_t status = map_chunks(dev, r->base, r->chunk_count, chunks, &stale);
    if (stale)
        note_stale(r, stale, chunks);
    if (status)
        return status;
    if (chunks != r->chunk)
        memcpy(r->chunk, chunks, r->chunk_count * sizeof(ebb_chunk_t));
    r->mapped = true;
    return 0;
}

ebb_status_t ebb_range_map_part(ebb_range_t *r, uint32_t first, uint32_t count, const ebb_chunk_t *chunks)
{
    ebb_device_t *dev = r->device;
    uint32_t stale = 0;
    ebb_status_t status = map_chunks(dev, r->base + first * EBB_CHUNK_BYTES, count, chunks, &stale);
    if (stale)
        ebb_log(EBB_WARN, "%zu bytes could be neither mapped nor unmapped", stale * EBB_CHUNK_BYTES);
    if (status)
        return status;
    memcpy(r->chunk + first, chunks, count * sizeof(ebb_chunk_t));
    return 0;
}

ebb_status_t ebb_range_unmap_part(ebb_range_t *r, uint32_t first, uint32_t count)
{
    ebb_device_t *dev = r->device;
    EBB_DRIVER(cuMemUnmap, count * EBB_CHUNK_BYTES,
               (r->base + first * EBB_CHUNK_BYTES, count * EBB_CHUNK_BYTES));
    ebb_chunks_give(dev, count, r->chunk + first);
    memset(r->chunk + first, 0, count * sizeof(ebb_chunk_t));
    return 0;
}

void ebb_range_unmap_from(ebb_range_t *r)
{
    EBB_DCHECK(r->mapped);
    if (ebb_driver.cuMemUnmap(r->base, r->chunk_count * EBB_CHUNK_BYTES))
        note_stale(r, r->chunk_count, r->chunk);
    r->mapped = false;
    for (uint32_t i = 0; r->holds && i < r->chunk_count; i++)
        r->chunk[i]->holder = NULL;
    r->holds = false;
}

ebb_status_t ebb_range_map(ebb_range_t *r)
{
    ebb_device_t *dev = r->device;
    EBB_TRY(ebb_range_clear(r));
    EBB_TRY(ebb_chunks_take(dev, r->chunk_count, r->chunk));
    ebb_status_t status = ebb_range_map_on(r, r->chunk);
    if (status)
        ebb_chunks_give(dev, r->chunk_count, r->chunk);
    return status;
}

void ebb_range_unmap(ebb_range_t *r)
{
    ebb_device_t *dev = r->device;
    ebb_range_unmap_from(r);
    ebb_chunks_give(dev, r->chunk_count, r->chunk);
}

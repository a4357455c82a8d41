/* window.c: the part of the address space in which every device address lies.
 *
 * It is reserved once, without access. Ranges in it are kept in an array sorted by address: there are
 * hundreds, found by bisection far more often than made. Mappings within a reserved range likewise.
 */
#include "softgpu/driver/stream/streams.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct {
    CUdeviceptr base;
    size_t bytes;
    sg_range_t **ranges; /* sorted by base */
    size_t count, capacity;
} window;

CUresult sg_window_init(void)
{
    /* Address space is free, but ulimit -v or a sanitizer may object: ask for less until it is granted. */
    for (size_t bytes = (size_t)4 << 40; bytes >= (size_t)16 << 30; bytes /= 2) {
        char *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            continue;
        madvise(p, bytes, MADV_DONTFORK);
        window.base = SG_ROUND_UP((CUdeviceptr)(uintptr_t)p, SG_CHUNK_BYTES);
        window.bytes = bytes - SG_CHUNK_BYTES;
        return CUDA_SUCCESS;
    }
    sg_log(1, "cannot reserve address space for the device: see ulimit -v");
    return CUDA_ERROR_OUT_OF_MEMORY;
}

bool sg_window_contains(CUdeviceptr address)
{
    return address - window.base < window.bytes;
}

/* Index of the first range whose base is above `address`. */
static size_t above(CUdeviceptr address)
{
    size_t low = 0, high = window.count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (window.ranges[mid]->base <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

sg_range_t *sg_window_find_locked(CUdeviceptr address)
{
    size_t i = above(address);
    if (!i)
        return NULL;
    sg_range_t *r = window.ranges[i - 1];
    return address - r->base < r->bytes ? r : NULL;
}

/* First fit; one chunk stays free behind every range, so that running off its end is seen. */
static CUdeviceptr find_gap(size_t bytes, size_t alignment, size_t *index)
{
    CUdeviceptr at = SG_ROUND_UP(window.base, alignment);
    for (size_t i = 0; i <= window.count; i++) {
        CUdeviceptr end = i < window.count ? window.ranges[i]->base : window.base + window.bytes;
        if (at + bytes + SG_CHUNK_BYTES <= end) {
            *index = i;
            return at;
        }
        if (i < window.count)
            at = SG_ROUND_UP(end + window.ranges[i]->bytes + SG_CHUNK_BYTES, alignment);
    }
    return 0;
}

static bool is_free(CUdeviceptr at, size_t bytes, size_t *index)
{
    if (!sg_window_contains(at) || bytes > window.bytes - (at - window.base))
        return false;
    size_t i = above(at);
    *index = i;
    return (!i || window.ranges[i - 1]->base + window.ranges[i - 1]->bytes <= at) &&
           (i == window.count || at + bytes <= window.ranges[i]->base);
}

sg_range_t *sg_window_reserve_locked(size_t bytes, size_t alignment, CUdeviceptr wanted, sg_range_kind_t kind)
{
    size_t index = 0;
    if (alignment < SG_CHUNK_BYTES)
        alignment = SG_CHUNK_BYTES;
    CUdeviceptr at = wanted;
    if (!wanted || wanted % alignment || !is_free(wanted, bytes, &index))
        at = bytes < window.bytes ? find_gap(bytes, alignment, &index) : 0;
    sg_range_t *r = at ? calloc(1, sizeof *r) : NULL;
    if (!r)
        return NULL;
    if (window.count == window.capacity) {
        size_t capacity = window.capacity ? 2 * window.capacity : 256;
        sg_range_t **grown = realloc(window.ranges, capacity * sizeof *grown);
        if (!grown) {
            free(r);
            return NULL;
        }
        window.ranges = grown;
        window.capacity = capacity;
    }
    r->base = at;
    r->bytes = bytes;
    r->kind = kind;
    memmove(window.ranges + index + 1, window.ranges + index, (window.count - index) * sizeof *window.ranges);
    window.ranges[index] = r;
    window.count++;
    return r;
}

void sg_window_free_locked(sg_range_t *range)
{
    size_t i = above(range->base) - 1;
    memmove(window.ranges + i, window.ranges + i + 1, (window.count - i - 1) * sizeof *window.ranges);
    window.count--;
    free(range->mappings);
    free(range);
}

CUmemAccess_flags sg_access_flags(const sg_access_t *a, unsigned device)
{
    unsigned mine = 1u << device;
    return a->writers & mine   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : a->readers & mine ? CU_MEM_ACCESS_FLAGS_PROT_READ
                               : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

bool sg_extent_find_locked(CUdeviceptr address, sg_extent_t *out)
{
    sg_range_t *r = sg_window_find_locked(address);
    if (!r)
        return false;
    if (r->kind == SG_RANGE_SEGMENT)
        return sg_heap_block_locked(r->segment, address, out);
    if (r->kind == SG_RANGE_GRAPH)
        return sg_block_extent_locked(r->segment, address, out);
    if (r->kind == SG_RANGE_MODULE)
        return sg_variables_extent_locked(r->segment, address, out);
    size_t low = 0, high = r->mapping_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (r->mappings[mid].address <= address)
            low = mid + 1;
        else
            high = mid;
    }
    if (!low)
        return false;
    const sg_mapping_t *m = &r->mappings[low - 1];
    if (address - m->address >= m->bytes)
        return false;
    *out = (sg_extent_t){.base = m->address,
                         .bytes = m->bytes,
                         .id = m->id,
                         .handle = m->handle,
                         .range = r,
                         .access = m->access,
                         .device = m->handle->device};
    return true;
}

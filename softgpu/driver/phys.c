/* phys.c: physical device memory: chunks of one memfd, and how they are mapped.
 *
 * The file is as large as the device and sparse. A chunk's pages appear when it is first touched and then
 * stay: punching them out and faulting them in again costs more than any allocation. Freed chunks are
 * therefore reused with whatever they hold, as on a GPU. SOFTGPU_POISON=1 overwrites them instead, so that
 * reading what was never written shows.
 */
#include "sg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct phys {
    int fd;
    uint32_t chunks, used;
    uint32_t first_free; /* no free chunk lies below */
    bool *taken;         /* [chunks] */
} phys_t;

static phys_t memory[SG_MAX_DEVICES]; /* guarded by sg.lock */

static CUresult init_one(phys_t *phys, size_t bytes)
{
    phys->fd = memfd_create("softgpu", MFD_CLOEXEC);
    if (phys->fd < 0 || ftruncate(phys->fd, (off_t)bytes)) {
        sg_log(1, "cannot make a memory file of %zu MiB (%s); try a smaller SOFTGPU_MEMORY", bytes >> 20,
               strerror(errno));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    phys->chunks = (uint32_t)(bytes / SG_CHUNK_BYTES);
    phys->taken = calloc(phys->chunks, sizeof *phys->taken);
    return phys->taken ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sg_phys_init(unsigned devices, size_t bytes)
{
    for (unsigned i = 0; i < devices; i++)
        SG_TRY(init_one(&memory[i], bytes));
    return CUDA_SUCCESS;
}

size_t sg_phys_used_locked(unsigned device)
{
    return (size_t)memory[device].used * SG_CHUNK_BYTES;
}

static void poison_chunk(const phys_t *phys, uint32_t chunk)
{
    static unsigned char pattern[1 << 16];
    if (!pattern[0])
        memset(pattern, 0xff, sizeof pattern); /* NaN as a float, -1 as an integer */
    for (size_t at = 0; at < SG_CHUNK_BYTES; at += sizeof pattern)
        if (pwrite(phys->fd, pattern, sizeof pattern, (off_t)(chunk * SG_CHUNK_BYTES + at)) < 0)
            sg_log(1, "poisoning failed: %s", strerror(errno));
}

/* The lowest run of `count` free chunks, or `chunks` if there is none: neighbours in the file map with one
 * call. */
static uint32_t find_run(const phys_t *phys, uint32_t count)
{
    uint32_t length = 0;
    for (uint32_t i = phys->first_free; i < phys->chunks; i++) {
        length = phys->taken[i] ? 0 : length + 1;
        if (length == count)
            return i + 1 - count;
    }
    return phys->chunks;
}

sg_handle_t *sg_phys_create_locked(unsigned device, size_t bytes)
{
    phys_t *phys = &memory[device];
    size_t count = bytes / SG_CHUNK_BYTES;
    if (count > phys->chunks - phys->used)
        return NULL;
    sg_handle_t *h = malloc(sizeof *h + count * sizeof h->chunk[0]);
    if (!h)
        return NULL;
    h->device = device;
    h->refs = 1;
    h->owners = 1;
    h->id = 0;
    h->bytes = bytes;
    h->count = (uint32_t)count;

    uint32_t at = find_run(phys, h->count);
    if (at == phys->chunks)
        at = phys->first_free; /* no run: take what is free, piece by piece */
    for (uint32_t i = 0; i < h->count; i++) {
        while (phys->taken[at])
            at++;
        phys->taken[at] = true;
        h->chunk[i] = at;
        if (sg.config.poison)
            poison_chunk(phys, at);
    }
    while (phys->first_free < phys->chunks && phys->taken[phys->first_free])
        phys->first_free++;
    phys->used += h->count;
    return h;
}

void sg_phys_unref_locked(sg_handle_t *h)
{
    if (--h->refs)
        return;
    phys_t *phys = &memory[h->device];
    for (uint32_t i = 0; i < h->count; i++) {
        phys->taken[h->chunk[i]] = false;
        if (h->chunk[i] < phys->first_free)
            phys->first_free = h->chunk[i];
    }
    phys->used -= h->count;
    free(h);
}

CUresult sg_phys_map(CUdeviceptr address, const sg_handle_t *h)
{
    const phys_t *phys = &memory[h->device];
    char *at = (char *)(uintptr_t)address;
    for (uint32_t i = 0; i < h->count;) {
        uint32_t run = 1;
        while (i + run < h->count && h->chunk[i + run] == h->chunk[i] + run)
            run++;
        size_t bytes = run * SG_CHUNK_BYTES;
        void *p = mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, phys->fd,
                       (off_t)(h->chunk[i] * SG_CHUNK_BYTES));
        if (p == MAP_FAILED) {
            sg_log(1, "out of mappings (%s): raise vm.max_map_count", strerror(errno));
            if (i)
                sg_phys_unmap(address, i * SG_CHUNK_BYTES);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        madvise(at, bytes, MADV_DONTFORK); /* a mapping made later does not inherit the window's advice */
        at += bytes;
        i += run;
    }
    return CUDA_SUCCESS;
}

CUresult sg_phys_protect(CUdeviceptr address, size_t bytes, int prot)
{
    void *p = (void *)(uintptr_t)address;
    /* A key only on what is accessible: PROT_NONE keeps everybody out by itself. */
    int failed =
        sg_pkey >= 0 && prot != PROT_NONE ? pkey_mprotect(p, bytes, prot, sg_pkey) : mprotect(p, bytes, prot);
    if (failed) {
        sg_log(1, "cannot set access to %p (%s): raise vm.max_map_count", p, strerror(errno));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

/* The window's own mapping comes back over what was there. */
static bool cover(void *p, size_t bytes, int fixed)
{
    if (mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0) != p)
        return false;
    madvise(p, bytes, MADV_DONTFORK);
    return true;
}

void sg_phys_unmap(CUdeviceptr address, size_t bytes)
{
    void *p = (void *)(uintptr_t)address;
    if (cover(p, bytes, MAP_FIXED))
        return;
    /* At the limit of mappings the kernel refuses even to replace one; without it there is room for the
     * cover, unless another thread's mapping falls into the gap in between. */
    if (munmap(p, bytes) || !cover(p, bytes, MAP_FIXED_NOREPLACE))
        sg_log(1, "cannot unmap %p: %s", p, strerror(errno));
}

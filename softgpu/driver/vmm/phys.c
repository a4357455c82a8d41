/* phys.c: physical device memory: chunks of one memfd, and how they are mapped.
 *
 * The file is as large as the device and sparse. A chunk's pages appear when it is first touched and then
 * stay: punching them out and faulting them in again costs more than any allocation. Freed chunks are
 * therefore reused with whatever they hold, as on a GPU. SOFTGPU_POISON=1 overwrites them instead, so that
 * reading what was never written shows.
 */
#include "softgpu/driver/simt/shadow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct phys {
    int fd;
    uint32_t chunks, used, most; /* most: that were ever used at once */
    uint32_t first_free;         /* no free chunk lies below */
    bool *taken;                 /* [chunks] */
} phys_t;

static phys_t memory[SG_MAX_DEVICES + 1]; /* the last: host memory; guarded by sg.lock */

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
    size_t ram = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    return init_one(&memory[SG_HOST], ram / SG_CHUNK_BYTES * SG_CHUNK_BYTES);
}

size_t sg_phys_used_locked(unsigned device)
{
    return (size_t)memory[device].used * SG_CHUNK_BYTES;
}

static void take(phys_t *phys, uint32_t chunks)
{
    phys->used += chunks;
    if (phys->used > phys->most)
        phys->most = phys->used;
}

bool sg_phys_charge_locked(unsigned device, int64_t chunks)
{
    phys_t *phys = &memory[device];
    if (chunks > (int64_t)(phys->chunks - phys->used))
        return false;
    if (chunks > 0)
        take(phys, (uint32_t)chunks);
    else
        phys->used -= (uint32_t)-chunks;
    return true;
}

/* At the end of the program: a line for each device, its number and the most bytes that were in use at once. */
__attribute__((destructor)) static void tell_peak(void)
{
    const char *path = getenv("SOFTGPU_PEAK");
    if (!path || !*path || atomic_load(&sg.forked) || !memory[0].taken)
        return;
    FILE *f = fopen(path, "w");
    for (unsigned i = 0; f && i < SG_MAX_DEVICES && memory[i].taken; i++)
        fprintf(f, "%u %zu\n", i, (size_t)memory[i].most * SG_CHUNK_BYTES);
    if (!f || fclose(f))
        sg_log(1, "SOFTGPU_PEAK=%s: %s", path, strerror(errno));
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

static sg_handle_t *new_handle(unsigned device, size_t bytes, size_t chunks)
{
    sg_handle_t *h = malloc(sizeof *h + chunks * sizeof h->chunk[0]);
    if (!h)
        return NULL;
    *h = (sg_handle_t){
        .device = device, .fd = -1, .table_fd = -1, .charged = true, .refs = 1, .owners = 1, .bytes = bytes};
    h->location.type = device == SG_HOST ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    h->location.id = device == SG_HOST ? 0 : (int)device;
    h->count = (uint32_t)chunks;
    return h;
}

/* ---- parts of other files, to be shared with other processes ---- */

static const char file_name[] = "softgpu-memory-";

int sg_phys_file(unsigned device, size_t bytes)
{
    char name[32];
    snprintf(name, sizeof name, "%s%u", file_name, device);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool sg_phys_file_check(int fd, unsigned *device, size_t *bytes)
{
    char link[64], name[128];
    struct stat status;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, name, sizeof name - 1);
    if (n <= 0 || fstat(fd, &status))
        return false;
    name[n] = 0;
    const char *found = strstr(name, file_name);
    if (!found)
        return false;
    *device = (unsigned)strtoul(found + sizeof file_name - 1, NULL, 10);
    *bytes = (size_t)status.st_size;
    return true;
}

int sg_phys_fd(unsigned device)
{
    return memory[device].fd;
}

sg_handle_t *sg_phys_import_locked(unsigned device, int fd, const uint32_t *chunks, size_t count)
{
    sg_handle_t *h = new_handle(device, count * SG_CHUNK_BYTES, count);
    if (!h)
        return NULL;
    memcpy(h->chunk, chunks, count * sizeof *chunks);
    h->fd = fd;
    h->owns_fd = true;
    h->charged = false;
    return h;
}

sg_handle_t *sg_phys_create_in_locked(unsigned device, size_t bytes, sg_phys_file_t file)
{
    phys_t *phys = &memory[device];
    size_t chunks = bytes / SG_CHUNK_BYTES;
    if (file.charged && chunks > phys->chunks - phys->used)
        return NULL;
    sg_handle_t *h = new_handle(device, bytes, 0);
    if (!h)
        return NULL;
    h->fd = file.fd;
    h->fd_offset = file.offset;
    h->owns_fd = file.owns;
    h->charged = file.charged;
    if (h->charged)
        take(phys, (uint32_t)chunks);
    return h;
}

sg_handle_t *sg_phys_create_locked(unsigned device, size_t bytes)
{
    phys_t *phys = &memory[device];
    size_t count = bytes / SG_CHUNK_BYTES;
    if (count > phys->chunks - phys->used)
        return NULL;
    sg_handle_t *h = new_handle(device, bytes, count);
    if (!h)
        return NULL;
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
    take(phys, h->count);
    return h;
}

void sg_phys_unref_locked(sg_handle_t *h)
{
    if (--h->refs)
        return;
    phys_t *phys = &memory[h->device];
    if (h->table_fd >= 0)
        close(h->table_fd);
    if (h->fd >= 0) {
        if (h->charged) {
            phys->used -= (uint32_t)(h->bytes / SG_CHUNK_BYTES);
            if (!h->owns_fd) /* a part of a pool: its pages go back */
                fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)h->fd_offset,
                          (off_t)h->bytes);
        }
        if (h->owns_fd)
            close(h->fd);
        free(h);
        return;
    }
    for (uint32_t i = 0; i < h->count; i++) {
        phys->taken[h->chunk[i]] = false;
        if (h->chunk[i] < phys->first_free)
            phys->first_free = h->chunk[i];
    }
    phys->used -= h->count;
    sg_live_forget_handle(h);
    free(h);
}

static bool map_run(char *at, size_t bytes, int fd, uint64_t offset)
{
    if (mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, (off_t)offset) == MAP_FAILED) {
        sg_log(1, "out of mappings (%s): raise vm.max_map_count", strerror(errno));
        return false;
    }
    madvise(at, bytes, MADV_DONTFORK); /* a mapping made later does not inherit the window's advice */
    return true;
}

CUresult sg_phys_map(CUdeviceptr address, const sg_handle_t *h)
{
    char *at = (char *)(uintptr_t)address;
    if (h->fd >= 0 && !h->count)
        return map_run(at, h->bytes, h->fd, h->fd_offset) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < h->count;) {
        uint32_t run = 1;
        while (i + run < h->count && h->chunk[i + run] == h->chunk[i] + run)
            run++;
        if (!map_run(at + i * SG_CHUNK_BYTES, run * SG_CHUNK_BYTES, h->fd >= 0 ? h->fd : memory[h->device].fd,
                     h->chunk[i] * SG_CHUNK_BYTES)) {
            if (i)
                sg_phys_unmap(address, i * SG_CHUNK_BYTES);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        i += run;
    }
    return CUDA_SUCCESS;
}

CUresult sg_phys_protect_locked(CUdeviceptr address, size_t bytes, const sg_access_t *access)
{
    void *p = (void *)(uintptr_t)address;
    int prot = access->writers || access->host ? PROT_READ | PROT_WRITE
               : access->readers               ? PROT_READ
                                               : PROT_NONE;
    /* A key only on what is accessible: PROT_NONE keeps everybody out by itself. */
    int key = prot == PROT_NONE ? -1 : sg_key_of_locked(access);
    if (key >= 0 && sg_pkey >= 0 ? pkey_mprotect(p, bytes, prot, key) : mprotect(p, bytes, prot)) {
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

bool sg_phys_write(const sg_handle_t *h, size_t offset, const void *data, size_t bytes)
{
    const char *from = data;
    for (size_t n; bytes; bytes -= n, from += n, offset += n) {
        const size_t inside = offset % SG_CHUNK_BYTES;
        n = bytes < SG_CHUNK_BYTES - inside ? bytes : SG_CHUNK_BYTES - inside;
        if (pwrite(memory[h->device].fd, from, n,
                   (off_t)(h->chunk[offset / SG_CHUNK_BYTES] * SG_CHUNK_BYTES + inside)) != (ssize_t)n)
            return false;
    }
    return true;
}

CUresult sg_phys_alias_locked(void *address, const sg_handle_t *h, size_t offset, size_t bytes)
{
    char *at = address;
    for (size_t n; bytes; bytes -= n, at += n, offset += n) {
        const size_t inside = offset % SG_CHUNK_BYTES;
        n = bytes < SG_CHUNK_BYTES - inside ? bytes : SG_CHUNK_BYTES - inside;
        if (mmap(at, n, PROT_NONE, MAP_SHARED | MAP_FIXED, memory[h->device].fd,
                 (off_t)(h->chunk[offset / SG_CHUNK_BYTES] * SG_CHUNK_BYTES + inside)) == MAP_FAILED)
            return CUDA_ERROR_OUT_OF_MEMORY;
        madvise(at, n, MADV_DONTFORK);
        const sg_access_t access = sg_access_of_device(h->device);
        SG_TRY(sg_phys_protect_locked((CUdeviceptr)(uintptr_t)at, n, &access));
    }
    return CUDA_SUCCESS;
}

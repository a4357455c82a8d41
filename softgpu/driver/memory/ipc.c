/* ipc.c: cuMemAlloc's memory in other processes. A handle names the exporter and two of its open files, the device's
 * memory and a table of the chunks of the allocation; the importer opens them through /proc, which Linux allows to
 * processes of one user.
 */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/stream/streams.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct ipc_data {
    char magic[8];
    int32_t pid, memory_fd, table_fd;
    uint32_t device, chunks;
    uint64_t offset, bytes; /* of the allocation, from the first chunk on */
    uint64_t id;
} ipc_data_t;
_Static_assert(sizeof(ipc_data_t) <= sizeof(CUipcMemHandle), "the data fit");

static const char magic[8] = "sgpuipc";

/* What this process has opened. */
typedef struct opened {
    ipc_data_t data;
    CUcontext ctx;
    CUdeviceptr address;
    unsigned refs;
    struct opened *next;
} opened_t;

static opened_t *all_opened;                  /* guarded by sg.lock */
static sg_pool_t opened_heap[SG_MAX_DEVICES]; /* where the mappings are kept */

/* A file with the indices of the handle's chunks, which stays open as long as the handle. */
static int table_of_locked(sg_handle_t *h)
{
    if (h->table_fd >= 0)
        return h->table_fd;
    int fd = memfd_create("softgpu-chunks", MFD_CLOEXEC);
    size_t bytes = h->count * sizeof h->chunk[0];
    if (fd >= 0 && write(fd, h->chunk, bytes) != (ssize_t)bytes) {
        close(fd);
        fd = -1;
    }
    return h->table_fd = fd;
}

SG_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p)
{
    SG_TRY(sg_enter_context());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    sg_extent_t e;
    sg_lock();
    if (sg_extent_find_locked(p, &e) && e.pool && e.pool->hidden && !e.pool->managed && !e.pool->imported) {
        int table = table_of_locked(e.handle);
        ipc_data_t data = {.pid = getpid(),
                           .memory_fd = sg_phys_fd(e.device),
                           .table_fd = table,
                           .device = e.device,
                           .chunks = e.handle->count,
                           .offset = e.base - e.range->base,
                           .bytes = e.bytes,
                           .id = e.id};
        memcpy(data.magic, magic, sizeof magic);
        memset(out, 0, sizeof *out);
        memcpy(out, &data, sizeof data);
        result = table < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    }
    sg_unlock();
    return result;
}

static int open_of(int pid, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Maps the exporter's chunks. */
static CUresult map_locked(const ipc_data_t *data, const uint32_t *chunks, int memory, CUdeviceptr *out)
{
    sg_pool_t *pool = &opened_heap[data->device];
    if (!pool->imported)
        *pool = (sg_pool_t){.device = data->device,
                            .hidden = true,
                            .imported = true,
                            .fd = -1,
                            .access = sg_sync_heap[data->device].access};
    sg_handle_t *h = sg_phys_import_locked(data->device, memory, chunks, data->chunks);
    if (!h) {
        close(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return sg_heap_import_locked(pool, h, data->offset, data->bytes, out);
}

static CUresult open_locked(const ipc_data_t *data, CUdeviceptr *out)
{
    CUcontext ctx = sg_current_context();
    for (opened_t *o = all_opened; o; o = o->next)
        if (o->ctx == ctx && !memcmp(&o->data, data, sizeof *data)) {
            o->refs++;
            *out = o->address;
            return CUDA_SUCCESS;
        }
    size_t bytes = data->chunks * sizeof(uint32_t);
    opened_t *o = calloc(1, sizeof *o);
    uint32_t *chunks = malloc(bytes);
    int table = open_of(data->pid, data->table_fd), memory = open_of(data->pid, data->memory_fd);
    CUresult result = !o || !chunks ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_MAP_FAILED;
    if (o && chunks && table >= 0 && memory >= 0 && pread(table, chunks, bytes, 0) == (ssize_t)bytes) {
        result = map_locked(data, chunks, memory, &o->address);
        memory = -1; /* the handle's, or closed */
    }
    if (table >= 0)
        close(table);
    if (memory >= 0)
        close(memory);
    free(chunks);
    if (result) {
        free(o);
        return result;
    }
    o->data = *data;
    o->ctx = ctx;
    o->refs = 1;
    o->next = all_opened;
    all_opened = o;
    *out = o->address;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
    SG_TRY(sg_enter_context());
    if (!out || flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    ipc_data_t data;
    memcpy(&data, &handle, sizeof data);
    if (memcmp(data.magic, magic, sizeof magic) || data.offset > data.chunks * SG_CHUNK_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    if (data.pid == getpid()) /* as hardware has it: a process does not open what it exported */
        return CUDA_ERROR_INVALID_CONTEXT;
    if (data.device >= sg.config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    sg_lock();
    CUresult result = open_locked(&data, out);
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
    return cuIpcOpenMemHandle_v2(out, handle, flags);
}

SG_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr p)
{
    SG_TRY(sg_enter_context());
    SG_TRY(sg_wait_context(sg_current_context()));
    sg_lock();
    opened_t **link = &all_opened;
    while (*link && ((*link)->address != p || (*link)->ctx != sg_current_context()))
        link = &(*link)->next;
    opened_t *o = *link;
    if (o && !--o->refs) {
        *link = o->next;
        sg_heap_release_import_locked(p);
        free(o);
    }
    sg_unlock();
    if (!o)
        return sg_broken(SG_RULE_FREED, CUDA_ERROR_INVALID_VALUE, "0x%llx is no opened memory handle", p);
    return CUDA_SUCCESS;
}

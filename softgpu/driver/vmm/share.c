/* share.c: memory that other processes map: VMM handles and pools as file descriptors. Memory made for that lies in a
 * file of its own, and the descriptor is a duplicate of the file's (phys.c). Whatever device a process calls it, an
 * imported allocation is the exporter's memory and counts there.
 */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/sg.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUresult check_type(unsigned type, unsigned allowed)
{
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return type == CU_MEM_HANDLE_TYPE_FABRIC || type == CU_MEM_HANDLE_TYPE_WIN32 ||
                       type == CU_MEM_HANDLE_TYPE_WIN32_KMT
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : CUDA_ERROR_INVALID_VALUE;
    return allowed & type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult duplicate(int fd, int *out)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *out = copy;
    return CUDA_SUCCESS;
}

/* ---- handles ---- */

SG_EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                                CUmemAllocationHandleType type, unsigned long long flags)
{
    SG_TRY(sg_enter_context());
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    const sg_handle_t *h = sg_handle_find_locked(handle);
    CUresult result = h ? check_type((unsigned)type, h->handle_types)
                        : sg_broken(SG_RULE_HANDLE, CUDA_ERROR_INVALID_VALUE,
                                    "cuMemExportToShareableHandle: 0x%llx is not a handle", handle);
    if (!result)
        result = duplicate(h->fd, out);
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                                  CUmemAllocationHandleType type)
{
    SG_TRY(sg_enter_context());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(check_type((unsigned)type, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    int fd = (int)(intptr_t)os_handle, mine;
    unsigned device;
    size_t bytes;
    if (!sg_phys_file_check(fd, &device, &bytes))
        return sg_broken(SG_RULE_HANDLE, CUDA_ERROR_INVALID_VALUE, "descriptor %d is not exported memory",
                         fd);
    if (device != SG_HOST && device >= sg.config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    SG_TRY(duplicate(fd, &mine));
    sg_lock();
    sg_handle_t *h = sg_phys_create_in_locked(device, bytes, (sg_phys_file_t){.fd = mine, .owns = true});
    if (h) {
        h->handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        *out = sg_handle_publish_locked(h);
    }
    bool named = h && h->id;
    if (h && !named)
        sg_phys_unref_locked(h);
    else if (!h)
        close(mine);
    sg_unlock();
    return named ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- pools ---- */

SG_EXPORT CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool,
                                                    CUmemAllocationHandleType type, unsigned long long flags)
{
    SG_TRY(sg_enter_context());
    if (!out || flags || !pool)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    const sg_pool_t *p = sg_pool_resolve_locked(pool, 0);
    CUresult result = p ? check_type((unsigned)type, p->handle_types) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = p->imported ? CUDA_ERROR_INVALID_VALUE : duplicate(p->fd, out);
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *os_handle,
                                                      CUmemAllocationHandleType type,
                                                      unsigned long long flags)
{
    SG_TRY(sg_enter_context());
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(check_type((unsigned)type, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    unsigned device;
    size_t bytes;
    if (!sg_phys_file_check((int)(intptr_t)os_handle, &device, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (device != SG_HOST && device >= sg.config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    int fd;
    SG_TRY(duplicate((int)(intptr_t)os_handle, &fd));
    sg_pool_t *p = sg_pool_new(device, 0);
    if (!p) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p->fd = fd;
    p->imported = true;
    sg_pool_publish(p);
    *out = (CUmemoryPool)p;
    return CUDA_SUCCESS;
}

/* What CUmemPoolPtrExportData holds here. */
typedef struct export_data {
    char magic[8];
    uint64_t segment_offset, segment_bytes; /* in the pool's file */
    uint64_t offset, bytes;                 /* of the allocation in the segment */
} export_data_t;
_Static_assert(sizeof(export_data_t) <= sizeof(CUmemPoolPtrExportData), "the data fit");

static const char magic[8] = "softgpu";

SG_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr p)
{
    SG_TRY(sg_enter_context());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_extent_t extent;
    sg_lock();
    bool shared = sg_extent_find_locked(p, &extent) && extent.pool && extent.pool->fd >= 0 &&
                  !extent.pool->imported && extent.base == p;
    if (shared) {
        export_data_t data = {.segment_offset = extent.handle->fd_offset,
                              .segment_bytes = extent.handle->bytes,
                              .offset = extent.base - extent.range->base,
                              .bytes = extent.bytes};
        memcpy(data.magic, magic, sizeof magic);
        memset(out, 0, sizeof *out);
        memcpy(out, &data, sizeof data);
    }
    sg_unlock();
    return shared ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Maps the segment; the allocation begins at its offset there. */
SG_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool pool, CUmemPoolPtrExportData *shared)
{
    export_data_t data;
    SG_TRY(sg_enter_context());
    if (!out || !shared || !pool)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&data, shared, sizeof data);
    if (memcmp(data.magic, magic, sizeof magic) || data.segment_offset % SG_CHUNK_BYTES ||
        data.offset > data.segment_bytes || data.bytes > data.segment_bytes - data.offset)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg_pool_t *p = sg_pool_resolve_locked(pool, 0);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (p && p->imported) {
        sg_phys_file_t file = {.fd = p->fd, .offset = data.segment_offset};
        sg_handle_t *h = sg_phys_create_in_locked(p->device, data.segment_bytes, file);
        result = sg_heap_import_locked(p, h, data.offset, data.bytes, out);
    }
    sg_unlock();
    return result;
}

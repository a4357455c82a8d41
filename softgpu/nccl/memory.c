/* memory.c: memory that NCCL gives out, and memory that it is told of. */
#include "softgpu/nccl/internal.h"

#include <stdlib.h>

ncclResult_t nccl_pages_new(CUdeviceptr *out, size_t size, int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    const CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    size_t granularity;
    NCCL_DRIVER(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    size = (size + granularity - 1) / granularity * granularity;
    NCCL_DRIVER(cuMemCreate(&handle, size, &prop, 0));
    CUresult result = nccl_driver.cuMemAddressReserve(out, size, granularity, 0, 0);
    if (!result && !(result = nccl_driver.cuMemMap(*out, size, 0, handle, 0)) &&
        (result = nccl_driver.cuMemSetAccess(*out, size, &access, 1)))
        nccl_driver.cuMemUnmap(*out, size);
    if (result && *out)
        nccl_driver.cuMemAddressFree(*out, size);
    nccl_driver.cuMemRelease(handle); /* the mapping holds it */
    return result ? nccl_from_driver(result, "cuMemMap") : ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **out, size_t size)
{
    CUdeviceptr at = 0;
    int device;
    if (!out || !size)
        return nccl_fail(ncclInvalidArgument, "%zu bytes", size);
    *out = NULL;
    NCCL_TRY(nccl_current_device(&device));
    NCCL_TRY(nccl_pages_new(&at, size, device));
    *out = (void *)(uintptr_t)at;
    return ncclSuccess;
}

ncclResult_t nccl_pages_free(CUdeviceptr at)
{
    CUdeviceptr base;
    size_t bytes;
    NCCL_DRIVER(cuMemGetAddressRange(&base, &bytes, at));
    NCCL_DRIVER(cuMemUnmap(base, bytes));
    NCCL_DRIVER(cuMemAddressFree(base, bytes));
    return ncclSuccess;
}

ncclResult_t ncclMemFree(void *p)
{
    if (!p)
        return ncclSuccess;
    NCCL_TRY(nccl_start());
    return nccl_pages_free((CUdeviceptr)(uintptr_t)p);
}

/* Registered memory is used like any other. What is registered is remembered, as long as it is. */
typedef struct registration {
    ncclComm_t comm;
    void *at;
    size_t bytes;
} registration_t;

static ncclResult_t register_memory(ncclComm_t comm, void *at, size_t bytes, registration_t **out)
{
    CUdeviceptr base;
    size_t whole;
    if (!at || !bytes || !out)
        return nccl_fail(ncclInvalidArgument, "%zu bytes", bytes);
    NCCL_DRIVER(cuMemGetAddressRange(&base, &whole, (CUdeviceptr)(uintptr_t)at));
    if ((CUdeviceptr)(uintptr_t)at + bytes > base + whole)
        return nccl_fail(ncclInvalidArgument, "%zu bytes, beyond the allocation", bytes);
    registration_t *r = malloc(sizeof *r);
    if (!r)
        return nccl_fail(ncclSystemError, "out of host memory");
    *r = (registration_t){comm, at, bytes};
    *out = r;
    return ncclSuccess;
}

static ncclResult_t deregister_memory(ncclComm_t comm, registration_t *r)
{
    if (r && r->comm != comm)
        return nccl_fail(ncclInvalidUsage, "registered with another communicator");
    free(r);
    return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *at, size_t bytes, void **handle)
{
    NCCL_CHECK_COMM(comm);
    return register_memory(comm, at, bytes, (registration_t **)handle);
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    NCCL_CHECK_COMM(comm);
    return deregister_memory(comm, handle);
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *at, size_t bytes, ncclWindow_t *window, int flags)
{
    NCCL_CHECK_COMM(comm);
    if (flags & ~NCCL_WIN_COLL_SYMMETRIC || (uintptr_t)at % NCCL_WIN_REQUIRED_ALIGNMENT)
        return nccl_fail(ncclInvalidArgument, "flags %d, or an address that is not aligned", flags);
    return register_memory(comm, at, bytes, (registration_t **)window);
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    NCCL_CHECK_COMM(comm);
    return deregister_memory(comm, (registration_t *)window);
}

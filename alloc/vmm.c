/* vmm.c: see device.h. That the attribute says yes is not enough: on a vGPU profile cuMemGetAllocationGranularity then answers NOT_SUPPORTED
 * (xgboost issue 12217), on others the attribute is 0 (openxla issue 49252), elsewhere creating fails (GB10, with properties that it does
 * not have: modular issue 6961). */
#include "alloc/device.h"

#include "alloc/base/driver.h"

CUmemAllocationProp ebb_chunk_properties(CUdevice device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

static ebb_status_t ask(CUdevice device, const CUmemAllocationProp *prop)
{
    int supported = 0;
    size_t granularity = 0;
    EBB_DRIVER(cuDeviceGetAttribute, 0,
               (&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
    if (!supported)
        return ebb_fail(CUDA_ERROR_NOT_SUPPORTED, "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
                        0);
    EBB_DRIVER(cuMemGetAllocationGranularity, 0, (&granularity, prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (!granularity || EBB_CHUNK_BYTES % granularity)
        return ebb_fail(CUDA_ERROR_NOT_SUPPORTED, "cuMemGetAllocationGranularity", granularity);
    return 0;
}

static ebb_status_t write_on(CUstream stream, CUdeviceptr at)
{
    EBB_DRIVER(cuMemsetD32Async, EBB_CHUNK_BYTES, (at, 0, EBB_CHUNK_BYTES / 4, stream));
    const CUresult waited = ebb_driver.cuStreamSynchronize(stream);
    /* What comes next unmaps the chunk, which unmapping does not wait for: a wait that has failed is no wait. */
    while (waited && ebb_driver.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        continue;
    return waited ? ebb_fail(waited, "cuStreamSynchronize", 0) : 0;
}

static ebb_status_t write_to(CUdeviceptr at)
{
    CUstream stream;
    EBB_DRIVER(cuStreamCreate, 0, (&stream, CU_STREAM_NON_BLOCKING));
    const ebb_status_t status = write_on(stream, at);
    ebb_driver.cuStreamDestroy_v2(stream);
    return status;
}

static ebb_status_t use(CUdevice device, CUdeviceptr at)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EBB_DRIVER(cuMemSetAccess, EBB_CHUNK_BYTES, (at, EBB_CHUNK_BYTES, &access, 1));
    return write_to(at);
}

static ebb_status_t map_and_use(CUdevice device, CUdeviceptr at, CUmemGenericAllocationHandle chunk)
{
    EBB_DRIVER(cuMemMap, EBB_CHUNK_BYTES, (at, EBB_CHUNK_BYTES, 0, chunk, 0));
    const ebb_status_t status = use(device, at);
    if (status) {
        ebb_driver.cuMemUnmap(at, EBB_CHUNK_BYTES);
        return status;
    }
    EBB_DRIVER(cuMemUnmap, EBB_CHUNK_BYTES, (at, EBB_CHUNK_BYTES));
    return 0;
}

static bool is_full(void)
{
    size_t free_bytes, total;
    return !ebb_driver.cuMemGetInfo_v2(&free_bytes, &total) && free_bytes < EBB_CHUNK_BYTES;
}

static ebb_status_t try_at(CUdevice device, const CUmemAllocationProp *prop, CUdeviceptr at)
{
    CUmemGenericAllocationHandle chunk;
    const ebb_status_t created = (ebb_status_t)ebb_driver.cuMemCreate(&chunk, EBB_CHUNK_BYTES, prop, 0);
    if (created)
        return created == CUDA_ERROR_OUT_OF_MEMORY && is_full()
                   ? 0
                   : ebb_fail(created, "cuMemCreate", EBB_CHUNK_BYTES);
    const ebb_status_t status = map_and_use(device, at, chunk);
    if (status) {
        ebb_driver.cuMemRelease(chunk);
        return status;
    }
    EBB_DRIVER(cuMemRelease, EBB_CHUNK_BYTES, (chunk));
    return 0;
}

ebb_status_t ebb_vmm_try(CUdevice device)
{
    const CUmemAllocationProp prop = ebb_chunk_properties(device);
    CUdeviceptr at;
    EBB_TRY(ask(device, &prop));
    EBB_DRIVER(cuMemAddressReserve, EBB_CHUNK_BYTES, (&at, EBB_CHUNK_BYTES, EBB_CHUNK_BYTES, 0, 0));
    const ebb_status_t status = try_at(device, &prop, at);
    if (status) {
        ebb_driver.cuMemAddressFree(at, EBB_CHUNK_BYTES);
        return status;
    }
    EBB_DRIVER(cuMemAddressFree, EBB_CHUNK_BYTES, (at, EBB_CHUNK_BYTES));
    return 0;
}

/* vmm.h: what the cases on virtual memory management share. */
#ifndef CONFORMANCE_VMM_H
#define CONFORMANCE_VMM_H

#include "conformance.h"

static inline CUmemAllocationProp device_memory(void)
{
    CUmemAllocationProp props;
    memset(&props, 0, sizeof props);
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    return props;
}

static inline size_t granularity(void)
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        SKIP("no virtual memory management");
    CUmemAllocationProp props = device_memory();
    size_t g = 0;
    OK(cuMemGetAllocationGranularity(&g, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    return g;
}

static inline CUmemGenericAllocationHandle create(size_t bytes)
{
    CUmemAllocationProp props = device_memory();
    CUmemGenericAllocationHandle h = 0;
    OK(cuMemCreate(&h, bytes, &props, 0));
    return h;
}

static inline CUdeviceptr reserve(size_t bytes)
{
    CUdeviceptr p = 0;
    OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    return p;
}

static inline CUresult set_access(CUdeviceptr p, size_t bytes, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc;
    memset(&desc, 0, sizeof desc);
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = device;
    desc.flags = flags;
    return cuMemSetAccess(p, bytes, &desc, 1);
}

/* Reserved, mapped, readable and writable. */
static inline CUdeviceptr map_new(size_t bytes, CUmemGenericAllocationHandle h)
{
    CUdeviceptr p = reserve(bytes);
    OK(cuMemMap(p, bytes, 0, h, 0));
    OK(set_access(p, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    return p;
}

#endif

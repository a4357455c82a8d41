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

/* One chunk's life, as far as it has come. */
typedef struct trial {
    CUdevice device;
    CUdeviceptr at;
    CUmemGenericAllocationHandle chunk;
    bool reserved, created, mapped;
    bool in_use;      /* nothing has said that the write has ended */
    CUresult failed;  /* the first call that did */
    const char *what; /* which one */
} trial_t;

static bool note(trial_t *t, CUresult result, const char *what)
{
    if (result && !t->failed) {
        t->failed = result;
        t->what = what;
    }
    return !result;
}
#define DID(t, call, ...) note(t, ebb_driver.call(__VA_ARGS__), #call)

static void write_on(trial_t *t, CUstream stream)
{
    if (!DID(t, cuMemsetD32Async, t->at, 0, EBB_CHUNK_BYTES / 4, stream))
        return;
    t->in_use = !DID(t, cuStreamSynchronize, stream);
    /* Unmapping waits for nothing, and a wait that has failed is no wait. */
    while (t->in_use) {
        const CUresult is = ebb_driver.cuStreamQuery(stream);
        t->in_use = is != CUDA_SUCCESS;
        if (is != CUDA_ERROR_NOT_READY)
            return;
    }
}

static void use(trial_t *t)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = t->device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUstream stream;
    if (!DID(t, cuMemSetAccess, t->at, EBB_CHUNK_BYTES, &access, 1) ||
        !DID(t, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING))
        return;
    write_on(t, stream);
    ebb_driver.cuStreamDestroy_v2(stream);
}

static bool is_full(void)
{
    size_t free_bytes, total;
    return !ebb_driver.cuMemGetInfo_v2(&free_bytes, &total) && free_bytes < EBB_CHUNK_BYTES;
}

static void begin(trial_t *t, const CUmemAllocationProp *prop)
{
    t->reserved = DID(t, cuMemAddressReserve, &t->at, EBB_CHUNK_BYTES, EBB_CHUNK_BYTES, 0, 0);
    if (!t->reserved)
        return;
    const CUresult created = ebb_driver.cuMemCreate(&t->chunk, EBB_CHUNK_BYTES, prop, 0);
    if (created == CUDA_ERROR_OUT_OF_MEMORY && is_full())
        return;
    t->created = note(t, created, "cuMemCreate");
    t->mapped = t->created && DID(t, cuMemMap, t->at, EBB_CHUNK_BYTES, 0, t->chunk, 0);
    if (t->mapped)
        use(t);
}

/* What cannot be given back keeps what lies below it. */
static void end(trial_t *t)
{
    if (t->in_use || (t->mapped && !DID(t, cuMemUnmap, t->at, EBB_CHUNK_BYTES)))
        return;
    if (t->created && !DID(t, cuMemRelease, t->chunk))
        return;
    if (t->reserved)
        DID(t, cuMemAddressFree, t->at, EBB_CHUNK_BYTES);
}

ebb_status_t ebb_vmm_try(CUdevice device)
{
    const CUmemAllocationProp prop = ebb_chunk_properties(device);
    trial_t t = {.device = device};
    EBB_TRY(ask(device, &prop));
    begin(&t, &prop);
    end(&t);
    return t.failed ? ebb_fail((ebb_status_t)t.failed, t.what, EBB_CHUNK_BYTES) : 0;
}

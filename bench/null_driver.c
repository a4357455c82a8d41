/* null_driver.c: a libcuda.so.1 that does nothing at once, so that what is timed above it is the layer and
 * nothing else. Addresses are numbers that nobody reads, kernels and copies are counted and forgotten.
 *
 *   NULL_DRIVER_BYTES=N   device memory (default 80 GiB), all of it free at first
 *   NULL_DRIVER_LAG=N     the device is N operations behind the host: an event is over when so many operations
 *                         have been issued after it, or somebody has waited (default 0: all is over at once)
 *   NULL_DRIVER_COST=1    creating, mapping and access take as long as was seen on an A100: 193 us, 1.5 us, 36 us
 *
 * Functions are named "pN": N arguments of 8 bytes. Not for several threads at once, but for what the layer's
 * own threads call (cuMemCreate, cuMemRelease).
 */
#include <cuda.h>

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
enum { MOST_PARAMS = 64 };

static size_t device_bytes;
static uint64_t lag, issued, completed;
static int costly;
static atomic_size_t created, most_created;
static atomic_ullong next_handle = 1;
static CUdeviceptr next_address = (CUdeviceptr)1 << 44;
static _Thread_local CUcontext current;
static _Thread_local unsigned below; /* how often the context lies below it */
static char context_room, stream_room[64], function_room[MOST_PARAMS];

__attribute__((constructor)) static void read_environment(void)
{
    const char *bytes = getenv("NULL_DRIVER_BYTES"), *behind = getenv("NULL_DRIVER_LAG");
    device_bytes = bytes ? strtoull(bytes, NULL, 0) : (size_t)80 << 30;
    lag = behind ? strtoull(behind, NULL, 0) : 0;
    costly = getenv("NULL_DRIVER_COST") != NULL;
}

static void take_ns(uint64_t ns)
{
    struct timespec t;
    if (!costly)
        return;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t end = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + ns;
    do
        clock_gettime(CLOCK_MONOTONIC, &t);
    while ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec < end);
}

static CUresult issue(void)
{
    issued++;
    return CUDA_SUCCESS;
}

static CUresult complete(void)
{
    completed = issued;
    return CUDA_SUCCESS;
}

/* ---- device and context ---- */

EXPORT CUresult cuInit(unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)(void *)&context_room;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}
/* There is one context: what is pushed on it needs no place. */
EXPORT CUresult cuCtxPushCurrent(CUcontext context)
{
    below += current != NULL;
    current = context;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxPopCurrent(CUcontext *context)
{
    *context = current;
    current = below ? current : NULL;
    below -= below > 0;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSynchronize(void)
{
    return complete();
}
EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = device_bytes;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    *total = device_bytes;
    *free_bytes = device_bytes - atomic_load(&created);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return CUDA_SUCCESS;
}

/* ---- allocation without the layer: addresses one after the other ---- */

EXPORT CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    *out = next_address;
    next_address += (bytes + 511) / 512 * 512;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFree(CUdeviceptr address)
{
    (void)address;
    return complete();
}
EXPORT CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    (void)stream;
    return cuMemAlloc(out, bytes);
}
EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    (void)address;
    (void)stream;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    (void)device;
    *pool = (CUmemoryPool)(void *)&context_room;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    (void)pool;
    memset(value, 0, attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? 8 : 4);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    (void)pool;
    (void)keep;
    return CUDA_SUCCESS;
}

/* ---- physical memory and addresses ---- */

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                                    unsigned long long flags)
{
    (void)wanted;
    (void)flags;
    alignment = alignment ? alignment : (size_t)2 << 20;
    *out = (next_address + alignment - 1) / alignment * alignment;
    next_address = *out + bytes;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    (void)address;
    (void)bytes;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                            unsigned long long flags)
{
    (void)prop;
    (void)flags;
    if (atomic_fetch_add(&created, bytes) + bytes > device_bytes) {
        atomic_fetch_sub(&created, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t now = atomic_load(&created), most = atomic_load(&most_created);
    while (now > most && !atomic_compare_exchange_weak(&most_created, &most, now))
        ;
    take_ns(193000);
    *out = atomic_fetch_add(&next_handle, 1);
    return CUDA_SUCCESS;
}
/* For bench_replay: the most that ever existed at once. */
EXPORT size_t null_driver_peak_bytes(void);
size_t null_driver_peak_bytes(void)
{
    return atomic_load(&most_created);
}
EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    (void)handle;
    atomic_fetch_sub(&created, (size_t)2 << 20);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags)
{
    (void)at;
    (void)bytes;
    (void)offset;
    (void)handle;
    (void)flags;
    take_ns(1500);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    (void)at;
    (void)bytes;
    take_ns(26000);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
    (void)at;
    (void)bytes;
    (void)desc;
    (void)count;
    take_ns(36000);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                              CUmemAllocationGranularity_flags option)
{
    (void)prop;
    (void)option;
    *bytes = (size_t)64 << 10;
    return CUDA_SUCCESS;
}

/* ---- host memory ---- */

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    return (*out = malloc(bytes)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuMemFreeHost(void *p)
{
    free(p);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostRegister(void *p, size_t bytes, unsigned flags)
{
    (void)p;
    (void)bytes;
    (void)flags;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostUnregister(void *p)
{
    (void)p;
    return CUDA_SUCCESS;
}

/* ---- streams and events ---- */

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    static unsigned count;
    (void)flags;
    *out = (CUstream)(void *)&stream_room[count++ % sizeof stream_room];
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    return complete();
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    *id = (unsigned long long)(uintptr_t)stream;
    return CUDA_SUCCESS;
}
/* An event is the number of operations before it. */
EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    (void)flags;
    uint64_t *at = calloc(1, sizeof *at);
    *out = (CUevent)(void *)at;
    return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuEventDestroy(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)stream;
    *(uint64_t *)(void *)event = issued;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventQuery(CUevent event)
{
    uint64_t at = *(const uint64_t *)(void *)event;
    return at <= completed || issued - at >= lag ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
EXPORT CUresult cuEventSynchronize(CUevent event)
{
    uint64_t at = *(const uint64_t *)(void *)event;
    completed = at > completed ? at : completed;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    (void)from;
    (void)to;
    *ms = 1;
    return CUDA_SUCCESS;
}

/* ---- work ---- */

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    (void)image;
    *module = (CUmodule)(void *)&context_room;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleUnload(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    (void)module;
    unsigned long params = name[0] == 'p'              ? strtoul(name + 1, NULL, 10)
                           : !strncmp(name, "ebb_", 4) ? 8 /* kernels of the layer's own */
                                                       : MOST_PARAMS;
    if (params >= MOST_PARAMS)
        return CUDA_ERROR_NOT_FOUND;
    *out = (CUfunction)(void *)&function_room[params];
    return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    if (index >= (size_t)((char *)(void *)function - function_room))
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    *bytes = 8;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream;
    (void)params, (void)extra;
    return issue();
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream stream)
{
    (void)at, (void)value, (void)count, (void)stream;
    return issue();
}
EXPORT CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    (void)dst, (void)src, (void)bytes, (void)stream;
    return issue();
}
EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
    (void)dst, (void)src, (void)bytes, (void)stream;
    return issue();
}
EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
    *name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "an error";
    return CUDA_SUCCESS;
}

/* ---- look-up: what is not written here is there, and says that it cannot ---- */

static CUresult unsupported(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define ROW(name)                                                                                            \
    {                                                                                                        \
#name, (void *)name                                                                                  \
    }
static const struct {
    const char *name;
    void *function;
} rows[] = {
    ROW(cuInit),
    ROW(cuDeviceGet),
    ROW(cuDevicePrimaryCtxRetain),
    ROW(cuCtxSetCurrent),
    ROW(cuCtxGetCurrent),
    ROW(cuCtxPushCurrent),
    ROW(cuCtxPopCurrent),
    ROW(cuCtxGetDevice),
    ROW(cuCtxSynchronize),
    ROW(cuDeviceTotalMem),
    ROW(cuDeviceGetAttribute),
    ROW(cuMemGetInfo),
    ROW(cuThreadExchangeStreamCaptureMode),
    ROW(cuMemAlloc),
    ROW(cuMemFree),
    ROW(cuMemAllocAsync),
    ROW(cuMemFreeAsync),
    ROW(cuDeviceGetDefaultMemPool),
    ROW(cuMemPoolGetAttribute),
    ROW(cuMemPoolTrimTo),
    ROW(cuMemAddressReserve),
    ROW(cuMemAddressFree),
    ROW(cuMemCreate),
    ROW(cuMemRelease),
    ROW(cuMemMap),
    ROW(cuMemUnmap),
    ROW(cuMemSetAccess),
    ROW(cuMemGetAllocationGranularity),
    ROW(cuMemHostAlloc),
    ROW(cuMemFreeHost),
    ROW(cuMemHostRegister),
    ROW(cuMemHostUnregister),
    ROW(cuStreamCreate),
    ROW(cuStreamDestroy),
    ROW(cuStreamSynchronize),
    ROW(cuStreamWaitEvent),
    ROW(cuStreamGetId),
    ROW(cuEventCreate),
    ROW(cuEventDestroy),
    ROW(cuEventRecord),
    ROW(cuEventQuery),
    ROW(cuEventSynchronize),
    ROW(cuEventElapsedTime),
    ROW(cuModuleLoadData),
    ROW(cuModuleUnload),
    ROW(cuModuleGetFunction),
    ROW(cuFuncGetParamInfo),
    ROW(cuLaunchKernel),
    ROW(cuMemsetD32Async),
    ROW(cuMemcpyDtoHAsync),
    ROW(cuMemcpyHtoDAsync),
    ROW(cuGetErrorName),
};

EXPORT CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status)
{
    (void)version;
    (void)flags;
    *out = (void *)unsupported;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name))
            *out = rows[i].function;
    if (status)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

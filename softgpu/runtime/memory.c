/* memory.c: device and host memory that is allocated at once, and what can be asked about a pointer. */
#include "softgpu/runtime/runtime.h"

#include <string.h>

/* device memory */

/* Nothing asked for is nothing given, and no error (the driver calls it one). */
static cudaError_t allocate(void **pointer, size_t bytes)
{
    if (!pointer)
        return cudaErrorInvalidValue;
    *pointer = NULL;
    cudaError_t error = rt_enter();
    if (error != cudaSuccess || bytes == 0)
        return error;
    return RT_CALL(&rt_driver[RT_LEGACY], cuMemAlloc, (CUdeviceptr *)pointer, bytes);
}

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    return rt_record(allocate(pointer, bytes));
}

/* Freeing NULL is how programs make the runtime start. */
cudaError_t cudaFree(void *pointer)
{
    cudaError_t error = rt_enter();
    if (error == cudaSuccess && pointer)
        error = RT_CALL(&rt_driver[RT_LEGACY], cuMemFree, rt_address(pointer));
    return rt_record(error);
}

static cudaError_t allocate_pitched(void **pointer, size_t *pitch, size_t width, size_t height)
{
    enum {
        ELEMENT_BYTES = 4
    }; /* the smallest that the driver accepts; it only affects the pitch's multiple */
    if (!pointer || !pitch)
        return cudaErrorInvalidValue;
    *pointer = NULL;
    *pitch = 0;
    cudaError_t error = rt_enter();
    if (error != cudaSuccess || width == 0 || height == 0)
        return error;
    return RT_CALL(&rt_driver[RT_LEGACY], cuMemAllocPitch, (CUdeviceptr *)pointer, pitch, width, height,
                   ELEMENT_BYTES);
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    return rt_record(allocate_pitched(pointer, pitch, width, height));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *out, struct cudaExtent extent)
{
    struct cudaPitchedPtr memory = {.xsize = extent.width, .ysize = extent.height};
    cudaError_t error =
        out ? allocate_pitched(&memory.ptr, &memory.pitch, extent.width, extent.height * extent.depth)
            : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *out = memory;
    return rt_record(error);
}

cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags)
{
    return RT_PASS(cuMemAllocManaged, (CUdeviceptr *)pointer, bytes, flags);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    return RT_PASS(cuMemGetInfo, free_bytes, total_bytes);
}

/* host memory */

static cudaError_t allocate_host(void **pointer, size_t bytes, unsigned int flags)
{
    if (!pointer)
        return cudaErrorInvalidValue;
    *pointer = NULL;
    cudaError_t error = rt_enter();
    if (error != cudaSuccess || bytes == 0)
        return error;
    return RT_CALL(&rt_driver[RT_LEGACY], cuMemHostAlloc, pointer, bytes, flags);
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
    return rt_record(allocate_host(pointer, bytes, 0));
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    return rt_record(allocate_host(pointer, bytes, flags));
}

cudaError_t cudaFreeHost(void *pointer)
{
    cudaError_t error = rt_enter();
    if (error == cudaSuccess && pointer)
        error = RT_CALL(&rt_driver[RT_LEGACY], cuMemFreeHost, pointer);
    return rt_record(error);
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
    return RT_PASS(cuMemHostRegister, pointer, bytes, flags);
}

cudaError_t cudaHostUnregister(void *pointer)
{
    return RT_PASS(cuMemHostUnregister, pointer);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
    return RT_PASS(cuMemHostGetDevicePointer, (CUdeviceptr *)device, host, flags);
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *host)
{
    return RT_PASS(cuMemHostGetFlags, flags, host);
}

/* pointers */

/* Memory that the driver does not know is the host's own, and no error. */
static cudaError_t pointer_attributes(struct cudaPointerAttributes *out, const void *pointer)
{
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    void *device = NULL, *host = NULL;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *values[] = {&type, &ordinal, &device, &host, &managed};
    cudaError_t error = out ? rt_enter() : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = RT_CALL(&rt_driver[RT_LEGACY], cuPointerGetAttributes, sizeof names / sizeof names[0], names,
                        values, rt_address(pointer));
    if (error != cudaSuccess)
        return error;
    memset(out, 0, sizeof *out);
    if (type == 0) {
        *out = (struct cudaPointerAttributes){
            .type = cudaMemoryTypeUnregistered, .device = -2, .hostPointer = (void *)(uintptr_t)pointer};
        return cudaSuccess;
    }
    out->type = managed                      ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                             : cudaMemoryTypeDevice;
    out->device = ordinal;
    out->devicePointer = device;
    out->hostPointer = host;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    return rt_record(pointer_attributes(attributes, pointer));
}

/* managed memory's hints */

_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation),
               "locations are passed to the driver as they are");

cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    CUmemLocation driver_location;
    memcpy(&driver_location, &location, sizeof driver_location);
    return RT_PASS(cuMemAdvise, rt_address(pointer), bytes, (CUmem_advise)advice, driver_location);
}

static cudaError_t prefetch(const driver_t *d, const void *pointer, size_t bytes,
                            struct cudaMemLocation location, unsigned int flags, cudaStream_t stream)
{
    CUmemLocation driver_location;
    memcpy(&driver_location, &location, sizeof driver_location);
    return RT_CALL(d, cuMemPrefetchAsync, rt_address(pointer), bytes, driver_location, flags, stream);
}

/* clang-format off */
RT_BOTH_FORMS(cudaMemPrefetchAsync, _ptsz,
              (const void *pointer, size_t bytes, struct cudaMemLocation location, unsigned int flags,
               cudaStream_t stream),
              prefetch(d, pointer, bytes, location, flags, stream))
/* clang-format on */

cudaError_t cudaMemRangeGetAttribute(void *data, size_t data_bytes, enum cudaMemRangeAttribute attribute,
                                     const void *pointer, size_t bytes)
{
    return RT_PASS(cuMemRangeGetAttribute, data, data_bytes, (CUmem_range_attribute)attribute,
                   rt_address(pointer), bytes);
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *data_bytes, enum cudaMemRangeAttribute *attributes,
                                      size_t count, const void *pointer, size_t bytes)
{
    return RT_PASS(cuMemRangeGetAttributes, data, data_bytes, (CUmem_range_attribute *)attributes, count,
                   rt_address(pointer), bytes);
}

/* The one texture function that needs no texture: it returns a structure, so that no stub can stand in for it. */
struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind kind)
{
    return (struct cudaChannelFormatDesc){.x = x, .y = y, .z = z, .w = w, .f = kind};
}

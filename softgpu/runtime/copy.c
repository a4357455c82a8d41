/* copy.c: copies between flat ranges: memory, symbols, peers, batches. */
#include "softgpu/runtime/runtime.h"
#include "softgpu/runtime/registry.h"

#include <stddef.h>

/* memory */

/* The kind says where the two ends are; only Default (and, the driver having no call for it, HostToHost)
 * leaves that to the driver. */
static cudaError_t copy(const driver_t *d, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    if (bytes == 0)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RT_CALL(d, cuMemcpyHtoD, rt_address(to), from, bytes);
    case cudaMemcpyDeviceToHost:
        return RT_CALL(d, cuMemcpyDtoH, to, rt_address(from), bytes);
    case cudaMemcpyDeviceToDevice:
        return RT_CALL(d, cuMemcpyDtoD, rt_address(to), rt_address(from), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RT_CALL(d, cuMemcpy, rt_address(to), rt_address(from), bytes);
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

static cudaError_t copy_async(const driver_t *d, void *to, const void *from, size_t bytes,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (bytes == 0)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RT_CALL(d, cuMemcpyHtoDAsync, rt_address(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
        return RT_CALL(d, cuMemcpyDtoHAsync, to, rt_address(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return RT_CALL(d, cuMemcpyDtoDAsync, rt_address(to), rt_address(from), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RT_CALL(d, cuMemcpyAsync, rt_address(to), rt_address(from), bytes, stream);
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

/* clang-format off */
RT_BOTH_FORMS(cudaMemcpy, _ptds, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind),
              copy(d, to, from, bytes, kind))
RT_BOTH_FORMS(cudaMemcpyAsync, _ptsz, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                       cudaStream_t stream),
              copy_async(d, to, from, bytes, kind, stream))
/* clang-format on */

/* symbols */

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
    CUdeviceptr device = 0;
    size_t bytes;
    cudaError_t error =
        address ? rt_enter() ?: registry_variable(symbol, &device, &bytes) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *address = (void *)(uintptr_t)device;
    return rt_record(error);
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    CUdeviceptr device = 0;
    size_t bytes = 0;
    cudaError_t error =
        size ? rt_enter() ?: registry_variable(symbol, &device, &bytes) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *size = bytes;
    return rt_record(error);
}

/* The place in a variable that a copy concerns; all of it must be inside. */
static cudaError_t symbol_range(const void *symbol, size_t offset, size_t count, void **out)
{
    CUdeviceptr device = 0;
    size_t bytes = 0;
    cudaError_t error = registry_variable(symbol, &device, &bytes);
    if (error != cudaSuccess)
        return error;
    if (offset > bytes || count > bytes - offset)
        return cudaErrorInvalidValue;
    *out = (void *)(uintptr_t)(device + offset);
    return cudaSuccess;
}

static cudaError_t copy_to_symbol(const driver_t *d, const void *symbol, const void *from, size_t count,
                                  size_t offset, enum cudaMemcpyKind kind)
{
    void *to;
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost)
        return cudaErrorInvalidMemcpyDirection;
    return symbol_range(symbol, offset, count, &to) ?: copy(d, to, from, count, kind);
}

static cudaError_t copy_from_symbol(const driver_t *d, void *to, const void *symbol, size_t count,
                                    size_t offset, enum cudaMemcpyKind kind)
{
    void *from;
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost)
        return cudaErrorInvalidMemcpyDirection;
    return symbol_range(symbol, offset, count, &from) ?: copy(d, to, from, count, kind);
}

static cudaError_t copy_to_symbol_async(const driver_t *d, const void *symbol, const void *from, size_t count,
                                        size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *to;
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost)
        return cudaErrorInvalidMemcpyDirection;
    return symbol_range(symbol, offset, count, &to) ?: copy_async(d, to, from, count, kind, stream);
}

static cudaError_t copy_from_symbol_async(const driver_t *d, void *to, const void *symbol, size_t count,
                                          size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *from;
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost)
        return cudaErrorInvalidMemcpyDirection;
    return symbol_range(symbol, offset, count, &from) ?: copy_async(d, to, from, count, kind, stream);
}

/* clang-format off */
RT_BOTH_FORMS(cudaMemcpyToSymbol, _ptds,
              (const void *symbol, const void *from, size_t count, size_t offset, enum cudaMemcpyKind kind),
              copy_to_symbol(d, symbol, from, count, offset, kind))
RT_BOTH_FORMS(cudaMemcpyFromSymbol, _ptds,
              (void *to, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind),
              copy_from_symbol(d, to, symbol, count, offset, kind))
RT_BOTH_FORMS(cudaMemcpyToSymbolAsync, _ptsz,
              (const void *symbol, const void *from, size_t count, size_t offset, enum cudaMemcpyKind kind,
               cudaStream_t stream),
              copy_to_symbol_async(d, symbol, from, count, offset, kind, stream))
RT_BOTH_FORMS(cudaMemcpyFromSymbolAsync, _ptsz,
              (void *to, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
               cudaStream_t stream),
              copy_from_symbol_async(d, to, symbol, count, offset, kind, stream))
/* clang-format on */

/* peers */

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    CUcontext to_context, from_context;
    return rt_record(rt_enter()
                         ?: rt_primary_context(to_device, &to_context)
                         ?: rt_primary_context(from_device, &from_context)
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuMemcpyPeer, rt_address(to), to_context, rt_address(from),
                                    from_context, bytes));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream)
{
    CUcontext to_context, from_context;
    return rt_record(rt_enter()
                         ?: rt_primary_context(to_device, &to_context)
                         ?: rt_primary_context(from_device, &from_context)
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuMemcpyPeerAsync, rt_address(to), to_context,
                                    rt_address(from), from_context, bytes, stream));
}

/* batches */

_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes) &&
                   offsetof(struct cudaMemcpyAttributes, flags) == offsetof(CUmemcpyAttributes, flags),
               "copy attributes are passed to the driver as they are");

/* clang-format off */
RT_BOTH_FORMS(cudaMemcpyBatchAsync, _ptsz,
              (void *const *to, const void *const *from, const size_t *sizes, size_t count,
               struct cudaMemcpyAttributes *attributes, size_t *attribute_indices, size_t attribute_count,
               cudaStream_t stream),
              RT_CALL(d, cuMemcpyBatchAsync, (CUdeviceptr *)(uintptr_t)to, (CUdeviceptr *)(uintptr_t)from,
                      (size_t *)(uintptr_t)sizes, count, (CUmemcpyAttributes *)attributes, attribute_indices,
                      attribute_count, stream))
/* clang-format on */

/* pool.c: stream-ordered memory and the pools that it comes from. The driver does it all. */
#include "softgpu/runtime/runtime.h"

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps) &&
                   sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc) &&
                   sizeof(struct cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData),
               "pool structures are passed to the driver as they are");
_Static_assert((int)cudaMemPoolAttrUsedMemHigh == (int)CU_MEMPOOL_ATTR_USED_MEM_HIGH &&
                   (int)cudaMemPoolReuseFollowEventDependencies ==
                       (int)CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
               "pool attributes have the driver's numbers");

/* clang-format off */
RT_BOTH_FORMS(cudaMallocAsync, _ptsz, (void **pointer, size_t bytes, cudaStream_t stream),
              RT_CALL(d, cuMemAllocAsync, (CUdeviceptr *)pointer, bytes, stream))
RT_BOTH_FORMS(cudaMallocFromPoolAsync, _ptsz, (void **pointer, size_t bytes, cudaMemPool_t pool,
                                               cudaStream_t stream),
              RT_CALL(d, cuMemAllocFromPoolAsync, (CUdeviceptr *)pointer, bytes, pool, stream))
RT_BOTH_FORMS(cudaFreeAsync, _ptsz, (void *pointer, cudaStream_t stream),
              RT_CALL(d, cuMemFreeAsync, rt_address(pointer), stream))
/* clang-format on */

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    return RT_PASS(cuMemPoolCreate, pool, (const CUmemPoolProps *)properties);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    return RT_PASS(cuMemPoolDestroy, pool);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes_to_keep)
{
    return RT_PASS(cuMemPoolTrimTo, pool, bytes_to_keep);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return RT_PASS(cuMemPoolSetAttribute, pool, (CUmemPool_attribute)attribute, value);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return RT_PASS(cuMemPoolGetAttribute, pool, (CUmemPool_attribute)attribute, value);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count)
{
    return RT_PASS(cuMemPoolSetAccess, pool, (const CUmemAccessDesc *)list, count);
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
                                 struct cudaMemLocation *location)
{
    return RT_PASS(cuMemPoolGetAccess, (CUmemAccess_flags *)flags, pool, (CUmemLocation *)location);
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *pool, struct cudaMemLocation *location,
                                     enum cudaMemAllocationType type)
{
    return RT_PASS(cuMemGetDefaultMemPool, pool, (CUmemLocation *)location, (CUmemAllocationType)type);
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *pool, struct cudaMemLocation *location,
                              enum cudaMemAllocationType type)
{
    return RT_PASS(cuMemGetMemPool, pool, (CUmemLocation *)location, (CUmemAllocationType)type);
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
                              cudaMemPool_t pool)
{
    return RT_PASS(cuMemSetMemPool, (CUmemLocation *)location, (CUmemAllocationType)type, pool);
}

cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool,
                                               enum cudaMemAllocationHandleType type, unsigned int flags)
{
    return RT_PASS(cuMemPoolExportToShareableHandle, handle, pool, (CUmemAllocationHandleType)type, flags);
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
                                                 enum cudaMemAllocationHandleType type, unsigned int flags)
{
    return RT_PASS(cuMemPoolImportFromShareableHandle, pool, handle, (CUmemAllocationHandleType)type, flags);
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *pointer)
{
    return RT_PASS(cuMemPoolExportPointer, (CUmemPoolPtrExportData *)data, rt_address(pointer));
}

cudaError_t cudaMemPoolImportPointer(void **pointer, cudaMemPool_t pool,
                                     struct cudaMemPoolPtrExportData *data)
{
    return RT_PASS(cuMemPoolImportPointer, (CUdeviceptr *)pointer, pool, (CUmemPoolPtrExportData *)data);
}

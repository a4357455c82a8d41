/* pool.h: the program's memory pools. To ebb a pool is a name on a buffer, unless its memory is to be exported,
 * lies elsewhere or comes from another process: then it is native, the driver serves it. For this folder;
 * ebb_lock() held. */
#ifndef EBB_POOL_H
#define EBB_POOL_H

#include "alloc/ebb_alloc.h"

/* The program has a pool of this device's memory, of at most so many bytes (0: any number). False: no host memory. */
bool ebb_pool_note(ebb_t *ebb, CUmemoryPool pool, CUdevice device, bool native, size_t max_bytes);
/* NULL: the device's current one. */
bool ebb_pool_is_native(ebb_device_t *dev, CUmemoryPool pool);
/* The device whose memory it gives; NULL: ebb does not serve that. Of no pool, or one that is not known: the given one. */
ebb_device_t *ebb_pool_device(ebb_device_t *dev, CUmemoryPool pool);
void ebb_pool_forget(ebb_t *ebb, CUmemoryPool pool);

/* Bytes that the program has in one pool, in whole EBB_ALIGN_BYTES. */
typedef struct ebb_pool_usage {
    size_t used_bytes, high_bytes; /* now; at most, since the program has last asked to forget it */
} ebb_pool_usage_t;
/* NULL: the device's default one; the same for the handle of that. */
ebb_pool_usage_t *ebb_pool_usage(ebb_device_t *dev, CUmemoryPool pool);
/* Whether so many bytes more are within the pool's size. */
bool ebb_pool_has_room(ebb_t *ebb, CUmemoryPool pool, size_t bytes);
void ebb_pool_took(ebb_device_t *dev, CUmemoryPool pool, size_t bytes);
void ebb_pool_gave(ebb_device_t *dev, CUmemoryPool pool, size_t bytes);
/* Whatever was allocated on the device is gone. */
void ebb_pools_emptied(ebb_device_t *dev);

/* What cuMemAllocAsync takes from on the device; NULL: its default pool. */
CUmemoryPool ebb_pool_current(ebb_device_t *dev);
void ebb_pool_set_current(ebb_t *ebb, CUdevice device, CUmemoryPool pool);

#endif

/* pool.h: the program's memory pools. To ebb a pool is a name on a buffer, unless its memory is to be exported,
 * lies elsewhere or comes from another process: then it is native, the driver serves it. For this folder;
 * ebb_lock() held. */
#ifndef EBB_POOL_H
#define EBB_POOL_H

#include "ebb_alloc.h"

/* The program has a pool of this device's memory. */
void ebb_pool_note(CUmemoryPool pool, CUdevice device, bool native);
/* NULL: the present device's current one. */
bool ebb_pool_is_native(CUmemoryPool pool);
/* Of the device whose memory it gives; EBB_NOWHERE: ebb does not serve that. NULL, or a pool that is not known: the
 * present one. */
unsigned ebb_pool_slot(CUmemoryPool pool);
void ebb_pool_forget(CUmemoryPool pool);

/* What cuMemAllocAsync takes from on the present device; NULL: its default pool. */
CUmemoryPool ebb_pool_current(void);
void ebb_pool_set_current(CUdevice device, CUmemoryPool pool);

#endif

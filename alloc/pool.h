/* pool.h: the program's memory pools. To ebb a pool is a name on a buffer, unless its memory is to be exported,
 * lies elsewhere or comes from another process: then it is native, the driver serves it. For this folder;
 * ebb_lock() held. */
#ifndef EBB_POOL_H
#define EBB_POOL_H

#include "ebb_alloc.h"

void ebb_pool_make_native(CUmemoryPool pool);
/* NULL: the current one. */
bool ebb_pool_is_native(CUmemoryPool pool);
void ebb_pool_forget(CUmemoryPool pool);

/* What cuMemAllocAsync takes from; NULL: the device's default pool. */
CUmemoryPool ebb_pool_current(void);
void ebb_pool_set_current(CUmemoryPool pool);

#endif

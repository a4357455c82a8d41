/* vmm.h: whether the device's virtual memory management does what ebb needs of it. For this folder. */
#ifndef EBB_VMM_H
#define EBB_VMM_H

#include "alloc/ebb_alloc.h"

/* What every chunk is made with. */
CUmemAllocationProp ebb_chunk_properties(CUdevice device);

/* One chunk through its life: addresses, memory, mapping, access, a write on a stream of its own, and back. The first call that fails is
 * what is returned (ebb_last_failure); what it leaves behind is one chunk and its addresses at most. A device that has no chunk left to
 * try it with is taken at its word. A context must be current; a millisecond or less. */
ebb_status_t ebb_vmm_try(CUdevice device);

#endif

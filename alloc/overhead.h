/* overhead.h: how much device memory the process holds beside ebb's chunks. For this folder. */
#ifndef EBB_OVERHEAD_H
#define EBB_OVERHEAD_H

#include "ebb_alloc.h"

/* Bytes that context, modules, libraries and the program's own allocations past ebb hold now. `chunk_bytes`: what ebb
 * has created. NVML says what this process holds; without it (or where it does not list the process, as in some
 * containers) all that is not free on the device counts, other processes' memory too. A context must be current.
 * A few microseconds to some ten. */
size_t ebb_overhead_bytes(CUdevice device, size_t chunk_bytes);

#endif

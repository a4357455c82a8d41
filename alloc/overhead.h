/* overhead.h: how much device memory the process holds beside ebb's chunks. For this folder and `ebb doctor`. */
#ifndef EBB_OVERHEAD_H
#define EBB_OVERHEAD_H

#include "alloc/ebb_alloc.h"

typedef struct ebb_overhead {
    size_t bytes; /* that context, modules, libraries and the program's own allocations past ebb hold now */
    bool of_all;  /* all processes' on the device: nothing tells this one's */
} ebb_overhead_t;

/* `chunk_bytes`: what ebb has created. NVML says what this process holds; without it, or where what it says cannot be (as in
 * containers), all that is not free on the device counts: never too little. A context must be current. A few microseconds to some
 * ten. */
ebb_overhead_t ebb_overhead(ebb_t *ebb, CUdevice device, size_t chunk_bytes);

#endif

/* tensor_map.h: what tensor map descriptors (cuTensorMapEncode*) point to. Their 128 bytes are opaque, so that
 * the address is noted when one is encoded and found again by the bytes. For this folder; ebb_lock() held. */
#ifndef EBB_TENSOR_MAP_H
#define EBB_TENSOR_MAP_H

#include "alloc/ebb_alloc.h"

/* They are copied about by value, but always to addresses of this alignment. */
enum { EBB_TENSOR_MAP_ALIGN = 64 };

/* `map` now stands for memory from `address` on. False: no host memory. */
bool ebb_tensor_map_note(ebb_t *ebb, const void *map, CUdeviceptr address);
/* The address that these bytes stand for, or 0: they are none that was encoded. */
CUdeviceptr ebb_tensor_map_address(ebb_t *ebb, const void *bytes);

#endif

/* pytorch.h: PyTorch's choice of an allocator.
 *
 * Its own one takes large segments from the driver and cuts tensors out of them, which hides them from ebb. With
 * backend:cudaMallocAsync each tensor is one allocation. The choice is in PYTORCH_CUDA_ALLOC_CONF or in
 * PYTORCH_ALLOC_CONF: old versions know the first only, some newer ones read it first, others the second one. So both
 * get the same where the user has set only one of them, and each its own where both are set.
 */
#ifndef EBB_PYTORCH_H
#define EBB_PYTORCH_H

#include <stddef.h>

/* Sets both variables, and says in one line each what of the user's had to go. */
void ebb_pytorch_configure(void);

/* "key:value,..." with the backend chosen, everything else in its place but `expandable_segments` (which means the other
 * backend). `dropped`: what had to go, "" if nothing. Either may be cut off where there is no room: 0 then. */
int ebb_pytorch_merge(const char *settings, char *out, size_t out_bytes, char *dropped, size_t dropped_bytes);

#endif

/* staging.h: copies between the device and pageable memory, through two pinned blocks that take turns: while
 * one is being copied over the link, the CPU empties or fills the other. For this folder.
 *
 * Without pinned blocks (nothing at all can be pinned) the driver's own way for pageable memory is taken.
 * Threads and locks: ebb_lock() held.
 */
#ifndef EBB_STAGING_H
#define EBB_STAGING_H

#include "offload/ebb_offload.h"

/* The host waits for all of it; behind what the engine's stream has been given. */
ebb_status_t ebb_stage_out(ebb_device_t *dev, CUdeviceptr device, void *host, size_t bytes);
/* `host` is free at return; the last pieces may still be under way on the engine's stream. */
ebb_status_t ebb_stage_in(ebb_device_t *dev, CUdeviceptr device, const void *host, size_t bytes);

/* Sets the pinned blocks aside, before other things take what may be pinned. */
void ebb_stage_prepare(ebb_device_t *dev);
size_t ebb_stage_bytes(ebb_device_t *dev); /* of them */
/* They are free: the context is at its end. */
void ebb_stage_end(ebb_device_t *dev);

#endif

/* heap.h: serving the program's allocations; see heap.c and small.c. For this folder. */
#ifndef EBB_HEAP_H
#define EBB_HEAP_H

#include "alloc/ebb_alloc.h"

/* The live buffer that begins at an address, or NULL. */
ebb_buffer_t *ebb_heap_find(ebb_t *ebb, CUdeviceptr address);

/* The host waits for everything that touched the buffer so far. */
ebb_status_t ebb_buffer_wait(const ebb_buffer_t *buffer);

/* Notes that all large buffers may be in use until here. */
void ebb_buffers_touch(ebb_device_t *dev, ebb_mark_t mark);
/* The operation's, which are all of this slot. */
void ebb_operation_touch(ebb_device_t *dev, const ebb_operation_t *operation, ebb_mark_t mark);

/* Makes room for so many chunks and leaves it to the driver (ebb_chunks_cede). */
bool ebb_heap_cede(ebb_device_t *dev, size_t chunks);

/* Measures what else is held on the device. False: that has grown so far that more chunks exist than the budget now allows. Not while a
 * stream is captured. */
bool ebb_heap_measure(ebb_device_t *dev);
/* If that was asked for since (ebb_heap_measure_soon). */
bool ebb_heap_measure_if_due(ebb_device_t *dev);
/* Then something is evicted. No plan may be driven: it has given its part of the chunks away. */
void ebb_heap_shrink(ebb_device_t *dev);

/* On every device, what was allocated without memory gets it, unless it is at the address `but`. Called when a call begins. What cannot be
 * had any more goes through `unbacked`: whoever touches it gives it some. */
void ebb_heap_back(ebb_t *ebb, CUdeviceptr but, void (*unbacked)(ebb_buffer_t *buffer));

/* What the program is told to be free: the budget less the chunks that live buffers take on the device when they are there. */
size_t ebb_heap_told_free(ebb_device_t *dev);

/* Gives all memory of the device back to the driver, under live buffers too: it is idle, and nobody will use it again.
 * Some context must be current. `freeing` is asked of each large buffer: true: it is gone already (a placed one). */
void ebb_heap_abandon(ebb_device_t *dev, bool (*freeing)(ebb_buffer_t *buffer, ebb_stream_t *stream));

/* How chunks are got that live buffers have: `evict` gets so many into the pool. False: it cannot. The one call from here upwards. */
void ebb_heap_make_room_by(ebb_t *ebb, bool (*evict)(ebb_device_t *dev, size_t chunks));

/* Checks all structures (debug builds and tests). */
void ebb_heap_check(ebb_device_t *dev);

/* ---- small.c: buffers that share slabs; heap.c calls these ---- */

ebb_status_t ebb_small_alloc(ebb_device_t *dev, const ebb_request_t *request, ebb_buffer_t **out);
void ebb_small_free(ebb_buffer_t *buffer, ebb_mark_t at);
ebb_buffer_t *ebb_small_place(ebb_slab_t *slab, size_t offset_bytes, size_t bytes);
void ebb_small_displace(ebb_buffer_t *buffer);
ebb_buffer_t *ebb_small_at(const ebb_slab_t *slab, CUdeviceptr address);
/* Merges spare blocks and gives back the chunks that hold nothing and whose marks are reached, or waits for them. */
void ebb_small_reclaim(ebb_device_t *dev, bool wait);
void ebb_small_check(ebb_device_t *dev);

#endif

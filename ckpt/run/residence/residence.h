/* residence.h: where each buffer's content is while no plan is driven: the reactive half of ebb.
 *
 *   residence  where a buffer's content is: on the device, or in host memory, pinned if possible (offload/ebb_offload.h)
 *   drop       take a buffer's chunks away without a copy: its content is made again when it is needed (replay/replay.h)
 *
 * A buffer is made resident when an operation is about to touch it, and others make room. While the program's next operations are known
 * (tracker/tracker.h), those go that are needed last and cost least, and what is needed next comes ahead of time; else those that were not
 * used for the longest time go, and nothing is dropped. Always correct, whatever the program does. A driven step (drive/) uses the same
 * copies, but no residence changes: its buffers are mapped throughout.
 *
 * What ebb_recipe_rebuild makes must be the content that was dropped, and ebb_recipe_dropped keeps that possible: by calling
 * ebb_residence_restore before anything happens that would prevent it. All other lookahead is advice.
 *
 * Threads and locks: everything here is called with ebb_lock() held and the device's context current.
 */
#ifndef EBB_RESIDENCE_H
#define EBB_RESIDENCE_H

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "offload/ebb_offload.h"

/* Makes all buffers of the operation resident and orders it behind their copies. They stay until
 * ebb_residence_release. CUDA_ERROR_OUT_OF_MEMORY: they do not fit into the budget together. */
ebb_status_t ebb_residence_acquire(ebb_device_t *dev, ebb_operation_t *operation);
void ebb_residence_release(const ebb_operation_t *operation);

/* Evicts until the pool can give `chunks` more. False: not enough may be evicted, or there is no host memory
 * for it. */
bool ebb_residence_make_room(ebb_device_t *dev, size_t chunks);

/* For the rooms above, which place large buffers themselves while they drive a plan. A content has one owner: it is residence's
 * until `give`, which cannot fail, and the caller's until `put`.
 *
 * Before that, what may fail, also of buffers that are held, and leaves a content residence's: to the host, the host waiting (`send`);
 * to the device, behind the mark of its copy (`bring`); from pageable to pinned memory (`pin`). A buffer without content has none
 * on the host. */
ebb_status_t ebb_residence_send(ebb_buffer_t *buffer);
ebb_status_t ebb_residence_bring(ebb_buffer_t *buffer);
ebb_status_t ebb_residence_pin(ebb_buffer_t *buffer);
/* Of a buffer that has been sent and pinned, or brought: true: the content is on the device; false: it is in `*host`, pinned, the
 * caller's from now on, where there is one. */
bool ebb_residence_give(ebb_buffer_t *buffer, ebb_host_t *host);
/* And back, of an unmapped buffer, which cannot fail either: it lies in `host`, pinned, which is residence's from then on. Nowhere: its content is
 * lost on purpose and will be written. Of so many buffers, for which `reserve` must have seen to the host memory. */
void ebb_residence_put(ebb_buffer_t *buffer, ebb_host_t host);
ebb_status_t ebb_residence_reserve(ebb_device_t *dev, uint32_t buffers);
/* That residence has for the buffer. */
size_t ebb_residence_pinned_bytes(const ebb_buffer_t *buffer);

/* The buffer is about to be freed, as of now on `stream`; NULL: the program does not use it any more. Another thread may have begun to
 * bring it out or in since: that is waited for, on the stream or by the host. */
void ebb_residence_forget(ebb_buffer_t *buffer, ebb_stream_t *stream);

/* Says what holds the memory, once until an allocation can be served (shortage.c). `operation`: its buffers are held, and could
 * not all be had; NULL: an allocation of `bytes` could not. */
void ebb_report_shortage(ebb_device_t *dev, const ebb_operation_t *operation, size_t bytes);
void ebb_shortage_over(ebb_device_t *dev);
/* Whether there has been one, on any device. */
bool ebb_shortage_was(ebb_device_t *dev);

/* Frees the host memory that only a copy kept busy which is over by now. */
void ebb_collect_hosts(ebb_device_t *dev);

/* The device's context is at its end, no buffer is left: host memory that was pinned for it goes back. */
void ebb_residence_ended(ebb_device_t *dev);

/* After an operation of the program: what is needed next is brought in, into chunks that are free or of buffers needed later,
 * and room is made for it. The host does not wait for the device. */
void ebb_residence_look_ahead(ebb_device_t *dev);

/* For rebuilding. A DROPPED buffer gets memory, contents undefined, and counts as resident; the host waits only if there
 * are no chunks. `stream` is behind whatever used them. */
ebb_status_t ebb_residence_blank(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* Instead of what was to be made: DROPPED again; the host waits for the stream. */
void ebb_residence_unblank(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* The buffer is needed soon, or not any more: it may be copied out meanwhile, not dropped. */
void ebb_residence_want(ebb_buffer_t *buffer, bool wanted);
/* ebb has issued something on `stream`, up to `mark`, that touches the resident buffer. */
ebb_status_t ebb_residence_used(ebb_buffer_t *buffer, ebb_mark_t mark);
/* A content that a plan has given up: that of the unmapped buffer is nowhere, ebb_recipe_rebuild makes it (DROPPED). `copy`: a block
 * of pinned memory that has it too, residence's from then on, where there is one. */
void ebb_residence_put_dropped(ebb_buffer_t *buffer, ebb_host_t copy);
/* A DROPPED buffer is made now, in order on `stream`; one that is on its way there stays. */
ebb_status_t ebb_residence_restore(ebb_buffer_t *buffer, ebb_stream_t *stream);

#endif

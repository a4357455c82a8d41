/* internal.h: what only the files of alloc/ share. Threads and locks: ebb_lock() held unless it says otherwise. */
#ifndef EBB_ALLOC_INTERNAL_H
#define EBB_ALLOC_INTERNAL_H

#include "alloc/ebb_alloc.h"

/* ---- ranges without an owner, and what new ones are made of (spare.c) ---- */

/* A mapped range of exactly so many chunks that `stream` (NULL: every stream) may use at once, if there is one already. */
bool ebb_spare_take_whole(ebb_device_t *dev, size_t chunk_count, const ebb_stream_t *stream,
                          ebb_range_t **out);
/* The same made anew. */
ebb_status_t ebb_spare_take(ebb_device_t *dev, size_t chunk_count, ebb_stream_t *stream, ebb_range_t **out);
/* Gives a mapped range that is in use until the mark. It may be gone then. */
void ebb_spare_give(ebb_range_t *range, ebb_mark_t at);

/* Takes chunks that `stream` (NULL: every stream) may use, by all means there are. All or nothing. */
ebb_status_t ebb_spare_chunks(ebb_device_t *dev, size_t count, ebb_stream_t *stream, ebb_chunk_t *out);

/* Chunks that exist and that `stream` (NULL: every stream) may use at once: nothing is waited for, by it or by the host. */
size_t ebb_spare_at_once(ebb_device_t *dev, const ebb_stream_t *stream);
/* Maps the range on such chunks and on new ones; nothing leaves the device for it. False: there are too few by now. */
bool ebb_range_map_at_once(ebb_range_t *range, ebb_stream_t *stream);

/* Breaks spares, the oldest first, until the pool can give `chunks`; waits for marks only if `wait`. SIZE_MAX:
 * all, and ghosts go too. */
void ebb_spare_reclaim(ebb_device_t *dev, size_t chunks, bool wait);

void ebb_spare_drop_ghosts(ebb_device_t *dev, bool wait);

/* Chunks' worth of mappings of ghosts. */
size_t ebb_spare_ghosts(ebb_device_t *dev);
void ebb_spare_check(ebb_device_t *dev);

#endif

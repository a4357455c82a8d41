/* spare.h: ranges that nobody owns any more, and from what memory a new one is made. For this folder. */
#ifndef EBB_SPARE_H
#define EBB_SPARE_H

#include "ebb_alloc.h"

/* A mapped range of exactly so many chunks that `stream` (NULL: every stream) may use at once. */
ebb_status_t ebb_spare_take(size_t chunk_count, ebb_stream_t *stream, ebb_range_t **out);
/* Gives a mapped range that is in use until the mark. It may be gone then. */
void ebb_spare_give(ebb_range_t *range, ebb_mark_t at);

/* Takes chunks that `stream` (NULL: every stream) may use, by all means there are. All or nothing. */
ebb_status_t ebb_spare_chunks(size_t count, ebb_stream_t *stream, ebb_chunk_t *out);

/* Breaks spares, the oldest first, until the pool can give `chunks`; waits for marks only if `wait`. SIZE_MAX:
 * all, and ghosts go too. */
void ebb_spare_reclaim(size_t chunks, bool wait);

void ebb_spare_drop_ghosts(bool wait);

/* Chunks' worth of mappings of ghosts. */
size_t ebb_spare_ghosts(void);
void ebb_spare_check(void);

#endif

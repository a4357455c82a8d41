/* mark.h: the side of streams and marks that only this folder uses; see ebb_alloc.h and mark.c. */
#ifndef EBB_MARK_H
#define EBB_MARK_H

#include "ebb_alloc.h"

/* `stream` continues only after all that other streams have been given so far. */
ebb_status_t ebb_streams_join(CUstream stream);

/* Makes sure that how far each stream is can be asked later without recording an event on it. */
void ebb_streams_record(void);

/* The program itself has waited for a stream up to a number. */
void ebb_stream_synchronised(ebb_stream_t *stream, uint64_t number);

/* The program is about to destroy the stream. */
void ebb_stream_forget(ebb_stream_t *stream);

#endif

/* trace_streams.h: steps on several streams, by hand or by chance (rand()). For CMocka programs. */
#ifndef TRACE_STREAMS_H
#define TRACE_STREAMS_H

#include "ckpt/trace/trace.h"

/* "0110": operation 0 on stream 0, 1 on 1, .. */
void trace_set_streams(ebb_trace_t *trace, const char *streams);
/* Behind the moments that are there. */
void trace_add_moment(ebb_trace_t *trace, ebb_sync_kind_t what, uint32_t before, uint32_t stream,
                      uint32_t id);
/* An event of its own: what is on stream `from` before operation `recorded` comes before what is on `to` from operation `waited` on. All
 * moments of the trace are such pairs. */
void trace_add_edge(ebb_trace_t *trace, uint32_t from, uint32_t recorded, uint32_t to, uint32_t waited);

/* Draws a stream for every operation, below `streams`, and orders them by events: where two touch one buffer of which one writes
 * it, and now and then where nothing asks for it. The trace has no moments yet. */
void trace_put_on_streams(ebb_trace_t *trace, uint32_t streams);

/* Draws one of so many operations to be resident. */
void trace_draw_residents(ebb_trace_t *trace, uint32_t one_of);

#endif

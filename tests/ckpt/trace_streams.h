/* trace_streams.h: steps on several streams, by chance (rand()). For CMocka programs. */
#ifndef TRACE_STREAMS_H
#define TRACE_STREAMS_H

#include "trace.h"

/* Draws a stream for every operation, below `streams`, and orders them by events: where two touch one buffer of which one writes
 * it, and now and then where nothing asks for it. The trace has no moments yet. */
void trace_put_on_streams(ebb_trace_t *trace, uint32_t streams);

#endif

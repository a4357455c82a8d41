/* trace_show.h: a trace for people. */
#ifndef EBB_TRACE_SHOW_H
#define EBB_TRACE_SHOW_H

#include "trace.h"

/* Operations, bytes alive over the step, the longest idle times. False: no memory. */
bool ebb_trace_show(const ebb_trace_t *trace, FILE *out);

#endif

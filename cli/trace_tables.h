/* trace_tables.h: the parts of `ebb trace FILE`, one table each; see trace_show.c. */
#ifndef EBB_TRACE_TABLES_H
#define EBB_TRACE_TABLES_H

#include "ckpt/trace/trace.h"

/* Time by kernel, the longest first: so many of them, in so much room for each name. False: no memory. */
bool ebb_show_kernels(const ebb_trace_t *trace, uint32_t rows, size_t room);
/* By NVTX name and by verdict: launches, time, bytes. False: no memory. */
bool ebb_show_names(const ebb_trace_t *trace);
void ebb_show_verdicts(const ebb_trace_t *trace);
/* What lies idle for long, and how much of it could be made again. False: no memory. */
bool ebb_show_saved(const ebb_trace_t *trace);
/* Which arguments of each kernel may write. False: no memory. */
bool ebb_show_writers(const ebb_trace_t *trace, size_t room);
/* One line each. */
void ebb_show_launches(const ebb_trace_t *trace);
void ebb_show_buffers(const ebb_trace_t *trace);
void ebb_show_syncs(const ebb_trace_t *trace);

#endif

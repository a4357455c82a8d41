/* record.h: makes a trace of one step, while it runs.
 *
 * Fed with everything that happens between two step boundaries, allocations and frees included. Times come
 * from one event per operation, read at the end. One recording at a time; with ebb_lock() held throughout.
 */
#ifndef EBB_RECORD_H
#define EBB_RECORD_H

#include "ebb_alloc.h"
#include "trace.h"

/* Begins, behind all that was issued so far. */
void ebb_record_begin(void);
bool ebb_record_running(void);

void ebb_record_allocated(const ebb_buffer_t *buffer);
void ebb_record_freed(const ebb_buffer_t *buffer);
/* After it was issued. */
void ebb_record_operation(const ebb_operation_t *operation);

/* Ends: waits for the device, and gives the trace (the caller's to delete). NULL: something did not fit. */
ebb_trace_t *ebb_record_end(void);
/* Ends without a result: what was recorded was no step. */
void ebb_record_abandon(void);

#endif

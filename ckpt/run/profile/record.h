/* record.h: makes a trace of one step, while it runs.
 *
 * Fed with everything that happens between two step boundaries, allocations and frees included. What operations
 * do to buffers is not seen here: every access counts as an update, but those of copies and memsets, which do what
 * they say. One recording at a time; with ebb_lock() held throughout.
 */
#ifndef EBB_RECORD_H
#define EBB_RECORD_H

#include "alloc/ebb_alloc.h"
#include "ckpt/trace/trace.h"

enum { EBB_RECORD_STREAMS = 64 };

/* A trace, and what it stands for in this process. */
typedef struct ebb_recording {
    ebb_trace_t *trace;
    CUfunction *function; /* [operations] ebb_record_function */
    uint64_t *attributes; /* [operations] of the launch, as ebb_operation_t has them; NULL: none has any */
    uint64_t *generation; /* [buffers] of the buffer that was recorded */
    CUdeviceptr *address; /* [buffers] */
    uint8_t *passed;      /* [operations] recheck.c; NULL: none yet */
    ebb_stream_t
        *stream; /* the first operation's; trace->operation[i].stream is 0 for all if it is the only one */
    ebb_stream_t *streams[EBB_RECORD_STREAMS]; /* by number */
    uint32_t stream_count;
    bool concluded; /* the trace says what may be replayed; until then it is good for the order of things */
    /* Operations reach buffers that may leave through a table of pointers: the trace is only to be looked at. */
    bool hidden;
} ebb_recording_t;

/* Whether one of its kernels is from this CUmodule or CUlibrary. */
bool ebb_recording_launches_from(ebb_device_t *dev, const ebb_recording_t *recording, const void *module);

/* What an operation is recorded as: its kernel, or what else tells it from others; NULL for copies and sets. */
CUfunction ebb_record_function(const ebb_operation_t *operation);

/* A kernel of NCCL's or NVSHMEM's, by its name, or by what C++ has made of that. */
bool ebb_record_communicates(const char *name);
/* A kernel that waits for more than its stream, and may then touch what its arguments don't name: it communicates, or has been
 * launched as a cooperative one, as persistent kernels are. */
bool ebb_record_is_resident(ebb_device_t *dev, const ebb_operation_t *operation);

/* How an operation differs from one of the recording in its kernel and its geometry; NULL: in nothing. */
const char *ebb_record_other_launch(const ebb_recording_t *recording, uint32_t index,
                                    const ebb_operation_t *operation);
/* Whether it is the same but for sizes. */
bool ebb_record_is_like(const ebb_recording_t *recording, uint32_t index, const ebb_operation_t *operation);
/* How an operation differs from one of the recording in all but its stream and its buffers; NULL: in nothing. */
const char *ebb_record_difference(const ebb_recording_t *recording, uint32_t index,
                                  const ebb_operation_t *operation);

/* Begins, behind all that was issued so far. */
void ebb_record_begin(ebb_device_t *dev);
bool ebb_record_running(ebb_t *ebb);

/* `stream`: on which it was asked for; NULL: none. */
void ebb_record_allocated(const ebb_buffer_t *buffer, ebb_stream_t *stream);
void ebb_record_freed(const ebb_buffer_t *buffer, ebb_stream_t *stream);
/* What orders streams and host. */
void ebb_record_order(ebb_t *ebb, const ebb_order_t *order);
/* After it was issued. */
void ebb_record_operation(ebb_device_t *dev, const ebb_operation_t *operation);

/* Something of the step is not known: there will be no recording of it. */
void ebb_record_spoil(ebb_t *ebb);

/* Ends: gives the recording, the caller's to delete. False: something did not fit (logged), there is none. */
bool ebb_record_end(ebb_t *ebb, ebb_recording_t *out);
/* Ends without a result: what was recorded was no step. */
void ebb_record_abandon(ebb_t *ebb);

void ebb_recording_delete(ebb_recording_t *recording);

#endif

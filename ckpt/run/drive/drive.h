/* drive.h: driving a plan: the program's operations go on as they come, and between them the plan's actions
 * are issued, with no host waits and no mapping calls.
 *
 * Life of a drive. ebb_drive_install, at a step boundary, waits for the device, binds the plan's chunks to
 * real ones (what is on the device stays where it is) and maps all places. Then, step by step,
 * ebb_drive_serve hands out the planned addresses, and ebb_drive_before compares each operation with the
 * planned one. The first thing that is not as planned and might hurt the plan (drive_unplanned.c) ends it (ebb_drive_leave): the host waits for the
 * device, places are taken apart so that every live buffer has its own chunks or its host block again, or is
 * dropped with a recipe (replay.h), and the reactive half (residence/) goes on from there with the state as it is.
 * Buffers that are others in the next step go round in places of their own (plan.h).
 *
 * Step variants that alternate. Several plans may be installed at once, each for a step variant of its own; one of them is driven.
 * They share what is there between two steps (plan.h): the buffers that outlive the step are in the same places, on the
 * device or on the host, and everything else of a plan lies on what is free then, the same chunks for all of them. So when a
 * step is over another plan takes over at once (ebb_drive_change), without a copy, a mapping or a wait of the host; the program's stream
 * waits for the copies that are under way, as a plan orders only its own. When one is left, all are taken apart.
 * A plan that was not made for that has its buffers elsewhere as a rule (ebb_drive_boundary). Plans for one recording, of several sizes
 * (tracker.h), are such plans as well: the recording's key tells which one drives a step, the one for the smallest sizes into which that
 * fits. Small buffers, which may be allocated before, lie in the same places of all of them; and the host blocks of what is born in a step are
 * those of the plan that is driven. Not shared: buffers that go round (they would have to be in the same places of the same ring whenever
 * variants change), and anything under EBB_GUARD (which of a place's addresses are mapped is each plan's own).
 *
 * Where the step is of several streams, there is one cursor for all, which goes by the order of issue; the events by which the program
 * orders them are watched (drive_streams.c).
 *
 * One plan is driven at a time; everything with ebb_lock() held.
 */
#ifndef EBB_DRIVE_H
#define EBB_DRIVE_H

#include "alloc/ebb_alloc.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/profile/profile.h"

typedef struct ebb_drive_counts {
    uint64_t steps;   /* driven from beginning to end */
    uint64_t replays; /* launches */
    uint64_t fallbacks;
    uint64_t unplanned;    /* operations and allocations that were none of the plan's */
    uint64_t changes;      /* from one plan to another, between steps */
    uint64_t stall_ns;     /* that the program's stream waited for copies */
    uint64_t ns, timed;    /* device time of steps, of so many of them (internal.h) */
    double alone_ns;       /* that these take without ebb */
    size_t peak_bytes;     /* most chunks that existed at once while driving */
    uint64_t spared_bytes; /* that copies out have not copied, because the host had them */
} ebb_drive_counts_t;
/* Of all plans; of those that were counted as this one. */
ebb_drive_counts_t ebb_drive_counts(ebb_device_t *dev);
ebb_drive_counts_t ebb_drive_counts_as(ebb_device_t *dev, unsigned counted_as);

/* How the present drive has gone, as far as it has been timed. */
typedef struct ebb_drive_pace {
    uint64_t steps;                       /* whose waits are known */
    uint64_t stall_ns;                    /* in them the program's stream waited for copies */
    double copied_bytes[2], copied_ns[2]; /* out, in */
} ebb_drive_pace_t;
ebb_drive_pace_t ebb_drive_pace(ebb_device_t *dev);

enum { EBB_DRIVES = 24 };

/* Device bytes that a plan for this recording could have: the budget less what it cannot move, and what plans that are installed have for
 * themselves. `present` [buffers]: the buffers
 * with which the step begins, as far as they are others in every step (ebb_tracker_present); NULL: they are not known. */
size_t ebb_drive_room(ebb_device_t *dev, ebb_recording_t *learned, ebb_buffer_t *const *present);
/* And bytes of pinned host memory: what is left, and what the buffers that outlive its steps have. */
size_t ebb_drive_host_room(ebb_device_t *dev, const ebb_recording_t *learned, ebb_buffer_t *const *present);
/* Whether all that outlives its steps is there: of what goes round (`rotating`), or of the rest, for which `present` is not needed. */
bool ebb_drive_knows_all(ebb_device_t *dev, const ebb_recording_t *learned, ebb_buffer_t *const *present,
                         bool rotating);

/* A plan is driven beside which one for this recording may be: it is at a boundary, so that no buffer has memory that the other would use. */
bool ebb_drive_may_share(ebb_device_t *dev, const ebb_recording_t *learned);
/* What such a plan must agree with to be installed beside those that are; the caller's to delete. NULL: it may not be, or no memory. */
ebb_boundary_t *ebb_drive_boundary(ebb_device_t *dev, const ebb_recording_t *learned);

/* Begins to drive, where nothing is installed under this index. What is counted is counted as that of `counted_as`, below EBB_DRIVES. Borrows recording, trace and plan until the drive ends. The trace is what
 * the plan is made for: the recording's, or the same with smaller sizes (ebb_profile_sized). If another plan is driven, that
 * must be at the end of a step, and this one agree with its boundary. It succeeds, or everything is as it was but for where residence
 * has its contents (logged): the plan that was driven still is. CUDA_ERROR_NOT_FOUND: buffers or streams that the recording
 * means are gone; CUDA_ERROR_OUT_OF_MEMORY: device or host have too little; else the driver's refusal. */
ebb_status_t ebb_drive_install(ebb_device_t *dev, unsigned plan_index, unsigned counted_as,
                               ebb_recording_t *learned, const ebb_trace_t *trace, const ebb_plan_t *plan,
                               ebb_buffer_t *const *present);
bool ebb_drive_active(ebb_device_t *dev);
bool ebb_drive_installed(ebb_device_t *dev, unsigned plan_index);
/* The plan that is driven, or was last. */
unsigned ebb_drive_index(ebb_device_t *dev);
/* The buffer because of which it was left, since a step's was larger than it provides for, and how large; EBB_NONE: it was not that. */
uint32_t ebb_drive_outgrown(ebb_device_t *dev, size_t *bytes);
/* Bytes of the recording's key in the last driven step; 0: it has come to none, or not where another plan could have gone on. */
size_t ebb_drive_key_bytes(ebb_device_t *dev);
/* A plan is driven, and its step has begun and is not over. */
bool ebb_drive_in_step(ebb_device_t *dev);
/* A plan is driven, and nothing of it is in use but what outlives the step. */
bool ebb_drive_at_boundary(ebb_device_t *dev);
/* At the end of a step: from here on the plan of another index is driven. False: it is not installed, or something is in use. */
bool ebb_drive_change(ebb_device_t *dev, unsigned plan_index);

/* It is the planned operation, in the middle of a step. */
bool ebb_drive_expects(ebb_device_t *dev, const ebb_operation_t *operation);
/* The step is over: copies to the host at its end have been left out, if they have not come by now. */
void ebb_drive_catch_up(ebb_device_t *dev);

/* The planned buffer for a request, or NULL: none is active, or the request was not planned, and the drive has
 * ended unless there is room. */
ebb_buffer_t *ebb_drive_serve(ebb_device_t *dev, const ebb_request_t *request);
/* True: the buffer was in a place of the plan's and is gone, or the plan still needs it, and its free is put off. */
bool ebb_drive_freeing(ebb_buffer_t *buffer, ebb_stream_t *stream);
/* A buffer whose free was put off, and that nothing needs any more, nor the operation that is about to be issued (or NULL) touches: it is to be freed
 * as if the program did so now, on this stream (or NULL: when the device is done with it). NULL: there is none. */
ebb_buffer_t *ebb_drive_put_off_free(ebb_device_t *dev, const ebb_operation_t *operation,
                                     ebb_stream_t **stream);
bool ebb_drive_puts_off(ebb_device_t *dev);
/* True: the operation is the planned one, or does not hurt the plan; everything is arranged for it. False: the drive has ended. */
bool ebb_drive_before(ebb_device_t *dev, ebb_operation_t *operation);
/* After it was issued, or could not be: then the drive ends. */
void ebb_drive_after(ebb_device_t *dev, const ebb_operation_t *operation, bool issued);

/* Of the plan that is driven. */
ebb_recording_t *ebb_drive_recording(ebb_device_t *dev);
/* The program keeps a buffer: plans that are installed and may move it are left. */
void ebb_drive_keep(ebb_device_t *dev, const ebb_buffer_t *buffer);
/* It has kept this buffer of the recording, for the second time: what is learned says so from now on. True: it has not before. */
bool ebb_recording_keep(ebb_recording_t *learned, uint32_t buffer);
/* Nothing does any more. */
void ebb_recording_keep_nothing(ebb_recording_t *learned);
/* What it keeps of what outlives the step is noted in what is learned. True: there is more of that than before. */
bool ebb_drive_note_kept(ebb_device_t *dev, ebb_recording_t *learned, ebb_buffer_t *const *present);

/* The program has ordered streams. */
void ebb_drive_ordered(ebb_device_t *dev, const ebb_order_t *order);

/* From here on the step is followed (ebb_tracker_resume), with what was learned: borrowed from then on. */
void ebb_drive_leave(ebb_device_t *dev, const char *why);

#endif

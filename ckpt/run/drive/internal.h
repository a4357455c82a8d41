/* internal.h: what the files of drive/ share. */
#ifndef EBB_RUN_DRIVE_INTERNAL_H
#define EBB_RUN_DRIVE_INTERNAL_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/run/drive/drive.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"

/* ---- device time of driven steps (step_clock.c) ---- */

/* How long driven steps take on the device, from before their first action to behind their last operation: counted (ebb_drive_counts_t).
 *
 * An event at either end on the program's stream, read EBB_STEP_CLOCKS steps later, if it has come by then: nothing waits for it. One
 * at a time, everything with ebb_lock() held. What the driver refuses is not measured. */

enum { EBB_STEP_CLOCKS = 16 };

typedef struct ebb_step_clock {
    CUevent event[EBB_STEP_CLOCKS][2]; /* of steps in turns: begin, end */
    bool ended[EBB_STEP_CLOCKS];
} ebb_step_clock_t;

struct drive;
void ebb_step_clock_begin(struct drive *drive);
void ebb_step_clock_end(struct drive *drive);
/* The device must be idle: what has ended is read. */
void ebb_step_clock_stop(struct drive *drive);

/* ---- the state of a driven plan ---- */

/* A place of the plan, in this process. */
typedef struct site {
    ebb_range_t *range;   /* under a large place; NULL: small, or without chunks */
    ebb_buffer_t *buffer; /* the program's, while it is alive; held: the reactive half leaves it alone */
    ebb_host_t
        host; /* its block, pinned; owned; none: never copied out, or another plan has it (ebb_share_host) */
    /* Where its content is, in the order of issue. */
    bool written;  /* it has one */
    bool device;   /* in the place */
    bool on_host;  /* in the host block */
    bool given_up; /* discarded; may still be in the place */
    bool late;     /* its buffer should have been freed */
    bool found;    /* its buffer was there before the plan, or is unplaced */
    const ebb_recording_t
        *hashed;       /* whose verify has a hash of what is in the host block (ebb_verify_copied) */
    ebb_range_t *laid; /* while the plan is being installed: which that has put on its chunks, or NULL */
} site_t;

/* A content that is discarded, and compared when it has been made again (drive_verify.c). */
typedef struct check {
    uint32_t buffer, operation; /* the latter completes it */
    uint32_t stream;            /* of that replay */
    uint32_t users;             /* streams that use its place, */
    uint32_t streams;           /* or its memory (ebb_plan_place_streams) */
    size_t bytes;               /* of the content, since it was discarded */
    bool trial;                 /* compared at once */
    uint32_t next;              /* the next check that the same replay completes; EBB_NONE: none */
    ebb_host_t copy;            /* pinned, while there is one */
} check_t;

/* drive_streams.c: the stream `to` waits before operation `waited` for what `from` is given before operation `recorded`. */
typedef struct ebb_drive_edge {
    uint32_t from, recorded, to, waited;
} ebb_drive_edge_t;

/* An evict's or a fetch's, of the last step in which it was issued. */
typedef struct ebb_drive_copy {
    CUevent before, begun, done; /* compute at the action's point; its copy begins, and ends */
    size_t bytes;                /* behind which `done` is; 0: none yet */
} ebb_drive_copy_t;

/* An event of the program's, recorded in this step: how far each stream is then for those that have waited for it. */
typedef struct ebb_drive_event {
    CUevent event;
    uint32_t reached[EBB_PLAN_STREAMS]; /* [from] */
} ebb_drive_event_t;

/* How the program orders its streams, where there are several. */
typedef struct ebb_drive_order {
    CUevent turn;           /* recorded and waited for, at once */
    ebb_drive_edge_t *edge; /* [edge_count] by `waited` */
    uint32_t edge_count, edge_room, next_edge;
    ebb_drive_event_t *recorded;
    uint32_t recorded_count, recorded_room;
    /* [to][from]: in this step `to` has waited for what `from` was given before this operation, be it by way of others */
    uint32_t reached[EBB_PLAN_STREAMS][EBB_PLAN_STREAMS];
    bool failed; /* no memory to remember an event */
} ebb_drive_order_t;

/* Buffers of other plans that are installed have this for a number. */
#define EBB_INACTIVE UINT32_MAX

enum { EBB_DRIVE_ARRAYS = 24 };

/* One plan's, under its index. */
typedef struct drive {
    bool installed;
    bool active;              /* and driven */
    ebb_device_t *device;     /* whose memory it arranges */
    ebb_recording_t *learned; /* borrowed */
    const ebb_trace_t *trace; /* borrowed: learned->trace, or of smaller sizes */
    const ebb_plan_t *plan;   /* borrowed */
    ebb_stream_t
        *stream;      /* compute; where there are several, the first operation's: steps begin and end on it */
    uint32_t streams; /* of the program's, as the plan counts them */
    ebb_drive_order_t order;

    void *array[EBB_DRIVE_ARRAYS]; /* [array_count] where pointers to arrays of its own are (ebb_drive_own) */
    unsigned array_count;
    bool no_memory;       /* for one of them */
    ebb_chunk_t *chunk;   /* [plan->chunk_count] */
    uint32_t *pool;       /* [plan->chunk_count] which of all plans' chunks that is (drive_share.c) */
    uint32_t *persistent; /* [buffers] among those that plans share; EBB_NONE: it is this plan's alone */
    site_t *site;         /* [places] */
    bool owned;    /* what these say counts; else the plan is being installed, and contents are residence's */
    bool *evicted; /* [places] by some action of the plan, in some step of the period */
    uint32_t *holder;        /* [plan->chunk_count] the one place whose content may be there; EBB_NONE: none */
    uint32_t *at;            /* [buffers] in which place each is in this step (plan.h) */
    uint32_t period;         /* of that, in steps */
    uint32_t outliving;      /* buffers that are others in the next step: how many are alive between steps */
    ebb_slab_t *small_slab;  /* plans that are installed together may have one */
    ebb_issued_t *issued;   /* [operations] of this step; behind the cursor, or left out, of an earlier one */
    ebb_drive_copy_t *copy; /* [actions] */
    /* Lists, which EBB_NONE ends: by operation, which actions are waited for there, and which buffers die before it. */
    uint32_t *join_at, *join_next;   /* [operations], [actions] */
    uint32_t *death_at, *death_next; /* [operations + 1], [buffers] */
    CUevent *stall; /* [4 * operations]: for two steps, around each operation's joins, if it has any */

    uint32_t *first_touch; /* [buffers] see ebb_trace_first_touches */
    bool *spares;          /* [places] with copies out that may be spared (ebb_plan_spared) */
    ebb_orphans_t orphans; /* room for what is left when the plan is: [buffers] */
    uint32_t cursor;       /* the next operation; operation_count: the step is over */
    uint32_t next_action;  /* the next one to be issued */
    uint32_t next_birth;   /* the next buffer to be allocated; buffer_count: none */
    uint32_t living;       /* buffers alive but for those that are the same in every step */
    uint64_t step;         /* of this drive */

    uint32_t *open; /* [open_count] places that are mapped for now; NULL: all are (drive_guard.c) */
    uint32_t open_count;

    /* drive_unplanned.c */
    bool *source;                 /* [buffers] dropped contents may be made from it, by way of others */
    bool *again;                  /* [buffers] it may be made again, by actions or when the plan is left */
    ebb_stray_t *stray;           /* [stray_count] of this step */
    uint32_t stray_count, strays; /* the latter: operations since the last planned one */
    uint32_t late;                /* buffers that should have been freed */
    bool unplanned;               /* the operation under way is none of the plan's */
    bool resized;                 /* buffers of this step are smaller than planned */
    uint32_t outgrown;            /* this one would have been larger, so it was left; EBB_NONE: none */
    size_t outgrown_bytes;        /* so large */

    check_t *check;
    uint32_t *check_at; /* [actions]: the check that begins or ends there; EBB_NONE: none */
    uint32_t check_count;
    ebb_drive_pace_t pace;

    double alone_ns; /* that a step takes without ebb */
    ebb_step_clock_t clock;
    ebb_drive_counts_t *counts; /* others may have the same */
} drive_t;

struct ebb_drives {
    drive_t of[EBB_DRIVES];
    ebb_drive_counts_t counts[EBB_DRIVES];
    unsigned driven;                      /* the one that is driven, else the one that was last */
    size_t key_bytes;                     /* ebb_drive_key_bytes */
    ebb_buffer_t **early; /* [early_count] put off (ebb_unplanned_put_off) */
    uint32_t early_count, early_room;
};

static inline drive_t *ebb_driven(ebb_device_t *dev)
{
    return &dev->run->drives->of[dev->run->drives->driven];
}

/* Its contents are compared at once, which makes it slow. */
static inline bool ebb_is_first_step(const drive_t *drive)
{
    enum { FIRST_STEPS = 2 };
    return drive->step < FIRST_STEPS;
}

static inline bool ebb_is_large(const ebb_trace_buffer_t *b)
{
    return b->bytes > EBB_SMALL_BYTES;
}

/* Where a place of the plan's list is in this step. */
static inline uint32_t ebb_place_now(const drive_t *drive, uint32_t place)
{
    return place < drive->trace->buffer_count ? drive->at[place] : place;
}

static inline site_t *ebb_site_of(const drive_t *drive, uint32_t place)
{
    return &drive->site[ebb_place_now(drive, place)];
}

/* Unplaced, and not the same in every step: known from the step's beginning, or its allocation, to the step's end. */
static inline bool ebb_is_passing(const ebb_trace_t *t, uint32_t buffer)
{
    return ebb_trace_is_unplaced(t, buffer) && !ebb_trace_stays_itself(t, buffer);
}

/* The place's chunks are its own from now on: whatever was there is not any more. Whoever is on the device has claimed its chunks. */
void ebb_site_claim(drive_t *drive, uint32_t place);
/* They are written now: it has content. */
void ebb_site_take(drive_t *drive, uint32_t place);

/* The live buffer that the recording means, or NULL: it is gone, or not known. */
ebb_buffer_t *ebb_recorded_buffer(ebb_device_t *dev, const ebb_recording_t *learned,
                                  ebb_buffer_t *const *present, uint32_t id);

/* drive_install.c: the pointer at `at`, of the drive's, is this array until the drive is forgotten, which frees it; NULL: notes that there is
 * no memory. */
void ebb_drive_own(drive_t *drive, void *at, void *array);
/* Undoes an installation, whole or in part, but for what plans share. The device must be idle. */
void ebb_drive_take_apart(drive_t *drive);
/* Frees what is needed after that: arrays, and the operations as they were issued, unless these were handed over. */
void ebb_drive_forget(drive_t *drive);
/* A place's buffer, if it has one, is residence's again, its range and its host block too, as far as its plan owned (drive_t) them. Its
 * chunks stay as they are. */
void ebb_site_release(ebb_device_t *dev, site_t *site, bool owned);

/* drive_share.c. A buffer that outlives the step and is itself in every one, as all plans that are installed have it. */
typedef struct ebb_persistent {
    ebb_buffer_t *buffer;
    site_t site; /* while the driven plan does not know it; else that has it, and there is no buffer here */
    ebb_start_t start;    /* between steps */
    uint32_t *chunk;      /* [chunk_count] in the pool */
    uint32_t chunk_count; /* 0: they are not noted: it has no place yet, or is small */
} ebb_persistent_t;
ebb_persistent_t *ebb_share_persistent(drive_t *drive, uint32_t place); /* NULL: it is none of them */
/* Another plan is about to be installed, under this index: the driven one rests. After a failure, when it has been taken apart, that goes
 * on, with what plans share as it was. */
typedef struct ebb_share_mark {
    unsigned plan_index; /* that was driven, or was last */
    bool active;
    uint32_t chunk_count, persistent_count;
    unsigned small_count;
} ebb_share_mark_t;
ebb_share_mark_t ebb_share_begin(ebb_device_t *dev, unsigned plan_index);
void ebb_share_undo(ebb_device_t *dev, const ebb_share_mark_t *before);
drive_t *ebb_share_drive(ebb_device_t *dev, unsigned plan_index);
/* A buffer of the plan that is being installed: true, if it is persistent already; then, when nothing can fail any more: the plan
 * has its site. Else, when it has one: it is persistent from now on; false: no host memory. */
bool ebb_share_find(drive_t *drive, uint32_t place, const ebb_buffer_t *buffer);
void ebb_share_take(drive_t *drive, uint32_t place);
bool ebb_share_add(drive_t *drive, uint32_t place);
bool ebb_share_has(const ebb_buffer_t *buffer);
size_t ebb_share_pinned_bytes(const ebb_buffer_t *buffer); /* its host block, if it is persistent */
/* The host block that an installed plan for this recording has for a buffer that is born in the step. NULL: none has one. */
ebb_host_t *ebb_share_host(ebb_device_t *dev, const ebb_recording_t *learned, uint32_t buffer);
/* They are the driven plan's from now on. */
void ebb_share_gather_hosts(drive_t *drive);
/* Chunks for all of the plan's, new ones as far as none are free between steps; and which of them persistent buffers have got. */
ebb_status_t ebb_share_bind_chunks(ebb_device_t *dev);
bool ebb_share_note_chunks(drive_t *drive);                   /* false: no host memory, and none are noted */
void ebb_share_keep_chunk(ebb_device_t *dev, uint32_t index); /* it is not given back in the end */
/* The small region: one that another plan has, if it is large enough, as it is empty between steps. */
ebb_status_t ebb_share_open_small(ebb_device_t *dev);
/* Chunks of installed plans that another one could have, those of a small region included. */
size_t ebb_share_room(ebb_device_t *dev, const ebb_recording_t *learned);
/* All plans are taken apart. The device must be idle. */
void ebb_share_dissolve(ebb_device_t *dev);

/* Where a replay (NULL: the operation itself) finds a buffer. */
uint32_t ebb_replay_place(const drive_t *drive, const ebb_action_t *replay, uint32_t buffer);

/* drive.c, for drive_divergence.c: passing buffers that are older than the step are the plan's again, by what the last step of its recording has
 * left; and are not any more. */
void ebb_drive_receive(drive_t *drive);
void ebb_drive_dismiss(drive_t *drive);
/* The next buffer that is born in the step, of those from `from` on. */
uint32_t ebb_first_birth(const drive_t *drive, uint32_t from);
/* False: the program is not where a step begins; the plan has been left. */
bool ebb_drive_begin_step(ebb_device_t *dev);
/* All actions and waits before the operation at the cursor; NULL: which is left out. NULL, or why not. */
const char *ebb_drive_arrange(drive_t *drive, const ebb_operation_t *operation);
void ebb_drive_end_step(drive_t *drive);
/* How it differs from the operation at the cursor, or a later one; NULL: in nothing. */
const char *ebb_drive_differs(drive_t *drive, const ebb_operation_t *operation, uint32_t at);

static inline bool ebb_is_between_steps(const drive_t *drive)
{
    return drive->cursor == drive->trace->operation_count;
}

/* A small buffer's place has room for the largest that the tracker has seen (ebb_profile_grow), and so for all smaller ones. */
static inline bool ebb_place_has_room(const ebb_trace_buffer_t *t, size_t bytes)
{
    return ebb_is_large(t) ? bytes == t->bytes : bytes <= t->bytes;
}

/* For a buffer that is born in the step. */
static inline bool ebb_birth_has_room(const drive_t *drive, uint32_t id, size_t bytes)
{
    const ebb_trace_buffer_t *t = &drive->trace->buffer[id];
    return drive->learned->any_size ? bytes <= t->bytes : ebb_place_has_room(t, bytes);
}

/* Where steps are of any size: one is due, and there is no other request that this could be, but one for a later buffer. */
static inline bool ebb_birth_is_outgrown(const drive_t *drive, const ebb_request_t *q)
{
    const uint32_t next = drive->next_birth;
    return drive->learned->any_size && next < drive->trace->buffer_count &&
           drive->trace->buffer[next].born == drive->cursor && q->bytes > drive->trace->buffer[next].bytes;
}

/* What a place has of content: all of it is copied, compared, replaced. */
static inline size_t ebb_content_bytes(const drive_t *drive, uint32_t place)
{
    const ebb_buffer_t *b = drive->site[place].buffer;
    const size_t planned = drive->plan->place[place].bytes;
    return b && b->bytes < planned ? b->bytes : planned;
}

/* drive_divergence.c. What comes now (an allocation or an operation) is not planned. */
/* On with a plan where it is. False: there is none. */
bool ebb_drive_change_over(ebb_device_t *dev, const ebb_request_t *request, const ebb_operation_t *operation);
/* The allocation of a recording's key: on with the plan for the smallest sizes into which it fits. */
void ebb_drive_fit(ebb_device_t *dev, const ebb_request_t *request);
/* Leaves out operations, if it is planned behind them. They may be those of buffers that are not allocated in this step, and such as change
 * contents; not what replaces them, for the plan has given up what is replaced. Where the plan repeats one, it leaves that out, too. False:
 * the plan has been left. */
bool ebb_drive_skip(drive_t *drive, const ebb_request_t *request, const ebb_operation_t *operation);
/* Logs which words of the planned launch do not lead where they are to, so that the reason can be found. */
void ebb_drive_say_other_buffers(ebb_device_t *dev, const ebb_operation_t *operation);

/* drive_guard.c: with EBB_GUARD, addresses lead to chunks only while something that is known uses them; else nothing happens. Open
 * until ebb_guard_close, which waits for the device. */
ebb_status_t ebb_guard_set_up(drive_t *drive);
void ebb_guard_tear_down(drive_t *drive);
ebb_status_t ebb_guard_open(drive_t *drive, uint32_t place);
ebb_status_t ebb_guard_open_operation(drive_t *drive, const ebb_action_t *replay, uint32_t operation);
ebb_status_t ebb_guard_open_buffers(drive_t *drive, const ebb_operation_t *operation);
void ebb_guard_close(drive_t *drive);

/* drive_streams.c: where there are several streams; else there is nothing to wait for. */
ebb_stream_t *ebb_drive_stream(const drive_t *drive, uint32_t stream);
/* drive->streams: it is none of the plan's. */
uint32_t ebb_drive_stream_number(const drive_t *drive, const ebb_stream_t *stream);
ebb_status_t ebb_streams_set_up(drive_t *drive);
void ebb_streams_tear_down(drive_t *drive);
/* A stream's handle; CUDA_ERROR_INVALID_HANDLE: the program has destroyed it. */
ebb_status_t ebb_streams_handle(const drive_t *drive, uint32_t stream, CUstream *out);
/* `waiter` waits for everything that these of the program's streams (bits) have been given; by an event, which is recorded
 * as often as need be. */
ebb_status_t ebb_streams_after(drive_t *drive, CUstream waiter, uint32_t after, CUevent event);
#define EBB_ALL_STREAMS UINT32_MAX
/* The stream waits for these others (bits), or they, and copies, for it. */
ebb_status_t ebb_streams_order(drive_t *drive, uint32_t stream, uint32_t after);
ebb_status_t ebb_streams_scatter(drive_t *drive, uint32_t stream, uint32_t others);
void ebb_streams_begin_step(drive_t *drive);
/* NULL, or what of the program's order has not come that was to come before the operation. */
const char *ebb_streams_before(drive_t *drive, uint32_t operation);

/* drive.c: whether the operation at the cursor was recorded with this access; and whether one that has come makes a recorded one. */
bool ebb_drive_plans(drive_t *drive, const ebb_access_t *access);
bool ebb_drive_makes(drive_t *drive, const ebb_operation_t *operation, const ebb_trace_access_t *recorded);

/* drive_unplanned.c. */
ebb_status_t ebb_unplanned_set_up(drive_t *drive);
/* The operation is none of the plan's, and does no harm: it may be issued. Residence holds its buffers until it has been. */
bool ebb_unplanned_operation(drive_t *drive, ebb_operation_t *op);
/* Something is still to be made from what is in it, by a replay that is to come, or by a recipe when the plan is left. */
bool ebb_unplanned_is_source(const drive_t *drive, uint32_t buffer);
/* It is the planned launch on other buffers: whether it can go for it. Then, once everything that comes before is arranged, whether what
 * else it touches does no harm. */
bool ebb_unplanned_may_match_partly(drive_t *drive, const ebb_operation_t *op);
bool ebb_unplanned_partial_match(drive_t *drive, const ebb_operation_t *op);
bool ebb_unplanned_allocation(ebb_device_t *dev, const ebb_request_t *request);
/* Before the operation at the cursor, and behind the last one: NULL, or why buffers that should be gone, or are, are in the way. */
const char *ebb_unplanned_end_step(drive_t *drive);
const char *ebb_unplanned_late_frees(drive_t *drive);
/* NULL, or why not: one of the plan's next actions, up to a point, takes the memory of a buffer that is late. */
const char *ebb_unplanned_takes_late(drive_t *drive, uint32_t point);
/* The plan still needs the buffer: recipes may read it, or it outlives the step. */
bool ebb_unplanned_needs(const drive_t *drive, uint32_t buffer);
/* It is freed when that is not so any more (ebb_drive_put_off_free). False: it is not. */
bool ebb_unplanned_put_off(const drive_t *drive, ebb_buffer_t *buffer, const ebb_stream_t *stream);
void ebb_unplanned_forget(ebb_device_t *dev, const ebb_buffer_t *buffer);

/* drive_verify.c: comparing what is recomputed with what was dropped. */
ebb_status_t ebb_drive_verify_set_up(drive_t *drive);
void ebb_drive_verify_tear_down(drive_t *drive); /* the device must be idle */
/* The plan is being left: the copy of a content that is given up, which is the caller's, where there is one. */
ebb_host_t ebb_drive_verify_copy(drive_t *drive, uint32_t buffer);
/* Just before a discard, just after a replay. */
void ebb_drive_verify_discard(drive_t *drive, uint32_t action);
void ebb_drive_verify_replay(drive_t *drive, uint32_t action);

#endif

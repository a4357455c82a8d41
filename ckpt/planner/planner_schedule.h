/* planner_schedule.h: the order of a step as it would be driven: operations and replays, copies and discards
 * between them, and what is resident when. Made by the walk, laid on chunks by the overlay, turned into a
 * plan by the emitter.
 *
 * Glossary
 *   position   index into the order of the compute stream: operations and replays
 *   stay       a place holds something from one position to another; then its chunks are free for other
 * places
 */
#ifndef EBB_PLANNER_SCHEDULE_H
#define EBB_PLANNER_SCHEDULE_H

#include "alloc/base/array.h"
#include "ckpt/planner/fates.h"

typedef struct ebb_event {
    uint32_t operation, point; /* point: the operation itself, or before which it is replayed */
    bool replay;
    uint32_t first_redirect, redirect_count; /* in schedule->redirect */
} ebb_event_t;

/* A copy or discard: issued just before the event at this position. */
typedef struct ebb_move {
    ebb_action_kind_t kind;
    uint32_t place, position; /* position EBB_NONE: it has been taken back */
} ebb_move_t;

typedef struct ebb_stay {
    uint32_t place, first, last; /* positions, both inclusive */
    uint32_t begin;              /* position of the first touch */
    uint32_t fetch, evict;       /* moves that begin and end it, or EBB_NONE */
    bool tail;                   /* it began in the step before, whose evict goes on */
} ebb_stay_t;

typedef struct ebb_scratch {
    uint64_t bytes;
    uint32_t chunks;
} ebb_scratch_t;

/* Owns its arrays. Kept and cleared between walks, so that they need not grow again. */
typedef struct ebb_schedule {
    ebb_event_t *event;
    ebb_move_t *move;
    ebb_stay_t *stay;
    ebb_scratch_t *scratch; /* place buffer_count + i */
    ebb_redirect_t *redirect;
    uint32_t event_count, move_count, stay_count, scratch_count, redirect_count;
    uint32_t event_room, move_room, stay_room, scratch_room, redirect_room;
    bool *on_host; /* per buffer: at the beginning of the step */
    uint64_t replay_ns;
} ebb_schedule_t;

/* How the walk weighs what it may give up. */
typedef struct ebb_taste {
    uint32_t target_chunks;
    bool offload, recompute;
    uint64_t most_replay_ns; /* replays that take longer are not worth it */
    double caution; /* how many times its time a copy takes of the link: it may not fall where it fits */
    double chain;   /* how much of the replays of missing inputs counts into the price of a drop */
    double idle;    /* exponent of the time until the next use in the score */
    const double *more_to_drop, *more_to_offload; /* per buffer: ns on top of the price; NULL: none */
    ebb_fates_t *fates; /* a fixed strategy, which says what is given up and when; NULL: none does */
} ebb_taste_t;

/* The step under a limit of target_chunks, in one walk (planner_walk.c). It may use more than that where it
 * finds nothing to give up; the overlay tells. False: given up (more replays than are worth it), or no
 * memory. */
bool ebb_schedule_walk(ebb_schedule_t *schedule, const ebb_model_t *model, const ebb_taste_t *taste);

/* Takes copies back whose memory nobody needs under `limit` chunks (planner_keep.c). False: no memory. */
bool ebb_schedule_keep(ebb_schedule_t *schedule, const ebb_model_t *model, uint32_t limit);

/* Longer stays for what is copied, where less than `limit` chunks are taken (planner_relax.c): a copy out that goes over the
 * step's end gets a further stay, a tail. False: no memory. */
bool ebb_schedule_relax(ebb_schedule_t *schedule, const ebb_model_t *model, uint32_t limit);

/* Chunks for every place (planner_overlay.c). */
typedef struct ebb_overlay {
    uint32_t *first, *chunk; /* place i's are chunk[first[i]] .. chunk[first[i + 1] - 1] */
    uint32_t chunk_count;
} ebb_overlay_t;

/* Chunks that are resident, by position, and 0 at the end. The caller's; NULL: no memory. */
uint32_t *ebb_schedule_profile(const ebb_schedule_t *schedule, const ebb_model_t *model);
/* The most chunks that are resident at once; EBB_NONE: no memory. */
uint32_t ebb_schedule_peak(const ebb_schedule_t *schedule, const ebb_model_t *model);
/* False: no memory, or it takes more than `limit` chunks. */
bool ebb_overlay_make(ebb_overlay_t *overlay, const ebb_schedule_t *schedule, const ebb_model_t *model,
                      uint32_t limit);
void ebb_overlay_delete(ebb_overlay_t *overlay);

/* Where there are several streams: who waits for whom, as bits. */
typedef struct ebb_order {
    uint32_t *after, *joiners; /* per move: of copies */
    uint32_t *events; /* per event: a replay's `after`, or what the operation's stream has to wait for */
} ebb_ordering_t;

/* Per stay: the streams whose events touch it, or a stay that goes on with what it holds. False: no memory. */
bool ebb_schedule_streams(uint32_t *streams, const ebb_schedule_t *schedule, const ebb_model_t *model);
/* Fills in `after` and `events`; `joiners` are given, and where each move is joined: an operation, or from operation_count on one
 * of the next step (planner_order.c). False: no memory. */
bool ebb_schedule_order(ebb_ordering_t *order, const ebb_schedule_t *schedule, const ebb_overlay_t *overlay,
                        const ebb_model_t *model, const uint64_t *join_key);

/* The plan with waits and joins (planner_emit.c), without a predicted time. NULL: no memory. */
ebb_plan_t *ebb_schedule_emit(const ebb_schedule_t *schedule, const ebb_overlay_t *overlay,
                              const ebb_model_t *model);

void ebb_schedule_delete(ebb_schedule_t *schedule);

/* For qsort: keys of 64 bits, the smallest first. */
static inline int ebb_by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static inline uint32_t ebb_place_chunks(const ebb_schedule_t *s, const ebb_model_t *m, uint32_t place)
{
    uint32_t buffers = m->trace->buffer_count;
    return place < buffers ? m->buffer[place].chunks : s->scratch[place - buffers].chunks;
}

static inline uint64_t ebb_place_bytes(const ebb_schedule_t *s, const ebb_model_t *m, uint32_t place)
{
    uint32_t buffers = m->trace->buffer_count;
    return place < buffers ? m->trace->buffer[place].bytes : s->scratch[place - buffers].bytes;
}

#endif

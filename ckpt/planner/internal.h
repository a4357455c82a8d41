/* internal.h: what the files of the planner share. From the bottom up: the stages of a step and what a fixed strategy does with each, the
 * schedule and the walk that makes it, plans of schedules, and the search. */
#ifndef EBB_PLANNER_INTERNAL_H
#define EBB_PLANNER_INTERNAL_H

#include "alloc/base/table.h"
#include "ckpt/planner/planner.h"

/* ---- stages ----
 *
 * Forward, backward and the stages in between, found in the data flow of a trace. What fixed strategies are about.
 *
 * Glossary
 *   pass     memory of the step fills up and empties again: forward, then backward. A step has one for each micro-batch
 *   peak     the operation in a pass at which most is alive: forward ends before it
 *   border   a point of a forward where little goes over: bytes of contents that were made before it in this forward and are
 *            read behind it in this forward. Residual streams and skip connections count, what waits for backward does not
 *   stage    the operations of a forward between two borders; backward reverses stage after stage. Numbered through all passes
 *   saved    a content that a forward makes, of a large buffer that is born in the step
 */

typedef struct ebb_pass {
    uint32_t begin, peak, end; /* operations: forward [begin, peak), backward [peak, end) */
    uint32_t first_stage, stage_count;
} ebb_pass_t;

/* Owns its arrays. */
typedef struct ebb_stages {
    ebb_pass_t *pass;
    uint32_t
        *stage_of; /* per operation; in backward the one that it reverses. EBB_NONE: before the first pass */
    uint32_t *pass_of; /* per operation */
    uint32_t *home,
        *far; /* per content: the stages that make it, and that read it last in its forward. EBB_NONE: not saved */
    uint64_t *border; /* per stage: bytes that go over from the one before */
    uint64_t *saved;  /* per stage: bytes that it makes and backward reads */
    uint32_t pass_count, stage_count, pass_room;
} ebb_stages_t;

/* Borders lie where NVTX ranges change, if the trace names any in the pass, and where the data flow is thinnest. False: no
 * memory; nothing is owned then. */
bool ebb_stages_find(ebb_stages_t *stages, const ebb_model_t *model);
/* Borders at all points that something goes over, or at the thinnest of them: at most so many stages in a pass. */
bool ebb_stages_split(ebb_stages_t *stages, const ebb_model_t *model, uint32_t most);
void ebb_stages_delete(ebb_stages_t *stages);

/* Whether an operation lies in the backward of its pass. */
static inline bool ebb_stages_is_backward(const ebb_stages_t *s, uint32_t operation)
{
    const uint32_t pass = s->pass_of[operation];
    return pass != EBB_NONE && operation >= s->pass[pass].peak;
}

/* ---- reversal ----
 *
 * The fastest way to reverse a pass within so many chunks, as far as its stages are a chain: a dynamic program (reversal.c).
 *
 * A stretch of stages is reversed in one of two ways. Its first stage is kept whole, then the others are reversed, then the first one. Or
 * stages are gone through without being kept, up to a checkpoint; then what is behind the checkpoint is reversed, then what is in
 * front of it. Nothing is copied, and what a stage makes besides counts only while it is gone through. So it is no bound, and the
 * plan may take more or fewer chunks.
 */

typedef struct ebb_reversal {
    struct ebb_reversal_part *part; /* one for each pass; owned */
    uint32_t part_count;
    uint32_t unit; /* chunks that the program counts as one */
} ebb_reversal_t;

/* For up to so many chunks. False: no memory; nothing is owned then. */
bool ebb_reversal_make(ebb_reversal_t *reversal, const ebb_stages_t *stages, const ebb_model_t *model,
                       uint32_t chunks);
void ebb_reversal_delete(ebb_reversal_t *reversal);

/* Of all forwards that a pass takes within so many chunks; UINT64_MAX: it is not possible. */
uint64_t ebb_reversal_ns(const ebb_reversal_t *reversal, uint32_t pass, uint32_t chunks);

/* Of a stage, while another one is reversed: what only its own backward reads, what goes over the border behind it. */
enum { EBB_KEPT_INNER = 1, EBB_KEPT_OVER = 2 };
/* What is held while a stage of the pass is reversed, in forward while the last one is: `checkpoint` and `kept`, by stage of the pass, all
 * zero before. */
void ebb_reversal_hold(const ebb_reversal_t *reversal, uint32_t pass, uint32_t chunks, uint32_t stage,
                       uint32_t *checkpoint, uint8_t *kept);

/* ---- fates ----
 *
 * The fixed strategies: what each of them does with what a forward saves, wherever there is a budget or not.
 *
 * A strategy says which borders (internal.h) are checkpoints while a stage is being reversed: what goes over them is held then.
 * What the stage itself needs is rebuilt from there and stays until it is reversed; everything else that was saved is dropped
 * and rebuilt when it is needed. The walk follows this instead of looking for the cheapest when memory runs out; what cannot be
 * rebuilt is kept.
 *
 *   keep         gives nothing up
 *   offload      copies out what forward saves, if there is time for both copies before it is needed
 *   uniform:N    every N-th border is a checkpoint
 *   sqrt         borders that balance the checkpoints against the largest segment: 2 sqrt(n) of n equal stages at most, one
 *                forward more at most (Chen, Xu, Zhang, Guestrin: Training Deep Nets with Sublinear Memory Cost, 2016,
 *                arXiv:1604.06174, section 3)
 *   recursive    the border in the middle of what is left to reverse, and so on into its second half: log2(n) checkpoints,
 *                less than n/2 log2(n) stages more (there, section 4.3)
 *   revolve:N    N checkpoints, the start counted, and the fewest stages that are possible with so many (Griewank, Walther:
 *                Algorithm 799, revolve, ACM TOMS 26(1), 2000)
 *   selective    drops what is cheap: what takes less time a byte to make again than all that is saved together (with names:
 *                what operations in NVTX ranges or kernels of such a name make), and rebuilds it from what is held: all that is
 *                not dropped, and what goes over borders. Names that cover stages which save nothing but what goes over their
 *                border (a chain of single operations, say) drop that too; where they cover many in a row, but for the root of
 *                their number
 *
 * No policy of its own: the dynamic program, which says for each stage what is held of it (ebb_fates_make_reversal).
 */

typedef enum ebb_fate { EBB_KEEP, EBB_FORGET, EBB_DROP, EBB_OFFLOAD } ebb_fate_t;

/* Owns its arrays; borrows the model. */
typedef struct ebb_fates {
    const ebb_model_t *model;
    ebb_policy_code_t strategy;
    uint32_t number;   /* of uniform and revolve */
    const char *names; /* of selective, with commas; NULL: none. Borrowed from the policy */
    ebb_stages_t stages;
    uint32_t *segment; /* per stage */
    uint8_t *fate;     /* per content: what it meets when it is not held */
    uint32_t *
        checkpoints; /* per stage, while `stage` is reversed: how many borders up to its own are checkpoints */
    uint32_t stage, segments;
    ebb_reversal_t reversal; /* of strategy `auto` */
    uint32_t chunks;         /* for it; the walk sets them */
    uint8_t *kept;           /* per stage, as `checkpoints` */
} ebb_fates_t;

/* False: no memory. */
bool ebb_fates_make(ebb_fates_t *fates, const ebb_model_t *model, const ebb_policy_t *policy);
/* What the dynamic program says for budgets of up to so many chunks. */
bool ebb_fates_make_reversal(ebb_fates_t *fates, const ebb_model_t *model, uint32_t chunks);
void ebb_fates_delete(ebb_fates_t *fates);

/* Another operation is being prepared. True: another segment is reversed from here on. */
bool ebb_fates_turn(ebb_fates_t *fates, uint32_t operation);
/* What becomes of a content that the walk could give up now, whose next use is `next` (EBB_NONE: there is none). */
ebb_fate_t ebb_fates_of(const ebb_fates_t *fates, uint32_t content, uint32_t operation, uint32_t next);

/* The fewest stages that must be gone through to reverse `length` of them with so many checkpoints, the start counted: the
 * t(l, c) of Algorithm 799. `length` and `checkpoints` at least 1. */
uint64_t ebb_revolve_cost(uint32_t length, uint32_t checkpoints);

/* ---- schedule ----
 *
 * The order of a step as it would be driven: operations and replays, copies and discards
 * between them, and what is resident when. Made by the walk, laid on chunks by the overlay, turned into a
 * plan by the emitter.
 *
 * Glossary
 *   position   index into the order of the compute stream: operations and replays
 *   interval       a place holds something from one position to another; then its chunks are free for other
 * places
 */

typedef struct ebb_event {
    uint32_t operation, point; /* point: the operation itself, or before which it is replayed */
    bool replay;
    uint32_t first_redirect, redirect_count; /* in schedule->redirect */
} ebb_event_t;

/* A copy or discard: issued just before the event at this position. */
typedef struct ebb_move {
    ebb_action_kind_t kind;
    uint32_t place, position; /* position EBB_NONE: it has been taken back */
    bool spared;              /* a copy out of what the host has already */
} ebb_move_t;

typedef struct ebb_interval {
    uint32_t place, first, last; /* positions, both inclusive */
    uint32_t begin;              /* position of the first touch */
    uint32_t fetch, evict;       /* moves that begin and end it, or EBB_NONE */
    bool tail;                   /* it began in the step before, whose evict goes on */
} ebb_interval_t;

typedef struct ebb_scratch {
    uint64_t bytes;
    uint32_t chunks;
} ebb_scratch_t;

/* Owns its arrays. Kept and cleared between walks, so that they need not grow again. */
typedef struct ebb_schedule {
    ebb_event_t *event;
    ebb_move_t *move;
    ebb_interval_t *interval;
    ebb_scratch_t *scratch; /* place buffer_count + i */
    ebb_redirect_t *redirect;
    uint32_t event_count, move_count, interval_count, scratch_count, redirect_count;
    uint32_t event_room, move_room, interval_room, scratch_room, redirect_room;
    bool *on_host; /* per buffer: at the beginning of the step */
    bool anew;     /* its plan makes all copies out (plan.h) */
    uint64_t replay_ns;
} ebb_schedule_t;

/* How the walk weighs what it may give up. */
typedef struct ebb_search_params {
    uint32_t target_chunks;
    bool offload, recompute;
    bool anew; /* no copies are spared (plan.h) */
    uint64_t most_replay_ns; /* replays that take longer are not worth it */
    double chain;            /* how much of the replays of missing inputs counts into the price of a drop */
    double idle;             /* exponent of the time until the next use in the score */
    const double *more_to_drop, *more_to_offload; /* per buffer: ns on top of the price; NULL: none */
    ebb_fates_t *fates;    /* a strategy, which says what is given up and when; NULL: none does */
    ebb_fates_t *advice;   /* a strategy: what it drops is given up first where memory runs out; NULL: none */
    uint32_t fates_chunks; /* that the dynamic program may take, if it is one of these */
    bool fixed;            /* `fates` is a fixed strategy: it may replay as often as it takes */
    uint32_t exchange;     /* states that are gone through for better replays (exchange.c); 0: replays stay */
    uint32_t exchange_chunks; /* within which those must be */
    bool loosen; /* what is only replayed in passing may leave its place, if places do not fit together */
} ebb_search_params_t;

/* The step under a limit of target_chunks, in one walk (walk.c). It may use more than that where it
 * finds nothing to give up; the overlay tells. False: given up (more replays than are worth it), or no
 * memory. */
bool ebb_schedule_walk(ebb_schedule_t *schedule, const ebb_model_t *model, const ebb_search_params_t *params);

/* Takes copies back whose memory is not needed under `limit` chunks (copies.c). False: no memory. */
bool ebb_schedule_keep(ebb_schedule_t *schedule, const ebb_model_t *model, uint32_t limit);

/* Longer intervals for what is copied, where less than `limit` chunks are taken (copies.c): a copy out that goes over the
 * step's end gets a further interval, a tail. False: no memory. */
bool ebb_schedule_relax(ebb_schedule_t *schedule, const ebb_model_t *model, uint32_t limit);

/* What only replays touch, from one that makes it until it is discarded, gets a scratch place of its own instead of its buffer's: a place
 * with fewer intervals is easier to lay (loosen.c). How many did; EBB_NONE: no memory, and the schedule is of no use. */
uint32_t ebb_schedule_loosen(ebb_schedule_t *schedule, const ebb_model_t *model);

/* Replays anew, where fewer do, or where the schedule takes more than `limit` chunks (exchange.c): windows of a few dozen operations, between
 * copies, are searched exactly (window.c), as far as `states` go. Of a schedule as it was walked. How many windows became others;
 * EBB_NONE: no memory, and the schedule is of no use. */
uint32_t ebb_schedule_exchange(ebb_schedule_t *schedule, const ebb_model_t *model, uint32_t limit,
                               uint32_t states);

/* Chunks for every place (overlay.c). */
typedef struct ebb_overlay {
    uint32_t *first, *chunk; /* place i's are chunk[first[i]] .. chunk[first[i + 1] - 1] */
    uint32_t chunk_count;
} ebb_overlay_t;

/* Intervals by the positions at which they begin, those that begin together by their numbers. The caller's; NULL: no memory. */
uint32_t *ebb_schedule_by_begin(const ebb_schedule_t *schedule);
/* Chunks that are resident, by position, and 0 at the end. The caller's; NULL: no memory. */
uint32_t *ebb_schedule_profile(const ebb_schedule_t *schedule, const ebb_model_t *model);
/* The most chunks that are resident at once; EBB_NONE: no memory. */
uint32_t ebb_schedule_peak(const ebb_schedule_t *schedule, const ebb_model_t *model);
/* So many chunks are enough: no work is spent on less. False: no memory, or a boundary's chunks do not agree with the schedule. */
bool ebb_overlay_make(ebb_overlay_t *overlay, const ebb_schedule_t *schedule, const ebb_model_t *model,
                      uint32_t enough);
/* Lays the places anew, on fewer chunks if it can, as long as it takes more than `enough` and more than are resident at once (repair.c). */
void ebb_overlay_repair(ebb_overlay_t *overlay, const ebb_schedule_t *schedule, const ebb_model_t *model,
                        uint32_t enough);
void ebb_overlay_delete(ebb_overlay_t *overlay);

/* Where there are several streams: which waits for which, as bits. */
typedef struct ebb_order {
    uint32_t *after, *joiners; /* per move: of copies */
    uint32_t *events; /* per event: a replay's `after`, or what the operation's stream has to wait for */
} ebb_ordering_t;

/* Per interval: the streams whose events touch it. False: no memory. */
bool ebb_schedule_streams(uint32_t *streams, const ebb_schedule_t *schedule, const ebb_model_t *model);
/* Fills in `after` and `events`; `joiners` are given, and where each move is joined: an operation, or from operation_count on one
 * of the next step (order.c). False: no memory. */
bool ebb_schedule_order(ebb_ordering_t *order, const ebb_schedule_t *schedule, const ebb_overlay_t *overlay,
                        const ebb_model_t *model, const uint64_t *join_key);

/* The plan with waits and joins (emit.c), without a predicted time. NULL: no memory. */
ebb_plan_t *ebb_schedule_emit(const ebb_schedule_t *schedule, const ebb_overlay_t *overlay,
                              const ebb_model_t *model);

void ebb_schedule_delete(ebb_schedule_t *schedule);

/* For qsort: keys of 64 bits, the smallest first. */
static inline int ebb_by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Where an event finds a buffer. */
static inline uint32_t ebb_event_place(const ebb_schedule_t *s, const ebb_event_t *event, uint32_t buffer)
{
    for (uint32_t i = event->first_redirect; i < event->first_redirect + event->redirect_count; i++)
        if (s->redirect[i].buffer == buffer)
            return s->redirect[i].place;
    return buffer;
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

/* ---- exchange ----
 *
 * Better replays for a schedule: shared by exchange.c, which goes from window to window and says what is in each, and splice.c, which puts
 * in what the search has found.
 */

/* Owns its arrays. */
typedef struct ebb_exchange {
    ebb_schedule_t *schedule;
    const ebb_model_t *model;
    uint32_t limit, states;
    bool *barrier;      /* per operation: a copy begins or ends before it */
    bool *copied;       /* per buffer: it is copied throughout the window, or on the host */
    uint32_t *first_of; /* per operation, and one more: the first event of its point */
    uint32_t *item_of;  /* per buffer: in the window, or EBB_NONE */
    ebb_exchange_window_t window;
    uint32_t begin, end;               /* operations of the window */
    uint32_t buffer[EBB_WINDOW_ITEMS]; /* per item */
    /* Per item: its interval at the beginning of the window, at its end; EBB_NONE. */
    uint32_t before[EBB_WINDOW_ITEMS], behind[EBB_WINDOW_ITEMS];
    bool failed;
} ebb_exchange_t;

/* Whether a position is in the window. */
static inline bool ebb_exchange_is_in(const ebb_exchange_t *x, uint32_t position)
{
    return position >= x->first_of[x->begin] && position < x->first_of[x->end];
}

/* Of a buffer's item; 0: it is none. */
static inline uint64_t ebb_exchange_bit(const ebb_exchange_t *x, uint32_t buffer)
{
    return x->item_of[buffer] == EBB_NONE ? 0 : UINT64_C(1) << x->item_of[buffer];
}

/* The window's steps in the place of what was there. `failed`: no memory. */
void ebb_exchange_put_in(ebb_exchange_t *exchange);
/* Scratch places that nothing is in any more go. */
void ebb_exchange_drop_scratch(ebb_exchange_t *exchange);

/* ---- walk ----
 *
 * The walk's state, shared by its files: walk.c goes from operation to operation,
 * giveup.c finds memory, link.c knows what must come back when, rank.c keeps the buffers in the order of what that costs, rebuild.c brings back what was given up, link.c keeps the
 * link's calendar.
 */

enum { EBB_LINK_SLOTS = 256 };

/* One direction of the link over one step: how much of it is still free. */
typedef struct ebb_calendar {
    double slot_ns, room[EBB_LINK_SLOTS], before[EBB_LINK_SLOTS + 1]; /* before: free time up to each slot */
} ebb_calendar_t;

void ebb_calendar_clear(ebb_calendar_t *calendar, double step_ns);
/* Free time between two moments of the step. */
double ebb_calendar_free(const ebb_calendar_t *calendar, double from, double to);
/* Takes the first free time after `from`, going on in the next step. Returns when it ends, beyond the step's end for the next. */
double ebb_calendar_take_after(ebb_calendar_t *calendar, double from, double ns);
/* Takes the last free time before `deadline`; returns when it begins, 0 if that would be in the step before.
 */
double ebb_calendar_take_before(ebb_calendar_t *calendar, double deadline, double ns);

/* A fetch that should begin at a moment; `booking`: the buffer state's then, else it is void. */
typedef struct ebb_awaited {
    double ns;
    uint32_t buffer, booking;
} ebb_awaited_t;

/* What a buffer's place holds at the moment. */
typedef struct ebb_buffer_state {
    uint32_t content;        /* resident, or EBB_NONE */
    uint32_t program;        /* the version that the program has made last */
    uint32_t host;           /* the host block's content, or EBB_NONE */
    uint32_t next_operation; /* of the next use, or EBB_NONE */
    uint32_t next;           /* index of the next use, from the buffer's first_use */
    uint32_t first, last;    /* positions of the interval; last: EBB_NONE, not touched in this step */
    uint32_t begin;          /* position of the interval's first touch */
    uint32_t fetch;          /* the move that began the interval, or EBB_NONE */
    uint32_t evict;          /* position at which its copy out is issued, once that is booked */
    uint32_t pins, index;    /* index: in walk->resident */
    uint32_t away;           /* index in walk->away, or EBB_NONE */
    uint32_t booking;        /* counts the fetches that were booked or made */
    double score;            /* of giving it up, as of some moment since it was touched */
    uint32_t rank;           /* in walk->ranking, or EBB_NONE */
    uint32_t touched;        /* the point at which it was last */
    double out_by_ns;        /* when it can have been copied out without a wait, as of when it was scored */
    uint32_t due, next_due;  /* the point at which it is scored again, or EBB_NONE; list of that point's */
    ebb_fate_t fate;         /* how, if at all */
    double fetch_ns;         /* when its fetch should begin */
    bool fresh;              /* fetched and not used yet */
    bool waits, listed;      /* to be ranked when a victim is looked for; in walk->waiting */
    bool dead;               /* freed */
    bool has_block;          /* counted in host_bytes */
} ebb_buffer_state_t;

typedef struct ebb_planner_walk {
    const ebb_model_t *model;
    const ebb_search_params_t *params;
    ebb_schedule_t *schedule;
    ebb_buffer_state_t *state;
    uint32_t *resident, *away, *death; /* death: all buffers, by the point at which they are freed */
    uint32_t *owner; /* per chunk of the boundary: the resident buffer whose place it is part of, EBB_NONE */
    uint32_t resident_count, away_count; /* away: those whose fetch should begin now */
    ebb_awaited_t *awaited;              /* heap: fetches that should begin later, the next one first */
    uint32_t awaited_count, awaited_room;
    uint32_t *ranking,
        rank_count;    /* heap: residents that can be given up, the one with the lowest score first */
    uint32_t *due;     /* per point: the first buffer that is scored again then, or EBB_NONE */
    uint32_t next_due; /* the first point whose list has not been gone through */
    uint32_t *waiting, waiting_count; /* what has been touched or freed since a victim was looked for last */
    uint32_t searches;                /* that went through everything and may still be done */
    uint32_t *position_of;            /* per operation before the one that is being prepared */
    uint32_t *seen, seen_stamp;       /* per operation, for the price of a chain */
    ebb_redirect_t *redirect;         /* stack: of the replays being prepared */
    uint32_t redirect_count, redirect_room;
    ebb_calendar_t out, in;
    uint32_t point;          /* the operation that is being prepared */
    uint32_t last_operation; /* position of the operation before it; EBB_NONE at the first */
    uint32_t used_chunks, replays, depth;
    uint64_t host_bytes;
    bool replaying; /* memory is being found for a replay, not for the operation itself */
    bool again;     /* a wrap-around gap was given up after its buffer's first use: walk again */
    bool may_wrap;
    bool failed;
} ebb_planner_walk_t;

static inline uint32_t ebb_planner_position(const ebb_planner_walk_t *w)
{
    return w->schedule->event_count;
}

/* The first of the operations from `low` up to `high` that begins at a moment or later, on the step's clock without waits; `high`:
 * none does. */
static inline uint32_t ebb_planner_operation_at(const ebb_planner_walk_t *w, uint32_t low, uint32_t high,
                                                double ns)
{
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if ((double)w->model->begin_ns[middle] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The next use of a buffer in this step, or NULL. */
static inline const ebb_use_t *ebb_planner_next(const ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_model_buffer_t *b = &w->model->buffer[buffer];
    uint32_t next = w->state[buffer].next;
    return next < b->use_count ? &w->model->use[b->first_use + next] : NULL;
}

/* Whether what the buffer holds is needed again, in this step or the next. */
static inline bool ebb_planner_needed(const ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_use_t *next = ebb_planner_next(w, buffer);
    return next ? next->mode != EBB_REPLACES : w->model->buffer[buffer].persistent;
}

/* Whether it must not be lost: it is what the program left in a buffer that is alive. It may not be needed by
 * this trace, but a program that leaves the trace may read it. Nor what is another one's place in the next step. */
static inline bool ebb_planner_protected(const ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_buffer_state_t *s = &w->state[buffer];
    return w->model->buffer[buffer].rotates ||
           (!s->dead && s->content == s->program && w->model->content[s->content].until);
}

/* giveup.c. Room for `chunks` more, as far as there is something to give up; only things that are
 * needed after operation `beyond`. */
void ebb_planner_make_room(ebb_planner_walk_t *w, uint32_t chunks, uint32_t beyond);
/* What lies where a boundary puts this buffer is given up. It fails if that is needed now. */
void ebb_planner_make_way(ebb_planner_walk_t *w, uint32_t buffer);
/* Whether nothing does. */
bool ebb_planner_has_way(const ebb_planner_walk_t *w, uint32_t buffer);
/* What a fixed strategy does not hold is given up: of one buffer that has been touched, or of all. */
void ebb_planner_let_go(ebb_planner_walk_t *w, uint32_t buffer);
void ebb_planner_let_all_go(ebb_planner_walk_t *w);
/* Ends the interval of a buffer now, that is: just after its last touch. */
void ebb_planner_end_interval(ebb_planner_walk_t *w, uint32_t buffer, ebb_fate_t fate);

/* The score of giving up a resident buffer, and how, into its state: the lower the sooner. Infinity: it can't be. */
void ebb_planner_score(ebb_planner_walk_t *w, uint32_t buffer);

/* link.c. The fetch of a buffer is to begin at fetch_ns of its state. */
void ebb_planner_await(ebb_planner_walk_t *w, uint32_t buffer);
/* It is being fetched, or need not be. */
void ebb_planner_not_away(ebb_planner_walk_t *w, uint32_t buffer);
/* The buffer that is needed next of those whose fetch should begin now, or EBB_NONE. */
uint32_t ebb_planner_due(ebb_planner_walk_t *w);

/* rank.c. A resident buffer has been touched or freed: it is scored, and put where it belongs, when a victim is wanted. */
void ebb_planner_rank(ebb_planner_walk_t *w, uint32_t buffer);
void ebb_planner_unrank(ebb_planner_walk_t *w, uint32_t buffer);
/* What can best be given up of those that are needed after operation `beyond`; EBB_NONE: nothing. */
uint32_t ebb_planner_find_victim(ebb_planner_walk_t *w, uint32_t beyond);

/* rebuild.c. Begins an interval with what is to be written there; makes room. */
void ebb_planner_admit(ebb_planner_walk_t *w, uint32_t buffer, uint32_t content, uint32_t first);
/* Whether the host's copy of a buffer may be used again. */
bool ebb_planner_may_spare(const ebb_planner_walk_t *w, uint32_t buffer);
/* Fetches a buffer; issued before the event at `position`. */
void ebb_planner_fetch(ebb_planner_walk_t *w, uint32_t buffer, uint32_t position);
/* Makes a content of a buffer resident by replays. */
void ebb_planner_rebuild(ebb_planner_walk_t *w, uint32_t content);

void ebb_planner_touch(ebb_planner_walk_t *w, uint32_t buffer, uint32_t position);
void ebb_planner_move(ebb_planner_walk_t *w, ebb_action_kind_t kind, uint32_t place, uint32_t position);
void ebb_planner_add_interval(ebb_planner_walk_t *w, ebb_interval_t interval);

/* ---- candidates ----
 *
 * What all planners share: a model of the trace, schedules by the walk, plans of them, and the front of those that
 * nothing beats: from the smallest to the fastest.
 */

typedef struct ebb_candidate {
    uint32_t chunks;
    uint64_t ns;
    ebb_plan_t *plan; /* owned */
} ebb_candidate_t;

/* By chunks; none is slower than one before it. Owns its array and the plans in it. */
typedef struct ebb_front {
    ebb_candidate_t *candidate;
    uint32_t count, room;
} ebb_front_t;

typedef struct ebb_candidates {
    ebb_model_t model;
    ebb_schedule_t schedule;
    uint32_t limit;    /* chunks */
    uint32_t least;    /* plans that take fewer chunks take as many as these */
    uint64_t floor_ns; /* plans that are faster are not taken */
    uint32_t reached;  /* the plan that is chosen takes as many chunks */
    ebb_front_t front;
    uint32_t tries;  /* walks with their plans */
    uint32_t chunks; /* that the last plan takes; 0: there is none */
    bool no_memory;
} ebb_candidates_t;

/* False: the trace cannot be planned, or not with this request; `why` says why, and there is nothing to end. Borrows both
 * until the end. */
bool ebb_candidates_begin(ebb_candidates_t *candidates, const ebb_trace_t *trace,
                          const ebb_plan_request_t *request, char *why, size_t why_bytes);
/* The best so far, for whoever waits (ebb_plan_request_t.found). */
void ebb_candidates_tell(const ebb_candidates_t *candidates);
/* The best, which is the caller's, or NULL: `why` says why. */
ebb_plan_t *ebb_candidates_end(ebb_candidates_t *candidates, char *why, size_t why_bytes);

/* The fastest that takes no more chunks, of equally fast ones the largest, which moves least; NULL: there is none. Valid until the next is tried. */
const ebb_candidate_t *ebb_front_best(const ebb_front_t *front, uint32_t chunks);
const ebb_candidate_t *ebb_candidates_best(const ebb_candidates_t *candidates, uint32_t chunks);
/* Empties the front, for a search that knows nothing of what others have found; what it was, which is to be joined with what comes of
 * that. */
ebb_front_t ebb_candidates_apart(ebb_candidates_t *candidates);
void ebb_candidates_join(ebb_candidates_t *candidates, ebb_front_t *others);

/* Nothing can be faster than what there is for so many chunks, or the plan is not wanted any more. */
bool ebb_candidates_done(const ebb_candidates_t *candidates, uint32_t chunks);

/* What replays may take for a plan to be faster than this one; NULL: anything. */
uint64_t ebb_candidates_slack(const ebb_candidates_t *candidates, const ebb_candidate_t *incumbent);

/* Walks with these parameters, and offers what comes of it. What came of it at best, in ns; a plan that takes more than `target` chunks
 * counts as slower by as much. UINT64_MAX: nothing came of it. */
uint64_t ebb_candidates_try(ebb_candidates_t *candidates, const ebb_search_params_t *params, uint32_t target);

/* Chunks that are in use at once if nothing is given up. 0: no memory. */
uint32_t ebb_candidates_keep_peak(ebb_candidates_t *candidates);

/* A fixed strategy (internal.h), as it is: its copies in early, or as late as they must be. Given up where its replays alone make it
 * slower than a candidate that fits. */
void ebb_candidates_try_strategy(ebb_candidates_t *candidates, const ebb_policy_t *policy);

/* ---- local search ----
 *
 * Local search: from one schedule to a better one, in the prices that the walk decides by.
 */

/* Prices that have proven good, from one target to the next: what is dear to give up under one limit is so under another that is
 * not far from it. Owns its arrays; borrows the candidates. */
typedef struct ebb_improver {
    ebb_candidates_t *candidates;
    uint32_t buffers;
    double *drop, *offload;           /* per buffer: ns on top of the price, being tried */
    double *best_drop, *best_offload; /* of the best so far */
    uint64_t chance;
    uint32_t round;
} ebb_improver_t;

/* All prices zero, at the beginning and again. False: no memory; there is nothing to end then. */
bool ebb_improver_begin(ebb_improver_t *improver, ebb_candidates_t *candidates);
void ebb_improver_reset(ebb_improver_t *improver);
void ebb_improver_end(ebb_improver_t *improver);

/* Walks `walks` times more with these parameters, which came to `ns` without prices, for plans that fit `chunks`: first with those that are known; then, from the best
 * so far each time, with what the simulator says was wrong about it: what compute waited for becomes dearer to move, what was
 * replayed again and again dearer to drop; and a little of everything by chance. What comes of it goes to the candidates.
 * Deterministic. The parameters of the best walk, with the improver's prices, until it is asked again. */
ebb_search_params_t ebb_improve(ebb_improver_t *improver, const ebb_search_params_t *params, uint32_t chunks,
                                uint64_t ns, uint32_t walks);

#endif

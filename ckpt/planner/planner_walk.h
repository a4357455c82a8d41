/* planner_walk.h: the walk's state, shared by its files: planner_walk.c goes from operation to operation,
 * planner_giveup.c finds memory, planner_away.c knows what must come back when, planner_rank.c keeps the buffers in the order of what that costs, planner_rebuild.c brings back what was given up, planner_link.c keeps the
 * link's calendar. */
#ifndef EBB_PLANNER_WALK_H
#define EBB_PLANNER_WALK_H

#include "ckpt/planner/planner_schedule.h"

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

/* A fetch that should begin at a moment; `booking`: the seat's then, else it is void. */
typedef struct ebb_awaited {
    double ns;
    uint32_t buffer, booking;
} ebb_awaited_t;

/* What a buffer's place holds at the moment. */
typedef struct ebb_seat {
    uint32_t content;        /* resident, or EBB_NONE */
    uint32_t program;        /* the version that the program has made last */
    uint32_t host;           /* the host block's content, or EBB_NONE */
    uint32_t next_operation; /* of the next use, or EBB_NONE */
    uint32_t next;           /* index of the next use, from the buffer's first_use */
    uint32_t first, last;    /* positions of the stay; last: EBB_NONE, not touched in this step */
    uint32_t begin;          /* position of the stay's first touch */
    uint32_t fetch;          /* the move that began the stay, or EBB_NONE */
    uint32_t evict;          /* position at which its copy out is issued, once that is booked */
    uint32_t pins, index;    /* index: in walk->resident */
    uint32_t away;           /* index in walk->away, or EBB_NONE */
    uint32_t booking;        /* counts the fetches that were booked or made */
    double score;            /* of giving it up, as of some moment since it was touched */
    uint32_t rank;           /* in walk->ranking, or EBB_NONE */
    uint32_t touched;        /* the point at which it was last */
    double out_by_ns; /* when it can have been copied out without anybody waiting, as of when it was scored */
    uint32_t due, next_due; /* the point at which it is scored again, or EBB_NONE; list of that point's */
    ebb_fate_t fate;        /* how, if at all */
    double fetch_ns;        /* when its fetch should begin */
    bool fresh;             /* fetched and not used yet */
    bool waits, listed;     /* to be ranked when a victim is looked for; in walk->waiting */
    bool dead;              /* freed */
    bool has_block;         /* counted in host_bytes */
} ebb_seat_t;

typedef struct ebb_planner_walk {
    const ebb_model_t *model;
    const ebb_taste_t *taste;
    ebb_schedule_t *schedule;
    ebb_seat_t *seat;
    uint32_t *resident, *away, *death;   /* death: all buffers, by the point at which they are freed */
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
    uint32_t next = w->seat[buffer].next;
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
    const ebb_seat_t *s = &w->seat[buffer];
    return w->model->buffer[buffer].rotates ||
           (!s->dead && s->content == s->program && w->model->content[s->content].until);
}

/* planner_giveup.c. Room for `chunks` more, as far as there is something to give up; only things that are
 * needed after operation `beyond`. */
void ebb_planner_make_room(ebb_planner_walk_t *w, uint32_t chunks, uint32_t beyond);
/* What a fixed strategy does not hold is given up: of one buffer that has been touched, or of all. */
void ebb_planner_let_go(ebb_planner_walk_t *w, uint32_t buffer);
void ebb_planner_let_all_go(ebb_planner_walk_t *w);
/* Ends the stay of a buffer now, that is: just after its last touch. */
void ebb_planner_end_stay(ebb_planner_walk_t *w, uint32_t buffer, ebb_fate_t fate);

/* The score of giving up a resident buffer, and how, into its seat: the lower the sooner. Infinity: it can't be. */
void ebb_planner_score(ebb_planner_walk_t *w, uint32_t buffer);

/* planner_away.c. The fetch of a buffer is to begin at fetch_ns of its seat. */
void ebb_planner_await(ebb_planner_walk_t *w, uint32_t buffer);
/* It is being fetched, or need not be. */
void ebb_planner_not_away(ebb_planner_walk_t *w, uint32_t buffer);
/* The buffer that is needed next of those whose fetch should begin now, or EBB_NONE. */
uint32_t ebb_planner_due(ebb_planner_walk_t *w);

/* planner_rank.c. A resident buffer has been touched or freed: it is scored, and put where it belongs, when a victim is wanted. */
void ebb_planner_rank(ebb_planner_walk_t *w, uint32_t buffer);
void ebb_planner_unrank(ebb_planner_walk_t *w, uint32_t buffer);
/* Who can best be given up of those that are needed after operation `beyond`; EBB_NONE: nobody. */
uint32_t ebb_planner_find_victim(ebb_planner_walk_t *w, uint32_t beyond);

/* planner_rebuild.c. Begins a stay with what is to be written there; makes room. */
void ebb_planner_seat(ebb_planner_walk_t *w, uint32_t buffer, uint32_t content, uint32_t first);
/* Fetches a buffer; issued before the event at `position`. */
void ebb_planner_fetch(ebb_planner_walk_t *w, uint32_t buffer, uint32_t position);
/* Makes a content of a buffer resident by replays. */
void ebb_planner_rebuild(ebb_planner_walk_t *w, uint32_t content);

void ebb_planner_touch(ebb_planner_walk_t *w, uint32_t buffer, uint32_t position);
void ebb_planner_move(ebb_planner_walk_t *w, ebb_action_kind_t kind, uint32_t place, uint32_t position);
void ebb_planner_stay(ebb_planner_walk_t *w, ebb_stay_t stay);

#endif

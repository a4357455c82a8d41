/* internal.h: what the files of the checker share; see checker.h for what it proves.
 *
 * checker.c    what needs no walk: shapes, indices, lifetimes, budgets, the small region
 * contents.c   what contents the trace has, where they are when a step begins and ends, and what could be rebuilt
 * walk.c       two steps, operation by operation and action by action: who may touch which chunk when
 *
 * Contents are numbered through: buffer b has contents first_content[b] .. first_content[b + 1] - 1, one for
 * each version in a step. The first is what the buffer holds when the step begins; of one born in the step it
 * is what happens to be there: `undefined`.
 */
#ifndef EBB_CHECKER_INTERNAL_H
#define EBB_CHECKER_INTERNAL_H

#include "ckpt/checker/checker.h"

/* What one operation does to one buffer, all its accesses taken together. */
typedef struct touch {
    uint32_t buffer;
    ebb_mode_t mode;
    uint32_t before, after; /* contents; equal if it only reads */
} touch_t;

/* Lists by key in one array: those of key k are item[first[k]] .. item[first[k + 1] - 1]. */
typedef struct lists {
    uint32_t *first, *item;
} lists_t;

typedef struct facts {
    const ebb_trace_t *trace; /* borrowed */
    touch_t *touch;
    uint32_t *first_touch;   /* [operations + 1] */
    uint32_t *first_content; /* [buffers + 1] */
    uint32_t *owner;         /* [contents]: its buffer */
    uint32_t *producer;      /* [contents]: operation, EBB_NONE of first ones */
    lists_t readers;         /* by content: operations that read or update it, ascending */
    lists_t births, deaths;  /* by point: buffers; deaths as the plan puts them off */
    uint32_t *whose;         /* [buffers]: whose place of the step before is its place in this one */
    uint32_t content_count;
    uint32_t period; /* steps until all is where it was */
} facts_t;

/* False: no memory. The trace must have passed ebb_trace_check; its rings, and the plan's places, checker.c. */
bool ebb_facts_make(facts_t *facts, const ebb_trace_t *trace, const ebb_plan_t *plan);
void ebb_facts_delete(facts_t *facts);

static inline bool is_large(const ebb_trace_t *t, uint32_t buffer)
{
    return t->buffer[buffer].bytes > t->chunk_bytes / 2;
}

static inline bool is_persistent(const ebb_trace_t *t, uint32_t buffer)
{
    return t->buffer[buffer].born == EBB_NONE;
}

static inline bool is_undefined(const facts_t *f, uint32_t content)
{
    uint32_t b = f->owner[content];
    return content == f->first_content[b] && !is_persistent(f->trace, b);
}

/* ---- streams ----
 *
 * The program's come first, by their numbers; out and in behind them. A `reach` is how far each stream has got, as far as
 * another one knows: [width] numbers of events, which count from 1 on their stream.
 *
 * A cell is a chunk, or a small buffer's home: cells chunk_count + place. What has been done to it is kept in four reaches: by the
 * program's operations on the buffer of the place that owns the cell, and by everybody else. The former are in order among
 * themselves, by whatever the program does: also by what a trace does not show (waits of the host, the default stream's rules). */
enum { OWN_WRITES, OTHER_WRITES, OWN_READS, OTHER_READS, CELL_REACHES };

/* A place and its host block. */
typedef struct holding {
    uint32_t content, host_content;         /* or EBB_NONE */
    uint32_t host_written_at, host_read_at; /* by OUT, by IN */
    bool given_up;                          /* discarded, not made again since */
    bool noted;                             /* in walk->written */
} holding_t;

typedef struct walk {
    const facts_t *facts;
    const ebb_trace_t *trace;
    const ebb_plan_t *plan;
    char *why;
    size_t why_bytes;

    uint32_t *at, *before; /* [buffers]: its place in this step, in the one before */
    uint32_t *of;          /* [buffers]: whose place it is in this step */
    holding_t *place;      /* [places] */
    uint32_t streams;      /* the program's; out is the next one, and then in */
    uint32_t width;        /* all */
    uint32_t *owner;       /* [cells]: place that wrote it last; EBB_NONE: none */
    uint32_t *cell;        /* [cells][CELL_REACHES][width] */
    uint32_t *now;         /* [width][width]: what each stream knows */
    uint32_t *resident;    /* [width]: the last resident operation on each stream, */
    uint32_t *handed;      /* [width]: and the last event that took a chunk from another place */
    uint32_t *done; /* [actions][width]: what a wait for its last instance makes known; zero: none yet */
    uint32_t
        *event; /* [moments][width]: by the number of the trace's event, the same of this step's record */
    uint32_t next_sync;
    uint32_t *current; /* [buffers]: content, by the program */
    bool *alive;       /* [buffers] */
    lists_t joins;     /* by operation: actions */

    /* What could be rebuilt (contents.c). */
    bool *recoverable; /* [contents] */
    uint32_t
        *lacking; /* [operations before `issued`]: inputs that are neither recoverable nor can be rebuilt */
    uint32_t *changed; /* contents whose being recoverable may have changed */
    uint32_t *stack;   /* contents */
    uint32_t changed_count, changed_room, stack_room;
    bool unnoted;    /* there was no memory to note one */
    uint32_t issued; /* operations of this step */

    uint32_t *written; /* places that actions of this point wrote */
    uint32_t written_count;
    uint32_t *redirect; /* [buffers]: place, EBB_NONE: its own */

    /* Where the walk is, for `why`. */
    uint32_t step, point, action; /* action: EBB_NONE: at the operation itself */
} walk_t;

/* Steps that are walked: MOST_STEPS at most, else the trace is refused. */
enum { MOST_STEPS = 32 };
static inline uint32_t steps_to_walk(const facts_t *f)
{
    return 2 * f->period;
}

/* Where a place of the plan's list is in this step: a buffer's goes round with it. */
static inline uint32_t place_now(const walk_t *w, uint32_t place)
{
    return place < w->plan->buffer_count ? w->at[place] : place;
}

/* Walks all steps. */
bool ebb_check_walk(const facts_t *facts, const ebb_plan_t *plan, char *why, size_t why_bytes);

/* Always false; leaves in `why` the fault's word, where the walk is, and what is wrong. */
bool ebb_check_fails(walk_t *walk, ebb_fault_t fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline uint32_t out_of(const walk_t *w)
{
    return w->streams;
}

static inline uint32_t in_of(const walk_t *w)
{
    return w->streams + 1;
}

static inline uint32_t *now_of(const walk_t *w, uint32_t stream)
{
    return w->now + (size_t)stream * w->width;
}

/* ---- contents.c ---- */

/* Where everything is when the first step begins; false: two buffers in one chunk. */
bool ebb_contents_begin(walk_t *walk);
/* A step begins: what was there when the one before ended has other numbers, and rings have gone on. */
void ebb_contents_begin_step(walk_t *walk);
/* What dies and is born at this point. */
bool ebb_contents_free_and_allocate(walk_t *walk);
/* The step has ended as the next one begins. */
bool ebb_contents_check_end(walk_t *walk);
/* The place, or its host block, holds nothing any more. */
void ebb_contents_drop(walk_t *walk, uint32_t place);
void ebb_contents_drop_host(walk_t *walk, uint32_t place);

/* Where the content can be had has changed, or will have when the event is over. No memory: the next check fails. */
void ebb_recovery_note(walk_t *walk, uint32_t content);
/* The event is over: what was lost must be dead, or given up and rebuildable. */
bool ebb_recovery_check(walk_t *walk);
/* Operation walk->issued is issued now; to be called before anything that it does. */
void ebb_recovery_issue(walk_t *walk);

#endif

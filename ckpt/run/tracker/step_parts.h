/* step_parts.h: the parts of the step finder (step.h), for step*.c only: the past of a lane, comparing it with a word,
 * looking for a period (step_search.c), following what is known (step_follow.c and what is in step_follow.h).
 *
 * Positions in a lane count its operations from 0; the newest is past.count - 1. A function that fails for want of
 * memory leaves everything as if it had found nothing.
 */
#ifndef EBB_STEP_PARTS_H
#define EBB_STEP_PARTS_H

#include "ckpt/run/tracker/step.h"

enum {
    SHORTEST = 8, /* operations of a step at least */
    REACH = 16,   /* so many unexpected operations in a row may be extra, so many of the word missing */
    TRIPLE = 3 /* after something unexpected, so many in a row that fit put the comparison back on its way */
};

typedef struct entry {
    uint64_t coarse, fine;
    uint64_t triple; /* of this and the two coarse signatures before */
    uint64_t live;   /* the fewest bytes since the operation before in the lane */
    uint8_t weight;  /* in the past: how surprising it is, about in bits */
    uint8_t missed;  /* in a word: how often it was left out */
    bool turn;
} entry_t;

/* ---- the past (step_past.c) ---- */

typedef struct past {
    entry_t *entry; /* a ring of `room`, a power of two */
    size_t room, count;
} past_t;

static inline entry_t *at(const past_t *p, size_t position)
{
    return &p->entry[position & (p->room - 1)];
}

static inline size_t oldest(const past_t *p)
{
    return p->count > p->room ? p->count - p->room : 0;
}

void past_push(past_t *p, const ebb_step_operation_t *op, uint64_t live);
/* Twice the room. False: no memory. */
bool past_grow(past_t *p);

/* Fewest and most of the live bytes in [from, to). */
typedef struct extent {
    uint64_t fewest, most;
} extent_t;
extent_t past_extent(const past_t *p, size_t from, size_t to);

uint64_t triple_of(uint64_t a, uint64_t b, uint64_t c);

/* ---- comparing (step_past.c) ---- */

/* What is compared with: a word, or the past itself. */
typedef struct view {
    const entry_t *entry;
    size_t mask, end; /* entry[i & mask] for i < end */
} view_t;

typedef struct track {
    size_t next;   /* of the view, to come */
    unsigned open; /* the last operations that are not explained yet */
    uint32_t extras, missing, matched;
} track_t;

typedef enum moved {
    FITS,  /* one more */
    DOUBT, /* one more to be explained */
    RESUMED, /* `matched_now` fit, behind `extras_now` extra ones and `missing_now` missing ones; nothing is open */
    OFF /* too much that does not fit */
} moved_t;

typedef struct resumed {
    unsigned matched_now, extras_now, missing_now;
} resumed_t;

/* Takes the operation at `position`, all before it having been taken. */
moved_t track_take(track_t *t, const view_t *v, const past_t *p, size_t position, resumed_t *out);

/* ---- looking for a period (step_search.c) ---- */

typedef struct search search_t;
search_t *search_new(void);
void search_delete(search_t *s);
/* Forgets what is under trial. */
void search_reset(search_t *s);

/* Whether a period that has passed all else is wanted: [from, to) is one; exact: it repeats without a difference. */
typedef bool (*wanted_fn)(const void *context, size_t from, size_t to, bool exact);

/* Takes the newest operation. The period of a step, or 0. */
size_t search_take(search_t *s, past_t *p, wanted_fn wanted, const void *context);

/* ---- following (step_follow.c, step_hypothesis.c, step_stretch.c) ---- */

typedef struct follow follow_t;
follow_t *follow_new(uint64_t *serials);
void follow_delete(follow_t *f);

/* The last `period` operations are a step: a new kind. False: no memory. */
bool follow_adopt(follow_t *f, const past_t *p, size_t period);
/* Takes the newest operation. */
ebb_step_event_t follow_take(follow_t *f, const past_t *p);

/* Whether to look for periods, and whether one that was found should become a kind. */
bool follow_is_searching(const follow_t *f, const past_t *p);
bool follow_wants(const follow_t *f, const past_t *p, size_t from, size_t to, bool exact);

bool follow_knows(const follow_t *f);
bool follow_has_given_up(const follow_t *f);
int follow_ended(const follow_t *f);
size_t follow_late(const follow_t *f);
int follow_expected(const follow_t *f);
uint32_t follow_possible(const follow_t *f);
size_t follow_position(const follow_t *f);
ebb_step_kind_t follow_kind(const follow_t *f, unsigned kind);
bool follow_check(const follow_t *f);

#endif

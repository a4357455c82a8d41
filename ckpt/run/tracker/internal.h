/* internal.h: what the files of tracker/ share. */
#ifndef EBB_RUN_TRACKER_INTERNAL_H
#define EBB_RUN_TRACKER_INTERNAL_H

#include <stdint.h>

#include "alloc/base/table.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"

/* ---- following a recorded step (match.c, numbers.c) ---- */

/* Wider than REACH, by which the finder compares hashes alone, because words and buffers are compared as well; and more patient than a
 * plan (drive_unplanned.c), for which all streams wait at each extra one: what is lost here is advice, until the next boundary. */
enum {
    EBB_MATCH_LOOK = 64,    /* operations of the recording that are looked at when some were left out */
    EBB_MATCH_STRAYS = 256, /* extra ones in a row; after more nothing is known until the next boundary */
    EBB_MATCH_BEHIND = 8 /* extra ones behind a step that are still its own; and so many of each stream are looked at where it begins */
};

/* A buffer of the program that was allocated in this step, or touched before it was known. */
typedef struct arrival {
    uint64_t generation;
    uint32_t born; /* before which operation; EBB_NONE: it was there */
    bool strayed;  /* an operation that was not recorded has touched it before */
} arrival_t;

/* A buffer of the recording, in this step. */
typedef struct bound {
    uint64_t generation; /* of the buffer that it is; 0: none was seen to be */
    uint64_t bytes;      /* the most so far */
    uint32_t freed;      /* before which operation; EBB_NONE: it was not */
    bool strayed;
} bound_t;

/* What is known of the step under way; the part of it that others see first. */
typedef struct match {
    ebb_tracked_t seen;
    uint32_t *next;                         /* [operations] on the same stream */
    uint32_t first[EBB_RECORD_STREAMS];     /* per stream */
    uint32_t cursor[EBB_RECORD_STREAMS];    /* per stream: the one to come */
    uint32_t candidate[EBB_RECORD_STREAMS]; /* where it goes on if some were left out; EBB_NONE */
    uint32_t candidate_before;              /* of the stream of the operation under way */
    uint32_t allocations, missing, deviations, strays;
    bool ended;               /* what is missing at the end has been counted */
    bound_t *bound;           /* [buffers] */
    ebb_buffer_t **successor; /* [buffers] */
    ebb_table_t arrivals;     /* arrival_t */
    char first_deviation[256];
    char difference[256];
} match_t;

static inline match_t *match_of(ebb_device_t *dev)
{
    return (match_t *)dev->run->tracked;
}

static inline ebb_trace_t *trace_of(const match_t *m)
{
    return m->seen.learned->trace;
}

/* numbers.c: as good as the recorded size: the same, or that of a small buffer with as many tiles, so that all that was learned by tiles holds; any,
 * where steps are of any size. It may be larger: so the trace learns the most. A plan's place cannot (ebb_place_has_room). */
bool ebb_number_is_of_size(const match_t *m, size_t bytes, uint32_t id);
/* Whether the buffer may be the one of this number; it is; it has none any more. */
bool ebb_number_can_bind(const match_t *m, const ebb_buffer_t *b, uint32_t id);
void ebb_number_bind(match_t *m, ebb_buffer_t *b, uint32_t id);
void ebb_number_take(match_t *m, uint32_t id);
/* What the operation touches may be another content behind it. */
void ebb_numbers_stray(match_t *m, const ebb_operation_t *op);
/* What was this in the last step is that in the next; `behind_another`: that was followed to its end. */
void ebb_numbers_turn(match_t *m, bool behind_another);
/* What was allocated behind the last operation is the next step's. */
void ebb_numbers_keep_newest(match_t *m);

/* match.c: all operations of the recording have come. */
bool ebb_match_is_over(const match_t *m);
/* The step is another one from here on; or something in which steps of one kind may differ, if it does not happen too often. */
void ebb_match_differ(match_t *m, const char *what, uint32_t operation, const char *name);
void ebb_match_deviate(match_t *m, const char *what, uint32_t operation, const char *name);

/* The matching of one step after another with a recording, for tracker.c, and for tests; what it shows is in tracker.h. Pure, but for the
 * numbers that buffers get. */

/* From the beginning of a step. False: no host memory, or an empty recording; nothing is open. */
bool ebb_match_open(ebb_device_t *dev, ebb_recording_t *learned);
void ebb_match_close(ebb_device_t *dev);
/* From the middle of a step, where these buffers [buffers] are alive. */
void ebb_match_resume(ebb_device_t *dev, ebb_buffer_t *const *buffer, uint32_t cursor);
/* The next operation is the first one of another step. */
void ebb_match_begin_step(ebb_device_t *dev);
/* Nothing of the step has come. */
bool ebb_match_is_fresh(ebb_device_t *dev);
/* The step is over, and this may be the first operation of the next. */
bool ebb_match_begins(ebb_device_t *dev, const ebb_operation_t *operation);
/* The step is over, and its beginning has no such operation, whatever that touches. */
bool ebb_match_is_behind(ebb_device_t *dev, const ebb_operation_t *operation);
/* What persists gets its number, if it is where it was recorded. */
void ebb_match_find_persistent(ebb_device_t *dev);

/* What the operation is; and then, whether it was issued. */
void ebb_match_operation(ebb_device_t *dev, const ebb_operation_t *operation);
void ebb_match_done(ebb_device_t *dev, const ebb_operation_t *operation, bool issued);
void ebb_match_allocated(ebb_device_t *dev, const ebb_buffer_t *buffer);
void ebb_match_freed(ebb_device_t *dev, ebb_buffer_t *buffer);

/* ---- parts of the step finder ---- */

/* The parts of the step finder (tracker.h), for step*.c only: the past of a stream, comparing it with a signature,
 * looking for a period (step_search.c), following what is known (step_follow.c and what is in internal.h).
 *
 * Positions in a stream count its operations from 0; the newest is past.count - 1. A function that fails for want of
 * memory leaves everything as if it had found nothing. */

enum {
    SHORTEST = 8, /* operations of a step at least */
    REACH = 16,   /* so many unexpected operations in a row may be extra, so many of the signature missing */
    TRIPLE = 3 /* after something unexpected, so many in a row that fit put the comparison back on its way */
};

typedef struct entry {
    uint64_t coarse, fine;
    uint64_t triple;                   /* of this and the two coarse hashes before */
    uint64_t live;                     /* the fewest bytes since the operation before in the stream */
    uint64_t place, born, allocations;       /* ebb_step_operation_t */
    uint64_t number, touched; /* of the program's operations it is this one, and that touched one of its operands last (idle); UINT64_MAX: all are new */
    uint8_t weight;                    /* in the past: how surprising it is, about in bits */
    uint8_t missed;                    /* in a signature: how often it was left out */
    bool input, turn, mark;            /* ebb_step_operation_t */
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

/* The program's operation of this number. mark: it is the stream's first one behind a mark of the program's. */
void past_push(past_t *p, const ebb_step_operation_t *op, uint64_t number, uint64_t live, bool mark);
/* Twice the room. False: no memory. */
bool past_grow(past_t *p);

/* Fewest and most of the live bytes in [from, to). */
typedef struct extent {
    uint64_t fewest, most;
} extent_t;
extent_t past_extent(const past_t *p, size_t from, size_t to);
/* Whether the program says that a step begins there. */
bool past_is_marked(const past_t *p, size_t from, size_t to);

uint64_t triple_of(uint64_t a, uint64_t b, uint64_t c);

/* ---- comparing (step_past.c) ---- */

/* What is compared with: a signature, or the past itself. */
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

enum {
    CANDIDATES = 24,
    FALSE_LOOPS = 16,
    SAMPLES = 4 /* of a loop's triples */
};

/* A distance under trial. */
typedef struct candidate {
    track_t track;            /* the past, compared with itself */
    size_t first;             /* where track.next began */
    size_t whole;             /* where it must be for a whole period */
    size_t try_at;            /* not examined before this operation */
    uint64_t right, wrong;    /* weights */
    uint64_t back, elsewhere; /* operations whose place was the same a period ago; was another */
    bool complete;            /* a whole period could have been a step */
} candidate_t;

typedef struct pair {
    uint64_t key; /* of two operations, one behind the other */
    size_t at;    /* position where they occurred last */
} pair_t;

/* A loop that repeated and ended. Loops are the same if they have most of their least triples in common (A. Broder, "On the
 * resemblance and containment of documents", 1997). */
typedef struct false_loop {
    uint64_t sample[SAMPLES];
    size_t period;
    size_t run; /* operations, the longest time */
} false_loop_t;

typedef struct search {
    ebb_table_t pairs; /* as many as there is past, all that are known in it; emptied when they are more */
    candidate_t candidate[CANDIDATES];
    size_t candidates;
    false_loop_t loop[FALSE_LOOPS];
    size_t loops; /* noted so far */
} search_t; /* zeros: nothing is under trial */

/* Forgets what is under trial. */
void search_reset(search_t *s);

typedef struct follow follow_t;
/* Takes the newest operation. The period of a step that is wanted, and `marked`, has a mark of the program's; or 0. */
size_t search_take(search_t *s, past_t *p, const follow_t *follow, bool marked);

/* ---- following (step_follow.c, step_stretch.c) ---- */

/* The last `period` operations are a step: a new variant. False: no memory. */
bool follow_adopt(follow_t *f, const past_t *p, size_t period);
/* Takes the newest operation. */
ebb_step_event_t follow_take(follow_t *f, const past_t *p);
/* The newest operation has ended a step, of which another one may be the beginning, and so many bytes are left (ebb_step_settle). */
bool follow_settle(follow_t *f, const past_t *p, uint64_t live);

/* Whether to look for periods, and whether one that was found, [from, to), should become a variant; exact: it repeats without a difference. */
bool follow_is_searching(const follow_t *f, const past_t *p);
bool follow_wants(const follow_t *f, const past_t *p, size_t from, size_t to, bool exact);

/* That of the variant under way as far as can be told; NULL: none. */
const struct hypothesis *follow_likeliest(const follow_t *f);
bool follow_check(const follow_t *f);

/* ---- the variants of step that are known (step_variants.c) ---- */

/* The variants of step that are known, for step_*.c only: their signatures, and the order in which they come. */

enum {
    RUNS = 64,
    BEGINNINGS = 8 /* so many triples at the beginning of a signature may show that it begins */
};

typedef struct variant {
    ebb_step_variant_t info; /* serial 0: there is none */
    entry_t *signature;      /* [info.operations], owned */
    uint64_t *sorted;        /* its coarse hashes, owned */
    unsigned telling;        /* bit q: the triple that ends at q stands nowhere else in the signature */
    uint64_t amplitude;      /* of live bytes in it */
    uint64_t fewest;         /* live bytes in the last step of it */
    bool from_stretch;       /* it was a recurring stretch between others */
    unsigned completed;      /* steps since its signature was set */
    unsigned led;            /* steps in a row that began with extra operations */
    uint64_t deviation;      /* of the last step, if it was not as the signature: a sum over its operations */
    unsigned alike;          /* steps in a row that deviated in this way */
    uint8_t follower[RUNS];  /* 1 + what came last after so many in a row; 0: never */
    uint8_t usual;           /* the same after any number */
} variant_t;

typedef struct variants {
    variant_t variant[EBB_STEP_VARIANTS];
    uint64_t *serials; /* the last one given */
    unsigned count;    /* that are known */
    int last;          /* the variant that ended last; -1: unknown */
    unsigned run;      /* how many of them in a row */
} variants_t;

void variants_free(variants_t *k);

/* A new variant whose signature is [from, to) of the past; the least used makes room, never `keep`. -1: no memory. */
int variants_add(variants_t *k, const past_t *p, size_t from, size_t to, int keep);
void variants_forget(variants_t *k, int number);
/* What a family is; 0: all variants. */
typedef struct family {
    unsigned count;
    uint64_t steps, amplitude; /* all of them; the largest */
    size_t longest;            /* operations of a signature */
    int main, least;           /* with the most steps, and with the fewest, but for `keep`; -1: there is none */
    bool has_usual; /* nearly all of its steps are of one variant: the others are exceptions */
} family_t;
family_t variants_family(const variants_t *k, uint64_t family, int keep);
/* Of a family one stays, for steps of any size: which. */
int variants_unite(variants_t *k, uint64_t family);
/* Forgets those whose signatures the signature of `number` contains. */
void variants_forget_contained(variants_t *k, int number);

/* Leaves of a signature only what is in [from, to) as well: the step before, about. */
void variants_keep_common(variant_t *variant, const past_t *p, size_t from, size_t to);

/* A step of a variant has ended: its signature becomes what its steps have in common. */
void variants_adapt(variant_t *variant, const past_t *p, size_t from, size_t to, const track_t *t);
/* The step [from, to) becomes the signature, because the signature lacks its beginning. */
void variants_renew(variant_t *variant, const past_t *p, size_t from, size_t to);

/* A variant has come; the one to come, -1: no idea. */
void variants_note_order(variants_t *k, int number);
int variants_next(const variants_t *k);

bool variant_has(const variant_t *variant, uint64_t coarse);

static inline view_t view_of_variant(const variant_t *k)
{
    return (view_t){k->signature, SIZE_MAX, k->info.operations};
}

/* ---- following what is known (step_follow.c, step_stretch.c) ---- */

/* What following consists of, for step_follow.c and step_stretch.c only. */

enum {
    HYPOTHESES = 16,
    GAPS = 16,
    TAIL = 4, /* operations at the end of a step may be missing, and the next one begins */
    PENDING = 4,
    STRETCHES = 64,
    RECURRENCES = 4 /* until a short stretch is a variant, and no longer a part of a longer step */
};

typedef struct hypothesis {
    int variant;
    size_t start; /* of the step */
    size_t ended; /* one past its last operation; 0: not yet */
    track_t track;
    uint32_t strange; /* operations with another geometry */
    uint32_t back, elsewhere; /* operations on what persists: where it was; not there */
    unsigned leading; /* extra operations at its beginning */
    struct {
        uint32_t from, count; /* operations of the signature that were left out */
    } gap[GAPS];
    unsigned gaps;
} hypothesis_t;

/* A stretch seen before. */
typedef struct pending {
    entry_t *signature; /* owned */
    size_t operations;
    unsigned count;
} pending_t;

/* A short stretch that has nothing in common with the steps around it. */
typedef struct stretch {
    size_t start, operations;
    bool part; /* of a longer step, perhaps */
} stretch_t;

struct follow {
    variants_t variants;
    hypothesis_t hypothesis[HYPOTHESES];
    unsigned hypotheses;
    bool any_ended; /* of them, perhaps; else none has */
    pending_t pending[PENDING];
    unsigned pendings; /* so far */
    stretch_t stretch[STRETCHES];
    size_t stretches;    /* so far */
    size_t boundary;     /* where what is under way began */
    size_t last_unknown; /* end of the last one of operations that no variant has */
    size_t last_apart;   /* end of the last step or stretch that no longer step may contain */
    size_t search_until; /* an operation */
    size_t lost_at;      /* the last time */
    int predicted;       /* at the boundary */
    bool lost, given_up;
    int ended;
    size_t late;
};

static inline follow_t follow_nothing(uint64_t *serials)
{
    return (follow_t){.variants = {.serials = serials, .last = -1}, .ended = -1, .predicted = -1};
}
void follow_close(follow_t *f);

static inline variant_t *variant_at(follow_t *f, int number)
{
    return &f->variants.variant[number];
}

/* ---- step_stretch.c ---- */

/* What stood before a step of the variant `keep`. */
void stretch_note(follow_t *f, const past_t *p, size_t from, size_t to, int keep);

#endif

/* step_kinds.h: the kinds of step that are known, for step_*.c only: their words, and the order in which they come. */
#ifndef EBB_STEP_KINDS_H
#define EBB_STEP_KINDS_H

#include "ckpt/run/tracker/step_parts.h"

enum { RUNS = 64, BEGINNINGS = 8 /* so many triples at the beginning of a word may show that it begins */ };

typedef struct kind {
    ebb_step_kind_t info;   /* serial 0: there is none */
    entry_t *word;          /* [info.operations], owned */
    uint64_t *sorted;       /* its coarse signatures, owned */
    unsigned telling;       /* bit q: the triple that ends at q stands nowhere else in the word */
    uint64_t amplitude;     /* of live bytes in it */
    uint64_t fewest;        /* live bytes in the last step of it */
    bool from_stretch;      /* it was a recurring stretch between others */
    unsigned completed;     /* steps since its word was set */
    unsigned led;           /* steps in a row that began with extra operations */
    uint64_t deviation;     /* of the last step, if it was not as the word: a sum over its operations */
    unsigned alike;         /* steps in a row that deviated in this way */
    uint8_t follower[RUNS]; /* 1 + what came last after so many in a row; 0: never */
    uint8_t usual;          /* the same after any number */
} kind_t;

typedef struct kinds {
    kind_t kind[EBB_STEP_KINDS];
    uint64_t *serials; /* the last one given */
    int last;          /* the kind that ended last; -1: unknown */
    unsigned run;      /* how many of them in a row */
} kinds_t;

void kinds_free(kinds_t *k);
bool kinds_any(const kinds_t *k);

/* A new kind whose word is [from, to) of the past; the least used makes room, never `keep`. -1: no memory. */
int kinds_add(kinds_t *k, const past_t *p, size_t from, size_t to, int keep);
void kinds_forget(kinds_t *k, int number);
/* Forgets those whose words the word of `number` contains. */
void kinds_forget_contained(kinds_t *k, int number);

/* Leaves of a word only what is in [from, to) as well: the step before, about. */
void kinds_keep_common(kind_t *kind, const past_t *p, size_t from, size_t to);

/* A step of a kind has ended: its word becomes what its steps have in common. */
void kinds_adapt(kind_t *kind, const past_t *p, size_t from, size_t to, const track_t *t);
/* The step [from, to) becomes the word, because the word lacks its beginning. */
void kinds_renew(kind_t *kind, const past_t *p, size_t from, size_t to);

/* The kind with the most steps; -1: there is none. */
int kinds_main(const kinds_t *k);

/* A kind has come; the one to come, -1: no idea. */
void kinds_note_order(kinds_t *k, int number);
int kinds_next(const kinds_t *k);

bool kind_has(const kind_t *kind, uint64_t coarse);

static inline view_t view_of_kind(const kind_t *k)
{
    return (view_t){k->word, SIZE_MAX, k->info.operations};
}

#endif

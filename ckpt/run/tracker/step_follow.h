/* step_follow.h: what following consists of, for step_follow.c, step_hypothesis.c and step_stretch.c only. */
#ifndef EBB_STEP_FOLLOW_H
#define EBB_STEP_FOLLOW_H

#include "ckpt/run/tracker/step_kinds.h"

enum {
    HYPOTHESES = 16,
    GAPS = 16,
    TAIL = 4, /* operations at the end of a step may be missing, and the next one begins */
    PENDING = 4,
    STRETCHES = 64,
    RECURRENCES = 4 /* until a short stretch is a kind, and no longer a part of a longer step */
};

typedef struct hypothesis {
    int kind;
    size_t start; /* of the step */
    size_t ended; /* one past its last operation; 0: not yet */
    track_t track;
    uint32_t strange; /* operations with another geometry */
    unsigned leading; /* extra operations at its beginning */
    struct {
        uint32_t from, count; /* operations of the word that were left out */
    } gap[GAPS];
    unsigned gaps;
} hypothesis_t;

/* A stretch seen before. */
typedef struct pending {
    entry_t *word; /* owned */
    size_t operations;
    unsigned count;
} pending_t;

/* A short stretch that has nothing in common with the steps around it: part of a longer step, perhaps. */
typedef struct stretch {
    size_t start, operations;
} stretch_t;

struct follow {
    kinds_t kinds;
    hypothesis_t hypothesis[HYPOTHESES];
    unsigned hypotheses;
    pending_t pending[PENDING];
    unsigned pendings; /* so far */
    stretch_t stretch[STRETCHES];
    size_t stretches;    /* so far */
    size_t boundary;     /* where what is under way began */
    size_t last_apart;   /* end of the last step or stretch that no longer step may contain */
    size_t search_until; /* an operation */
    size_t lost_at;      /* the last time */
    int predicted;       /* at the boundary */
    bool lost, given_up;
    int ended;
    size_t late;
};

static inline kind_t *kind_at(follow_t *f, int number)
{
    return &f->kinds.kind[number];
}

/* ---- step_hypothesis.c ---- */

/* A step begins at the boundary, of any kind. */
void hypotheses_begin(follow_t *f, size_t boundary);
/* Where the triple at `position` stands at the beginning of a word, one may have begun. */
void hypotheses_begin_in_between(follow_t *f, const past_t *p, size_t position);
/* Takes the operation at `position`. False: it does not fit any more. */
bool hypothesis_advance(follow_t *f, hypothesis_t *h, const past_t *p, size_t position);
void hypothesis_drop(follow_t *f, unsigned index);
/* Not too much of it has another geometry. */
bool hypothesis_is_plausible(const hypothesis_t *h);

/* ---- step_stretch.c ---- */

/* What stood before a step of the kind `keep`. */
void stretch_note(follow_t *f, const past_t *p, size_t from, size_t to, int keep);

#endif

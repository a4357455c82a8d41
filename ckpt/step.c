#include "step.h"

#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 32, SHORTEST = 8, PATIENCE = 8 };

/* A period under trial: the last `run` operations equal those one period before. */
typedef struct candidate {
    size_t period, run;
} candidate_t;

/* Where a pair of signatures, one behind the other, occurred last. Pairs, because a step may consist of
 * nothing that occurs only once in it: with accumulation its kernels repeat per micro-batch, the optimizer's
 * per tensor, and only the transitions between them are rare. Open addressing; emptied when half full. */
typedef struct place {
    uint64_t pair;
    size_t at; /* 1 + index; 0: free */
} place_t;

struct ebb_step_finder {
    /* The past, as rings of `room` (a power of two). */
    size_t room, count;
    uint64_t *signature, *live;
    place_t *last; /* [2 * room] */
    size_t last_used;
    candidate_t candidate[CANDIDATES];
    size_t candidate_count;
    size_t longest_false; /* the longest repetition that ended */
    /* The step, once known. */
    size_t period, position, since_boundary;
    uint64_t serial, completed, lost;
    uint64_t *word;
    uint64_t *sorted; /* the word's signatures */
    size_t *border;   /* [period + 1]: the longest proper border of each prefix */
    /* Operations between two occurrences of the word. */
    size_t between, between_most, last_between; /* now; at most; index of the last one */
    bool between_familiar;                      /* some of them occur in the word as well */
};

ebb_step_finder_t *ebb_step_finder_new(size_t longest)
{
    ebb_step_finder_t *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->room = 1024;
    while (f->room < 2 * longest)
        f->room *= 2;
    f->signature = calloc(f->room, sizeof *f->signature);
    f->live = calloc(f->room, sizeof *f->live);
    f->last = calloc(2 * f->room, sizeof *f->last);
    f->word = calloc(f->room, sizeof *f->word);
    f->sorted = calloc(f->room, sizeof *f->sorted);
    f->border = calloc(f->room + 1, sizeof *f->border);
    if (f->signature && f->live && f->last && f->word && f->sorted && f->border)
        return f;
    ebb_step_finder_delete(f);
    return NULL;
}

void ebb_step_finder_delete(ebb_step_finder_t *f)
{
    if (!f)
        return;
    free(f->signature);
    free(f->live);
    free(f->last);
    free(f->word);
    free(f->sorted);
    free(f->border);
    free(f);
}

size_t ebb_step_period(const ebb_step_finder_t *f)
{
    return f->period;
}

size_t ebb_step_position(const ebb_step_finder_t *f)
{
    return f->position;
}

static size_t slot(const ebb_step_finder_t *f, size_t index)
{
    return index & (f->room - 1);
}

/* ---- looking for a period ---- */

/* Notes the place of the pair that ends here; returns the distance to its place before, or 0. */
static size_t distance_to_last(ebb_step_finder_t *f, uint64_t signature)
{
    if (f->last_used >= f->room) {
        memset(f->last, 0, 2 * f->room * sizeof *f->last);
        f->last_used = 0;
    }
    uint64_t pair = (f->count ? f->signature[slot(f, f->count - 1)] : 0) * 0x9e3779b97f4a7c15u + signature;
    size_t mask = 2 * f->room - 1, i = (size_t)(pair * 0xd1342543de82ef95u >> 20) & mask;
    while (f->last[i].at && f->last[i].pair != pair)
        i = (i + 1) & mask;
    size_t before = f->last[i].at;
    f->last_used += !before;
    f->last[i] = (place_t){pair, f->count + 1};
    return before ? f->count + 1 - before : 0;
}

/* How many of the last operations equal those one period before, up to a period of them. */
static size_t run_so_far(const ebb_step_finder_t *f, size_t period)
{
    size_t run = 0, most = f->count < f->room ? f->count : f->room;
    while (run < period && run + period < most &&
           f->signature[slot(f, f->count - 1 - run)] == f->signature[slot(f, f->count - 1 - run - period)])
        run++;
    return run;
}

static void add_candidate(ebb_step_finder_t *f, size_t period)
{
    size_t weakest = 0;
    for (size_t i = 0; i < f->candidate_count; i++) {
        if (f->candidate[i].period == period)
            return;
        if (f->candidate[i].run < f->candidate[weakest].run)
            weakest = i;
    }
    size_t at = f->candidate_count < CANDIDATES ? f->candidate_count++ : weakest;
    f->candidate[at] = (candidate_t){period, run_so_far(f, period)};
}

/* Advances all candidates by the operation at index `count`. The shortest period that could be a step and is
 * longer than the known one, or 0. */
static size_t advance_candidates(ebb_step_finder_t *f, uint64_t signature, uint64_t live)
{
    size_t best = 0;
    for (size_t i = 0; i < f->candidate_count;) {
        candidate_t *c = &f->candidate[i];
        if (f->signature[slot(f, f->count - c->period)] != signature) {
            if (c->run >= c->period && c->run > f->longest_false)
                f->longest_false = c->run;
            *c = f->candidate[--f->candidate_count];
            continue;
        }
        c->run++;
        bool balanced = f->live[slot(f, f->count - c->period)] == live;
        if (balanced && c->period >= SHORTEST && c->period > f->period && c->run >= c->period &&
            (f->period || c->run > f->longest_false) && (!best || c->period < best))
            best = c->period;
        i++;
    }
    return best;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The last `period` operations, turned so that they begin at the point with the fewest live bytes, become the
 * word. Of equal points the one here, else the last one. */
static void adopt(ebb_step_finder_t *f, size_t period)
{
    size_t least = 0, first = f->count - period; /* count: operations so far */
    for (size_t i = 1; i < period; i++) {
        uint64_t live = f->live[slot(f, first + i)], fewest = f->live[slot(f, first + least)];
        if (live < fewest || (least && live == fewest))
            least = i;
    }
    for (size_t i = 0; i < period; i++)
        f->word[i] = f->signature[slot(f, first + (least + i) % period)];
    f->period = period;
    f->border[0] = f->border[1] = 0;
    for (size_t i = 1, k = 0; i < period; i++) {
        while (k && f->word[i] != f->word[k])
            k = f->border[k];
        k += f->word[i] == f->word[k];
        f->border[i + 1] = k;
    }
    /* What has been seen since that point is the beginning of the next step. */
    f->position = (period - least) % period;
    f->since_boundary = f->position;
    memcpy(f->sorted, f->word, period * sizeof *f->word);
    qsort(f->sorted, period, sizeof *f->sorted, compare);
    f->between = f->between_most = 0;
    f->between_familiar = false;
}

/* ---- following a known one ---- */

static void note_between(ebb_step_finder_t *f, uint64_t signature)
{
    f->last_between = f->count;
    if (++f->between > f->between_most)
        f->between_most = f->between;
    if (bsearch(&signature, f->sorted, f->period, sizeof *f->sorted, compare))
        f->between_familiar = true;
}

static ebb_step_event_t follow(ebb_step_finder_t *f, uint64_t signature)
{
    ebb_step_event_t event = EBB_STEP_NONE;
    f->since_boundary++;
    if (signature != f->word[f->position]) {
        if (f->position) {
            event = EBB_STEP_LOST;
            f->between_familiar = true; /* what began as a step and was none */
        }
        while (f->position && signature != f->word[f->position])
            f->position = f->border[f->position];
    }
    if (signature == f->word[f->position])
        f->position++, f->between = 0;
    else
        note_between(f, signature);
    if (f->position == f->period) {
        f->position = 0;
        f->since_boundary = 0;
        return EBB_STEP_BOUNDARY;
    }
    if (f->since_boundary > PATIENCE * f->period) {
        f->period = f->position = 0;
        return EBB_STEP_GIVEN_UP;
    }
    return event;
}

/* Whether a longer period explains what stands between the occurrences of the word: operations of another
 * kind, and fewer of them: micro-batches with their optimizer. An evaluation between steps resembles them, or
 * is long. */
static bool is_better(const ebb_step_finder_t *f, size_t period)
{
    return period > f->period && f->between_most && !f->between_familiar && f->between_most < f->period &&
           f->count - f->last_between < period;
}

ebb_step_event_t ebb_step_push(ebb_step_finder_t *f, const ebb_step_operation_t *op)
{
    const uint64_t signature = op->fine, live_bytes = op->live_bytes;
    ebb_step_event_t event = f->period ? follow(f, signature) : EBB_STEP_NONE;
    size_t period = advance_candidates(f, signature, live_bytes);
    size_t distance = distance_to_last(f, signature);
    f->signature[slot(f, f->count)] = signature;
    f->live[slot(f, f->count)] = live_bytes;
    f->count++;
    if (distance && distance <= f->room / 2)
        add_candidate(f, distance);
    if (!period || (f->period && !is_better(f, period)))
        return event;
    adopt(f, period);
    f->serial++;
    return EBB_STEP_FOUND;
}

int ebb_step_ended(const ebb_step_finder_t *f)
{
    return f->serial ? 0 : -1;
}

size_t ebb_step_late(const ebb_step_finder_t *f)
{
    (void)f;
    return 0;
}

int ebb_step_expected(const ebb_step_finder_t *f)
{
    return f->period ? 0 : -1;
}

ebb_step_kind_t ebb_step_kind(const ebb_step_finder_t *f, unsigned kind)
{
    return kind || !f->serial ? (ebb_step_kind_t){.serial = 0}
                              : (ebb_step_kind_t){f->serial, f->period, 0, 0, 0, 0};
}

ebb_step_lanes_t ebb_step_lanes(const ebb_step_finder_t *f)
{
    (void)f;
    return (ebb_step_lanes_t){1, 0};
}

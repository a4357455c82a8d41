/* reversal.c: see internal.h. A dynamic program over all stretches of stages and all numbers of chunks, after Beaumont, Eyraud-Dubois, Herrmann,
 * Joly, Shilova: Optimal checkpointing for heterogeneous chains: how to train deep neural networks with limited memory (Inria RR-9302, 2019,
 * arXiv:1911.13214). Beyond the paper: of the last stage that is gone through, what only its own backward reads may be kept though what
 * comes into it is not.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

/* Of a choice: the first stage is kept whole; else so many stages are gone through, up to a checkpoint; KEEPS_INNER on top: of the last of them
 * what its backward reads is kept. 0: nothing is possible. */
enum { KEEPS_INNER = 128, KEEPS_WHOLE = 255 };
enum { MOST_SLOTS = 160 };

/* A pass: what its stages take, in chunks and ns, and the program's tables. Owns its arrays. */
struct ebb_reversal_part {
    uint32_t count, slots;
    uint32_t *over;    /* what goes over the border in front of a stage */
    uint32_t *inner;   /* what it makes and its own backward reads */
    uint32_t *whole;   /* that, and what goes over the border behind it */
    uint32_t *through; /* at most while it is gone through, with all that goes through it */
    uint32_t *inside;  /* the same without what was made before it */
    uint32_t *keeping; /* at most while it is gone through and kept, without what was made before it */
    uint32_t *beside;  /* what else is there when its backward begins */
    uint32_t *back;    /* at most in its backward, without what was made before it */
    double *ns;        /* of its forward */
    float *cost;       /* rows by stretch, one for each number of slots: ns; infinity: impossible */
    uint8_t *choice;   /* the same */
};

typedef struct ebb_reversal_part part_t;

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t minus(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

/* Of the stages from `first` to `last`; `have`: what the last one's own backward reads is there, and not counted. */
static size_t row_of(const part_t *p, uint32_t first, uint32_t last, uint32_t have)
{
    return ((size_t)(first * p->count + last) * 2 + have) * (p->slots + 1);
}

/* ---- what stages take ---- */

/* Per operation, chunks. Owns its arrays. */
typedef struct levels {
    uint32_t *others, *begun; /* of buffers whose contents no stage makes; of those, first touched there */
    uint32_t *live;           /* of what forward has made and still reads */
    uint32_t *own;            /* of that, what the operation's own stage has made */
    uint32_t *kept;           /* what its own stage has made, if it is kept */
    uint32_t *saved;          /* in backward: what the stage under way has made and still needs */
} levels_t;

static void delete_levels(levels_t *l)
{
    free(l->others);
    free(l->begun);
    free(l->live);
    free(l->own);
    free(l->kept);
    free(l->saved);
}

static bool make_levels(levels_t *l, const ebb_model_t *m)
{
    const size_t n = (size_t)m->trace->operation_count + 2;
    *l = (levels_t){calloc(n, 4), calloc(n, 4), calloc(n, 4), calloc(n, 4), calloc(n, 4), calloc(n, 4)};
    return l->others && l->begun && l->live && l->own && l->kept && l->saved;
}

static bool is_of(const ebb_stages_t *s, const ebb_model_t *m, const ebb_pass_t *p, uint32_t content)
{
    const ebb_content_t *c = &m->content[content];
    const ebb_model_buffer_t *b = &m->buffer[c->buffer];
    return s->home[content] != EBB_NONE && s->home[content] >= p->first_stage &&
           s->home[content] < p->first_stage + p->stage_count && b->movable && b->use_count &&
           c->rebuild >= m->use[b->first_use + b->use_count - 1].operation;
}

static void count_others(levels_t *l, const ebb_stages_t *s, const ebb_model_t *m, const ebb_pass_t *p)
{
    const uint32_t n = m->trace->operation_count;
    for (uint32_t i = 0; i < m->trace->buffer_count; i++) {
        const ebb_model_buffer_t *b = &m->buffer[i];
        bool is_one = false;
        for (uint32_t k = 0; k < b->content_count; k++)
            is_one |= is_of(s, m, p, b->first_content + k);
        if (!b->chunks || is_one || (!b->use_count && !b->persistent))
            continue;
        const uint32_t first = b->persistent ? 0 : m->use[b->first_use].operation,
                       last = b->persistent ? n : m->use[b->first_use + b->use_count - 1].operation;
        l->begun[first] += b->chunks;
        l->others[first] += b->chunks;
        l->others[last + 1] -= b->chunks; /* differences, modulo 2^32 */
    }
    for (uint32_t i = 1; i <= n; i++)
        l->others[i] += l->others[i - 1];
}

static void count_content(part_t *part, levels_t *l, const ebb_stages_t *s, const ebb_model_t *m,
                          const ebb_pass_t *p, uint32_t content)
{
    const ebb_content_t *c = &m->content[content];
    const ebb_model_buffer_t *b = &m->buffer[c->buffer];
    const uint32_t home = s->home[content] - p->first_stage, far = s->far[content] - p->first_stage;
    uint32_t forward = c->producer, last = c->producer; /* the last that read it */
    for (uint32_t i = b->first_use; i < b->first_use + b->use_count; i++)
        if (m->use[i].before == content && m->use[i].mode != EBB_REPLACES) {
            last = m->use[i].operation;
            forward = last < p->peak ? last : forward;
        }
    const bool saved = last >= p->peak;
    for (uint32_t k = home + 1; k <= far; k++)
        part->over[k] += b->chunks;
    part->inner[home] += saved && far == home ? b->chunks : 0;
    part->whole[home] += saved || far > home ? b->chunks : 0;
    for (uint32_t i = c->producer; i <= forward; i++)
        l->live[i] += b->chunks;
    for (uint32_t i = c->producer; i < p->peak && s->stage_of[i] == s->home[content]; i++) {
        l->own[i] += i <= forward ? b->chunks : 0;
        l->kept[i] += saved || i <= forward ? b->chunks : 0;
    }
    for (uint32_t i = p->peak; i <= last && i < p->end; i++)
        l->saved[i] += s->stage_of[i] == s->home[content] ? b->chunks : 0;
}

static void measure(part_t *part, levels_t *l, const ebb_stages_t *s, const ebb_model_t *m,
                    const ebb_pass_t *p)
{
    uint32_t now = EBB_NONE;
    count_others(l, s, m, p);
    for (uint32_t i = 0; i < m->content_count; i++)
        if (is_of(s, m, p, i))
            count_content(part, l, s, m, p, i);
    for (uint32_t i = p->begin; i < p->end; i++) {
        const uint32_t k = s->stage_of[i] - p->first_stage;
        if (i < p->peak) {
            part->ns[k] += (double)m->trace->operation[i].duration_ns;
            part->through[k] = most(part->through[k], l->live[i]);
            part->inside[k] = most(part->inside[k], l->own[i]);
            part->keeping[k] = most(part->keeping[k], l->kept[i]);
            continue;
        }
        if (k != now)
            part->beside[k] = l->others[i] - l->begun[i];
        now = k;
        part->back[k] = most(part->back[k], l->saved[i] + l->others[i]);
    }
}

/* ---- the program ---- */

static uint32_t slots_of(uint32_t chunks, uint32_t unit)
{
    return (chunks + unit - 1) / unit;
}

/* Takes the row's choice where it is cheaper: `fixed` and two rows of other stretches, with so many slots less. */
static void offer(part_t *p, size_t row, uint32_t from, float fixed, const float *a, uint32_t less_a,
                  const float *b, uint32_t less_b, uint8_t choice)
{
    for (uint32_t m = from; m <= p->slots; m++) {
        const float cost = fixed + (a ? a[m - less_a] : 0) + (b ? b[m - less_b] : 0);
        if (cost < p->cost[row + m]) {
            p->cost[row + m] = cost;
            p->choice[row + m] = choice;
        }
    }
}

static void solve(part_t *p, uint32_t unit, uint32_t first, uint32_t last, uint32_t have)
{
    const size_t row = row_of(p, first, last, have);
    const uint32_t whole = slots_of(p->whole[first], unit),
                   keeping = slots_of(most(p->keeping[first] + p->beside[last], p->back[first]), unit);
    uint32_t need = p->inside[first];
    double ns = p->ns[first];
    for (uint32_t m = 0; m <= p->slots; m++)
        p->cost[row + m] = INFINITY;
    if (first == last) {
        have |=
            !p->inner[first]; /* its backward reads only what comes into it: it is not gone through again */
        const uint32_t from = have ? slots_of(minus(p->back[first], p->inner[first]), unit) : keeping;
        offer(p, row, from, have ? 0 : (float)ns, NULL, 0, NULL, 0, KEEPS_WHOLE);
        return;
    }
    offer(p, row, most(keeping, whole), (float)ns, p->cost + row_of(p, first + 1, last, have), whole, NULL, 0,
          KEEPS_WHOLE);
    for (uint32_t stage = first + 1; stage <= last && stage - first < KEEPS_INNER - 1; stage++) {
        for (uint32_t with = 0; with < 2; with++) {
            const uint32_t inner = with ? slots_of(p->inner[stage - 1], unit) : 0,
                           less = slots_of(p->over[stage], unit) + inner;
            offer(p, row, most(slots_of(need + p->beside[last], unit), less), (float)ns,
                  p->cost + row_of(p, stage, last, have), less, p->cost + row_of(p, first, stage - 1, with),
                  inner, (uint8_t)(stage - first + (with ? KEEPS_INNER : 0)));
        }
        need = most(need, p->through[stage]);
        ns += p->ns[stage];
    }
}

static bool make_part(part_t *p, const ebb_stages_t *s, const ebb_model_t *m, uint32_t pass, uint32_t unit,
                      uint32_t slots)
{
    const size_t n = (size_t)s->pass[pass].stage_count + 1, cells = 2 * n * n * (slots + (size_t)1);
    uint32_t **const numbers[] = {&p->over,   &p->inner,   &p->whole,  &p->through,
                                  &p->inside, &p->keeping, &p->beside, &p->back};
    levels_t levels;
    bool good = make_levels(&levels, m);
    *p = (part_t){.count = s->pass[pass].stage_count,
                  .slots = slots,
                  .ns = calloc(n, sizeof *p->ns),
                  .cost = malloc(cells * sizeof *p->cost),
                  .choice = calloc(cells, sizeof *p->choice)};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        good &= (*numbers[i] = calloc(n, sizeof **numbers[i])) != NULL;
    good &= p->ns && p->cost && p->choice;
    if (good)
        measure(p, &levels, s, m, &s->pass[pass]);
    for (uint32_t length = 1; good && length <= p->count; length++)
        for (uint32_t first = 0; first + length <= p->count; first++)
            for (uint32_t have = 0; have < 2; have++)
                solve(p, unit, first, first + length - 1, have);
    delete_levels(&levels);
    return good;
}

bool ebb_reversal_make(ebb_reversal_t *r, const ebb_stages_t *s, const ebb_model_t *m, uint32_t chunks)
{
    *r = (ebb_reversal_t){.unit = chunks / MOST_SLOTS + 1};
    r->part = calloc((size_t)s->pass_count + 1, sizeof *r->part);
    bool good = r->part;
    for (; good && r->part_count < s->pass_count; r->part_count++)
        good = make_part(&r->part[r->part_count], s, m, r->part_count, r->unit, chunks / r->unit);
    if (!good)
        ebb_reversal_delete(r);
    return good;
}

void ebb_reversal_delete(ebb_reversal_t *r)
{
    for (uint32_t i = 0; r->part && i < r->part_count; i++) {
        part_t *p = &r->part[i];
        free(p->over);
        free(p->inner);
        free(p->whole);
        free(p->through);
        free(p->inside);
        free(p->keeping);
        free(p->beside);
        free(p->back);
        free(p->ns);
        free(p->cost);
        free(p->choice);
    }
    free(r->part);
    *r = (ebb_reversal_t){0};
}

uint64_t ebb_reversal_ns(const ebb_reversal_t *r, uint32_t pass, uint32_t chunks)
{
    const part_t *p = &r->part[pass];
    const uint32_t slots = chunks / r->unit < p->slots ? chunks / r->unit : p->slots;
    const float ns = p->cost[row_of(p, 0, p->count - 1, 0) + slots];
    const double once =
        p->inner[p->count - 1] ? 0 : p->ns[p->count - 1]; /* the step itself goes through it */
    return isinf(ns) ? UINT64_MAX : (uint64_t)(ns + once);
}

void ebb_reversal_hold(const ebb_reversal_t *r, uint32_t pass, uint32_t chunks, uint32_t stage,
                       uint32_t *checkpoint, uint8_t *kept)
{
    const part_t *p = &r->part[pass];
    uint32_t first = 0, last = p->count - 1, have = 0,
             m = chunks / r->unit < p->slots ? chunks / r->unit : p->slots;
    for (;;) {
        const uint8_t choice = p->choice[row_of(p, first, last, have) + m];
        checkpoint[first] = 1;
        kept[last] |= have ? EBB_KEPT_INNER : 0;
        if (first == last || ((choice == KEEPS_WHOLE || !choice) && stage == first))
            return;
        if (choice == KEEPS_WHOLE || !choice) {
            kept[first] |= choice ? EBB_KEPT_INNER | EBB_KEPT_OVER : 0;
            m = minus(m, slots_of(p->whole[first++], r->unit));
            continue;
        }
        const uint32_t with = choice >= KEEPS_INNER, next = first + choice % KEEPS_INNER;
        m = minus(m, with ? slots_of(p->inner[next - 1], r->unit) : 0);
        kept[next - 1] |= with ? EBB_KEPT_INNER : 0;
        if (stage >= next) {
            m = minus(m, slots_of(p->over[next], r->unit));
            first = next;
        } else {
            last = next - 1;
            have = with;
        }
    }
}

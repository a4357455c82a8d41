/* loosen.c: see internal.h. A place has its chunks in all its intervals. Those of what is replayed on the way to something else need not be its
 * buffer's: a replay's pointers lead where a redirection says. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

/* Owns its arrays; borrows the others. */
typedef struct loosening {
    ebb_schedule_t *schedule;
    const ebb_model_t *model;
    uint32_t *head, *next; /* per place: one of its intervals; per interval: another one; EBB_NONE */
    uint32_t *discard;     /* per interval that is to leave its place: the move that ends it; EBB_NONE */
} loosening_t;

static uint32_t interval_at(const loosening_t *l, uint32_t place, uint32_t position)
{
    const ebb_interval_t *interval = l->schedule->interval;
    uint32_t i = l->head[place];
    while (i != EBB_NONE && (interval[i].first > position || interval[i].last < position))
        i = l->next[i];
    return i;
}

static void list_intervals(loosening_t *l, size_t places)
{
    memset(l->head, 0xff, places * sizeof *l->head);
    for (uint32_t i = 0; i < l->schedule->interval_count; i++) {
        const uint32_t place = l->schedule->interval[i].place;
        l->next[i] = l->head[place];
        l->head[place] = i;
    }
}

/* Those that a replay begins and a discard ends, and that no operation of the program touches. */
static void choose(loosening_t *l)
{
    const ebb_schedule_t *s = l->schedule;
    const ebb_model_t *m = l->model;
    memset(l->discard, 0xff, s->interval_count * sizeof *l->discard);
    for (uint32_t i = 0; i < s->move_count; i++) {
        const ebb_move_t *move = &s->move[i];
        const uint32_t at = move->kind == EBB_DISCARD && move->position && move->position != EBB_NONE
                                ? interval_at(l, move->place, move->position - 1)
                                : EBB_NONE;
        if (at == EBB_NONE)
            continue;
        const ebb_interval_t *x = &s->interval[at];
        if (x->last + 1 == move->position && x->fetch == EBB_NONE && x->evict == EBB_NONE && !x->tail &&
            s->event[x->first].replay)
            l->discard[at] = i;
    }
    for (uint32_t i = 0; i < s->event_count; i++) {
        const uint32_t operation = s->event[i].operation;
        for (uint32_t k = m->first_touch[operation]; !s->event[i].replay && k < m->first_touch[operation + 1];
             k++) {
            const uint32_t at = interval_at(l, m->touch[k].buffer, i);
            if (at != EBB_NONE)
                l->discard[at] = EBB_NONE;
        }
    }
}

/* Scratch places for them, into `scratch`; how many. EBB_NONE: no memory. */
static uint32_t take_places(loosening_t *l, uint32_t *scratch)
{
    ebb_schedule_t *s = l->schedule;
    const ebb_trace_t *t = l->model->trace;
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->interval_count; i++) {
        scratch[i] = EBB_NONE;
        if (l->discard[i] == EBB_NONE)
            continue;
        const uint32_t buffer = s->interval[i].place;
        ebb_scratch_t *made =
            ebb_array_append((void **)&s->scratch, &s->scratch_count, &s->scratch_room, sizeof *s->scratch);
        if (!made)
            return EBB_NONE;
        *made = (ebb_scratch_t){t->buffer[buffer].bytes, l->model->buffer[buffer].chunks};
        s->move[l->discard[i]].position = EBB_NONE;
        scratch[i] = t->buffer_count + s->scratch_count - 1;
        count++;
    }
    return count;
}

/* Replays find them there. False: no memory. */
static bool redirect(loosening_t *l, const uint32_t *scratch)
{
    ebb_schedule_t *s = l->schedule;
    const ebb_model_t *m = l->model;
    ebb_redirect_t *list = NULL;
    uint32_t count = 0, room = 0;
    for (uint32_t i = 0; i < s->event_count; i++) {
        ebb_event_t *event = &s->event[i];
        const uint32_t first = count;
        for (uint32_t k = m->first_touch[event->operation];
             event->replay && k < m->first_touch[event->operation + 1]; k++) {
            const uint32_t buffer = m->touch[k].buffer, place = ebb_event_place(s, event, buffer),
                           at = place == buffer ? interval_at(l, buffer, i) : EBB_NONE,
                           now = at != EBB_NONE && scratch[at] != EBB_NONE ? scratch[at] : place;
            if (now == buffer)
                continue;
            ebb_redirect_t *r = ebb_array_append((void **)&list, &count, &room, sizeof *list);
            if (!r) {
                free(list);
                return false;
            }
            *r = (ebb_redirect_t){buffer, now};
        }
        event->first_redirect = first;
        event->redirect_count = count - first;
    }
    free(s->redirect);
    s->redirect = list;
    s->redirect_count = count;
    s->redirect_room = room;
    return true;
}

uint32_t ebb_schedule_loosen(ebb_schedule_t *s, const ebb_model_t *m)
{
    const size_t intervals = (size_t)s->interval_count + 1,
                 places = (size_t)m->trace->buffer_count + s->scratch_count + 1;
    loosening_t l = {.schedule = s,
                     .model = m,
                     .head = malloc(places * sizeof *l.head),
                     .next = malloc(intervals * sizeof *l.next),
                     .discard = malloc(intervals * sizeof *l.discard)};
    uint32_t *scratch = malloc(intervals * sizeof *scratch), count = EBB_NONE;
    if (l.head && l.next && l.discard && scratch) {
        list_intervals(&l, places);
        choose(&l);
        count = take_places(&l, scratch);
        if (count != EBB_NONE && count && !redirect(&l, scratch))
            count = EBB_NONE;
    }
    for (uint32_t i = 0; count != EBB_NONE && i < s->interval_count; i++)
        if (scratch[i] != EBB_NONE)
            s->interval[i].place = scratch[i];
    free(l.head);
    free(l.next);
    free(l.discard);
    free(scratch);
    return count;
}

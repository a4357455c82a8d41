/* splice.c: a window of a schedule becomes what the search says (exchange.c): events, intervals, discards; positions behind it move. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

/* Owns nothing. */
typedef struct splice {
    ebb_exchange_t *x;
    ebb_event_t *event;    /* of the window; room for all steps */
    uint32_t count, first; /* first: position of event 0 */
    uint64_t items;        /* resident */
    ebb_interval_t open[EBB_WINDOW_ITEMS];
    uint32_t operation_at[EBB_WINDOW_OPERATIONS],
        point_at[EBB_WINDOW_OPERATIONS + 1]; /* positions: of the operation, of the first event before it */
} splice_t;

static void close_interval(splice_t *p, uint32_t item, uint32_t operation)
{
    ebb_exchange_t *x = p->x;
    ebb_schedule_t *s = x->schedule;
    ebb_interval_t *v = &p->open[item];
    const uint32_t dies = x->model->trace->buffer[v->place].dies;
    /* Up to then it is the program's, and not to be lost. */
    if (dies <= operation && dies > x->begin && p->point_at[dies - x->begin] > v->last)
        v->last = p->point_at[dies - x->begin] - 1;
    ebb_interval_t *added =
        ebb_array_append((void **)&s->interval, &s->interval_count, &s->interval_room, sizeof *s->interval);
    x->failed |= !added;
    if (added)
        *added = *v;
    p->items &= ~(UINT64_C(1) << item);
    if (dies <= operation)
        return;
    ebb_move_t *move = ebb_array_append((void **)&s->move, &s->move_count, &s->move_room, sizeof *s->move);
    x->failed |= !move;
    if (move)
        *move = (ebb_move_t){.kind = EBB_DISCARD, .place = v->place, .position = v->last + 1};
}

static void close_useless(splice_t *p, uint32_t at)
{
    for (uint64_t left = p->items & p->x->window.useless[at]; left; left &= left - 1)
        close_interval(p, (uint32_t)__builtin_ctzll(left), p->x->begin + at);
}

/* An output that goes to no place of its own. */
static void redirect(splice_t *p, ebb_event_t *event, uint32_t buffer)
{
    ebb_exchange_t *x = p->x;
    ebb_schedule_t *s = x->schedule;
    const uint64_t bytes = x->model->trace->buffer[buffer].bytes;
    ebb_scratch_t *scratch =
        ebb_array_append((void **)&s->scratch, &s->scratch_count, &s->scratch_room, sizeof *s->scratch);
    ebb_redirect_t *r =
        ebb_array_append((void **)&s->redirect, &s->redirect_count, &s->redirect_room, sizeof *s->redirect);
    ebb_interval_t *v =
        ebb_array_append((void **)&s->interval, &s->interval_count, &s->interval_room, sizeof *s->interval);
    x->failed |= !scratch || !r || !v;
    if (x->failed)
        return;
    *scratch = (ebb_scratch_t){bytes, ebb_model_chunks(x->model->trace, bytes)};
    *r = (ebb_redirect_t){buffer, x->model->trace->buffer_count + s->scratch_count - 1};
    const uint32_t position = p->first + p->count;
    *v = (ebb_interval_t){
        .place = r->place, .first = position, .last = position, .fetch = EBB_NONE, .evict = EBB_NONE};
    event->redirect_count++;
}

static void add_event(splice_t *p, uint32_t operation, uint32_t point, bool replay)
{
    const ebb_model_t *m = p->x->model;
    const uint32_t position = p->first + p->count;
    ebb_event_t *event = &p->event[p->count];
    *event = (ebb_event_t){operation, point, replay, p->x->schedule->redirect_count, 0};
    for (uint32_t k = m->first_touch[operation]; k < m->first_touch[operation + 1]; k++) {
        const uint32_t buffer = m->touch[k].buffer, item = p->x->item_of[buffer];
        const uint64_t bit = ebb_exchange_bit(p->x, buffer);
        if (m->touch[k].mode != EBB_READS && replay && (!bit || p->items & bit)) {
            redirect(p, event, buffer);
            continue;
        }
        if (!bit)
            continue;
        if (!(p->items & bit))
            p->open[item] =
                (ebb_interval_t){.place = buffer, .first = position, .fetch = EBB_NONE, .evict = EBB_NONE};
        p->open[item].last = position;
        p->items |= bit;
    }
    p->count++;
}

static void play(splice_t *p)
{
    const ebb_exchange_window_t *w = &p->x->window;
    uint32_t at = 0;
    p->point_at[0] = p->first;
    close_useless(p, 0);
    for (uint32_t i = 0; i < w->step_count && !p->x->failed; i++) {
        const ebb_window_step_t step = w->step[i];
        if (step.kind == EBB_WINDOW_DROP) {
            close_interval(p, step.index, p->x->begin + at);
        } else if (step.kind == EBB_WINDOW_REPLAY) {
            add_event(p, w->replay[step.index].operation, p->x->begin + at, true);
            close_useless(p, at);
        } else {
            p->operation_at[at] = p->first + p->count;
            add_event(p, p->x->begin + at, p->x->begin + at, false);
            p->point_at[++at] = p->first + p->count;
            close_useless(p, at);
        }
    }
}

/* Where a position has gone: an event of the window that was a replay to the one before its operation. */
static uint32_t moved(const splice_t *p, uint32_t position, uint32_t end)
{
    const ebb_exchange_t *x = p->x;
    if (position == EBB_NONE || position < p->first)
        return position;
    if (position >= end)
        return position - end + p->first + p->count;
    const ebb_event_t *event = &x->schedule->event[position];
    return p->operation_at[event->point - x->begin] - event->replay;
}

static int by_first(const void *a, const void *b)
{
    const ebb_interval_t *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1)
                                : (x->place > y->place) - (x->place < y->place);
}

/* Before the window's own are added: what was there moves, what belongs to the window goes. */
static void make_way(splice_t *p, const uint32_t old_end, uint32_t moves, uint32_t intervals)
{
    ebb_exchange_t *x = p->x;
    ebb_schedule_t *s = x->schedule;
    const uint32_t buffers = x->model->trace->buffer_count;
    for (uint32_t i = 0; i < moves; i++) {
        ebb_move_t *move = &s->move[i];
        const bool of_item = move->place < buffers && x->item_of[move->place] != EBB_NONE;
        if (move->position == EBB_NONE || move->position <= p->first)
            continue;
        move->position = move->kind == EBB_DISCARD && of_item && move->position <= old_end
                             ? EBB_NONE
                             : moved(p, move->position - 1, old_end) + 1;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->interval_count; i++) {
        ebb_interval_t v = s->interval[i];
        const bool of_item = v.place < buffers && x->item_of[v.place] != EBB_NONE,
                   gone = of_item ? v.first < old_end && v.last >= p->first
                                  : v.place >= buffers && ebb_exchange_is_in(x, v.first);
        if (i < intervals && gone)
            continue;
        if (i < intervals) {
            v.first = moved(p, v.first, old_end);
            v.last = moved(p, v.last, old_end);
            v.begin = v.fetch == EBB_NONE ? v.begin : moved(p, v.begin, old_end);
        }
        s->interval[kept++] = v;
    }
    s->interval_count = kept;
}

void ebb_exchange_put_in(ebb_exchange_t *x)
{
    ebb_schedule_t *s = x->schedule;
    const ebb_exchange_window_t *w = &x->window;
    const uint32_t first = x->first_of[x->begin], end = x->first_of[x->end], moves = s->move_count,
                   intervals = s->interval_count;
    splice_t p = {.x = x, .first = first, .items = w->begin};
    ebb_interval_t behind[EBB_WINDOW_ITEMS] = {0};
    p.event = malloc(((size_t)w->step_count + 1) * sizeof *p.event);
    x->failed |= !p.event;
    for (uint32_t i = 0; i < w->item_count; i++) {
        if (x->before[i] != EBB_NONE) {
            p.open[i] = s->interval[x->before[i]];
            p.open[i].evict = EBB_NONE;
            p.open[i].last = first - 1;
        }
        if (x->behind[i] != EBB_NONE)
            behind[i] = s->interval[x->behind[i]];
    }
    if (!x->failed)
        play(&p);
    if (x->failed) {
        free(p.event);
        return;
    }
    make_way(&p, end, moves, intervals);
    for (uint32_t i = 0; i < w->item_count && !x->failed; i++) {
        ebb_interval_t *v =
            x->behind[i] == EBB_NONE
                ? NULL
                : ebb_array_append((void **)&s->interval, &s->interval_count, &s->interval_room, sizeof *v);
        x->failed |= x->behind[i] != EBB_NONE && !v;
        if (!v)
            continue;
        *v = p.open[i];
        v->last = moved(&p, behind[i].last, end);
        v->begin = v->fetch == EBB_NONE ? v->begin : moved(&p, v->begin, end);
        v->evict = behind[i].evict;
    }
    const uint32_t events = s->event_count;
    while (s->event_count < events - (end - first) + p.count && !x->failed)
        x->failed |= !ebb_array_append((void **)&s->event, &s->event_count, &s->event_room, sizeof *s->event);
    if (!x->failed) {
        memmove(&s->event[first + p.count], &s->event[end], (events - end) * sizeof *s->event);
        memcpy(&s->event[first], p.event, p.count * sizeof *s->event);
        s->event_count = events - (end - first) + p.count;
        qsort(s->interval, s->interval_count, sizeof *s->interval, by_first);
    }
    free(p.event);
}

void ebb_exchange_drop_scratch(ebb_exchange_t *x)
{
    ebb_schedule_t *s = x->schedule;
    const uint32_t buffers = x->model->trace->buffer_count;
    uint32_t *now = malloc(((size_t)s->scratch_count + 1) * sizeof *now), kept = 0;
    x->failed |= !now;
    if (!now)
        return;
    memset(now, 0xff, s->scratch_count * sizeof *now);
    for (uint32_t i = 0; i < s->interval_count; i++)
        if (s->interval[i].place >= buffers)
            now[s->interval[i].place - buffers] = 0;
    for (uint32_t i = 0; i < s->scratch_count; i++)
        if (now[i] != EBB_NONE) {
            s->scratch[kept] = s->scratch[i];
            now[i] = buffers + kept++;
        }
    s->scratch_count = kept;
    for (uint32_t i = 0; i < s->interval_count; i++)
        if (s->interval[i].place >= buffers)
            s->interval[i].place = now[s->interval[i].place - buffers];
    for (uint32_t i = 0; i < s->redirect_count; i++) /* those of replays that are gone lead nowhere */
        if (s->redirect[i].place >= buffers && s->redirect[i].place != EBB_NONE)
            s->redirect[i].place = now[s->redirect[i].place - buffers];
    free(now);
}

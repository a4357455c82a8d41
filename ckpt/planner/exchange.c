/* exchange.c: see internal.h. Windows of a schedule become others: what is resident before and behind them stays as it was, what else is resident
 * in between, too. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

/* Owns its arrays. */
typedef struct exchange {
    ebb_schedule_t *schedule;
    const ebb_model_t *model;
    uint32_t limit, states;
    bool *barrier;      /* per operation: a copy begins or ends before it */
    bool *copied;       /* per buffer: it is being copied throughout the window */
    uint32_t *first_of; /* per operation, and one more: the first event of its point */
    uint32_t *item_of;  /* per buffer: in the window, or EBB_NONE */
    ebb_window_t window;
    uint32_t begin, end;               /* operations of the window */
    uint32_t buffer[EBB_WINDOW_ITEMS]; /* per item */
    uint32_t before
        [EBB_WINDOW_ITEMS], /* per item: its interval at the beginning of the window, at its end; EBB_NONE */
        behind[EBB_WINDOW_ITEMS];
    bool failed;
} exchange_t;

/* Written once, as a whole: what a replay of its producer makes again. */
static bool may_be_item(const exchange_t *x, uint32_t buffer)
{
    const ebb_model_buffer_t *b = &x->model->buffer[buffer];
    return b->movable && !b->persistent && !x->copied[buffer] && b->content_count == 2 && b->use_count &&
           x->model->use[b->first_use].mode == EBB_REPLACES;
}

static uint32_t producer_of(const ebb_model_t *m, uint32_t buffer)
{
    return m->use[m->buffer[buffer].first_use].operation;
}

static bool is_in(const exchange_t *x, uint32_t position)
{
    return position >= x->first_of[x->begin] && position < x->first_of[x->end];
}

/* ---- what is in a window ---- */

static uint64_t bit_of(const exchange_t *x, uint32_t buffer)
{
    return x->item_of[buffer] == EBB_NONE ? 0 : UINT64_C(1) << x->item_of[buffer];
}

/* False: there are too many. */
static bool add_item(exchange_t *x, uint32_t buffer)
{
    ebb_window_t *w = &x->window;
    if (x->item_of[buffer] != EBB_NONE || !may_be_item(x, buffer))
        return true;
    if (w->item_count == EBB_WINDOW_ITEMS)
        return false;
    const uint32_t item = w->item_count++;
    x->item_of[buffer] = item;
    x->buffer[item] = buffer;
    x->before[item] = x->behind[item] = w->replay_of[item] = EBB_NONE;
    w->chunks[item] = x->model->buffer[buffer].chunks;
    return true;
}

static bool covers(const exchange_t *x, uint32_t buffer)
{
    const ebb_schedule_t *s = x->schedule;
    for (uint32_t i = 0; i < s->interval_count; i++)
        if (s->interval[i].place == buffer && s->interval[i].first <= x->first_of[x->begin] &&
            s->interval[i].last + 1 >= x->first_of[x->end])
            return true;
    return false;
}

/* Whether a replay finds what it reads there, which is no item: throughout the window. */
static bool can_be_read(const exchange_t *x, const ebb_touch_t *touch)
{
    const ebb_model_buffer_t *b = &x->model->buffer[touch->buffer];
    const bool last = touch->before + 1 == b->first_content + b->content_count;
    if (!b->chunks || x->copied[touch->buffer])
        return !b->chunks;
    return (last || x->model->content[touch->before + 1].producer >= x->end) && covers(x, touch->buffer);
}

/* The replay that makes an item, with those that make what it reads. False: there are too many items. */
static bool add_replay(exchange_t *x, uint32_t item)
{
    const ebb_model_t *m = x->model;
    ebb_window_t *w = &x->window;
    const uint32_t operation = producer_of(m, x->buffer[item]),
                   rebuild = m->content[m->buffer[x->buffer[item]].first_content + 1].rebuild;
    ebb_window_replay_t r = {.operation = operation,
                             .from = operation < x->begin ? 0 : operation + 1 - x->begin,
                             .ns = m->trace->operation[operation].duration_ns};
    if (w->replay_of[item] != EBB_NONE || rebuild < x->begin || !m->request->recompute)
        return true;
    r.until = (rebuild < x->end ? rebuild : x->end - 1) - x->begin;
    for (uint32_t k = m->first_touch[operation]; k < m->first_touch[operation + 1]; k++) {
        const ebb_touch_t *touch = &m->touch[k];
        if (touch->mode == EBB_UPDATES ||
            (touch->mode == EBB_READS && !may_be_item(x, touch->buffer) && !can_be_read(x, touch)))
            return true;
        if (touch->mode == EBB_READS && !add_item(x, touch->buffer))
            return false;
        if (touch->mode == EBB_READS)
            r.in |= bit_of(x, touch->buffer);
        else if (bit_of(x, touch->buffer))
            r.out |= bit_of(x, touch->buffer);
        else
            r.beside += ebb_model_chunks(m->trace, m->trace->buffer[touch->buffer].bytes);
    }
    for (uint64_t out = r.out; out; out &= out - 1)
        w->replay_of[__builtin_ctzll(out)] = w->replay_count;
    w->replay[w->replay_count++] = r;
    return true;
}

static void find_copied(exchange_t *x)
{
    const ebb_schedule_t *s = x->schedule;
    const uint32_t from = x->first_of[x->begin], to = x->first_of[x->end];
    memset(x->copied, 0, x->model->trace->buffer_count * sizeof *x->copied);
    for (uint32_t i = 0; i < s->interval_count; i++) {
        const ebb_interval_t *v = &s->interval[i];
        if (v->place < x->model->trace->buffer_count && v->first < to && v->last >= from &&
            ((v->evict != EBB_NONE && s->move[v->evict].position <= to) ||
             (v->fetch != EBB_NONE && v->begin >= from)))
            x->copied[v->place] = true;
    }
}

/* What the window's operations touch, and all that replays of that read. False: too many. */
static bool find_items(exchange_t *x)
{
    const ebb_model_t *m = x->model;
    bool good = true;
    find_copied(x);
    memset(x->item_of, 0xff, m->trace->buffer_count * sizeof *x->item_of);
    x->window.item_count = x->window.replay_count = 0;
    for (uint32_t k = m->first_touch[x->begin]; good && k < m->first_touch[x->end]; k++)
        good = add_item(x, m->touch[k].buffer);
    const ebb_schedule_t *s = x->schedule;
    for (uint32_t i = x->first_of[x->begin]; good && i < x->first_of[x->end]; i++) {
        const uint32_t operation = s->event[i].operation;
        for (uint32_t k = m->first_touch[operation]; good && k < m->first_touch[operation + 1]; k++) {
            const uint32_t buffer = m->touch[k].buffer;
            if (m->touch[k].mode == EBB_READS ||
                (s->event[i].replay && ebb_event_place(s, &s->event[i], buffer) == buffer))
                good = add_item(x, buffer);
        }
    }
    for (uint32_t i = 0; good && i < x->window.item_count; i++)
        good = add_replay(x, i);
    return good;
}

/* Whether the window's replays and intervals are such that they can become others. */
static bool is_simple(const exchange_t *x)
{
    const ebb_schedule_t *s = x->schedule;
    const ebb_model_t *m = x->model;
    for (uint32_t i = x->first_of[x->begin]; i < x->first_of[x->end]; i++) {
        const ebb_event_t *event = &s->event[i];
        for (uint32_t k = m->first_touch[event->operation];
             event->replay && k < m->first_touch[event->operation + 1]; k++)
            if (m->touch[k].mode != EBB_READS && m->buffer[m->touch[k].buffer].chunks &&
                ebb_event_place(s, event, m->touch[k].buffer) == m->touch[k].buffer &&
                x->item_of[m->touch[k].buffer] == EBB_NONE)
                return false;
    }
    for (uint32_t i = 0; i < s->interval_count; i++) {
        const ebb_interval_t *v = &s->interval[i];
        const bool of_buffer = v->place < m->trace->buffer_count;
        if (of_buffer && is_in(x, v->first) && s->event[v->first].replay && x->item_of[v->place] == EBB_NONE)
            return false;
        if (!of_buffer && is_in(x, v->first) != is_in(x, v->last))
            return false;
    }
    return true;
}

/* What stays as it is takes its chunks. */
static void find_room(exchange_t *x)
{
    const ebb_schedule_t *s = x->schedule;
    const uint32_t length = x->window.length, from = x->first_of[x->begin], to = x->first_of[x->end];
    uint32_t while_it_runs[EBB_WINDOW_OPERATIONS] = {0}, ahead[EBB_WINDOW_OPERATIONS] = {0};
    for (uint32_t i = 0; i < s->interval_count; i++) {
        const ebb_interval_t *v = &s->interval[i];
        if (v->first >= to || v->last < from ||
            (v->place < x->model->trace->buffer_count ? x->item_of[v->place] != EBB_NONE
                                                      : is_in(x, v->first)))
            continue;
        const uint32_t chunks = ebb_place_chunks(s, x->model, v->place);
        for (uint32_t k = 0; k < length; k++) {
            const uint32_t first = x->first_of[x->begin + k], operation = x->first_of[x->begin + k + 1] - 1;
            ahead[k] += v->first < first && v->last >= first ? chunks : 0;
            while_it_runs[k] += v->first <= operation && v->last >= operation ? chunks : 0;
        }
    }
    for (uint32_t k = 0; k < length; k++) {
        ebb_window_operation_t *o = &x->window.operation[k];
        o->room = while_it_runs[k] < x->limit ? x->limit - while_it_runs[k] : 0;
        o->room_before = ahead[k] < x->limit ? x->limit - ahead[k] : 0;
    }
}

/* Whether a replay can bring it back when it is needed, if it is dropped before an operation. */
static bool may_go(const exchange_t *x, uint32_t buffer, uint32_t operation)
{
    const ebb_model_t *m = x->model;
    const ebb_model_buffer_t *b = &m->buffer[buffer];
    const ebb_content_t *c = &m->content[b->first_content + 1];
    uint32_t deadline = m->trace->buffer[buffer].dies;
    if (deadline <= operation)
        return true;
    for (uint32_t i = b->use_count; i-- > 0 && m->use[b->first_use + i].operation >= operation;)
        deadline = m->use[b->first_use + i].operation;
    const double limit = m->request->max_cost;
    return m->request->recompute && c->rebuild && c->rebuild >= deadline &&
           !(m->request->offload && limit > 0 && (double)c->cost_ns > limit * (double)(b->out_ns + b->in_ns));
}

static void find_sets(exchange_t *x)
{
    const ebb_model_t *m = x->model;
    const ebb_schedule_t *s = x->schedule;
    ebb_window_t *w = &x->window;
    const uint32_t from = x->first_of[x->begin], to = x->first_of[x->end];
    uint64_t wanted = 0;
    w->begin = 0;
    for (uint32_t i = 0; i < s->interval_count; i++) {
        const ebb_interval_t *v = &s->interval[i];
        const uint32_t item = v->place < m->trace->buffer_count ? x->item_of[v->place] : EBB_NONE;
        if (item == EBB_NONE)
            continue;
        if (v->first < from && v->last >= from)
            x->before[item] = i;
        if (v->first < to && v->last >= to)
            x->behind[item] = i;
    }
    for (uint32_t i = 0; i < w->item_count; i++) {
        w->begin |= x->before[i] != EBB_NONE ? UINT64_C(1) << i : 0;
        wanted |= x->behind[i] != EBB_NONE ? UINT64_C(1) << i : 0;
    }
    for (uint32_t at = w->length + 1; at-- > 0;) {
        ebb_window_operation_t *o = &w->operation[at];
        const uint32_t operation = x->begin + at;
        uint64_t useful = 0, made = 0;
        o->in = o->out = o->may_go = 0;
        for (uint32_t k = m->first_touch[operation]; at < w->length && k < m->first_touch[operation + 1]; k++)
            *(m->touch[k].mode == EBB_READS ? &o->in : &o->out) |= bit_of(x, m->touch[k].buffer);
        wanted |= o->in;
        for (uint32_t i = 0; i < w->item_count; i++) {
            o->may_go |= may_go(x, x->buffer[i], operation) ? UINT64_C(1) << i : 0;
            made |= producer_of(m, x->buffer[i]) < operation ? UINT64_C(1) << i : 0;
        }
        for (uint64_t left = useful = wanted; left && at < w->length;) {
            const uint32_t replay = w->replay_of[__builtin_ctzll(left)];
            left &= left - 1;
            if (replay == EBB_NONE)
                continue;
            left |= w->replay[replay].in & ~useful;
            useful |= w->replay[replay].in;
        }
        w->wanted[at] = wanted;
        w->made[at] = made;
        w->useless[at] = o->may_go & ~useful;
    }
}

/* ---- what takes its place ---- */

/* Owns nothing. */
typedef struct splice {
    exchange_t *x;
    ebb_event_t *event;    /* of the window; room for all steps */
    uint32_t count, first; /* first: position of event 0 */
    uint64_t items;        /* resident */
    ebb_interval_t open[EBB_WINDOW_ITEMS];
    uint32_t operation_at[EBB_WINDOW_OPERATIONS],
        point_at[EBB_WINDOW_OPERATIONS + 1]; /* positions: of the operation, of the first event before it */
} splice_t;

static void close_interval(splice_t *p, uint32_t item, uint32_t operation)
{
    exchange_t *x = p->x;
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
        *move = (ebb_move_t){EBB_DISCARD, v->place, v->last + 1};
}

static void close_useless(splice_t *p, uint32_t at)
{
    for (uint64_t left = p->items & p->x->window.useless[at]; left; left &= left - 1)
        close_interval(p, (uint32_t)__builtin_ctzll(left), p->x->begin + at);
}

/* An output that goes to no place of its own. */
static void redirect(splice_t *p, ebb_event_t *event, uint32_t buffer)
{
    exchange_t *x = p->x;
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
        const uint64_t bit = bit_of(p->x, buffer);
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
    const ebb_window_t *w = &p->x->window;
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
    const exchange_t *x = p->x;
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
    exchange_t *x = p->x;
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
                                  : v.place >= buffers && is_in(x, v.first);
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

/* Puts the window's steps in the place of what was there. */
static void put_in(exchange_t *x)
{
    ebb_schedule_t *s = x->schedule;
    const ebb_window_t *w = &x->window;
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

/* Scratch places that nothing is in any more go. */
static void drop_scratch(exchange_t *x)
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
        if (s->redirect[i].place >= buffers)
            s->redirect[i].place = now[s->redirect[i].place - buffers];
    free(now);
}

/* ---- from window to window ---- */

static void find_points(exchange_t *x)
{
    const ebb_schedule_t *s = x->schedule;
    uint32_t at = 0;
    for (uint32_t i = 0; i < s->event_count; i++)
        while (at <= s->event[i].point)
            x->first_of[at++] = i;
    x->first_of[x->model->trace->operation_count] = s->event_count;
}

static void bar(exchange_t *x, uint32_t position)
{
    if (position < x->schedule->event_count)
        x->barrier[x->schedule->event[position].point] = true;
}

static void find_barriers(exchange_t *x)
{
    const ebb_schedule_t *s = x->schedule;
    for (uint32_t i = 0; i < s->interval_count; i++) {
        const ebb_interval_t *v = &s->interval[i];
        if (v->fetch != EBB_NONE || v->tail) {
            bar(x, v->first);
            bar(x, v->begin);
        }
        if (v->evict != EBB_NONE || v->tail) {
            bar(x, v->last);
            bar(x, v->last + 1);
        }
    }
    for (uint32_t i = 0; i < s->move_count; i++)
        if (s->move[i].kind != EBB_DISCARD)
            bar(x, s->move[i].position);
}

/* What replays take in the window, UINT64_MAX: too many chunks. 0: nothing is to be gained. */
static uint64_t replays_of(const exchange_t *x, const uint32_t *profile)
{
    uint64_t ns = 0;
    for (uint32_t i = x->first_of[x->begin]; i < x->first_of[x->end]; i++) {
        if (profile[i] > x->limit)
            return UINT64_MAX;
        ns += x->schedule->event[i].replay
                  ? x->model->trace->operation[x->schedule->event[i].operation].duration_ns
                  : 0;
    }
    return ns;
}

/* Tries one window. False: it is too long for the search. */
static bool try_window(exchange_t *x, uint32_t *changed)
{
    enum { AT_ONCE = 20000 };
    uint32_t *profile = ebb_schedule_profile(x->schedule, x->model);
    x->failed |= !profile;
    const uint64_t now = profile ? replays_of(x, profile) : 0;
    free(profile);
    if (!now)
        return true;
    if (!find_items(x))
        return false;
    x->window.length = x->end - x->begin;
    if (!is_simple(x))
        return false;
    find_room(x);
    find_sets(x);
    uint32_t states = x->states < AT_ONCE ? x->states : AT_ONCE;
    const uint32_t before = states;
    bool enough;
    const uint64_t ns = ebb_window_search(&x->window, now, &states, &enough);
    x->states -= before - states;
    if (ns == UINT64_MAX)
        return enough;
    put_in(x);
    free(x->window.step);
    x->window.step = NULL;
    find_points(x);
    ++*changed;
    return true;
}

uint32_t ebb_schedule_exchange(ebb_schedule_t *s, const ebb_model_t *m, uint32_t limit, uint32_t states)
{
    enum { SHORTEST = 4 };
    const uint32_t n = m->trace->operation_count;
    exchange_t *x = calloc(1, sizeof *x);
    uint32_t changed = 0, most = EBB_WINDOW_OPERATIONS;
    if (!x)
        return EBB_NONE;
    *x = (exchange_t){.schedule = s, .model = m, .limit = limit, .states = states};
    x->barrier = calloc((size_t)n + 1, sizeof *x->barrier);
    x->copied = calloc((size_t)m->trace->buffer_count + 1, sizeof *x->copied);
    x->first_of = calloc((size_t)n + 2, sizeof *x->first_of);
    x->item_of = calloc((size_t)m->trace->buffer_count + 1, sizeof *x->item_of);
    x->failed = !x->barrier || !x->copied || !x->first_of || !x->item_of;
    if (!x->failed) {
        find_points(x);
        find_barriers(x);
    }
    for (x->begin = 0; x->begin < n && x->states && !x->failed;) {
        for (x->end = x->begin; x->end < n && x->end - x->begin < most && !x->barrier[x->end];)
            x->end++;
        const uint32_t length = x->end - x->begin;
        if (length && !try_window(x, &changed) && length >= 2 * SHORTEST) {
            most = length / 2;
            continue;
        }
        const bool to_barrier = x->end == n || x->barrier[x->end];
        x->begin = to_barrier ? x->end + 1 : x->begin + length / 2;
        most = EBB_WINDOW_OPERATIONS;
    }
    if (changed && !x->failed)
        drop_scratch(x);
    const bool failed = x->failed;
    free(x->barrier);
    free(x->copied);
    free(x->first_of);
    free(x->item_of);
    free(x);
    return failed ? EBB_NONE : changed;
}

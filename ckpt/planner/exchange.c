/* exchange.c: see internal.h. Windows of a schedule become others: what is resident before and behind them stays as it was, what else is resident
 * in between, too. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

/* Written once, as a whole: what a replay of its producer makes again. */
static bool may_be_item(const ebb_exchange_t *x, uint32_t buffer)
{
    const ebb_model_buffer_t *b = &x->model->buffer[buffer];
    return b->movable && !b->persistent && !x->copied[buffer] && b->content_count == 2 && b->use_count &&
           x->model->use[b->first_use].mode == EBB_REPLACES;
}

static uint32_t producer_of(const ebb_model_t *m, uint32_t buffer)
{
    return m->use[m->buffer[buffer].first_use].operation;
}

/* ---- what is in a window ---- */

/* False: there are too many. */
static bool add_item(ebb_exchange_t *x, uint32_t buffer)
{
    ebb_exchange_window_t *w = &x->window;
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

static bool covers(const ebb_exchange_t *x, uint32_t buffer)
{
    const ebb_schedule_t *s = x->schedule;
    for (uint32_t i = 0; i < s->interval_count; i++)
        if (s->interval[i].place == buffer && s->interval[i].first <= x->first_of[x->begin] &&
            s->interval[i].last + 1 >= x->first_of[x->end])
            return true;
    return false;
}

/* Whether a replay finds what it reads there, which is no item: throughout the window. */
static bool can_be_read(const ebb_exchange_t *x, const ebb_touch_t *touch)
{
    const ebb_model_buffer_t *b = &x->model->buffer[touch->buffer];
    const bool last = touch->before + 1 == b->first_content + b->content_count;
    if (!b->chunks || x->copied[touch->buffer])
        return !b->chunks;
    return (last || x->model->content[touch->before + 1].producer >= x->end) && covers(x, touch->buffer);
}

static bool is_listed(const ebb_exchange_window_t *w, uint32_t operation)
{
    for (uint32_t i = 0; i < w->replay_count; i++)
        if (w->replay[i].operation == operation)
            return true;
    return false;
}

/* The replay that makes an item; what it reads is in the window, too. False: there are too many items. */
static bool add_replay(ebb_exchange_t *x, uint32_t item)
{
    const ebb_model_t *m = x->model;
    ebb_exchange_window_t *w = &x->window;
    const uint32_t operation = producer_of(m, x->buffer[item]),
                   rebuild = m->content[m->buffer[x->buffer[item]].first_content + 1].rebuild;
    ebb_window_replay_t r = {.operation = operation,
                             .from = operation < x->begin ? 0 : operation + 1 - x->begin,
                             .ns = m->trace->operation[operation].duration_ns};
    if (rebuild < x->begin || !m->request->recompute || is_listed(w, operation))
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
            r.in |= ebb_exchange_bit(x, touch->buffer);
    }
    w->replay[w->replay_count++] = r;
    return true;
}

/* Once all items are known: the items among what the replays write, and what the rest takes beside. */
static void find_outputs(ebb_exchange_t *x)
{
    const ebb_model_t *m = x->model;
    ebb_exchange_window_t *w = &x->window;
    for (uint32_t i = 0; i < w->replay_count; i++) {
        ebb_window_replay_t *r = &w->replay[i];
        for (uint32_t k = m->first_touch[r->operation]; k < m->first_touch[r->operation + 1]; k++) {
            const uint32_t buffer = m->touch[k].buffer, item = x->item_of[buffer];
            if (m->touch[k].mode == EBB_READS)
                continue;
            if (item == EBB_NONE) {
                r->beside += ebb_model_chunks(m->trace, m->trace->buffer[buffer].bytes);
                continue;
            }
            r->out |= UINT64_C(1) << item;
            w->replay_of[item] = i;
        }
    }
}

/* What is on its way out or in, or on the host, stays as it is: replays do not make what will be fetched. A place's intervals are in order. */
static void find_copied(ebb_exchange_t *x)
{
    const ebb_schedule_t *s = x->schedule;
    const uint32_t from = x->first_of[x->begin], to = x->first_of[x->end];
    memset(x->copied, 0, x->model->trace->buffer_count * sizeof *x->copied);
    for (uint32_t i = 0; i < s->interval_count; i++) {
        const ebb_interval_t *v = &s->interval[i];
        if (v->place < x->model->trace->buffer_count && v->first < from)
            x->copied[v->place] = (v->evict != EBB_NONE && s->move[v->evict].position <= to) ||
                                  (v->fetch != EBB_NONE && v->begin >= from);
    }
}

/* What the window's operations touch, and all that replays of that read. False: too many. */
static bool find_items(ebb_exchange_t *x)
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
    if (good)
        find_outputs(x);
    return good;
}

/* Whether the window's replays and intervals are such that they can become others. */
static bool is_simple(const ebb_exchange_t *x)
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
        if (of_buffer && ebb_exchange_is_in(x, v->first) && s->event[v->first].replay &&
            x->item_of[v->place] == EBB_NONE)
            return false;
        if (!of_buffer && ebb_exchange_is_in(x, v->first) != ebb_exchange_is_in(x, v->last))
            return false;
    }
    return true;
}

/* What stays as it is takes its chunks. */
static void find_room(ebb_exchange_t *x)
{
    const ebb_schedule_t *s = x->schedule;
    const uint32_t length = x->window.length, from = x->first_of[x->begin], to = x->first_of[x->end];
    uint32_t while_it_runs[EBB_WINDOW_OPERATIONS] = {0}, ahead[EBB_WINDOW_OPERATIONS] = {0};
    for (uint32_t i = 0; i < s->interval_count; i++) {
        const ebb_interval_t *v = &s->interval[i];
        if (v->first >= to || v->last < from ||
            (v->place < x->model->trace->buffer_count ? x->item_of[v->place] != EBB_NONE
                                                      : ebb_exchange_is_in(x, v->first)))
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
static bool may_go(const ebb_exchange_t *x, uint32_t buffer, uint32_t operation)
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

static void find_sets(ebb_exchange_t *x)
{
    const ebb_model_t *m = x->model;
    const ebb_schedule_t *s = x->schedule;
    ebb_exchange_window_t *w = &x->window;
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
            *(m->touch[k].mode == EBB_READS ? &o->in : &o->out) |= ebb_exchange_bit(x, m->touch[k].buffer);
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

/* ---- from window to window ---- */

static void find_points(ebb_exchange_t *x)
{
    const ebb_schedule_t *s = x->schedule;
    uint32_t at = 0;
    for (uint32_t i = 0; i < s->event_count; i++)
        while (at <= s->event[i].point)
            x->first_of[at++] = i;
    x->first_of[x->model->trace->operation_count] = s->event_count;
}

static void bar(ebb_exchange_t *x, uint32_t position)
{
    if (position < x->schedule->event_count)
        x->barrier[x->schedule->event[position].point] = true;
}

static void find_barriers(ebb_exchange_t *x)
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
static uint64_t replays_of(const ebb_exchange_t *x, const uint32_t *profile)
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
static bool try_window(ebb_exchange_t *x, uint32_t *changed)
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
    ebb_exchange_put_in(x);
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
    ebb_exchange_t *x = calloc(1, sizeof *x);
    uint32_t changed = 0, most = EBB_WINDOW_OPERATIONS;
    if (!x)
        return EBB_NONE;
    *x = (ebb_exchange_t){.schedule = s, .model = m, .limit = limit, .states = states};
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
        ebb_exchange_drop_scratch(x);
    const bool failed = x->failed;
    free(x->barrier);
    free(x->copied);
    free(x->first_of);
    free(x->item_of);
    free(x);
    return failed ? EBB_NONE : changed;
}

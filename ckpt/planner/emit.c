/* emit.c: from a schedule on chunks to a plan: actions in their order, with the waits and joins that
 * hand chunks and host blocks over. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

typedef struct emitter {
    const ebb_schedule_t *schedule;
    const ebb_overlay_t *overlay;
    const ebb_model_t *model;
    ebb_plan_t *plan;
    uint32_t *action_of; /* per move */
    uint32_t *move_of;   /* per action; EBB_NONE: a replay */
    uint64_t
        *join_key; /* per move: operation, those of the next step after those of this one; UINT64_MAX: none */
    uint64_t *wait; /* (move << 32 | awaited move); then of their actions, sorted before they are added */
    uint32_t wait_count, wait_room;
    uint32_t *interval_streams; /* per interval; NULL: there is one stream */
    ebb_ordering_t order;       /* where there are several */
    bool failed;
} emitter_t;

static uint32_t operations(const emitter_t *e)
{
    return e->model->trace->operation_count;
}

/* ---- places ---- */

static void emit_place(emitter_t *e, uint32_t index)
{
    const ebb_model_t *m = e->model;
    ebb_plan_t *p = e->plan;
    uint32_t buffers = m->trace->buffer_count;
    if (index >= buffers) {
        ebb_place_t *scratch = ebb_plan_add_place(p);
        e->failed |= !scratch;
        if (scratch) {
            scratch->bytes = e->schedule->scratch[index - buffers].bytes;
            scratch->at_start = EBB_NOT_THERE;
        }
    }
    if (e->failed)
        return;
    ebb_place_t *place = &p->place[index];
    for (uint32_t i = e->overlay->first[index]; i < e->overlay->first[index + 1]; i++)
        e->failed |= !ebb_plan_add_chunk(p, place, e->overlay->chunk[i]);
    if (index >= buffers)
        return;
    place->small_offset = m->small_offset[index];
    if (m->trace->buffer[index].born == EBB_NONE && m->buffer[index].chunks)
        place->at_start = e->schedule->on_host[index] ? EBB_ON_HOST : EBB_ON_DEVICE;
}

/* ---- actions ---- */

typedef struct order {
    uint32_t position, rank, move;
} order_t;

/* At one position copies out come first, then discards, then copies in: what is fetched may take what they
 * leave. */
static int by_position(const void *a, const void *b)
{
    const order_t *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->move < y->move ? -1 : x->move > y->move;
}

static void emit_move(emitter_t *e, uint32_t move, uint32_t point)
{
    const ebb_move_t *m = &e->schedule->move[move];
    ebb_action_t *a = ebb_plan_add_action(e->plan, m->kind, point);
    e->failed |= !a;
    if (!a)
        return;
    a->place = m->place;
    if (e->interval_streams && m->kind != EBB_DISCARD) {
        a->after = e->order.after[move];
        a->joiners = e->order.joiners[move];
    }
    e->action_of[move] = e->plan->action_count - 1;
    e->move_of[e->plan->action_count - 1] = move;
}

/* A replay, on the stream of its operation, or what the stream of an operation has to wait for. */
static ebb_action_t *emit_on_stream(emitter_t *e, ebb_action_kind_t kind, const ebb_event_t *event)
{
    ebb_action_t *a = ebb_plan_add_action(e->plan, kind, event->point);
    e->failed |= !a;
    if (a && e->interval_streams) {
        a->stream = e->model->trace->operation[event->operation].stream;
        a->after = e->order.events[event - e->schedule->event];
    }
    return a;
}

static void emit_replay(emitter_t *e, const ebb_event_t *event)
{
    ebb_action_t *a = emit_on_stream(e, EBB_REPLAY, event);
    if (!a)
        return;
    a->operation = event->operation;
    e->move_of[e->plan->action_count - 1] = EBB_NONE;
    for (uint32_t i = event->first_redirect; i < event->first_redirect + event->redirect_count; i++) {
        const ebb_redirect_t *r = &e->schedule->redirect[i];
        e->failed |= !ebb_plan_add_redirect(e->plan, a, r->buffer, r->place);
    }
}

static void emit_actions(emitter_t *e)
{
    const ebb_schedule_t *s = e->schedule;
    static const uint32_t rank[] = {[EBB_EVICT] = 0, [EBB_DISCARD] = 1, [EBB_FETCH] = 2, [EBB_REPLAY] = 3};
    order_t *order = calloc((size_t)s->move_count + 1, sizeof *order);
    uint32_t at = 0;
    e->failed |= !order;
    for (uint32_t i = 0; order && i < s->move_count; i++)
        order[i] = (order_t){s->move[i].position, rank[s->move[i].kind], i};
    if (order)
        qsort(order, s->move_count, sizeof *order, by_position);
    for (uint32_t i = 0; !e->failed && i <= s->event_count; i++) {
        uint32_t point = i < s->event_count ? s->event[i].point : operations(e);
        for (; at < s->move_count && order[at].position == i; at++)
            emit_move(e, order[at].move, point);
        if (i < s->event_count && s->event[i].replay)
            emit_replay(e, &s->event[i]);
        else if (i < s->event_count && e->interval_streams && e->order.events[i] &&
                 emit_on_stream(e, EBB_ORDER, &s->event[i]))
            e->move_of[e->plan->action_count - 1] = EBB_NONE;
    }
    free(order);
}

/* ---- waits and joins ---- */

static void add_wait(emitter_t *e, uint32_t move, uint32_t awaited)
{
    uint64_t *w = ebb_array_append((void **)&e->wait, &e->wait_count, &e->wait_room, sizeof *e->wait);
    e->failed |= !w;
    if (w)
        *w = (uint64_t)move << 32 | awaited;
}

/* The streams that touch an interval wait for a move before the event at `position`. A replay is issued before the joins of
 * its point: it relies on those of the operation before. */
static void add_join(emitter_t *e, uint32_t move, const ebb_interval_t *interval, uint32_t position,
                     bool next_step)
{
    if (e->interval_streams)
        e->order.joiners[move] |= e->interval_streams[interval - e->schedule->interval];
    const ebb_event_t *event = &e->schedule->event[position];
    uint64_t key = (uint64_t)event->point + (next_step ? operations(e) : 0) - (event->replay ? 1 : 0);
    if (key < e->join_key[move])
        e->join_key[move] = key;
}

/* A fetch takes chunks from others, which resident operations must not see: it is over before the next of them begins. */
static void join_before_resident(emitter_t *e, uint32_t move, const uint32_t *resident, uint32_t count)
{
    const uint32_t position = e->schedule->move[move].position, n = operations(e);
    const uint32_t point = position < e->schedule->event_count ? e->schedule->event[position].point : n;
    uint64_t first = UINT64_MAX;
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t i = resident[k];
        const uint64_t key = i < point ? i + n : i;
        first = key < first ? key : first;
        if (e->interval_streams)
            e->order.joiners[move] |= UINT32_C(1) << e->model->trace->operation[i].stream;
    }
    if (first < e->join_key[move])
        e->join_key[move] = first;
}

/* One owner of a chunk after another. */
static void hand_over(emitter_t *e, const ebb_interval_t *from, const ebb_interval_t *to, bool next_step)
{
    if (from->evict == EBB_NONE || to->tail)
        return;
    if (to->fetch != EBB_NONE)
        add_wait(e, to->fetch, from->evict);
    else
        add_join(e, from->evict, to, to->first, next_step || from->tail);
}

/* Every chunk goes from owner to owner; the last one hands it to the next step's first. */
static void hand_chunks_over(emitter_t *e)
{
    const ebb_schedule_t *s = e->schedule;
    const ebb_overlay_t *o = e->overlay;
    const size_t chunks = (size_t)o->chunk_count + 1;
    uint32_t *sorted = ebb_schedule_by_begin(s), *first = malloc(chunks * sizeof *first),
             *last = malloc(chunks * sizeof *last);
    e->failed |= !sorted || !first || !last;
    if (!e->failed) {
        memset(first, 0xff, chunks * sizeof *first);
        for (uint32_t k = 0; k < s->interval_count; k++) {
            const uint32_t i = sorted[k], place = s->interval[i].place;
            for (uint32_t at = o->first[place], before = EBB_NONE; at < o->first[place + 1]; at++) {
                const uint32_t chunk = o->chunk[at];
                if (first[chunk] == EBB_NONE)
                    first[chunk] = i;
                else if (last[chunk] != before) /* not as the chunk before */
                    hand_over(e, &s->interval[before = last[chunk]], &s->interval[i], false);
                last[chunk] = i;
            }
        }
        for (uint32_t i = 0; i < o->chunk_count; i++)
            if (first[i] != EBB_NONE && (!i || last[i] != last[i - 1] || first[i] != first[i - 1]))
                hand_over(e, &s->interval[last[i]], &s->interval[first[i]], true);
    }
    free(sorted);
    free(first);
    free(last);
}

/* The host block of a place: each fetch waits for the copy out before it and each copy out for the fetch
 * before it, around the step's end too. */
static void hand_blocks_over(emitter_t *e)
{
    uint32_t buffers = e->model->trace->buffer_count;
    uint32_t *evict = malloc(((size_t)buffers + 1) * sizeof *evict),
             *fetch = malloc(((size_t)buffers + 1) * sizeof *fetch);
    e->failed |= !evict || !fetch;
    for (uint32_t i = 0; !e->failed && i < buffers; i++)
        evict[i] = fetch[i] = EBB_NONE;
    for (int round = 0; round < 2;
         round++) /* the first one finds the last of each, which the next step begins with */
        for (uint32_t i = 0; !e->failed && i < e->plan->action_count; i++) {
            const ebb_action_t *a = &e->plan->action[i];
            if (a->kind != EBB_EVICT && a->kind != EBB_FETCH)
                continue;
            uint32_t *before = a->kind == EBB_EVICT ? fetch : evict, move = e->move_of[i];
            if (round && before[a->place] != EBB_NONE)
                add_wait(e, move, before[a->place]);
            *(a->kind == EBB_EVICT ? &evict[a->place] : &fetch[a->place]) = move;
        }
    free(evict);
    free(fetch);
}

static void join_fetches_before_residents(emitter_t *e)
{
    const ebb_schedule_t *s = e->schedule;
    uint32_t *resident = malloc(((size_t)operations(e) + 1) * sizeof *resident), count = 0;
    e->failed |= !resident;
    for (uint32_t i = 0; resident && i < operations(e); i++)
        if (e->model->trace->operation[i].resident)
            resident[count++] = i;
    for (uint32_t i = 0; count && i < s->move_count; i++)
        if (s->move[i].kind == EBB_FETCH && s->move[i].position != EBB_NONE)
            join_before_resident(e, i, resident, count);
    free(resident);
}

static void find_joins(emitter_t *e)
{
    const ebb_schedule_t *s = e->schedule;
    for (uint32_t i = 0; i < s->interval_count; i++)
        if (s->interval[i].fetch != EBB_NONE)
            add_join(e, s->interval[i].fetch, &s->interval[i], s->interval[i].begin, false);
    join_fetches_before_residents(e);
    hand_chunks_over(e);
    if (!e->failed && e->interval_streams)
        e->failed = !ebb_schedule_order(&e->order, s, e->overlay, e->model, e->join_key);
}

static void emit_waits_and_joins(emitter_t *e)
{
    const ebb_schedule_t *s = e->schedule;
    hand_blocks_over(e);
    if (e->failed)
        return;
    for (uint32_t i = 0; i < s->move_count; i++)
        if (e->join_key[i] != UINT64_MAX)
            e->plan->action[e->action_of[i]].join = (uint32_t)(e->join_key[i] % operations(e));
    for (uint32_t i = 0; i < e->wait_count; i++)
        e->wait[i] = (uint64_t)e->action_of[e->wait[i] >> 32] << 32 | e->action_of[(uint32_t)e->wait[i]];
    if (e->wait_count)
        qsort(e->wait, e->wait_count, sizeof *e->wait, ebb_by_number);
    for (uint32_t i = 0; i < e->wait_count; i++)
        if (!i || e->wait[i] != e->wait[i - 1])
            e->failed |=
                !ebb_plan_add_wait(e->plan, &e->plan->action[e->wait[i] >> 32], (uint32_t)e->wait[i]);
}

/* Whoever touches the place's next interval, too, if nobody has had the chunks in between: what had them before is ordered by nothing else. */
static void pass_streams_on(emitter_t *e)
{
    const ebb_schedule_t *s = e->schedule;
    const ebb_overlay_t *o = e->overlay;
    uint32_t *sorted = ebb_schedule_by_begin(s), *next = ebb_none_array(o->chunk_count);
    e->failed |= !sorted || !next;
    for (uint32_t k = s->interval_count; !e->failed && k-- > 0;) {
        const uint32_t i = sorted[k], place = s->interval[i].place;
        for (uint32_t at = o->first[place]; at < o->first[place + 1]; at++) {
            uint32_t *after = &next[o->chunk[at]];
            if (*after != EBB_NONE && s->interval[*after].place == place)
                e->interval_streams[i] |= e->interval_streams[*after];
            *after = i;
        }
    }
    free(sorted);
    free(next);
}

/* What several streams take more. */
static void begin_streams(emitter_t *e)
{
    const ebb_schedule_t *s = e->schedule;
    if (e->model->streams == 1)
        return;
    e->interval_streams = calloc((size_t)s->interval_count + 1, sizeof *e->interval_streams);
    e->order.after = calloc((size_t)s->move_count + 1, sizeof *e->order.after);
    e->order.joiners = calloc((size_t)s->move_count + 1, sizeof *e->order.joiners);
    e->order.events = calloc((size_t)s->event_count + 1, sizeof *e->order.events);
    e->failed |= !e->interval_streams || !e->order.after || !e->order.joiners || !e->order.events ||
                 !ebb_schedule_streams(e->interval_streams, s, e->model);
    if (!e->failed)
        pass_streams_on(e);
}

ebb_plan_t *ebb_schedule_emit(const ebb_schedule_t *s, const ebb_overlay_t *o, const ebb_model_t *m)
{
    size_t moves = (size_t)s->move_count + 1;
    emitter_t e = {.schedule = s, .overlay = o, .model = m, .plan = ebb_plan_new(m->trace)};
    e.action_of = calloc(moves, sizeof *e.action_of);
    e.move_of = calloc(moves + s->event_count,
                       sizeof *e.move_of); /* of an event comes a replay or an order, or nothing */
    e.join_key = malloc(moves * sizeof *e.join_key);
    e.failed = !e.plan || !e.action_of || !e.move_of || !e.join_key;
    for (uint32_t i = 0; !e.failed && i < s->move_count; i++)
        e.join_key[i] = UINT64_MAX;
    for (uint32_t i = 0; !e.failed && i < m->trace->buffer_count + s->scratch_count; i++)
        emit_place(&e, i);
    if (!e.failed)
        begin_streams(&e);
    if (!e.failed)
        find_joins(&e);
    if (!e.failed)
        emit_actions(&e);
    if (!e.failed)
        emit_waits_and_joins(&e);
    if (!e.failed) {
        e.plan->chunk_count = o->chunk_count;
        e.plan->anew = s->anew;
        e.plan->small_bytes = m->small_bytes;
    }
    free(e.action_of);
    free(e.move_of);
    free(e.join_key);
    free(e.wait);
    free(e.interval_streams);
    free(e.order.after);
    free(e.order.joiners);
    free(e.order.events);
    if (!e.failed)
        return e.plan;
    ebb_plan_delete(e.plan);
    return NULL;
}

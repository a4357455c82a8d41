/* simulate.c: the streams as queues. A copy's times are known when it is issued, and copies that are issued later begin
 * later than all compute before, if that is one stream: so compute goes on in one pass, also where copies slow it down. */
#include "simulate.h"

#include <string.h>

#include "array.h"
#include "levels.h"

const char *const ebb_lane_word[EBB_LANES] = {"operation", "replay", "out", "in", "wait_out", "wait_in"};

/* A direction's copies, in order; from `first` on they may still run, as far as a stream has got. */
typedef struct busy {
    double *begin, *end;
    uint32_t first[EBB_PLAN_STREAMS], count;
} busy_t;

enum { HOSTS = 64 };

typedef struct clocks {
    const ebb_plan_t *plan;
    const ebb_trace_t *trace;
    const ebb_hardware_t *hardware;
    ebb_simulation_t *out;
    bool in_detail, failed;
    uint32_t streams; /* the program's */
    double compute[EBB_PLAN_STREAMS],
        stream[2];      /* when they have done what they were given; stream: out, in */
    double *event;      /* [moments]: when what an event of this step was recorded behind has ended */
    double host[HOSTS]; /* until when the program's threads wait, as far as they have been told apart */
    uint32_t next_moment;
    double begin;                 /* of the step */
    double *end, *end_before;     /* per action: when it ended in this step and the one before */
    busy_t busy[2];               /* all steps' */
    uint32_t *joins, *first_join; /* actions by the operation that joins them */
    uint32_t *first_touch;        /* see ebb_trace_first_touches */
} clocks_t;

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void add_span(clocks_t *c, ebb_lane_t lane, uint32_t index, double begin, double end)
{
    c->out->lane_ns[lane] += end - begin;
    if (!c->in_detail)
        return;
    ebb_span_t *s =
        ebb_array_append((void **)&c->out->span, &c->out->span_count, &c->out->span_room, sizeof *s);
    if (s)
        *s = (ebb_span_t){lane, index, begin - c->begin, end - c->begin};
    c->failed |= !s;
}

/* ---- compute ---- */

/* How many directions copy when the stream has got so far, and until when that stays so. */
static int copying(clocks_t *c, uint32_t stream, double *until)
{
    const double now = c->compute[stream];
    int directions = 0;
    *until = 1e300;
    for (int i = 0; i < 2; i++) {
        busy_t *b = &c->busy[i];
        uint32_t *first = &b->first[stream];
        while (*first < b->count && b->end[*first] <= now)
            ++*first;
        if (*first == b->count)
            continue;
        const bool now_busy = b->begin[*first] <= now;
        const double change = now_busy ? b->end[*first] : b->begin[*first];
        directions += now_busy;
        *until = change < *until ? change : *until;
    }
    return directions;
}

/* The stream is at work for `ns` of its own time. */
static void work(clocks_t *c, uint32_t stream, ebb_lane_t lane, uint32_t index, double ns)
{
    double *now = &c->compute[stream];
    const double begin = *now;
    double left = ns;
    if (c->hardware->slowdown <= 0)
        *now += ns;
    while (c->hardware->slowdown > 0 && left > 0) {
        double until;
        const double rate = 1 / (1 + c->hardware->slowdown * copying(c, stream, &until));
        const double done = (until - *now) * rate;
        *now = done < left ? until : *now + left / rate;
        left = done < left ? left - done : 0;
    }
    add_span(c, lane, index, begin, *now);
    c->out->slowed_ns += *now - begin - ns;
    c->out->lane_ns[lane] -= *now - begin - ns;
}

static void wait_for(clocks_t *c, uint32_t stream, uint32_t action, double end)
{
    if (end <= c->compute[stream])
        return;
    add_span(c, c->plan->action[action].kind == EBB_EVICT ? EBB_LANE_WAIT_OUT : EBB_LANE_WAIT_IN, action,
             c->compute[stream], end);
    c->compute[stream] = end;
}

/* Where there are more than a plan can be of, all are one. */
static uint32_t streams_of(const ebb_trace_t *t)
{
    const uint32_t streams = ebb_plan_streams(t);
    return streams > EBB_PLAN_STREAMS ? 1 : streams;
}

static uint32_t stream_of(const clocks_t *c, uint32_t operation)
{
    return c->streams > 1 ? c->trace->operation[operation].stream : 0;
}

/* When these of the program's streams have done what they were given. */
static double end_of(const clocks_t *c, uint32_t streams)
{
    double end = 0;
    for (uint32_t s = 0; s < c->streams; s++)
        if (streams >> s & 1)
            end = later(end, c->compute[s]);
    return end;
}

/* ---- the program's order, where there are several streams ---- */

static double *host_of(clocks_t *c, uint32_t thread)
{
    return &c->host[thread < HOSTS ? thread : HOSTS - 1];
}

static void pass_moment(clocks_t *c, const ebb_trace_moment_t *m)
{
    const bool known = m->id < c->trace->moment_count, streams = m->stream < c->streams;
    double *host = host_of(c, m->thread);
    switch (m->what) {
    case EBB_MOMENT_RECORD:
        if (known && streams)
            c->event[m->id] = c->compute[m->stream];
        break;
    case EBB_MOMENT_WAIT:
        if (known && streams)
            c->compute[m->stream] = later(c->compute[m->stream], c->event[m->id]);
        break;
    case EBB_MOMENT_SYNC_EVENT:
        *host = known ? later(*host, c->event[m->id]) : *host;
        break;
    case EBB_MOMENT_SYNC_STREAM:
        *host = streams ? later(*host, c->compute[m->stream]) : *host;
        break;
    case EBB_MOMENT_SYNC_DEVICE:
        *host = later(*host, end_of(c, UINT32_MAX));
        break;
    default:
        break;
    }
}

/* Up to an operation, which its thread issues when it has waited. */
static void pass_moments(clocks_t *c, uint32_t operation)
{
    const ebb_trace_t *t = c->trace;
    if (c->streams == 1)
        return;
    for (; c->next_moment < t->moment_count && t->moment[c->next_moment].before <= operation;
         c->next_moment++)
        pass_moment(c, &t->moment[c->next_moment]);
    if (operation == t->operation_count)
        return;
    double *now = &c->compute[stream_of(c, operation)];
    *now = later(*now, *host_of(c, t->operation[operation].thread));
}

static void meet(clocks_t *c)
{
    const double end = end_of(c, UINT32_MAX);
    for (uint32_t s = 0; s < c->streams; s++)
        c->compute[s] = end;
    if (c->streams > 1)
        memset(c->event, 0, c->trace->moment_count * sizeof *c->event);
    c->next_moment = 0;
    c->begin = end;
}

/* ---- actions ---- */

static void copy(clocks_t *c, uint32_t index)
{
    const ebb_action_t *a = &c->plan->action[index];
    const int in = a->kind == EBB_FETCH;
    double begin = later(c->stream[in], end_of(c, a->after));
    for (uint32_t i = a->first_wait; i < a->first_wait + a->wait_count; i++) {
        const uint32_t other = c->plan->wait[i];
        begin = later(begin, other < index ? c->end[other] : c->end_before[other]);
    }
    const double end = begin + ebb_copy_ns(c->plan->place[a->place].bytes,
                                           in ? c->hardware->in_bytes_per_ns : c->hardware->out_bytes_per_ns);
    busy_t *b = &c->busy[in];
    b->begin[b->count] = begin;
    b->end[b->count++] = c->stream[in] = c->end[index] = end;
    add_span(c, in ? EBB_LANE_IN : EBB_LANE_OUT, index, begin, end);
}

static uint64_t zeroed_bytes(const clocks_t *c, const ebb_action_t *a)
{
    const ebb_trace_operation_t *o = &c->trace->operation[a->operation];
    uint64_t bytes = 0;
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        uint32_t place = c->trace->access[k].buffer;
        for (uint32_t i = 0; i < a->redirect_count; i++)
            if (c->plan->redirect[a->first_redirect + i].buffer == c->trace->access[k].buffer)
                place = c->plan->redirect[a->first_redirect + i].place;
        if (c->trace->access[k].mode == EBB_REPLACES && c->plan->place[place].chunk_count &&
            c->first_touch[c->trace->access[k].buffer] != a->operation &&
            ebb_trace_is_first(c->trace, a->operation, k))
            bytes += c->plan->place[place].bytes;
    }
    return bytes;
}

static void replay(clocks_t *c, uint32_t index)
{
    const ebb_action_t *a = &c->plan->action[index];
    double ns = (double)c->trace->operation[a->operation].duration_ns;
    if (c->hardware->zero_bytes_per_ns > 0)
        ns += (double)zeroed_bytes(c, a) / c->hardware->zero_bytes_per_ns;
    c->compute[a->stream] = later(c->compute[a->stream], end_of(c, a->after));
    work(c, a->stream, EBB_LANE_REPLAY, index, ns);
}

static void run_action(clocks_t *c, uint32_t index)
{
    const ebb_action_t *a = &c->plan->action[index];
    if (a->kind == EBB_REPLAY)
        replay(c, index);
    else if (a->kind == EBB_ORDER)
        c->compute[a->stream] = later(c->compute[a->stream], end_of(c, a->after));
    else if (a->kind != EBB_DISCARD)
        copy(c, index);
}

static void join(clocks_t *c, uint32_t operation)
{
    const ebb_plan_t *p = c->plan;
    for (uint32_t k = c->first_join[operation]; k < c->first_join[operation + 1]; k++) {
        const uint32_t a = c->joins[k];
        const double end = p->action[a].point <= operation ? c->end[a] : c->end_before[a];
        for (uint32_t s = 0; s < c->streams; s++) {
            if (!(p->action[a].joiners >> s & 1))
                continue;
            if (s == stream_of(c, operation))
                wait_for(c, s, a, end);
            else
                c->compute[s] = later(c->compute[s], end);
        }
    }
}

static void run_step(clocks_t *c)
{
    const ebb_plan_t *p = c->plan;
    uint32_t action = 0;
    meet(c);
    for (uint32_t i = 0; i <= p->operation_count; i++) {
        if (i < p->operation_count)
            pass_moments(c, i);
        for (; action < p->action_count && p->action[action].point == i; action++)
            run_action(c, action);
        if (i == p->operation_count)
            return;
        join(c, i);
        work(c, stream_of(c, i), EBB_LANE_OPERATION, i, (double)c->trace->operation[i].duration_ns);
    }
}

/* ---- all of it ---- */

static void sort_joins(clocks_t *c)
{
    const ebb_plan_t *p = c->plan;
    for (uint32_t i = 0; i < p->action_count; i++)
        if (p->action[i].join < p->operation_count)
            c->first_join[p->action[i].join + 2]++;
    for (uint32_t i = 0; i < p->operation_count; i++)
        c->first_join[i + 2] += c->first_join[i + 1];
    for (uint32_t i = 0; i < p->action_count; i++) /* entry i + 1 goes from list i's beginning to its end */
        if (p->action[i].join < p->operation_count)
            c->joins[c->first_join[p->action[i].join + 1]++] = i;
}

/* What of the step's copies ran while compute was at work: by waiting for it nothing was hidden. */
static void sum_up(clocks_t *c)
{
    ebb_simulation_t *s = c->out;
    const double copies = s->lane_ns[EBB_LANE_OUT] + s->lane_ns[EBB_LANE_IN],
                 exposed = s->lane_ns[EBB_LANE_WAIT_OUT] + s->lane_ns[EBB_LANE_WAIT_IN];
    s->step_ns = end_of(c, UINT32_MAX) - c->begin;
    s->alone_ns = c->streams > 1 ? ebb_simulate_alone_ns(c->trace) : s->lane_ns[EBB_LANE_OPERATION];
    s->hidden_ns = copies > exposed ? copies - exposed : 0;
    s->peak_bytes = c->plan->chunk_count * c->plan->chunk_bytes + c->plan->small_bytes;
}

enum { STEPS = 3 };

static bool allocate(clocks_t *c)
{
    const size_t actions = (size_t)c->plan->action_count + 1;
    c->end = calloc(actions, sizeof *c->end);
    c->end_before = calloc(actions, sizeof *c->end_before);
    c->joins = calloc(actions, sizeof *c->joins);
    c->first_join = calloc((size_t)c->plan->operation_count + 3, sizeof *c->first_join);
    c->first_touch = ebb_trace_first_touches(c->trace);
    c->event = calloc((size_t)c->trace->moment_count + 1, sizeof *c->event);
    bool good = c->end && c->end_before && c->joins && c->first_join && c->first_touch && c->event;
    for (int i = 0; i < 2; i++) {
        c->busy[i].begin = calloc(STEPS * actions, sizeof(double));
        c->busy[i].end = calloc(STEPS * actions, sizeof(double));
        good = good && c->busy[i].begin && c->busy[i].end;
    }
    return good;
}

bool ebb_simulate(ebb_simulation_t *out, const ebb_plan_t *p, const ebb_trace_t *t,
                  const ebb_hardware_t *hardware, bool in_detail)
{
    clocks_t c = {.plan = p, .trace = t, .hardware = hardware, .out = out, .streams = streams_of(t)};
    *out = (ebb_simulation_t){0};
    bool good = allocate(&c);
    if (good)
        sort_joins(&c);
    for (int i = 0; good && i < STEPS; i++) {
        double *swap = c.end;
        c.end = c.end_before;
        c.end_before = swap;
        *out = (ebb_simulation_t){0};
        c.in_detail = in_detail && i + 1 == STEPS;
        run_step(&c);
    }
    good = good && !c.failed;
    if (good)
        sum_up(&c);
    if (good && in_detail)
        good = ebb_simulate_levels(out, p, t);
    free(c.end);
    free(c.end_before);
    free(c.joins);
    free(c.first_join);
    free(c.first_touch);
    free(c.event);
    for (int i = 0; i < 2; i++) {
        free(c.busy[i].begin);
        free(c.busy[i].end);
    }
    if (!good)
        ebb_simulation_delete(out);
    return good;
}

double ebb_simulate_alone_ns(const ebb_trace_t *t)
{
    static const ebb_hardware_t any = {.out_bytes_per_ns = 1, .in_bytes_per_ns = 1};
    ebb_simulation_t none = {0};
    clocks_t c = {.trace = t, .hardware = &any, .out = &none, .streams = streams_of(t)};
    c.event = calloc((size_t)t->moment_count + 1, sizeof *c.event);
    if (!c.event)
        return 0;
    meet(&c);
    for (uint32_t i = 0; i < t->operation_count; i++) {
        pass_moments(&c, i);
        work(&c, stream_of(&c, i), EBB_LANE_OPERATION, i, (double)t->operation[i].duration_ns);
    }
    free(c.event);
    return end_of(&c, UINT32_MAX);
}

void ebb_simulation_delete(ebb_simulation_t *s)
{
    free(s->span);
    free(s->level);
    free(s->hold);
    *s = (ebb_simulation_t){0};
}

uint64_t ebb_simulate_ns(const ebb_plan_t *p, const ebb_trace_t *t, const ebb_hardware_t *hardware)
{
    ebb_simulation_t s;
    return ebb_simulate(&s, p, t, hardware, false) ? (uint64_t)s.step_ns + 1 : 0;
}

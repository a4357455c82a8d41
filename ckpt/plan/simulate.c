/* simulate.c: the host's threads, the program's streams and the link as queues. Host and streams go on in one pass over the step; the
 * link is followed behind them (simulate_link.c): with one stream no further than to the moment that it has reached. */
#include "simulate_parts.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "levels.h"

const char *const ebb_lane_word[EBB_LANES] = {"operation", "replay",  "out",   "in",
                                              "wait_out",  "wait_in", "check", "wait_host"};

enum { HOSTS = 64 };

typedef struct clocks {
    const ebb_plan_t *plan;
    const ebb_trace_t *trace;
    const ebb_hardware_t *hardware;
    ebb_simulation_t *out;
    bool in_detail, counts, failed;
    uint32_t streams;                 /* the program's */
    double compute[EBB_PLAN_STREAMS]; /* when they have done what they were given */
    double *event;      /* [moments]: when what an event of this step was recorded behind has ended */
    double host[HOSTS]; /* how far the program's threads are, as far as they have been told apart */
    uint32_t thread;    /* that issues now */
    uint32_t next_moment;
    double begin; /* of the step */
    ebb_link_state_t link;
    ebb_action_price_t *price;
    double *end, *end_before;     /* per action: when it ended in this step and the one before */
    uint32_t *joins, *first_join; /* actions by the operation that joins them */
} clocks_t;

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* False: not asked for, or no memory. */
static bool add_span(clocks_t *c, ebb_lane_t lane, uint32_t index, double begin, double end)
{
    if (!c->in_detail)
        return false;
    ebb_span_t *s =
        ebb_array_append((void **)&c->out->span, &c->out->span_count, &c->out->span_room, sizeof *s);
    if (s)
        *s = (ebb_span_t){lane, index, begin - c->begin, end - c->begin};
    c->failed |= !s;
    return s != NULL;
}

/* Of compute. */
static void spend(clocks_t *c, ebb_lane_t lane, uint32_t index, double begin, double end)
{
    c->out->lane_ns[lane] += end - begin;
    add_span(c, lane, index, begin, end);
}

/* ---- compute ---- */

/* The stream is at work for `ns` of its own time. */
static void work(clocks_t *c, uint32_t stream, ebb_lane_t lane, uint32_t index, double ns)
{
    const double slowdown = c->hardware->slowdown;
    double *now = &c->compute[stream];
    const double begin = *now;
    double left = ns;
    if (slowdown <= 0)
        *now += ns;
    while (slowdown > 0 && left > 0) {
        ebb_link_follow(&c->link, *now);
        const double until = later(ebb_link_next(&c->link), *now);
        const double rate = 1 / (1 + slowdown * ebb_link_busy(&c->link)), done = (until - *now) * rate;
        if (until <= *now) { /* another stream has followed the link beyond */
            *now += left / rate;
            break;
        }
        *now = done < left ? until : *now + left / rate;
        left = done < left ? left - done : 0;
    }
    spend(c, lane, index, begin, *now);
    c->out->slowed_ns += *now - begin - ns;
    c->out->lane_ns[lane] -= *now - begin - ns;
}

static void wait_for(clocks_t *c, uint32_t stream, uint32_t action, double end)
{
    if (end <= c->compute[stream])
        return;
    spend(c, c->plan->action[action].kind == EBB_EVICT ? EBB_LANE_WAIT_OUT : EBB_LANE_WAIT_IN, action,
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

/* ---- the program's order ---- */

static double *host_of(clocks_t *c, uint32_t thread)
{
    return &c->host[thread < HOSTS ? thread : HOSTS - 1];
}

static void call(clocks_t *c, double calls)
{
    *host_of(c, c->thread) += calls * c->hardware->call_ns;
}

/* A stream has nothing to do before its thread has issued it. */
static void issue(clocks_t *c, uint32_t stream, uint32_t index)
{
    const double host = *host_of(c, c->thread);
    if (host <= c->compute[stream])
        return;
    if (c->streams == 1) /* of several it is not known what the others do meanwhile */
        spend(c, EBB_LANE_WAIT_HOST, index, c->compute[stream], host);
    c->compute[stream] = host;
}

static void pass_moment(clocks_t *c, const ebb_trace_moment_t *m)
{
    const bool known = m->id < c->trace->moment_count, streams = m->stream < c->streams;
    double *host = host_of(c, m->thread);
    c->thread = m->thread;
    if (m->what != EBB_MOMENT_ALLOC && m->what != EBB_MOMENT_FREE)
        call(c, 1);
    switch (m->what) {
    case EBB_MOMENT_RECORD:
        if (known && streams)
            c->event[m->id] = later(c->compute[m->stream], *host);
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

/* Up to an operation. */
static void pass_moments(clocks_t *c, uint32_t operation)
{
    const ebb_trace_t *t = c->trace;
    for (; c->next_moment < t->moment_count && t->moment[c->next_moment].before <= operation;
         c->next_moment++)
        pass_moment(c, &t->moment[c->next_moment]);
    if (operation < t->operation_count)
        c->thread = t->operation[operation].thread;
}

static void meet(clocks_t *c)
{
    const double end = end_of(c, UINT32_MAX);
    for (uint32_t s = 0; s < c->streams; s++)
        c->compute[s] = end;
    memset(c->event, 0, c->trace->moment_count * sizeof *c->event);
    c->next_moment = 0;
    c->begin = end;
}

/* A copy of the program's between host and device: out if it reads memory of the device. */
static bool uses_link(const clocks_t *c, const ebb_trace_operation_t *o, int *way)
{
    *way = !(o->access_count && c->trace->access[o->first_access].mode == EBB_READS);
    return o->kind == EBB_TRACE_COPY && o->verdict == EBB_HOST && c->streams == 1;
}

static void operation(clocks_t *c, uint32_t index)
{
    const ebb_trace_operation_t *o = &c->trace->operation[index];
    const uint32_t stream = stream_of(c, index);
    const double ns = (double)o->duration_ns;
    int way;
    call(c, 1);
    issue(c, stream, index);
    if (!uses_link(c, o, &way)) {
        work(c, stream, EBB_LANE_OPERATION, index, ns);
        return;
    }
    double *now = &c->compute[stream];
    ebb_link_follow(&c->link, *now);
    const double end = ebb_link_use(&c->link, way, ns), begin = later(end - ns, *now);
    if (begin > *now)
        spend(c, EBB_LANE_WAIT_HOST, index, *now, begin);
    spend(c, EBB_LANE_OPERATION, index, begin, end);
    *now = end;
}

/* ---- actions ---- */

static void copy(clocks_t *c, uint32_t index)
{
    const ebb_action_t *a = &c->plan->action[index];
    const int in = a->kind == EBB_FETCH;
    const ebb_hardware_t *h = c->hardware;
    ebb_way_t *w = &c->link.way[in];
    c->end[index] = EBB_NOT_YET;
    w->copy[w->count++] = (ebb_copy_t){
        .ready = later(end_of(c, a->after), *host_of(c, c->thread)),
        .left = (in ? h->in_ns : h->out_ns) +
                ebb_copy_ns(c->plan->place[a->place].bytes, in ? h->in_bytes_per_ns : h->out_bytes_per_ns),
        .end_now = c->end,
        .end_before = c->end_before,
        .end = &c->end[index],
        .action = index,
        .span = add_span(c, in ? EBB_LANE_IN : EBB_LANE_OUT, index, 0, 0) ? c->out->span_count - 1
                                                                          : EBB_TRACE_NEVER,
        .counts = c->counts};
}

static void check(clocks_t *c, uint32_t index, uint32_t stream)
{
    if (c->price[index].check_ns <= 0)
        return;
    issue(c, stream, index);
    work(c, stream, EBB_LANE_CHECK, index, c->price[index].check_ns);
}

static void run_action(clocks_t *c, uint32_t index)
{
    const ebb_action_t *a = &c->plan->action[index];
    double *now = &c->compute[a->stream];
    call(c, c->price[index].calls);
    if (a->kind == EBB_REPLAY || a->kind == EBB_ORDER)
        *now = later(*now, end_of(c, a->after));
    if (a->kind == EBB_EVICT || a->kind == EBB_FETCH)
        copy(c, index);
    if (a->kind == EBB_REPLAY) {
        issue(c, a->stream, index);
        work(c, a->stream, EBB_LANE_REPLAY, index, c->price[index].replay_ns);
    }
    check(c, index, a->stream);
}

/* Events around the waits, and two calls that ask what they were. */
enum { JOIN_CALLS = 4 };

static void join(clocks_t *c, uint32_t operation)
{
    const ebb_plan_t *p = c->plan;
    const uint32_t first = c->first_join[operation], last = c->first_join[operation + 1];
    if (first < last)
        call(c, JOIN_CALLS + last - first);
    for (uint32_t k = first; k < last; k++) {
        const uint32_t a = c->joins[k];
        ebb_link_follow(&c->link, c->compute[stream_of(c, operation)]);
        const double end =
            ebb_link_wait(&c->link, p->action[a].point <= operation ? &c->end[a] : &c->end_before[a]);
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
        pass_moments(c, i);
        if (!i && c->hardware->call_ns > 0) { /* it begins with what the host issues first */
            c->compute[stream_of(c, 0)] = later(c->begin, *host_of(c, c->thread));
            c->begin = c->compute[stream_of(c, 0)];
        }
        for (; action < p->action_count && p->action[action].point == i; action++)
            run_action(c, action);
        if (i == p->operation_count)
            return;
        join(c, i);
        operation(c, i);
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
    c->price = ebb_simulate_prices(c->plan, c->trace, c->hardware);
    c->event = calloc((size_t)c->trace->moment_count + 1, sizeof *c->event);
    bool good = c->end && c->end_before && c->joins && c->first_join && c->price && c->event;
    for (int i = 0; i < 2; i++) {
        c->link.way[i].copy = calloc(STEPS * actions, sizeof *c->link.way[i].copy);
        good = good && c->link.way[i].copy;
    }
    return good;
}

bool ebb_simulate(ebb_simulation_t *out, const ebb_plan_t *p, const ebb_trace_t *t,
                  const ebb_hardware_t *hardware, bool in_detail)
{
    clocks_t c = {.plan = p, .trace = t, .hardware = hardware, .out = out, .streams = streams_of(t)};
    c.link = (ebb_link_state_t){.plan = p, .hardware = hardware, .out = out};
    *out = (ebb_simulation_t){0};
    bool good = allocate(&c);
    if (good)
        sort_joins(&c);
    for (int i = 0; good && i < STEPS; i++) {
        double *swap = c.end;
        c.end = c.end_before;
        c.end_before = swap;
        *out = (ebb_simulation_t){0};
        c.counts = i + 1 == STEPS;
        c.in_detail = in_detail && c.counts;
        run_step(&c);
    }
    good = good && !c.failed;
    if (good) /* what goes on in the next step, as if that had no copies of its own */
        ebb_link_end(&c.link);
    if (good)
        sum_up(&c);
    if (good && in_detail)
        good = ebb_simulate_levels(out, p, t);
    free(c.end);
    free(c.end_before);
    free(c.joins);
    free(c.first_join);
    free(c.price);
    free(c.event);
    for (int i = 0; i < 2; i++)
        free(c.link.way[i].copy);
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
        issue(&c, stream_of(&c, i), i);
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

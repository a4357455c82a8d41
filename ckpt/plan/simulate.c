/* simulate.c: the host's threads, compute and the link as queues, where the program has one stream (several: simulate_streams.c). Host
 * and compute go on in one pass over the step; the link is followed behind them (simulate_link.c), no further than to the moment that
 * compute has reached. */
#include "ckpt/plan/simulate_parts.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/array.h"
#include "ckpt/plan/levels.h"

const char *const ebb_lane_word[EBB_LANES] = {"operation", "replay",  "out",   "in",
                                              "wait_out",  "wait_in", "check", "wait_host"};

enum { HOSTS = 64 };

typedef struct clocks {
    const ebb_plan_t *plan;
    const ebb_trace_t *trace;
    const ebb_hardware_t *hardware;
    ebb_simulation_t *out;
    bool in_detail, counts, failed;
    double compute;     /* when it has done what it was given */
    double *event;      /* [moments]: when what an event of this step was recorded behind has ended */
    double host[HOSTS]; /* how far the program's threads are, as far as they have been told apart */
    uint32_t thread;    /* that issues now */
    uint32_t next_moment;
    double begin; /* of the step */
    ebb_link_state_t link;
    ebb_action_price_t *price;
    double *end, *end_before; /* per action: when it ended in this step and the one before */
    ebb_joins_t joins;
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

/* It is at work for `ns` of its own time. */
static void work(clocks_t *c, ebb_lane_t lane, uint32_t index, double ns)
{
    const double slowdown = c->hardware->slowdown, begin = c->compute;
    double left = ns;
    if (slowdown <= 0)
        c->compute += ns;
    while (slowdown > 0 && left > 0) {
        ebb_link_follow(&c->link, c->compute);
        const double until = later(ebb_link_next(&c->link), c->compute);
        const double rate = 1 / (1 + slowdown * ebb_link_busy(&c->link)), done = (until - c->compute) * rate;
        c->compute = done < left ? until : c->compute + left / rate;
        left = done < left ? left - done : 0;
    }
    spend(c, lane, index, begin, c->compute);
    c->out->slowed_ns += c->compute - begin - ns;
    c->out->lane_ns[lane] -= c->compute - begin - ns;
}

static void wait_for(clocks_t *c, uint32_t action, double end)
{
    if (end <= c->compute)
        return;
    spend(c, c->plan->action[action].kind == EBB_EVICT ? EBB_LANE_WAIT_OUT : EBB_LANE_WAIT_IN, action,
          c->compute, end);
    c->compute = end;
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

/* There is nothing to do before the thread has issued it. */
static void issue(clocks_t *c, uint32_t index)
{
    const double host = *host_of(c, c->thread);
    if (host <= c->compute)
        return;
    spend(c, EBB_LANE_WAIT_HOST, index, c->compute, host);
    c->compute = host;
}

static void pass_moment(clocks_t *c, const ebb_trace_moment_t *m)
{
    const bool known = m->id < c->trace->moment_count;
    double *host = host_of(c, m->thread);
    c->thread = m->thread;
    if (m->what != EBB_MOMENT_ALLOC && m->what != EBB_MOMENT_FREE)
        call(c, 1);
    if (m->what == EBB_MOMENT_RECORD && known)
        c->event[m->id] = later(c->compute, *host);
    else if (m->what == EBB_MOMENT_WAIT && known)
        c->compute = later(c->compute, c->event[m->id]);
    else if (m->what == EBB_MOMENT_SYNC_EVENT && known)
        *host = later(*host, c->event[m->id]);
    else if (m->what == EBB_MOMENT_SYNC_STREAM || m->what == EBB_MOMENT_SYNC_DEVICE)
        *host = later(*host, c->compute);
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

bool ebb_simulate_uses_link(const ebb_trace_t *t, const ebb_trace_operation_t *o, int *way)
{
    *way = !(o->access_count && t->access[o->first_access].mode == EBB_READS);
    return o->kind == EBB_TRACE_COPY && o->verdict == EBB_HOST;
}

static void operation(clocks_t *c, uint32_t index)
{
    const ebb_trace_operation_t *o = &c->trace->operation[index];
    const double ns = (double)o->duration_ns;
    int way;
    call(c, 1);
    issue(c, index);
    if (!ebb_simulate_uses_link(c->trace, o, &way)) {
        work(c, EBB_LANE_OPERATION, index, ns);
        return;
    }
    ebb_link_follow(&c->link, c->compute);
    const double end = ebb_link_use(&c->link, way, ns), begin = later(end - ns, c->compute);
    if (begin > c->compute)
        spend(c, EBB_LANE_WAIT_HOST, index, c->compute, begin);
    spend(c, EBB_LANE_OPERATION, index, begin, end);
    c->compute = end;
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
        .ready = later(c->compute, *host_of(c, c->thread)),
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

static void run_action(clocks_t *c, uint32_t index)
{
    const ebb_action_t *a = &c->plan->action[index];
    const ebb_action_price_t *price = &c->price[index];
    call(c, price->calls);
    if (a->kind == EBB_EVICT || a->kind == EBB_FETCH)
        copy(c, index);
    if (a->kind == EBB_REPLAY) {
        issue(c, index);
        work(c, EBB_LANE_REPLAY, index, price->replay_ns);
    }
    if (price->check_ns <= 0)
        return;
    issue(c, index);
    work(c, EBB_LANE_CHECK, index, price->check_ns);
}

static void join(clocks_t *c, uint32_t operation)
{
    const uint32_t first = c->joins.first[operation], last = c->joins.first[operation + 1];
    if (first < last)
        call(c, EBB_JOIN_CALLS + last - first);
    for (uint32_t k = first; k < last; k++) {
        const uint32_t a = c->joins.action[k];
        ebb_link_follow(&c->link, c->compute);
        wait_for(
            c, a,
            ebb_link_wait(&c->link, c->plan->action[a].point <= operation ? &c->end[a] : &c->end_before[a]));
    }
}

static void run_step(clocks_t *c)
{
    const ebb_plan_t *p = c->plan;
    uint32_t action = 0;
    memset(c->event, 0, c->trace->moment_count * sizeof *c->event);
    c->next_moment = 0;
    c->begin = c->compute;
    for (uint32_t i = 0; i <= p->operation_count; i++) {
        pass_moments(c, i);
        if (!i && c->hardware->call_ns > 0) /* it begins with what the host issues first */
            c->begin = c->compute = later(c->begin, *host_of(c, c->thread));
        for (; action < p->action_count && p->action[action].point == i; action++)
            run_action(c, action);
        if (i == p->operation_count)
            return;
        join(c, i);
        operation(c, i);
    }
}

/* ---- all of it ---- */

bool ebb_simulate_joins(ebb_joins_t *out, const ebb_plan_t *p)
{
    out->action = calloc((size_t)p->action_count + 1, sizeof *out->action);
    out->first = calloc((size_t)p->operation_count + 3, sizeof *out->first);
    if (!out->action || !out->first)
        return false;
    for (uint32_t i = 0; i < p->action_count; i++)
        if (p->action[i].join < p->operation_count)
            out->first[p->action[i].join + 2]++;
    for (uint32_t i = 0; i < p->operation_count; i++)
        out->first[i + 2] += out->first[i + 1];
    for (uint32_t i = 0; i < p->action_count; i++) /* entry i + 1 goes from list i's beginning to its end */
        if (p->action[i].join < p->operation_count)
            out->action[out->first[p->action[i].join + 1]++] = i;
    return true;
}

enum { STEPS = 3 };

static bool allocate(clocks_t *c)
{
    const size_t actions = (size_t)c->plan->action_count + 1;
    c->end = calloc(actions, sizeof *c->end);
    c->end_before = calloc(actions, sizeof *c->end_before);
    c->price = ebb_simulate_prices(c->plan, c->trace, c->hardware);
    c->event = calloc((size_t)c->trace->moment_count + 1, sizeof *c->event);
    bool good = ebb_simulate_joins(&c->joins, c->plan) && c->end && c->end_before && c->price && c->event;
    for (int i = 0; i < 2; i++) {
        c->link.way[i].copy = calloc(STEPS * actions, sizeof *c->link.way[i].copy);
        good = good && c->link.way[i].copy;
    }
    return good;
}

static bool simulate_stream(ebb_simulation_t *out, const ebb_plan_t *p, const ebb_trace_t *t,
                            const ebb_hardware_t *hardware, bool in_detail)
{
    clocks_t c = {.plan = p, .trace = t, .hardware = hardware, .out = out};
    c.link = (ebb_link_state_t){.plan = p, .hardware = hardware, .out = out};
    bool good = allocate(&c);
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
    out->step_ns = c.compute - c.begin;
    free(c.end);
    free(c.end_before);
    free(c.joins.action);
    free(c.joins.first);
    free(c.price);
    free(c.event);
    for (int i = 0; i < 2; i++)
        free(c.link.way[i].copy);
    return good;
}

/* Where there are more than a plan can be of, all are one. */
static bool has_streams(const ebb_trace_t *t)
{
    const uint32_t streams = ebb_plan_streams(t);
    return streams > 1 && streams <= EBB_PLAN_STREAMS;
}

bool ebb_simulate(ebb_simulation_t *out, const ebb_plan_t *p, const ebb_trace_t *t,
                  const ebb_hardware_t *hardware, bool in_detail)
{
    *out = (ebb_simulation_t){0};
    bool good = (has_streams(t) ? ebb_simulate_streams : simulate_stream)(out, p, t, hardware, in_detail);
    /* What of the step's copies ran while compute was at work: by waiting for it nothing was hidden. */
    const double copies = out->lane_ns[EBB_LANE_OUT] + out->lane_ns[EBB_LANE_IN],
                 exposed = out->lane_ns[EBB_LANE_WAIT_OUT] + out->lane_ns[EBB_LANE_WAIT_IN];
    out->hidden_ns = copies > exposed ? copies - exposed : 0;
    out->alone_ns = has_streams(t) ? ebb_simulate_alone_ns(t) : out->lane_ns[EBB_LANE_OPERATION];
    out->peak_bytes = p->chunk_count * p->chunk_bytes + p->small_bytes;
    if (good && in_detail)
        good = ebb_simulate_levels(out, p, t);
    if (!good)
        ebb_simulation_delete(out);
    return good;
}

double ebb_simulate_alone_ns(const ebb_trace_t *t)
{
    static const ebb_hardware_t any = {.out_bytes_per_ns = 1, .in_bytes_per_ns = 1};
    ebb_simulation_t alone;
    double ns = 0;
    if (has_streams(t))
        return ebb_simulate_streams(&alone, NULL, t, &any, false) ? alone.step_ns : 0;
    for (uint32_t i = 0; i < t->operation_count; i++)
        ns += (double)t->operation[i].duration_ns;
    return ns;
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

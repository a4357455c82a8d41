/* simulate.c: the three streams as queues. A copy's times are known when it is issued, and copies that are issued later begin
 * later than all compute before: so compute goes on in one pass, also where copies slow it down. */
#include "simulate.h"

#include "array.h"
#include "levels.h"

const char *const ebb_lane_word[EBB_LANES] = {"operation", "replay", "out", "in", "wait_out", "wait_in"};

/* A direction's copies that may still run, in order. */
typedef struct busy {
    double *begin, *end;
    uint32_t first, count;
} busy_t;

typedef struct clocks {
    const ebb_plan_t *plan;
    const ebb_trace_t *trace;
    const ebb_hardware_t *hardware;
    ebb_simulation_t *out;
    bool in_detail, failed;
    double compute, stream[2];    /* when they have done what they were given; streams: out, in */
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

/* How many directions copy at a moment, and until when that stays so. */
static int copying(clocks_t *c, double now, double *until)
{
    int directions = 0;
    *until = 1e300;
    for (int i = 0; i < 2; i++) {
        busy_t *b = &c->busy[i];
        while (b->first < b->count && b->end[b->first] <= now)
            b->first++;
        if (b->first == b->count)
            continue;
        const bool now_busy = b->begin[b->first] <= now;
        const double change = now_busy ? b->end[b->first] : b->begin[b->first];
        directions += now_busy;
        *until = change < *until ? change : *until;
    }
    return directions;
}

/* Compute is at work for `ns` of its own time. */
static void work(clocks_t *c, ebb_lane_t lane, uint32_t index, double ns)
{
    const double begin = c->compute;
    double left = ns;
    if (c->hardware->slowdown <= 0)
        c->compute += ns;
    while (c->hardware->slowdown > 0 && left > 0) {
        double until;
        const double rate = 1 / (1 + c->hardware->slowdown * copying(c, c->compute, &until));
        const double done = (until - c->compute) * rate;
        c->compute = done < left ? until : c->compute + left / rate;
        left = done < left ? left - done : 0;
    }
    add_span(c, lane, index, begin, c->compute);
    c->out->slowed_ns += c->compute - begin - ns;
    c->out->lane_ns[lane] -= c->compute - begin - ns;
}

static void wait_for(clocks_t *c, uint32_t action, double end)
{
    if (end <= c->compute)
        return;
    add_span(c, c->plan->action[action].kind == EBB_EVICT ? EBB_LANE_WAIT_OUT : EBB_LANE_WAIT_IN, action,
             c->compute, end);
    c->compute = end;
}

/* ---- actions ---- */

static void copy(clocks_t *c, uint32_t index)
{
    const ebb_action_t *a = &c->plan->action[index];
    const int in = a->kind == EBB_FETCH;
    double begin = later(c->stream[in], c->compute);
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
    work(c, EBB_LANE_REPLAY, index, ns);
}

static void run_action(clocks_t *c, uint32_t index)
{
    const ebb_action_t *a = &c->plan->action[index];
    if (a->kind == EBB_REPLAY)
        replay(c, index);
    else if (a->kind != EBB_DISCARD)
        copy(c, index);
}

static void run_step(clocks_t *c)
{
    const ebb_plan_t *p = c->plan;
    uint32_t action = 0;
    c->begin = c->compute;
    for (uint32_t i = 0; i <= p->operation_count; i++) {
        for (; action < p->action_count && p->action[action].point == i; action++)
            run_action(c, action);
        if (i == p->operation_count)
            return;
        for (uint32_t k = c->first_join[i]; k < c->first_join[i + 1]; k++) {
            const uint32_t a = c->joins[k];
            wait_for(c, a, p->action[a].point <= i ? c->end[a] : c->end_before[a]);
        }
        work(c, EBB_LANE_OPERATION, i, (double)c->trace->operation[i].duration_ns);
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
    s->step_ns = c->compute - c->begin;
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
    bool good = c->end && c->end_before && c->joins && c->first_join && c->first_touch;
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
    clocks_t c = {.plan = p, .trace = t, .hardware = hardware, .out = out};
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
    for (int i = 0; i < 2; i++) {
        free(c.busy[i].begin);
        free(c.busy[i].end);
    }
    if (!good)
        ebb_simulation_delete(out);
    return good;
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

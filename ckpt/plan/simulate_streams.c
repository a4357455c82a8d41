/* simulate_streams.c: a program of several streams: what its host issues to whom and when, and what the runner (drive/) issues beside
 * it, call by call; the device works it off (simulate_engines.c). */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/array.h"
#include "ckpt/plan/simulate_parts.h"

enum { HOSTS = 64, STEPS = 3 };

/* Calls of the driver: an event recorded and waited for; how long something took two steps ago; the clock of steps at their
 * beginning. */
enum { TURN_CALLS = 2, ASK_CALLS = 2, CLOCK_CALLS = 3 };

typedef struct issue {
    const ebb_plan_t *plan; /* NULL: none, and nothing but the program is at work */
    const ebb_trace_t *trace;
    const ebb_hardware_t *hardware;
    const ebb_action_price_t *price;
    const ebb_joins_t *joins;
    uint32_t streams; /* the program's; then out, then in */
    uint32_t first;   /* of them: that of operation 0, on which steps begin and end */
    ebb_engines_t device;
    uint32_t *event;    /* [moments]: the task that it was recorded behind in this step, or NEVER */
    uint32_t *copy;     /* [actions]: its task, the one before until it is issued, or NEVER */
    double host[HOSTS]; /* how far the program's threads are, as far as they have been told apart */
    double last;        /* call of any: they come in the order of the trace */
    uint32_t thread;    /* that issues now */
    uint32_t next_moment;
    uint32_t first_task, begun,
        ended; /* of the step under way; the last two: NEVER, or where its clock was read */
} issue_t;

/* ---- the host ---- */

static double *host_of(issue_t *s, uint32_t thread)
{
    return &s->host[thread < HOSTS ? thread : HOSTS - 1];
}

static void call(issue_t *s, double calls)
{
    double *host = host_of(s, s->thread);
    s->last = (*host > s->last ? *host : s->last) + calls * s->hardware->call_ns;
    *host = s->last;
}

static void sync(issue_t *s, uint32_t task)
{
    double *host = host_of(s, s->thread);
    if (task == EBB_TRACE_NEVER)
        return;
    ebb_engines_run(&s->device, task);
    const double end = s->device.task[task].end;
    *host = end > *host && end < EBB_NOT_YET ? end : *host;
}

/* ---- what it issues ---- */

static uint32_t add(issue_t *s, uint32_t queue, ebb_engine_t engine, double work, ebb_lane_t lane,
                    uint32_t index)
{
    return ebb_engines_add(&s->device, (ebb_task_t){.queue = queue,
                                                    .engine = engine,
                                                    .after = EBB_TRACE_NEVER,
                                                    .issued = s->last,
                                                    .work = work,
                                                    .lane = lane,
                                                    .index = index});
}

static void add_wait(issue_t *s, uint32_t queue, uint32_t after, ebb_lane_t lane, uint32_t index)
{
    if (after != EBB_TRACE_NEVER)
        ebb_engines_add(&s->device, (ebb_task_t){.queue = queue,
                                                 .engine = EBB_ENGINE_NONE,
                                                 .after = after,
                                                 .issued = s->last,
                                                 .lane = lane,
                                                 .index = index});
}

/* For everything that these of the program's streams have been given so far. */
static void wait_for_streams(issue_t *s, uint32_t queue, uint32_t after)
{
    for (uint32_t k = 0; k < s->streams; k++) {
        if (!(after >> k & 1) || k == queue)
            continue;
        call(s, TURN_CALLS);
        add_wait(s, queue, s->device.newest[k], EBB_NO_LANE, 0);
    }
}

static void gather(issue_t *s)
{
    wait_for_streams(s, s->first, UINT32_MAX);
}

/* All others, copies too. */
static void scatter(issue_t *s)
{
    for (uint32_t q = 0; q < s->streams + 2; q++)
        if (q != s->first)
            wait_for_streams(s, q, UINT32_C(1) << s->first);
}

static void pass_moment(issue_t *s, const ebb_trace_moment_t *m)
{
    const bool known = m->id < s->trace->moment_count, stream = m->stream < s->streams;
    s->thread = m->thread;
    if (m->what != EBB_MOMENT_ALLOC && m->what != EBB_MOMENT_FREE)
        call(s, 1);
    if (m->what == EBB_MOMENT_RECORD && known && stream)
        s->event[m->id] = s->device.newest[m->stream];
    else if (m->what == EBB_MOMENT_WAIT && known && stream)
        add_wait(s, m->stream, s->event[m->id], EBB_NO_LANE, 0);
    else if (m->what == EBB_MOMENT_SYNC_EVENT && known)
        sync(s, s->event[m->id]);
    for (uint32_t k = 0; k < s->streams; k++)
        if (m->what == EBB_MOMENT_SYNC_DEVICE || (m->what == EBB_MOMENT_SYNC_STREAM && k == m->stream))
            sync(s, s->device.newest[k]);
}

static void pass_moments(issue_t *s, uint32_t operation)
{
    const ebb_trace_t *t = s->trace;
    while (s->next_moment < t->moment_count && t->moment[s->next_moment].before <= operation)
        pass_moment(s, &t->moment[s->next_moment++]);
    if (operation < t->operation_count)
        s->thread = t->operation[operation].thread;
}

static void operation(issue_t *s, uint32_t index)
{
    const ebb_trace_operation_t *o = &s->trace->operation[index];
    int way;
    const bool link = ebb_simulate_uses_link(s->trace, o, &way);
    call(s, 1);
    add(s, o->stream, link ? EBB_ENGINE_OUT + (ebb_engine_t)way : EBB_ENGINE_COMPUTE, (double)o->duration_ns,
        EBB_LANE_OPERATION, index);
}

/* ---- actions ---- */

static void copy(issue_t *s, uint32_t index)
{
    const ebb_action_t *a = &s->plan->action[index];
    const ebb_hardware_t *h = s->hardware;
    const int in = a->kind == EBB_FETCH;
    const uint32_t queue = s->streams + (uint32_t)in;
    call(s, ASK_CALLS);
    wait_for_streams(s, queue, a->after);
    for (uint32_t i = a->first_wait; i < a->first_wait + a->wait_count; i++) {
        call(s, 1);
        add_wait(s, queue, s->copy[s->plan->wait[i]], EBB_NO_LANE, 0);
    }
    call(s, 2); /* an event, the copy */
    s->copy[index] =
        add(s, queue, in ? EBB_ENGINE_IN : EBB_ENGINE_OUT,
            (in ? h->in_ns : h->out_ns) +
                ebb_copy_ns(s->plan->place[a->place].bytes, in ? h->in_bytes_per_ns : h->out_bytes_per_ns),
            in ? EBB_LANE_IN : EBB_LANE_OUT, index);
    call(s, 1); /* an event */
}

/* Hashes are taken on the first stream, with all others waiting. */
static void check(issue_t *s, uint32_t index)
{
    const ebb_action_price_t *price = &s->price[index];
    for (unsigned i = 0; i < price->checks; i++) {
        gather(s);
        call(s, 1);
        add(s, s->first, EBB_ENGINE_COMPUTE, price->check_ns / price->checks, EBB_LANE_CHECK, index);
        scatter(s);
    }
}

static void act(issue_t *s, uint32_t index)
{
    const ebb_action_t *a = &s->plan->action[index];
    const ebb_action_price_t *price = &s->price[index];
    switch (a->kind) {
    case EBB_EVICT:
    case EBB_FETCH:
        copy(s, index);
        break;
    case EBB_DISCARD:
        check(s, index);
        break;
    case EBB_ORDER:
        wait_for_streams(s, a->stream, a->after);
        break;
    default:
        wait_for_streams(s, a->stream, a->after);
        call(s, price->calls - price->checks); /* its own */
        add(s, a->stream, EBB_ENGINE_COMPUTE, price->replay_ns, EBB_LANE_REPLAY, index);
        check(s, index);
    }
}

/* Other streams first. */
static void join(issue_t *s, uint32_t operation)
{
    const ebb_joins_t *j = s->joins;
    const uint32_t own = s->trace->operation[operation].stream;
    bool own_waits = false;
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t k = j->first[operation]; k < j->first[operation + 1]; k++) {
            const uint32_t index = j->action[k];
            const ebb_action_t *a = &s->plan->action[index];
            for (uint32_t stream = 0; stream < s->streams; stream++) {
                if (!(a->joiners >> stream & 1) || (stream == own) != (turn == 1))
                    continue;
                call(s, 1 + (stream == own && !own_waits ? EBB_JOIN_CALLS : 0));
                own_waits |= stream == own;
                add_wait(s, stream, s->copy[index],
                         stream != own          ? EBB_NO_LANE
                         : a->kind == EBB_EVICT ? EBB_LANE_WAIT_OUT
                                                : EBB_LANE_WAIT_IN,
                         index);
            }
        }
}

/* ---- steps ---- */

static uint32_t read_clock(issue_t *s, double calls)
{
    call(s, calls);
    return add(s, s->first, EBB_ENGINE_NONE, 0, EBB_NO_LANE, 0);
}

static void begin_step(issue_t *s)
{
    gather(s);
    s->begun = read_clock(s, CLOCK_CALLS);
    scatter(s);
}

static void end_step(issue_t *s)
{
    gather(s);
    s->ended = read_clock(s, 1);
}

static void run_step(issue_t *s)
{
    const ebb_plan_t *p = s->plan;
    const uint32_t n = s->trace->operation_count;
    uint32_t action = 0;
    memset(s->event, 0xff, s->trace->moment_count * sizeof *s->event);
    s->next_moment = 0;
    s->first_task = s->device.task_count;
    for (uint32_t i = 0; i < n; i++) {
        pass_moments(s, i);
        if (!i && p)
            begin_step(s);
        for (; p && action < p->action_count && p->action[action].point == i; action++)
            act(s, action);
        if (p)
            join(s, i);
        operation(s, i);
    }
    for (; p && action < p->action_count; action++)
        act(s, action);
    if (p && n)
        end_step(s);
    pass_moments(s, n);
}

/* ---- what has come of it ---- */

static bool add_span(ebb_simulation_t *out, const ebb_task_t *t, double begin)
{
    ebb_span_t *span = ebb_array_append((void **)&out->span, &out->span_count, &out->span_room, sizeof *span);
    if (span)
        *span = (ebb_span_t){t->lane, t->index, t->begin - begin, t->end - begin};
    return span;
}

/* False: no memory. */
static bool tell(const issue_t *s, ebb_simulation_t *out, bool in_detail)
{
    const ebb_task_t *task = s->device.task;
    bool good = true;
    const double begin = s->plan && s->begun != EBB_TRACE_NEVER ? task[s->begun].end : 0;
    out->step_ns = (s->plan && s->ended != EBB_TRACE_NEVER ? task[s->ended].end : s->device.now) - begin;
    for (uint32_t i = s->first_task; i < s->device.task_count; i++) {
        const ebb_task_t *t = &task[i];
        const double ns = t->end - t->begin;
        if (t->lane == EBB_NO_LANE || t->end >= EBB_NOT_YET)
            continue;
        if (t->engine == EBB_ENGINE_COMPUTE)
            out->slowed_ns += ns - t->work;
        out->lane_ns[t->lane] += t->engine == EBB_ENGINE_COMPUTE ? t->work : ns;
        if (in_detail && (ns > 0 || t->engine != EBB_ENGINE_NONE))
            good &= add_span(out, t, begin);
    }
    return good;
}

bool ebb_simulate_streams(ebb_simulation_t *out, const ebb_plan_t *p, const ebb_trace_t *t,
                          const ebb_hardware_t *hardware, bool in_detail)
{
    issue_t s = {.plan = p,
                 .trace = t,
                 .hardware = hardware,
                 .streams = ebb_plan_streams(t),
                 .first = t->operation_count ? t->operation[0].stream : 0,
                 .begun = EBB_TRACE_NEVER,
                 .ended = EBB_TRACE_NEVER};
    const size_t actions = p ? p->action_count : 0;
    ebb_joins_t joins = {0};
    ebb_action_price_t *price = p ? ebb_simulate_prices(p, t, hardware) : NULL;
    s.event = malloc(((size_t)t->moment_count + 1) * sizeof *s.event);
    s.copy = malloc((actions + 1) * sizeof *s.copy);
    bool good = s.event && s.copy && (!p || (price && ebb_simulate_joins(&joins, p)));
    s.price = price;
    s.joins = &joins;
    ebb_engines_begin(&s.device, hardware, s.streams + 2);
    *out = (ebb_simulation_t){0};
    if (good)
        memset(s.copy, 0xff, (actions + 1) * sizeof *s.copy);
    for (int i = 0; good && i < (p ? STEPS : 1); i++)
        run_step(&s);
    if (good) /* what goes on in the next step, as if that had no copies of its own */
        ebb_engines_run(&s.device, EBB_TRACE_NEVER);
    good = good && !s.device.failed && tell(&s, out, in_detail);
    free(s.device.task);
    free(s.event);
    free(s.copy);
    free(joins.action);
    free(joins.first);
    free(price);
    return good;
}

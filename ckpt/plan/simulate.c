/* simulate.c: what the host issues to which stream and when: the program's operations, and what the runner (drive/) issues beside them, call
 * by call. The device works it off (engines.c).
 */
#include "ckpt/plan/internal.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"

const char *const ebb_track_word[EBB_TRACKS] = {"operation", "replay",  "out",   "in",
                                                "wait_out",  "wait_in", "check", "wait_host"};

enum { NO_TRACK = EBB_TRACKS }; /* nothing that is told */
enum { HOSTS = 64, STEPS = 3 };

/* Calls of the driver: an event recorded and waited for; how long something took two steps ago; the clock of steps at their
 * beginning; events before and behind the waits for copies before an operation, and two that ask what they were; a copy with an event
 * before and behind it. */
enum { TURN_CALLS = 2, ASK_CALLS = 2, CLOCK_CALLS = 3, JOIN_CALLS = 4, COPY_CALLS = 3 };

/* ---- what actions take of compute and of the host, beside the copies ---- */

typedef struct price {
    double replay_ns; /* a replay, with what it zeroes */
    double check_ns;  /* comparing what is recomputed, here or behind here */
    double calls;     /* of the driver, to issue all that, but for what streams have to meet for */
    unsigned checks;  /* hashes, */
    uint32_t stream;  /* on the one of the replay that they are for */
    uint32_t users;   /* streams that come before them, */
    uint32_t streams; /* and behind them */
    bool spared;      /* a copy out that hashes (check_ns), and copies nothing */
} price_t;

static double at_rate(double launch_ns, double bytes, double bytes_per_ns)
{
    return bytes_per_ns > 0 ? launch_ns + bytes / bytes_per_ns : 0;
}

double ebb_zero_ns(const ebb_hardware_t *h, uint64_t bytes)
{
    return at_rate(h->zero_ns, (double)bytes, h->zero_bytes_per_ns);
}

double ebb_hash_ns(const ebb_hardware_t *h, uint64_t bytes)
{
    return at_rate(h->hash_ns, (double)bytes, h->hash_bytes_per_ns);
}

double ebb_check_ns(const ebb_hardware_t *h, uint64_t bytes)
{
    return h->checked > 0 ? at_rate(h->hash_ns, (double)bytes * h->checked, h->hash_bytes_per_ns) : 0;
}

static void price_replay(price_t *price, const ebb_plan_t *p, const ebb_trace_t *t,
                         const uint32_t *first_touch, const ebb_action_t *a, const ebb_hardware_t *h)
{
    const ebb_trace_operation_t *o = &t->operation[a->operation];
    *price = (price_t){.replay_ns = (double)o->duration_ns, .calls = 1};
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        if (t->access[k].mode != EBB_REPLACES || !ebb_trace_is_first(t, a->operation, k))
            continue;
        const uint32_t place = ebb_plan_place(p, a, t->access[k].buffer);
        if (!p->place[place].chunk_count || first_touch[t->access[k].buffer] == a->operation)
            continue;
        price->replay_ns += ebb_zero_ns(h, p->place[place].bytes);
        price->calls++;
    }
}

/* A part of it is hashed when it is given up, and when it is there again. */
static void price_checks(price_t *price, const ebb_plan_t *p, const uint32_t *completion,
                         const uint32_t *users, const uint32_t *streams, const ebb_hardware_t *h)
{
    for (uint32_t i = 0; i < p->action_count; i++) {
        if (completion[i] == EBB_NONE)
            continue;
        const double hash = ebb_check_ns(h, p->place[p->action[i].place].bytes);
        price[i].stream = price[completion[i]].stream = p->action[completion[i]].stream;
        price[i].users |= users ? users[p->action[i].place] : 0;
        price[completion[i]].users |= price[i].users;
        price[i].streams |= streams ? streams[p->action[i].place] : 0;
        price[completion[i]].streams |= price[i].streams;
        price[i].check_ns += hash;
        price[i].calls++;
        price[i].checks++;
        price[completion[i]].check_ns += hash;
        price[completion[i]].calls++;
        price[completion[i]].checks++;
    }
}

/* False: no memory. */
static bool price_spared(price_t *price, const ebb_plan_t *p, const ebb_trace_t *t, const ebb_hardware_t *h)
{
    bool *spared = h->clean > 0 ? ebb_plan_spared(p, t) : NULL,
         *some = spared ? calloc((size_t)p->place_count + 1, 1) : NULL; /* [places]: copies out of it are */
    for (uint32_t i = 0; some && i < p->action_count; i++)
        if (spared[i])
            some[p->action[i].place] = true;
    for (uint32_t i = 0; some && i < p->action_count; i++) {
        const ebb_action_t *a = &p->action[i];
        price[i].spared = spared[i];
        if (a->kind == EBB_EVICT && some[a->place]) /* the others, too: for the next one */
            price[i].check_ns = ebb_hash_ns(h, p->place[a->place].bytes);
    }
    free(spared);
    free(some);
    return some || h->clean <= 0;
}

/* [actions], or NULL: no memory. */
static price_t *find_prices(const ebb_plan_t *p, const ebb_trace_t *t, const ebb_hardware_t *h, bool several)
{
    price_t *price = calloc((size_t)p->action_count + 1, sizeof *price);
    const bool hashed = h->checked > 0, ordered = hashed && several;
    uint32_t *completion = ebb_plan_completions(p, t), *first_touch = ebb_trace_first_touches(t),
             *users = ordered ? ebb_plan_place_streams(p, t, false) : NULL,
             *streams = ordered ? ebb_plan_place_streams(p, t, true) : NULL;
    const bool good = price && completion && first_touch && ((users && streams) || !ordered) &&
                      price_spared(price, p, t, h);
    for (uint32_t i = 0; good && i < p->action_count; i++)
        if (p->action[i].kind == EBB_REPLAY)
            price_replay(&price[i], p, t, first_touch, &p->action[i], h);
    if (good && hashed)
        price_checks(price, p, completion, users, streams, h);
    free(completion);
    free(first_touch);
    free(users);
    free(streams);
    if (good)
        return price;
    free(price);
    return NULL;
}

/* ---- what is waited for before an operation ---- */

typedef struct joins {
    uint32_t *action; /* by operation */
    uint32_t *first;  /* [operations + 1] into `action` */
} joins_t;

/* False: no memory. What is there is the caller's to free in any case. */
static bool find_joins(joins_t *out, const ebb_plan_t *p)
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

/* ---- the step as it is issued ---- */

typedef struct issue {
    const ebb_plan_t *plan; /* NULL: none, and nothing but the program is at work */
    const ebb_trace_t *trace;
    const ebb_hardware_t *hardware;
    const price_t *price;
    const joins_t *joins;
    uint32_t
        streams; /* the program's; then out, then in. One: all are, where there are more than a plan can be of */
    uint32_t first; /* of them: that of operation 0, on which steps begin and end */
    bool several;   /* streams; of one all calls for an action come before it */
    ebb_engines_t device;
    uint32_t *event;    /* [moments]: the task that it was recorded behind in this step, or EBB_NONE */
    uint32_t *copy;     /* [actions]: its task, the one before until it is issued, or EBB_NONE */
    double host[HOSTS]; /* how far the program's threads are, as far as they have been told apart */
    double last;        /* call of any: they come in the order of the trace */
    uint32_t thread;    /* that issues now */
    uint32_t next_sync;
    uint32_t first_task, begun,
        ended; /* of the step under way; the last two: EBB_NONE, or where its clock was read */
} issue_t;

/* ---- the host ---- */

static uint32_t stream_of(const issue_t *s, uint32_t stream)
{
    return s->several ? stream : 0;
}

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
    if (task == EBB_NONE)
        return;
    ebb_engines_run(&s->device, task);
    const double end = s->device.task[task].end;
    *host = end > *host && end < EBB_NOT_YET ? end : *host;
}

/* ---- what it issues ---- */

/* A block of what communicates has a multiprocessor to itself. */
static double part_taken(const issue_t *s, const ebb_trace_operation_t *o)
{
    const double blocks = (double)o->grid[0] * o->grid[1] * o->grid[2], all = s->hardware->multiprocessors;
    return all < 1 ? 0 : (blocks < all - 1 ? blocks : all - 1) / all;
}

static uint32_t add(issue_t *s, uint32_t queue, uint32_t engine, double work, uint32_t track, uint32_t index)
{
    const bool communicates = engine == EBB_ENGINE_COMMUNICATION;
    return ebb_engines_add(
        &s->device, &(ebb_task_t){.queue = (uint8_t)queue,
                                  .engine = (uint8_t)engine,
                                  .after = EBB_NONE,
                                  .issued = s->last,
                                  .work = work,
                                  .takes = communicates ? part_taken(s, &s->trace->operation[index]) : 0,
                                  .track = (uint8_t)track,
                                  .index = index});
}

/* Of one stream a wait for a copy counts before that for the host, which is told there. */
static void add_wait(issue_t *s, uint32_t queue, uint32_t after, uint32_t track, uint32_t index)
{
    if (after != EBB_NONE)
        ebb_engines_add(&s->device, &(ebb_task_t){.queue = (uint8_t)queue,
                                                  .engine = EBB_ENGINE_NONE,
                                                  .after = after,
                                                  .issued = s->several ? s->last : 0,
                                                  .track = (uint8_t)track,
                                                  .index = index});
}

/* For everything that these of the program's streams have been given so far. */
static void wait_for_streams(issue_t *s, uint32_t queue, uint32_t after)
{
    for (uint32_t k = 0; k < s->streams; k++) {
        if (!(after >> k & 1) || k == queue)
            continue;
        call(s, TURN_CALLS);
        add_wait(s, queue, s->device.newest[k], NO_TRACK, 0);
    }
}

/* These of the others, copies too, if there are several. */
static void scatter(issue_t *s, uint32_t stream, uint32_t streams)
{
    for (uint32_t q = 0; s->several && q < s->streams + 2; q++)
        if (q != stream && (q >= s->streams || streams >> q & 1))
            wait_for_streams(s, q, UINT32_C(1) << stream);
}

static void pass_sync(issue_t *s, const ebb_trace_sync_t *m)
{
    const uint32_t on = stream_of(s, m->stream);
    const bool known = m->id < s->trace->sync_count, stream = on < s->streams;
    s->thread = m->thread;
    if (m->what != EBB_SYNC_ALLOC && m->what != EBB_SYNC_FREE)
        call(s, 1);
    if (m->what == EBB_SYNC_RECORD && known && stream)
        s->event[m->id] = s->device.newest[on];
    else if (m->what == EBB_SYNC_WAIT && known && stream)
        add_wait(s, on, s->event[m->id], NO_TRACK, 0);
    else if (m->what == EBB_SYNC_SYNC_EVENT && known)
        sync(s, s->event[m->id]);
    for (uint32_t k = 0; k < s->streams; k++)
        if (m->what == EBB_SYNC_SYNC_DEVICE || (m->what == EBB_SYNC_SYNC_STREAM && k == on))
            sync(s, s->device.newest[k]);
}

static void pass_syncs(issue_t *s, uint32_t operation)
{
    const ebb_trace_t *t = s->trace;
    while (s->next_sync < t->sync_count && t->sync[s->next_sync].before <= operation)
        pass_sync(s, &t->sync[s->next_sync++]);
    if (operation < t->operation_count)
        s->thread = t->operation[operation].thread;
}

/* A copy between host and device is one out if it reads memory of the device. */
static uint32_t engine_of(const ebb_trace_t *t, const ebb_trace_operation_t *o)
{
    if (o->communicates)
        return EBB_ENGINE_COMMUNICATION;
    if (!ebb_trace_is_host_copy(o))
        return EBB_ENGINE_COMPUTE;
    return o->access_count && t->access[o->first_access].mode == EBB_READS ? EBB_ENGINE_OUT : EBB_ENGINE_IN;
}

static void operation(issue_t *s, uint32_t index)
{
    const ebb_trace_operation_t *o = &s->trace->operation[index];
    call(s, 1);
    add(s, stream_of(s, o->stream), engine_of(s->trace, o), (double)o->duration_ns, EBB_TRACK_OPERATION,
        index);
}

/* ---- actions ---- */

/* What is hashed instead of being copied takes the device from the program meanwhile: more than it does, as both only share the memory. */
static uint32_t add_copy(issue_t *s, uint32_t index, uint32_t queue)
{
    const ebb_action_t *a = &s->plan->action[index];
    const ebb_hardware_t *h = s->hardware;
    const bool in = a->kind == EBB_FETCH;
    if (s->price[index].check_ns > 0 || s->price[index].spared) {
        const uint32_t hashed =
            add(s, queue, EBB_ENGINE_COMPUTE, s->price[index].check_ns, EBB_TRACK_CHECK, index);
        if (s->price[index].spared)
            return hashed;
    }
    const double ns =
        ebb_copy_ns(s->plan->place[a->place].bytes, in ? h->in_bytes_per_ns : h->out_bytes_per_ns);
    return add(s, queue, in ? EBB_ENGINE_IN : EBB_ENGINE_OUT, ns + (in ? h->in_ns : h->out_ns),
               in ? EBB_TRACK_IN : EBB_TRACK_OUT, index);
}

static void copy(issue_t *s, uint32_t index)
{
    const ebb_action_t *a = &s->plan->action[index];
    const int in = a->kind == EBB_FETCH;
    const uint32_t queue = s->streams + (uint32_t)in;
    call(s, ASK_CALLS);
    wait_for_streams(s, queue, a->after);
    for (uint32_t i = a->first_wait; i < a->first_wait + a->wait_count; i++) {
        call(s, 1);
        add_wait(s, queue, s->copy[s->plan->wait[i]], NO_TRACK, 0);
    }
    call(s, COPY_CALLS - s->several);
    s->copy[index] = add_copy(s, index, queue);
    call(s, s->several); /* the event behind it */
}

/* As drive_verify.c has it. */
static void check(issue_t *s, uint32_t index)
{
    const price_t *price = &s->price[index];
    const unsigned parts = s->several ? price->checks : price->checks > 0;
    const uint32_t stream = stream_of(s, price->stream);
    for (unsigned i = 0; i < parts; i++) {
        wait_for_streams(s, stream, price->users);
        call(s, s->several);
        add(s, stream, EBB_ENGINE_COMPUTE, price->check_ns / parts, EBB_TRACK_CHECK, index);
        scatter(s, stream, price->streams);
    }
}

static void act(issue_t *s, uint32_t index)
{
    const ebb_action_t *a = &s->plan->action[index];
    const price_t *price = &s->price[index];
    switch (a->kind) {
    case EBB_EVICT:
    case EBB_FETCH:
        copy(s, index);
        break;
    case EBB_DISCARD:
        call(s, price->calls - (s->several ? price->checks : 0));
        check(s, index);
        break;
    case EBB_ORDER:
        wait_for_streams(s, a->stream, a->after);
        break;
    default:
        wait_for_streams(s, a->stream, a->after);
        call(s, price->calls - (s->several ? price->checks : 0));
        add(s, a->stream, EBB_ENGINE_COMPUTE, price->replay_ns, EBB_TRACK_REPLAY, index);
        check(s, index);
    }
}

/* Other streams first. */
static void join(issue_t *s, uint32_t operation)
{
    const joins_t *j = s->joins;
    const uint32_t own = stream_of(s, s->trace->operation[operation].stream);
    bool own_waits = false;
    for (uint32_t turn = 0; turn < 2 && j->first[operation] < j->first[operation + 1]; turn++)
        for (uint32_t k = j->first[operation]; k < j->first[operation + 1]; k++) {
            const uint32_t index = j->action[k];
            const ebb_action_t *a = &s->plan->action[index];
            for (uint32_t stream = 0; stream < s->streams; stream++) {
                if (!(a->joiners >> stream & 1) || (stream == own) != (turn == 1))
                    continue;
                call(s, 1 + (stream == own && !own_waits ? JOIN_CALLS : 0));
                own_waits |= stream == own;
                add_wait(s, stream, s->copy[index],
                         stream != own          ? NO_TRACK
                         : a->kind == EBB_EVICT ? EBB_TRACK_WAIT_OUT
                                                : EBB_TRACK_WAIT_IN,
                         index);
            }
        }
}

/* ---- steps ---- */

static uint32_t read_clock(issue_t *s, double calls)
{
    call(s, calls);
    return add(s, s->first, EBB_ENGINE_NONE, 0, NO_TRACK, 0);
}

/* Of one stream the clock's own calls are not counted, nor is the host behind the last task. */
static void begin_step(issue_t *s)
{
    wait_for_streams(s, s->first, UINT32_MAX);
    s->begun = read_clock(s, s->several ? CLOCK_CALLS : 0);
    scatter(s, s->first, UINT32_MAX);
}

static void end_step(issue_t *s)
{
    wait_for_streams(s, s->first, UINT32_MAX);
    s->ended = s->several ? read_clock(s, 1) : s->device.newest[s->first];
}

static void run_step(issue_t *s)
{
    const ebb_plan_t *p = s->plan;
    const uint32_t n = s->trace->operation_count;
    uint32_t action = 0;
    memset(s->event, 0xff, s->trace->sync_count * sizeof *s->event);
    s->next_sync = 0;
    s->first_task = s->device.task_count;
    for (uint32_t i = 0; i < n; i++) {
        pass_syncs(s, i);
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
    pass_syncs(s, n);
}

/* ---- what has come of it ---- */

typedef struct told {
    ebb_simulation_t *out;
    double begin; /* of the step */
    bool in_detail, failed;
} told_t;

static void tell_span(told_t *to, uint32_t track, uint32_t index, double begin, double end)
{
    ebb_simulation_t *out = to->out;
    if (!to->in_detail)
        return;
    ebb_span_t *span = ebb_array_append((void **)&out->span, &out->span_count, &out->span_room, sizeof *span);
    if (span)
        *span = (ebb_span_t){(ebb_track_t)track, index, begin - to->begin, end - to->begin};
    to->failed |= !span;
}

static void tell_task(told_t *to, const ebb_task_t *t)
{
    const double ns = t->end - t->begin;
    if (t->track == NO_TRACK)
        return;
    if (t->engine == EBB_ENGINE_COMPUTE)
        to->out->slowed_ns += ns - t->work;
    to->out->track_ns[t->track] += t->engine == EBB_ENGINE_COMPUTE ? t->work : ns;
    if (ns > 0 || t->engine != EBB_ENGINE_NONE)
        tell_span(to, t->track, t->index, t->begin, t->end);
}

/* Of one stream also what it waits for the host, or to be let onto the link. False: no memory. */
static bool tell(const issue_t *s, ebb_simulation_t *out, bool in_detail)
{
    const ebb_task_t *task = s->device.task;
    const double begin = s->begun != EBB_NONE ? task[s->begun].end : 0;
    told_t to = {.out = out, .begin = begin, .in_detail = in_detail};
    double before = begin; /* the end of the one before on that stream */
    out->step_ns = (s->ended != EBB_NONE ? task[s->ended].end : s->device.now) - begin;
    for (uint32_t i = s->first_task; i < s->device.task_count; i++) {
        const ebb_task_t *t = &task[i];
        if (t->end >= EBB_NOT_YET)
            continue;
        if (!s->several && t->queue == s->first && t->engine != EBB_ENGINE_NONE && t->begin > before) {
            out->track_ns[EBB_TRACK_WAIT_HOST] += t->begin - before;
            tell_span(&to, EBB_TRACK_WAIT_HOST, t->index, before, t->begin);
        }
        before = t->queue == s->first && t->end > before ? t->end : before;
        tell_task(&to, t);
    }
    return !to.failed;
}

/* Without a plan (NULL): what the step takes then. */
static bool simulate(ebb_simulation_t *out, const ebb_plan_t *p, const ebb_trace_t *t,
                     const ebb_hardware_t *hardware, bool in_detail)
{
    const uint32_t streams = ebb_plan_streams(t);
    issue_t s = {.plan = p,
                 .trace = t,
                 .hardware = hardware,
                 .streams = streams <= EBB_PLAN_STREAMS ? streams : 1,
                 .several = streams > 1 && streams <= EBB_PLAN_STREAMS,
                 .begun = EBB_NONE,
                 .ended = EBB_NONE};
    const size_t actions = p ? p->action_count : 0;
    joins_t joins = {0};
    price_t *price = p ? find_prices(p, t, hardware, s.several) : NULL;
    s.first = t->operation_count ? stream_of(&s, t->operation[0].stream) : 0;
    s.event = malloc(((size_t)t->sync_count + 1) * sizeof *s.event);
    s.copy = malloc((actions + 1) * sizeof *s.copy);
    bool good = s.event && s.copy && (!p || (price && find_joins(&joins, p)));
    s.price = price;
    s.joins = &joins;
    /* most actions have a wait in front and are waited for, where there is one stream */
    ebb_engines_begin(&s.device, hardware, s.streams + 2, STEPS * (t->operation_count + 3 * actions + 2));
    *out = (ebb_simulation_t){0};
    if (good)
        memset(s.copy, 0xff, (actions + 1) * sizeof *s.copy);
    for (int i = 0; good && i < (p ? STEPS : 1); i++)
        run_step(&s);
    if (good) /* what goes on in the next step, as if that had no copies of its own */
        ebb_engines_run(&s.device, EBB_NONE);
    good = good && !s.device.failed && tell(&s, out, in_detail);
    if (!good)
        ebb_simulation_delete(out);
    ebb_engines_end(&s.device);
    free(s.event);
    free(s.copy);
    free(joins.action);
    free(joins.first);
    free(price);
    return good;
}

static bool simulate_alone(ebb_simulation_t *out, const ebb_trace_t *t, bool in_detail)
{
    const ebb_hardware_t any = {
        .out_bytes_per_ns = 1, .in_bytes_per_ns = 1, .multiprocessors = t->hardware.multiprocessors};
    return simulate(out, NULL, t, &any, in_detail);
}

bool ebb_simulate(ebb_simulation_t *out, const ebb_plan_t *p, const ebb_trace_t *t,
                  const ebb_hardware_t *hardware, bool in_detail)
{
    if (!simulate(out, p, t, hardware, in_detail))
        return false;
    /* What of the step's copies ran while compute was at work: by waiting for it nothing was hidden. */
    const double copies = out->track_ns[EBB_TRACK_OUT] + out->track_ns[EBB_TRACK_IN],
                 exposed = out->track_ns[EBB_TRACK_WAIT_OUT] + out->track_ns[EBB_TRACK_WAIT_IN];
    out->hidden_ns = copies > exposed ? copies - exposed : 0;
    ebb_simulation_t alone;
    if (simulate_alone(&alone, t, false)) {
        out->alone_ns = alone.step_ns;
        /* By what communicates anyhow, but for as much of it as the plan has moved away from operations. */
        out->slowed_ns = out->slowed_ns > alone.slowed_ns ? out->slowed_ns - alone.slowed_ns : 0;
    }
    out->peak_bytes = p->chunk_count * p->chunk_bytes + p->small_bytes;
    if (!in_detail || ebb_simulate_levels(out, p, t))
        return true;
    ebb_simulation_delete(out);
    return false;
}

double ebb_simulate_alone_ns(const ebb_trace_t *t)
{
    ebb_simulation_t alone;
    return simulate_alone(&alone, t, false) ? alone.step_ns : 0;
}

static bool computes(const ebb_trace_t *t, uint32_t operation)
{
    return engine_of(t, &t->operation[operation]) == EBB_ENGINE_COMPUTE;
}

bool ebb_simulate_begins(uint64_t *begin_ns, const ebb_trace_t *t)
{
    ebb_simulation_t alone;
    if (!simulate_alone(&alone, t, true))
        return false;
    for (uint32_t i = 0; i <= t->operation_count; i++)
        begin_ns[i] = (uint64_t)alone.step_ns;
    for (uint32_t i = 0; i < alone.span_count; i++)
        if (alone.span[i].track == EBB_TRACK_OPERATION)
            begin_ns[alone.span[i].index] = (uint64_t)alone.span[i].begin_ns;
    ebb_simulation_delete(&alone);
    /* What computes takes turns. */
    uint64_t next = begin_ns[t->operation_count], ended = 0;
    for (uint32_t i = t->operation_count; i-- > 0;) {
        begin_ns[i] = begin_ns[i] < next ? begin_ns[i] : next;
        next = computes(t, i) ? begin_ns[i] : next;
    }
    for (uint32_t i = 0, behind = 0; i < t->operation_count; i++) {
        for (; behind < i || (behind < t->operation_count && !computes(t, behind)); behind++)
            ;
        const uint64_t least = ended < begin_ns[behind] ? ended : begin_ns[behind];
        begin_ns[i] = begin_ns[i] > least ? begin_ns[i] : least;
        ended = begin_ns[i] + (computes(t, i) ? t->operation[i].duration_ns : 0);
    }
    return true;
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
    return simulate(&s, p, t, hardware, false) ? (uint64_t)s.step_ns + 1 : 0;
}

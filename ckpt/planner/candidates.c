/* candidates.c: schedules become plans, and of those that fit the fastest is kept. */
#include "ckpt/planner/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_STEP = 3000 };

uint32_t ebb_candidates_keep_peak(ebb_candidates_t *s)
{
    ebb_search_params_t keep = {.most_replay_ns = UINT64_MAX, .target_chunks = EBB_NONE / 2};
    if (!ebb_schedule_walk(&s->schedule, &s->model, &keep))
        return 0;
    uint32_t peak = ebb_schedule_peak(&s->schedule, &s->model);
    return peak == EBB_NONE ? 0 : peak;
}

const ebb_candidate_t *ebb_front_best(const ebb_front_t *f, uint32_t chunks)
{
    uint32_t fitting = 0;
    while (fitting < f->count && f->candidate[fitting].chunks <= chunks)
        fitting++;
    return fitting ? &f->candidate[fitting - 1] : NULL;
}

const ebb_candidate_t *ebb_candidates_best(const ebb_candidates_t *s, uint32_t chunks)
{
    return ebb_front_best(&s->front, chunks);
}

/* Into the front, if nothing there is as small and as fast; those that it beats leave. Takes the plan over. */
static void enter(ebb_candidates_t *s, ebb_candidate_t now)
{
    ebb_front_t *f = &s->front;
    const ebb_candidate_t *incumbent = ebb_candidates_best(s, now.chunks);
    if ((incumbent &&
         (incumbent->ns < now.ns || (incumbent->ns == now.ns && incumbent->chunks == now.chunks))) ||
        !ebb_array_append((void **)&f->candidate, &f->count, &f->room, sizeof *f->candidate)) {
        s->no_memory |= !incumbent;
        ebb_plan_delete(now.plan);
        return;
    }
    uint32_t kept = 0, count = --f->count;
    while (kept < count && (f->candidate[kept].chunks < now.chunks ||
                            (f->candidate[kept].chunks == now.chunks && f->candidate[kept].ns <= now.ns)))
        kept++;
    uint32_t beaten = kept;
    for (; beaten < count && f->candidate[beaten].ns > now.ns; beaten++)
        ebb_plan_delete(f->candidate[beaten].plan);
    memmove(&f->candidate[kept + 1], &f->candidate[beaten], (count - beaten) * sizeof *f->candidate);
    f->candidate[kept] = now;
    f->count = count - (beaten - kept) + 1;
}

ebb_front_t ebb_candidates_apart(ebb_candidates_t *s)
{
    const ebb_front_t front = s->front;
    s->front = (ebb_front_t){0};
    return front;
}

void ebb_candidates_join(ebb_candidates_t *s, ebb_front_t *others)
{
    for (uint32_t i = 0; i < others->count; i++)
        enter(s, others->candidate[i]);
    free(others->candidate);
    *others = (ebb_front_t){0};
}

/* Where places that share chunks do not fit together, what only replays touch may leave them. */
static bool lay(ebb_candidates_t *s, ebb_overlay_t *overlay, uint32_t target, bool may_loosen)
{
    if (!ebb_overlay_make(overlay, &s->schedule, &s->model, target))
        return false;
    if (!may_loosen || overlay->chunk_count <= target ||
        overlay->chunk_count == ebb_schedule_peak(&s->schedule, &s->model))
        return true;
    const uint32_t loosened = ebb_schedule_loosen(&s->schedule, &s->model);
    if (!loosened)
        return true;
    ebb_overlay_delete(overlay);
    return loosened != EBB_NONE && ebb_overlay_make(overlay, &s->schedule, &s->model, target);
}

/* The plan of the schedule that was walked, for which `target` chunks were wanted; its time. UINT64_MAX: there is none. */
static uint64_t offer(ebb_candidates_t *s, uint32_t target, bool may_loosen)
{
    ebb_overlay_t overlay;
    if (!lay(s, &overlay, target, may_loosen))
        return UINT64_MAX;
    s->chunks = overlay.chunk_count;
    if (overlay.chunk_count < s->least)
        overlay.chunk_count = s->least;
    ebb_plan_t *plan = ebb_schedule_emit(&s->schedule, &overlay, &s->model);
    const uint64_t ns = plan ? ebb_simulate_ns(plan, s->model.trace, &s->model.request->hardware) : 0;
    s->no_memory |= !ns;
    if (ns && ns >= s->floor_ns) {
        plan->predicted_ns = ns;
        enter(s, (ebb_candidate_t){overlay.chunk_count, ns, plan});
    } else {
        ebb_plan_delete(plan);
    }
    ebb_overlay_delete(&overlay);
    const uint64_t excess = s->chunks > target ? s->chunks - target : 0;
    return ns ? ns + (uint64_t)((double)excess * (double)ns / (target + 1.0)) : UINT64_MAX;
}

static bool copies(const ebb_schedule_t *s)
{
    for (uint32_t i = 0; i < s->move_count; i++)
        if (s->move[i].kind != EBB_DISCARD && s->move[i].position != EBB_NONE)
            return true;
    return false;
}

static bool is_given_up(const ebb_candidates_t *s)
{
    const atomic_bool *given_up = s->model.request->given_up;
    return given_up && atomic_load_explicit(given_up, memory_order_relaxed);
}

bool ebb_candidates_done(const ebb_candidates_t *s, uint32_t chunks)
{
    const ebb_candidate_t *best = ebb_candidates_best(s, chunks);
    return is_given_up(s) || (best && best->ns <= s->model.begin_ns[s->model.trace->operation_count] + 1);
}

uint64_t ebb_candidates_slack(const ebb_candidates_t *s, const ebb_candidate_t *incumbent)
{
    const uint64_t step = s->model.begin_ns[s->model.trace->operation_count];
    return incumbent && incumbent->ns > step ? incumbent->ns - step : incumbent ? 0 : UINT64_MAX;
}

/* False: no memory. */
static bool exchange(ebb_candidates_t *s, const ebb_search_params_t *params)
{
    return !params->exchange || ebb_schedule_exchange(&s->schedule, &s->model, params->exchange_chunks,
                                                      params->exchange) != EBB_NONE;
}

uint64_t ebb_candidates_try(ebb_candidates_t *s, const ebb_search_params_t *params, uint32_t target)
{
    ebb_schedule_t *schedule = &s->schedule;
    const bool may_loosen = params->loosen;
    uint64_t ns = UINT64_MAX;
    s->tries++;
    s->chunks = 0;
    if (is_given_up(s) || !ebb_schedule_walk(schedule, &s->model, params))
        return ns;
    if (!copies(schedule))
        return exchange(s, params) ? offer(s, target, may_loosen) : ns;
    const uint32_t peak = ebb_schedule_peak(schedule, &s->model),
                   limit = peak > params->target_chunks ? peak : params->target_chunks;
    /* A strategy is followed: only what comes back before it has gone stays. */
    if (!ebb_schedule_keep(schedule, &s->model, params->fates ? 0 : limit))
        return ns;
    if (!exchange(s, params))
        return ns;
    /* As late as copies can be, where a try takes little time: it is hardly ever the better one. */
    if (s->model.trace->operation_count <= LONG_STEP)
        ns = offer(s, target, may_loosen);
    if (!ebb_schedule_relax(schedule, &s->model, limit))
        return ns;
    const uint64_t relaxed = offer(s, target, may_loosen);
    return ns < relaxed ? ns : relaxed;
}

static uint32_t walked_peak(ebb_candidates_t *s, const ebb_search_params_t *params)
{
    const uint32_t peak = ebb_schedule_walk(&s->schedule, &s->model, params)
                              ? ebb_schedule_peak(&s->schedule, &s->model)
                              : EBB_NONE;
    return peak == EBB_NONE ? 0 : peak;
}

void ebb_candidates_try_strategy(ebb_candidates_t *s, const ebb_policy_t *policy)
{
    const uint32_t levels = s->model.trace->operation_count > LONG_STEP ? 3 : 8;
    const ebb_candidate_t *incumbent = ebb_candidates_best(s, s->limit);
    ebb_fates_t fates;
    if (ebb_candidates_done(s, s->limit))
        return;
    if (!ebb_fates_make(&fates, &s->model, policy)) {
        s->no_memory = true;
        return;
    }
    ebb_search_params_t params = {.fates = &fates,
                                  .fixed = true,
                                  .most_replay_ns = ebb_candidates_slack(s, incumbent),
                                  .target_chunks = EBB_NONE / 2};
    if (policy->code == EBB_POLICY_OFFLOAD) {
        const uint32_t high = walked_peak(s, &params);
        params.target_chunks = 0;
        const uint32_t low = walked_peak(s, &params);
        for (uint32_t i = levels; i > 0 && low < high; i--) {
            params.target_chunks = low + (uint32_t)((uint64_t)(high - low) * i / levels);
            ebb_candidates_try(s, &params, EBB_NONE / 2);
        }
        params.target_chunks = low;
    }
    ebb_candidates_try(s, &params, EBB_NONE / 2);
    ebb_fates_delete(&fates);
}

static void explain(const ebb_candidates_t *s, char *why, size_t why_bytes)
{
    const ebb_model_t *m = &s->model;
    const ebb_trace_t *t = m->trace;
    uint64_t chunk = t->chunk_bytes;
    if (s->no_memory)
        snprintf(why, why_bytes, "out of memory");
    else if (is_given_up(s))
        snprintf(why, why_bytes, "it is not wanted any more");
    else if (!s->front.count)
        snprintf(why, why_bytes, "no plan was found at all: it would recompute too much, or too deep");
    else if (m->widest_chunks > s->limit)
        snprintf(why, why_bytes,
                 "operation %" PRIu32 " (%.60s) touches %" PRIu64
                 " bytes at once and small buffers take %" PRIu64 "; the smallest known to do is %" PRIu64,
                 m->widest, t->operation[m->widest].name, m->widest_chunks * chunk, m->small_bytes,
                 s->front.candidate[0].chunks * chunk + m->small_bytes);
    else
        snprintf(why, why_bytes,
                 "no plan fits; operation %" PRIu32 " (%.60s) touches the most, %" PRIu64
                 " bytes at once; the smallest known to do is %" PRIu64,
                 m->widest, t->operation[m->widest].name, m->widest_chunks * chunk,
                 s->front.candidate[0].chunks * chunk + m->small_bytes);
}

/* The most bytes that are alive at once, and before which operation: large buffers in whole chunks, and the small region, which is on
 * the device throughout. False: no memory. */
static bool most_alive(const ebb_model_t *m, uint64_t *most, uint32_t *at)
{
    const ebb_trace_t *t = m->trace;
    const uint32_t n = t->operation_count;
    uint64_t *change = calloc((size_t)n + 2, sizeof *change), alive = m->small_bytes;
    *most = *at = 0;
    for (uint32_t i = 0; change && i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *b = &t->buffer[i];
        const uint64_t bytes = m->buffer[i].chunks * t->chunk_bytes;
        change[b->born == EBB_NONE ? 0 : b->born] += bytes;
        change[b->dies == EBB_NONE ? n + 1 : b->dies] -= bytes; /* differences, modulo 2^64 */
    }
    for (uint32_t i = 0; change && i <= n; i++) {
        alive += change[i];
        if (alive <= *most)
            continue;
        *most = alive;
        *at = i;
    }
    const bool known = change;
    free(change);
    return known;
}

/* A program that leaves the trace gets all it has left alive: that must find room on the device, in pinned memory and behind it. What is
 * pageable is not counted on. */
static bool room_for_all(const ebb_model_t *m, char *why, size_t why_bytes)
{
    const ebb_trace_t *t = m->trace;
    const ebb_plan_request_t *r = m->request;
    uint64_t most;
    uint32_t at;
    if (!most_alive(m, &most, &at)) {
        snprintf(why, why_bytes, "out of memory");
        return false;
    }
    const uint64_t host = r->host_bytes < most ? r->host_bytes : most,
                   rest = most - host > r->behind_bytes ? most - host - r->behind_bytes : 0;
    if (rest <= r->device_bytes)
        return true;
    if (r->smallest)
        *r->smallest = rest;
    snprintf(why, why_bytes,
             "before operation %" PRIu32 " (%.60s) %" PRIu64 " bytes are alive, %" PRIu64
             " more than device and host may hold; the smallest known to do is %" PRIu64,
             at, at < t->operation_count ? t->operation[at].name : "the end", most, rest - r->device_bytes,
             rest);
    return false;
}

/* What a boundary says is on the host has a block there throughout (walk.c). */
static bool room_between_steps(const ebb_model_t *m, char *why, size_t why_bytes)
{
    const ebb_boundary_t *b = m->request->boundary;
    uint64_t bytes = 0;
    for (uint32_t i = 0; b && i < m->trace->buffer_count; i++)
        bytes += m->buffer[i].chunks && b->start[i] == EBB_ON_HOST ? m->trace->buffer[i].bytes : 0;
    if (bytes <= m->request->host_bytes)
        return true;
    snprintf(why, why_bytes, "%" PRIu64 " bytes are on the host between steps, where %" PRIu64 " may be",
             bytes, m->request->host_bytes);
    return false;
}

bool ebb_candidates_begin(ebb_candidates_t *s, const ebb_trace_t *trace, const ebb_plan_request_t *request,
                          char *why, size_t why_bytes)
{
    *s = (ebb_candidates_t){0};
    if (!ebb_model_make(&s->model, trace, request, why, why_bytes))
        return false;
    if (!room_for_all(&s->model, why, why_bytes) || !room_between_steps(&s->model, why, why_bytes)) {
        ebb_model_delete(&s->model);
        return false;
    }
    const uint64_t small = s->model.small_bytes;
    const uint64_t chunks =
        request->device_bytes > small ? (request->device_bytes - small) / trace->chunk_bytes : 0;
    s->limit = chunks < EBB_NONE / 2 ? (uint32_t)chunks : EBB_NONE / 2;
    return true;
}

/* What larger budgets look at, they would have looked at too. */
static void take_at_least(ebb_plan_t *plan, uint32_t chunks)
{
    if (plan && plan->chunk_count < chunks)
        plan->chunk_count = chunks;
}

void ebb_candidates_tell(const ebb_candidates_t *s)
{
    const ebb_plan_request_t *r = s->model.request;
    const ebb_candidate_t *best = ebb_candidates_best(s, s->limit);
    ebb_plan_t *plan = r->found && best ? ebb_plan_copy(best->plan) : NULL;
    take_at_least(plan, s->reached);
    if (plan)
        r->found(r->finder, plan);
}

ebb_plan_t *ebb_candidates_end(ebb_candidates_t *s, char *why, size_t why_bytes)
{
    const ebb_model_t *m = &s->model;
    const ebb_candidate_t *best = ebb_candidates_best(s, s->limit);
    ebb_plan_t *plan = best ? best->plan : NULL;
    if (m->request->smallest)
        *m->request->smallest =
            s->front.count ? s->front.candidate[0].chunks * m->trace->chunk_bytes + m->small_bytes : 0;
    if (!best)
        explain(s, why, why_bytes);
    take_at_least(plan, s->reached);
    for (uint32_t i = 0; i < s->front.count; i++)
        if (s->front.candidate[i].plan != plan)
            ebb_plan_delete(s->front.candidate[i].plan);
    free(s->front.candidate);
    ebb_schedule_delete(&s->schedule);
    ebb_model_delete(&s->model);
    return plan;
}

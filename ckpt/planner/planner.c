/* planner.c: tries the walk with several targets and tastes, and returns the fastest plan that fits.
 *
 * The targets come from the trace alone and a plan is taken if its chunks fit, so that a larger budget
 * chooses from what a smaller one could have had, and the predicted time does not rise with the budget.
 * (Targets far below the budget are left out once there is a plan: the tests watch that this costs nothing.)
 */
#include "planner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "planner_schedule.h"

typedef struct search {
    const ebb_model_t *model;
    ebb_schedule_t schedule;
    uint32_t limit;    /* chunks */
    uint32_t smallest; /* chunks of the smallest plan seen, EBB_NONE: none */
    uint64_t best_ns;
    ebb_plan_t *best;
    bool no_memory;
} search_t;

/* Chunks of a plan that gives nothing up. */
static uint32_t keep_peak(search_t *s)
{
    ebb_taste_t keep = {.most_replay_ns = UINT64_MAX, .target_chunks = EBB_NONE / 2};
    if (!ebb_schedule_walk(&s->schedule, s->model, &keep))
        return 0;
    uint32_t peak = ebb_schedule_peak(&s->schedule, s->model, NULL);
    return peak == EBB_NONE ? 0 : peak;
}

/* Chunks for the schedule that was walked. One that doesn't fit is only of interest as the smallest so far.
 */
static bool lay(search_t *s, ebb_overlay_t *overlay)
{
    uint32_t enough = s->best ? s->limit : s->smallest;
    if (ebb_schedule_peak(&s->schedule, s->model, NULL) >= enough && enough > s->limit)
        return false;
    if (!ebb_overlay_make(overlay, &s->schedule, s->model, enough))
        return false;
    s->smallest = overlay->chunk_count < s->smallest ? overlay->chunk_count : s->smallest;
    if (overlay->chunk_count <= s->limit)
        return true;
    ebb_overlay_delete(overlay);
    return false;
}

/* The plan of the schedule that was walked; it replaces the best if it is faster. False: it doesn't fit. */
static bool offer(search_t *s)
{
    ebb_overlay_t overlay;
    if (!lay(s, &overlay))
        return false;
    ebb_plan_t *plan = ebb_schedule_emit(&s->schedule, &overlay, s->model);
    uint64_t ns = plan ? ebb_plan_time(plan, s->model) : 0;
    s->no_memory |= !ns;
    if (ns && ns < s->best_ns) {
        ebb_plan_delete(s->best);
        s->best = plan;
        s->best_ns = plan->predicted_ns = ns;
        plan = NULL;
    }
    ebb_plan_delete(plan);
    ebb_overlay_delete(&overlay);
    return true;
}

static void try_taste(search_t *s, const ebb_taste_t *taste)
{
    const ebb_model_t *m = s->model;
    ebb_schedule_t *schedule = &s->schedule;
    if (!ebb_schedule_walk(schedule, m, taste))
        return;
    uint32_t peak = ebb_schedule_peak(schedule, m, NULL);
    uint32_t limit = peak > taste->target_chunks ? peak : taste->target_chunks;
    size_t bytes = schedule->stay_count * sizeof *schedule->stay;
    ebb_stay_t *tight = schedule->move_count ? malloc(bytes) : NULL;
    if (tight)
        memcpy(tight, schedule->stay, bytes);
    if (tight && ebb_schedule_relax(schedule, m, limit) && offer(s)) {
        free(tight);
        return;
    }
    if (tight) {
        memcpy(schedule->stay, tight, bytes);
        for (uint32_t i = 0; i < schedule->stay_count; i++)
            if (tight[i].fetch != EBB_NONE)
                schedule->move[tight[i].fetch].position = tight[i].first;
    }
    free(tight);
    offer(s);
}

/* All tastes under one target. */
static void try_target(search_t *s, uint32_t target)
{
    static const struct {
        double chain, idle, caution;
    } tastes[] = {{0, 0, 1}, {0, 1, 1}, {1, 1, 1}, {0.25, 0.5, 1}, {1, 0, 3}, {0, 0, 2}};
    const ebb_model_t *m = s->model;
    const ebb_plan_request_t *r = m->request;
    for (int mode = 1; mode < 4; mode++) {
        bool offload = mode & 1, recompute = mode & 2;
        if ((offload && !r->offload) || (recompute && !r->recompute))
            continue;
        for (size_t i = 0; i < sizeof tastes / sizeof tastes[0]; i++)
            if ((recompute || tastes[i].chain <= 0) &&
                (offload || tastes[i].chain > 0 || tastes[i].caution <= 1)) {
                ebb_taste_t taste = {.target_chunks = target,
                                     .offload = offload,
                                     .recompute = recompute,
                                     .most_replay_ns = s->best_ns - m->begin_ns[m->trace->operation_count],
                                     .chain = tastes[i].chain,
                                     .idle = tastes[i].idle,
                                     .caution = tastes[i].caution};
                try_taste(s, &taste);
            }
    }
}

/* From what needs no plan down to what no plan can do without: of two equally fast ones the first, which
 * moves less, wins. */
static void search(search_t *s, uint32_t peak)
{
    const ebb_model_t *m = s->model;
    uint32_t lowest = m->widest_chunks < peak ? m->widest_chunks : peak;
    uint32_t targets = 700000 / (20 * m->trace->operation_count + 1);
    targets = targets < 4 ? 4 : targets > 48 ? 48 : targets;
    uint32_t stride = (peak - lowest) / targets + 1, count = (peak - lowest + stride - 1) / stride;
    for (uint32_t i = count; i-- > 0 && s->best_ns > m->begin_ns[m->trace->operation_count] + 1;) {
        uint32_t target = lowest + i * stride;
        if (s->best && target < s->limit * UINT64_C(6) / 10)
            break; /* giving up so much more than must be is not faster */
        if (target <= s->limit)
            try_target(s, target);
    }
    for (uint32_t i = 0; i < count && !s->best; i++) /* a plan may come out below its target */
        if (lowest + i * stride > s->limit)
            try_target(s, lowest + i * stride);
    ebb_taste_t keep = {.most_replay_ns = UINT64_MAX, .target_chunks = peak};
    if (!s->best)
        try_taste(s, &keep);
}

static void explain(const search_t *s, char *why, size_t why_bytes)
{
    const ebb_model_t *m = s->model;
    const ebb_trace_t *t = m->trace;
    uint64_t chunk = t->chunk_bytes;
    if (s->no_memory)
        snprintf(why, why_bytes, "out of memory");
    else if (m->widest_chunks > s->limit)
        snprintf(why, why_bytes,
                 "operation %" PRIu32 " (%.60s) touches %" PRIu64
                 " bytes at once and small buffers take %" PRIu64 "; the smallest known to do is %" PRIu64,
                 m->widest, t->operation[m->widest].name, m->widest_chunks * chunk, m->small_bytes,
                 s->smallest * chunk + m->small_bytes);
    else
        snprintf(why, why_bytes,
                 "no plan fits; operation %" PRIu32 " (%.60s) touches the most, %" PRIu64
                 " bytes at once; the smallest known to do is %" PRIu64,
                 m->widest, t->operation[m->widest].name, m->widest_chunks * chunk,
                 s->smallest * chunk + m->small_bytes);
}

/* A program that leaves the trace gets all it has left alive: that must find room on the device and the host.
 */
static bool room_for_all(const ebb_model_t *m, char *why, size_t why_bytes)
{
    const ebb_trace_t *t = m->trace;
    const ebb_plan_request_t *r = m->request;
    int64_t *change = calloc((size_t)t->operation_count + 2, sizeof *change);
    uint64_t alive = 0, most = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; change && i < t->buffer_count; i++) {
        bool within = t->buffer[i].born != EBB_TRACE_NEVER;
        int64_t bytes = (int64_t)(m->buffer[i].chunks * t->chunk_bytes);
        change[within ? t->buffer[i].born : 0] += bytes;
        change[within ? t->buffer[i].dies : t->operation_count + 1] -= bytes;
    }
    for (uint32_t i = 0; change && i <= t->operation_count; i++) {
        alive += (uint64_t)change[i];
        if (alive > most) {
            most = alive;
            at = i;
        }
    }
    bool known = change;
    free(change);
    if (!known)
        snprintf(why, why_bytes, "out of memory");
    if (!known || most <= r->device_bytes || most - r->device_bytes <= r->host_bytes)
        return known;
    snprintf(why, why_bytes,
             "before operation %" PRIu32 " (%.60s) %" PRIu64 " bytes are alive, %" PRIu64
             " more than device and host may hold; the smallest known to do is %" PRIu64,
             at, at < t->operation_count ? t->operation[at].name : "the end", most,
             most - r->device_bytes - r->host_bytes, most - r->host_bytes);
    return false;
}

ebb_plan_t *ebb_plan_make(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                          size_t why_bytes)
{
    ebb_model_t model;
    if (!ebb_model_make(&model, trace, request, why, why_bytes))
        return NULL;
    if (!room_for_all(&model, why, why_bytes)) {
        ebb_model_delete(&model);
        return NULL;
    }
    uint64_t room = request->device_bytes > model.small_bytes ? request->device_bytes - model.small_bytes : 0;
    uint64_t chunks = room / trace->chunk_bytes;
    search_t s = {.model = &model,
                  .limit = chunks < EBB_NONE / 2 ? (uint32_t)chunks : EBB_NONE / 2,
                  .smallest = EBB_NONE,
                  .best_ns = UINT64_MAX};
    uint32_t peak = keep_peak(&s);
    if (peak <= s.limit) {
        ebb_taste_t keep = {.most_replay_ns = UINT64_MAX, .target_chunks = peak};
        try_taste(&s, &keep);
    }
    if (!s.best)
        search(&s, peak);
    if (!s.best)
        explain(&s, why, why_bytes);
    ebb_schedule_delete(&s.schedule);
    ebb_model_delete(&model);
    return s.best;
}

/* levels.c: memory in use over a simulated step. A place is in use from the beginning of what puts something there (an
 * operation, a replay, a copy in) to the end of what touches it last before that happens again: before a discard, a copy in, an
 * operation that replaces it all, or the end of the buffer's life. */
#include "ckpt/plan/internal.h"

#include "alloc/base/table.h"

typedef struct use {
    double begin, last; /* begin < 0: not in use */
    bool written;       /* else it is whatever an allocation holds, which need not be kept */
} use_t;

typedef struct levels {
    ebb_simulation_t *simulation;
    const ebb_plan_t *plan;
    const ebb_trace_t *trace;
    use_t *use; /* per place */
    bool failed;
} levels_t;

static void change(levels_t *l, double ns, uint64_t bytes)
{
    ebb_simulation_t *s = l->simulation;
    ebb_level_t *level = ebb_array_append((void **)&s->level, &s->level_count, &s->level_room, sizeof *level);
    if (level)
        *level = (ebb_level_t){ns, bytes}; /* a difference, until they are summed up */
    l->failed |= !level;
}

static uint64_t bytes_of(const levels_t *l, uint32_t place)
{
    return l->plan->place[place].chunk_count * l->plan->chunk_bytes;
}

static void hold(levels_t *l, uint32_t place, double begin, double end)
{
    ebb_simulation_t *s = l->simulation;
    ebb_hold_t *h = ebb_array_append((void **)&s->hold, &s->hold_count, &s->hold_room, sizeof *h);
    if (h)
        *h = (ebb_hold_t){place, begin, end};
    l->failed |= !h;
    change(l, begin, bytes_of(l, place));
    change(l, end, -bytes_of(l, place));
}

static void give_up(levels_t *l, uint32_t place)
{
    use_t *u = &l->use[place];
    const double step = l->simulation->step_ns;
    if (u->begin >= 0 && bytes_of(l, place)) {
        hold(l, place, u->begin, u->last < step ? u->last : step);
        if (u->last > step) /* a copy that goes on in the next step, and so did in this one */
            hold(l, place, 0, u->last - step < step ? u->last - step : step);
    }
    u->begin = -1;
}

static void touch(levels_t *l, uint32_t place, ebb_mode_t mode, const ebb_span_t *by)
{
    use_t *u = &l->use[place];
    if (mode == EBB_REPLACES || !u->written)
        give_up(l, place);
    u->written |= mode != EBB_READS;
    if (u->begin < 0)
        *u = (use_t){by->begin_ns, by->end_ns, u->written};
    u->last = by->end_ns > u->last ? by->end_ns : u->last;
}

static void touch_all(levels_t *l, uint32_t operation, const ebb_action_t *replay, const ebb_span_t *by)
{
    const ebb_trace_operation_t *o = &l->trace->operation[operation];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        if (ebb_trace_is_first(l->trace, operation, k))
            touch(l, ebb_plan_place(l->plan, replay, l->trace->access[k].buffer), l->trace->access[k].mode,
                  by);
}

static void follow_span(levels_t *l, const ebb_span_t *s)
{
    const ebb_action_t *a = s->track == EBB_TRACK_OPERATION ? NULL : &l->plan->action[s->index];
    switch (s->track) {
    case EBB_TRACK_OPERATION:
        touch_all(l, s->index, NULL, s);
        break;
    case EBB_TRACK_REPLAY:
        touch_all(l, a->operation, a, s);
        break;
    case EBB_TRACK_OUT:
        l->use[a->place].last = s->end_ns;
        break;
    case EBB_TRACK_IN:
        give_up(l, a->place);
        l->use[a->place] = (use_t){s->begin_ns, s->end_ns, true};
        break;
    default:
        break;
    }
}

/* Spans in their order, discards between them: at their points. */
static void follow_all(levels_t *l)
{
    uint32_t action = 0;
    for (uint32_t i = 0; i < l->simulation->span_count; i++) {
        const ebb_span_t *s = &l->simulation->span[i];
        const bool waits = s->track == EBB_TRACK_WAIT_OUT || s->track == EBB_TRACK_WAIT_IN;
        for (; !waits && action < l->plan->action_count; action++) {
            const ebb_action_t *a = &l->plan->action[action];
            if (s->track == EBB_TRACK_OPERATION ? a->point > s->index : action >= s->index)
                break;
            if (a->kind == EBB_DISCARD)
                give_up(l, a->place);
        }
        follow_span(l, s);
    }
    for (; action < l->plan->action_count; action++)
        if (l->plan->action[action].kind == EBB_DISCARD)
            give_up(l, l->plan->action[action].place);
}

/* At the same moment what is given up comes first. */
static int by_time(const void *a, const void *b)
{
    const ebb_level_t *x = a, *y = b;
    if (x->ns < y->ns || x->ns > y->ns)
        return x->ns < y->ns ? -1 : 1;
    const bool less_x = x->bytes >> 63, less_y = y->bytes >> 63;
    return less_y - less_x;
}

static void add_up(ebb_simulation_t *s, uint64_t bytes)
{
    uint32_t kept = 0;
    qsort(s->level, s->level_count, sizeof *s->level, by_time);
    for (uint32_t i = 0; i < s->level_count; i++) {
        bytes += s->level[i].bytes;
        if (i + 1 < s->level_count && s->level[i + 1].ns <= s->level[i].ns)
            continue;
        s->level[kept++] = (ebb_level_t){s->level[i].ns, bytes};
    }
    s->level_count = kept;
}

bool ebb_simulate_levels(ebb_simulation_t *s, const ebb_plan_t *p, const ebb_trace_t *t)
{
    levels_t l = {.simulation = s, .plan = p, .trace = t};
    l.use = calloc((size_t)p->place_count + 1, sizeof *l.use);
    for (uint32_t i = 0; l.use && i < p->place_count; i++)
        l.use[i] =
            (use_t){p->place[i].at_start == EBB_ON_DEVICE ? 0 : -1, 0, p->place[i].at_start == EBB_ON_DEVICE};
    if (l.use)
        follow_all(&l);
    for (uint32_t i = 0; l.use && i < p->place_count; i++) {
        if (p->place[i].at_start == EBB_ON_DEVICE && l.use[i].begin >= 0)
            l.use[i].last = s->step_ns;
        give_up(&l, i);
    }
    const bool good = l.use && !l.failed;
    free(l.use);
    if (!good)
        return false;
    change(&l, 0, 0);
    if (!l.failed)
        add_up(s, p->small_bytes);
    return !l.failed;
}

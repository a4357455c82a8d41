/* simulate_engines.c: queues and engines, from event to event; see simulate_parts.h. */
#include "alloc/base/array.h"
#include "ckpt/plan/simulate_parts.h"

void ebb_engines_begin(ebb_engines_t *e, const ebb_hardware_t *hardware, uint32_t queues)
{
    *e = (ebb_engines_t){.hardware = hardware, .queues = queues};
    for (uint32_t q = 0; q < queues; q++)
        e->head[q] = e->newest[q] = EBB_TRACE_NEVER;
    for (int i = 0; i < EBB_ENGINES; i++)
        e->running[i] = EBB_TRACE_NEVER;
}

uint32_t ebb_engines_add(ebb_engines_t *e, ebb_task_t task)
{
    ebb_task_t *t = ebb_array_append((void **)&e->task, &e->task_count, &e->task_room, sizeof *t);
    e->failed |= !t;
    if (!t)
        return EBB_TRACE_NEVER;
    const uint32_t id = e->task_count - 1, last = e->newest[task.queue];
    task.turn = task.begin = task.end = EBB_NOT_YET;
    task.next = EBB_TRACE_NEVER;
    *t = task;
    if (e->head[task.queue] == EBB_TRACE_NEVER)
        e->head[task.queue] = id;
    else
        e->task[last].next = id;
    e->newest[task.queue] = id;
    return id;
}

static bool is_over(const ebb_engines_t *e, uint32_t task)
{
    return task == EBB_TRACE_NEVER || e->task[task].end < EBB_NOT_YET;
}

/* The head of its queue. */
static void end_task(ebb_engines_t *e, ebb_task_t *t)
{
    t->end = e->now;
    e->head[t->queue] = t->next;
}

/* What stands at the head of a queue now, and not only for a moment. True: something was over at once. */
static bool settle_queue(ebb_engines_t *e, uint32_t queue)
{
    bool any = false;
    while (e->head[queue] != EBB_TRACE_NEVER) {
        ebb_task_t *t = &e->task[e->head[queue]];
        if (t->issued > e->now)
            break;
        t->turn = t->turn < EBB_NOT_YET ? t->turn : e->now;
        if (t->engine != EBB_ENGINE_NONE || !is_over(e, t->after))
            break;
        t->begin = t->turn;
        end_task(e, t);
        any = true;
    }
    return any;
}

/* An engine that is free takes up what was issued first. */
static void take_up(ebb_engines_t *e)
{
    for (uint32_t q = 0; q < e->queues; q++) {
        const uint32_t id = e->head[q];
        if (id == EBB_TRACE_NEVER || e->task[id].turn >= EBB_NOT_YET || e->task[id].begin < EBB_NOT_YET ||
            e->task[id].engine == EBB_ENGINE_NONE)
            continue;
        uint32_t *next = &e->running[e->task[id].engine];
        if (*next == EBB_TRACE_NEVER || (e->task[*next].begin >= EBB_NOT_YET && id < *next))
            *next = id;
    }
    for (int i = 0; i < EBB_ENGINES; i++) {
        ebb_task_t *t = e->running[i] == EBB_TRACE_NEVER ? NULL : &e->task[e->running[i]];
        if (!t || t->begin < EBB_NOT_YET)
            continue;
        t->begin = e->now;
        e->left[i] = t->work;
    }
}

static void settle(ebb_engines_t *e)
{
    for (bool any = true; any;) {
        any = false;
        for (uint32_t q = 0; q < e->queues; q++)
            any |= settle_queue(e, q);
    }
    take_up(e);
}

static double rate(const ebb_engines_t *e, int engine)
{
    const bool out = e->running[EBB_ENGINE_OUT] != EBB_TRACE_NEVER,
               in = e->running[EBB_ENGINE_IN] != EBB_TRACE_NEVER;
    if (engine == EBB_ENGINE_COMPUTE)
        return 1 / (1 + e->hardware->slowdown * (out + in));
    return ebb_hardware_part(e->hardware, engine == EBB_ENGINE_IN, out && in);
}

/* When something ends or comes from the host; NOT_YET: never. */
static double next_event(const ebb_engines_t *e)
{
    double next = EBB_NOT_YET;
    for (int i = 0; i < EBB_ENGINES; i++) {
        const double at = e->running[i] == EBB_TRACE_NEVER ? EBB_NOT_YET : e->now + e->left[i] / rate(e, i);
        next = at < next ? at : next;
    }
    for (uint32_t q = 0; q < e->queues; q++) {
        const double at = e->head[q] == EBB_TRACE_NEVER ? EBB_NOT_YET : e->task[e->head[q]].issued;
        next = at > e->now && at < next ? at : next;
    }
    return next;
}

static void pass(ebb_engines_t *e, double to)
{
    static const double nothing = 1e-6; /* what is left by rounding, or is lost beside the time itself */
    double rates[EBB_ENGINES];          /* before anything ends */
    for (int i = 0; i < EBB_ENGINES; i++)
        rates[i] = rate(e, i);
    const double ns = to - e->now;
    e->now = to;
    for (int i = 0; i < EBB_ENGINES; i++) {
        if (e->running[i] == EBB_TRACE_NEVER)
            continue;
        e->left[i] -= ns * rates[i];
        if (e->left[i] > nothing && to + e->left[i] > to)
            continue;
        end_task(e, &e->task[e->running[i]]);
        e->running[i] = EBB_TRACE_NEVER;
    }
}

void ebb_engines_run(ebb_engines_t *e, uint32_t task)
{
    for (;;) {
        settle(e);
        const double next = next_event(e);
        if ((task != EBB_TRACE_NEVER && is_over(e, task)) || next >= EBB_NOT_YET)
            return; /* what waits for ever the checker would have refused */
        pass(e, next);
    }
}

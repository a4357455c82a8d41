/* engines.c: the device of the simulator; see internal.h. */
#include "ckpt/plan/internal.h"

#include <stdlib.h>

#include "alloc/base/table.h"

void ebb_engines_begin(ebb_engines_t *e, const ebb_hardware_t *hardware, uint32_t queues, size_t tasks)
{
    *e = (ebb_engines_t){.hardware = hardware, .queues = queues, .rate = {1, 1, 1, 1}};
    e->task =
        tasks < UINT32_MAX ? malloc(tasks * sizeof *e->task) : NULL; /* else room is made as it is needed */
    e->task_room = e->task ? (uint32_t)tasks : 0;
    for (uint32_t q = 0; q < queues; q++)
        e->head[q] = e->newest[q] = EBB_NONE;
    for (int i = 0; i < EBB_ENGINES; i++)
        e->running[i] = EBB_NONE;
}

void ebb_engines_end(ebb_engines_t *e)
{
    free(e->task);
    *e = (ebb_engines_t){0};
}

/* What the queue waits for already, or is in it, is over before. */
static bool waits_already(ebb_engines_t *e, uint32_t queue, uint32_t after)
{
    const uint32_t other = e->task[after].queue;
    if (other == queue || e->waits[queue][other] > after)
        return true;
    e->waits[queue][other] = after + 1;
    e->task[after].awaited = true;
    return false;
}

uint32_t ebb_engines_add(ebb_engines_t *e, const ebb_task_t *task)
{
    if (task->after != EBB_NONE && waits_already(e, task->queue, task->after))
        return task->after;
    ebb_task_t *t = ebb_array_append((void **)&e->task, &e->task_count, &e->task_room, sizeof *t);
    e->failed |= !t;
    if (!t)
        return EBB_NONE;
    const uint32_t id = e->task_count - 1, last = e->newest[task->queue];
    *t = *task;
    t->begin = t->end = EBB_NOT_YET;
    t->next = EBB_NONE;
    if (e->head[task->queue] == EBB_NONE)
        e->head[task->queue] = id;
    else
        e->task[last].next = id;
    e->newest[task->queue] = id;
    return id;
}

static bool is_over(const ebb_engines_t *e, uint32_t task)
{
    return task == EBB_NONE || e->task[task].end < EBB_NOT_YET;
}

/* The head of its queue. */
static void end_task(ebb_engines_t *e, ebb_task_t *t)
{
    t->end = e->now;
    e->head[t->queue] = t->next;
}

/* Waits at the head of a queue. True: one was over at once. */
static bool settle_queue(ebb_engines_t *e, uint32_t queue)
{
    bool any = false;
    while (e->head[queue] != EBB_NONE) {
        ebb_task_t *t = &e->task[e->head[queue]];
        if (t->engine != EBB_ENGINE_NONE || t->issued > e->now)
            break;
        t->begin = t->begin < EBB_NOT_YET ? t->begin : e->now;
        if (!is_over(e, t->after))
            break;
        end_task(e, t);
        any = true;
    }
    return any;
}

static void take_up(ebb_engines_t *e, uint32_t engine, uint32_t task)
{
    e->running[engine] = task;
    e->task[task].begin = e->now;
    e->left[engine] = e->task[task].work;
}

static void set_rates(ebb_engines_t *e)
{
    const bool out = e->running[EBB_ENGINE_OUT] != EBB_NONE, in = e->running[EBB_ENGINE_IN] != EBB_NONE;
    const uint32_t communicates = e->running[EBB_ENGINE_COMMUNICATION];
    e->rate[EBB_ENGINE_COMPUTE] = 1 / (1 + e->hardware->out_slowdown * out + e->hardware->in_slowdown * in);
    if (communicates != EBB_NONE)
        e->rate[EBB_ENGINE_COMPUTE] *= 1 - e->task[communicates].takes;
    for (int way = 0; way < 2; way++)
        e->rate[EBB_ENGINE_OUT + way] = ebb_hardware_part(e->hardware, way, out && in);
}

/* All that is over by now without an engine is; an engine that is free takes up what was issued first. */
static void settle(ebb_engines_t *e)
{
    uint32_t first[EBB_ENGINES] = {EBB_NONE, EBB_NONE, EBB_NONE, EBB_NONE}, computing = 0;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t q = 0; q < e->queues; q++)
            any |= settle_queue(e, q);
    }
    e->arrival = EBB_NOT_YET;
    for (uint32_t q = 0; q < e->queues; q++) {
        const uint32_t id = e->head[q];
        const ebb_task_t *t = id == EBB_NONE ? NULL : &e->task[id];
        if (!t)
            continue;
        computing += t->engine == EBB_ENGINE_COMPUTE;
        if (t->issued > e->now)
            e->arrival = t->issued < e->arrival ? t->issued : e->arrival;
        else if (t->engine != EBB_ENGINE_NONE && id < first[t->engine])
            first[t->engine] = id;
    }
    e->contended = computing > 1;
    for (uint32_t i = 0; i < EBB_ENGINES; i++)
        if (e->running[i] == EBB_NONE && first[i] != EBB_NONE)
            take_up(e, i, first[i]);
    set_rates(e);
}

static void work_off(ebb_engines_t *e, int engine, double ns)
{
    if (e->running[engine] != EBB_NONE)
        e->left[engine] -= ns * e->rate[engine];
}

/* Operations of one queue, one after another, up to the one that something waits for, or that is at work when something else happens. */
static void compute_on(ebb_engines_t *e, double until)
{
    const double begin = e->now, rate = e->rate[EBB_ENGINE_COMPUTE];
    double left = e->left[EBB_ENGINE_COMPUTE];
    ebb_task_t *t = &e->task[e->running[EBB_ENGINE_COMPUTE]];
    while (!t->awaited && t->next != EBB_NONE && e->now + left / rate < until) {
        ebb_task_t *next = &e->task[t->next];
        const double end = e->now + left / rate;
        if (next->engine != EBB_ENGINE_COMPUTE || next->issued > end)
            break;
        t->end = next->begin = e->now = end;
        left = next->work;
        e->running[EBB_ENGINE_COMPUTE] = e->head[t->queue] = t->next;
        t = next;
    }
    e->left[EBB_ENGINE_COMPUTE] = left;
    for (int i = EBB_ENGINE_COMPUTE + 1; i < EBB_ENGINES; i++)
        work_off(e, i, e->now - begin);
}

static double end_of(const ebb_engines_t *e, int engine)
{
    return e->running[engine] == EBB_NONE ? EBB_NOT_YET : e->now + e->left[engine] / e->rate[engine];
}

static double sooner(double a, double b)
{
    return a < b ? a : b;
}

/* Up to when something ends or comes from the host. False: nothing does. */
static bool pass(ebb_engines_t *e)
{
    static const double nothing = 1e-6; /* what is left by rounding, or is lost beside the time itself */
    double other = e->arrival;
    for (int i = EBB_ENGINE_COMPUTE + 1; i < EBB_ENGINES; i++)
        other = sooner(other, end_of(e, i));
    if (e->running[EBB_ENGINE_COMPUTE] != EBB_NONE && !e->contended)
        compute_on(e, other);
    const double now = e->now, to = sooner(other, end_of(e, EBB_ENGINE_COMPUTE));
    if (to >= EBB_NOT_YET)
        return false;
    e->now = to;
    for (int i = 0; i < EBB_ENGINES; i++) {
        work_off(e, i, to - now);
        if (e->running[i] == EBB_NONE || (e->left[i] > nothing && to + e->left[i] > to))
            continue;
        end_task(e, &e->task[e->running[i]]);
        e->running[i] = EBB_NONE;
    }
    return true;
}

void ebb_engines_run(ebb_engines_t *e, uint32_t task)
{
    if (task != EBB_NONE)
        e->task[task].awaited = true;
    do
        settle(e);
    while ((task == EBB_NONE || !is_over(e, task)) &&
           pass(e)); /* what waits for ever the checker would have refused */
}

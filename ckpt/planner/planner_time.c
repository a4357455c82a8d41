/* planner_time.c: how long a step takes under a plan: the three streams as queues, by the rules of plan.h and
 * the times of the trace. */
#include <stdlib.h>
#include <string.h>

#include "planner_schedule.h"

typedef struct clocks {
    const ebb_plan_t *plan;
    const ebb_model_t *model;
    double compute, out, in;
    double *end, *end_before;     /* per action: when it ended in this step and the one before */
    uint32_t *joins, *first_join; /* actions by the operation that joins them */
} clocks_t;

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void run_action(clocks_t *c, uint32_t index)
{
    const ebb_action_t *a = &c->plan->action[index];
    double *stream = a->kind == EBB_EVICT ? &c->out : &c->in;
    if (a->kind == EBB_REPLAY)
        c->compute += (double)c->model->trace->operation[a->operation].duration_ns;
    if (a->kind != EBB_EVICT && a->kind != EBB_FETCH)
        return;
    double start = later(*stream, c->compute);
    for (uint32_t i = a->first_wait; i < a->first_wait + a->wait_count; i++) {
        uint32_t other = c->plan->wait[i];
        start = later(start, other < index ? c->end[other] : c->end_before[other]);
    }
    *stream = c->end[index] = start + (double)ebb_model_transfer_ns(c->model, a->place, a->kind == EBB_FETCH);
}

static void run_step(clocks_t *c)
{
    const ebb_plan_t *p = c->plan;
    uint32_t action = 0;
    for (uint32_t i = 0; i <= p->operation_count; i++) {
        for (; action < p->action_count && p->action[action].point == i; action++)
            run_action(c, action);
        if (i == p->operation_count)
            return;
        for (uint32_t k = c->first_join[i]; k < c->first_join[i + 1]; k++) {
            uint32_t a = c->joins[k];
            c->compute = later(c->compute, p->action[a].point <= i ? c->end[a] : c->end_before[a]);
        }
        c->compute += (double)c->model->trace->operation[i].duration_ns;
    }
}

static void sort_joins(clocks_t *c)
{
    const ebb_plan_t *p = c->plan;
    for (uint32_t i = 0; i < p->action_count; i++)
        if (p->action[i].join < p->operation_count)
            c->first_join[p->action[i].join + 1]++;
    for (uint32_t i = 0; i < p->operation_count; i++)
        c->first_join[i + 1] += c->first_join[i];
    for (uint32_t i = p->action_count; i-- > 0;)
        if (p->action[i].join < p->operation_count)
            c->joins[--c->first_join[p->action[i].join + 1]] = i;
    /* Each entry has moved to its list's beginning: entry i + 1 holds list i's. */
    memmove(c->first_join, c->first_join + 1, p->operation_count * sizeof *c->first_join);
    c->first_join[p->operation_count] = 0;
    for (uint32_t i = 0; i < p->action_count; i++)
        c->first_join[p->operation_count] += p->action[i].join < p->operation_count;
}

uint64_t ebb_plan_time(const ebb_plan_t *p, const ebb_model_t *m)
{
    enum { STEPS = 3 };
    size_t actions = (size_t)p->action_count + 1;
    clocks_t c = {.plan = p, .model = m};
    c.end = calloc(actions, sizeof *c.end);
    c.end_before = calloc(actions, sizeof *c.end_before);
    c.joins = calloc(actions, sizeof *c.joins);
    c.first_join = calloc((size_t)p->operation_count + 2, sizeof *c.first_join);
    double begin = 0;
    bool good = c.end && c.end_before && c.joins && c.first_join;
    if (good)
        sort_joins(&c);
    for (int i = 0; good && i < STEPS; i++) {
        begin = c.compute;
        run_step(&c);
        double *swap = c.end;
        c.end = c.end_before;
        c.end_before = swap;
    }
    free(c.end);
    free(c.end_before);
    free(c.joins);
    free(c.first_join);
    return good ? (uint64_t)(c.compute - begin) + 1 : 0;
}

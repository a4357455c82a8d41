/* simulate_prices.c: what a plan's actions take of compute and of the host, beside the copies: as the runner (drive/) does them. */
#include <stdlib.h>

#include "ckpt/plan/completions.h"
#include "ckpt/plan/simulate_parts.h"

/* Calls of the driver with which the runner issues a copy, beside its waits: three events recorded, a wait, the copy; and two that ask
 * how long the last one took. */
enum { COPY_CALLS = 7 };

static double at_rate(double launch_ns, double bytes, double bytes_per_ns)
{
    return bytes_per_ns > 0 ? launch_ns + bytes / bytes_per_ns : 0;
}

static void price_replay(ebb_action_price_t *price, const ebb_plan_t *p, const ebb_trace_t *t,
                         const uint32_t *first_touch, const ebb_action_t *a, const ebb_hardware_t *h)
{
    const ebb_trace_operation_t *o = &t->operation[a->operation];
    *price = (ebb_action_price_t){.replay_ns = (double)o->duration_ns, .calls = 1};
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        if (t->access[k].mode != EBB_REPLACES || !ebb_trace_is_first(t, a->operation, k))
            continue;
        const uint32_t place = ebb_plan_place(p, a, t->access[k].buffer);
        if (!p->place[place].chunk_count || first_touch[t->access[k].buffer] == a->operation)
            continue;
        price->replay_ns += at_rate(h->zero_ns, (double)p->place[place].bytes, h->zero_bytes_per_ns);
        price->calls++;
    }
}

/* A part of it is hashed when it is given up, and when it is there again. */
static void price_checks(ebb_action_price_t *price, const ebb_plan_t *p, const uint32_t *completion,
                         const ebb_hardware_t *h)
{
    for (uint32_t i = 0; i < p->action_count; i++) {
        if (completion[i] == EBB_TRACE_NEVER)
            continue;
        const double hash = at_rate(h->hash_ns, (double)p->place[p->action[i].place].bytes * h->checked,
                                    h->hash_bytes_per_ns);
        price[i].check_ns += hash;
        price[i].calls++;
        price[i].checks++;
        price[completion[i]].check_ns += hash;
        price[completion[i]].calls++;
        price[completion[i]].checks++;
    }
}

ebb_action_price_t *ebb_simulate_prices(const ebb_plan_t *p, const ebb_trace_t *t, const ebb_hardware_t *h)
{
    ebb_action_price_t *price = calloc((size_t)p->action_count + 1, sizeof *price);
    uint32_t *completion = ebb_plan_completions(p, t), *first_touch = ebb_trace_first_touches(t);
    const bool good = price && completion && first_touch;
    for (uint32_t i = 0; good && i < p->action_count; i++) {
        const ebb_action_t *a = &p->action[i];
        if (a->kind == EBB_REPLAY)
            price_replay(&price[i], p, t, first_touch, a, h);
        else if (a->kind == EBB_EVICT || a->kind == EBB_FETCH)
            price[i].calls = COPY_CALLS + a->wait_count;
    }
    if (good && h->checked > 0)
        price_checks(price, p, completion, h);
    free(completion);
    free(first_touch);
    if (good)
        return price;
    free(price);
    return NULL;
}

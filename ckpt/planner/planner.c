/* planner.c: the planners in one table, and those of them that are fixed strategies. */
#include "ckpt/planner/planner.h"

#include <string.h>

#include "ckpt/planner/auto.h"
#include "ckpt/planner/candidates.h"

static ebb_plan_t *follow(ebb_strategy_t strategy, const ebb_trace_t *trace,
                          const ebb_plan_request_t *request, const char *argument, char *why,
                          size_t why_bytes)
{
    ebb_candidates_t c;
    if (!ebb_candidates_begin(&c, trace, request, why, why_bytes))
        return NULL;
    ebb_candidates_try_strategy(&c, strategy, argument);
    return ebb_candidates_end(&c, why, why_bytes);
}

#define FIXED(name, STRATEGY)                                                                                \
    static ebb_plan_t *make_##name(const ebb_trace_t *trace, const ebb_plan_request_t *request,              \
                                   const char *argument, char *why, size_t why_bytes)                        \
    {                                                                                                        \
        return follow(EBB_STRATEGY_##STRATEGY, trace, request, argument, why, why_bytes);                    \
    }
FIXED(keep, KEEP)
FIXED(offload, OFFLOAD)
FIXED(sqrt, SQRT)
FIXED(uniform, UNIFORM)
FIXED(selective, SELECTIVE)
FIXED(recursive, RECURSIVE)
FIXED(revolve, REVOLVE)
#undef FIXED

static const ebb_planner_t planners[] = {
    {"auto", NULL, false, "the fastest plan that fits: keeps, offloads and recomputes, buffer by buffer",
     ebb_auto_make},
    {"keep", NULL, false, "give nothing up", make_keep},
    {"offload", NULL, false, "copy out all that forward saves, where both copies have time", make_offload},
    {"sqrt", NULL, false, "checkpoints that balance themselves against the largest segment", make_sqrt},
    {"uniform", "N", true, "a checkpoint after every N stages", make_uniform},
    {"selective", "names", false, "recompute what is cheap, or what such kernels or NVTX ranges make",
     make_selective},
    {"recursive", NULL, false, "checkpoints by halves: log2(n) of them", make_recursive},
    {"revolve", "N", true, "N checkpoints, the fewest recomputations that are possible with them",
     make_revolve},
};
enum { PLANNERS = sizeof planners / sizeof planners[0] };

const ebb_planner_t *ebb_planner(unsigned index)
{
    return index < PLANNERS ? &planners[index] : NULL;
}

static bool is_number(const char *text)
{
    return *text >= '1' && *text <= '9' && strlen(text) < 9 && strspn(text, "0123456789") == strlen(text);
}

const ebb_planner_t *ebb_planner_find(const char *policy, const char **argument)
{
    const size_t length = strcspn(policy, ":");
    const char *given = policy[length] && policy[length + 1] ? policy + length + 1 : NULL;
    *argument = given;
    for (unsigned i = 0; i < PLANNERS; i++) {
        const ebb_planner_t *p = &planners[i];
        if (strlen(p->name) != length || strncmp(p->name, policy, length))
            continue;
        const bool good = given ? p->argument && (strcmp(p->argument, "N") || is_number(given))
                                : !p->argument_needed && !policy[length];
        return good ? p : NULL;
    }
    return NULL;
}

ebb_plan_t *ebb_plan_make(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                          size_t why_bytes)
{
    const char *argument, *policy = request->policy ? request->policy : planners[0].name;
    const ebb_planner_t *p = ebb_planner_find(policy, &argument);
    if (p)
        return p->make(trace, request, argument, why, why_bytes);
    snprintf(why, why_bytes, "there is no policy \"%.40s\"", policy);
    return NULL;
}

uint64_t ebb_plan_floor(const ebb_trace_t *trace, const ebb_plan_request_t *request)
{
    char why[400];
    uint64_t smallest = 0;
    ebb_plan_request_t r = *request;
    r.device_bytes = 0;
    r.smallest = &smallest;
    /* Twice: the first answer may be that what is alive must find room on the host. */
    for (int i = 0; i < 2; i++) {
        ebb_plan_t *p = ebb_plan_make(trace, &r, why, sizeof why);
        ebb_plan_delete(p);
        if (p)
            return r.device_bytes > smallest ? r.device_bytes : smallest;
        r.device_bytes = smallest > r.device_bytes ? smallest : r.device_bytes;
    }
    ebb_plan_t *p = ebb_plan_make(trace, &r, why, sizeof why);
    ebb_plan_delete(p);
    return p ? r.device_bytes : 0;
}

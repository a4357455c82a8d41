/* planner.c: who makes a policy's plan. */
#include "ckpt/planner/planner.h"

#include "ckpt/planner/candidates.h"

static ebb_plan_maker_t *const makers[EBB_POLICY_COUNT] = {
#define X(code, name, argument, make, tries) make,
    EBB_POLICIES(X)
#undef X
};

bool ebb_planner_find(ebb_policy_t *policy, const char *text)
{
    return ebb_policy_parse(policy, text) && makers[policy->code];
}

ebb_plan_t *ebb_strategy_make(const ebb_trace_t *trace, const ebb_plan_request_t *request,
                              const ebb_policy_t *policy, char *why, size_t why_bytes)
{
    ebb_candidates_t c;
    if (!ebb_candidates_begin(&c, trace, request, why, why_bytes))
        return NULL;
    ebb_candidates_try_strategy(&c, policy);
    return ebb_candidates_end(&c, why, why_bytes);
}

ebb_plan_t *ebb_plan_make(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                          size_t why_bytes)
{
    const char *text = request->policy ? request->policy : "auto";
    ebb_policy_t policy;
    if (ebb_planner_find(&policy, text))
        return makers[policy.code](trace, request, &policy, why, why_bytes);
    snprintf(why, why_bytes, "there is no policy \"%.40s\"", text);
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

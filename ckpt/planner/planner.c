/* planner.c: what makes a policy's plan. */
#include "ckpt/planner/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

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

/* As ebb_plan_bound_ns, of the step as it is. */
static uint64_t bound_ns(const ebb_trace_t *trace, const ebb_plan_request_t *request)
{
    char why[400];
    ebb_model_t m;
    ebb_bound_t bound;
    uint64_t ns = 0;
    if (!ebb_model_make(&m, trace, request, why, sizeof why))
        return 0;
    if (ebb_bound_make(&bound, &m)) {
        ns = request->device_bytes < m.small_bytes
                 ? UINT64_MAX
                 : ebb_bound_ns(&bound,
                                (uint32_t)((request->device_bytes - m.small_bytes) / trace->chunk_bytes));
        ebb_bound_delete(&bound);
    }
    ebb_model_delete(&m);
    return ns;
}

/* ---- frees that are put off ----
 *
 * To everything that plans, a step in which these come later is a step like any other. So there are two steps to plan, and the faster
 * plan is taken: what holds a buffer needs room for it.
 */

/* A copy of the step with such frees. NULL: there are none to put off, or no memory. */
static ebb_trace_t *put_off(const ebb_trace_t *trace, const ebb_plan_request_t *request)
{
    ebb_worth_t worth;
    if (!request->recompute || !ebb_worth_find(trace, request->min_buffer, &worth))
        return NULL;
    uint32_t i = 0;
    while (i < trace->buffer_count && worth.held[i] == EBB_NONE)
        i++;
    ebb_trace_t *late = i < trace->buffer_count ? ebb_trace_copy(trace) : NULL;
    for (; late && i < trace->buffer_count; i++)
        if (worth.held[i] != EBB_NONE)
            ebb_trace_dies_later(late, i, worth.held[i]);
    ebb_worth_free(&worth);
    return late;
}

/* The plan is for the step as it is. */
static void note_put_off(ebb_plan_t *plan, const ebb_trace_t *trace, const ebb_trace_t *late)
{
    for (uint32_t i = 0; plan && i < trace->buffer_count; i++)
        if (late->buffer[i].dies != trace->buffer[i].dies)
            plan->place[i].until = late->buffer[i].dies;
}

typedef struct late_request {
    const ebb_trace_t *trace, *late;
    const ebb_plan_request_t *request;
} late_request_t;

static void found_late(void *finder, ebb_plan_t *plan)
{
    const late_request_t *l = finder;
    note_put_off(plan, l->trace, l->late);
    l->request->found(l->request->finder, plan);
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a && (a < b || !b) ? a : b;
}

static ebb_plan_t *make_of_both(const late_request_t *l, const ebb_policy_t *policy, char *why,
                                size_t why_bytes)
{
    ebb_plan_request_t r = *l->request, s = r;
    uint64_t smallest[2] = {0};
    r.found = r.found ? found_late : NULL;
    r.finder = (void *)l;
    r.smallest = r.smallest ? &smallest[0] : NULL;
    ebb_plan_t *late = makers[policy->code](l->late, &r, policy, why, why_bytes), *plan = NULL;
    note_put_off(late, l->trace, l->late);
    s.found = late ? NULL : s.found;
    s.smallest = s.smallest ? &smallest[1] : NULL;
    if (!late || late->predicted_ns > bound_ns(l->trace, &s))
        plan = makers[policy->code](l->trace, &s, policy, why, why_bytes);
    if (l->request->smallest)
        *l->request->smallest = lesser(smallest[0], smallest[1]);
    const bool is_late = !plan || (late && late->predicted_ns < plan->predicted_ns);
    ebb_plan_delete(is_late ? plan : late);
    return is_late ? late : plan;
}

ebb_plan_t *ebb_plan_make(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                          size_t why_bytes)
{
    const char *text = request->policy ? request->policy : "auto";
    ebb_policy_t policy;
    if (!ebb_planner_find(&policy, text)) {
        snprintf(why, why_bytes, "there is no policy \"%.40s\"", text);
        return NULL;
    }
    const bool keeps = policy.code == EBB_POLICY_AUTO && request->recompute &&
                       ebb_keep_bytes(trace, request, why, why_bytes) - 1 < request->device_bytes;
    ebb_trace_t *late = keeps ? NULL : put_off(trace, request);
    const late_request_t both = {trace, late, request};
    ebb_plan_t *plan = late ? make_of_both(&both, &policy, why, why_bytes)
                            : makers[policy.code](trace, request, &policy, why, why_bytes);
    ebb_trace_delete(late);
    return plan;
}

uint64_t ebb_keep_bytes(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                        size_t why_bytes)
{
    ebb_plan_request_t all = *request;
    all.policy = "keep";
    all.recompute = false;
    all.device_bytes = (uint64_t)1 << 62;
    ebb_plan_t *p = ebb_plan_make(trace, &all, why, why_bytes);
    const uint64_t bytes = p ? ebb_plan_sum(p, trace).peak_bytes : 0;
    ebb_plan_delete(p);
    return bytes;
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

uint64_t ebb_plan_bound_ns(const ebb_trace_t *trace, const ebb_plan_request_t *request)
{
    ebb_trace_t *late = put_off(trace, request);
    const uint64_t ns = bound_ns(trace, request), late_ns = late ? bound_ns(late, request) : ns;
    ebb_trace_delete(late);
    return ns < late_ns ? ns : late_ns;
}

double ebb_plan_gap(const ebb_plan_t *plan, const ebb_trace_t *trace, const ebb_plan_request_t *request)
{
    const uint64_t least = ebb_plan_bound_ns(trace, request);
    if (!least || least == UINT64_MAX)
        return -1;
    return plan->predicted_ns > least ? (double)plan->predicted_ns / (double)least - 1 : 0;
}

/* ---- plans from a file ----
 *
 * A plan made elsewhere.
 */

static bool fits_trace(const ebb_plan_t *p, const ebb_trace_t *t, char *why, size_t why_bytes)
{
    if (p->chunk_bytes != t->chunk_bytes || p->operation_count != t->operation_count ||
        p->buffer_count != t->buffer_count) {
        snprintf(why, why_bytes,
                 "it is for a step of %" PRIu32 " operations on %" PRIu32 " buffers, this one has %" PRIu32
                 " on %" PRIu32,
                 p->operation_count, p->buffer_count, t->operation_count, t->buffer_count);
        return false;
    }
    for (uint32_t i = 0; i < t->buffer_count; i++)
        if (p->place[i].bytes != t->buffer[i].bytes) {
            snprintf(why, why_bytes,
                     "it has buffer %" PRIu32 " with %" PRIu64 " bytes, in this step it has %" PRIu64, i,
                     p->place[i].bytes, t->buffer[i].bytes);
            return false;
        }
    return true;
}

ebb_plan_t *ebb_plan_given(const char *path, const ebb_trace_t *trace, const ebb_hardware_t *hardware,
                           char *why, size_t why_bytes)
{
    FILE *f = fopen(path, "r");
    ebb_plan_t *p = f ? ebb_plan_read(f, why, why_bytes) : NULL;
    if (!f)
        snprintf(why, why_bytes, "%s", strerror(errno));
    else
        fclose(f);
    if (p && fits_trace(p, trace, why, why_bytes)) {
        p->predicted_ns = ebb_simulate_ns(p, trace, hardware);
        return p;
    }
    ebb_plan_delete(p);
    return NULL;
}

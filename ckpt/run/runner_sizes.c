/* runner_sizes.c: variants whose steps are of any size (tracker.h): one that is larger than any before, and what is said ahead of that.
 *
 * What people meet otherwise is the end of memory after a hundred steps, with the first long batch. So, while a plan is driven, a thread
 * of ebb's finds the smallest budget that has a plan for the largest sizes so far, and the one for twice these: of every buffer that has
 * had more than one. Between them a budget grows about in proportion.
 *
 * A plan for the largest steps slows down the smaller ones as well (bench/shapes.py), which may need none at all. So where it costs much, it is
 * driven only while enough of the last steps did not fit. */
#include "ckpt/run/internal.h"

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/drive.h"
#include "ckpt/run/tracker/tracker.h"

/* A step that is so much larger than any before may come soon. */
static const double soon = 1.25;

void ebb_variant_forget_ahead(ebb_device_t *dev, ebb_variant_t *k)
{
    ebb_job_end(dev->ebb, k->ahead);
    k->ahead = NULL;
    k->ahead_count = 0;
    k->ahead_bytes[0] = k->ahead_bytes[1] = 0;
}

void ebb_variant_outgrown(ebb_device_t *dev, ebb_variant_t *k)
{
    if (!k->learned || !k->learned->any_size || !ebb_tracker_follows(dev, k->learned) ||
        ebb_drive_installed(dev, ebb_variant_number(dev, k)) || ebb_match_difference(dev, true) ||
        !ebb_profile_grow(dev, k->profile))
        return;
    ebb_log(EBB_INFO, "a step is larger than any before");
    k->learned->alone_ns = ebb_simulate_alone_ns(k->learned->trace);
    ebb_variant_forget_ahead(dev, k);
    ebb_job_end(dev->ebb, k->job);
    k->job = NULL;
    ebb_plan_delete(k->plan);
    k->plan = NULL;
    if (ebb_options.recompute && ebb_profile_ask_more(dev, k->profile, false)) {
        k->learned = NULL;
        k->phase = EBB_PHASE_LEARN;
    }
}

/* ---- steps that need no plan ---- */

enum { LOOKED_AT = 16, FEW = 4, ENOUGH = 8 }; /* few of these steps need a plan, or enough do */

/* Of a step's time, that a plan may take from every one of them. */
static const double cheap = 0.03;

static bool is_dear(const ebb_variant_t *k)
{
    return k->plan && (double)k->plan->predicted_ns > (1 + cheap) * k->learned->alone_ns;
}

void ebb_variant_note_need(ebb_device_t *dev, ebb_variant_t *k, size_t most_live_bytes)
{
    if (!k->learned || !k->learned->any_size)
        return;
    const double room = (double)ebb_chunks_limit(dev) * EBB_CHUNK_BYTES,
                 in_chunks = (double)ebb_run_need(k->learned->trace, true) /
                             (double)ebb_run_need(k->learned->trace, false);
    k->short_of = (k->short_of << 1 | ((double)most_live_bytes * in_chunks > room)) & ((1u << LOOKED_AT) - 1);
    k->seen += k->seen < LOOKED_AT;
    const int needed = __builtin_popcount(k->short_of);
    if (k->seen < LOOKED_AT)
        return;
    if (k->spared ? needed >= ENOUGH : needed <= FEW && is_dear(k)) {
        k->spared = !k->spared;
        ebb_log(EBB_INFO, k->spared ? "most steps fit without a plan: none is driven while that is so"
                                    : "a plan is driven again: many steps do not fit without");
    }
}

/* ---- ahead of that ---- */

static void say_ahead(ebb_device_t *dev, const ebb_variant_t *k)
{
    const size_t budget = dev->budget_bytes, now = k->ahead_bytes[0], twice = k->ahead_bytes[1];
    if (now && !twice)
        ebb_log(EBB_WARN,
                "there is no plan within any budget for steps twice as large as the largest so far");
    if (!now || twice <= now)
        return;
    if (twice <= budget) {
        ebb_log(EBB_INFO,
                "steps twice as large as the largest so far will have a plan as well: they need %zu MiB",
                twice >> 20);
        return;
    }
    const double times = budget > now ? 1 + (double)(budget - now) / (double)(twice - now) : 1;
    ebb_log(times < soon ? EBB_WARN : EBB_INFO,
            "there is no plan within %zu MiB for steps more than %.2f times as large as the largest so far; "
            "twice as large, they need %zu MiB",
            budget >> 20, times, twice >> 20);
}

static void ask_ahead(ebb_device_t *dev, ebb_variant_t *k)
{
    const ebb_plan_request_t q = ebb_planning_request(dev, &k->limits, &k->rates);
    ebb_trace_t *trace = ebb_profile_enlarged(k->profile, 1 + k->ahead_count);
    k->ahead = trace ? ebb_job_ask(dev->ebb, true, trace, &q, NULL) : NULL;
    ebb_trace_delete(trace);
}

void ebb_variant_look_ahead(ebb_device_t *dev, ebb_variant_t *k)
{
    if (!k->learned->any_size || k->job || k->ahead_count == EBB_AHEAD)
        return;
    if (!k->ahead) {
        ask_ahead(dev, k);
        return;
    }
    if (!ebb_job_is_done(k->ahead))
        return;
    k->ahead_bytes[k->ahead_count++] = ebb_variant_budget(dev, k, k->ahead->floor_bytes);
    ebb_job_end(dev->ebb, k->ahead);
    k->ahead = NULL;
    if (k->ahead_count == EBB_AHEAD)
        say_ahead(dev, k);
}

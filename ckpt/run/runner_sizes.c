/* runner_sizes.c: variants whose steps are of any size (tracker.h): one that is larger than any before, and what is said ahead of that.
 *
 * What people meet otherwise is the end of memory after a hundred steps, with the first long batch. So, while a plan is driven, a thread
 * of ebb's finds the smallest budget that has a plan for the largest sizes so far, and the one for twice these: of every buffer that has
 * had more than one. Between them a budget grows about in proportion.
 *
 * A plan for the largest steps slows down the smaller ones as well (bench/shapes.py), which may need less of one or none at all. So there are size
 * classes: plans of their own for steps in which the key (profile.h) has at most so many of 32 parts of the bytes that it has in the largest. Such a
 * plan is made when a step comes that would have been driven by it, and installed beside that for the largest (drive.h). What other buffers
 * have then is told from the smallest and the largest that were seen (profile.h). And where there is no plan for the largest steps, there may be
 * one for those of up to so many parts: larger ones, which it does not fit, are reactive.
 *
 * Where classes cannot be, since no buffer is a key, or buffers go round, a plan that costs much is driven only
 * while it costs less than what steps without one copy. */
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

/* At least as many bytes, of more. */
static unsigned rescaled(unsigned size, size_t before, size_t now)
{
    return now ? (unsigned)((size * before + now - 1) / now) : size;
}

void ebb_variant_outgrown(ebb_device_t *dev, ebb_variant_t *k)
{
    if (!k->learned || !k->learned->any_size || !ebb_tracker_follows(dev, k->learned) ||
        ebb_drive_installed(dev, ebb_variant_number(dev, k)) || ebb_match_difference(dev, true))
        return;
    size_t fewest;
    const size_t before = ebb_profile_key_bytes(k->profile, &fewest);
    const uint32_t key = k->learned->key;
    if (!ebb_profile_grow(dev, k->profile))
        return;
    ebb_log(EBB_INFO, "a step is larger than any before");
    ebb_variant_forget_sizes(dev, k);
    ebb_variant_forget_ahead(dev, k);
    ebb_variant_forget_plan(dev, k);
    k->size =
        k->learned->key == key ? rescaled(k->size, before, ebb_profile_key_bytes(k->profile, &fewest)) : 0;
    k->learned->alone_ns = ebb_simulate_alone_ns(k->learned->trace);
    if (ebb_options.recompute && ebb_profile_ask_more(dev, k->profile, false)) {
        k->size = 0;
        k->learned = NULL;
        k->phase = EBB_PHASE_LEARN;
    }
}

/* Of a step's time, its plan takes more than such a share. */
static bool costs(const ebb_variant_t *k, double share)
{
    return k->plan && (double)k->plan->predicted_ns > (1 + share) * ebb_variant_alone_ns(k);
}

/* ---- size classes ---- */

enum {
    SIZES = 32, /* parts of the key's bytes in the largest step; class n: up to n of them */
    SMALLER = 4 /* fewer, when there is no plan */
};

static unsigned size_of(const ebb_variant_t *k)
{
    return k->size ? k->size : SIZES;
}

/* Where the plan that is driven takes less of a step's time, there is nothing to gain. */
static const double negligible = 0.01;

/* Or one that is unused. NULL: there is neither. */
static ebb_variant_t *find_class(ebb_device_t *dev, ebb_variant_t *k, unsigned size)
{
    struct ebb_runner *runner = dev->run->runner;
    ebb_variant_t *unused = NULL;
    for (unsigned i = EBB_STEP_VARIANTS; i < EBB_DRIVES; i++) {
        if (runner->variant[i].of == k && runner->variant[i].size == size)
            return &runner->variant[i];
        if (!runner->variant[i].of)
            unused = &runner->variant[i];
    }
    return unused;
}

void ebb_variant_retry_sizes(ebb_device_t *dev, const ebb_variant_t *k)
{
    for (unsigned i = EBB_STEP_VARIANTS; i < EBB_DRIVES; i++)
        if (dev->run->runner->variant[i].of == k)
            dev->run->runner->variant[i].alone = false;
}

static void forget_class(ebb_device_t *dev, ebb_variant_t *c)
{
    ebb_variant_forget_plan(dev, c);
    *c = (ebb_variant_t){.serial = 0};
}

void ebb_variant_forget_sizes(ebb_device_t *dev, ebb_variant_t *k)
{
    struct ebb_runner *runner = dev->run->runner;
    for (unsigned i = EBB_STEP_VARIANTS; i < EBB_DRIVES; i++) {
        if (runner->variant[i].of != k)
            continue;
        if (ebb_drive_installed(dev, i) || runner->driving == &runner->variant[i])
            ebb_run_leave(dev, "its steps have other sizes than it was made for");
        forget_class(dev, &runner->variant[i]);
    }
}

void ebb_variant_report_size(const ebb_variant_t *k)
{
    const double ms = (double)k->plan->predicted_ns * 1e-6, alone_ms = k->sized_ns * 1e-6;
    ebb_log(k->of ? EBB_INFO : EBB_WARN,
            "%s for steps of up to %u/%d of the largest: %.3f ms, %.3f more than their operations (%.1f%%)",
            k->of ? "a plan" : "there is a plan only", k->size, SIZES, ms, ms - alone_ms,
            alone_ms > 0 ? 100 * (ms / alone_ms - 1) : 0);
}

bool ebb_variant_note_above(const ebb_variant_t *k, unsigned size, uint32_t buffer, size_t bytes)
{
    return ebb_profile_note_above(k->profile, (double)size / SIZES, buffer, bytes);
}

bool ebb_variant_make_sized(ebb_variant_t *k)
{
    if (!k->size || k->sized)
        return true;
    k->sized = ebb_profile_sized(ebb_variant_itself(k)->profile, (double)k->size / SIZES);
    k->sized_ns = k->sized ? ebb_simulate_alone_ns(k->sized) : 0;
    return k->sized;
}

bool ebb_variant_ask_smaller(ebb_device_t *dev, ebb_variant_t *k)
{
    size_t fewest;
    const size_t most = ebb_profile_key_bytes(k->profile, &fewest);
    const unsigned size = size_of(k) > SMALLER ? size_of(k) - SMALLER : 0;
    ebb_variant_forget_sizes(dev, k);
    ebb_variant_forget_plan(dev, k);
    k->size = size * most > fewest * SIZES ? size : 0;
    return k->size;
}

/* Of the last step that was driven. */
static unsigned size_now(ebb_device_t *dev, const ebb_variant_t *k)
{
    size_t fewest, its = ebb_drive_key_bytes(dev);
    const size_t most = ebb_profile_key_bytes(k->profile, &fewest);
    its = !its || its >= fewest ? its : fewest; /* they have what the smallest had that was seen */
    return its && its < most ? (unsigned)((its * SIZES + most - 1) / most) : SIZES;
}

/* The class that a step of this size should have been driven by, or an unused one. NULL: it was, or none is to be had. */
static ebb_variant_t *better_class(ebb_device_t *dev, ebb_variant_t *k, unsigned size)
{
    const ebb_variant_t *driving = dev->run->runner->driving;
    const bool is_smaller = size < size_of(driving) && ebb_drive_may_share(dev, k->learned);
    ebb_variant_t *c = is_smaller ? find_class(dev, k, size) : NULL;
    return c && !c->alone ? c : NULL;
}

void ebb_variant_fit_size(ebb_device_t *dev, ebb_variant_t *k)
{
    const unsigned size = size_now(dev, k);
    if (k->job || k->learned->refuted || !costs(dev->run->runner->driving, negligible))
        return;
    ebb_variant_t *c = better_class(dev, k, size);
    if (!c)
        return;
    if (!c->of) {
        *c = (ebb_variant_t){.of = k, .size = size, .phase = EBB_PHASE_DRIVE, .learned = k->learned};
        c->rates = k->rates;
    }
    if (!ebb_drive_installed(dev, ebb_variant_number(dev, c)))
        ebb_variant_install_beside(dev, c);
}

/* ---- steps that need no plan ---- */

enum {
    LOOKED_AT = 16, /* steps; */
    FEW = 4,        /* so many of them, or less, are short of memory, */
    DEAR = 8,       /* and the plan costs much in so many */
    SETTLED = 4     /* steps behind a plan's end: what leaving it has copied is over */
};

/* Of a step's time, that a plan may take from every one of them. */
static const double cheap = 0.03;

/* A known cost is forgotten slowly where nothing new comes. */
static const double forgotten = 0.005;

static void note_ns(ebb_mean_t *m, double ns)
{
    m->of += m->of < LOOKED_AT;
    m->is += (ns - m->is) / m->of;
}

/* What the last step has copied, one after another. */
static double copied_ns(ebb_device_t *dev, const ebb_variant_t *k)
{
    const ebb_traffic_t now = ebb_traffic(dev);
    const ebb_hardware_t *link = &k->learned->trace->hardware;
    const double out = (double)(now.bytes_out - dev->run->runner->bytes_out),
                 in = (double)(now.bytes_in - dev->run->runner->bytes_in);
    return link->out_bytes_per_ns > 0 && link->in_bytes_per_ns > 0
               ? out / link->out_bytes_per_ns + in / link->in_bytes_per_ns
               : 0;
}

static void note_step(ebb_device_t *dev, ebb_variant_t *k, bool is_short)
{
    const uint32_t all = (1u << LOOKED_AT) - 1;
    ebb_variant_t *const driving = dev->run->runner->driving;
    const bool is_driven = driving && ebb_variant_itself(driving) == k && ebb_drive_active(dev),
               is_dear = is_driven && costs(driving, cheap) && !better_class(dev, k, size_now(dev, k));
    ebb_sparing_t *n = &k->sparing;
    n->short_of = (n->short_of << 1 | is_short) & all;
    n->dear = (n->dear << 1 | is_dear) & all;
    n->seen += n->seen < LOOKED_AT;
    n->spared += n->spared > 0;
    if (is_driven)
        note_ns(&n->driven, (double)driving->plan->predicted_ns - ebb_variant_alone_ns(driving));
    if (n->spared > SETTLED)
        note_ns(&n->copied, copied_ns(dev, k));
    else
        n->copied.is *= 1 - forgotten;
}

void ebb_variant_note_need(ebb_device_t *dev, ebb_variant_t *k, size_t most_live_bytes)
{
    if (!k->learned || !k->learned->any_size || !most_live_bytes)
        return;
    const double room = (double)ebb_chunks_limit(dev) * EBB_CHUNK_BYTES,
                 in_chunks = (double)ebb_run_need(k->learned->trace, true) /
                             (double)ebb_run_need(k->learned->trace, false);
    note_step(dev, k, (double)most_live_bytes * in_chunks > room);
    ebb_sparing_t *n = &k->sparing;
    if (n->spared > SETTLED && n->copied.is > n->driven.is) {
        n->spared = 0;
        ebb_log(EBB_INFO, "a plan is driven again: steps without one copy more than it costs");
    } else if (!n->spared && n->seen == LOOKED_AT && __builtin_popcount(n->short_of) <= FEW &&
               __builtin_popcount(n->dear) >= DEAR && n->copied.is < n->driven.is) {
        n->spared = 1;
        ebb_log(EBB_INFO, "most steps fit without a plan: none is driven while that is so");
    }
}

/* ---- ahead of that ---- */

static void say_ahead(ebb_device_t *dev, const ebb_variant_t *k)
{
    const size_t budget = dev->budget_bytes, now = k->ahead_bytes[0], twice = k->ahead_bytes[1];
    if (now > budget)
        ebb_log(EBB_WARN, "there is no plan within %zu MiB for the largest steps so far: they need %zu MiB",
                budget >> 20, now >> 20);
    if (now && !twice)
        ebb_log(EBB_WARN,
                "there is no plan within any budget for steps twice as large as the largest so far");
    if (!now || now > budget || twice <= now)
        return;
    if (twice <= budget) {
        ebb_log(EBB_INFO,
                "steps twice as large as the largest so far will have a plan as well: they need %zu MiB",
                twice >> 20);
        return;
    }
    const double times = 1 + (double)(budget - now) / (double)(twice - now);
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

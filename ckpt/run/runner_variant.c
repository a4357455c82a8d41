/* runner_variant.c: what is known of a step variant: its profiling passes, and what they have come to. */
#include "ckpt/run/internal.h"

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "ckpt/run/drive/drive.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"

void ebb_run_leave(ebb_device_t *dev, const char *why)
{
    _Static_assert(EBB_DRIVES > EBB_STEP_VARIANTS, "an index for each variant, and some for size classes");
    dev->run->runner->driving = NULL;
    ebb_drive_leave(dev, why);
    ebb_tracker_end(dev);
}

void ebb_variant_forget(ebb_device_t *dev, ebb_variant_t *k)
{
    if (ebb_drive_installed(dev, ebb_variant_number(dev, k)))
        ebb_run_leave(dev, "what was learned of this step variant is forgotten");
    if (ebb_tracker_follows(dev, ebb_variant_recording(k)))
        ebb_tracker_end(dev);
    ebb_variant_forget_sizes(dev, k);
    ebb_variant_forget_ahead(dev, k);
    ebb_variant_forget_plan(dev, k);
    ebb_profile_delete(dev, k->profile);
    k->size = 0;
    k->profile = NULL;
    k->learned = NULL;
    k->refused = 0;
    k->floor_bytes = 0;
    k->limits = (ebb_check_limits_t){0};
    k->rest = k->rested = 0;
    k->alone = false;
    k->phase = EBB_PHASE_OBSERVE;
}

void ebb_variant_interrupt(ebb_device_t *dev, ebb_variant_t *k, const char *why)
{
    enum { MOST_INTERRUPTIONS = 8 };
    ebb_variant_forget(dev, k);
    if (++k->interruptions <= MOST_INTERRUPTIONS)
        return;
    ebb_log(EBB_WARN, "no plan, ebb stays reactive: %s, again and again", why);
    k->phase = EBB_PHASE_REACTIVE;
}

/* As the finder says; also of what has just been recorded. */
static void mark_sizes(ebb_device_t *dev, const ebb_variant_t *k)
{
    if (k->profile && ebb_step_variant(dev->run->runner->finder, ebb_variant_number(dev, k)).any_size)
        ebb_profile_is_any_size(k->profile);
}

/* Numbers of variants that are forgotten are given again. */
ebb_variant_t *ebb_variant_of(ebb_device_t *dev, int number)
{
    struct ebb_runner *runner = dev->run->runner;
    if (number < 0)
        return NULL;
    ebb_variant_t *k = &runner->variant[number];
    const ebb_step_variant_t info = ebb_step_variant(runner->finder, (unsigned)number);
    if (k->serial != info.serial) {
        ebb_files_forget(dev, (unsigned)number);
        ebb_variant_forget(dev, k);
        *k = (ebb_variant_t){.serial = info.serial};
    }
    if (k->profile && info.any_size && k->learned && !k->learned->any_size) {
        ebb_log(EBB_INFO, "steps are of ever other sizes: what is known of one of them is learned for all");
        ebb_variant_forget(dev, k);
    }
    mark_sizes(dev, k);
    return k;
}

static void forget_gone(ebb_device_t *dev)
{
    for (int i = 0; i < (int)EBB_STEP_VARIANTS; i++)
        ebb_variant_of(dev, i);
}

static bool is_policy(ebb_policy_code_t code)
{
    return ebb_options.policy.code == code;
}

static bool may_plan(void)
{
    return !is_policy(EBB_POLICY_LEARN) && !is_policy(EBB_POLICY_REACTIVE) && !is_policy(EBB_POLICY_KEEP);
}

/* The budget is a share of a step's peak. */
static bool is_share_of_peak(void)
{
    return ebb_options.budget.of == EBB_SIZE_OF_PEAK;
}

/* Where everything fits, there is nothing to plan; but a strategy that was asked for is followed. */
static bool needs_plan(ebb_device_t *dev)
{
    return may_plan() && (ebb_traffic(dev).evictions || *ebb_options.plan || *ebb_options.save_plan ||
                          is_share_of_peak() || !is_policy(EBB_POLICY_AUTO));
}

bool ebb_run_is_worth_learning(ebb_device_t *dev)
{
    const bool may_learn = may_plan() || is_policy(EBB_POLICY_LEARN),
               wanted = needs_plan(dev) || ebb_traffic(dev).evictions || *ebb_options.trace;
    return !ebb_plans_rest(dev) &&
           ((may_learn && wanted) || (is_share_of_peak() && !dev->run->runner->sized));
}

bool ebb_run_wants_operations(ebb_device_t *dev)
{
    return ebb_traffic(dev).evictions || ebb_run_is_worth_learning(dev);
}

void ebb_variant_take_budget(ebb_device_t *dev, size_t bytes)
{
    dev->budget_bytes = bytes;
    ebb_chunks_budget(dev, bytes);
    ebb_wait_for_device(dev->ebb);
    ebb_heap_shrink(dev);
    ebb_wait_for_device(dev->ebb);
    ebb_heap_shrink(dev); /* what has left until now */
    ebb_chunks_forget_peak(dev);
}

/* A budget that is a share of a step's peak is known with the first step that is. */
static void size_budget(ebb_device_t *dev, const ebb_trace_t *trace)
{
    struct ebb_runner *runner = dev->run->runner;
    char why[256];
    if (!is_share_of_peak() || runner->sized)
        return;
    runner->sized = true;
    const uint64_t peak = ebb_planning_peak(dev, trace, why, sizeof why);
    const ebb_usage_t u = ebb_usage(dev);
    const size_t not_ebbs = dev->budget_bytes - u.budget_bytes - u.headroom_bytes,
                 share = (size_t)((double)peak * (double)ebb_options.budget.amount / 100),
                 bytes = ebb_chunks_with_headroom(share + not_ebbs);
    if (!peak)
        ebb_log(EBB_WARN, "the budget stays %zu MiB, for the step's peak is not known: %s",
                dev->budget_bytes >> 20, why);
    if (!peak || bytes > dev->budget_bytes)
        return;
    ebb_variant_take_budget(dev, bytes);
    ebb_log(EBB_INFO,
            "the budget is %zu MiB from here on: %lld%% of the %zu MiB that a step takes when everything is "
            "kept, and "
            "%zu MiB that are not ebb's",
            bytes >> 20, (long long)ebb_options.budget.amount, (size_t)peak >> 20, not_ebbs >> 20);
}

void ebb_variant_begin_pass(ebb_device_t *dev, ebb_variant_t *k)
{
    if (!k->profile)
        k->profile = ebb_profile_new();
    if (k->profile && ebb_learn_begin(dev, k->profile))
        return;
    ebb_log(EBB_WARN, "a step cannot be learned, ebb stays reactive: %s", ebb_last_failure());
    ebb_variant_forget(dev, k);
    k->phase = EBB_PHASE_REACTIVE;
}

void ebb_variant_learn(ebb_device_t *dev, ebb_variant_t *k)
{
    if (!k->profile && k->phase == EBB_PHASE_OBSERVE)
        k->profile = ebb_profile_new();
    if (!k->profile || k->phase == EBB_PHASE_DRIVE || k->phase == EBB_PHASE_REACTIVE ||
        !ebb_learn_give(dev, k->profile)) {
        ebb_learn_abandon(dev); /* another variant was expected */
        return;
    }
    k->phase = EBB_PHASE_LEARN;
    const ebb_learned_t learned = ebb_learn_end(dev);
    mark_sizes(dev, k);
    if (learned == EBB_LEARNED) {
        k->learned = ebb_profile_recording(k->profile);
        k->renewed = ebb_step_variant(dev->run->runner->finder, ebb_variant_number(dev, k)).renewed;
        forget_gone(dev);
        ebb_planning_describe(dev, k->learned->trace);
        k->learned->alone_ns = ebb_simulate_alone_ns(k->learned->trace);
        ebb_files_trace(dev, ebb_variant_number(dev, k), k->learned->trace);
        size_budget(dev, k->learned->trace);
        k->phase = needs_plan(dev) ? EBB_PHASE_DRIVE : EBB_PHASE_REACTIVE;
        if (k->learned->hidden) {
            k->learned = NULL;
            k->phase = EBB_PHASE_REACTIVE;
        }
    } else if (learned == EBB_LEARNED_NEVER) {
        ebb_variant_forget(dev, k);
        k->phase = EBB_PHASE_REACTIVE;
    }
}

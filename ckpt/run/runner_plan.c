/* runner_plan.c: from what was learned of a step variant to a plan that is driven, given up for another one when the memory or the
 * link is not what it was made for; and variants that alternate, whose plans agree about what is between steps (plan.h).
 *
 * A plan is asked for at one boundary and heard of at another (plan_job.c). What holds at the first one need not at the second:
 *   the trace        what was proven may have been refuted: such a plan is not taken
 *   memory           with less of it than was asked for the plan is checked anew
 *   other plans      whether it agrees with what is driven is seen when it is to be driven beside that, as of any plan
 *   buffers          installing looks for them
 * Where one does not hold, the plan is made anew. What was forgotten meanwhile has given up its job. */
#include "ckpt/run/internal.h"

#include <stdlib.h>

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/drive.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"
#include "ckpt/run/stats/stats.h"
#include "ckpt/run/tracker/tracker.h"
#include "offload/ebb_offload.h"

enum { MOST_FRUITLESS = 16, MOST_FAILURES = 4, MOST_UNKNOWN = 64 };
/* Plans that are given up for another one, at most, and after how many driven steps that is looked into. */
enum { MOST_REPLANS = 4, PACE_STEPS = 6 };
/* Beyond these, those that do not fit any more when they are installed: small buffers that outlive a step keep chunks, and what
 * has to be pinned is rounded. */
enum { MOST_INSTALL_FAILURES = 16 };
/* Steps after which a program that does not keep to its plan is tried again; twice as many each time. */
enum { REST_STEPS = 64, MOST_REST_STEPS = 4096 };

static void report_plan(const ebb_plan_sum_t *s, const ebb_variant_t *k)
{
    const double ms = (double)k->plan->predicted_ns * 1e-6, alone_ms = ebb_variant_alone_ns(k) * 1e-6;
    ebb_log(
        EBB_INFO,
        "plan: a step takes %.1f MiB, copies %.1f MiB to the host and %.1f back, and recomputes %.1f; it is "
        "expected to last %.3f ms, %.3f more than its operations (%.1f%%)",
        (double)s->peak_bytes / (1 << 20), (double)s->bytes_out / (1 << 20), (double)s->bytes_in / (1 << 20),
        (double)s->dropped_bytes / (1 << 20), ms, ms - alone_ms,
        alone_ms > 0 ? 100 * (ms / alone_ms - 1) : 0);
    if (k->gap >= 0)
        ebb_log(EBB_INFO, "that is at most %.1f%% above the best possible within this memory", 100 * k->gap);
    ebb_log(EBB_INFO, "planning took %.3f s%s", (double)k->took_ns * 1e-9,
            k->waited ? "" : ", and the program went on meanwhile");
    ebb_log(
        EBB_DEBUG,
        "the plan keeps %u buffers, offloads %u, drops %u, holds %u that the program frees; it replays %u "
        "launches",
        s->kept_buffers, s->offloaded_buffers, s->dropped_buffers, s->late_buffers, s->replays);
}

size_t ebb_variant_budget(ebb_device_t *dev, const ebb_variant_t *k, size_t bytes)
{
    const size_t mib = (size_t)1 << 20, not_ebbs = dev->budget_bytes - ebb_usage(dev).budget_bytes;
    return bytes ? (bytes + k->reserved_bytes + not_ebbs + mib - 1) / mib * mib : 0;
}

/* 0: it is not known, or there is none. */
static size_t whole_floor(ebb_device_t *dev, const ebb_variant_t *k)
{
    return ebb_variant_budget(dev, k, k->floor_bytes);
}

size_t ebb_run_wanted_budget(ebb_device_t *dev, unsigned times)
{
    size_t floor = 0;
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++) {
        const ebb_variant_t *k = &dev->run->runner->variant[i];
        const size_t refused = k->learned && times == 1 ? whole_floor(dev, k) : 0,
                     ahead = k->ahead_bytes[times - 1];
        floor = refused > floor ? refused : floor;
        floor = ahead > floor ? ahead : floor;
    }
    return floor > dev->budget_bytes ? floor : 0;
}

/* ---- questions and answers (plan_job.c) ---- */

/* The boundary is the job's. False: no host memory. */
static bool ask(ebb_device_t *dev, ebb_variant_t *k, bool floor, ebb_boundary_t *boundary)
{
    const ebb_plan_request_t q = ebb_planning_request(dev, &k->limits, &k->rates);
    ebb_job_end(dev->ebb, k->job);
    k->job = NULL;
    k->terms = dev->run->runner->terms;
    if (!ebb_variant_make_sized(k)) {
        ebb_boundary_delete(boundary);
        return false;
    }
    k->job = ebb_job_ask(dev->ebb, floor, ebb_variant_trace(k), &q, boundary);
    return k->job;
}

static void say_refused(ebb_device_t *dev, const ebb_variant_t *k, const char *why)
{
    const size_t floor = whole_floor(dev, k);
    if (floor)
        ebb_log(
            EBB_WARN,
            "there is no plan for a budget of %zu MiB, only from %zu MiB on; ebb stays reactive: each buffer "
            "moves when it is needed, which is slow",
            dev->budget_bytes >> 20, floor >> 20);
    else
        ebb_log(EBB_WARN, "there is no plan for any budget, ebb stays reactive: %s", why);
}

/* There is no plan for so many bytes: it is learned on, to prove more, or there is one for smaller steps, or there may be more room later. */
static void refuse(ebb_device_t *dev, ebb_variant_t *k, const char *why)
{
    const size_t room = k->limits.device_bytes;
    if (k->of) { /* that of the largest steps drives its steps, too */
        k->alone = true;
        return;
    }
    if (ebb_options.recompute && ebb_profile_ask_more(dev, k->profile, true)) {
        ebb_log(EBB_INFO, "no plan fits into %zu MiB yet: ebb learns which more launches can be repeated",
                room >> 20);
        ebb_variant_forget_sizes(dev, k);
        k->size = 0;
        k->learned = NULL;
        k->phase = EBB_PHASE_LEARN;
        return;
    }
    if (ebb_variant_ask_smaller(dev, k))
        return;
    ebb_log(EBB_DEBUG, "no plan for %zu MiB: %s", room >> 20, why);
    k->phase = EBB_PHASE_REACTIVE;
    k->refused = room;
    k->refused_steps = 0;
    if (k->limits.host_bytes && ask(dev, k, true, NULL))
        snprintf(k->refusal, sizeof k->refusal, "%s", why);
    else
        say_refused(dev, k, why);
}

static ebb_check_limits_t limits_of(ebb_device_t *dev, ebb_variant_t *k, ebb_buffer_t *const *present)
{
    const size_t device = ebb_drive_room(dev, k->learned, present);
    return (ebb_check_limits_t){device, ebb_drive_host_room(dev, k->learned, present), ebb_host_behind(dev)};
}

/* What could be launched again when the plan was asked for still can, and there is as much memory, or it does with less. */
static bool suits(ebb_device_t *dev, ebb_variant_t *k, const ebb_plan_job_t *job, const ebb_plan_t *plan,
                  ebb_buffer_t *const *present)
{
    char why[256] = "what it launches again has given other bits meanwhile";
    const ebb_check_limits_t now = limits_of(dev, k, present);
    if (!k->learned->refuted &&
        ((now.device_bytes >= job->request.device_bytes && now.host_bytes >= job->request.host_bytes &&
          now.behind_bytes >= job->request.behind_bytes) ||
         ebb_check_plan(job->trace, plan, &now, why, sizeof why))) {
        k->limits = now;
        return true;
    }
    ebb_log(EBB_DEBUG, "a plan that was made does not suit any more: %s", why);
    return false;
}

/* Owned from then on; it is installed when driving begins. */
static void take_plan(ebb_device_t *dev, ebb_variant_t *k, const ebb_plan_job_t *job, ebb_plan_t *plan)
{
    k->refused = 0;
    k->plan = plan;
    k->request = job->request;
    k->gap = -1;
    k->took_ns = job->first_ns;
    k->waited = job->waited;
    k->late_ns = 0;
    k->untold = true;
    if (!k->of)
        ebb_variant_retry_sizes(dev, k);
}

static void take_last(ebb_device_t *dev, ebb_variant_t *k, ebb_plan_job_t *job)
{
    take_plan(dev, k, job, job->plan);
    k->gap = job->gap;
    k->took_ns = job->took_ns;
    job->plan = NULL;
}

void ebb_variant_forget_plan(ebb_device_t *dev, ebb_variant_t *k)
{
    ebb_job_end(dev->ebb, k->job);
    ebb_plan_delete(k->plan);
    ebb_trace_delete(k->sized);
    k->job = NULL;
    k->plan = NULL;
    k->sized = NULL;
}

/* Another one is made when driving begins again. */
static void give_up_plan(ebb_device_t *dev, ebb_variant_t *k)
{
    ebb_variant_forget_plan(dev, k);
    k->replans++;
    dev->run->runner->steps.replans++;
}

/* The job's, which suits, in the place of the one that there is, which is left if it is driven. */
static void replace_plan(ebb_device_t *dev, ebb_variant_t *k, ebb_plan_job_t *job, const char *why)
{
    if (ebb_drive_installed(dev, ebb_variant_number(dev, k)))
        ebb_run_leave(dev, why);
    if (k->learned->refuted) /* what is left is looked at */
        return;
    ebb_plan_delete(k->plan);
    dev->run->runner->steps.replans++;
    take_last(dev, k, job);
}

/* It was asked for because of late copies. */
static void hear_of_late_copies(ebb_device_t *dev, ebb_variant_t *k, ebb_plan_job_t *job,
                                ebb_buffer_t *const *present)
{
    k->replans++;
    if (!job->plan) {
        ebb_log(EBB_DEBUG, "copies come late, and there is no other plan: %s", job->why);
        return;
    }
    if (!suits(dev, k, job, job->plan, present))
        return;
    ebb_log(EBB_INFO,
            "a new plan: the program waited %.3f ms a step for copies, which get %.1f GB/s out and %.1f back",
            k->late_ns * 1e-6, k->rates.out, k->rates.in);
    replace_plan(dev, k, job, "its copies come late");
}

static bool is_beside_others(ebb_device_t *dev, ebb_variant_t *k)
{
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++)
        if (&dev->run->runner->variant[i] != k && ebb_drive_installed(dev, i))
            return true;
    return false;
}

/* The first plan has been driven meanwhile. Others agree with it, where there are any: it stays then. */
static void hear_of_better(ebb_device_t *dev, ebb_variant_t *k, ebb_plan_job_t *job,
                           ebb_buffer_t *const *present)
{
    const uint64_t now = k->plan->predicted_ns, then = job->plan ? job->plan->predicted_ns : now;
    if (then < now - now / 100 && !is_beside_others(dev, k) && suits(dev, k, job, job->plan, present)) {
        ebb_log(EBB_INFO, "a better plan: a step is expected to last %.3f ms instead of %.3f",
                (double)then * 1e-6, (double)now * 1e-6);
        replace_plan(dev, k, job, "there is a better one");
    } else if (job->gap >= 0) {
        ebb_log(EBB_INFO, "the plan is at most %.1f%% above the best possible within this memory",
                100 * ((1 + job->gap) * (double)now / (double)then - 1));
    }
}

/* A plan that has been found while the job goes on. Where it does not suit, the job's answer will not either. */
static void hear_first(ebb_device_t *dev, ebb_variant_t *k, ebb_plan_job_t *job, ebb_buffer_t *const *present)
{
    ebb_plan_t *plan = k->plan ? NULL : ebb_job_first(job);
    if (!plan)
        return;
    if (suits(dev, k, job, plan, present)) {
        take_plan(dev, k, job, plan);
        return;
    }
    ebb_plan_delete(plan);
    ebb_job_end(dev->ebb, job);
    k->job = NULL;
}

void ebb_variant_hear(ebb_device_t *dev, ebb_variant_t *k, ebb_buffer_t *const *present)
{
    ebb_plan_job_t *job = k->job;
    if (job && !ebb_job_is_done(job)) {
        hear_first(dev, k, job, present);
        return;
    }
    if (!job)
        return;
    k->job = NULL;
    if (job->floor) {
        k->floor_bytes = job->floor_bytes;
        say_refused(dev, k, k->refusal);
    } else if (k->plan && k->late_ns > 0) {
        hear_of_late_copies(dev, k, job, present);
    } else if (k->plan) {
        hear_of_better(dev, k, job, present);
    } else if (job->plan) {
        if (suits(dev, k, job, job->plan, present))
            take_last(dev, k, job);
    } else if (job->boundary) {
        ebb_log(EBB_DEBUG, "no plan for kind %u agrees with that of another variant: %s",
                ebb_variant_number(dev, k), job->why);
        k->alone = true;
    } else {
        refuse(dev, k, job->why);
    }
    ebb_job_end(dev->ebb, job);
    if (k->job)
        ebb_variant_hear(dev, k, present);
}

static void note_reserved(ebb_device_t *dev, ebb_variant_t *k, size_t room)
{
    k->reserved_bytes = ebb_chunks_limit(dev) * EBB_CHUNK_BYTES - room;
}

/* It has been asked for, and is not there yet. */
static bool is_being_made(const ebb_variant_t *k)
{
    return !k->plan && k->job && !k->job->floor;
}

/* With the memory that there is now, and beside the plan that is driven (`beside`). */
static void ask_for_plan(ebb_device_t *dev, ebb_variant_t *k, ebb_buffer_t *const *present, bool beside)
{
    k->limits = limits_of(dev, k, present);
    note_reserved(dev, k, k->limits.device_bytes);
    k->floor_bytes = 0;
    k->late_ns = 0;
    if (!ask(dev, k, false, beside ? ebb_drive_boundary(dev, k->learned) : NULL))
        refuse(dev, k, "no host memory");
    ebb_variant_hear(dev, k, present);
    if (is_being_made(k))
        ebb_log(EBB_INFO, "a plan is being made, and the program goes on meanwhile");
}

/* ---- what a plan was made for ---- */

/* Looking costs what the allocator keeps: seldom, and less often the longer it lasts. */
bool ebb_variant_has_more_room(ebb_device_t *dev, ebb_variant_t *k, ebb_buffer_t *const *present)
{
    const unsigned n = ++k->refused_steps;
    return n > 1 && (n & (n - 1)) == 0 && ebb_drive_room(dev, k->learned, present) > k->refused;
}

/* A program that has not kept to its plan may do so by now. */
bool ebb_variant_is_rested(ebb_variant_t *k)
{
    if (!k->rest || k->refused || ++k->rested < k->rest)
        return false;
    k->fruitless = k->failures = k->rested = 0;
    return true;
}

/* What is reported of a plan that has been installed; of several that are installed together, their peak. */
static void note_plan(ebb_device_t *dev, const ebb_variant_t *k, bool beside)
{
    struct ebb_runner *runner = dev->run->runner;
    uint64_t small = 0; /* small regions are shared, if they are large enough */
    for (unsigned i = 0; i < EBB_DRIVES; i++)
        if (&runner->variant[i] != k && ebb_drive_installed(dev, i) &&
            runner->variant[i].plan->small_bytes > small)
            small = runner->variant[i].plan->small_bytes;
    const ebb_plan_sum_t sum = ebb_plan_sum(k->plan, ebb_variant_trace(k));
    const uint64_t peak = sum.peak_bytes + k->reserved_bytes,
                   both = runner->steps.predicted_peak_bytes +
                          (k->plan->small_bytes > small ? k->plan->small_bytes : 0);
    if (!k->of)
        runner->steps.plan = sum;
    runner->steps.predicted_peak_bytes = beside && both > peak ? both : peak;
    runner->steps.variant_peak_bytes[ebb_variant_number(dev, k->of ? k->of : k)] =
        runner->steps.predicted_peak_bytes;
}

/* Less memory than when the plan was made: what ebb does not own has grown. */
static bool has_outgrown(ebb_device_t *dev, ebb_variant_t *k, ebb_buffer_t *const *present)
{
    const size_t room = ebb_drive_room(dev, k->learned, present);
    const size_t needed = k->plan->chunk_count * EBB_CHUNK_BYTES + k->plan->small_bytes;
    if (needed <= room)
        return false;
    ebb_log(EBB_INFO,
            "a new plan: the last one takes %zu MiB, and only %zu are left, because the rest has grown",
            needed >> 20, room >> 20);
    return true;
}

/* A plan that what it was made for has left is given up. */
static void revise_plan(ebb_device_t *dev, ebb_variant_t *k, ebb_buffer_t *const *present)
{
    dev->run->runner->terms += ebb_drive_note_kept(dev, k->learned, present);
    if (k->plan && k->terms != dev->run->runner->terms) {
        if (!k->of)
            ebb_variant_forget_sizes(dev, k);
        ebb_variant_forget_plan(dev, k);
        k->replans = k->install_failures = 0;
    }
    if (!k->of && k->learned->refuted) {
        ebb_variant_forget_sizes(dev, k);
        ebb_variant_forget_plan(dev, k);
        ebb_record_settle(k->learned);
        k->learned->refuted = false;
    }
    if (k->plan && k->replans < MOST_REPLANS && has_outgrown(dev, k, present))
        give_up_plan(dev, k);
}

void ebb_variant_revise_pace(ebb_device_t *dev, ebb_variant_t *k)
{
    const ebb_drive_pace_t pace = ebb_drive_pace(dev);
    if (k->learned->refuted)
        return; /* it is about to be left */
    if (k->job) {
        ebb_variant_hear(dev, k, NULL);
        return;
    }
    ebb_variant_look_ahead(dev, ebb_variant_itself(k));
    if (k->replans >= MOST_REPLANS || !pace.steps || pace.steps % PACE_STEPS)
        return;
    if (!ebb_planning_is_late(dev, ebb_variant_trace(k), k->plan, &pace, &k->rates))
        return;
    /* Until it is made, and where there is none, the one that is driven is better than none. */
    k->late_ns = (double)pace.stall_ns / (double)pace.steps;
    if (ask(dev, k, false, NULL))
        ebb_variant_hear(dev, k, NULL);
}

/* Reactive for a while, longer each time. */
static void rest(ebb_variant_t *k, const char *why)
{
    if (k->of) { /* that of the largest steps drives its steps, too */
        k->alone = true;
        return;
    }
    k->rest = k->rest ? 2 * k->rest : REST_STEPS;
    k->rest = k->rest < MOST_REST_STEPS ? k->rest : MOST_REST_STEPS;
    k->rested = 0;
    k->phase = EBB_PHASE_REACTIVE;
    ebb_log(EBB_WARN, "%s: ebb stays reactive for %u steps", why, k->rest);
}

/* Everything is as it was. Beside a driven plan it is not tried again; else at the next boundary, with another plan if this one does
 * not fit any more; when what outlives the step has become another, the step is learned again. */
static void not_installed(ebb_device_t *dev, ebb_variant_t *k, ebb_status_t status,
                          ebb_buffer_t *const *present, const ebb_boundary_t *boundary)
{
    char why[256];
    if (boundary) {
        k->alone = true;
        return;
    }
    const ebb_check_limits_t limits = limits_of(dev, k, present);
    if (k->install_failures < MOST_INSTALL_FAILURES &&
        !ebb_check_plan(ebb_variant_trace(k), k->plan, &limits, why, sizeof why)) {
        ebb_log(EBB_INFO,
                "a new plan: with the %zu MiB that are left on the device, and %zu on the host, the last one "
                "fails: %s",
                (size_t)limits.device_bytes >> 20, (size_t)limits.host_bytes >> 20, why);
        k->install_failures++;
        give_up_plan(dev, k);
    } else if (++k->failures % MOST_FAILURES == 0) {
        rest(k, "the plan can't be installed");
    } else if (status == CUDA_ERROR_NOT_FOUND) {
        ebb_variant_forget(dev, k);
    }
}

/* By a call that can be made again, when what the plan needs has been pinned without the lock (ebb_pinned_is_wanted): by no other. */
static ebb_status_t install(ebb_device_t *dev, ebb_variant_t *k, ebb_buffer_t *const *present)
{
    if (!ebb_pinned_defer(true))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pinned host memory for a plan", 0);
    const ebb_status_t status =
        ebb_drive_install(dev, ebb_variant_number(dev, k), ebb_variant_number(dev, ebb_variant_itself(k)),
                          k->learned, ebb_variant_trace(k), k->plan, present);
    ebb_pinned_defer(false);
    return status;
}

/* Its steps do not begin any more where they did when it was learned. */
static bool begins_elsewhere(ebb_device_t *dev, const ebb_variant_t *k)
{
    return ebb_step_variant(dev->run->runner->finder, ebb_variant_number(dev, k)).renewed != k->renewed;
}

/* With the buffers that are there now. */
static void begin_driving_with(ebb_device_t *dev, ebb_variant_t *k, ebb_buffer_t *const *present,
                               const ebb_boundary_t *boundary)
{
    struct ebb_runner *runner = dev->run->runner;
    revise_plan(dev, k, present);
    if (!k->plan) {
        ebb_log(EBB_DEBUG, "making a plan"); /* tests look for it */
        ask_for_plan(dev, k, present, boundary);
    }
    if (!k->plan || (boundary && !ebb_boundary_agrees(boundary, k->plan, NULL, 0)))
        return;
    if (k->untold)
        note_reserved(dev, k, limits_of(dev, k, present).device_bytes);
    uint64_t driven = ebb_drive_counts(dev).steps;
    k->fruitless = driven > k->driven_before ? 0 : k->fruitless;
    if (k->fruitless == MOST_FRUITLESS) {
        ebb_variant_t *of = ebb_variant_itself(k);
        if (begins_elsewhere(dev, of)) {
            of->fruitless = 0;
            ebb_variant_interrupt(dev, of, "steps do not begin where they did");
        } else {
            rest(k, "the program does not keep to the plan any more");
        }
        return;
    }
    const ebb_status_t status = install(dev, k, present);
    if (status && ebb_pinned_is_wanted())
        return;
    k->fruitless++;
    k->driven_before = driven;
    if (status) {
        not_installed(dev, k, status, present, boundary);
        return;
    }
    k->failures = 0;
    runner->driving = k;
    if (!k->untold)
        return;
    k->untold = false;
    note_plan(dev, k, boundary);
    runner->steps.plans++;
    if (k->size)
        ebb_variant_report_size(k);
    if (k->of)
        return;
    report_plan(&runner->steps.plan, k);
    ebb_files_plan(dev, ebb_variant_number(dev, k), k->plan, &k->request);
}

/* Not before it is known which buffers a step begins with, if that is of any use. */
void ebb_variant_drive(ebb_device_t *dev, ebb_variant_t *k, ebb_buffer_t *const *present)
{
    if (ebb_drive_knows_all(dev, k->learned, present, true) ||
        !ebb_rotation_period(k->learned->trace, NULL, 0)) {
        k->unknown = 0;
        ebb_variant_hear(dev, k, present);
        if (k->phase != EBB_PHASE_DRIVE || is_being_made(k))
            return;
        ebb_tracker_end(dev);
        begin_driving_with(dev, k, present, NULL);
    } else if (++k->unknown > MOST_UNKNOWN) {
        k->unknown = 0;
        ebb_variant_interrupt(dev, k, "which buffers outlive the step as which is never known");
    }
}

/* ---- variants that alternate ---- */

uint64_t ebb_run_need(const ebb_trace_t *t, bool in_chunks)
{
    uint64_t most = 0, *alive = calloc((size_t)t->operation_count + 2, sizeof *alive), now = 0;
    for (uint32_t i = 0; alive && i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *b = &t->buffer[i];
        const uint64_t chunks = in_chunks ? ebb_uses_chunks(b) : 0,
                       bytes = chunks ? chunks * EBB_CHUNK_BYTES : b->bytes;
        alive[b->born == EBB_NONE ? 0 : b->born] += bytes;
        alive[b->dies == EBB_NONE ? t->operation_count + 1 : b->dies] -= bytes;
    }
    for (uint32_t i = 0; alive && i <= t->operation_count; i++) {
        now += alive[i];
        most = now > most ? now : most;
    }
    free(alive);
    return most;
}

/* The variant that needs the most memory has the plan that others agree with. */
static bool leads(ebb_device_t *dev, const ebb_variant_t *k)
{
    const uint64_t need = ebb_run_need(ebb_variant_trace(k), false);
    for (unsigned i = 0; i < EBB_DRIVES; i++)
        if (ebb_drive_installed(dev, i) &&
            ebb_run_need(ebb_variant_trace(&dev->run->runner->variant[i]), false) >= need)
            return false;
    return true;
}

bool ebb_variant_install_beside(ebb_device_t *dev, ebb_variant_t *k)
{
    struct ebb_runner *runner = dev->run->runner;
    ebb_variant_hear(dev, k, NULL);
    if (k->phase != EBB_PHASE_DRIVE || is_being_made(k) || (runner->driving && runner->driving->job))
        return false; /* what it would agree with may be another plan soon */
    if (!ebb_variant_make_sized(k))
        return false;
    ebb_boundary_t *boundary = k->alone || !ebb_drive_knows_all(dev, k->learned, NULL, false)
                                   ? NULL
                                   : ebb_drive_boundary(dev, k->learned);
    const bool agrees = boundary && k->plan && ebb_boundary_agrees(boundary, k->plan, NULL, 0);
    if (boundary && (agrees || !leads(dev, k))) {
        if (k->plan && !agrees)
            ebb_variant_forget_plan(dev, k);
        begin_driving_with(dev, k, NULL, boundary);
    }
    ebb_boundary_delete(boundary);
    return runner->driving == k;
}

void ebb_run_install_others(ebb_device_t *dev)
{
    struct ebb_runner *runner = dev->run->runner;
    ebb_variant_t *const driving = runner->driving;
    if (driving && driving->job)
        return;
    for (int i = 0; i < (int)EBB_STEP_VARIANTS && runner->driving == driving; i++) {
        ebb_variant_t *k = ebb_variant_of(dev, i);
        if (k == driving || k->phase != EBB_PHASE_DRIVE || !k->plan || k->alone ||
            !ebb_drive_knows_all(dev, k->learned, NULL, false))
            continue;
        ebb_boundary_t *boundary = ebb_drive_boundary(dev, k->learned);
        if (boundary && ebb_boundary_agrees(boundary, k->plan, NULL, 0)) {
            begin_driving_with(dev, k, NULL, boundary);
            if (runner->driving != driving && ebb_drive_active(dev) &&
                ebb_drive_change(dev, ebb_variant_number(dev, driving)))
                runner->driving = driving;
        }
        ebb_boundary_delete(boundary);
    }
}

void ebb_run_turn_to(ebb_device_t *dev, ebb_variant_t *next)
{
    bool turned = false;
    if (next && next->phase == EBB_PHASE_DRIVE && next->learned && ebb_drive_at_boundary(dev))
        turned = ebb_drive_installed(dev, ebb_variant_number(dev, next))
                     ? ebb_drive_change(dev, ebb_variant_number(dev, next))
                     : ebb_variant_install_beside(dev, next);
    if (turned)
        dev->run->runner->driving = next;
    else if (!ebb_pinned_is_wanted())
        ebb_run_leave(dev, "the next step is expected to be of another variant");
}

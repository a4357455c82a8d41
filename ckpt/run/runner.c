/* runner.c: what libebb does at each of the program's operations. It follows the program's steps, and decides
 * which part acts.
 *
 *   OBSERVE  no step is known, or there is no need for a plan: the reactive half (ckpt/run/residence/residence.c)
 *   LEARN    some steps are profiling passes (profile.h); reactive otherwise, guided by what was recorded first (tracker.h)
 *   DRIVE    there is a plan. While the program keeps to it, drive.h acts; when it does not, the reactive
 *            half does until the next boundary
 *   STAY     a plan is impossible, and it was said why, or not wanted: reactive until another step is found, with what was
 *            learned of this one (tracker.h)
 *
 * Each step variant (tracker.h) has its own phase, profiling passes and plan. At a boundary it is known which variant has ended, and
 * only expected which one begins: a recording belongs to the variant that has ended when it is over; a plan is driven
 * for the expected variant. When another one is expected, its plan takes over, if it agrees with the driven one about what is
 * between steps (plan.h), for which it is made; else the driven one is left. The same when the first thing that a step does
 * is another variant's (drive.c).
 *
 * A boundary is noticed with the last operation of a step, or by what is freed behind it, and acted upon with the next
 * thing that the program does, frees and copies to the host excepted: what is freed or read in between belongs to the step that has ended.
 *
 * Each device is followed by itself: it has its steps, what was learned of them, and its plans. What an operation of another device
 * touches of its memory is none of its operations (hook/issue.c).
 */
#include "ckpt/run/internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/base/table.h"
#include "alloc/device.h"
#include "ckpt/run/drive/drive.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"
#include "ckpt/run/stats/live.h"
#include "ckpt/run/stats/stats.h"
#include "ckpt/run/tracker/tracker.h"
#include "offload/ebb_offload.h"

enum { LONGEST_STEP = 1 << 18 };

const size_t ebb_part_runner = sizeof(struct ebb_runner);

ebb_steps_t ebb_steps(ebb_device_t *dev)
{
    struct ebb_runner *runner = dev->run->runner;
    runner->steps.operations = dev->heap.operations;
    if (!runner->finder)
        return runner->steps;
    runner->steps.period = ebb_step_period(runner->finder);
    runner->steps.streams = ebb_step_streams(runner->finder);
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++) {
        runner->steps.variant[i] = ebb_step_variant(runner->finder, i);
        memcpy(runner->steps.variant_ahead_bytes[i], runner->variant[i].ahead_bytes,
               sizeof runner->variant[i].ahead_bytes);
        runner->steps.variant_size_plans[i] = 0;
    }
    for (unsigned i = EBB_STEP_VARIANTS; i < EBB_DRIVES; i++) {
        const ebb_variant_t *c = &runner->variant[i];
        if (c->of && c->plan)
            runner->steps.variant_size_plans[ebb_variant_number(dev, c->of)]++;
    }
    return runner->steps;
}

/* A copy to the host: it logs or saves. */
static bool is_aside(ebb_device_t *dev, const ebb_operation_t *op)
{
    return op->kind == EBB_COPY && !ebb_buffer_at(dev->ebb, op->dst);
}

/* The oldest of its operands, and where in it: what persists is older than what a step allocates. */
static void see_operands(const ebb_operation_t *op, ebb_step_operation_t *out)
{
    uint64_t born = UINT64_MAX;
    size_t offset = 0;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (op->access[i].buffer->generation < born) {
            born = op->access[i].buffer->generation;
            offset = op->access[i].offset_bytes;
        }
    if (!op->access_count)
        return;
    out->born = born;
    out->place = ebb_mix(ebb_mix(0, born), offset) | 1;
}

static ebb_step_event_t push(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_runner *runner = dev->run->runner;
    ebb_step_operation_t out = {.stream = (uint64_t)(uintptr_t)op->stream,
                                .thread = (uint64_t)(uintptr_t)pthread_self(),
                                .coarse = op->coarse,
                                .fine = op->fine,
                                .live_bytes = runner->fewest_live,
                                .allocations = dev->ebb->generations,
                                .idle = op->idle};
    see_operands(op, &out);
    out.aside = is_aside(dev, op);
    out.input = op->kind == EBB_COPY && !ebb_buffer_at(dev->ebb, op->src);
    const uint64_t turns = ebb_nvtx_turns();
    out.turn = turns != runner->turns;
    runner->turns = turns;
    out.mark = runner->marked;
    runner->marked = false;
    return ebb_step_push(runner->finder, &out);
}

/* ---- steps ---- */

/* A step of this variant is expected, with these buffers (ebb_tracker_present). */
static void begin_step(ebb_device_t *dev, ebb_variant_t *k, ebb_buffer_t *const *present)
{
    struct ebb_runner *runner = dev->run->runner;
    if (k->phase == EBB_PHASE_OBSERVE && ebb_run_is_worth_learning(dev))
        k->phase = EBB_PHASE_LEARN;
    if (k->phase == EBB_PHASE_REACTIVE)
        ebb_variant_hear(dev, k, present);
    if (k->phase == EBB_PHASE_REACTIVE && k->learned && !runner->driving &&
        ((k->refused && ebb_variant_has_more_room(dev, k, present)) || ebb_variant_is_rested(k)))
        k->phase = EBB_PHASE_DRIVE;
    if (k->phase == EBB_PHASE_DRIVE && !runner->driving && !k->sparing.spared) {
        ebb_variant_drive(dev, k, present);
        if (runner->driving)
            ebb_run_install_others(dev);
    }
    if (k->phase == EBB_PHASE_LEARN && !ebb_drive_active(dev)) {
        if (!runner->learns) {
            ebb_log(EBB_INFO, "the program repeats a step: the next steps are slow, because ebb learns it");
            ebb_log(EBB_DEBUG, "learning begins after %llu operations",
                    (unsigned long long)dev->heap.operations);
        }
        runner->learns = true;
        ebb_variant_begin_pass(dev, k);
    }
}

/* NULL: nothing is recorded of it, or it is of another family. */
static ebb_recording_t *recording_of(ebb_device_t *dev, const ebb_variant_t *k, uint64_t family)
{
    const ebb_step_variant_t info = ebb_step_variant(dev->run->runner->finder, ebb_variant_number(dev, k));
    ebb_recording_t *r = ebb_variant_recording(k);
    return r && r->trace && info.serial == k->serial && info.family == family ? r : NULL;
}

/* What was learned of the variant; else what is recorded of it or of one that differs in sizes only, and of these the one that is
 * followed already. NULL: there is none yet. */
static ebb_recording_t *recorded(ebb_device_t *dev, const ebb_variant_t *k)
{
    struct ebb_runner *runner = dev->run->runner;
    const uint64_t family = ebb_step_variant(runner->finder, ebb_variant_number(dev, k)).family;
    ebb_recording_t *best = k->learned;
    for (unsigned i = 0; i < EBB_STEP_VARIANTS && !k->learned; i++) {
        ebb_recording_t *r = recording_of(dev, &runner->variant[i], family);
        if (r && (!best || ebb_tracker_follows(dev, r)))
            best = r;
    }
    return best;
}

/* What is driven needs no other guide. What is not learned yet, or is of another size, says at least what comes next. */
static void follow(ebb_device_t *dev, const ebb_variant_t *k)
{
    if (ebb_learn_recording(dev))
        ebb_tracker_boundary(dev, ebb_learn_recording(dev));
    else if (dev->run->runner->driving)
        ebb_tracker_end(dev);
    else
        ebb_tracker_boundary(dev,
                             !k || (k->phase == EBB_PHASE_REACTIVE && !k->learned) ? NULL : recorded(dev, k));
}

/* The plan was left in the last step. */
static void take_leave(ebb_device_t *dev)
{
    ebb_variant_t *last = &dev->run->runner->variant[ebb_drive_index(dev)];
    size_t bytes;
    const uint32_t outgrown = ebb_drive_outgrown(dev, &bytes);
    ebb_run_leave(dev, "it was left in the last step");
    ebb_variant_t *k = ebb_variant_itself(last);
    if (last->size && outgrown != EBB_NONE && ebb_variant_note_above(k, last->size, outgrown, bytes)) {
        ebb_variant_forget_sizes(dev, k);
        if (k->size)
            ebb_variant_forget_plan(dev, k);
    }
}

static void go_on_driving(ebb_device_t *dev, ebb_variant_t *k)
{
    struct ebb_runner *runner = dev->run->runner;
    ebb_variant_revise_pace(dev, runner->driving);
    if (runner->driving && runner->driving != k)
        ebb_variant_hear(dev, k, NULL);
    if (runner->driving && ebb_drive_active(dev))
        ebb_variant_fit_size(dev, k);
}

/* At a boundary. False: what a plan needs has to be pinned before it is installed. The call is to be given up; the boundary is acted upon when it
 * is made again. */
static bool act_at_boundary(ebb_device_t *dev)
{
    struct ebb_runner *runner = dev->run->runner;
    runner->boundary = runner->views = false;
    ebb_stale_begin_step(dev);
    if (ebb_plans_rest(dev)) {
        if (runner->driving)
            ebb_run_leave(dev, "plans rest");
        ebb_learn_abandon(dev);
        follow(dev, NULL);
        return true;
    }
    if (runner->driving && ebb_drive_active(dev)) /* a step may have begun as another one than was expected */
        runner->driving = &runner->variant[ebb_drive_index(dev)];
    if (runner->driving)
        ebb_drive_catch_up(dev);
    if (runner->driving && ebb_drive_in_step(dev))
        ebb_run_leave(dev, "the step has ended early");
    ebb_variant_t *ended = ebb_variant_of(dev, ebb_step_ended(runner->finder)),
                  *next = ebb_variant_of(dev, ebb_step_expected(runner->finder));
    if (ended)
        ebb_variant_note_need(dev, ended, runner->most_live);
    const ebb_traffic_t traffic = ebb_traffic(dev);
    runner->bytes_out = traffic.bytes_out;
    runner->bytes_in = traffic.bytes_in;
    runner->most_live = 0;
    if (ebb_learn_running(dev) && ended)
        ebb_variant_learn(dev, ended);
    else if (ended)
        ebb_variant_outgrown(dev, ended);
    ebb_buffer_t **present = next && next->learned ? ebb_tracker_present(dev, next->learned) : NULL;
    if (runner->driving && !ebb_drive_active(dev))
        take_leave(dev);
    else if (runner->driving && runner->driving->terms != runner->terms)
        ebb_run_leave(dev, "the program has asked for something else");
    else if (runner->driving && ebb_variant_itself(runner->driving) != next)
        ebb_run_turn_to(dev, next);
    else if (runner->driving && ebb_chunks_created(dev) > ebb_chunks_limit(dev))
        ebb_run_leave(dev, "what is not ebb's has grown beyond its reserve");
    else if (runner->driving && next->sparing.spared)
        ebb_run_leave(dev, "most steps fit without it");
    else if (runner->driving)
        go_on_driving(dev, next);
    if (next && !ebb_pinned_is_wanted() && (runner->driving || !ebb_drive_puts_off(dev)))
        begin_step(dev, next, present);
    free(present);
    runner->boundary = ebb_pinned_is_wanted();
    if (runner->boundary)
        return false;
    follow(dev, next);
    runner->views = next && (next->phase == EBB_PHASE_LEARN || next->phase == EBB_PHASE_DRIVE || next->rest);
    return true;
}

static void say_found(ebb_device_t *dev)
{
    struct ebb_runner *runner = dev->run->runner;
    const int number = ebb_step_ended(runner->finder);
    if (number >= 0)
        ebb_log(EBB_DEBUG, "a step of %zu operations (kind %d), after %llu",
                ebb_step_variant(runner->finder, (unsigned)number).operations, number,
                (unsigned long long)dev->heap.operations);
}

static void follow_steps(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_runner *runner = dev->run->runner;
    if (!runner->finder && !(runner->finder = ebb_step_finder_new(LONGEST_STEP)))
        return;
    const ebb_step_event_t event = push(dev, op);
    runner->fewest_live = ebb_program_bytes(dev);
    runner->boundary = runner->trailing && event == EBB_STEP_NONE;
    switch (event) {
    case EBB_STEP_FOUND:
        say_found(dev);
        if (!runner->steps.found_after)
            runner->steps.found_after = dev->heap.operations;
        ebb_learn_abandon(dev); /* what was under way began somewhere else */
        runner->boundary = !ebb_step_position(runner->finder);
        break;
    case EBB_STEP_BOUNDARY:
        runner->steps.completed++;
        runner->boundary = !ebb_step_late(runner->finder);
        if (!runner->boundary)
            ebb_learn_abandon(dev);
        break;
    case EBB_STEP_LOST:
        runner->steps.interrupted++;
        ebb_learn_abandon(dev);
        break;
    default:
        break;
    }
}

/* ---- what the hook calls (run.h) ---- */

/* Whether the step has ended is seen by what it has given back since, where its operations may be the beginning of a longer one. */
static void settle(ebb_device_t *dev)
{
    struct ebb_runner *runner = dev->run->runner;
    if (runner->boundary || !runner->finder || !ebb_step_settle(runner->finder, runner->fewest_live))
        return;
    runner->steps.completed++;
    runner->boundary = true;
}

/* Behind the last operation of a step, and still its: as recorded, while it is being recorded, or while no plan is driven. Where one was left,
 * also what is not recorded: it is taken up again with the next step's first operation, and would be left at once before any other. */
static bool is_the_last_steps(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_runner *runner = dev->run->runner;
    if (!runner->boundary)
        return false;
    if (runner->driving && ebb_drive_active(dev))
        return is_aside(dev, op) && ebb_drive_expects(dev, op);
    if (is_aside(dev, op))
        return true;
    const ebb_variant_t *next = ebb_variant_of(dev, ebb_step_expected(runner->finder));
    return next && next->learned && ebb_tracker_is_behind(dev, next->learned, op);
}

/* As ebb_run_freeing. */
static bool freeing(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    ebb_device_t *dev = buffer->range->device;
    struct ebb_runner *runner = dev->run->runner;
    size_t left = ebb_program_bytes(dev) - buffer->bytes;
    if (left < runner->fewest_live)
        runner->fewest_live = left;
    if (ebb_drive_freeing(buffer, stream))
        return true;
    ebb_tracker_freeing(buffer, stream);
    if (ebb_learn_running(dev))
        ebb_learn_lifetime(buffer, EBB_SYNC_FREE, stream);
    ebb_residence_forget(buffer, stream);
    return false;
}

/* Out of the way of the common case. */
__attribute__((noinline)) static void free_those_put_off(ebb_device_t *dev, const ebb_operation_t *op)
{
    ebb_stream_t *stream;
    for (ebb_buffer_t *b = ebb_drive_put_off_free(dev, op, &stream); b;
         b = ebb_drive_put_off_free(dev, op, &stream)) {
        if (!stream && ebb_buffer_wait(b))
            return; /* the device has failed */
        if (!freeing(b, stream))
            ebb_heap_free(b, stream ? ebb_mark_here(stream) : (ebb_mark_t){0});
    }
}

/* What the program has freed and a plan needed until now, or the plan has been left; but for what the operation to come, or NULL, touches. */
static void free_put_off(ebb_device_t *dev, const ebb_operation_t *op)
{
    if (ebb_drive_puts_off(dev))
        free_those_put_off(dev, op);
}

/* The operation has changed nothing yet that it would not find again. */
static ebb_status_t acquire(ebb_device_t *dev, ebb_operation_t *op)
{
    ebb_pinned_defer(true);
    const ebb_status_t status = ebb_residence_acquire(dev, op);
    ebb_pinned_defer(false);
    return status;
}

ebb_status_t ebb_run_before(ebb_device_t *dev, ebb_operation_t *op)
{
    struct ebb_runner *runner = dev->run->runner;
    ebb_operation_identify(op);
    settle(dev);
    runner->trailing = is_the_last_steps(dev, op);
    if (runner->boundary && !runner->trailing && !act_at_boundary(dev))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const bool passed = runner->views || ebb_drive_active(dev);
    if (passed)
        ebb_stale_pass(dev, op);
    runner->driven = ebb_drive_before(dev, op);
    if (runner->driven)
        return 0;
    free_put_off(dev, op);
    /* Whatever is stale has its buffers in place, but it is no part of what is learned, followed and replayed. */
    const ebb_operation_t *view = runner->view = runner->views ? ebb_stale_view(dev, op) : op;
    ebb_status_t status = ebb_tracker_before(dev, view);
    if (!status)
        status = acquire(dev, op);
    if (status) {
        ebb_tracker_after(dev, view, false);
        if (passed)
            ebb_stale_take_back(dev);
        return status;
    }
    if (ebb_learn_running(dev))
        ebb_learn_before(dev, view);
    return 0;
}

void ebb_run_after(ebb_device_t *dev, const ebb_operation_t *op, CUresult result)
{
    struct ebb_runner *runner = dev->run->runner;
    if (runner->driven) {
        ebb_drive_after(dev, op, !result);
    } else {
        if (ebb_learn_running(dev))
            ebb_learn_after(dev, runner->view, result);
        ebb_residence_release(op);
        ebb_tracker_after(dev, runner->view, !result);
        ebb_pinned_defer(!result);
        ebb_residence_look_ahead(dev);
        ebb_pinned_defer(false);
    }
    free_put_off(dev, NULL); /* also what is due behind the step's last operation */
    if (!result)
        follow_steps(dev, op);
    free_put_off(dev, NULL);
    ebb_live_tick(dev->ebb);
}

ebb_buffer_t *ebb_run_serve(ebb_device_t *dev, const ebb_request_t *request)
{
    if (request->bytes > ebb_chunks_limit(dev) * EBB_CHUNK_BYTES)
        return NULL; /* it is refused: no reason to leave a plan */
    free_put_off(dev, NULL);
    settle(dev);
    if (dev->run->runner->boundary && !act_at_boundary(dev))
        return NULL;
    ebb_buffer_t *b = ebb_drive_serve(dev, request);
    if (!b) {
        free_put_off(dev, NULL);
        ebb_recipe_allocating(dev, request->bytes);
    }
    return b;
}

void ebb_run_allocated(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    ebb_device_t *dev = buffer->range->device;
    struct ebb_runner *runner = dev->run->runner;
    const size_t live = ebb_program_bytes(dev);
    runner->most_live = live > runner->most_live ? live : runner->most_live;
    ebb_shortage_over(dev);
    ebb_tracker_allocated(buffer);
    if (ebb_learn_running(dev))
        ebb_learn_lifetime(buffer, EBB_SYNC_ALLOC, stream);
}

void ebb_run_ordered(ebb_device_t *dev, const ebb_order_t *order)
{
    ebb_record_order(dev, order);
    ebb_drive_ordered(dev, order);
}

void ebb_run_out_of_memory(ebb_device_t *dev, const ebb_request_t *request)
{
    ebb_report_shortage(dev, NULL, request->bytes);
    ebb_live_update(dev->ebb);
}

bool ebb_run_freeing(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    ebb_device_t *dev = buffer->range->device;
    const bool done = freeing(buffer, stream);
    if (!ebb_drive_active(dev)) /* the plan may have been left for this one */
        free_put_off(dev, NULL);
    return done;
}

void ebb_run_interrupted(ebb_device_t *dev, const char *why)
{
    ebb_tracker_end(dev); /* until the next boundary */
    bool any = false;
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++) {
        ebb_variant_t *k = &dev->run->runner->variant[i];
        if (k->phase != EBB_PHASE_LEARN && k->phase != EBB_PHASE_DRIVE)
            continue;
        if (!any)
            ebb_log(EBB_INFO, "the plan and what was learned are given up: %s", why);
        any = true;
        ebb_variant_interrupt(dev, k, why);
    }
    if (any)
        ebb_learn_abandon(dev);
}

/* What has been dropped is made while its kernels are there; a step that launches some is learned again. */
void ebb_run_unloading(ebb_device_t *dev, const void *module)
{
    bool any = false;
    ebb_stale_forget(dev);
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++) {
        ebb_variant_t *k = &dev->run->runner->variant[i];
        if (!k->learned || !ebb_recording_launches_from(dev, k->learned, module))
            continue;
        if (!any)
            ebb_log(EBB_INFO, "what was learned is given up: a module that a step launches from is unloaded");
        any = true;
        ebb_variant_interrupt(dev, k, "modules are unloaded");
    }
    if (any && !ebb_plans_rest(dev))
        ebb_wait_for_device(dev->ebb);
}

/* What learning holds beside the program's buffers is given up before any of these leaves. */
bool ebb_run_make_room(ebb_device_t *dev, size_t chunks)
{
    const size_t wanted = ebb_chunks_available(dev) + chunks;
    if (ebb_learn_relieve(dev) && ebb_heap_reclaim(dev, wanted, true))
        return true;
    if (ebb_residence_make_room(dev, wanted - ebb_chunks_available(dev)) || !ebb_drive_active(dev) ||
        ebb_pinned_is_wanted())
        return ebb_chunks_available(dev) >= wanted;
    ebb_drive_leave(dev, "memory for something that was not planned");
    return ebb_residence_make_room(dev, wanted - ebb_chunks_available(dev));
}

void ebb_run_ended(ebb_device_t *dev)
{
    struct ebb_runner *runner = dev->run->runner;
    ebb_residence_ended(dev);
    ebb_stale_forget(dev);
    ebb_learn_abandon(dev);
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++)
        if (runner->variant[i].profile)
            ebb_verify_abandon(ebb_profile_recording(runner->variant[i].profile));
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++)
        ebb_variant_forget(dev, &runner->variant[i]);
    ebb_step_finder_delete(runner->finder);
    runner->finder = NULL;
    runner->boundary = false;
}

void ebb_run_failed(ebb_device_t *dev, CUresult result)
{
    ebb_stale_hint(dev, result);
}

void ebb_run_waited(ebb_device_t *dev)
{
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++) {
        ebb_recording_t *r = ebb_variant_recording(&dev->run->runner->variant[i]);
        if (r)
            ebb_verify_poll(dev, r, false);
    }
    ebb_collect_hosts(dev);
    ebb_live_refresh(dev->ebb);
}

bool ebb_run_drives(ebb_device_t *dev)
{
    return ebb_drive_active(dev);
}

void ebb_run_unbacked(ebb_buffer_t *buffer)
{
    ebb_residence_put(buffer, (ebb_host_t){.at = NULL});
}

/* By so many. */
void ebb_run_want_order(ebb_t *ebb, bool wanted)
{
    atomic_fetch_add_explicit(&ebb->order_wanted, wanted ? 1 : -1, memory_order_relaxed);
}

bool ebb_run_wants_order(ebb_t *ebb)
{
    return atomic_load_explicit(&ebb->order_wanted, memory_order_relaxed) != 0;
}

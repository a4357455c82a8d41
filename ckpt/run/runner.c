/* runner.c: what libebb does at each of the program's operations. It follows the program's steps, and decides
 * which part acts.
 *
 *   OBSERVE  no step is known, or there is no need for a plan: the reactive half (ckpt/run/residence/residence.c)
 *   LEARN    some steps are lessons (learn.h); reactive otherwise, guided by what was recorded first (follow.h)
 *   DRIVE    there is a plan. While the program keeps to it, drive.h acts; when it does not, the reactive
 *            half does until the next boundary
 *   STAY     a plan is impossible, and it was said why, or not wanted: reactive until another step is found, with what was
 *            learned of this one (follow.h)
 *
 * Each kind of step (step.h) has its own phase, lessons and plan. At a boundary it is known which kind has ended, and
 * only expected which one begins: a recording belongs to the kind that has ended when it is over; a plan is driven
 * for the expected kind. When another one is expected, its plan takes over, if it agrees with the driven one about what is
 * between steps (plan.h), for which it is made; else the driven one is left. The same when the first thing that a step does
 * is another kind's (drive.c).
 *
 * A boundary is noticed with the last operation of a step and acted upon with the next thing that the program
 * does, frees and copies to the host excepted: what is freed or read in between belongs to the step that has ended.
 *
 * Several devices: all of this is about one of them, `ebb_run.slot`; the reactive half alone has the others. It is the
 * first device, until another is found to be the one that works (is_followed), and then the first whose step is found.
 */
#include "ckpt/run/runner_state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "alloc/device.h"
#include "alloc/base/driver.h"
#include "alloc/base/log.h"
#include "alloc/base/mix.h"
#include "ckpt/run/drive/drive.h"
#include "ckpt/run/own.h"
#include "ckpt/run/pin.h"
#include "ckpt/run/profile/nvtx.h"
#include "ckpt/run/replay/left.h"
#include "ckpt/run/replay/recipe.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/run/run.h"
#include "ckpt/run/stats/live.h"
#include "ckpt/run/stats/stats.h"
#include "ckpt/run/tracker/follow.h"
#include "ckpt/run/tracker/leftover.h"
#include "offload/pinned.h"

/* Another device is followed when it has had so many times the operations of the one in which no step is found. */
enum { BUSIER = 4, LEAST_OPERATIONS = 64 };
enum { LONGEST_STEP = 1 << 18, MOST_INTERRUPTIONS = 8 };

struct ebb_run ebb_run;

ebb_steps_t ebb_steps(void)
{
    if (!ebb_run.finder)
        return ebb_run.steps;
    ebb_run.steps.period = ebb_step_period(ebb_run.finder);
    ebb_run.steps.lanes = ebb_step_lanes(ebb_run.finder);
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++)
        ebb_run.steps.kind[i] = ebb_step_kind(ebb_run.finder, i);
    return ebb_run.steps;
}

/* A copy to the host: it logs or saves. */
static bool is_aside(const ebb_operation_t *op)
{
    return op->kind == EBB_COPY && !ebb_buffer_at(ebb_here->ebb, op->dst);
}

/* What a step is told by: neither addresses nor the values of scalars. */
static ebb_step_operation_t seen(const ebb_operation_t *op)
{
    const void *what = op->kind == EBB_OTHER ? (const void *)op->name : (const void *)op->function;
    uint64_t h = ebb_mix(op->kind + 1, (uint64_t)(uintptr_t)what);
    /* How many words of a kernel's arguments lead into buffers may be chance (leftover.h). */
    h = ebb_mix(ebb_mix(h, op->param_bytes), op->kind == EBB_KERNEL ? 0 : op->access_count);
    ebb_step_operation_t out = {.stream = (uint64_t)(uintptr_t)op->stream,
                                .thread = (uint64_t)(uintptr_t)pthread_self(),
                                .coarse = h,
                                .live_bytes = ebb_run.fewest_live};
    for (int i = 0; i < 3; i++)
        h = ebb_mix(h, (uint64_t)op->grid[i] << 32 | op->block[i]);
    out.fine = ebb_mix(ebb_mix(h, op->shared_bytes), op->bytes);
    out.aside = is_aside(op);
    const uint64_t turns = ebb_nvtx_turns();
    out.turn = turns != ebb_run.turns;
    ebb_run.turns = turns;
    return out;
}

/* ---- steps ---- */

/* A step of this kind is expected, with these buffers (ebb_follow_present). */
static void begin_step(ebb_kind_t *k, ebb_buffer_t *const *present)
{
    if (k->phase == EBB_PHASE_OBSERVE && ebb_run_is_worth_learning())
        k->phase = EBB_PHASE_LEARN;
    if (k->phase == EBB_PHASE_STAY && k->learned && !ebb_run.driving &&
        ((k->refused && ebb_kind_has_more_room(k, present)) || ebb_kind_is_rested(k)))
        k->phase = EBB_PHASE_DRIVE;
    if (k->phase == EBB_PHASE_DRIVE && !ebb_run.driving) {
        ebb_kind_drive(k, present);
        if (ebb_run.driving)
            ebb_run_install_others();
    }
    if (k->phase == EBB_PHASE_LEARN && !ebb_drive_active()) {
        if (!ebb_run.bound)
            ebb_log(EBB_INFO, "learning begins after %llu operations",
                    (unsigned long long)ebb_run.steps.operations);
        ebb_run.bound = true;
        ebb_kind_begin_lesson(k);
    }
}

/* NULL: nothing is recorded of it, or it is of another family. */
static ebb_recording_t *recording_of(const ebb_kind_t *k, uint64_t family)
{
    const ebb_step_kind_t info = ebb_step_kind(ebb_run.finder, ebb_kind_number(k));
    ebb_recording_t *r = k->lessons && info.serial == k->serial && info.family == family
                             ? ebb_lessons_recording(k->lessons)
                             : NULL;
    return r && r->trace ? r : NULL;
}

/* What was learned of the kind; else what is recorded of it or of one that differs in sizes only, and of these the one that is
 * followed already. NULL: there is none yet. */
static ebb_recording_t *recorded(const ebb_kind_t *k)
{
    const uint64_t family = ebb_step_kind(ebb_run.finder, ebb_kind_number(k)).family;
    ebb_recording_t *best = k->learned;
    for (unsigned i = 0; i < EBB_STEP_KINDS && !k->learned; i++) {
        ebb_recording_t *r = recording_of(&ebb_run.kind[i], family);
        if (r && (!best || ebb_follow_follows(r)))
            best = r;
    }
    return best;
}

/* What is driven needs no other guide. What is not learned yet, or is of another size, says at least what comes next. */
static void follow(const ebb_kind_t *k)
{
    if (ebb_run.driving)
        ebb_follow_pause();
    else
        ebb_follow_boundary(!k || (k->phase == EBB_PHASE_STAY && !k->learned) ? NULL : recorded(k));
}

/* False: what a plan needs has to be pinned before it is installed. The call is to be given up; the boundary is acted upon when it is
 * made again. */
static bool act_at_boundary(void)
{
    if (!ebb_run.boundary)
        return true;
    ebb_run.boundary = false;
    ebb_run.views = false;
    ebb_leftover_begin_step();
    if (ebb_plans_rest()) {
        follow(NULL);
        return true;
    }
    ebb_kind_t *ended = ebb_kind_of(ebb_step_ended(ebb_run.finder)),
               *next = ebb_kind_of(ebb_step_expected(ebb_run.finder));
    if (ebb_learn_running() && ended)
        ebb_kind_learn(ended);
    if (ebb_run.driving)
        ebb_drive_catch_up();
    ebb_buffer_t **present = next && next->learned ? ebb_follow_present(next->learned) : NULL;
    if (ebb_run.driving && ebb_drive_active())
        ebb_run.driving =
            &ebb_run.kind[ebb_drive_slot()]; /* a step may have begun as another one than was expected */
    if (ebb_run.driving && !ebb_drive_active())
        ebb_run_leave("it was left in the last step");
    else if (ebb_run.driving && ebb_run.driving != next)
        ebb_run_turn_to(next);
    else if (ebb_run.driving &&
             ebb_usage(ebb_here).created_bytes > ebb_chunks_limit(ebb_here) * EBB_CHUNK_BYTES)
        ebb_run_leave("what is not ebb's has grown beyond its reserve");
    else if (ebb_run.driving)
        ebb_kind_revise_pace(ebb_run.driving);
    if (next && !ebb_pinned_is_wanted())
        begin_step(next, present);
    free(present);
    ebb_run.boundary = ebb_pinned_is_wanted();
    if (ebb_run.boundary)
        return false;
    follow(next);
    ebb_run.views = next && (next->phase == EBB_PHASE_LEARN || next->phase == EBB_PHASE_DRIVE || next->rest);
    return true;
}

static void say_found(void)
{
    const int number = ebb_step_ended(ebb_run.finder);
    if (number >= 0)
        ebb_log(EBB_INFO, "a step of %zu operations (kind %d), after %llu",
                ebb_step_kind(ebb_run.finder, (unsigned)number).operations, number,
                (unsigned long long)ebb_run.steps.operations);
}

static void follow_steps(const ebb_operation_t *op)
{
    if (ebb_run.over || (!ebb_run.finder && !(ebb_run.finder = ebb_step_finder_new(LONGEST_STEP))))
        return;
    ebb_run.steps.operations++;
    const ebb_step_operation_t operation = seen(op);
    const ebb_step_event_t event = ebb_step_push(ebb_run.finder, &operation);
    ebb_run.fewest_live = ebb_program_bytes();
    ebb_run.boundary = ebb_run.trailing && event == EBB_STEP_NONE;
    switch (event) {
    case EBB_STEP_FOUND:
        say_found();
        if (!ebb_run.steps.found_after)
            ebb_run.steps.found_after = ebb_run.steps.operations;
        ebb_learn_abandon(); /* what was under way began somewhere else */
        ebb_run.boundary = !ebb_step_position(ebb_run.finder);
        break;
    case EBB_STEP_BOUNDARY:
        ebb_run.steps.completed++;
        ebb_run.boundary = !ebb_step_late(ebb_run.finder);
        if (!ebb_run.boundary)
            ebb_learn_abandon();
        break;
    case EBB_STEP_LOST:
        ebb_run.steps.interrupted++;
        ebb_learn_abandon();
        break;
    default:
        break;
    }
}

/* ---- what the hook calls (run.h) ---- */

static bool is_ours(void)
{
    return ebb_here->number == ebb_run.slot;
}

/* An operation is about to be issued. */
static bool is_followed(void)
{
    const uint64_t *n = ebb_run.operations;
    ebb_run.operations[ebb_here->number]++;
    if (!is_ours() && !ebb_run.bound && n[ebb_here->number] > BUSIER * (n[ebb_run.slot] + LEAST_OPERATIONS) &&
        !(ebb_run.finder && ebb_step_period(ebb_run.finder))) {
        ebb_step_finder_delete(ebb_run.finder);
        ebb_run.finder = NULL;
        ebb_run.boundary = false;
        ebb_run.slot = ebb_here->number;
    }
    return is_ours();
}

/* Behind the last operation of a step, and still its: as recorded, while it is being recorded, or when nobody minds. */
static bool is_the_last_steps(const ebb_operation_t *op)
{
    return ebb_run.boundary && is_aside(op) &&
           (!ebb_run.driving || !ebb_drive_active() || ebb_drive_expects(op));
}

/* The operation has changed nothing yet that it would not find again. */
static ebb_status_t acquire(ebb_operation_t *op)
{
    ebb_pinned_defer(true);
    const ebb_status_t status = ebb_residence_acquire(op);
    ebb_pinned_defer(false);
    return status;
}

ebb_status_t ebb_run_before(ebb_operation_t *op)
{
    if (!is_followed())
        return acquire(op);
    ebb_run.trailing = is_the_last_steps(op);
    if (!ebb_run.trailing && !act_at_boundary())
        return CUDA_ERROR_OUT_OF_MEMORY;
    const bool passed = ebb_run.views || ebb_drive_active();
    if (passed)
        ebb_leftover_pass(op);
    ebb_run.driven = ebb_drive_before(op);
    if (ebb_run.driven)
        return 0;
    /* Whatever is left over has its buffers in place, but it is no part of what is learned, followed and replayed. */
    const ebb_operation_t *view = ebb_run.view = ebb_run.views ? ebb_leftover_view(op) : op;
    EBB_TRY(ebb_follow_before(view));
    ebb_status_t status = acquire(op);
    if (status) {
        ebb_follow_after(view, false);
        if (passed)
            ebb_leftover_take_back();
        return status;
    }
    if (ebb_learn_running())
        ebb_learn_before(view);
    return 0;
}

void ebb_run_after(const ebb_operation_t *op, CUresult result)
{
    if (!is_ours()) {
        ebb_residence_release(op);
        ebb_live_tick();
        return;
    }
    if (ebb_run.driven) {
        ebb_drive_after(op, !result);
    } else {
        if (ebb_learn_running())
            ebb_learn_after(ebb_run.view, result);
        ebb_residence_release(op);
        ebb_follow_after(ebb_run.view, !result);
        ebb_pinned_defer(!result);
        ebb_residence_look_ahead();
        ebb_pinned_defer(false);
    }
    if (!result)
        follow_steps(op);
    ebb_live_tick();
}

ebb_buffer_t *ebb_run_serve(const ebb_request_t *request)
{
    if (!is_ours() || request->bytes > ebb_chunks_limit(ebb_here) * EBB_CHUNK_BYTES)
        return NULL; /* the latter is refused: no reason to leave a plan */
    if (!act_at_boundary())
        return NULL;
    ebb_buffer_t *b = ebb_drive_serve(request);
    if (!b)
        ebb_recipe_allocating(request->bytes);
    return b;
}

void ebb_run_allocated(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    ebb_shortage_over();
    if (is_ours() && ebb_learn_running())
        ebb_learn_allocated(buffer, stream);
}

void ebb_run_ordered(const ebb_order_t *order)
{
    if (!is_ours())
        return;
    ebb_record_order(order);
    ebb_drive_ordered(order);
}

void ebb_run_out_of_memory(const ebb_request_t *request)
{
    ebb_shortage_of(request->bytes);
    ebb_live_update();
}

bool ebb_run_freeing(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    if (!is_ours()) {
        ebb_residence_forget(buffer, stream);
        return false;
    }
    size_t left = ebb_program_bytes() - buffer->bytes;
    if (left < ebb_run.fewest_live)
        ebb_run.fewest_live = left;
    if (ebb_drive_freeing(buffer))
        return true;
    ebb_follow_freeing(buffer, stream);
    if (ebb_learn_running())
        ebb_learn_freed(buffer, stream);
    ebb_residence_forget(buffer, stream);
    return false;
}

/* What has come up is no part of any plan, so the step is learned again. */
static void interrupt_kind(ebb_kind_t *k, const char *why)
{
    ebb_kind_forget(k);
    if (++k->interruptions <= MOST_INTERRUPTIONS)
        return;
    ebb_log(EBB_WARN, "no plan, ebb stays reactive: %s, again and again", why);
    k->phase = EBB_PHASE_STAY;
}

void ebb_run_interrupted(const char *why)
{
    if (!is_ours())
        return;
    ebb_follow_end(); /* until the next boundary */
    bool any = false;
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++) {
        ebb_kind_t *k = &ebb_run.kind[i];
        if (k->phase != EBB_PHASE_LEARN && k->phase != EBB_PHASE_DRIVE)
            continue;
        if (!any)
            ebb_log(EBB_INFO, "the plan and what was learned are given up: %s", why);
        any = true;
        interrupt_kind(k, why);
    }
    if (any)
        ebb_learn_abandon();
}

/* What has been dropped is made while its kernels are there; a step that launches some is learned again. */
void ebb_run_unloading(const void *module)
{
    bool any = false;
    if (!is_ours())
        return;
    ebb_leftover_forget();
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++) {
        ebb_kind_t *k = &ebb_run.kind[i];
        if (!k->learned || !ebb_recording_launches_from(k->learned, module))
            continue;
        if (!any)
            ebb_log(EBB_INFO, "what was learned is given up: a module that a step launches from is unloaded");
        any = true;
        interrupt_kind(k, "modules are unloaded");
    }
    if (any && !ebb_plans_rest())
        ebb_wait_for_device();
}

/* What learning holds beside the program's buffers is given up before any of these leaves. */
bool ebb_run_make_room(size_t chunks)
{
    const size_t wanted = ebb_chunks_available(ebb_here) + chunks;
    if (is_ours() && ebb_learn_running() && ebb_learn_relieve() && ebb_heap_reclaim(ebb_here, wanted, true))
        return true;
    if (ebb_residence_make_room(wanted - ebb_chunks_available(ebb_here)) || !is_ours() ||
        !ebb_drive_active() || ebb_pinned_is_wanted())
        return ebb_chunks_available(ebb_here) >= wanted;
    ebb_drive_leave("memory for something that was not planned");
    return ebb_residence_make_room(wanted - ebb_chunks_available(ebb_here));
}

void ebb_run_ended(void)
{
    ebb_residence_ended();
    if (!is_ours())
        return;
    ebb_leftover_forget();
    ebb_learn_abandon();
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++)
        ebb_kind_forget(&ebb_run.kind[i]);
    ebb_step_finder_delete(ebb_run.finder);
    ebb_run.finder = NULL;
    ebb_run.boundary = false;
    ebb_run.over = ebb_run.bound;
    ebb_run.operations[ebb_here->number] = 0;
}

void ebb_run_waited(void)
{
    if (is_ours()) {
        ebb_drive_waited();
        ebb_recipe_waited();
    }
    ebb_residence_waited();
    ebb_live_tick();
}

bool ebb_run_drives(void)
{
    return is_ours() && ebb_drive_active();
}

void ebb_run_unbacked(ebb_buffer_t *buffer)
{
    ebb_residence_put(buffer, NULL);
}

/* By so many. */
static atomic_int order_wanted;

void ebb_run_want_order(bool wanted)
{
    atomic_fetch_add_explicit(&order_wanted, wanted ? 1 : -1, memory_order_relaxed);
}

bool ebb_run_wants_order(void)
{
    return atomic_load_explicit(&order_wanted, memory_order_relaxed) != 0;
}

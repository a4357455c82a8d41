/* runner.c: what libebb does at each of the program's operations. It listens to alloc/, follows the program's
 * steps, and decides who acts.
 *
 *   OBSERVE  no step is known, or there is no need for a plan: the reactive half (offload/residence.c)
 *   LEARN    some steps are lessons (learn.h); reactive otherwise, guided by what was recorded first (follow.h)
 *   DRIVE    there is a plan. While the program keeps to it, drive.h acts; when it does not, the reactive
 *            half does until the next boundary
 *   STAY     a plan is impossible, and it was said why, or not wanted: reactive until another step is found, with what was
 *            learned of this one (follow.h)
 *
 * Each kind of step (step.h) has its own phase, lessons and plan. At a boundary it is known which kind has ended, and
 * only expected which one begins: a recording belongs to the kind that has ended when it is over; a plan is driven
 * for the expected kind. When another one is expected, its plan takes over, if it agrees with the driven one about what is
 * between steps (boundary.h), for which it is made; else the driven one is left. The same when the first thing that a step does
 * is another kind's (drive.c).
 *
 * A boundary is noticed with the last operation of a step and acted upon with the next thing that the program
 * does, frees and copies to the host excepted: what is freed or read in between belongs to the step that has ended.
 *
 * Several devices: all of this is about one of them, `run.slot`; the reactive half alone has the others. It is the
 * first device, until another is found to be the one that works (is_followed), and then the first whose step is found.
 */
#include "runner.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "ebb_offload.h"
#include "files.h"
#include "fingerprint.h"
#include "follow.h"
#include "learn.h"
#include "left.h"
#include "live.h"
#include "log.h"
#include "nvtx.h"
#include "options.h"
#include "own.h"
#include "planning.h"
#include "recipe.h"
#include "rotate.h"
#include "stats.h"
#include "step.h"

/* Another device is followed when it has had so many times the operations of the one in which no step is found. */
enum { BUSIER = 4, LEAST_OPERATIONS = 64 };
enum {
    LONGEST_STEP = 1 << 18,
    MOST_FRUITLESS = 16,
    MOST_FAILURES = 4,
    MOST_INTERRUPTIONS = 8,
    MOST_UNKNOWN = 64
};
/* Plans that are given up for another one, at most, and after how many driven steps that is looked into. */
enum { MOST_REPLANS = 4, PACE_STEPS = 6 };

/* A kind of step. */
typedef struct kind {
    uint64_t serial; /* of the kind in the finder that this is about; 0: none */
    enum { OBSERVE, LEARN, DRIVE, STAY } phase;
    unsigned fruitless;       /* installations in a row without a driven step */
    unsigned failures;        /* installations that failed */
    unsigned unknown;         /* boundaries in a row at which it was not known which buffers there are */
    size_t refused;           /* STAY because there was no plan for so many bytes; 0: it was not that */
    unsigned refused_steps;   /* steps since */
    unsigned interruptions;   /* of learning and driving */
    uint64_t driven_before;   /* steps driven when the plan was installed last */
    ebb_lessons_t *lessons;   /* NULL: none yet */
    ebb_recording_t *learned; /* the lessons', when all is learned */
    ebb_plan_t *plan;
    ebb_rates_t rates; /* of the link, as plans that came late have shown */
    unsigned replans;  /* plans that were given up for another one */
    bool alone;        /* none agrees with those of other kinds */
} kind_t;

static struct {
    kind_t kind[EBB_STEP_KINDS];
    kind_t *driving; /* whose plan is driven; NULL: none is */
    unsigned slot;   /* the device that is followed */
    bool bound;      /* what learning and driving keep is that device's: no other will be followed */
    bool over;       /* its context is gone: nothing is followed any more */
    uint64_t operations[EBB_STATES]; /* of each device */
    ebb_step_finder_t *finder;
    ebb_steps_t steps;
    size_t fewest_live; /* bytes of the program's, since the last operation */
    uint64_t turns;     /* of NVTX ranges, at the last operation */
    bool boundary;      /* the step has ended, nothing has happened since */
    bool trailing;      /* the operation under way is behind the boundary, and the last step's */
    bool driven;        /* the operation under way is a planned one */
} run;

ebb_steps_t ebb_steps(void)
{
    if (!run.finder)
        return run.steps;
    run.steps.period = ebb_step_period(run.finder);
    run.steps.lanes = ebb_step_lanes(run.finder);
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++)
        run.steps.kind[i] = ebb_step_kind(run.finder, i);
    return run.steps;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

/* A copy to the host: it logs or saves. */
static bool is_aside(const ebb_operation_t *op)
{
    return op->kind == EBB_COPY && !ebb_buffer_at(op->dst);
}

/* What a step is told by: neither addresses nor the values of scalars. */
static ebb_step_operation_t seen(const ebb_operation_t *op)
{
    const void *what = op->kind == EBB_OTHER ? (const void *)op->name : (const void *)op->function;
    uint64_t h = mix(op->kind + 1, (uint64_t)(uintptr_t)what);
    h = mix(mix(h, op->param_bytes), op->access_count);
    ebb_step_operation_t out = {.stream = (uint64_t)(uintptr_t)op->stream,
                                .thread = (uint64_t)(uintptr_t)pthread_self(),
                                .coarse = h,
                                .live_bytes = run.fewest_live};
    for (int i = 0; i < 3; i++)
        h = mix(h, (uint64_t)op->grid[i] << 32 | op->block[i]);
    out.fine = mix(mix(h, op->shared_bytes), op->bytes);
    out.aside = is_aside(op);
    const uint64_t turns = ebb_nvtx_turns();
    out.turn = turns != run.turns;
    run.turns = turns;
    return out;
}

/* ---- learning ---- */

/* At a boundary, or when it is of no interest where the program is. A plan whose recomputed buffers had other bits is no good
 * any more: known of all when what it has left behind is made. */
static void leave(const char *why)
{
    _Static_assert(EBB_DRIVES >= EBB_STEP_KINDS, "a slot for each kind");
    run.driving = NULL;
    ebb_drive_leave(why);
    ebb_follow_pause();
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++) {
        kind_t *k = &run.kind[i];
        if (!ebb_drive_refuted(i))
            continue;
        ebb_plan_delete(k->plan);
        k->plan = NULL;
    }
}

static unsigned number_of(const kind_t *k)
{
    return (unsigned)(k - run.kind);
}

/* What is known of one kind; a recording under way may be of any. */
static void forget(kind_t *k)
{
    if (ebb_drive_installed(number_of(k)))
        leave("what was learned of this kind of step is forgotten");
    if (k->lessons && ebb_follow_follows(ebb_lessons_recording(k->lessons)))
        ebb_follow_end();
    ebb_plan_delete(k->plan);
    ebb_lessons_delete(k->lessons);
    k->plan = NULL;
    k->lessons = NULL;
    k->learned = NULL;
    k->refused = 0;
    k->alone = false;
    k->phase = OBSERVE;
}

static void stop_learning(void)
{
    ebb_learn_abandon();
}

/* Numbers of kinds that are forgotten are given again. */
static kind_t *kind_of(int number)
{
    if (number < 0)
        return NULL;
    kind_t *k = &run.kind[number];
    const uint64_t serial = ebb_step_kind(run.finder, (unsigned)number).serial;
    if (k->serial != serial) {
        ebb_files_forget((unsigned)number);
        forget(k);
        *k = (kind_t){.serial = serial};
    }
    return k;
}

static void forget_gone(void)
{
    for (int i = 0; i < (int)EBB_STEP_KINDS; i++)
        kind_of(i);
}

static bool is_policy(const char *name)
{
    return !strcmp(ebb_options.policy, name);
}

static bool may_plan(void)
{
    return !is_policy("learn") && !is_policy("reactive") && !is_policy("keep");
}

/* Where everything fits, there is nothing to plan; but a strategy that was asked for is followed. */
static bool needs_plan(void)
{
    return may_plan() &&
           (ebb_traffic().evictions || *ebb_options.plan || *ebb_options.save_plan || !is_policy("auto"));
}

static bool is_worth_learning(void)
{
    return (may_plan() || is_policy("learn")) && !ebb_plans_rest() &&
           (needs_plan() || ebb_traffic().evictions || *ebb_options.trace);
}

/* A lesson begins, for a step that is expected to be of this kind. */
static void begin_lesson(kind_t *k)
{
    if (!k->lessons)
        k->lessons = ebb_lessons_new();
    if (k->lessons && ebb_learn_begin(k->lessons))
        return;
    ebb_log(EBB_WARN, "a step cannot be learned, ebb stays reactive: %s", ebb_last_failure());
    forget(k);
    k->phase = STAY;
}

/* A lesson has ended, in a step of this kind. */
static void learn(kind_t *k)
{
    if (!k->lessons && k->phase == OBSERVE)
        k->lessons = ebb_lessons_new();
    if (!k->lessons || k->phase == DRIVE || k->phase == STAY || !ebb_learn_give(k->lessons)) {
        ebb_learn_abandon(); /* another kind was expected */
        return;
    }
    k->phase = LEARN;
    const ebb_learned_t learned = ebb_learn_end();
    if (learned == EBB_LEARNED) {
        k->learned = ebb_lessons_recording(k->lessons);
        forget_gone();
        ebb_planning_describe(k->learned->trace);
        ebb_files_trace(number_of(k), k->learned->trace);
        k->phase = needs_plan() ? DRIVE : STAY;
        if (k->learned->hidden) {
            k->learned = NULL;
            k->phase = STAY;
        }
    } else if (learned == EBB_LEARNED_NEVER) {
        forget(k);
        k->phase = STAY;
    }
}

/* ---- planning ---- */

static void report_plan(void)
{
    const ebb_plan_sum_t *s = &run.steps.plan;
    ebb_log(EBB_INFO,
            "plan: %u buffers kept, %u offloaded (%llu MiB), %u dropped (%llu MiB); a step copies %llu MiB "
            "out, %llu in, "
            "replays %u launches; peak %llu MiB",
            s->kept_buffers, s->offloaded_buffers, (unsigned long long)(s->offloaded_bytes >> 20),
            s->dropped_buffers, (unsigned long long)(s->dropped_bytes >> 20),
            (unsigned long long)(s->bytes_out >> 20), (unsigned long long)(s->bytes_in >> 20), s->replays,
            (unsigned long long)(s->peak_bytes >> 20));
}

/* There is no plan for so many bytes: it is learned on, to prove more, or there may be more room later. */
static void refuse(kind_t *k, size_t room, const char *why)
{
    if (ebb_options.recompute && ebb_lessons_ask_more(k->lessons)) {
        ebb_log(EBB_INFO, "there is no plan for %zu MiB with what is proven: more is", room >> 20);
        k->learned = NULL;
        k->phase = LEARN;
        return;
    }
    ebb_log(EBB_WARN, "there is no plan for %zu MiB, ebb stays reactive: %s", room >> 20, why);
    k->phase = STAY;
    k->refused = room;
    k->refused_steps = 0;
}

/* Looking costs what the allocator keeps: seldom, and less often the longer it lasts. */
static bool has_more_room(kind_t *k, ebb_buffer_t *const *present)
{
    const unsigned n = ++k->refused_steps;
    return n > 1 && (n & (n - 1)) == 0 && ebb_drive_room(number_of(k), k->learned, present) > k->refused;
}

/* What will be told of a plan; of several that are installed together, their peak. */
static void note_plan(const kind_t *k, size_t room, bool beside)
{
    uint64_t small = 0; /* small regions are shared, if they are large enough */
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++)
        if (ebb_drive_installed(i) && run.kind[i].plan->small_bytes > small)
            small = run.kind[i].plan->small_bytes;
    const ebb_plan_sum_t sum = ebb_plan_sum(k->plan, k->learned->trace);
    const uint64_t reserved = ebb_chunks_limit() * EBB_CHUNK_BYTES - room, peak = sum.peak_bytes + reserved,
                   both = run.steps.predicted_peak_bytes +
                          (k->plan->small_bytes > small ? k->plan->small_bytes : 0);
    run.steps.plan = sum;
    run.steps.predicted_peak_bytes = beside && both > peak ? both : peak;
}

/* NULL: there is none, or not yet. */
static ebb_plan_t *make_plan(kind_t *k, ebb_buffer_t *const *present, const ebb_boundary_t *boundary)
{
    char why[256] = "";
    const size_t room = ebb_drive_room(number_of(k), k->learned, present);
    ebb_plan_t *plan = ebb_planning(k->learned->trace, room, &k->rates, boundary, why, sizeof why);
    if (!plan && boundary) {
        ebb_log(EBB_INFO, "no plan for kind %u agrees with that of another kind: %s", number_of(k), why);
        k->alone = true;
    } else if (!plan) {
        refuse(k, room, why);
    }
    if (!plan)
        return NULL;
    k->refused = 0;
    k->plan = plan;
    note_plan(k, room, boundary);
    return plan;
}

/* Another one is made when driving begins again. */
static void give_up_plan(kind_t *k)
{
    ebb_plan_delete(k->plan);
    k->plan = NULL;
    k->replans++;
    run.steps.replans++;
}

/* Less memory than when the plan was made: what ebb does not own has grown. */
static void revise_room(kind_t *k, ebb_buffer_t *const *present)
{
    if (!k->plan || k->replans >= MOST_REPLANS)
        return;
    const size_t room = ebb_drive_room(number_of(k), k->learned, present);
    const size_t needed = k->plan->chunk_count * EBB_CHUNK_BYTES + k->plan->small_bytes;
    if (needed <= room)
        return;
    ebb_log(EBB_INFO, "a new plan: %zu MiB are left for what the last one lays on %zu, the rest has grown",
            room >> 20, needed >> 20);
    give_up_plan(k);
}

/* What is driven is looked at now and then, at the end of a step. */
static void revise_pace(kind_t *k)
{
    const ebb_drive_pace_t pace = ebb_drive_pace();
    if (k->replans >= MOST_REPLANS || !pace.steps || pace.steps % PACE_STEPS)
        return;
    if (!ebb_planning_is_late(k->learned->trace, k->plan, &pace, &k->rates))
        return;
    ebb_log(EBB_INFO, "a new plan: the program waited %.3f ms a step for copies; with %.1f GB/s out, %.1f in",
            (double)pace.stall_ns / (double)pace.steps * 1e-6, k->rates.out, k->rates.in);
    leave("its copies come late");
    if (k->plan)
        give_up_plan(k);
}

/* With the buffers that are there now. */
static void begin_driving_with(kind_t *k, ebb_buffer_t *const *present, const ebb_boundary_t *boundary)
{
    revise_room(k, present);
    bool first = !k->plan;
    if (first && !make_plan(k, present, boundary))
        return;
    uint64_t driven = ebb_drive_counts().steps;
    k->fruitless = driven > k->driven_before ? 0 : k->fruitless + 1;
    k->driven_before = driven;
    if (k->fruitless > MOST_FRUITLESS) {
        ebb_log(EBB_WARN, "the program never keeps to the plan for a step: ebb stays reactive");
        k->phase = STAY;
        return;
    }
    if (!ebb_drive_install(number_of(k), k->learned, k->plan, present)) {
        run.driving = NULL;
        k->alone |= boundary != NULL;
        if (boundary)
            return;
        /* What outlives the step may have become another: to be learned again. */
        forget(k);
        k->phase = ++k->failures < MOST_FAILURES ? OBSERVE : STAY;
        return;
    }
    run.driving = k;
    if (!first)
        return;
    run.steps.plans++;
    report_plan();
    ebb_files_plan(number_of(k), k->plan);
}

/* Not before it is known which buffers a step begins with, if that is of any use. */
static void begin_driving(kind_t *k, ebb_buffer_t *const *present)
{
    char why[160];
    if (ebb_drive_knows_all(k->learned, present) ||
        !ebb_rotation_period(k->learned->trace, why, sizeof why)) {
        k->unknown = 0;
        ebb_follow_pause();
        begin_driving_with(k, present, NULL);
    } else if (++k->unknown > MOST_UNKNOWN) {
        ebb_log(EBB_WARN, "which buffers outlive the step as which is never known: ebb stays reactive");
        k->phase = STAY;
    }
}

/* ---- kinds that alternate ---- */

/* The most bytes that are alive at once. */
static uint64_t need_of(const ebb_trace_t *t)
{
    uint64_t most = 0, *alive = calloc((size_t)t->operation_count + 2, sizeof *alive), now = 0;
    for (uint32_t i = 0; alive && i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *b = &t->buffer[i];
        alive[b->born == EBB_TRACE_NEVER ? 0 : b->born] += b->bytes;
        alive[b->dies == EBB_TRACE_NEVER ? t->operation_count + 1 : b->dies] -= b->bytes;
    }
    for (uint32_t i = 0; alive && i <= t->operation_count; i++) {
        now += alive[i];
        most = now > most ? now : most;
    }
    free(alive);
    return most;
}

/* The kind that needs the most memory has the plan that others agree with. */
static bool leads(const kind_t *k)
{
    const uint64_t need = need_of(k->learned->trace);
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++)
        if (ebb_drive_installed(i) && need_of(run.kind[i].learned->trace) >= need)
            return false;
    return true;
}

/* Its plan is installed beside those that are. False: it is not driven now; perhaps none is. */
static bool install_beside(kind_t *k)
{
    char why[160];
    ebb_boundary_t *boundary =
        k->alone || !ebb_drive_is_ready(k->learned) ? NULL : ebb_drive_boundary(k->learned);
    const bool agrees = boundary && k->plan && ebb_boundary_agrees(boundary, k->plan, why, sizeof why);
    if (boundary && (agrees || !leads(k))) {
        if (!agrees)
            ebb_plan_delete(k->plan);
        k->plan = agrees ? k->plan : NULL;
        begin_driving_with(k, NULL, boundary);
    }
    ebb_boundary_delete(boundary);
    return run.driving == k;
}

/* A plan was installed: those that have agreed with it before are, too. */
static void install_others(void)
{
    char why[160];
    kind_t *const driving = run.driving;
    for (unsigned i = 0; i < EBB_STEP_KINDS && run.driving == driving; i++) {
        kind_t *k = kind_of((int)i);
        if (k == driving || k->phase != DRIVE || !k->plan || k->alone || !ebb_drive_is_ready(k->learned))
            continue;
        ebb_boundary_t *boundary = ebb_drive_boundary(k->learned);
        if (boundary && ebb_boundary_agrees(boundary, k->plan, why, sizeof why)) {
            begin_driving_with(k, NULL, boundary);
            if (ebb_drive_active() && ebb_drive_change(number_of(driving)))
                run.driving = driving;
        }
        ebb_boundary_delete(boundary);
    }
}

/* Another kind is expected than the one whose plan is driven. */
static void turn_to(kind_t *next)
{
    bool turned = false;
    if (next && next->phase == DRIVE && next->learned && ebb_drive_at_boundary())
        turned =
            ebb_drive_installed(number_of(next)) ? ebb_drive_change(number_of(next)) : install_beside(next);
    if (turned)
        run.driving = next;
    else
        leave("the next step is expected to be of another kind");
}

/* ---- steps ---- */

/* A step of this kind is expected, with these buffers (ebb_follow_present). */
static void begin_step(kind_t *k, ebb_buffer_t *const *present)
{
    if (k->phase == OBSERVE && is_worth_learning())
        k->phase = LEARN;
    if (k->phase == STAY && k->refused && k->learned && !run.driving && has_more_room(k, present))
        k->phase = DRIVE;
    if (k->phase == DRIVE && !run.driving) {
        begin_driving(k, present);
        if (run.driving)
            install_others();
    }
    if (k->phase == LEARN && !ebb_drive_active()) {
        run.bound = true;
        begin_lesson(k);
    }
}

/* NULL: nothing is recorded of it, or it is of another family. */
static ebb_recording_t *recording_of(const kind_t *k, uint64_t family)
{
    const ebb_step_kind_t info = ebb_step_kind(run.finder, number_of(k));
    ebb_recording_t *r = k->lessons && info.serial == k->serial && info.family == family
                             ? ebb_lessons_recording(k->lessons)
                             : NULL;
    return r && r->trace ? r : NULL;
}

/* What was learned of the kind; else what is recorded of it or of one that differs in sizes only, and of these the one that is
 * followed already. NULL: there is none yet. */
static ebb_recording_t *recorded(const kind_t *k)
{
    const uint64_t family = ebb_step_kind(run.finder, number_of(k)).family;
    ebb_recording_t *best = k->learned;
    for (unsigned i = 0; i < EBB_STEP_KINDS && !k->learned; i++) {
        ebb_recording_t *r = recording_of(&run.kind[i], family);
        if (r && (!best || ebb_follow_follows(r)))
            best = r;
    }
    return best;
}

/* What is driven needs no other guide. What is not learned yet, or is of another size, says at least what comes next. */
static void follow(const kind_t *k)
{
    if (run.driving)
        ebb_follow_pause();
    else
        ebb_follow_boundary(!k || (k->phase == STAY && !k->learned) ? NULL : recorded(k));
}

static void act_at_boundary(void)
{
    if (!run.boundary)
        return;
    run.boundary = false;
    if (ebb_plans_rest()) {
        follow(NULL);
        return;
    }
    kind_t *ended = kind_of(ebb_step_ended(run.finder)), *next = kind_of(ebb_step_expected(run.finder));
    if (ebb_learn_running() && ended)
        learn(ended);
    if (run.driving)
        ebb_drive_catch_up();
    ebb_buffer_t **present = next && next->learned ? ebb_follow_present(next->learned) : NULL;
    if (run.driving && ebb_drive_active())
        run.driving =
            &run.kind[ebb_drive_slot()]; /* a step may have begun as another one than was expected */
    if (run.driving && !ebb_drive_active())
        leave("it was left in the last step");
    else if (run.driving && run.driving != next)
        turn_to(next);
    else if (run.driving && ebb_usage().created_bytes > ebb_chunks_limit() * EBB_CHUNK_BYTES)
        leave("what is not ebb's has grown beyond its reserve");
    else if (run.driving)
        revise_pace(run.driving);
    if (next)
        begin_step(next, present);
    free(present);
    follow(next);
}

static void say_found(void)
{
    const int number = ebb_step_ended(run.finder);
    if (number >= 0)
        ebb_log(EBB_INFO, "a step of %zu operations (kind %d), after %llu",
                ebb_step_kind(run.finder, (unsigned)number).operations, number,
                (unsigned long long)run.steps.operations);
}

static void follow_steps(const ebb_operation_t *op)
{
    if (run.over || (!run.finder && !(run.finder = ebb_step_finder_new(LONGEST_STEP))))
        return;
    run.steps.operations++;
    const ebb_step_operation_t operation = seen(op);
    const ebb_step_event_t event = ebb_step_push(run.finder, &operation);
    run.fewest_live = ebb_program_bytes();
    run.boundary = run.trailing && event == EBB_STEP_NONE;
    switch (event) {
    case EBB_STEP_FOUND:
        say_found();
        if (!run.steps.found_after)
            run.steps.found_after = run.steps.operations;
        stop_learning(); /* what was under way began somewhere else */
        run.boundary = !ebb_step_position(run.finder);
        break;
    case EBB_STEP_BOUNDARY:
        run.steps.completed++;
        run.boundary = !ebb_step_late(run.finder);
        if (!run.boundary)
            ebb_learn_abandon();
        break;
    case EBB_STEP_LOST:
        run.steps.interrupted++;
        ebb_learn_abandon();
        break;
    default:
        break;
    }
}

/* ---- the listener ---- */

static bool is_ours(void)
{
    return ebb_slot == run.slot;
}

/* An operation is about to be issued. */
static bool is_followed(void)
{
    const uint64_t *n = run.operations;
    run.operations[ebb_slot]++;
    if (!is_ours() && !run.bound && n[ebb_slot] > BUSIER * (n[run.slot] + LEAST_OPERATIONS) &&
        !(run.finder && ebb_step_period(run.finder))) {
        ebb_step_finder_delete(run.finder);
        run.finder = NULL;
        run.boundary = false;
        run.slot = ebb_slot;
    }
    return is_ours();
}

/* Behind the last operation of a step, and still its: as recorded, while it is being recorded, or when nobody minds. */
static bool is_the_last_steps(const ebb_operation_t *op)
{
    return run.boundary && is_aside(op) && (!run.driving || !ebb_drive_active() || ebb_drive_expects(op));
}

static ebb_status_t before(ebb_operation_t *op)
{
    if (!is_followed())
        return ebb_residence_acquire(op);
    run.trailing = is_the_last_steps(op);
    if (!run.trailing)
        act_at_boundary();
    run.driven = ebb_drive_before(op);
    if (run.driven)
        return 0;
    EBB_TRY(ebb_follow_before(op));
    ebb_status_t status = ebb_residence_acquire(op);
    if (status) {
        ebb_follow_after(op, false);
        return status;
    }
    if (ebb_learn_running())
        ebb_learn_before(op);
    return 0;
}

static void after(const ebb_operation_t *op, CUresult result)
{
    if (!is_ours()) {
        ebb_residence_release(op);
        ebb_live_tick();
        return;
    }
    if (run.driven) {
        ebb_drive_after(op, !result);
    } else {
        if (ebb_learn_running())
            ebb_learn_after(op, result);
        ebb_residence_release(op);
        ebb_follow_after(op, !result);
        ebb_residence_look_ahead();
    }
    if (!result)
        follow_steps(op);
    ebb_live_tick();
}

static ebb_buffer_t *serve(const ebb_request_t *request)
{
    if (!is_ours() || request->bytes > ebb_chunks_limit() * EBB_CHUNK_BYTES)
        return NULL; /* the latter is refused: no reason to leave a plan */
    act_at_boundary();
    ebb_buffer_t *b = ebb_drive_serve(request);
    if (!b)
        ebb_recipe_allocating(request->bytes);
    return b;
}

static void allocated(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    ebb_shortage_over();
    if (is_ours() && ebb_learn_running())
        ebb_learn_allocated(buffer, stream);
}

static void ordered(const ebb_order_t *order)
{
    if (!is_ours())
        return;
    ebb_record_order(order);
    ebb_drive_ordered(order);
}

static void out_of_memory(const ebb_request_t *request)
{
    ebb_shortage_of(request->bytes);
    ebb_live_update();
}

static bool freeing(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    if (!is_ours()) {
        ebb_residence_forget(buffer, stream);
        return false;
    }
    size_t left = ebb_program_bytes() - buffer->bytes;
    if (left < run.fewest_live)
        run.fewest_live = left;
    if (ebb_drive_freeing(buffer))
        return true;
    ebb_follow_freeing(buffer, stream);
    if (ebb_learn_running())
        ebb_learn_freed(buffer, stream);
    ebb_residence_forget(buffer, stream);
    return false;
}

/* What has come up is no part of any plan, so the step is learned again. */
static void interrupt_kind(kind_t *k, const char *why)
{
    forget(k);
    if (++k->interruptions <= MOST_INTERRUPTIONS)
        return;
    ebb_log(EBB_WARN, "no plan, ebb stays reactive: %s, again and again", why);
    k->phase = STAY;
}

static void interrupted(const char *why)
{
    if (!is_ours())
        return;
    ebb_follow_end(); /* until the next boundary */
    bool any = false;
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++) {
        kind_t *k = &run.kind[i];
        if (k->phase != LEARN && k->phase != DRIVE)
            continue;
        if (!any)
            ebb_log(EBB_INFO, "the plan and what was learned are given up: %s", why);
        any = true;
        interrupt_kind(k, why);
    }
    if (any)
        stop_learning();
}

/* What has been dropped is made while its kernels are there; a step that launches some is learned again. */
static void unloading(const void *module)
{
    bool any = false;
    if (!is_ours())
        return;
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++) {
        kind_t *k = &run.kind[i];
        if (!k->learned || !ebb_recording_launches_from(k->learned, module))
            continue;
        if (!any)
            ebb_log(EBB_INFO, "what was learned is given up: a module that a step launches from is unloaded");
        any = true;
        interrupt_kind(k, "modules are unloaded");
    }
    if (any && !ebb_plans_rest())
        ebb_driver.cuCtxSynchronize();
}

/* Another device may be followed then, unless steps were learned on this one. */
/* What learning holds beside the program's buffers is given up before any of these leaves. */
static bool make_room(size_t chunks)
{
    const size_t wanted = ebb_chunks_available() + chunks;
    if (is_ours() && ebb_learn_running() && ebb_learn_relieve() && ebb_heap_reclaim(wanted, true))
        return true;
    if (ebb_residence_make_room(wanted - ebb_chunks_available()) || !is_ours() || !ebb_drive_active())
        return ebb_chunks_available() >= wanted;
    ebb_drive_leave("memory for something that was not planned");
    return ebb_residence_make_room(wanted - ebb_chunks_available());
}

static void ended(void)
{
    ebb_residence_ended();
    if (!is_ours())
        return;
    stop_learning();
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++)
        forget(&run.kind[i]);
    ebb_step_finder_delete(run.finder);
    run.finder = NULL;
    run.boundary = false;
    run.over = run.bound;
    run.operations[ebb_slot] = 0;
}

static void waited(void)
{
    if (is_ours()) {
        ebb_drive_waited();
        ebb_recipe_waited();
    }
    ebb_residence_waited();
    ebb_live_tick();
}

static const ebb_listener_t listener = {.serve = serve,
                                        .allocated = allocated,
                                        .freeing = freeing,
                                        .before = before,
                                        .after = after,
                                        .make_room = make_room,
                                        .out_of_memory = out_of_memory,
                                        .ordered = ordered,
                                        .waited = waited,
                                        .interrupted = interrupted,
                                        .unloading = unloading,
                                        .ended = ended,
                                        .finish = ebb_stats_finish};

__attribute__((constructor)) static void listen(void)
{
    ebb_residence_fingerprints(&ebb_fingerprints);
    ebb_residence_future(&ebb_follow_future);
    ebb_listen(&listener);
}

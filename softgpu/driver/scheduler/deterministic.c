/* deterministic.c: the scheduler whose order is drawn from a seed.
 *
 * Two questions, answered apart. When an op ends on the GPU of the profile is computed (clock.c); no seed changes it. When
 * its effect on memory takes place is drawn by lot, as early or as late as the program's streams and waits allow:
 *   - Nothing happens by itself. At the beginning of a call of the API some of what is queued may run, or nothing; when
 *     the host waits, what it waits for runs, and perhaps more. Which of the streams goes next, and how much of its op
 *     (a copy may be half done while others run), is drawn.
 *   - The mood changes every few calls: lazy (only what is waited for), eager (everything at once), halfway (all is begun
 *     and nothing finished that is not waited for), mixed. So a copy may read host memory at once, or as late as when
 *     the host waits for it, after the host has overwritten it.
 * What is waited for without an event, a stream or a context is therefore not there under some seed.
 *
 * The host thread that waits decides (it conducts), an executor runs, the conductor waits for it: one thing at a time, so
 * that the same calls give the same order. Two exceptions keep programs alive that rely on concurrency: work that does not
 * end soon is let loose (scheduler.h), and when no call has come for IDLE_NS all that is queued runs, for hosts that watch
 * memory. Several host threads are deterministic if the program orders their calls.
 *
 * Guarded by sg.lock.
 */
#include "softgpu/driver/scheduler/scheduler.h"
#include "softgpu/driver/scheduler/profile.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

typedef enum mood { LAZY, EAGER, HALFWAY, MIXED, MOODS } mood_t;
enum { GROUPS = 64 };                                /* of units, in a kernel */
enum { IDLE_CHECK_NS = 250000000, IDLE_CHECKS = 4 }; /* together a second */

/* What a conductor runs ops for. */
typedef struct goal {
    sg_stream_t *stream; /* until it has reached `number`; NULL: any `steps` pieces of work */
    uint64_t number;
    unsigned steps;
    bool patient;   /* wait for what is let loose */
    bool halfway;   /* finish nothing */
    bool drawn;     /* order and size of the steps; else the oldest first */
    uint64_t marks; /* the search for what is needed for it; 0: none yet */
} goal_t;

static struct {
    uint64_t random;
    mood_t mood;
    unsigned mood_calls; /* until the next one */
    sg_op_t *ready;      /* heads of streams whose turn has come, in that order */
    bool conducting;
    uint64_t marks;         /* searches for what is needed */
    _Atomic uint64_t calls; /* of the API */
} det;

/* ---- lots (splitmix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014) ---- */

static uint64_t draw(void)
{
    uint64_t z = det.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t below(uint64_t n)
{
    return draw() % n;
}

/* ---- what may run ---- */

static void list_locked(sg_op_t *op)
{
    sg_op_t **link = &det.ready;
    while (*link)
        link = &(*link)->next_run;
    op->next_run = NULL;
    *link = op;
    op->listed = true;
}

static void unlist_locked(sg_op_t *op)
{
    sg_op_t **link = &det.ready;
    while (*link != op)
        link = &(*link)->next_run;
    *link = op->next_run;
    op->listed = false;
}

static void det_ready_locked(sg_op_t *op)
{
    list_locked(op);
    sg_executors_wake_locked();
}

static bool needed(const sg_op_t *op)
{
    return op->stream->lane.mark == det.marks && op->number <= op->stream->lane.needed;
}

/* A stream is needed up to a number: to be searched, if that is news. */
static void mark(sg_stream_t *s, uint64_t number, sg_stream_t **todo)
{
    sg_lane_t *lane = &s->lane;
    if (lane->mark != det.marks) {
        lane->mark = det.marks;
        lane->needed = 0;
        lane->search = s->head;
        lane->to_search = false;
    }
    if (lane->needed >= number)
        return;
    lane->needed = number;
    if (!lane->to_search) {
        lane->to_search = true;
        lane->next_to_search = *todo;
        *todo = s;
    }
}

/* What has to run before the stream can reach the number: its ops, and what those wait for. */
static void mark_needed_locked(sg_stream_t *stream, uint64_t number)
{
    sg_stream_t *todo = NULL;
    det.marks++;
    mark(stream, number, &todo);
    for (sg_stream_t *s; (s = todo);) {
        sg_lane_t *lane = &s->lane;
        todo = lane->next_to_search;
        lane->to_search = false;
        for (const sg_op_t *op; (op = lane->search) && op->number <= lane->needed; lane->search = op->next)
            if (op->kind == SG_OP_WAIT && op->wait.stream &&
                atomic_load(&op->wait.stream->completed) < op->wait.number)
                mark(op->wait.stream, op->wait.number, &todo);
    }
}

static uint64_t units_left(const sg_op_t *op)
{
    uint64_t next = atomic_load(&op->next_unit);
    return op->units > next ? op->units - next : 0;
}

static bool eligible_locked(const sg_op_t *op, const goal_t *goal, bool only_needed)
{
    if ((only_needed && !needed(op)) || (goal->halfway && units_left(op) < 2))
        return false;
    return sg_executor_free_locked(op);
}

/* One of those that can run; NULL: none can. */
static sg_op_t *choose_among_locked(const goal_t *goal, bool only_needed)
{
    unsigned candidates = 0;
    for (sg_op_t *op = det.ready; op; op = op->next_run)
        candidates += eligible_locked(op, goal, only_needed);
    if (!candidates)
        return NULL;
    uint64_t chosen = goal->drawn && candidates > 1 ? below(candidates) : 0;
    for (sg_op_t *op = det.ready; op; op = op->next_run)
        if (eligible_locked(op, goal, only_needed) && !chosen--)
            return op;
    return NULL;
}

static sg_op_t *choose_locked(goal_t *goal)
{
    if (!goal->stream)
        return choose_among_locked(goal, false);
    if (!goal->marks || goal->marks != det.marks) { /* another conductor has searched meanwhile */
        mark_needed_locked(goal->stream, goal->number);
        goal->marks = det.marks;
    }
    bool only_needed =
        !goal->patient || det.mood == LAZY || det.mood == HALFWAY || (det.mood == MIXED && below(2));
    sg_op_t *op = choose_among_locked(goal, only_needed);
    /* What is needed is let loose, and may in turn wait for anything. */
    return op || !goal->patient ? op : choose_among_locked(goal, false);
}

/* ---- conducting ---- */

static void step_locked(sg_op_t *op, const goal_t *goal)
{
    uint64_t left = units_left(op), limit = op->units;
    if (left > 1 && (goal->halfway || (goal->drawn && below(2))))
        limit -= 1 + below(left - 1);
    if (!op->group)
        op->group = op->units > GROUPS ? op->units / GROUPS : 1;
    unlist_locked(op);
    op->active++;
    if (!sg_executor_run_locked(op, limit) && !op->listed && atomic_load(&op->next_unit) < op->units)
        list_locked(op); /* others may take the rest, for which these units may wait */
}

void sg_executed_locked(sg_op_t *op, bool ok, bool loose)
{
    op->active--;
    if (loose && !sg_op_waits(op)) /* which takes as long as it says */
        op->stream->lane.floor_ns = sg_clock_now_locked();
    if (!ok)
        atomic_store(&op->next_unit, op->units);
    bool exhausted = atomic_load(&op->next_unit) >= op->units;
    if (!exhausted && !op->listed)
        list_locked(op);
    if (exhausted && !op->active) {
        if (op->listed)
            unlist_locked(op);
        sg_op_finish_locked(op);
    }
}

static bool met(const goal_t *goal)
{
    return goal->stream ? atomic_load(&goal->stream->completed) >= goal->number : !goal->steps;
}

static void conduct_locked(goal_t *goal)
{
    while (!met(goal)) {
        if (det.conducting) {
            sg_executors_wait_locked();
            continue;
        }
        sg_op_t *op = choose_locked(goal);
        if (op) {
            det.conducting = true;
            step_locked(op, goal);
            det.conducting = false;
            sg_executors_wake_locked();
            goal->steps -= goal->steps > 0;
        } else if (goal->patient) {
            sg_executors_wait_locked();
        } else {
            return;
        }
    }
}

/* ---- the scheduler ---- */

static void det_enter(void)
{
    sg_lock();
    atomic_fetch_add(&det.calls, 1);
    sg_clock_call_locked();
    if (!det.mood_calls--) {
        det.mood = (mood_t)below(MOODS);
        det.mood_calls = 8 + (unsigned)below(32);
    }
    goal_t goal = {.drawn = true};
    if (det.mood == EAGER)
        goal.steps = UINT_MAX;
    else if (det.mood != LAZY)
        goal.steps = (unsigned)below(4);
    goal.halfway = det.mood == HALFWAY;
    if (det.ready && !det.conducting)
        conduct_locked(&goal);
    sg_unlock();
}

static void det_queued_locked(const sg_op_t *op)
{
    sg_clock_add_locked(op);
}

static void det_passed_locked(const sg_op_t *op)
{
    uint64_t *floor = &op->stream->lane.floor_ns;
    if (op->kind == SG_OP_WAIT && !op->wait.stream) /* for a value, which came now */
        *floor = sg_clock_now_locked();
    else if (op->kind == SG_OP_WAIT && op->wait.stream->lane.floor_ns > *floor)
        *floor = op->wait.stream->lane.floor_ns;
    else if (op->kind == SG_OP_RECORD && op->record.record)
        op->record.record->floor_ns = *floor;
}

static void det_moved_locked(void)
{
    /* Those who wait are woken by the executor whose op has ended. */
}

static bool det_past_locked(const sg_stream_t *stream, uint64_t number)
{
    return sg_clock_over_locked(stream, number) && atomic_load(&stream->completed) >= number;
}

static bool det_reached_locked(sg_stream_t *stream, uint64_t number)
{
    if (!sg_clock_over_locked(stream, number))
        return false;
    conduct_locked(&(goal_t){.stream = stream, .number = number, .drawn = true});
    return atomic_load(&stream->completed) >= number;
}

static void det_wait_locked(sg_stream_t *stream, uint64_t number)
{
    conduct_locked(&(goal_t){.stream = stream, .number = number, .patient = true, .drawn = true});
    sg_clock_wait_locked(stream, number);
}

static bool det_spin(const sg_stream_t *stream, uint64_t number)
{
    (void)stream, (void)number;
    return false; /* waiting is what moves things here */
}

/* For hosts that watch memory instead of calling. */
static void *idle_main(void *argument)
{
    (void)argument;
    uint64_t seen = 0;
    for (unsigned quiet = 0;;) {
        usleep(IDLE_CHECK_NS / 1000);
        uint64_t now = atomic_load(&det.calls);
        quiet = now == seen ? quiet + 1 : 0;
        seen = now;
        if (quiet < IDLE_CHECKS)
            continue;
        sg_lock();
        if (det.ready && !det.conducting)
            conduct_locked(&(goal_t){.steps = UINT_MAX});
        sg_unlock();
    }
    return NULL;
}

static CUresult det_start(unsigned workers)
{
    (void)workers;
    det.random = sg.config.seed * 0xd1342543de82ef95u;
    SG_TRY(sg_executors_start());
    return sg_start_thread(idle_main, NULL, "softgpu-idle");
}

const sg_scheduler_t sg_deterministic_scheduler = {.start = det_start,
                                                   .enter = det_enter,
                                                   .queued_locked = det_queued_locked,
                                                   .ready_locked = det_ready_locked,
                                                   .passed_locked = det_passed_locked,
                                                   .moved_locked = det_moved_locked,
                                                   .past_locked = det_past_locked,
                                                   .reached_locked = det_reached_locked,
                                                   .wait_locked = det_wait_locked,
                                                   .spin = det_spin};

/* At the end of the program, for those who want to know (SOFTGPU_LOG=2). */
__attribute__((destructor)) static void tell_time(void)
{
    if (sg_scheduler != &sg_deterministic_scheduler || atomic_load(&sg.forked))
        return;
    uint64_t ns = sg_clock_now_locked(); /* nobody else is left to change it */
    sg_log(2, "the program has taken %llu.%06llu ms of virtual time on %s",
           (unsigned long long)(ns / 1000000 - 1), (unsigned long long)(ns % 1000000), sg_profile->product);
}

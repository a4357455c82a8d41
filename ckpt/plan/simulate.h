/* simulate.h: what a step comes to that is driven by a plan: the streams of plan.h as queues, by its rules and the times of
 * the trace, on given hardware.
 *
 * Exact for a device that runs each operation in the time that the trace gives it, and copies at constant rates: one for each way
 * that is used alone, another for each while both are; where copies slow compute down, by the factor given. What the runner does beside
 * the plan's letter is part of it: what is zeroed before a replay, what is hashed to compare it, and the host's calls, which may come
 * too late for a device that has nothing else to do. Copies of the program's own between host and device take their turn on
 * the link. Of the host's time only its calls of the driver are known, not what the program does between them. A few steps are
 * gone through, until what one step leaves to the next has settled; the last one is told.
 *
 * Several of the program's streams share the device: their operations take turns on it, one at a time, the one first that was issued
 * first of those that may begin (an operation of a training step fills a device; small ones that would fit beside it are thought
 * slower than they are). Events that the trace shows, waits of its host threads and the runner's own order them.
 *
 * Knows no planner and no checker: any plan for the trace will do. Value functions: any thread.
 */
#ifndef EBB_SIMULATE_H
#define EBB_SIMULATE_H

#include "ckpt/plan/plan.h"

/* Who is at work; a wait is of compute, for the end of a copy or for the host: where there are several streams, of the one whose
 * operation is the next. */
typedef enum ebb_lane {
    EBB_LANE_OPERATION,
    EBB_LANE_REPLAY,
    EBB_LANE_OUT,
    EBB_LANE_IN,
    EBB_LANE_WAIT_OUT, /* memory is not free yet: a copy out has not ended */
    EBB_LANE_WAIT_IN,  /* data is not there yet: a copy in has not ended */
    EBB_LANE_CHECK,    /* what is given up, or recomputed, is hashed and compared */
    EBB_LANE_WAIT_HOST /* the host has not issued what comes next, or a copy of the program's own waits for the link; of
                          several streams it is not told */
} ebb_lane_t;
enum { EBB_LANES = EBB_LANE_WAIT_HOST + 1 };
extern const char *const ebb_lane_word[EBB_LANES];

typedef struct ebb_span {
    ebb_lane_t lane;
    uint32_t
        index; /* operation, also of a wait for the host; else the plan's action: what is replayed, copied,
                                waited for, compared */
    double begin_ns, end_ns; /* since the step's beginning; a copy may end after the step */
} ebb_span_t;

/* From a moment on, so many bytes are in use: of places that hold what the program or the plan needs again, whole chunks, and
 * the small region. Never more than the plan's chunks. */
typedef struct ebb_level {
    double ns;
    uint64_t bytes;
} ebb_level_t;

/* What those bytes are: a place is in use. Levels are the sums of these, in whole chunks, and the small region. What goes over
 * the step's end is two. */
typedef struct ebb_hold {
    uint32_t place;
    double begin_ns, end_ns;
} ebb_hold_t;

typedef struct ebb_simulation {
    double step_ns;
    double
        alone_ns; /* what the step would take without the plan: the operations' time if there is one stream */
    double lane_ns[EBB_LANES]; /* operations as if nothing slowed them down */
    double slowed_ns;          /* that operations and replays took longer because of copies */
    double hidden_ns;          /* of the copies' time: while compute was at work */
    uint64_t peak_bytes;       /* the plan's chunks and the small region */

    /* If asked for; owned. */
    ebb_span_t *span;   /* in the order in which they were issued */
    ebb_level_t *level; /* by time */
    ebb_hold_t *hold;   /* in no order */
    uint32_t span_count, span_room, level_count, level_room, hold_count, hold_room;
} ebb_simulation_t;

/* False: no memory; nothing is owned then. In detail: with spans, levels and holds. */
bool ebb_simulate(ebb_simulation_t *out, const ebb_plan_t *plan, const ebb_trace_t *trace,
                  const ebb_hardware_t *hardware, bool in_detail);
void ebb_simulation_delete(ebb_simulation_t *simulation);

/* The same for a trace; 0: no memory. */
double ebb_simulate_alone_ns(const ebb_trace_t *trace);

/* The step's time alone, rounded up; at least 1. 0: no memory. */
uint64_t ebb_simulate_ns(const ebb_plan_t *plan, const ebb_trace_t *trace, const ebb_hardware_t *hardware);

/* Bytes over one copy direction, as a time. */
static inline double ebb_copy_ns(uint64_t bytes, double bytes_per_ns)
{
    return (double)(uint64_t)((double)bytes / (bytes_per_ns > 0 ? bytes_per_ns : 1e-9)) + 1;
}

#endif

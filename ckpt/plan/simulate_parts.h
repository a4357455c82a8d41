/* simulate_parts.h: what simulate.c, simulate_link.c, simulate_prices.c, simulate_streams.c and simulate_engines.c share. */
#ifndef EBB_SIMULATE_PARTS_H
#define EBB_SIMULATE_PARTS_H

#include "ckpt/plan/simulate.h"

#define EBB_NOT_YET 1e300 /* later than any moment */

/* ---- what actions cost (simulate_prices.c) ---- */

typedef struct ebb_action_price {
    double replay_ns; /* of compute: a replay, with what it zeroes */
    double check_ns;  /* of compute: comparing what is recomputed, here or behind here */
    double calls; /* of the driver, to issue all that, where there is one stream */
    unsigned checks; /* hashes */
} ebb_action_price_t;

/* Calls of the driver around the waits for copies before an operation: events before and behind, and two that ask what they were. */
enum { EBB_JOIN_CALLS = 4 };

/* [actions], or NULL: no memory. */
ebb_action_price_t *ebb_simulate_prices(const ebb_plan_t *plan, const ebb_trace_t *trace,
                                        const ebb_hardware_t *hardware);

/* ---- what is waited for before an operation ---- */

typedef struct ebb_joins {
    uint32_t *action; /* by operation */
    uint32_t *first;  /* [operations + 1] into `action` */
} ebb_joins_t;

/* False: no memory. What is there is the caller's to free in any case. */
bool ebb_simulate_joins(ebb_joins_t *out, const ebb_plan_t *plan);

/* ---- the link (simulate_link.c) ----
 * Each way copies one thing after another, in the order of issue, each as soon as it may. While both ways are in use each is
 * slower. So a copy's end is not known when it is issued: the link is followed from change to change, no further than to the moment up to
 * which compute is known, because no copy that is issued later can begin before that. */

typedef struct ebb_copy {
    double ready; /* not before */
    double left;  /* of its time, had it the link for itself */
    double begin;
    const double *end_now, *end_before; /* [actions] of its step and the one before */
    double *end;                        /* its own */
    uint32_t action;                    /* of the plan */
    uint32_t span;                      /* to fill in; NEVER: none */
    bool counts;                        /* in lane_ns */
} ebb_copy_t;

typedef struct ebb_way {
    ebb_copy_t *copy; /* in the order of issue */
    uint32_t first, count;
    ebb_copy_t own; /* a copy of the program's: behind what was issued before it */
    ebb_copy_t *at; /* what runs; NULL: nothing */
    double free;    /* since then, if nothing runs */
} ebb_way_t;

typedef struct ebb_link_state {
    const ebb_plan_t *plan;
    const ebb_hardware_t *hardware;
    ebb_simulation_t *out;
    ebb_way_t way[2]; /* out, in */
    double now;       /* followed up to here */
} ebb_link_state_t;

/* The first change behind `now`, as things are; NOT_YET: none. */
double ebb_link_next(ebb_link_state_t *link);
/* Follows it to a moment; back: nothing happens. */
void ebb_link_follow(ebb_link_state_t *link, double to);
/* Directions that copy at `now`. */
int ebb_link_busy(const ebb_link_state_t *link);
/* Until a copy has ended; when that was. */
double ebb_link_wait(ebb_link_state_t *link, const double *end);
/* Until all copies that were issued have ended. */
void ebb_link_end(ebb_link_state_t *link);
/* A copy of the program's own, from now on; when it ends. */
double ebb_link_use(ebb_link_state_t *link, int way, double ns);

/* A copy of the program's between host and device: out if it reads memory of the device. */
bool ebb_simulate_uses_link(const ebb_trace_t *trace, const ebb_trace_operation_t *operation, int *way);

/* ---- several streams (simulate_streams.c) ---- */

/* As ebb_simulate, but for levels and peak. Without a plan (NULL): what the step takes then. */
bool ebb_simulate_streams(ebb_simulation_t *out, const ebb_plan_t *plan, const ebb_trace_t *trace,
                          const ebb_hardware_t *hardware, bool in_detail);

/* ---- engines (simulate_engines.c) ----
 * What is issued goes into queues: the program's streams, then out, then in. Each queue is worked off in order. Operations take
 * turns on one engine, copies on one for each way: what is at the head of its queue and has been issued first is the next. A
 * wait needs no engine: it is over when that has ended what it is for. */

typedef enum ebb_engine { EBB_ENGINE_COMPUTE, EBB_ENGINE_OUT, EBB_ENGINE_IN, EBB_ENGINES } ebb_engine_t;
#define EBB_ENGINE_NONE EBB_ENGINES
#define EBB_NO_LANE     ((ebb_lane_t)EBB_LANES)

typedef struct ebb_task {
    uint32_t queue;
    ebb_engine_t engine;
    uint32_t after;  /* a wait: for this task; NEVER: for nothing */
    double issued;   /* by the host: not before */
    double work;     /* ns, had it the device for itself */
    ebb_lane_t lane; /* and what it is there; EBB_NO_LANE: nothing that is told */
    uint32_t index;
    double turn, begin, end; /* head of its queue; at work; over, or NOT_YET */
    uint32_t next;           /* in the queue */
} ebb_task_t;

typedef struct ebb_engines {
    const ebb_hardware_t *hardware;
    uint32_t queues;
    ebb_task_t *task; /* owned; in the order of issue */
    uint32_t task_count, task_room;
    uint32_t head[EBB_PLAN_STREAMS + 2], newest[EBB_PLAN_STREAMS + 2]; /* NEVER: none */
    uint32_t running[EBB_ENGINES];
    double left[EBB_ENGINES]; /* of their work */
    double now;
    bool failed; /* no memory */
} ebb_engines_t;

void ebb_engines_begin(ebb_engines_t *engines, const ebb_hardware_t *hardware, uint32_t queues);
/* Issues it; of `task`, what is before `turn`. Its number. */
uint32_t ebb_engines_add(ebb_engines_t *engines, ebb_task_t task);
/* Until that task is over; NEVER: until nothing goes on any more. */
void ebb_engines_run(ebb_engines_t *engines, uint32_t task);

#endif

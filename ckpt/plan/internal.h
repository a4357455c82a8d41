/* internal.h: the parts of the simulator: the device, and the memory in use. */
#ifndef EBB_PLAN_INTERNAL_H
#define EBB_PLAN_INTERNAL_H

#include "ckpt/plan/plan.h"

/* ---- engines ----
 *
 * A device as the simulator sees it: queues of tasks, and engines that work them off, from event to event.
 *
 * What is issued goes into queues: the program's streams, then out, then in. Each queue is worked off in order. Operations take
 * turns on one engine, copies on one for each way, what communicates with other ranks on one of its own: what is at the head of its queue and
 * has been issued first is the next. A wait needs no engine: it is over when that has ended what it is for.
 *
 * A value with its own memory: any thread.
 */

#define EBB_NOT_YET 1e300 /* later than any moment */

enum {
    EBB_ENGINE_COMPUTE,
    EBB_ENGINE_OUT,
    EBB_ENGINE_IN,
    EBB_ENGINE_COMMUNICATION,
    EBB_ENGINES,
    EBB_ENGINE_NONE = EBB_ENGINES
};

typedef struct ebb_task {
    double issued;        /* by the host: not before */
    double work;          /* ns, had it the device for itself */
    double takes;         /* of what communicates: the part of the multiprocessors that operations do without */
    double begin;         /* at work; of a wait: head of its queue; or NOT_YET */
    double end;           /* over, or NOT_YET */
    uint32_t after, next; /* a wait: for this task; EBB_NONE: for nothing. The next one in the queue */
    uint32_t index;       /* the caller's, as `track` */
    uint8_t track, queue, engine;
    bool awaited; /* by a wait */
} ebb_task_t;

typedef struct ebb_engines {
    const ebb_hardware_t *hardware;
    uint32_t queues;
    ebb_task_t *task; /* owned; in the order of issue */
    uint32_t task_count, task_room;
    uint32_t head[EBB_PLAN_STREAMS + 2], newest[EBB_PLAN_STREAMS + 2]; /* EBB_NONE: none */
    uint32_t waits[EBB_PLAN_STREAMS + 2]
                  [EBB_PLAN_STREAMS + 2]; /* of a queue for another: for tasks below this */
    uint32_t running[EBB_ENGINES];
    double left[EBB_ENGINES], rate[EBB_ENGINES]; /* of their work */
    double now, arrival;                         /* when the next head of a queue comes from the host */
    bool contended;                              /* another queue's operation waits for its turn */
    bool failed;                                 /* no memory */
} ebb_engines_t;

/* `tasks`: about so many will be issued. */
void ebb_engines_begin(ebb_engines_t *engines, const ebb_hardware_t *hardware, uint32_t queues, size_t tasks);
/* Issues it; of `task`, what is before `begin` and from `after` on, but for `next`. Its number; of a wait that is void what it is
 * for. */
uint32_t ebb_engines_add(ebb_engines_t *engines, const ebb_task_t *task);
/* Until that task is over; EBB_NONE: until nothing goes on any more. */
void ebb_engines_run(ebb_engines_t *engines, uint32_t task);
void ebb_engines_end(ebb_engines_t *engines);

/* ---- levels ----
 *
 * How much memory is in use over a simulated step (plan.h).
 */

/* Fills in `level`, from the spans. False: no memory. */
bool ebb_simulate_levels(ebb_simulation_t *simulation, const ebb_plan_t *plan, const ebb_trace_t *trace);

#endif

/* plan_oracle_parts.h: what plan_oracle.c (executing) and plan_oracle_leave.c (leaving) share. */
#ifndef PLAN_ORACLE_PARTS_H
#define PLAN_ORACLE_PARTS_H

#include "plan_oracle.h"

enum { STEPS = 4, MOST_STREAMS = EBB_PLAN_STREAMS + 2, SMALL_GRAIN = 512, NOWHERE = -1 };
#define UNDEFINED UINT64_C(0x5eed)

typedef struct cell {
    uint64_t value;
    uint32_t part;
} cell_t;

/* One thing on one stream: a launch, a copy, or nothing but the end of a wait. */
typedef struct task {
    uint32_t stream;
    uint32_t operation;         /* launch; else EBB_NONE */
    const ebb_action_t *action; /* NULL: the program's own operation, or nothing */
    uint32_t step;
    uint32_t *after, after_count; /* tasks */
    uint32_t place;               /* of a copy */
} task_t;

/* A touch as the oracle sees it: a buffer of an operation, once. */
typedef struct use {
    uint32_t buffer;
    ebb_mode_t mode;
    bool defined; /* somebody wrote it before, or it was there when the step began */
} use_t;

typedef struct oracle {
    const ebb_trace_t *trace;
    const ebb_plan_t *plan;
    char *what;
    size_t what_bytes;

    use_t *use;
    uint32_t *first_use; /* [operations + 1] */
    uint64_t *expected;  /* [STEPS * uses]: what each use reads without a plan */
    uint64_t *kept;      /* [(STEPS + 1) * buffers]: what buffers hold as each step begins */

    uint32_t *at; /* [(STEPS + 1) * buffers]: in which place each is, step by step */

    cell_t *chunk, *small, *outliving; /* [chunks], [grains], [buffers]: small ones that outlive the step */
    cell_t **host;                     /* [places][chunks of the place] */
    uint64_t nonce;

    task_t *task;
    uint32_t task_count, task_room;
    uint32_t *last_of; /* [actions]: task + 1 */
    bool *spared;      /* [actions]: copies that are left out from the second step on */

    uint32_t streams;              /* the program's; out and in are the next two */
    uint32_t newest[MOST_STREAMS]; /* on each: task + 1 */
    uint32_t *event;               /* [moments]: of the stream when it was recorded: task + 1 */

    uint64_t result[MOST_STREAMS]; /* of the launch under way on each stream */
} oracle_t;

uint64_t oracle_mix(uint64_t a, uint64_t b);
/* Always false; leaves the words in `what`. */
bool oracle_wrong(oracle_t *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Zeroed, for one more than `count`; never NULL. */
void *oracle_room(size_t count, size_t size);
bool oracle_is_large(const oracle_t *o, uint32_t b);
bool oracle_outlives(const oracle_t *o, uint32_t b);

/* Where a place of the plan's list is in a step: a buffer's goes with it through its next numbers. */
uint32_t oracle_place(const oracle_t *o, uint32_t step, uint32_t place);
/* What buffers are in the next step: `item` [buffers] of `bytes`; those that are born then keep what they had. */
void oracle_pass_on(const oracle_t *o, void *item, size_t bytes);

/* What a buffer that lies in the place holds: its value, or another one if its parts do not fit together. */
uint64_t oracle_read_value(oracle_t *o, uint32_t place, uint32_t buffer);
uint64_t oracle_read_host(oracle_t *o, uint32_t place);
/* Where the task's buffer is. */
uint32_t oracle_target_of(const oracle_t *o, const task_t *t, uint32_t buffer);
/* A task runs piece by piece; false: it read something wrong. */
uint32_t oracle_pieces_of(const oracle_t *o, const task_t *t);
bool oracle_run_piece(oracle_t *o, const task_t *t, uint32_t piece);

void oracle_set_up(oracle_t *o);
void oracle_tear_down(oracle_t *o);

#endif

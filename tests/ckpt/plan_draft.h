/* plan_draft.h: random traces, and plans in a form that is easy to edit: waits refer to actions by ids that
 * stay, chunks and lists are inline. For CMocka programs: what fails, fails the test. All of chance comes
 * from rand().
 */
#ifndef PLAN_DRAFT_H
#define PLAN_DRAFT_H

#include "ckpt/plan/plan.h"

enum {
    CHUNK = 4096,
    MOST_ACTIONS = 160,
    MOST_WAITS = 8,
    MOST_REDIRECTS = 6,
    MOST_PLACES = 120,
    MOST_CHUNKS = 3
};

typedef struct draft_action {
    ebb_action_t a;
    uint32_t id, wait[MOST_WAITS]; /* ids */
    ebb_redirect_t redirect[MOST_REDIRECTS];
} draft_action_t;

typedef struct draft {
    ebb_place_t place[MOST_PLACES];
    uint32_t chunk[MOST_PLACES][MOST_CHUNKS];
    draft_action_t action[MOST_ACTIONS];
    uint32_t place_count, action_count, next_id, chunk_count, small_bytes;
    uint32_t streams; /* of the trace */
} draft_t;

uint32_t draft_draw(uint32_t below);

/* A valid trace of 6 to 29 operations: new buffers are made from some that are there, older ones come back
 * later, some are updated; most operations have proofs. On so many streams at most, ordered by events where two operations touch
 * one buffer of which one writes it, and now and then where nothing asks for it. */
ebb_trace_t *draft_trace(uint32_t streams);

/* Everything kept, everything large on chunks of its own. */
void draft_begin(draft_t *draft, const ebb_trace_t *trace);
/* One more place, on new chunks. */
uint32_t draft_add_place(draft_t *draft, uint64_t bytes, ebb_start_t start);
/* One more action, the last one of its point; where there are several streams, it is of streams that are drawn, most often all.
 * NULL: there are too many. */
draft_action_t *draft_insert(draft_t *draft, ebb_action_kind_t kind, uint32_t point);

/* Some of the draft's streams, as bits: most often all. */
uint32_t draft_streams(const draft_t *draft);

/* The plan, the caller's to delete. */
ebb_plan_t *draft_build(const draft_t *draft, const ebb_trace_t *trace);

#endif

/* planner.h: decides for every buffer of a trace, in each of its gaps, whether it is kept, offloaded or
 * dropped. There are several planners; all of them write the same kind of plan.
 *
 * Only large buffers (above half a chunk, and at least min_buffer) that are born and die within the step, or
 * outlive it on both sides, are moved. What a planner returns must pass the checker (checker.h); the caller
 * makes sure.
 */
#ifndef EBB_PLANNER_H
#define EBB_PLANNER_H

#include <stdatomic.h>

#include "alloc/base/options.h"
#include "ckpt/plan/plan.h"

typedef struct ebb_plan_request {
    const char *policy;    /* a policy's name, with its argument behind a colon; NULL: auto */
    uint64_t device_bytes; /* for places and the small region together */
    uint64_t host_bytes;   /* pinned, for host blocks */
    uint64_t behind_bytes; /* as the checker's (checker.h) */
    uint64_t min_buffer;   /* smaller ones are kept */
    bool offload, recompute;
    ebb_hardware_t hardware;
    double max_cost;     /* recompute nothing that costs more than this many times its transfer both ways;
                            0: no limit. Ignored without offload, and by fixed strategies */
    uint64_t min_gap_ns; /* offload nothing that lies idle for less */
    const ebb_boundary_t *boundary; /* that the plan agrees with; borrowed. NULL: none */
    /* Set by another thread: the plan is not wanted any more. Looked at before each walk; what comes of the request is then of no use.
     * Borrowed. NULL: it stays wanted. */
    const atomic_bool *given_up;
    /* Gets the first plan that fits, its own then, while a better one is looked for; in the thread that plans, at most once. NULL: nobody
     * waits for it. */
    void (*found)(void *finder, ebb_plan_t *plan);
    void *finder;
    uint64_t *
        smallest; /* if not NULL, gets the least device bytes that would have done, as far as they are known; 0: they are
                            not */
} ebb_plan_request_t;

/* A way to plan, as ebb_plan_make; the policies' (options.h). */
typedef ebb_plan_t *ebb_plan_maker_t(const ebb_trace_t *trace, const ebb_plan_request_t *request,
                                     const ebb_policy_t *policy, char *why, size_t why_bytes);
ebb_plan_maker_t ebb_auto_make, ebb_strategy_make;

/* ", auto, keep, ..": the policies that make plans. */
#define EBB_PLANNER_LISTED_NULL(text)
#define EBB_PLANNER_LISTED_ebb_auto_make(text)     text
#define EBB_PLANNER_LISTED_ebb_strategy_make(text) text
#define EBB_PLANNER_LIST(code, name, argument, make, tries)                                                  \
    EBB_PLANNER_LISTED_##make(EBB_POLICY_LIST(code, name, argument, make, tries))
#define EBB_PLANNER_POLICIES EBB_POLICIES(EBB_PLANNER_LIST)

/* The policy with its argument. False: there is none that makes plans, or the argument is not one of its. */
bool ebb_planner_find(ebb_policy_t *policy, const char *text);

/* A plan that fits, or NULL: `why` then says what is in the way, in one line, with the smallest device_bytes
 * that would do as far as it is known. Deterministic: the same trace and request give the same plan. A value
 * function: any thread. */
ebb_plan_t *ebb_plan_make(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                          size_t why_bytes);

/* What the step takes when everything is kept. 0: `why` says why it cannot be planned. */
uint64_t ebb_keep_bytes(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                        size_t why_bytes);

/* The smallest device_bytes for which the request's planner has a plan, as far as it looks; 0: for none, or no memory. */
uint64_t ebb_plan_floor(const ebb_trace_t *trace, const ebb_plan_request_t *request);

/* What no plan within the request's memory can do better: the least time of a step (bound, below), whatever else the request rules out.
 * UINT64_MAX: there is none. 0: no memory. */
uint64_t ebb_plan_bound_ns(const ebb_trace_t *trace, const ebb_plan_request_t *request);

/* How much longer than that a step takes under this plan at most, of the best: 0.01 is 1%. Below 0: it is not known. */
double ebb_plan_gap(const ebb_plan_t *plan, const ebb_trace_t *trace, const ebb_plan_request_t *request);

/* A plan from a file, if it is one for this trace, with the time that it takes on this hardware; else NULL and why. It must
 * pass the checker like any other. */
ebb_plan_t *ebb_plan_given(const char *path, const ebb_trace_t *trace, const ebb_hardware_t *hardware,
                           char *why, size_t why_bytes);

/* ---- model ----
 *
 * A trace as the planner sees it: contents, what makes them, what needs them, how long each
 * can be had.
 *
 * A content is one version of one buffer; contents are numbered through all buffers (`first_content` of the
 * buffer plus the version). Version 0 is what a buffer holds when the step begins or when it is allocated.
 */

/* What an operation does with a buffer, all its accesses taken together. */
typedef struct ebb_touch {
    uint32_t buffer;
    ebb_mode_t mode;
    uint32_t before, after; /* contents; the same when it only reads */
} ebb_touch_t;

typedef struct ebb_content {
    uint32_t buffer;
    uint32_t producer; /* operation; EBB_NONE: version 0 */
    uint32_t rebuild;  /* the last point at which replays can rebuild it; 0: never */
    uint32_t until;    /* the last point at which a replay can count on reading it in its own place */
    uint64_t cost_ns;  /* of the replays that rebuild it when what they read is there */
} ebb_content_t;

typedef struct ebb_use {
    uint32_t operation, before;
    ebb_mode_t mode;
} ebb_use_t;

typedef struct ebb_model_buffer {
    uint32_t chunks; /* 0: small */
    uint32_t first_content, content_count;
    uint32_t first_use, use_count; /* in `use`, by operation */
    bool persistent;               /* its place is its own throughout */
    bool rotates; /* it is another one in the next step, or was in the one before: it stays */
    bool movable;
    uint64_t out_ns, in_ns; /* that a copy takes of the link */
} ebb_model_buffer_t;

/* Owns its arrays; borrows trace and request, which must outlive it. */
typedef struct ebb_model {
    const ebb_trace_t *trace;
    const ebb_plan_request_t *request;
    ebb_model_buffer_t *buffer;
    ebb_touch_t *touch;
    uint32_t *first_touch; /* per operation, and one more */
    ebb_content_t *content;
    ebb_use_t *use;
    uint64_t *begin_ns; /* of each operation, and the end (ebb_simulate_begins) */
    uint32_t streams;   /* of the program's */
    uint32_t content_count;
    uint32_t *small_offset; /* in the small region, per buffer; EBB_NONE */
    uint64_t small_bytes;
    bool reads_back; /* the program copies something to the host: what is on its way out then makes it wait */
    uint32_t widest, widest_chunks; /* the operation that touches the most chunks, and how many */
} ebb_model_t;

/* False: `why` says why the trace is refused, or that there is no memory; the model needs no deletion then.
 */
bool ebb_model_make(ebb_model_t *model, const ebb_trace_t *trace, const ebb_plan_request_t *request,
                    char *why, size_t why_bytes);
void ebb_model_delete(ebb_model_t *model);

static inline uint32_t ebb_model_chunks(const ebb_trace_t *t, uint64_t bytes)
{
    return (uint32_t)((bytes + t->chunk_bytes - 1) / t->chunk_bytes);
}

static inline uint64_t ebb_model_transfer_ns(const ebb_model_t *m, uint32_t buffer, bool in)
{
    return in ? m->buffer[buffer].in_ns : m->buffer[buffer].out_ns;
}

/* ---- packing ----
 *
 * Offsets for buffers whose lifetimes are known: where the small buffers of a step lie. Least memory is NP-hard (dynamic storage
 * allocation; Garey, Johnson: Computers and Intractability, SR2); a search within a number of steps comes close.
 */

typedef struct ebb_lifetime {
    uint32_t begin, end; /* both included: two lifetimes that meet in a point overlap */
    uint64_t bytes;      /* above 0 */
    uint64_t offset;     /* is set: lifetimes that overlap have bytes apart */
} ebb_lifetime_t;

/* The height: where the last byte ends. It is least if no other takes fewer units of `grain` bytes; that is not proven where `steps`,
 * of a few nanoseconds each, do not suffice. What first fit by begins takes is never exceeded, and takes no steps. Deterministic, on
 * any machine. UINT64_MAX: no memory. A value function: any thread; up to 2,048 calls deep (0.5 MiB). */
uint64_t ebb_pack(ebb_lifetime_t *lifetime, uint32_t count, uint64_t grain, uint64_t steps);

/* ---- bound ----
 *
 * What no plan can do better: the least time of a step within so many chunks. For levels that need not be searched
 * (auto.c), and to tell how far a plan is from the best one.
 *
 * One moment of the step is looked at: an operation is at work, and of all that the step still needs then, besides what that
 * operation touches, what does not fit is on the host or dropped. What is on the host goes over the link both ways, between its
 * last use before and its next one after; what is dropped is made again, each replay that this takes counted once, with all that it
 * reads at hand. What the step takes longer may give the link more time: the least that is enough is the bound. It is a relaxation:
 * fractions of buffers may go, either way of the link has the other's waits, memory at other moments is free, and so are
 * the host's calls and the latency of copies.
 *
 * Several streams of the program take turns on the device (plan.h): replays and comparisons have the time in which it would be idle,
 * and what the step takes longer. The link has all of the step then, and what copies slow down is free.
 */

/* What is idle at the moment and could go; a group: what the replay of one operation brings back. */
typedef struct ebb_bound_item {
    uint32_t chunks;
    double out_ns, in_ns; /* of the link */
    /* from its last use to the moment, and from there to its next use, if nothing ever waits */
    double before, behind;
} ebb_bound_item_t;

typedef struct ebb_bound_group {
    uint32_t chunks;
    double ns;
} ebb_bound_group_t;

/* Owns its arrays. */
typedef struct ebb_bound {
    uint64_t step_ns;         /* without a plan */
    double idle_ns;           /* of compute, where there are several streams */
    double out_cost, in_cost; /* that compute takes longer, for each nanosecond of a copy */
    uint32_t needed;          /* chunks, at the moment */
    /* [item_count] by `before`, by `behind`, and by chunks for their time of the link */
    ebb_bound_item_t *out, *in, *dense_out, *dense_in;
    ebb_bound_group_t *group; /* by what a chunk costs */
    uint32_t item_count, group_count;
} ebb_bound_t;

/* Takes the moment at which most is needed. False: no memory; nothing is owned then. */
bool ebb_bound_make(ebb_bound_t *bound, const ebb_model_t *model);
void ebb_bound_delete(ebb_bound_t *bound);

/* No plan within so many chunks has a shorter step; UINT64_MAX: there is none. */
uint64_t ebb_bound_ns(const ebb_bound_t *bound, uint32_t chunks);

/* ---- windows ----
 *
 * A few operations in a row, and what may be replayed between them: which replays take the least time. Contents are items, bits of a
 * set: written once each, as a whole. What else is resident is not touched, and only its room counts.
 */

enum { EBB_WINDOW_ITEMS = 64, EBB_WINDOW_OPERATIONS = 70 };

typedef struct ebb_window_operation {
    uint64_t in, out;           /* items that it reads, that it makes */
    uint64_t may_go;            /* items that may be dropped before it */
    uint32_t room, room_before; /* chunks for items, while it runs; for items and replays before it */
} ebb_window_operation_t;

typedef struct ebb_window_replay {
    uint64_t in, out;
    uint32_t beside;      /* chunks that it takes for what else it writes */
    uint32_t from, until; /* before these operations of the window it is possible */
    uint32_t operation;   /* of the trace */
    uint64_t ns;
} ebb_window_replay_t;

typedef struct ebb_window_step {
    enum { EBB_WINDOW_OPERATION, EBB_WINDOW_REPLAY, EBB_WINDOW_DROP } kind;
    uint16_t index; /* operation of the window, replay, item */
} ebb_window_step_t;

/* Owns the steps. Lists by operation have an entry more, for the end. */
typedef struct ebb_exchange_window {
    uint32_t length, item_count, replay_count;
    uint64_t begin;                                                 /* items that are resident */
    uint32_t chunks[EBB_WINDOW_ITEMS], replay_of[EBB_WINDOW_ITEMS]; /* per item; EBB_NONE: none makes it */
    ebb_window_operation_t operation[EBB_WINDOW_OPERATIONS + 1];
    uint64_t wanted[EBB_WINDOW_OPERATIONS + 1];  /* read from this operation on, or resident at the end */
    uint64_t made[EBB_WINDOW_OPERATIONS + 1];    /* by operations before this one */
    uint64_t useless[EBB_WINDOW_OPERATIONS + 1]; /* dropped at once */
    ebb_window_replay_t replay[EBB_WINDOW_ITEMS];
    ebb_window_step_t *step; /* the cheapest */
    uint32_t step_count;
} ebb_exchange_window_t;

/* The least time of replays, below `below_ns`, and the steps; UINT64_MAX: none is known. Takes no more than so many states, which it
 * subtracts. `enough`: they sufficed, so that there is none. */
uint64_t ebb_window_search(ebb_exchange_window_t *window, uint64_t below_ns, uint32_t *states, bool *enough);

#endif

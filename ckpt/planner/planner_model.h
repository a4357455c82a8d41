/* planner_model.h: a trace as the planner sees it: contents, who makes them, who needs them, how long each
 * can be had.
 *
 * A content is one version of one buffer; contents are numbered through all buffers (`first_content` of the
 * buffer plus the version). Version 0 is what a buffer holds when the step begins or when it is allocated.
 */
#ifndef EBB_PLANNER_MODEL_H
#define EBB_PLANNER_MODEL_H

#include "ckpt/planner/planner.h"

#define EBB_NONE UINT32_MAX

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
    uint64_t *begin_ns; /* of each operation if nothing ever waits, and the end */
    uint32_t streams;   /* of the program's */
    double pace; /* of that clock: where there are several, as many operations run at once as do on average */
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

/* Packs the small buffers that live within the step by their lifetimes (planner_small.c). False: no memory.
 */
bool ebb_model_pack_small(ebb_model_t *model);

static inline uint32_t ebb_model_chunks(const ebb_trace_t *t, uint64_t bytes)
{
    return (uint32_t)((bytes + t->chunk_bytes - 1) / t->chunk_bytes);
}

static inline uint64_t ebb_model_transfer_ns(const ebb_model_t *m, uint32_t buffer, bool in)
{
    return in ? m->buffer[buffer].in_ns : m->buffer[buffer].out_ns;
}

#endif

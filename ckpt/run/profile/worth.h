/* worth.h: which contents of a step are worth giving up, and which launches would have to be issued again to have
 * them back. Pure reading of a trace; any thread.
 *
 * Worth giving up is a content that lies idle for a real gap: what a forward pass saves for the backward pass. A gap
 * that is not several times as long as it takes to make the content again is none: such contents are given up last, when no
 * plan fits otherwise.
 * A content is made by the operations that have written its buffer since that was allocated, in this step. What these have
 * read must be there when the gap ends, with the same version; where it is not (freed, or overwritten), it has to
 * be made again as well.
 *
 * Threads: any; the trace must not change.
 */
#ifndef EBB_WORTH_H
#define EBB_WORTH_H

#include "ckpt/trace/trace.h"

typedef struct ebb_saved {
    uint32_t buffer;
    uint32_t from, to; /* operations: the last one before the gap, and the first one after it, which reads */
    bool possible;     /* it can be made from what is there at `to` */
    bool proven;       /* and every operation that this takes may be replayed */
} ebb_saved_t;

/* For what an operation would be issued again. */
typedef enum ebb_need {
    EBB_NOT_WANTED,
    EBB_WANTED_LAST, /* contents that are hardly worth it */
    EBB_WANTED       /* at least one that is */
} ebb_need_t;

typedef struct ebb_worth {
    ebb_saved_t *saved; /* by buffer; of several gaps of a buffer each is one */
    uint32_t saved_count;
    ebb_need_t *need; /* [operations] of contents that are possible and large enough */
} ebb_worth_t;

/* `may_write(context, operation, access)` says whether an access has to be taken for a write; NULL: the trace's modes
 * do. For buffers below `least_bytes` nothing is wanted. False: no memory. */
typedef bool (*ebb_may_write_fn)(void *context, uint32_t operation, uint32_t access);
bool ebb_worth_find(const ebb_trace_t *trace, ebb_may_write_fn may_write, void *context, uint64_t least_bytes,
                    ebb_worth_t *out);
void ebb_worth_free(ebb_worth_t *worth);

#endif

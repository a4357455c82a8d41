/* boundary.h: what is between two steps, where: the buffers that outlive the step, as they lie while no step is under way.
 *
 * Plans of kinds of step that alternate agree on it: one of them may then begin where another one has ended, and nothing moves.
 * What agrees: the same buffer is on the device, or on the host, when the step begins (and so when it ends, see plan.h), and its
 * place is on the same chunks. Everything else of a plan is its own affair, as nothing else outlives a step: which chunks other
 * places lie on, where such a buffer is in between, and what becomes of chunks of those that are on the host.
 *
 * Chunks of a boundary have numbers of its own: two buffers that have one in common share that chunk.
 *
 * Values; any thread.
 */
#ifndef EBB_BOUNDARY_H
#define EBB_BOUNDARY_H

#include "ckpt/plan/plan.h"

typedef struct ebb_boundary {
    uint32_t buffer_count; /* of the trace whose plan is to agree */
    ebb_start_t *start;    /* [buffers]; EBB_NOT_THERE: not agreed on, the plan is free */
    uint32_t *first; /* [buffers + 1] into `chunk`; none: on the host, and nobody has a place for it yet */
    uint32_t *chunk; /* from 0 on */
    uint32_t chunk_count; /* different ones */
} ebb_boundary_t;

/* `chunks`: room for so many, of all buffers together. NULL: no memory. */
ebb_boundary_t *ebb_boundary_new(uint32_t buffer_count, uint32_t chunks);
void ebb_boundary_delete(ebb_boundary_t *boundary);

/* Whether a plan can be driven from there. False: `why` says what is elsewhere, in one line. */
bool ebb_boundary_agrees(const ebb_boundary_t *boundary, const ebb_plan_t *plan, char *why, size_t why_bytes);

static inline uint32_t ebb_boundary_chunks(const ebb_boundary_t *b, uint32_t buffer)
{
    return b->first[buffer + 1] - b->first[buffer];
}

#endif

/* stages.h: forward, backward and the stages in between, found in the data flow of a trace. What fixed strategies are about.
 *
 * Glossary
 *   pass     memory of the step fills up and empties again: forward, then backward. A step has one for each micro-batch
 *   peak     the operation in a pass at which most is alive: forward ends before it
 *   border   a point of a forward where little goes over: bytes of contents that were made before it in this forward and are
 *            read behind it in this forward. Residual streams and skip connections count, what waits for backward does not
 *   stage    the operations of a forward between two borders; backward reverses stage after stage. Numbered through all passes
 *   saved    a content that a forward makes, of a large buffer that is born in the step
 */
#ifndef EBB_PLANNER_STAGES_H
#define EBB_PLANNER_STAGES_H

#include "ckpt/planner/planner_model.h"

typedef struct ebb_pass {
    uint32_t begin, peak, end; /* operations: forward [begin, peak), backward [peak, end) */
    uint32_t first_stage, stage_count;
} ebb_pass_t;

/* Owns its arrays. */
typedef struct ebb_stages {
    ebb_pass_t *pass;
    uint32_t
        *stage_of; /* per operation; in backward the one that it reverses. EBB_NONE: before the first pass */
    uint32_t *pass_of; /* per operation */
    uint32_t *home,
        *far; /* per content: the stages that make it, and that read it last in its forward. EBB_NONE: not saved */
    uint64_t *border; /* per stage: bytes that go over from the one before */
    uint64_t *saved;  /* per stage: bytes that it makes and backward reads */
    uint32_t pass_count, stage_count, pass_room;
} ebb_stages_t;

/* Borders lie where NVTX ranges change, if the trace names any in the pass, and where the data flow is thinnest. False: no
 * memory; nothing is owned then. */
bool ebb_stages_find(ebb_stages_t *stages, const ebb_model_t *model);
void ebb_stages_delete(ebb_stages_t *stages);

/* Whether an operation lies in the backward of its pass. */
static inline bool ebb_stages_is_backward(const ebb_stages_t *s, uint32_t operation)
{
    const uint32_t pass = s->pass_of[operation];
    return pass != EBB_NONE && operation >= s->pass[pass].peak;
}

#endif

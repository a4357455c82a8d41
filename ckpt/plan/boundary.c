/* boundary.c: see boundary.h. */
#include "ckpt/plan/boundary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

ebb_boundary_t *ebb_boundary_new(uint32_t buffer_count, uint32_t chunks)
{
    ebb_boundary_t *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->buffer_count = buffer_count;
    b->start = calloc((size_t)buffer_count + 1, sizeof *b->start);
    b->first = calloc((size_t)buffer_count + 2, sizeof *b->first);
    b->chunk = calloc((size_t)chunks + 1, sizeof *b->chunk);
    if (b->start && b->first && b->chunk)
        return b;
    ebb_boundary_delete(b);
    return NULL;
}

void ebb_boundary_delete(ebb_boundary_t *b)
{
    if (!b)
        return;
    free(b->start);
    free(b->first);
    free(b->chunk);
    free(b);
}

/* Which of the one's chunks is which of the other's; EBB_TRACE_NEVER: not known yet. */
typedef struct pairing {
    uint32_t *of_plan, *of_boundary;
} pairing_t;

static bool pair(pairing_t *p, uint32_t plan, uint32_t boundary)
{
    if (p->of_plan[plan] == EBB_TRACE_NEVER && p->of_boundary[boundary] == EBB_TRACE_NEVER) {
        p->of_plan[plan] = boundary;
        p->of_boundary[boundary] = plan;
    }
    return p->of_plan[plan] == boundary && p->of_boundary[boundary] == plan;
}

/* NULL, or what is wrong. */
static const char *fault(const ebb_boundary_t *b, const ebb_plan_t *plan, uint32_t i, pairing_t *pairs)
{
    const ebb_place_t *place = &plan->place[i];
    const uint32_t count = ebb_boundary_chunks(b, i);
    if (place->at_start != b->start[i])
        return b->start[i] == EBB_ON_HOST ? "is on the host between steps" : "is on the device between steps";
    if (!count || !place->chunk_count)
        return NULL;
    if (place->chunk_count != count)
        return "has another size";
    for (uint32_t k = 0; k < count; k++)
        if (!pair(pairs, plan->chunk[place->first_chunk + k], b->chunk[b->first[i] + k]))
            return "shares chunks with others";
    return NULL;
}

bool ebb_boundary_agrees(const ebb_boundary_t *b, const ebb_plan_t *plan, char *why, size_t why_bytes)
{
    const size_t planned = ((size_t)plan->chunk_count + 1) * sizeof(uint32_t),
                 known = ((size_t)b->chunk_count + 1) * sizeof(uint32_t);
    pairing_t pairs = {malloc(planned), malloc(known)};
    bool good = pairs.of_plan && pairs.of_boundary && b->buffer_count == plan->buffer_count;
    snprintf(why, why_bytes, "%s", good ? "" : "no memory, or another trace");
    if (good) {
        memset(pairs.of_plan, 0xff, planned);
        memset(pairs.of_boundary, 0xff, known);
    }
    for (uint32_t i = 0; good && i < b->buffer_count; i++) {
        const char *wrong = b->start[i] == EBB_NOT_THERE ? NULL : fault(b, plan, i, &pairs);
        if (wrong)
            snprintf(why, why_bytes, "buffer %" PRIu32 " %s", i, wrong);
        good = !wrong;
    }
    free(pairs.of_plan);
    free(pairs.of_boundary);
    return good;
}

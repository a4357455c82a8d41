/* boundary.c: what lies between two steps: boundaries, and buffers that take turns with their places. */
#include "ckpt/plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what two plans agree on ---- */

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

/* Which of the one's chunks is which of the other's; EBB_NONE: not known yet. */
typedef struct pairing {
    uint32_t *of_plan, *of_boundary;
} pairing_t;

static bool pair(pairing_t *p, uint32_t plan, uint32_t boundary)
{
    if (p->of_plan[plan] == EBB_NONE && p->of_boundary[boundary] == EBB_NONE) {
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
        if (!pair(pairs, plan->chunk[place->first_chunk + k], ebb_boundary_chunk(b, i, k)))
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

/* ---- rotation ---- */

#define TWO (UINT32_MAX - 1)

/* Each ring is begun at one of its buffers: the one that is born, or the least of a cycle. */
static bool begins_ring(const ebb_trace_t *t, uint32_t i)
{
    uint32_t b = ebb_trace_next(t, i);
    if (!ebb_trace_rotates(t, i) || t->buffer[i].born != EBB_NONE)
        return ebb_trace_rotates(t, i);
    while (b > i && b != EBB_NONE)
        b = ebb_trace_next(t, b);
    return b == i;
}

/* NULL, or what is wrong with a buffer that rotates. */
static const char *ring_fault(const ebb_trace_t *t, uint32_t i, const uint32_t *before)
{
    const ebb_trace_buffer_t *b = &t->buffer[i];
    const bool older = b->born == EBB_NONE;
    if (b->dies == EBB_NONE && b->next == EBB_NONE)
        return "is allocated in the step and outlives it";
    if (older && before[i] == EBB_NONE)
        return b->dies == EBB_NONE ? "is older than the step, as it is not known what"
                                   : "is older than the step and freed in it";
    if (b->next != EBB_NONE && t->buffer[b->next].bytes != b->bytes)
        return "has another size in the next step";
    return NULL;
}

/* [buffers]: which one each was in the step before; EBB_NONE: none; TWO: two. NULL: no memory. */
static uint32_t *list_before(const ebb_trace_t *t)
{
    uint32_t *before = malloc(((size_t)t->buffer_count + 1) * sizeof *before);
    for (uint32_t i = 0; before && i < t->buffer_count; i++)
        before[i] = EBB_NONE;
    for (uint32_t i = 0; before && i < t->buffer_count; i++)
        if (ebb_trace_next(t, i) != EBB_NONE) {
            uint32_t *of = &before[ebb_trace_next(t, i)];
            *of = *of == EBB_NONE ? i : TWO;
        }
    return before;
}

static uint32_t length_from(const ebb_trace_t *t, uint32_t first)
{
    uint32_t length = 1;
    for (uint32_t b = ebb_trace_next(t, first); b != first && b != EBB_NONE; b = ebb_trace_next(t, b))
        length++;
    return length;
}

static uint32_t common_multiple(uint32_t a, uint32_t b)
{
    uint32_t x = a, y = b;
    while (y) {
        const uint32_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

uint32_t ebb_rotation_period(const ebb_trace_t *t, char *why, size_t why_bytes)
{
    uint32_t *before = list_before(t), period = before ? 1 : 0;
    if (!before)
        snprintf(why, why_bytes, "out of memory");
    for (uint32_t i = 0; period && i < t->buffer_count; i++) {
        const char *wrong = ebb_trace_is_unplaced(t, i) ? NULL
                            : before[i] == TWO          ? "has been two others in the step before"
                            : ebb_trace_rotates(t, i)   ? ring_fault(t, i, before)
                                                        : NULL;
        if (wrong)
            snprintf(why, why_bytes, "buffer %" PRIu32 " of %" PRIu64 " bytes %s", i, t->buffer[i].bytes,
                     wrong);
        period = wrong ? 0 : period;
    }
    for (uint32_t i = 0; period && i < t->buffer_count; i++) {
        if (!begins_ring(t, i))
            continue;
        const uint32_t length = length_from(t, i);
        period = length <= EBB_MOST_TURNS ? common_multiple(period, length) : EBB_MOST_TURNS + 1;
        if (period > EBB_MOST_TURNS) {
            snprintf(why, why_bytes, "buffers change places with a period of more than %d steps",
                     EBB_MOST_TURNS);
            period = 0;
        }
    }
    free(before);
    return period;
}

static void turn_ring(const ebb_trace_t *t, uint32_t first, uint32_t *place)
{
    uint32_t carried = place[first];
    for (uint32_t b = ebb_trace_next(t, first); b != first && b != EBB_NONE; b = ebb_trace_next(t, b)) {
        const uint32_t own = place[b];
        place[b] = carried;
        carried = own;
    }
    place[first] = carried;
}

void ebb_rotation_turn(const ebb_trace_t *t, uint32_t *place)
{
    for (uint32_t i = 0; i < t->buffer_count; i++)
        if (begins_ring(t, i))
            turn_ring(t, i, place);
}

#include "ckpt/plan/rotate.h"

#include <inttypes.h>
#include <stdlib.h>

#define TWO (UINT32_MAX - 1)

/* Each ring is begun at one of its buffers: the one that is born, or the least of a cycle. */
static bool begins_ring(const ebb_trace_t *t, uint32_t i)
{
    uint32_t b = ebb_trace_next(t, i);
    if (!ebb_trace_rotates(t, i) || t->buffer[i].born != EBB_TRACE_NEVER)
        return ebb_trace_rotates(t, i);
    while (b > i && b != EBB_TRACE_NEVER)
        b = ebb_trace_next(t, b);
    return b == i;
}

/* NULL, or what is wrong with a buffer that rotates. */
static const char *fault(const ebb_trace_t *t, uint32_t i, const uint32_t *before)
{
    const ebb_trace_buffer_t *b = &t->buffer[i];
    const bool older = b->born == EBB_TRACE_NEVER;
    if (b->dies == EBB_TRACE_NEVER && b->next == EBB_TRACE_NEVER)
        return "is allocated in the step and outlives it";
    if (older && before[i] == EBB_TRACE_NEVER)
        return b->dies == EBB_TRACE_NEVER ? "is older than the step, as nobody knows what"
                                          : "is older than the step and freed in it";
    if (older && t->buffer[before[i]].bytes != b->bytes)
        return "has had another size in the step before";
    return NULL;
}

/* [buffers]: which one each was in the step before; NEVER: none; TWO: two. NULL: no memory. */
static uint32_t *list_before(const ebb_trace_t *t)
{
    uint32_t *before = malloc(((size_t)t->buffer_count + 1) * sizeof *before);
    for (uint32_t i = 0; before && i < t->buffer_count; i++)
        before[i] = EBB_TRACE_NEVER;
    for (uint32_t i = 0; before && i < t->buffer_count; i++)
        if (ebb_trace_next(t, i) != EBB_TRACE_NEVER) {
            uint32_t *of = &before[ebb_trace_next(t, i)];
            *of = *of == EBB_TRACE_NEVER ? i : TWO;
        }
    return before;
}

static uint32_t length_from(const ebb_trace_t *t, uint32_t first)
{
    uint32_t length = 1;
    for (uint32_t b = ebb_trace_next(t, first); b != first && b != EBB_TRACE_NEVER; b = ebb_trace_next(t, b))
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
        const char *wrong = before[i] == TWO          ? "has been two others in the step before"
                            : ebb_trace_rotates(t, i) ? fault(t, i, before)
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
    for (uint32_t b = ebb_trace_next(t, first); b != first && b != EBB_TRACE_NEVER;
         b = ebb_trace_next(t, b)) {
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

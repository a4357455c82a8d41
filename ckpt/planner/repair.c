/* repair.c: fewer chunks for the places of a schedule, where the sweep (overlay.c) has taken more than are resident at once.
 *
 * Places with several intervals make that happen. All places are laid again one by one, each on the first chunks that nothing laid before it,
 * and resident with it, has. Those that go beyond the number that is enough move to the front of the order for the next round (Joslin,
 * Clements: Squeaky Wheel Optimization, JAIR 10, 1999).
 */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

enum { ROUNDS = 6, WORK = 1 << 22 /* chunks that are looked at */ };

/* Owns its arrays. */
typedef struct repair {
    const ebb_overlay_t *o;
    uint32_t *first,
        *other;      /* of place i, those resident with it are other[first[i]] .. other[first[i + 1] - 1] */
    uint32_t *order; /* places; those that are given, then the others as they are laid */
    uint32_t *chunk; /* as the overlay's */
    uint32_t *mark;  /* per chunk: the last place that it was taken for; one more than that */
    bool *laid;
    uint32_t places, given, count, top;
    uint64_t work; /* of a round: chunks that are looked at */
} repair_t;

static void lay(repair_t *r, uint32_t place)
{
    const ebb_overlay_t *o = r->o;
    for (uint32_t i = r->first[place]; i < r->first[place + 1]; i++) {
        const uint32_t other = r->other[i];
        for (uint32_t k = o->first[other]; r->laid[other] && k < o->first[other + 1]; k++)
            r->mark[r->chunk[k]] = place + 1;
    }
    uint32_t chunk = 0;
    for (uint32_t k = o->first[place]; k < o->first[place + 1]; k++) {
        while (r->mark[chunk] == place + 1)
            chunk++;
        r->chunk[k] = chunk++;
    }
    r->laid[place] = true;
    r->top = chunk > r->top ? chunk : r->top;
}

static void lay_all(repair_t *r, uint32_t enough)
{
    const uint32_t *first = r->o->first;
    uint32_t front = r->given;
    memset(r->laid, 0, r->places);
    r->top = 0;
    for (uint32_t i = 0; i < r->given; i++) {
        r->laid[r->order[i]] = true;
        for (uint32_t k = first[r->order[i]]; k < first[r->order[i] + 1]; k++)
            r->top = r->chunk[k] >= r->top ? r->chunk[k] + 1 : r->top;
    }
    for (uint32_t i = r->given; i < r->places; i++) {
        const uint32_t place = r->order[i], end = first[place + 1];
        lay(r, place);
        if (end == first[place] || r->chunk[end - 1] < enough)
            continue;
        memmove(&r->order[front + 1], &r->order[front], (i - front) * sizeof *r->order);
        r->order[front++] = place;
    }
}

static uint32_t *numbers(size_t count)
{
    return calloc(count + 1, sizeof(uint32_t));
}

/* Counts each place's others in first[place + 2], or writes them down from first[place + 1] on. False: too many to go through. */
static bool go_through_pairs(repair_t *r, const ebb_schedule_t *s, const uint32_t *sorted, uint32_t *active)
{
    uint32_t count = 0;
    uint64_t work = 0;
    for (uint32_t i = 0; i < s->interval_count && work <= WORK; i++) {
        const ebb_interval_t *now = &s->interval[sorted[i]];
        uint32_t left = 0;
        for (uint32_t k = 0; k < count; k++) {
            if (s->interval[active[k]].last < now->first)
                continue;
            const uint32_t a = now->place, b = s->interval[active[left++] = active[k]].place;
            if (a == b)
                continue;
            work += r->o->first[a + 1] - r->o->first[a] + r->o->first[b + 1] - r->o->first[b] + 2;
            if (r->other) {
                r->other[r->first[a + 1]++] = b;
                r->other[r->first[b + 1]++] = a;
            } else {
                r->first[a + 2]++;
                r->first[b + 2]++;
            }
        }
        count = left;
        active[count++] = sorted[i];
    }
    r->work = work;
    return work <= WORK;
}

static bool find_others(repair_t *r, const ebb_schedule_t *s)
{
    uint32_t *sorted = ebb_schedule_by_begin(s), *active = numbers(s->interval_count);
    bool good = sorted && active && go_through_pairs(r, s, sorted, active);
    for (uint32_t i = 0; good && i <= r->places; i++)
        r->first[i + 1] += r->first[i];
    r->other = good ? numbers(r->first[r->places + 1]) : NULL;
    good = r->other && go_through_pairs(r, s, sorted, active);
    free(sorted);
    free(active);
    return good;
}

static void order_places(repair_t *r, const ebb_boundary_t *b)
{
    for (int given = 1; given >= 0; given--) {
        for (uint32_t i = 0; i < r->places; i++)
            if ((ebb_boundary_chunks(b, i) > 0) == given)
                r->order[r->count++] = i;
        r->given = given ? r->count : r->given;
    }
}

void ebb_overlay_repair(ebb_overlay_t *o, const ebb_schedule_t *s, const ebb_model_t *m, uint32_t enough)
{
    const ebb_boundary_t *b = m->request->boundary;
    const uint32_t places = m->trace->buffer_count + s->scratch_count,
                   chunks = o->first[places] + (b ? b->chunk_count : 0);
    const uint32_t peak = ebb_schedule_peak(s, m);
    repair_t r = {.o = o, .places = places};
    if (peak == EBB_NONE || (enough = peak > enough ? peak : enough) >= o->chunk_count)
        return;
    r.first = numbers((size_t)places + 2);
    r.order = numbers(places);
    r.chunk = numbers(o->first[places]);
    r.mark = numbers(chunks);
    r.laid = calloc((size_t)places + 1, sizeof *r.laid);
    if (r.first && r.order && r.chunk && r.mark && r.laid && find_others(&r, s)) {
        memcpy(r.chunk, o->chunk, o->first[places] * sizeof *r.chunk);
        order_places(&r, b);
        for (uint64_t round = 0; round < ROUNDS && round * r.work <= WORK && o->chunk_count > enough;
             round++) {
            memset(r.mark, 0, chunks * sizeof *r.mark);
            lay_all(&r, enough);
            if (r.top >= o->chunk_count)
                continue;
            memcpy(o->chunk, r.chunk, o->first[places] * sizeof *r.chunk);
            o->chunk_count = r.top;
        }
    }
    free(r.first);
    free(r.other);
    free(r.order);
    free(r.chunk);
    free(r.mark);
    free(r.laid);
}

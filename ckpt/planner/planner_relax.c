/* planner_relax.c: gives copies the time that they take. The walk ends a stay at its last touch and begins it
 * as late as it can; where there is room, chunks that are copied out stay taken until the copy has ended, so
 * that nobody is given them and has to wait, and copies in begin early enough to end in time. */
#include <stdlib.h>

#include "planner_schedule.h"

typedef struct relax {
    ebb_schedule_t *schedule;
    const ebb_model_t *model;
    uint32_t limit;     /* chunks */
    uint32_t *used;     /* per position */
    double *begin_ns;   /* per position, and the end */
    uint32_t *previous; /* per stay: the last position before it that its place needs, plus 1 */
    uint32_t *next;     /* per stay: the first position after it */
} relax_t;

static void profile(relax_t *r)
{
    const ebb_schedule_t *s = r->schedule;
    for (uint32_t i = 0; i < s->event_count; i++)
        r->begin_ns[i + 1] =
            r->begin_ns[i] +
            r->model->pace * (double)r->model->trace->operation[s->event[i].operation].duration_ns;
    for (uint32_t i = 0; i < s->stay_count; i++) { /* differences, modulo 2^32 */
        const uint32_t chunks = ebb_place_chunks(s, r->model, s->stay[i].place);
        r->used[s->stay[i].first] += chunks;
        r->used[s->stay[i].last + 1] -= chunks;
    }
    for (uint32_t i = 1; i < s->event_count; i++)
        r->used[i] += r->used[i - 1];
}

/* A place's stays are in the order of time among themselves. */
static bool find_neighbours(relax_t *r)
{
    const ebb_schedule_t *s = r->schedule;
    size_t places = (size_t)r->model->trace->buffer_count + s->scratch_count + 1;
    uint32_t *at = malloc(places * sizeof *at);
    if (!at)
        return false;
    for (size_t i = 0; i < places; i++)
        at[i] = 0;
    for (uint32_t i = 0; i < s->stay_count; i++) {
        r->previous[i] = at[s->stay[i].place];
        at[s->stay[i].place] = s->stay[i].last + 1;
    }
    for (size_t i = 0; i < places; i++)
        at[i] = s->event_count;
    for (uint32_t i = s->stay_count; i-- > 0;) {
        r->next[i] = at[s->stay[i].place];
        at[s->stay[i].place] = s->stay[i].first;
    }
    free(at);
    return true;
}

static bool take(relax_t *r, const ebb_stay_t *stay, uint32_t position)
{
    uint32_t chunks = ebb_place_chunks(r->schedule, r->model, stay->place);
    if (r->used[position] + chunks > r->limit)
        return false;
    r->used[position] += chunks;
    return true;
}

/* Stays whose evict, or fetch, is set, by the position of that move: the moves' positions order them. */
static uint32_t list_copies(relax_t *r, bool fetches, uint64_t *key)
{
    const ebb_schedule_t *s = r->schedule;
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->stay_count; i++) {
        uint32_t move = fetches ? s->stay[i].fetch : s->stay[i].evict;
        if (move != EBB_NONE)
            key[count++] = (uint64_t)(fetches ? s->stay[i].begin : s->move[move].position) << 32 | i;
    }
    return count;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Copies out, first come first served. */
static void lengthen(relax_t *r, const uint64_t *key, uint32_t count)
{
    double out = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (uint32_t)key[i];
        ebb_stay_t *stay = &r->schedule->stay[index];
        double issued = r->begin_ns[r->schedule->move[stay->evict].position];
        out = (out > issued ? out : issued) + (double)ebb_model_transfer_ns(r->model, stay->place, false);
        while (stay->last + 1 < r->next[index] && r->begin_ns[stay->last + 1] < out &&
               take(r, stay, stay->last + 1))
            stay->last++;
    }
}

/* Copies in, from the last one back: each ends before its first use and before the next one begins. */
static void begin_earlier(relax_t *r, const uint64_t *key, uint32_t count)
{
    double in = r->begin_ns[r->schedule->event_count];
    for (uint32_t i = count; i-- > 0;) {
        uint32_t index = (uint32_t)key[i];
        ebb_stay_t *stay = &r->schedule->stay[index];
        double needed = r->begin_ns[stay->begin];
        in = (in < needed ? in : needed) - (double)ebb_model_transfer_ns(r->model, stay->place, true);
        while (stay->first > r->previous[index] && r->begin_ns[stay->first] > in &&
               take(r, stay, stay->first - 1))
            stay->first--;
        r->schedule->move[stay->fetch].position = stay->first;
    }
}

bool ebb_schedule_relax(ebb_schedule_t *s, const ebb_model_t *m, uint32_t limit)
{
    relax_t r = {.schedule = s, .model = m, .limit = limit};
    size_t stays = (size_t)s->stay_count + 1, events = (size_t)s->event_count + 1;
    r.used = calloc(events, sizeof *r.used);
    r.begin_ns = calloc(events, sizeof *r.begin_ns);
    r.previous = calloc(stays, sizeof *r.previous);
    r.next = calloc(stays, sizeof *r.next);
    uint64_t *key = calloc(stays, sizeof *key);
    bool good = r.used && r.begin_ns && r.previous && r.next && key && find_neighbours(&r);
    if (good) {
        profile(&r);
        uint32_t count = list_copies(&r, false, key);
        qsort(key, count, sizeof *key, by_number);
        lengthen(&r, key, count);
        good = find_neighbours(&r);
    }
    if (good) {
        uint32_t count = list_copies(&r, true, key);
        qsort(key, count, sizeof *key, by_number);
        begin_earlier(&r, key, count);
    }
    free(r.used);
    free(r.begin_ns);
    free(r.previous);
    free(r.next);
    free(key);
    return good;
}

/* planner_overlay.c: chunks for every place. A place keeps its chunks for the whole plan, so two places may
 * share one only if none of their stays meet: colouring of sets of intervals. In the order of their
 * beginnings, first fit is optimal for places with one stay; places with several stays spoil that, so a few
 * orders are tried and the best is taken. */
#include <stdlib.h>
#include <string.h>

#include "planner_schedule.h"

typedef struct guest {
    uint32_t place, first_stay, stay_count, chunks;
    uint32_t begin, length; /* of the stays, in positions */
} guest_t;

typedef struct colouring {
    const ebb_schedule_t *schedule;
    guest_t *guest;
    uint32_t *stay; /* indices, by place */
    uint64_t *
        taken; /* bits by position, 64 of them of chunk after chunk, then the next 64: who looks for a free chunk goes from
                        word to word */
    uint32_t guest_count, words, limit;
} colouring_t;

uint32_t ebb_schedule_peak(const ebb_schedule_t *s, const ebb_model_t *m, uint32_t *position)
{
    int64_t *change = calloc((size_t)s->event_count + 2, sizeof *change), now = 0, peak = 0;
    for (uint32_t i = 0; change && i < s->stay_count; i++) {
        change[s->stay[i].first] += ebb_place_chunks(s, m, s->stay[i].place);
        change[s->stay[i].last + 1] -= ebb_place_chunks(s, m, s->stay[i].place);
    }
    for (uint32_t i = 0; change && i < s->event_count; i++) {
        now += change[i];
        if (now > peak) {
            peak = now;
            if (position)
                *position = i;
        }
    }
    free(change);
    return change ? (uint32_t)peak : EBB_NONE;
}

/* The bits from `first` to `last` in one word of a row. */
static uint64_t mask_of(uint32_t word, uint32_t first, uint32_t last)
{
    uint64_t mask = ~UINT64_C(0);
    if (word == first / 64)
        mask &= ~UINT64_C(0) << first % 64;
    if (word == last / 64)
        mask &= ~UINT64_C(0) >> (63 - last % 64);
    return mask;
}

static bool is_free(const colouring_t *c, const guest_t *g, uint32_t chunk)
{
    for (uint32_t i = g->first_stay; i < g->first_stay + g->stay_count; i++) {
        const ebb_stay_t *s = &c->schedule->stay[c->stay[i]];
        for (uint32_t word = s->first / 64; word <= s->last / 64; word++)
            if (c->taken[(size_t)word * c->limit + chunk] & mask_of(word, s->first, s->last))
                return false;
    }
    return true;
}

static void take(colouring_t *c, const guest_t *g, uint32_t chunk)
{
    for (uint32_t i = g->first_stay; i < g->first_stay + g->stay_count; i++) {
        const ebb_stay_t *s = &c->schedule->stay[c->stay[i]];
        for (uint32_t word = s->first / 64; word <= s->last / 64; word++)
            c->taken[(size_t)word * c->limit + chunk] |= mask_of(word, s->first, s->last);
    }
}

static int by_begin(const void *a, const void *b)
{
    const guest_t *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->length != y->length)
        return x->length > y->length ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static int by_length(const void *a, const void *b)
{
    const guest_t *x = a, *y = b;
    if (x->length != y->length)
        return x->length > y->length ? -1 : 1;
    return by_begin(a, b);
}

static int by_stays(const void *a, const void *b)
{
    const guest_t *x = a, *y = b;
    if ((x->stay_count > 1) != (y->stay_count > 1))
        return x->stay_count > 1 ? -1 : 1;
    return x->stay_count > 1 ? by_length(a, b) : by_begin(a, b);
}

static int (*const orders[])(const void *, const void *) = {by_begin, by_stays, by_length};

/* First fit; the number of chunks, or EBB_NONE above the limit. The guests' chunks go to `out` by place. */
static uint32_t colour(colouring_t *c, const uint32_t *first, uint32_t *out)
{
    uint32_t top = 0;
    memset(c->taken, 0, (size_t)c->limit * c->words * sizeof *c->taken);
    for (uint32_t i = 0; i < c->guest_count; i++) {
        const guest_t *g = &c->guest[i];
        uint32_t got = 0;
        for (uint32_t chunk = 0; chunk < c->limit && got < g->chunks; chunk++)
            if (chunk >= top || is_free(c, g, chunk)) {
                take(c, g, chunk);
                out[first[g->place] + got++] = chunk;
                top = chunk >= top ? chunk + 1 : top;
            }
        if (got < g->chunks)
            return EBB_NONE;
    }
    return top;
}

static bool collect(colouring_t *c, const ebb_model_t *m, uint32_t places)
{
    const ebb_schedule_t *s = c->schedule;
    uint32_t *count = calloc((size_t)places + 1, sizeof *count), at = 0;
    c->guest = calloc((size_t)places + 1, sizeof *c->guest);
    c->stay = calloc((size_t)s->stay_count + 1, sizeof *c->stay);
    if (!count || !c->guest || !c->stay) {
        free(count);
        return false;
    }
    for (uint32_t i = 0; i < s->stay_count; i++)
        count[s->stay[i].place]++;
    for (uint32_t i = 0; i < places; i++) {
        uint32_t stays = count[i];
        count[i] = at; /* from here on: where the place's next stay goes */
        if (stays)
            c->guest[c->guest_count++] = (guest_t){.place = i,
                                                   .first_stay = at,
                                                   .stay_count = stays,
                                                   .chunks = ebb_place_chunks(s, m, i),
                                                   .begin = EBB_NONE};
        at += stays;
    }
    for (uint32_t i = 0; i < s->stay_count; i++)
        c->stay[count[s->stay[i].place]++] = i;
    for (uint32_t i = 0; i < c->guest_count; i++) {
        guest_t *g = &c->guest[i];
        for (uint32_t k = g->first_stay; k < g->first_stay + g->stay_count; k++) {
            const ebb_stay_t *x = &s->stay[c->stay[k]];
            g->begin = x->first < g->begin ? x->first : g->begin;
            g->length += x->last - x->first + 1;
        }
    }
    free(count);
    return true;
}

/* A large buffer that the program allocates and never touches: its address must lie on some chunks. */
static bool is_idle(const ebb_schedule_t *s, const ebb_model_t *m, uint32_t place)
{
    return place < m->trace->buffer_count && !m->buffer[place].use_count &&
           !(m->buffer[place].persistent && s->on_host[place]);
}

static void lay_idle(ebb_overlay_t *o, const ebb_schedule_t *s, const ebb_model_t *m)
{
    for (uint32_t i = 0; i < m->trace->buffer_count; i++)
        if (is_idle(s, m, i) && !m->buffer[i].persistent) {
            for (uint32_t k = o->first[i]; k < o->first[i + 1]; k++)
                o->chunk[k] = k - o->first[i];
            o->chunk_count = o->chunk_count > m->buffer[i].chunks ? o->chunk_count : m->buffer[i].chunks;
        }
}

bool ebb_overlay_make(ebb_overlay_t *o, const ebb_schedule_t *s, const ebb_model_t *m, uint32_t limit)
{
    uint32_t places = m->trace->buffer_count + s->scratch_count, total = 0;
    colouring_t c = {.schedule = s, .words = s->event_count / 64 + 1, .limit = limit};
    *o = (ebb_overlay_t){.chunk_count = EBB_NONE};
    const uint32_t peak = ebb_schedule_peak(s, m, NULL); /* no order takes less */
    const uint32_t enough = 2 * peak + 16;               /* a row each costs memory */
    c.limit = limit < enough ? limit : enough;
    bool good = collect(&c, m, places);
    o->first = calloc((size_t)places + 2, sizeof *o->first);
    for (uint32_t i = 0, g = 0; good && o->first && i < places; i++) {
        bool stays = g < c.guest_count && c.guest[g].place == i;
        o->first[i] = total;
        total += stays || is_idle(s, m, i) ? ebb_place_chunks(s, m, i) : 0;
        g += stays;
        o->first[i + 1] = total;
    }
    o->chunk = calloc((size_t)total + 1, sizeof *o->chunk);
    uint32_t *tried = calloc((size_t)total + 1, sizeof *tried);
    c.taken = malloc(((size_t)c.limit + 1) * c.words * sizeof *c.taken);
    good = good && o->first && o->chunk && tried && c.taken;
    for (size_t i = 0; good && i < sizeof orders / sizeof orders[0] && o->chunk_count > peak; i++) {
        qsort(c.guest, c.guest_count, sizeof *c.guest, orders[i]);
        uint32_t chunks = colour(&c, o->first, tried);
        if (chunks < o->chunk_count) {
            o->chunk_count = chunks;
            memcpy(o->chunk, tried, total * sizeof *tried);
        }
    }
    free(tried);
    free(c.taken);
    free(c.guest);
    free(c.stay);
    if (good && o->chunk_count != EBB_NONE)
        lay_idle(o, s, m);
    if (good && o->chunk_count <= limit)
        return true;
    ebb_overlay_delete(o);
    return false;
}

void ebb_overlay_delete(ebb_overlay_t *o)
{
    free(o->first);
    free(o->chunk);
    *o = (ebb_overlay_t){0};
}

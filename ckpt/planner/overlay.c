/* overlay.c: chunks for every place. A place keeps its chunks for the whole plan, so two places may
 * share one only if none of their intervals meet: colouring of interval sets.
 *
 * In one sweep through the positions. Chunks that have always met the same are one block, which is split when only some of it
 * is wanted. A block is busy, until an interval ends, or free, until a further interval of a place that has had it before begins; free
 * blocks lie in lists by that moment. A place that begins an interval takes what is free for hardly longer than needed (best fit), a place with
 * several intervals what is free in all of them. Where every place has one interval that is optimal: chunks are added only when all are
 * busy.
 *
 * Places whose chunks the request's boundary fixes have booked them before the sweep begins.
 */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

enum {
    CANDIDATES = 4000 /* blocks that a place with several intervals looks at */,
    MOST = EBB_NONE / 2 /* chunks */
};

/* Another interval, of a place that has the block. */
typedef struct booking {
    uint32_t first, last, next; /* next: booking, EBB_NONE */
} booking_t;

typedef struct block {
    uint32_t chunk, count; /* chunks, one behind the other */
    uint32_t booking;      /* the next one; EBB_NONE */
    uint32_t next;         /* in the list that it is in; EBB_NONE */
} block_t;

/* Owns its arrays. Positions: from 0 to `end`, which stands for never. */
typedef struct sweep {
    const ebb_schedule_t *schedule;
    const ebb_model_t *model;
    const ebb_overlay_t *overlay;
    uint32_t end, top; /* top: chunks so far */
    uint32_t *next_interval,
        *got; /* per interval: the place's next one, EBB_NONE; per place: chunks that it has */
    uint32_t *first_at,
        *next_at; /* per position: a place's first interval that begins there; per interval: another one; EBB_NONE */
    uint32_t *free_at; /* per position: a block that is free until then, EBB_NONE */
    uint32_t *busy_at; /* per position: a block that is busy until then */
    uint64_t *some;    /* bits: free_at is not empty */
    block_t *block;
    booking_t *booking;
    uint32_t block_count, block_room, booking_count, booking_room, unused; /* unused: bookings */
    bool failed;
} sweep_t;

/* A counting sort. */
uint32_t *ebb_schedule_by_begin(const ebb_schedule_t *s)
{
    uint32_t *sorted = malloc(((size_t)s->interval_count + 1) * sizeof *sorted),
             *begin = calloc((size_t)s->event_count + 2, sizeof *begin);
    const bool good = sorted && begin;
    for (uint32_t i = 0; good && i < s->interval_count; i++)
        begin[s->interval[i].first + 1]++;
    for (uint32_t i = 0; good && i < s->event_count; i++)
        begin[i + 1] += begin[i];
    for (uint32_t i = 0; good && i < s->interval_count; i++)
        sorted[begin[s->interval[i].first]++] = i;
    free(begin);
    if (good)
        return sorted;
    free(sorted);
    return NULL;
}

uint32_t *ebb_schedule_profile(const ebb_schedule_t *s, const ebb_model_t *m)
{
    uint32_t *used = calloc((size_t)s->event_count + 2, sizeof *used);
    for (uint32_t i = 0; used && i < s->interval_count; i++) { /* differences, modulo 2^32 */
        const uint32_t chunks = ebb_place_chunks(s, m, s->interval[i].place);
        used[s->interval[i].first] += chunks;
        used[s->interval[i].last + 1] -= chunks;
    }
    for (uint32_t i = 1; used && i <= s->event_count; i++)
        used[i] += used[i - 1];
    return used;
}

uint32_t ebb_schedule_peak(const ebb_schedule_t *s, const ebb_model_t *m)
{
    uint32_t *used = ebb_schedule_profile(s, m), peak = 0;
    for (uint32_t i = 0; used && i < s->event_count; i++)
        peak = used[i] > peak ? used[i] : peak;
    const bool known = used;
    free(used);
    return known ? peak : EBB_NONE;
}

/* ---- blocks ---- */

static uint32_t new_block(sweep_t *w, uint32_t chunk, uint32_t count)
{
    block_t *b = ebb_array_append((void **)&w->block, &w->block_count, &w->block_room, sizeof *b);
    w->failed |= !b;
    if (b)
        *b = (block_t){chunk, count, EBB_NONE, EBB_NONE};
    return w->block_count - 1;
}

static uint32_t new_booking(sweep_t *w, uint32_t first, uint32_t last, uint32_t next)
{
    uint32_t index = w->unused;
    if (index != EBB_NONE) {
        w->unused = w->booking[index].next;
    } else {
        w->failed |=
            !ebb_array_append((void **)&w->booking, &w->booking_count, &w->booking_room, sizeof *w->booking);
        index = w->booking_count - 1;
    }
    if (!w->failed)
        w->booking[index] = (booking_t){first, last, next};
    return index;
}

static void set_free(sweep_t *w, uint32_t block)
{
    block_t *b = &w->block[block];
    const uint32_t until = b->booking == EBB_NONE ? w->end : w->booking[b->booking].first;
    b->next = w->free_at[until];
    w->free_at[until] = block;
    w->some[until / 64] |= UINT64_C(1) << until % 64;
}

static void set_busy(sweep_t *w, uint32_t block, uint32_t last)
{
    w->block[block].next = w->busy_at[last];
    w->busy_at[last] = block;
}

/* Takes the first block out of a list. */
static uint32_t pop_free(sweep_t *w, uint32_t until)
{
    const uint32_t block = w->free_at[until];
    w->free_at[until] = w->block[block].next;
    if (w->free_at[until] == EBB_NONE)
        w->some[until / 64] &= ~(UINT64_C(1) << until % 64);
    return block;
}

/* The first position from `from` on until which some block is free; above `end`: none is. */
static uint32_t next_free(const sweep_t *w, uint32_t from)
{
    uint32_t word = from / 64;
    uint64_t bits = w->some[word] & ~UINT64_C(0) << from % 64;
    while (!bits && word < w->end / 64)
        bits = w->some[++word];
    return bits ? word * 64 + (uint32_t)__builtin_ctzll(bits) : w->end + 1;
}

/* A block that met the same as another one. */
static uint32_t split(sweep_t *w, uint32_t block, uint32_t count)
{
    const block_t old = w->block[block];
    const uint32_t rest = new_block(w, old.chunk + count, old.count - count);
    if (w->failed)
        return rest;
    w->block[block].count = count;
    uint32_t last = EBB_NONE;
    for (uint32_t i = old.booking; i != EBB_NONE && !w->failed; i = w->booking[i].next) {
        const uint32_t copy = new_booking(w, w->booking[i].first, w->booking[i].last, EBB_NONE);
        if (w->failed)
            break;
        *(last == EBB_NONE ? &w->block[rest].booking : &w->booking[last].next) = copy;
        last = copy;
    }
    return rest;
}

/* ---- places ---- */

/* Whether all intervals of a place from this one on fit between the block's bookings. */
static bool suits(const sweep_t *w, uint32_t block, uint32_t interval)
{
    uint32_t i = w->block[block].booking;
    for (; interval != EBB_NONE; interval = w->next_interval[interval]) {
        const ebb_interval_t *s = &w->schedule->interval[interval];
        while (i != EBB_NONE && w->booking[i].last < s->first)
            i = w->booking[i].next;
        if (i != EBB_NONE && w->booking[i].first <= s->last)
            return false;
    }
    return true;
}

/* Books all intervals of a place behind this one. */
static void book(sweep_t *w, uint32_t block, uint32_t interval)
{
    uint32_t before = EBB_NONE, at = w->block[block].booking;
    for (interval = w->next_interval[interval]; interval != EBB_NONE && !w->failed;
         interval = w->next_interval[interval]) {
        const ebb_interval_t *s = &w->schedule->interval[interval];
        for (; at != EBB_NONE && w->booking[at].first < s->first; at = w->booking[at].next)
            before = at;
        const uint32_t new = new_booking(w, s->first, s->last, at);
        if (w->failed)
            return;
        *(before == EBB_NONE ? &w->block[block].booking : &w->booking[before].next) = new;
        before = new;
    }
}

/* Gives a block, or some of it, to the place. */
static void give(sweep_t *w, uint32_t block, uint32_t interval)
{
    const ebb_interval_t *s = &w->schedule->interval[interval];
    const uint32_t first = w->overlay->first[s->place],
                   wanted = w->overlay->first[s->place + 1] - first - w->got[s->place];
    if (w->block[block].count > wanted) {
        const uint32_t rest = split(w, block, wanted);
        if (w->failed)
            return;
        set_free(w, rest);
    }
    const block_t *b = &w->block[block];
    for (uint32_t i = 0; i < b->count; i++)
        w->overlay->chunk[first + w->got[s->place]++] = b->chunk + i;
    book(w, block, interval);
    set_busy(w, block, s->last);
}

/* A place with several intervals: the first few blocks that are free long enough, then any that is not booked. */
static void take_suiting(sweep_t *w, uint32_t interval, uint32_t chunks)
{
    const ebb_interval_t *s = &w->schedule->interval[interval];
    uint32_t left = CANDIDATES;
    for (uint32_t until = next_free(w, s->last + 1); until < w->end && left && !w->failed;
         until = next_free(w, until + 1))
        for (uint32_t *link = &w->free_at[until]; *link != EBB_NONE && left && w->got[s->place] < chunks;
             left--) {
            const uint32_t block = *link;
            if (!suits(w, block, interval)) {
                link = &w->block[block].next;
                continue;
            }
            *link = w->block[block].next;
            if (w->free_at[until] == EBB_NONE)
                w->some[until / 64] &= ~(UINT64_C(1) << until % 64);
            give(w, block, interval);
            break; /* the list may have moved, and got its rest back */
        }
}

/* False: there are not so many chunks. */
static bool place_interval(sweep_t *w, uint32_t interval)
{
    const ebb_interval_t *s = &w->schedule->interval[interval];
    const uint32_t chunks = w->overlay->first[s->place + 1] - w->overlay->first[s->place];
    if (w->next_interval[interval] != EBB_NONE)
        take_suiting(w, interval, chunks);
    while (w->got[s->place] < chunks && !w->failed) {
        const uint32_t until = next_free(w, w->next_interval[interval] == EBB_NONE ? s->last + 1 : w->end);
        if (until <= w->end) {
            give(w, pop_free(w, until), interval);
            continue;
        }
        const uint32_t missing = chunks - w->got[s->place], block = new_block(w, w->top, missing);
        if (w->failed || missing > MOST - w->top)
            return false;
        w->top += missing;
        give(w, block, interval);
    }
    return !w->failed;
}

/* What was busy until just now becomes free, what is booked from now on busy. */
static void turn(sweep_t *w, uint32_t position)
{
    while (position && w->busy_at[position - 1] != EBB_NONE) {
        const uint32_t block = w->busy_at[position - 1];
        w->busy_at[position - 1] = w->block[block].next;
        set_free(w, block);
    }
    while (w->free_at[position] != EBB_NONE) {
        const uint32_t block = pop_free(w, position), now = w->block[block].booking;
        w->block[block].booking = w->booking[now].next;
        set_busy(w, block, w->booking[now].last);
        w->booking[now].next = w->unused;
        w->unused = now;
    }
}

/* ---- places that are given ---- */

static bool is_given(const sweep_t *w, uint32_t place)
{
    return ebb_boundary_chunks(w->model->request->boundary, place);
}

/* Books an interval among those that the block has. False: it is taken then, or no memory. */
static bool book_given(sweep_t *w, uint32_t block, const ebb_interval_t *s)
{
    uint32_t before = EBB_NONE, at = w->block[block].booking;
    for (; at != EBB_NONE && w->booking[at].first < s->first; at = w->booking[at].next)
        before = at;
    if ((before != EBB_NONE && w->booking[before].last >= s->first) ||
        (at != EBB_NONE && w->booking[at].first <= s->last))
        return false;
    const uint32_t made = new_booking(w, s->first, s->last, at);
    if (!w->failed)
        *(before == EBB_NONE ? &w->block[block].booking : &w->booking[before].next) = made;
    return !w->failed;
}

/* Of a place: its chunks, for all its intervals from this one on. */
static bool place_given(sweep_t *w, uint32_t place, uint32_t interval)
{
    const ebb_boundary_t *b = w->model->request->boundary;
    const uint32_t first = w->overlay->first[place], count = w->overlay->first[place + 1] - first;
    if (interval == EBB_NONE || !is_given(w, place))
        return true;
    if (count != ebb_boundary_chunks(b, place))
        return false;
    for (; w->got[place] < count; w->got[place]++) {
        const uint32_t chunk = ebb_boundary_chunk(b, place, w->got[place]);
        w->overlay->chunk[first + w->got[place]] = chunk;
        for (uint32_t i = interval; i != EBB_NONE; i = w->next_interval[i])
            if (!book_given(w, chunk, &w->schedule->interval[i]))
                return false;
    }
    return true;
}

/* Block i is the boundary's chunk i. */
static bool make_given(sweep_t *w)
{
    const ebb_boundary_t *b = w->model->request->boundary;
    for (; b && w->top < b->chunk_count && !w->failed; w->top++)
        new_block(w, w->top, 1);
    return !w->failed;
}

/* ---- sweeps ---- */

/* Places by their first intervals; those with several, and of those that begin together the longer ones, come first. */
static bool list_intervals(sweep_t *w, uint32_t places)
{
    const ebb_schedule_t *s = w->schedule;
    uint32_t *later = malloc(((size_t)places + 1) * sizeof *later);
    if (!later)
        return false;
    memset(later, 0xff, ((size_t)places + 1) * sizeof *later);
    for (uint32_t i = s->interval_count; i-- > 0;) {
        w->next_interval[i] = later[s->interval[i].place];
        later[s->interval[i].place] = i;
    }
    bool good = make_given(w);
    for (uint32_t i = 0; i < places && good; i++)
        good = place_given(w, i, later[i]);
    for (uint32_t i = 0; i < w->top && good; i++)
        set_free(w, i);
    for (int several = 0; several < 2 && good; several++) /* each goes to the head of its list */
        for (uint32_t i = 0; i < places; i++) {
            const uint32_t interval = later[i];
            if (interval == EBB_NONE || (w->next_interval[interval] != EBB_NONE) != several || is_given(w, i))
                continue;
            uint32_t *link = &w->first_at[s->interval[interval].first];
            while (*link != EBB_NONE && (w->next_interval[*link] != EBB_NONE) == several &&
                   s->interval[*link].last > s->interval[interval].last)
                link = &w->next_at[*link];
            w->next_at[interval] = *link;
            *link = interval;
        }
    free(later);
    return good;
}

static uint32_t *unset(size_t count)
{
    uint32_t *list = malloc((count + 1) * sizeof *list);
    if (list)
        memset(list, 0xff, (count + 1) * sizeof *list);
    return list;
}

/* Chunks for all places, into the overlay. False: no memory. */
static bool sweep(ebb_overlay_t *o, const ebb_schedule_t *s, const ebb_model_t *m, uint32_t places)
{
    sweep_t w = {.schedule = s, .model = m, .overlay = o, .end = s->event_count, .unused = EBB_NONE};
    w.next_interval = unset(s->interval_count);
    w.next_at = unset(s->interval_count);
    w.got = calloc((size_t)places + 1, sizeof *w.got);
    w.first_at = unset(w.end);
    w.free_at = unset(w.end);
    w.busy_at = unset(w.end);
    w.some = calloc((size_t)w.end / 64 + 1, sizeof *w.some);
    bool good = w.next_interval && w.next_at && w.got && w.first_at && w.free_at && w.busy_at && w.some &&
                list_intervals(&w, places);
    for (uint32_t i = 0; good && i < w.end; i++) {
        turn(&w, i);
        for (uint32_t interval = w.first_at[i]; good && interval != EBB_NONE; interval = w.next_at[interval])
            good = place_interval(&w, interval);
    }
    free(w.next_interval);
    free(w.next_at);
    free(w.got);
    free(w.first_at);
    free(w.free_at);
    free(w.busy_at);
    free(w.some);
    free(w.block);
    free(w.booking);
    o->chunk_count = w.top;
    return good;
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

bool ebb_overlay_make(ebb_overlay_t *o, const ebb_schedule_t *s, const ebb_model_t *m, uint32_t enough)
{
    const uint32_t places = m->trace->buffer_count + s->scratch_count;
    uint32_t total = 0;
    bool *occupied = calloc((size_t)places + 1, sizeof *occupied);
    *o = (ebb_overlay_t){.first = calloc((size_t)places + 2, sizeof *o->first)};
    for (uint32_t i = 0; occupied && i < s->interval_count; i++)
        occupied[s->interval[i].place] = true;
    for (uint32_t i = 0; occupied && o->first && i < places; i++) {
        o->first[i] = total;
        total += occupied[i] || is_idle(s, m, i) ? ebb_place_chunks(s, m, i) : 0;
        o->first[i + 1] = total;
    }
    o->chunk = malloc(((size_t)total + 1) * sizeof *o->chunk);
    const bool good = occupied && o->first && o->chunk && sweep(o, s, m, places);
    free(occupied);
    if (good) {
        ebb_overlay_repair(o, s, m, enough);
        lay_idle(o, s, m);
    } else {
        ebb_overlay_delete(o);
    }
    return good;
}

void ebb_overlay_delete(ebb_overlay_t *o)
{
    free(o->first);
    free(o->chunk);
    *o = (ebb_overlay_t){0};
}

/* copies.c: what becomes of the copies of a step that has been walked through. */
#include "ckpt/planner/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- room for longer intervals ---- */

/* Of places that a boundary puts on the same chunk one at a time has it. Owns its arrays. */
typedef struct room {
    const ebb_schedule_t *schedule;
    const ebb_model_t *model;
    uint32_t limit; /* chunks */
    uint32_t *used; /* per position */
    /* Per chunk of the boundary: its number among those that several places lie on, or EBB_NONE. NULL: no boundary. */
    uint32_t *shared;
    uint64_t *taken; /* per position `words` words of bits: shared chunks */
    uint32_t words;
} room_t;

static uint64_t *word_of(const room_t *r, uint32_t position, uint32_t shared)
{
    return r->taken + (size_t)position * r->words + shared / 64;
}

static uint64_t bit_of(uint32_t shared)
{
    return UINT64_C(1) << shared % 64;
}

static bool has_room(const room_t *r, uint32_t place, uint32_t from, uint32_t to)
{
    const ebb_boundary_t *b = r->model->request->boundary;
    const uint32_t chunks = ebb_place_chunks(r->schedule, r->model, place);
    for (uint32_t i = from; i < to; i++)
        if (r->used[i] + chunks > r->limit)
            return false;
    for (uint32_t k = 0; k < ebb_boundary_chunks(b, place); k++) {
        const uint32_t shared = r->shared[ebb_boundary_chunk(b, place, k)];
        for (uint32_t i = from; shared != EBB_NONE && i < to; i++)
            if (*word_of(r, i, shared) & bit_of(shared))
                return false;
    }
    return true;
}

static void take_shared(room_t *r, uint32_t place, uint32_t from, uint32_t to)
{
    const ebb_boundary_t *b = r->model->request->boundary;
    for (uint32_t k = 0; k < ebb_boundary_chunks(b, place); k++) {
        const uint32_t shared = r->shared[ebb_boundary_chunk(b, place, k)];
        for (uint32_t i = from; shared != EBB_NONE && i < to; i++)
            *word_of(r, i, shared) |= bit_of(shared);
    }
}

static void occupy(room_t *r, uint32_t place, uint32_t from, uint32_t to)
{
    const uint32_t chunks = ebb_place_chunks(r->schedule, r->model, place);
    for (uint32_t i = from; i < to; i++)
        r->used[i] += chunks;
    take_shared(r, place, from, to);
}

/* NULL: no memory. `count`: how many are shared. */
static uint32_t *number_shared(const ebb_boundary_t *b, uint32_t *count)
{
    uint32_t *places = calloc((size_t)b->chunk_count + 1, sizeof *places);
    *count = 0;
    for (uint32_t i = 0; places && i < b->first[b->buffer_count]; i++)
        places[b->chunk[i]]++;
    for (uint32_t i = 0; places && i < b->chunk_count; i++)
        places[i] = places[i] > 1 ? (*count)++ : EBB_NONE;
    return places;
}

/* False: no memory. */
static bool find_room(room_t *r, const ebb_schedule_t *s, const ebb_model_t *m, uint32_t limit)
{
    const ebb_boundary_t *b = m->request->boundary;
    uint32_t shared;
    *r = (room_t){.schedule = s, .model = m, .limit = limit, .used = ebb_schedule_profile(s, m)};
    if (!b)
        return r->used;
    r->shared = number_shared(b, &shared);
    r->words = shared / 64 + 1;
    r->taken = calloc(((size_t)s->event_count + 1) * r->words, sizeof *r->taken);
    if (!r->used || !r->shared || !r->taken)
        return false;
    for (uint32_t i = 0; i < s->interval_count; i++)
        take_shared(r, s->interval[i].place, s->interval[i].first, s->interval[i].last + 1);
    return true;
}

static void free_room(room_t *r)
{
    free(r->used);
    free(r->shared);
    free(r->taken);
}

/* ---- copies that need not be ----
 *
 * What the walk need not have moved. It gives up at each moment what it must at that moment; when the step has been
 * gone through, there are copies whose memory has not been taken. They are taken back, the largest first: the place keeps its content
 * between the two intervals that the copies ended and began, which become one.
 */

typedef struct keep {
    ebb_schedule_t *schedule;
    const ebb_model_t *model;
    room_t room;
    uint32_t *first; /* per place: its first interval, or EBB_NONE */
    uint32_t *next;  /* per interval: the place's next one, or EBB_NONE */
    uint32_t *whole; /* per interval: the one that it has become a part of, or EBB_NONE */
    uint64_t *order; /* intervals that end with a copy out */
} keep_t;

static uint32_t chunks_of(const keep_t *k, uint32_t interval)
{
    return ebb_place_chunks(k->schedule, k->model, k->schedule->interval[interval].place);
}

static void find_next_intervals(keep_t *k)
{
    const ebb_schedule_t *s = k->schedule;
    for (uint32_t i = s->interval_count; i-- > 0;) {
        k->next[i] = k->first[s->interval[i].place];
        k->first[s->interval[i].place] = i;
    }
}

static void take_back(ebb_schedule_t *s, uint32_t *move)
{
    if (*move != EBB_NONE)
        s->move[*move].position = EBB_NONE;
    *move = EBB_NONE;
}

/* Of the same content it is the later copy out that copies, where the earlier one, which is taken back, would have. */
static void copies_instead(ebb_schedule_t *s, const ebb_interval_t *from, const ebb_interval_t *to)
{
    if (to != from && to->evict != EBB_NONE && !s->move[from->evict].spared)
        s->move[to->evict].spared = false;
}

/* Between an interval and the next one. */
static void keep_between(keep_t *k, uint32_t index)
{
    const uint32_t next = k->next[index];
    ebb_interval_t *from = &k->schedule->interval[index], *to = &k->schedule->interval[next];
    if (to->fetch == EBB_NONE || !has_room(&k->room, from->place, from->last + 1, to->first))
        return;
    occupy(&k->room, from->place, from->last + 1, to->first);
    copies_instead(k->schedule, from, to);
    take_back(k->schedule, &from->evict);
    take_back(k->schedule, &to->fetch);
    from->last = to->last;
    from->evict = to->evict;
    k->whole[next] = index;
    k->next[index] = k->next[next];
}

/* From a buffer's last interval in a step to its first one in the next. */
static void keep_over_the_end(keep_t *k, ebb_interval_t *from, ebb_interval_t *to)
{
    ebb_schedule_t *s = k->schedule;
    const ebb_boundary_t *agreed = k->model->request->boundary;
    const uint32_t begin = to->first, end = from->last + 1;
    if ((agreed && agreed->start[to->place] != EBB_NOT_THERE) || !has_room(&k->room, to->place, 0, begin) ||
        !has_room(&k->room, to->place, end, s->event_count))
        return;
    occupy(&k->room, to->place, 0, begin);
    occupy(&k->room, to->place, end, s->event_count);
    copies_instead(s, from, to);
    s->on_host[to->place] = false;
    take_back(s, &from->evict);
    take_back(s, &to->fetch);
    to->first = 0;
    from->last = s->event_count - 1;
}

static void keep(keep_t *k)
{
    ebb_schedule_t *s = k->schedule;
    uint32_t count = 0;
    find_next_intervals(k);
    for (uint32_t i = 0; i < s->interval_count; i++)
        if (s->interval[i].evict != EBB_NONE)
            k->order[count++] = (uint64_t)(UINT32_MAX - chunks_of(k, i)) << 32 | i;
    qsort(k->order, count, sizeof *k->order, ebb_by_number);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (uint32_t)k->order[i];
        while (k->whole[index] != EBB_NONE)
            index = k->whole[index];
        const uint32_t place = s->interval[index].place;
        if (k->next[index] != EBB_NONE)
            keep_between(k, index);
        else if (place < k->model->trace->buffer_count && s->on_host[place])
            keep_over_the_end(k, &s->interval[index], &s->interval[k->first[place]]);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->interval_count; i++)
        if (k->whole[i] == EBB_NONE)
            s->interval[kept++] = s->interval[i];
    s->interval_count = kept;
}

bool ebb_schedule_keep(ebb_schedule_t *s, const ebb_model_t *m, uint32_t limit)
{
    const size_t places = (size_t)m->trace->buffer_count + s->scratch_count + 1,
                 intervals = (size_t)s->interval_count + 1;
    keep_t k = {.schedule = s, .model = m};
    const bool known = find_room(&k.room, s, m, limit);
    k.first = ebb_none_array(places);
    k.next = malloc(intervals * sizeof *k.next);
    k.whole = ebb_none_array(intervals);
    k.order = malloc(intervals * sizeof *k.order);
    const bool good = known && k.first && k.next && k.whole && k.order;
    if (good)
        keep(&k);
    free_room(&k.room);
    free(k.first);
    free(k.next);
    free(k.whole);
    free(k.order);
    return good;
}

/* ---- time for the others ----
 *
 * Gives copies the time that they take. The walk ends an interval at its last touch and begins it
 * as late as it can; where there is room, chunks that are copied out stay taken until the copy has ended, so
 * that nothing is given them and has to wait, and copies in begin early enough to end in time.
 */

typedef struct relax {
    ebb_schedule_t *schedule;
    const ebb_model_t *model;
    room_t room;
    double *begin_ns;     /* per position, and the end */
    uint32_t *previous;   /* per interval: the last position before it that its place needs, plus 1 */
    uint32_t *next;       /* per interval: the first position after it */
    uint32_t *first;      /* per place: where its first interval begins */
    uint64_t *key;        /* intervals with copies, in the order of these */
    ebb_interval_t *tail; /* [tail_count] of copies that go over the step's end */
    uint32_t tail_count;
} relax_t;

static void set_clock(relax_t *r)
{
    const ebb_schedule_t *s = r->schedule;
    const uint64_t *begin = r->model->begin_ns;
    for (uint32_t i = 0; i < s->event_count; i++) {
        const uint32_t o = s->event[i].operation;
        r->begin_ns[i + 1] =
            r->begin_ns[i] + (double)(s->event[i].replay ? r->model->trace->operation[o].duration_ns
                                                         : begin[o + 1] - begin[o]);
    }
}

/* A place's intervals are in the order of time among themselves. */
static void find_neighbours(relax_t *r)
{
    const ebb_schedule_t *s = r->schedule;
    const uint32_t places = r->model->trace->buffer_count + s->scratch_count;
    uint32_t *at = r->first;
    for (uint32_t i = 0; i < places; i++)
        at[i] = 0;
    for (uint32_t i = 0; i < s->interval_count; i++) {
        r->previous[i] = at[s->interval[i].place];
        at[s->interval[i].place] = s->interval[i].last + 1;
    }
    for (uint32_t i = 0; i < places; i++)
        at[i] = s->event_count;
    for (uint32_t i = s->interval_count; i-- > 0;) {
        r->next[i] = at[s->interval[i].place];
        at[s->interval[i].place] = s->interval[i].first;
    }
}

static bool take(relax_t *r, const ebb_interval_t *interval, uint32_t position)
{
    const bool good = has_room(&r->room, interval->place, position, position + 1);
    if (good)
        occupy(&r->room, interval->place, position, position + 1);
    return good;
}

/* Intervals whose evict, or fetch, is set, by the position of that move: the moves' positions order them. How many. */
static uint32_t list_copies(relax_t *r, bool fetches)
{
    const ebb_schedule_t *s = r->schedule;
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->interval_count; i++) {
        uint32_t move = fetches ? s->interval[i].fetch : s->interval[i].evict;
        if (move != EBB_NONE)
            r->key[count++] = (uint64_t)(fetches ? s->interval[i].begin : s->move[move].position) << 32 | i;
    }
    qsort(r->key, count, sizeof *r->key, ebb_by_number);
    return count;
}

/* An interval's chunks stay taken in the next step, too, until a moment of it. */
static void add_tail(relax_t *r, const ebb_interval_t *interval, double until)
{
    uint32_t next = 0;
    while (next < r->first[interval->place] && r->begin_ns[next] < until && take(r, interval, next))
        next++;
    if (next)
        r->tail[r->tail_count++] = (ebb_interval_t){.place = interval->place,
                                                    .last = next - 1,
                                                    .fetch = EBB_NONE,
                                                    .evict = interval->evict,
                                                    .tail = true};
}

/* Copies out, first come first served. */
static void copy_out(relax_t *r)
{
    const ebb_schedule_t *s = r->schedule;
    const double end = r->begin_ns[s->event_count];
    double out = 0; /* when the link is free */
    const uint32_t count = list_copies(r, false);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = (uint32_t)r->key[i];
        ebb_interval_t *interval = &s->interval[index];
        const double issued = r->begin_ns[s->move[interval->evict].position];
        out = (out > issued ? out : issued) +
              (s->move[interval->evict].spared
                   ? 0
                   : (double)ebb_model_transfer_ns(r->model, interval->place, false));
        while (interval->last + 1 < r->next[index] && r->begin_ns[interval->last + 1] < out &&
               take(r, interval, interval->last + 1))
            interval->last++;
        if (interval->last + 1 == s->event_count && out > end)
            add_tail(r, interval, out - end);
    }
}

/* Copies in, from the last one back: each ends before its first use and before the next one begins. */
static void copy_in(relax_t *r)
{
    double in = r->begin_ns[r->schedule->event_count];
    for (uint32_t i = list_copies(r, true); i-- > 0;) {
        uint32_t index = (uint32_t)r->key[i];
        ebb_interval_t *interval = &r->schedule->interval[index];
        double needed = r->begin_ns[interval->begin];
        in = (in < needed ? in : needed) - (double)ebb_model_transfer_ns(r->model, interval->place, true);
        while (interval->first > r->previous[index] && r->begin_ns[interval->first] > in &&
               take(r, interval, interval->first - 1))
            interval->first--;
        r->schedule->move[interval->fetch].position = interval->first;
    }
}

/* Tails come before all other intervals of their places. */
static bool insert_tails(relax_t *r)
{
    ebb_schedule_t *s = r->schedule;
    const uint32_t intervals = s->interval_count;
    for (uint32_t i = 0; i < r->tail_count; i++)
        if (!ebb_array_append((void **)&s->interval, &s->interval_count, &s->interval_room,
                              sizeof *s->interval))
            return false;
    memmove(s->interval + r->tail_count, s->interval, intervals * sizeof *s->interval);
    memcpy(s->interval, r->tail, r->tail_count * sizeof *s->interval);
    return true;
}

static bool relax(relax_t *r)
{
    find_neighbours(r);
    set_clock(r);
    copy_out(r);
    if (!insert_tails(r))
        return false;
    find_neighbours(r);
    copy_in(r);
    return true;
}

bool ebb_schedule_relax(ebb_schedule_t *s, const ebb_model_t *m, uint32_t limit)
{
    relax_t r = {.schedule = s, .model = m};
    const size_t intervals = 2 * (size_t)s->interval_count + 1, events = (size_t)s->event_count + 1;
    const bool known = find_room(&r.room, s, m, limit);
    r.begin_ns = calloc(events, sizeof *r.begin_ns);
    r.previous = calloc(intervals, sizeof *r.previous);
    r.next = calloc(intervals, sizeof *r.next);
    r.first = calloc((size_t)m->trace->buffer_count + s->scratch_count + 1, sizeof *r.first);
    r.key = calloc(intervals, sizeof *r.key);
    r.tail = calloc(intervals, sizeof *r.tail);
    const bool good = known && r.begin_ns && r.previous && r.next && r.first && r.key && r.tail && relax(&r);
    free_room(&r.room);
    free(r.begin_ns);
    free(r.previous);
    free(r.next);
    free(r.first);
    free(r.key);
    free(r.tail);
    return good;
}

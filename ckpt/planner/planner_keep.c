/* planner_keep.c: what the walk need not have moved. It gives up at each moment what it must at that moment; when the step has been
 * gone through, there are copies whose memory nobody has taken. They are taken back, the largest first: the place keeps its content
 * between the two stays that the copies ended and began. */
#include <stdlib.h>

#include "ckpt/planner/planner_schedule.h"

typedef struct keep {
    ebb_schedule_t *schedule;
    const ebb_model_t *model;
    uint32_t limit;
    uint32_t *used;  /* chunks, per position */
    uint32_t *first; /* per place: its first stay, or EBB_NONE */
    uint32_t *next;  /* per stay: the place's next one, or EBB_NONE */
    uint64_t *order; /* stays that end with a copy out */
} keep_t;

static uint32_t chunks_of(const keep_t *k, uint32_t stay)
{
    return ebb_place_chunks(k->schedule, k->model, k->schedule->stay[stay].place);
}

static void find_neighbours(keep_t *k)
{
    const ebb_schedule_t *s = k->schedule;
    for (uint32_t i = s->stay_count; i-- > 0;) {
        k->next[i] = k->first[s->stay[i].place];
        k->first[s->stay[i].place] = i;
    }
}

/* Whether there is room for so many chunks more from one position on up to another one. */
static bool fits(const keep_t *k, uint32_t chunks, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (k->used[i] + chunks > k->limit)
            return false;
    return true;
}

static void take(keep_t *k, uint32_t chunks, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        k->used[i] += chunks;
}

static void take_back(ebb_schedule_t *s, uint32_t *move)
{
    if (*move != EBB_NONE)
        s->move[*move].position = EBB_NONE;
    *move = EBB_NONE;
}

/* Between two stays. */
static void keep_between(keep_t *k, ebb_stay_t *from, ebb_stay_t *to, uint32_t chunks)
{
    if (to->fetch == EBB_NONE || !fits(k, chunks, from->last + 1, to->first))
        return;
    take(k, chunks, from->last + 1, to->first);
    from->last = to->first - 1;
    take_back(k->schedule, &from->evict);
    take_back(k->schedule, &to->fetch);
}

/* From a buffer's last stay in a step to its first one in the next. */
static void keep_over_the_end(keep_t *k, ebb_stay_t *from, ebb_stay_t *to, uint32_t chunks)
{
    ebb_schedule_t *s = k->schedule;
    const ebb_boundary_t *agreed = k->model->request->boundary;
    const uint32_t begin = to->first, end = from->last + 1;
    if ((agreed && agreed->start[to->place] != EBB_NOT_THERE) || !fits(k, chunks, 0, begin) ||
        !fits(k, chunks, end, s->event_count))
        return;
    take(k, chunks, 0, begin);
    take(k, chunks, end, s->event_count);
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
    find_neighbours(k);
    for (uint32_t i = 0; i < s->stay_count; i++)
        if (s->stay[i].evict != EBB_NONE)
            k->order[count++] = (uint64_t)(UINT32_MAX - chunks_of(k, i)) << 32 | i;
    qsort(k->order, count, sizeof *k->order, ebb_by_number);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = (uint32_t)k->order[i], next = k->next[index], place = s->stay[index].place;
        if (next != EBB_NONE)
            keep_between(k, &s->stay[index], &s->stay[next], chunks_of(k, index));
        else if (place < k->model->trace->buffer_count && s->on_host[place])
            keep_over_the_end(k, &s->stay[index], &s->stay[k->first[place]], chunks_of(k, index));
    }
}

bool ebb_schedule_keep(ebb_schedule_t *s, const ebb_model_t *m, uint32_t limit)
{
    const size_t places = (size_t)m->trace->buffer_count + s->scratch_count + 1,
                 stays = (size_t)s->stay_count + 1;
    keep_t k = {.schedule = s, .model = m, .limit = limit, .used = ebb_schedule_profile(s, m)};
    k.first = malloc(places * sizeof *k.first);
    k.next = malloc(stays * sizeof *k.next);
    k.order = malloc(stays * sizeof *k.order);
    const bool good = k.used && k.first && k.next && k.order;
    for (size_t i = 0; good && i < places; i++)
        k.first[i] = EBB_NONE;
    if (good)
        keep(&k);
    free(k.used);
    free(k.first);
    free(k.next);
    free(k.order);
    return good;
}

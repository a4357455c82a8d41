/* order.c: where there are several streams, which has to wait for which; see internal.h.
 *
 * One walk through the schedule in the order of issue. Each of the program's streams counts what it is given; a clock says how far
 * each of them has got, as far as another one knows: a stream, out and in, what waits for a move, for an event of the program's. An interval
 * remembers what has touched its place. What must be known and is not, the streams are waited for that have done it.
 * At the beginning of a step all streams know all of the one before, so that one step is enough; the copies learn that by
 * waiting, whatever else they wait for, for the stream of the operation that they are issued with.
 *
 * The program orders its own accesses to a buffer among themselves. What plans add are replays, and intervals on chunks that others
 * have had: what takes such a chunk waits for all resident operations, and each of those for all that have taken any (checker.h).
 */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

/* Of an interval, or a small buffer, clocks: what was done on its chunks before it, and since, by operations and replays. */
enum { BEFORE, READ, WRITTEN, REPLAYED_READ, REPLAYED_WRITTEN, INTERVAL_CLOCKS };

typedef struct ordering {
    const ebb_schedule_t *schedule;
    const ebb_overlay_t *overlay;
    const ebb_model_t *model;
    ebb_ordering_t *out;
    const uint64_t *join_key;
    uint32_t streams;
    uint32_t *now;   /* [streams + 2][streams]: of each stream, out, in */
    uint32_t *done;  /* [moves][streams]: of what waits for it */
    uint32_t *event; /* [moments][streams] */
    uint32_t *
        clock; /* [intervals + places][INTERVAL_CLOCKS][streams]: those that are in no interval, small buffers, behind the intervals */
    uint32_t *interval;                /* per place: the one that it is in */
    uint32_t *had;                     /* per chunk: the last interval that had it, or EBB_NONE */
    uint32_t *holders;                 /* per chunk: places */
    uint32_t *resident, *taken;        /* clocks: of resident operations, of what took chunks from others */
    bool *takes;                       /* per interval: its first write will */
    bool *fresh;                       /* per interval: it has not been written */
    uint32_t *next_interval, *stay_at; /* lists by the position at which they begin */
    uint32_t *next_move, *move_at;     /* lists by position, then evicts, discards, fetches */
    uint32_t *next_join, *join_at;     /* lists by the operation at which they are joined in this step */
    uint32_t sync;
} ordering_t;

static uint32_t *now_of(const ordering_t *o, uint32_t stream)
{
    return o->now + (size_t)stream * o->streams;
}

static uint32_t *done_of(const ordering_t *o, uint32_t move)
{
    return o->done + (size_t)move * o->streams;
}

static uint32_t *clock_of(const ordering_t *o, uint32_t interval, uint32_t which)
{
    return o->clock + ((size_t)interval * INTERVAL_CLOCKS + which) * o->streams;
}

static void add(const ordering_t *o, uint32_t *clock, const uint32_t *other)
{
    for (uint32_t s = 0; s < o->streams; s++)
        clock[s] = other[s] > clock[s] ? other[s] : clock[s];
}

/* A stream with this clock waits for the streams that have done what is not known. Those, as bits. */
static uint32_t wait_for(const ordering_t *o, uint32_t *clock, const uint32_t *wanted)
{
    uint32_t waited = 0;
    for (uint32_t s = 0; s < o->streams; s++)
        if (clock[s] < wanted[s]) {
            waited |= UINT32_C(1) << s;
            add(o, clock, now_of(o, s));
        }
    return waited;
}

/* ---- what an event touches ---- */

static uint32_t stream_of(const ebb_model_t *m, const ebb_event_t *event)
{
    return m->trace->operation[event->operation].stream;
}

/* The clocks' number; a small buffer has its own. */
static uint32_t touched(const ordering_t *o, const ebb_event_t *event, uint32_t buffer)
{
    const uint32_t place = ebb_event_place(o->schedule, event, buffer);
    return o->interval[place] != EBB_NONE ? o->interval[place] : o->schedule->interval_count + place;
}

/* The first to write an interval takes its chunks. */
static bool takes_chunks(const ordering_t *o, uint32_t interval, bool writes)
{
    return writes && interval < o->schedule->interval_count && o->takes[interval];
}

static uint32_t wait_for_touch(const ordering_t *o, uint32_t *clock, uint32_t interval, bool writes,
                               bool replay)
{
    uint32_t waited = wait_for(o, clock, clock_of(o, interval, BEFORE)) |
                      wait_for(o, clock, clock_of(o, interval, REPLAYED_WRITTEN));
    if (writes)
        waited |= wait_for(o, clock, clock_of(o, interval, REPLAYED_READ));
    if (replay)
        waited |= wait_for(o, clock, clock_of(o, interval, WRITTEN));
    if (replay && writes)
        waited |= wait_for(o, clock, clock_of(o, interval, READ));
    if (takes_chunks(o, interval, writes))
        waited |= wait_for(o, clock, o->resident);
    return waited;
}

/* A replay's read of a small buffer is ordered like a write: the launch may count there, and leave the word as it was. */
static bool writes_in(const ordering_t *o, const ebb_event_t *event, const ebb_touch_t *touch)
{
    return touch->mode != EBB_READS || (event->replay && !o->model->buffer[touch->buffer].chunks);
}

/* The streams that an event's must wait for. */
static uint32_t touch_all(ordering_t *o, const ebb_event_t *event)
{
    const ebb_model_t *m = o->model;
    const uint32_t stream = stream_of(m, event);
    const uint32_t from = m->first_touch[event->operation], to = m->first_touch[event->operation + 1];
    const bool resident = m->trace->operation[event->operation].resident;
    uint32_t waited = resident ? wait_for(o, now_of(o, stream), o->taken) : 0;
    for (uint32_t k = from; k < to; k++)
        waited |= wait_for_touch(o, now_of(o, stream), touched(o, event, m->touch[k].buffer),
                                 writes_in(o, event, &m->touch[k]), event->replay);
    const uint32_t now = ++now_of(o, stream)[stream];
    if (resident)
        o->resident[stream] = now;
    for (uint32_t k = from; k < to; k++) {
        const bool writes = writes_in(o, event, &m->touch[k]);
        const uint32_t interval = touched(o, event, m->touch[k].buffer);
        if (takes_chunks(o, interval, writes)) {
            o->takes[interval] = false;
            o->taken[stream] = now;
        }
        /* Whatever an allocation holds is the last owner's, if anybody's. */
        bool *fresh = interval < o->schedule->interval_count ? &o->fresh[interval] : NULL;
        if (fresh && writes)
            *fresh = false;
        const bool own = !event->replay && !(fresh && *fresh);
        const uint32_t which = own ? (writes ? WRITTEN : READ) : (writes ? REPLAYED_WRITTEN : REPLAYED_READ);
        clock_of(o, interval, which)[stream] = now;
    }
    return waited;
}

/* ---- in the order of issue ---- */

static void pass_syncs(ordering_t *o, uint32_t point)
{
    const ebb_trace_t *t = o->model->trace;
    for (; o->sync < t->sync_count && t->sync[o->sync].before <= point; o->sync++) {
        const ebb_trace_sync_t *m = &t->sync[o->sync];
        if (m->id >= t->sync_count)
            continue;
        uint32_t *event = o->event + (size_t)m->id * o->streams;
        if (m->what == EBB_SYNC_RECORD)
            memcpy(event, now_of(o, m->stream), o->streams * sizeof *event);
        else if (m->what == EBB_SYNC_WAIT)
            add(o, now_of(o, m->stream), event);
    }
}

/* Its content is on the device when the step begins. */
static bool begins_there(const ordering_t *o, uint32_t place)
{
    const ebb_trace_t *t = o->model->trace;
    return place < t->buffer_count && t->buffer[place].born == EBB_NONE && !o->schedule->on_host[place];
}

/* It has the chunks of others: after all that they did. What the program did to the same place it orders by itself. */
static void begin_interval(ordering_t *o, uint32_t index)
{
    const ebb_interval_t *interval = o->schedule->interval;
    const uint32_t place = interval[index].place;
    for (uint32_t k = o->overlay->first[place], last = EBB_NONE; k < o->overlay->first[place + 1]; k++) {
        uint32_t *had = &o->had[o->overlay->chunk[k]];
        o->fresh[index] |=
            *had != EBB_NONE ? interval[*had].place != place || o->fresh[*had] : !begins_there(o, place);
        o->takes[index] |= *had != EBB_NONE ? interval[*had].place != place || o->takes[*had]
                                            : o->holders[o->overlay->chunk[k]] > 1 && !begins_there(o, place);
        for (uint32_t which = 0; *had != EBB_NONE && *had != last && which < INTERVAL_CLOCKS; which++) {
            const bool own = interval[*had].place == place && (which == READ || which == WRITTEN);
            add(o, clock_of(o, index, own ? which : BEFORE), clock_of(o, *had, which));
        }
        last = *had;
        *had = index;
    }
    o->interval[place] = index;
}

static void issue_copy(ordering_t *o, uint32_t index, uint32_t pace)
{
    const ebb_move_t *move = &o->schedule->move[index];
    uint32_t *now = now_of(o, o->streams + (move->kind == EBB_FETCH)), interval = o->interval[move->place];
    add(o, now, now_of(o, pace));
    o->out->after[index] = UINT32_C(1) << pace;
    for (uint32_t which = 0; interval != EBB_NONE && which < INTERVAL_CLOCKS; which++)
        o->out->after[index] |= wait_for(o, now, clock_of(o, interval, which));
    if (move->kind == EBB_FETCH) {
        o->out->after[index] |= wait_for(o, now, o->resident);
        if (interval != EBB_NONE)
            o->takes[interval] = o->fresh[interval] = false; /* the fetch has */
    }
    memcpy(done_of(o, index), now, o->streams * sizeof *now);
}

/* Of these streams those that are to. */
static void join(ordering_t *o, uint32_t operation, uint32_t streams)
{
    for (uint32_t i = o->join_at[operation]; i != EBB_NONE; i = o->next_join[i])
        for (uint32_t s = 0; s < o->streams; s++)
            if ((o->out->joiners[i] & streams) >> s & 1)
                add(o, now_of(o, s), done_of(o, i));
}

static void issue_all(ordering_t *o)
{
    const ebb_schedule_t *s = o->schedule;
    const uint32_t operations = o->model->trace->operation_count;
    for (uint32_t i = 0; i <= s->event_count; i++) {
        const ebb_event_t *event = i < s->event_count ? &s->event[i] : NULL;
        const uint32_t pace = o->model->trace->operation[event ? event->point : operations - 1].stream;
        if (event)
            pass_syncs(o, event->point);
        for (uint32_t k = o->stay_at[i]; k != EBB_NONE; k = o->next_interval[k])
            begin_interval(o, k);
        for (uint32_t k = o->move_at[i]; k != EBB_NONE; k = o->next_move[k])
            if (s->move[k].kind != EBB_DISCARD)
                issue_copy(o, k, pace);
        if (!event)
            return;
        /* What is waited for has not joined anything at this point yet: orders come before joins. */
        const uint32_t own = UINT32_C(1) << stream_of(o->model, event);
        if (!event->replay)
            join(o, event->operation, own);
        o->out->events[i] = touch_all(o, event);
        if (!event->replay)
            join(o, event->operation, ~own);
    }
}

/* ---- lists, and all of it ---- */

static void list(uint32_t *head, uint32_t *next, uint32_t at, uint32_t item)
{
    next[item] = head[at];
    head[at] = item;
}

static void make_lists(ordering_t *o)
{
    static const ebb_action_kind_t kinds[] = {EBB_FETCH, EBB_EVICT}; /* the last one put in comes first */
    const ebb_schedule_t *s = o->schedule;
    for (uint32_t k = 0; k < o->overlay->first[o->model->trace->buffer_count + s->scratch_count]; k++)
        o->holders[o->overlay->chunk[k]]++;
    for (uint32_t i = s->interval_count; i-- > 0;)
        list(o->stay_at, o->next_interval, s->interval[i].first, i);
    for (int kind = 0; kind < 2; kind++)
        for (uint32_t i = s->move_count; i-- > 0;)
            if (s->move[i].kind == kinds[kind] && s->move[i].position != EBB_NONE)
                list(o->move_at, o->next_move, s->move[i].position, i);
    for (uint32_t i = 0; i < s->move_count; i++)
        if (o->join_key[i] < o->model->trace->operation_count)
            list(o->join_at, o->next_join, (uint32_t)o->join_key[i], i);
}

static uint32_t *filled(size_t count, int byte)
{
    uint32_t *array = malloc((count + 1) * sizeof *array);
    return array ? memset(array, byte, (count + 1) * sizeof *array) : NULL;
}

static bool allocate(ordering_t *o)
{
    const ebb_schedule_t *s = o->schedule;
    const ebb_trace_t *t = o->model->trace;
    const size_t streams = o->streams, places = (size_t)t->buffer_count + s->scratch_count;
    o->now = filled((streams + 2) * streams, 0);
    o->done = filled(s->move_count * streams, 0);
    o->event = filled(t->sync_count * streams, 0);
    o->clock = filled((s->interval_count + places) * INTERVAL_CLOCKS * streams, 0);
    o->interval = filled(places, 0xff);
    o->had = filled(o->overlay->chunk_count, 0xff);
    o->holders = filled(o->overlay->chunk_count, 0);
    o->resident = filled(streams, 0);
    o->taken = filled(streams, 0);
    o->takes = calloc(s->interval_count + (size_t)1, sizeof *o->takes);
    o->fresh = calloc(s->interval_count + (size_t)1, sizeof *o->fresh);
    o->stay_at = filled(s->event_count, 0xff);
    o->next_interval = filled(s->interval_count, 0xff);
    o->move_at = filled(s->event_count, 0xff);
    o->next_move = filled(s->move_count, 0xff);
    o->join_at = filled(t->operation_count, 0xff);
    o->next_join = filled(s->move_count, 0xff);
    return o->now && o->done && o->event && o->clock && o->interval && o->had && o->holders && o->resident &&
           o->taken && o->takes && o->fresh && o->stay_at && o->next_interval && o->move_at && o->next_move &&
           o->join_at && o->next_join;
}

bool ebb_schedule_order(ebb_ordering_t *out, const ebb_schedule_t *s, const ebb_overlay_t *overlay,
                        const ebb_model_t *m, const uint64_t *join_key)
{
    ordering_t o = {.schedule = s,
                    .overlay = overlay,
                    .model = m,
                    .out = out,
                    .join_key = join_key,
                    .streams = m->streams};
    const bool good = allocate(&o);
    if (good) {
        make_lists(&o);
        issue_all(&o);
    }
    free(o.takes);
    free(o.fresh);
    uint32_t *arrays[] = {o.now,           o.done,    o.event,     o.clock,   o.interval,
                          o.had,           o.holders, o.resident,  o.taken,   o.stay_at,
                          o.next_interval, o.move_at, o.next_move, o.join_at, o.next_join};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    return good;
}

/* An interval is over before the place's next one begins. */
bool ebb_schedule_streams(uint32_t *streams, const ebb_schedule_t *s, const ebb_model_t *m)
{
    const size_t places = (size_t)m->trace->buffer_count + s->scratch_count;
    uint32_t *at = filled(s->event_count, 0xff), *next = filled(s->interval_count, 0xff),
             *interval = filled(places, 0xff);
    const bool good = at && next && interval;
    memset(streams, 0, s->interval_count * sizeof *streams);
    for (uint32_t i = s->interval_count; good && i-- > 0;)
        list(at, next, s->interval[i].first, i);
    for (uint32_t i = 0; good && i < s->event_count; i++) {
        const ebb_event_t *event = &s->event[i];
        for (uint32_t k = at[i]; k != EBB_NONE; k = next[k])
            interval[s->interval[k].place] = k;
        for (uint32_t k = m->first_touch[event->operation]; k < m->first_touch[event->operation + 1]; k++) {
            const uint32_t of = interval[ebb_event_place(s, event, m->touch[k].buffer)];
            if (of != EBB_NONE)
                streams[of] |= UINT32_C(1) << stream_of(m, event);
        }
    }
    free(at);
    free(next);
    free(interval);
    return good;
}

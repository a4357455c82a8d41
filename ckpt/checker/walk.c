/* walk.c: two periods of a plan, in the order of issue; see internal.h. A period is one step, unless buffers go
 * round (trace.h: next); then it is as many as it takes until all are in their own places again. Why two are
 * enough: docs/checker.md.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/checker/internal.h"

/* What acts: the program's operation on a stream, or an action of the plan's. */
typedef struct actor {
    uint32_t stream;
    bool is_plan;
} actor_t;

bool ebb_check_fails(walk_t *w, ebb_fault_t fault, const char *format, ...)
{
    int n;
    if (w->action != EBB_NONE)
        n = snprintf(w->why, w->why_bytes, "%s: step %u, point %u, action %u (%s): ", ebb_fault_word[fault],
                     w->step, w->point, w->action, ebb_action_word[w->plan->action[w->action].kind]);
    else
        n = snprintf(w->why, w->why_bytes, "%s: step %u, operation %u: ", ebb_fault_word[fault], w->step,
                     w->point);
    va_list args;
    va_start(args, format);
    if (n > 0 && (size_t)n < w->why_bytes)
        vsnprintf(w->why + n, w->why_bytes - (size_t)n, format, args);
    va_end(args);
    return false;
}

/* ---- clocks ----
 *
 * What a place holds follows from the order of issue, because every two accesses of a chunk of which one
 * writes must be ordered by the streams, events, waits and joins (vector clocks: Mattern, 1989; with single accesses as epochs,
 * as in FastTrack: Flanagan and Freund, PLDI 2009), and a later one is never ordered before an earlier one. */

static void join(const walk_t *w, uint32_t *reach, const uint32_t *other)
{
    for (uint32_t s = 0; s < w->width; s++)
        if (other[s] > reach[s])
            reach[s] = other[s];
}

static void join_streams(const walk_t *w, uint32_t *reach, uint32_t streams)
{
    for (uint32_t s = 0; streams >> s && s < w->streams; s++)
        if (streams >> s & 1)
            join(w, reach, now_of(w, s));
}

static void tick(walk_t *w, uint32_t stream)
{
    now_of(w, stream)[stream]++;
}

/* A place without chunks has one cell of its own. */
static uint32_t cells_of(const walk_t *w, uint32_t place)
{
    const uint32_t chunks = w->plan->place[place].chunk_count;
    return chunks ? chunks : 1;
}

static uint32_t cell_of(const walk_t *w, uint32_t place, uint32_t i)
{
    const ebb_place_t *p = &w->plan->place[place];
    return p->chunk_count ? w->plan->chunk[p->first_chunk + i] : w->plan->chunk_count + place;
}

static uint32_t *reach_of(const walk_t *w, uint32_t cell, uint32_t which)
{
    return w->cell + ((size_t)cell * CELL_REACHES + which) * w->width;
}

static bool comes_after(const walk_t *w, uint32_t stream, uint32_t other, uint32_t event)
{
    return now_of(w, stream)[other] >= event;
}

/* Which of the streams has done something that this one does not know; none: `width`. */
static uint32_t unknown(const walk_t *w, uint32_t stream, const uint32_t *reach)
{
    uint32_t s = 0;
    while (s < w->width && comes_after(w, stream, s, reach[s]))
        s++;
    return s;
}

/* What was done to the cell by its owner's operations was done by others now. */
static void change_owner(walk_t *w, uint32_t cell, uint32_t place)
{
    if (w->owner[cell] != EBB_NONE)
        ebb_contents_drop(w, w->owner[cell]);
    w->owner[cell] = place;
    for (uint32_t which = OWN_WRITES; which < CELL_REACHES; which += OWN_READS - OWN_WRITES) {
        uint32_t *own = reach_of(w, cell, which);
        join(w, reach_of(w, cell, which + OTHER_WRITES - OWN_WRITES), own);
        memset(own, 0, w->width * sizeof *own);
    }
}

static void take(walk_t *w, uint32_t place, uint32_t content)
{
    ebb_contents_drop(w, place);
    for (uint32_t i = 0; i < w->plan->place[place].chunk_count; i++)
        if (w->owner[cell_of(w, place, i)] != place)
            change_owner(w, cell_of(w, place, i), place);
    w->place[place].content = content;
    /* An older version is one on the way to what was given up. */
    if (place >= w->plan->buffer_count || content == EBB_NONE || content >= w->current[w->of[place]])
        w->place[place].given_up = false;
    ebb_recovery_note(w, content);
}

/* ---- accesses ---- */

static const char *name_of(const walk_t *w, uint32_t stream, char name[24])
{
    if (stream < w->streams && w->streams > 1)
        snprintf(name, 24, "stream %u", stream);
    else
        strcpy(name, stream == out_of(w) ? "out" : stream == in_of(w) ? "in" : "compute");
    return name;
}

static bool is_unordered(walk_t *w, uint32_t place, uint32_t cell, uint32_t other, bool writes, bool written)
{
    char name[24];
    name_of(w, other, name);
    if (cell < w->plan->chunk_count)
        return ebb_check_fails(w, EBB_FAULT_ORDER,
                               "the %s of place %u is not ordered after the %s of chunk %u on %s",
                               writes ? "write" : "read", place, written ? "write" : "read", cell, name);
    return ebb_check_fails(w, EBB_FAULT_ORDER,
                           "the %s of small buffer %u is not ordered after the %s of it on %s",
                           writes ? "write" : "read", place, written ? "write" : "read", name);
}

/* Whether an actor that reads or writes a cell of the place knows all that it has to. */
static bool knows(walk_t *w, actor_t actor, uint32_t place, uint32_t cell, bool writes)
{
    const bool own = !actor.is_plan && w->owner[cell] == place;
    for (uint32_t which = 0; which < (writes ? CELL_REACHES : OWN_READS); which++) {
        if (own && (which == OWN_WRITES || which == OWN_READS))
            continue;
        const uint32_t other = unknown(w, actor.stream, reach_of(w, cell, which));
        if (other < w->width)
            return is_unordered(w, place, cell, other, writes, which < OWN_READS);
    }
    return true;
}

static bool is_ordered(walk_t *w, actor_t actor, uint32_t place, bool writes)
{
    for (uint32_t i = 0; i < cells_of(w, place); i++)
        if (!knows(w, actor, place, cell_of(w, place, i), writes))
            return false;
    return true;
}

/* After the place has taken its chunks, if it was written. */
static void note(walk_t *w, actor_t actor, uint32_t place, bool writes)
{
    for (uint32_t i = 0; i < cells_of(w, place); i++) {
        const uint32_t cell = cell_of(w, place, i);
        const bool own = !actor.is_plan && w->owner[cell] == place;
        const uint32_t which = writes ? (own ? OWN_WRITES : OTHER_WRITES) : own ? OWN_READS : OTHER_READS;
        reach_of(w, cell, which)[actor.stream] = now_of(w, actor.stream)[actor.stream];
    }
}

static bool touch(walk_t *w, actor_t actor, uint32_t place, bool writes)
{
    if (!is_ordered(w, actor, place, writes))
        return false;
    note(w, actor, place, writes);
    return true;
}

/* ---- resident operations ---- */

static bool check_resident(walk_t *w, uint32_t stream)
{
    char name[24];
    const uint32_t other = unknown(w, stream, w->handed);
    w->resident[stream] = now_of(w, stream)[stream];
    return other == w->width || ebb_check_fails(w, EBB_FAULT_RESIDENT,
                                                "a resident kernel may run while a chunk changes hands on %s",
                                                name_of(w, other, name));
}

/* The event takes the place's chunks: from others? */
static bool may_take(walk_t *w, uint32_t stream, uint32_t place)
{
    char name[24];
    uint32_t i = 0, other;
    const uint32_t count = w->plan->place[place].chunk_count;
    while (i < count &&
           (w->owner[cell_of(w, place, i)] == place || w->owner[cell_of(w, place, i)] == EBB_NONE))
        i++;
    if (i == count)
        return true;
    w->handed[stream] = now_of(w, stream)[stream];
    other = unknown(w, stream, w->resident);
    return other == w->width ||
           ebb_check_fails(w, EBB_FAULT_RESIDENT,
                           "place %u takes chunk %u while a resident kernel may be running on %s", place,
                           cell_of(w, place, i), name_of(w, other, name));
}

static bool write_place(walk_t *w, actor_t actor, uint32_t place, uint32_t content)
{
    if (!is_ordered(w, actor, place, true) || !may_take(w, actor.stream, place))
        return false;
    take(w, place, content);
    note(w, actor, place, true);
    return true;
}

/* The live buffer whose place it is, where that holds something, but not what the program left in it; else EBB_NONE. */
static uint32_t older_of(const walk_t *w, uint32_t place)
{
    const uint32_t content = w->place[place].content;
    const uint32_t buffer = place < w->plan->buffer_count ? w->of[place] : EBB_NONE;
    return buffer != EBB_NONE && w->alive[buffer] && content != EBB_NONE && content != w->current[buffer]
               ? buffer
               : EBB_NONE;
}

static bool evict(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    const uint32_t older = older_of(w, place);
    if (h->content == EBB_NONE)
        return ebb_check_fails(w, EBB_FAULT_CONTENT, "an evict of a place that holds nothing");
    if (older != EBB_NONE)
        return ebb_check_fails(w, EBB_FAULT_CONTENT,
                               "an evict of what live buffer %u was: its block would be taken for what it is",
                               older);
    if (!touch(w, (actor_t){out_of(w), true}, place, false))
        return false;
    if (!comes_after(w, out_of(w), in_of(w), h->host_read_at))
        return ebb_check_fails(w, EBB_FAULT_ORDER,
                               "the host block is not ordered after the fetch that reads it");
    ebb_contents_drop_host(w, place);
    h->host_content = h->content;
    h->host_written_at = now_of(w, out_of(w))[out_of(w)];
    ebb_recovery_note(w, h->host_content);
    return true;
}

static bool fetch(walk_t *w, uint32_t place)
{
    holding_t *h = &w->place[place];
    if (h->host_content == EBB_NONE)
        return ebb_check_fails(w, EBB_FAULT_CONTENT, "a fetch of what is not on the host");
    if (!comes_after(w, in_of(w), out_of(w), h->host_written_at))
        return ebb_check_fails(w, EBB_FAULT_ORDER, "the fetch is not ordered after its evict");
    h->host_read_at = now_of(w, in_of(w))[in_of(w)];
    return write_place(w, (actor_t){in_of(w), true}, place, h->host_content);
}

/* ---- launches: operations and replays ---- */

static uint32_t target_of(const walk_t *w, uint32_t buffer)
{
    return place_now(w, w->redirect[buffer] != EBB_NONE ? w->redirect[buffer] : buffer);
}

/* Neither redirected nor large: at its own address, where only the program writes. */
static bool is_at_home(const walk_t *w, uint32_t buffer)
{
    return w->redirect[buffer] == EBB_NONE && !is_large(w->trace, buffer);
}

/* The launch under way. */
static actor_t launcher(const walk_t *w, uint32_t operation)
{
    if (w->action == EBB_NONE)
        return (actor_t){w->trace->operation[operation].stream, false};
    return (actor_t){w->plan->action[w->action].stream, true};
}

static bool check_small(walk_t *w, actor_t actor, const touch_t *u)
{
    const ebb_trace_buffer_t *b = &w->trace->buffer[u->buffer];
    if (!actor.is_plan) /* alive as the trace says, and nothing else writes it */
        return touch(w, actor, w->at[u->buffer], u->mode != EBB_READS);
    if (u->mode != EBB_READS)
        return ebb_check_fails(w, EBB_FAULT_REPLAY,
                               "operation %u writes small buffer %u and is not redirected",
                               w->plan->action[w->action].operation, u->buffer);
    if ((!is_persistent(w->trace, u->buffer) && b->born > w->point) ||
        ebb_plan_dies(w->plan, w->trace, u->buffer) <= w->point)
        return ebb_check_fails(w, EBB_FAULT_CONTENT, "small buffer %u is not alive", u->buffer);
    if (w->current[u->buffer] != u->before)
        return ebb_check_fails(w, EBB_FAULT_CONTENT, "small buffer %u is not what operation %u read",
                               u->buffer, w->plan->action[w->action].operation);
    /* Ordered like a write: the launch may count there, and leave the word as it was. */
    return touch(w, actor, w->at[u->buffer], true);
}

static bool read_one(walk_t *w, actor_t actor, const touch_t *u)
{
    bool undefined = is_undefined(w->facts, u->before);
    if (u->mode == EBB_REPLACES)
        return !is_at_home(w, u->buffer) || check_small(w, actor, u);
    if (undefined && actor.is_plan)
        return ebb_check_fails(w, EBB_FAULT_REPLAY,
                               "operation %u read buffer %u before it was written: that cannot be replayed",
                               w->plan->action[w->action].operation, u->buffer);
    if (is_at_home(w, u->buffer))
        return check_small(w, actor, u);
    const uint32_t place = target_of(w, u->buffer);
    if (!undefined && w->place[place].content != u->before)
        return ebb_check_fails(w, EBB_FAULT_CONTENT, "place %u does not hold buffer %u in version %u", place,
                               u->buffer, u->before - w->facts->first_content[u->buffer]);
    return u->mode == EBB_UPDATES || touch(w, actor, place, false); /* else the write of it is in order */
}

static void note_written(walk_t *w, uint32_t place)
{
    if (!w->place[place].noted)
        w->written[w->written_count++] = place;
    w->place[place].noted = true;
}

/* Small ones at home are the program's only: check_small has seen to that. */
static bool write_one(walk_t *w, actor_t actor, const touch_t *u)
{
    if (u->mode == EBB_READS)
        return true;
    if (!actor.is_plan) {
        w->current[u->buffer] = u->after;
        ebb_recovery_note(w, u->before);
        ebb_recovery_note(w, u->after);
    }
    if (is_at_home(w, u->buffer))
        return true;
    uint32_t place = target_of(w, u->buffer);
    if (actor.is_plan)
        note_written(w, place);
    ebb_contents_drop_host(w, place);
    return write_place(w, actor, place, u->after);
}

/* After a launch everything it touched must still be there: no two of its places share a chunk. */
static bool check_apart(walk_t *w, const touch_t *u)
{
    if (is_at_home(w, u->buffer) || (u->mode == EBB_READS && is_undefined(w->facts, u->before)))
        return true;
    uint32_t place = target_of(w, u->buffer);
    return w->place[place].content == u->after ||
           ebb_check_fails(w, EBB_FAULT_CONTENT, "place %u shares chunks with another one of the same launch",
                           place);
}

static bool launch(walk_t *w, uint32_t operation)
{
    const facts_t *f = w->facts;
    uint32_t first = f->first_touch[operation], end = f->first_touch[operation + 1];
    const actor_t actor = launcher(w, operation);
    tick(w, actor.stream);
    if (w->trace->operation[operation].resident && !check_resident(w, actor.stream))
        return false;
    for (uint32_t k = first; k < end; k++)
        if (!read_one(w, actor, &f->touch[k]))
            return false;
    for (uint32_t k = first; k < end; k++)
        if (!write_one(w, actor, &f->touch[k]))
            return false;
    for (uint32_t k = first; k < end; k++)
        if (!check_apart(w, &f->touch[k]))
            return false;
    return ebb_recovery_check(w);
}

static uint32_t *done_of(const walk_t *w, uint32_t action)
{
    return w->done + (size_t)action * w->width;
}

static bool issue_operation(walk_t *w)
{
    const lists_t *joins = &w->joins;
    for (uint32_t i = joins->first[w->point]; i < joins->first[w->point + 1]; i++)
        for (uint32_t s = 0; s < w->streams; s++)
            if (w->plan->action[joins->item[i]].joiners >> s & 1)
                join(w, now_of(w, s), done_of(w, joins->item[i]));
    ebb_recovery_issue(w);
    return launch(w, w->point);
}

static bool replay(walk_t *w, const ebb_action_t *a)
{
    const ebb_redirect_t *r = w->plan->redirect + a->first_redirect;
    if (a->operation >= w->issued)
        return ebb_check_fails(w, EBB_FAULT_REPLAY, "operation %u has not run yet in this step",
                               a->operation);
    if (!w->trace->operation[a->operation].proofs)
        return ebb_check_fails(w, EBB_FAULT_REPLAY, "operation %u has no proofs", a->operation);
    for (uint32_t i = 0; i < a->redirect_count; i++)
        w->redirect[r[i].buffer] = r[i].place;
    join_streams(w, now_of(w, a->stream), a->after);
    bool good = launch(w, a->operation);
    for (uint32_t i = 0; i < a->redirect_count; i++)
        w->redirect[r[i].buffer] = EBB_NONE;
    return good;
}

/* ---- actions ---- */

static bool copy(walk_t *w, const ebb_action_t *a)
{
    const bool out = a->kind == EBB_EVICT;
    const uint32_t stream = out ? out_of(w) : in_of(w);
    uint32_t *now = now_of(w, stream);
    join_streams(w, now, a->after);
    for (uint32_t i = 0; i < a->wait_count; i++)
        join(w, now, done_of(w, w->plan->wait[a->first_wait + i]));
    tick(w, stream);
    const uint32_t place = place_now(w, a->place);
    if (!(out ? evict(w, place) : fetch(w, place)))
        return false;
    if (!out)
        note_written(w, place);
    memcpy(done_of(w, w->action), now, w->width * sizeof *now);
    return ebb_recovery_check(w);
}

static bool order(walk_t *w, const ebb_action_t *a)
{
    join_streams(w, now_of(w, a->stream), a->after);
    return true;
}

static bool discard(walk_t *w, uint32_t place)
{
    const uint32_t older = older_of(w, place);
    if (w->place[place].content == EBB_NONE)
        return ebb_check_fails(w, EBB_FAULT_CONTENT, "a discard of a place that holds nothing");
    if (older != EBB_NONE)
        return ebb_check_fails(
            w, EBB_FAULT_CONTENT,
            "a discard of what live buffer %u was: it may stay there and be taken for what it is", older);
    w->place[place].given_up = true;
    ebb_contents_drop(w, place);
    return ebb_recovery_check(w);
}

/* The place of a live buffer holds what the program left in it, or nothing: falling back takes it for that.
 */
static bool check_written(walk_t *w)
{
    for (uint32_t i = 0; i < w->written_count; i++) {
        uint32_t place = w->written[i];
        w->place[place].noted = false;
        if (older_of(w, place) != EBB_NONE)
            return ebb_check_fails(w, EBB_FAULT_CONTENT,
                                   "the place of live buffer %u is left with something else in it", place);
    }
    w->written_count = 0;
    return true;
}

static bool act(walk_t *w, uint32_t *next)
{
    const ebb_plan_t *p = w->plan;
    while (*next < p->action_count && p->action[*next].point == w->point) {
        const ebb_action_t *a = &p->action[*next];
        w->action = (*next)++;
        bool good = a->kind == EBB_REPLAY    ? replay(w, a)
                    : a->kind == EBB_ORDER   ? order(w, a)
                    : a->kind == EBB_DISCARD ? discard(w, place_now(w, a->place))
                                             : copy(w, a);
        if (!good)
            return false;
    }
    w->action = EBB_NONE;
    return check_written(w);
}

/* ---- what the program orders ---- */

static void meet(walk_t *w)
{
    for (uint32_t s = 1; s < w->streams; s++)
        join(w, now_of(w, 0), now_of(w, s));
    for (uint32_t s = 1; s < w->streams; s++)
        join(w, now_of(w, s), now_of(w, 0));
}

/* Waits of the host are not counted on: whether there are any depends on what the program wants to know. A wait for an event of
 * which nothing is known in this step orders nothing. */
static void record_and_wait(walk_t *w)
{
    const ebb_trace_t *t = w->trace;
    for (; w->next_sync < t->sync_count && t->sync[w->next_sync].before <= w->point; w->next_sync++) {
        const ebb_trace_sync_t *m = &t->sync[w->next_sync];
        if (w->streams == 1 || m->id >= t->sync_count)
            continue;
        uint32_t *event = w->event + (size_t)m->id * w->width;
        if (m->what == EBB_SYNC_RECORD)
            memcpy(event, now_of(w, m->stream), w->width * sizeof *event);
        else if (m->what == EBB_SYNC_WAIT)
            join(w, now_of(w, m->stream), event);
    }
}

/* ---- steps ---- */

static void begin_step(walk_t *w)
{
    ebb_contents_begin_step(w);
    meet(w);
    w->next_sync = 0;
    if (w->streams > 1)
        memset(w->event, 0, (size_t)w->trace->sync_count * w->width * sizeof *w->event);
}

/* The actions after the last operation come before the frees there: they are issued with it. */
static bool walk_step(walk_t *w)
{
    uint32_t next = 0;
    begin_step(w);
    for (w->point = 0; w->point < w->plan->operation_count; w->point++) {
        if (!ebb_contents_free_and_allocate(w))
            return false;
        record_and_wait(w);
        if (!act(w, &next) || !issue_operation(w))
            return false;
    }
    return act(w, &next) && ebb_contents_free_and_allocate(w) && ebb_contents_check_end(w);
}

static void list_joins(walk_t *w)
{
    const ebb_plan_t *p = w->plan;
    uint32_t n = p->operation_count, *first = w->joins.first;
    for (uint32_t i = 0; i < p->action_count; i++)
        if (p->action[i].join < n)
            first[p->action[i].join + 1]++;
    for (uint32_t i = 0; i < n; i++)
        first[i + 1] += first[i];
    for (uint32_t i = 0; i < p->action_count; i++)
        if (p->action[i].join < n)
            w->joins.item[first[p->action[i].join]++] = i;
    memmove(first + 1, first, n * sizeof *first);
    first[0] = 0;
}

/* What a walk allocates, and so many of it. */
#define ROOMS(ROOM)                                                                                          \
    ROOM(at, p->buffer_count)                                                                                \
    ROOM(before, p->buffer_count)                                                                            \
    ROOM(of, p->buffer_count)                                                                                \
    ROOM(redirect, p->buffer_count)                                                                          \
    ROOM(current, p->buffer_count)                                                                           \
    ROOM(alive, p->buffer_count)                                                                             \
    ROOM(place, p->place_count)                                                                              \
    ROOM(written, p->place_count)                                                                            \
    ROOM(owner, cells)                                                                                       \
    ROOM(cell, cells *CELL_REACHES * w->width)                                                               \
    ROOM(now, (size_t)w->width * w->width)                                                                   \
    ROOM(resident, w->width)                                                                                 \
    ROOM(handed, w->width)                                                                                   \
    ROOM(done, (size_t)p->action_count * w->width)                                                           \
    ROOM(event, w->streams > 1 ? (size_t)w->trace->sync_count * w->width : 0)                                \
    ROOM(joins.first, p->operation_count + 1)                                                                \
    ROOM(joins.item, p->action_count)                                                                        \
    ROOM(lacking, p->operation_count)                                                                        \
    ROOM(recoverable, w->facts->content_count)

#define MAKE(field, count) good &= (w->field = calloc((size_t)(count) + 1, sizeof *w->field)) != NULL;
#define FREE(field, count) free(w->field);

static bool make_room(walk_t *w)
{
    const ebb_plan_t *p = w->plan;
    const size_t cells = (size_t)p->chunk_count + p->place_count;
    bool good = true;
    ROOMS(MAKE)
    return good;
}

static void clean_up(walk_t *w)
{
    ROOMS(FREE)
    free(w->changed);
    free(w->stack);
}

bool ebb_check_walk(const facts_t *facts, const ebb_plan_t *plan, char *why, size_t why_bytes)
{
    walk_t w = {.facts = facts, .trace = facts->trace, .plan = plan, .why = why, .why_bytes = why_bytes};
    w.streams = ebb_plan_streams(facts->trace);
    w.width = w.streams + 2;
    w.step = 1;
    w.action = EBB_NONE;
    bool good = make_room(&w) || ebb_check_fails(&w, EBB_FAULT_MEMORY, "no memory");
    if (good) {
        list_joins(&w);
        good = ebb_contents_begin(&w);
    }
    for (; good && w.step <= steps_to_walk(facts); w.step++)
        good = walk_step(&w);
    clean_up(&w);
    return good;
}

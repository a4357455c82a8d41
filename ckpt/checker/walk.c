/* walk.c: two periods of a plan, in the order of issue; see internal.h. A period is one step, unless buffers go
 * round (trace.h: next); then it is as many as it takes until all are in their own places again.
 *
 * Why two are enough. Waits and joins reach back one step at most, the same accesses come in every step, and
 * each stream is in order, and all of the program's wait for each other when a step begins: so a conflict over more than one
 * step is ordered if the same conflict over one step is. With rings the same accesses come in every period, and what holds for steps holds for periods. What the second step
 * finds at its beginning is what every later one finds, or less; and less than what the first one finds it never is, as every
 * step's end is compared with `at_start`.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/checker/internal.h"

bool ebb_check_fails(walk_t *w, const char *format, ...)
{
    int n;
    if (w->action != EBB_NONE)
        n = snprintf(w->why, w->why_bytes, "step %u, point %u, action %u (%s): ", w->step, w->point,
                     w->action, ebb_action_word[w->plan->action[w->action].kind]);
    else
        n = snprintf(w->why, w->why_bytes, "step %u, operation %u: ", w->step, w->point);
    va_list args;
    va_start(args, format);
    if (n > 0 && (size_t)n < w->why_bytes)
        vsnprintf(w->why + n, w->why_bytes - (size_t)n, format, args);
    va_end(args);
    return false;
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
        return ebb_check_small(w, actor, w->at[u->buffer], u->mode != EBB_READS);
    if (u->mode != EBB_READS)
        return ebb_check_fails(w, "operation %u writes small buffer %u and is not redirected",
                               w->plan->action[w->action].operation, u->buffer);
    if (!is_persistent(w->trace, u->buffer) && (b->born > w->point || b->dies <= w->point))
        return ebb_check_fails(w, "small buffer %u is not alive", u->buffer);
    if (w->current[u->buffer] != u->before)
        return ebb_check_fails(w, "small buffer %u is not what operation %u read", u->buffer,
                               w->plan->action[w->action].operation);
    return ebb_check_small(w, actor, w->at[u->buffer], false);
}

static bool read_one(walk_t *w, actor_t actor, const touch_t *u)
{
    bool undefined = is_undefined(w->facts, u->before);
    if (u->mode == EBB_REPLACES)
        return !is_at_home(w, u->buffer) || check_small(w, actor, u);
    if (undefined && actor.is_plan)
        return ebb_check_fails(w,
                               "operation %u read buffer %u before it was written: that cannot be replayed",
                               w->plan->action[w->action].operation, u->buffer);
    if (is_at_home(w, u->buffer))
        return check_small(w, actor, u);
    const uint32_t place = target_of(w, u->buffer);
    if (!undefined && !ebb_check_holds(w, place, u->before))
        return false;
    return u->mode == EBB_UPDATES || ebb_check_read(w, actor, place); /* else the write of it is in order */
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
    ebb_check_drop_host(w, place);
    return ebb_check_write(w, actor, place, u->after);
}

/* After a launch everything it touched must still be there: no two of its places share a chunk. */
static bool check_apart(walk_t *w, const touch_t *u)
{
    if (is_at_home(w, u->buffer) || (u->mode == EBB_READS && is_undefined(w->facts, u->before)))
        return true;
    uint32_t place = target_of(w, u->buffer);
    return w->place[place].content == u->after ||
           ebb_check_fails(w, "place %u shares chunks with another one of the same launch", place);
}

static bool launch(walk_t *w, uint32_t operation)
{
    const facts_t *f = w->facts;
    uint32_t first = f->first_touch[operation], end = f->first_touch[operation + 1];
    const actor_t actor = launcher(w, operation);
    ebb_check_tick(w, actor.stream);
    if (w->trace->operation[operation].resident && !ebb_check_resident(w, actor.stream))
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
                ebb_reach_join(w, now_of(w, s), done_of(w, joins->item[i]));
    ebb_recovery_issue(w);
    return launch(w, w->point);
}

static bool replay(walk_t *w, const ebb_action_t *a)
{
    const ebb_redirect_t *r = w->plan->redirect + a->first_redirect;
    if (a->operation >= w->issued)
        return ebb_check_fails(w, "operation %u has not run yet in this step", a->operation);
    if (!w->trace->operation[a->operation].proofs)
        return ebb_check_fails(w, "operation %u has no proofs", a->operation);
    for (uint32_t i = 0; i < a->redirect_count; i++)
        w->redirect[r[i].buffer] = r[i].place;
    ebb_reach_join_streams(w, now_of(w, a->stream), a->after);
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
    ebb_reach_join_streams(w, now, a->after);
    for (uint32_t i = 0; i < a->wait_count; i++)
        ebb_reach_join(w, now, done_of(w, w->plan->wait[a->first_wait + i]));
    ebb_check_tick(w, stream);
    const uint32_t place = place_now(w, a->place);
    if (!(out ? ebb_check_evict(w, place) : ebb_check_fetch(w, place)))
        return false;
    if (!out)
        note_written(w, place);
    memcpy(done_of(w, w->action), now, w->width * sizeof *now);
    return ebb_recovery_check(w);
}

static bool order(walk_t *w, const ebb_action_t *a)
{
    ebb_reach_join_streams(w, now_of(w, a->stream), a->after);
    return true;
}

static bool discard(walk_t *w, uint32_t place)
{
    const uint32_t content = w->place[place].content;
    const uint32_t buffer = place < w->plan->buffer_count ? w->of[place] : EBB_NONE;
    if (content == EBB_NONE)
        return ebb_check_fails(w, "a discard of a place that holds nothing");
    if (buffer != EBB_NONE && w->alive[buffer] && content != w->current[buffer])
        return ebb_check_fails(
            w, "a discard of what live buffer %u was: it may stay there and be taken for what it is", buffer);
    w->place[place].given_up = true;
    ebb_check_drop(w, place);
    return ebb_recovery_check(w);
}

/* The place of a live buffer holds what the program left in it, or nothing: falling back takes it for that.
 */
static bool check_written(walk_t *w)
{
    for (uint32_t i = 0; i < w->written_count; i++) {
        uint32_t place = w->written[i], content = w->place[place].content;
        uint32_t buffer = place < w->plan->buffer_count ? w->of[place] : EBB_NONE;
        w->place[place].noted = false;
        if (buffer != EBB_NONE && w->alive[buffer] && content != EBB_NONE && content != w->current[buffer])
            return ebb_check_fails(w, "the place of live buffer %u is left with something else in it", place);
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

/* ---- lives ---- */

static bool free_and_allocate(walk_t *w)
{
    const facts_t *f = w->facts;
    for (uint32_t i = f->deaths.first[w->point]; i < f->deaths.first[w->point + 1]; i++) {
        uint32_t b = f->deaths.item[i];
        w->alive[b] = false;
        ebb_recovery_note(w, w->current[b]);
    }
    for (uint32_t i = f->births.first[w->point]; i < f->births.first[w->point + 1]; i++) {
        uint32_t b = f->births.item[i];
        w->alive[b] = w->trace->buffer[b].dies > w->point;
        w->current[b] = f->first_content[b];
        ebb_check_drop(w, w->at[b]);
        ebb_check_drop_host(w, w->at[b]);
    }
    return ebb_recovery_check(w);
}

/* ---- what the program orders ---- */

static void meet(walk_t *w)
{
    for (uint32_t s = 1; s < w->streams; s++)
        ebb_reach_join(w, now_of(w, 0), now_of(w, s));
    for (uint32_t s = 1; s < w->streams; s++)
        ebb_reach_join(w, now_of(w, s), now_of(w, 0));
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
            ebb_reach_join(w, now_of(w, m->stream), event);
    }
}

/* ---- steps ---- */

static uint32_t last_content(const facts_t *f, uint32_t buffer)
{
    return f->first_content[buffer + 1] - 1;
}

static bool check_end(walk_t *w)
{
    for (uint32_t b = 0; b < w->plan->buffer_count; b++) {
        const holding_t *h = &w->place[w->at[b]];
        if (w->trace->buffer[b].dies != EBB_NONE || !is_large(w->trace, b) ||
            is_undefined(w->facts, last_content(w->facts, b)))
            continue;
        ebb_start_t start = w->plan->place[ebb_trace_next(w->trace, b)].at_start;
        if ((start == EBB_ON_DEVICE ? h->content : h->host_content) != last_content(w->facts, b))
            return ebb_check_fails(w, "the step ends without buffer %u on the %s, where it begins", b,
                                   start == EBB_ON_DEVICE ? "device" : "host");
    }
    return true;
}

/* The same content under its number in the next step. */
static uint32_t carry_over(const facts_t *f, uint32_t content)
{
    if (content == EBB_NONE)
        return content;
    uint32_t b = f->owner[content];
    return f->trace->buffer[b].dies == EBB_NONE && content == last_content(f, b)
               ? f->first_content[ebb_trace_next(f->trace, b)]
               : EBB_NONE;
}

static void turn_rings(walk_t *w)
{
    uint32_t buffers = w->plan->buffer_count;
    memcpy(w->before, w->at, buffers * sizeof *w->at);
    for (uint32_t b = 0; b < buffers; b++)
        w->at[b] = w->before[w->facts->whose[b]];
    for (uint32_t b = 0; b < buffers; b++)
        w->of[w->at[b]] = b;
}

static void begin_step(walk_t *w)
{
    const facts_t *f = w->facts;
    for (uint32_t i = 0; i < w->plan->place_count; i++) {
        w->place[i].content = carry_over(f, w->place[i].content);
        w->place[i].host_content = carry_over(f, w->place[i].host_content);
    }
    turn_rings(w);
    for (uint32_t b = 0; b < w->plan->buffer_count; b++) {
        w->current[b] = f->first_content[b];
        w->alive[b] = is_persistent(w->trace, b);
    }
    ebb_recovery_begin(w);
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
        if (!free_and_allocate(w))
            return false;
        record_and_wait(w);
        if (!act(w, &next) || !issue_operation(w))
            return false;
    }
    return act(w, &next) && free_and_allocate(w) && check_end(w);
}

/* A buffer that is there when the step begins is where `at_start` says. */
static bool begin_with(walk_t *w, uint32_t buffer)
{
    const ebb_place_t *place = &w->plan->place[ebb_trace_next(w->trace, buffer)];
    holding_t *h = &w->place[w->at[buffer]];
    if (place->at_start == EBB_ON_HOST) {
        h->host_content = last_content(w->facts, buffer);
        return true;
    }
    h->content = last_content(w->facts, buffer);
    place = &w->plan->place[w->at[buffer]];
    for (uint32_t i = 0; i < place->chunk_count; i++) {
        uint32_t *owner = &w->owner[w->plan->chunk[place->first_chunk + i]];
        if (*owner != EBB_NONE)
            return ebb_check_fails(w, "places %u and %u share a chunk when the step begins", *owner,
                                   w->at[buffer]);
        *owner = w->at[buffer];
    }
    return true;
}

/* Where a step has ended that was as all are, everything long done. In the first step every buffer is in its own place. */
static bool begin_walk(walk_t *w)
{
    const ebb_plan_t *p = w->plan;
    for (uint32_t i = 0; i < p->chunk_count; i++)
        w->owner[i] = EBB_NONE;
    for (uint32_t i = 0; i < p->place_count; i++) {
        w->place[i] = (holding_t){.content = EBB_NONE, .host_content = EBB_NONE};
        w->owner[p->chunk_count + i] = i;
    }
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        w->redirect[b] = EBB_NONE;
        w->at[w->facts->whose[b]] = b;
    }
    for (uint32_t b = 0; b < p->buffer_count; b++)
        if (w->trace->buffer[b].dies == EBB_NONE && is_large(w->trace, b) && !begin_with(w, b))
            return false;
    return true;
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

static bool make_room(walk_t *w)
{
    const ebb_plan_t *p = w->plan;
    size_t one = 1;
    w->at = calloc(p->buffer_count + one, sizeof *w->at);
    w->before = calloc(p->buffer_count + one, sizeof *w->before);
    w->of = calloc(p->buffer_count + one, sizeof *w->of);
    w->place = calloc(p->place_count + one, sizeof *w->place);
    const size_t cells = p->chunk_count + p->place_count + one, reach = w->width * sizeof(uint32_t);
    w->owner = calloc(cells, sizeof *w->owner);
    w->cell = calloc(cells, CELL_REACHES * reach);
    w->now = calloc(w->width, reach);
    w->resident = calloc(w->width, sizeof *w->resident);
    w->handed = calloc(w->width, sizeof *w->handed);
    w->done = calloc(p->action_count + one, reach);
    w->event = calloc((w->streams > 1 ? w->trace->sync_count : 0) + one, reach);
    w->current = calloc(p->buffer_count + one, sizeof *w->current);
    w->alive = calloc(p->buffer_count + one, sizeof *w->alive);
    w->joins.first = calloc(p->operation_count + 2 * one, sizeof *w->joins.first);
    w->joins.item = calloc(p->action_count + one, sizeof *w->joins.item);
    w->recoverable = calloc(w->facts->content_count + one, sizeof *w->recoverable);
    w->lacking = calloc(p->operation_count + one, sizeof *w->lacking);
    w->written = calloc(p->place_count + one, sizeof *w->written);
    w->redirect = calloc(p->buffer_count + one, sizeof *w->redirect);
    return w->at && w->before && w->of && w->place && w->owner && w->cell && w->now && w->resident &&
           w->handed && w->done && w->event && w->current && w->alive && w->joins.first && w->joins.item &&
           w->recoverable && w->lacking && w->written && w->redirect;
}

static void clean_up(walk_t *w)
{
    free(w->at);
    free(w->before);
    free(w->of);
    free(w->place);
    free(w->owner);
    free(w->cell);
    free(w->now);
    free(w->resident);
    free(w->handed);
    free(w->event);
    free(w->done);
    free(w->current);
    free(w->alive);
    free(w->joins.first);
    free(w->joins.item);
    free(w->recoverable);
    free(w->lacking);
    free(w->changed);
    free(w->stack);
    free(w->written);
    free(w->redirect);
}

bool ebb_check_walk(const facts_t *facts, const ebb_plan_t *plan, char *why, size_t why_bytes)
{
    walk_t w = {.facts = facts, .trace = facts->trace, .plan = plan, .why = why, .why_bytes = why_bytes};
    w.streams = ebb_plan_streams(facts->trace);
    w.width = w.streams + 2;
    w.step = 1;
    w.action = EBB_NONE;
    bool good = make_room(&w) || ebb_check_fails(&w, "no memory");
    if (good) {
        list_joins(&w);
        good = begin_walk(&w);
    }
    for (; good && w.step <= steps_to_walk(facts); w.step++)
        good = walk_step(&w);
    clean_up(&w);
    return good;
}

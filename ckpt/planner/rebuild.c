/* rebuild.c: bringing contents back: fetches, and replays with everything that they need and write
 * beside.
 *
 * A content is rebuilt by replaying its producer. What the producer reads is brought first, by further
 * replays where it must be. What it updates is rebuilt as it was before, in the same place; so is the content
 * itself if the producer updates it. What it writes beside goes to its own place if that content has been
 * dropped and will be needed (one replay then serves both), else to a scratch place. */
#include "ckpt/planner/internal.h"

#include <string.h>

enum {
    DEEPEST = 1500,
    REPLAYS_PER_OPERATION = 6,
    MOST_REPLAYS = 1 << 20
}; /* the last: of a fixed strategy */

static bool is_scratch(const ebb_planner_walk_t *w, uint32_t place)
{
    return place >= w->model->trace->buffer_count;
}

void ebb_planner_touch(ebb_planner_walk_t *w, uint32_t buffer, uint32_t position)
{
    ebb_buffer_state_t *s = &w->state[buffer];
    if (s->fresh)
        s->begin = position;
    s->last = position;
    s->fresh = false;
    ebb_planner_rank(w, buffer);
}

void ebb_planner_move(ebb_planner_walk_t *w, ebb_action_kind_t kind, uint32_t place, uint32_t position)
{
    ebb_schedule_t *s = w->schedule;
    ebb_move_t *move = ebb_array_append((void **)&s->move, &s->move_count, &s->move_room, sizeof *s->move);
    if (move)
        *move = (ebb_move_t){.kind = kind, .place = place, .position = position};
    w->failed |= !move;
}

void ebb_planner_add_interval(ebb_planner_walk_t *w, ebb_interval_t interval)
{
    ebb_schedule_t *s = w->schedule;
    ebb_interval_t *new =
        ebb_array_append((void **)&s->interval, &s->interval_count, &s->interval_room, sizeof *s->interval);
    if (new)
        *new = interval;
    w->failed |= !new;
}

void ebb_planner_admit(ebb_planner_walk_t *w, uint32_t buffer, uint32_t content, uint32_t first)
{
    uint32_t chunks = w->model->buffer[buffer].chunks;
    ebb_buffer_state_t *s = &w->state[buffer];
    ebb_planner_make_way(w, buffer);
    ebb_planner_make_room(w, chunks, w->point);
    w->used_chunks += chunks;
    s->content = content;
    s->first = s->last = first;
    s->fetch = EBB_NONE;
    s->index = w->resident_count;
    w->resident[w->resident_count++] = buffer;
}

bool ebb_planner_may_spare(const ebb_planner_walk_t *w, uint32_t buffer)
{
    return w->model->request->hardware.clean > 0 && !w->params->anew &&
           !w->model->trace->buffer[buffer].changes;
}

void ebb_planner_fetch(ebb_planner_walk_t *w, uint32_t buffer, uint32_t position)
{
    ebb_planner_admit(w, buffer, w->state[buffer].host, position);
    /* Without a check on the device the copy is not used again, even if nothing is seen to write the buffer: equality has proven
     * nothing. */
    if (!ebb_planner_may_spare(w, buffer))
        w->state[buffer].host = EBB_NONE;
    ebb_planner_not_away(w, buffer);
    w->state[buffer].fetch = w->schedule->move_count;
    w->state[buffer].fresh = true;
    ebb_planner_move(w, EBB_FETCH, buffer, position);
}

static uint32_t new_scratch(ebb_planner_walk_t *w, uint32_t buffer)
{
    ebb_schedule_t *s = w->schedule;
    ebb_scratch_t *scratch =
        ebb_array_append((void **)&s->scratch, &s->scratch_count, &s->scratch_room, sizeof *s->scratch);
    if (!scratch) {
        w->failed = true;
        return 0;
    }
    scratch->bytes = w->model->trace->buffer[buffer].bytes;
    scratch->chunks = ebb_model_chunks(w->model->trace, scratch->bytes);
    return w->model->trace->buffer_count + s->scratch_count - 1;
}

/* Chunks for a scratch place; its interval begins with the next event. Pinned by nature: it is not given up. */
static void take_scratch(ebb_planner_walk_t *w, uint32_t place)
{
    uint32_t chunks = ebb_place_chunks(w->schedule, w->model, place);
    ebb_planner_make_room(w, chunks, w->point);
    w->used_chunks += chunks;
    ebb_planner_add_interval(
        w, (ebb_interval_t){
               .place = place, .first = ebb_planner_position(w), .fetch = EBB_NONE, .evict = EBB_NONE});
}

static void push_redirect(ebb_planner_walk_t *w, uint32_t buffer, uint32_t place)
{
    ebb_redirect_t *r =
        ebb_array_append((void **)&w->redirect, &w->redirect_count, &w->redirect_room, sizeof *w->redirect);
    if (r)
        *r = (ebb_redirect_t){buffer, place};
    w->failed |= !r;
}

/* Whether what a replay writes to `buffer` is what the buffer should hold and doesn't. */
static bool is_missing(const ebb_planner_walk_t *w, uint32_t buffer, uint32_t content)
{
    const ebb_buffer_state_t *s = &w->state[buffer];
    return w->model->buffer[buffer].movable && s->content == EBB_NONE && s->program == content &&
           s->host != content && ebb_planner_needed(w, buffer);
}

static void rebuild_at(ebb_planner_walk_t *w, uint32_t content, uint32_t place);

/* An input of a replay: resident and pinned. */
static void bring_input(ebb_planner_walk_t *w, const ebb_touch_t *x)
{
    ebb_buffer_state_t *s = &w->state[x->buffer];
    if (!w->model->buffer[x->buffer].chunks)
        return;
    if (s->content == EBB_NONE && s->host == x->before) {
        if (w->last_operation == EBB_NONE)
            w->failed = true;
        else
            ebb_planner_fetch(w, x->buffer, w->last_operation);
    } else if (s->content == EBB_NONE) {
        rebuild_at(w, x->before, x->buffer);
    }
    w->failed |= s->content != x->before;
    s->pins++;
}

/* Where a replay writes one of its outputs, with what must be there before. */
static void prepare_output(ebb_planner_walk_t *w, const ebb_touch_t *x, uint32_t wanted,
                           uint32_t wanted_place)
{
    uint32_t place = x->after == wanted                   ? wanted_place
                     : is_missing(w, x->buffer, x->after) ? x->buffer
                                                          : EBB_NONE;
    if (place == EBB_NONE)
        place = new_scratch(w, x->buffer);
    if (w->failed)
        return;
    if (x->mode == EBB_UPDATES)
        rebuild_at(w, x->before, place);
    else if (is_scratch(w, place))
        take_scratch(w, place);
    else
        ebb_planner_admit(w, place, x->after, EBB_NONE);
    if (is_scratch(w, place))
        push_redirect(w, x->buffer, place);
    else
        w->state[place].pins++;
}

/* The place of an output while its replay is being prepared. */
static uint32_t place_of(const ebb_planner_walk_t *w, uint32_t buffer, uint32_t base)
{
    for (uint32_t i = base; i < w->redirect_count; i++)
        if (w->redirect[i].buffer == buffer)
            return w->redirect[i].place;
    return buffer;
}

static void add_replay(ebb_planner_walk_t *w, uint32_t operation, uint32_t base)
{
    ebb_schedule_t *s = w->schedule;
    ebb_event_t *event =
        ebb_array_append((void **)&s->event, &s->event_count, &s->event_room, sizeof *s->event);
    if (!event) {
        w->failed = true;
        return;
    }
    *event = (ebb_event_t){operation, w->point, true, s->redirect_count, w->redirect_count - base};
    for (uint32_t i = base; i < w->redirect_count; i++) {
        ebb_redirect_t *r = ebb_array_append((void **)&s->redirect, &s->redirect_count, &s->redirect_room,
                                             sizeof *s->redirect);
        if (r)
            *r = w->redirect[i];
        w->failed |= !r;
    }
    s->replay_ns += w->model->trace->operation[operation].duration_ns;
    const uint32_t most =
        w->params->fixed ? MOST_REPLAYS : REPLAYS_PER_OPERATION * w->model->trace->operation_count;
    w->failed |= ++w->replays > most || s->replay_ns >= w->params->most_replay_ns;
}

/* The end of a scratch place's interval, if it isn't the one that the caller wants. */
static void release_scratch(ebb_planner_walk_t *w, uint32_t place, uint32_t position, bool done)
{
    ebb_schedule_t *s = w->schedule;
    for (uint32_t i = s->interval_count; i-- > 0;)
        if (s->interval[i].place == place) {
            s->interval[i].last = position;
            break;
        }
    if (done)
        w->used_chunks -= ebb_place_chunks(s, w->model, place);
}

/* Replays a content's producer, after everything it needs, with the content going to `place`: its buffer's
 * own or scratch. The place is resident afterwards and not pinned. */
static void rebuild_at(ebb_planner_walk_t *w, uint32_t content, uint32_t place)
{
    const ebb_model_t *m = w->model;
    uint32_t operation = m->content[content].producer, base = w->redirect_count;
    if (operation == EBB_NONE || w->depth >= DEEPEST || w->point > m->content[content].rebuild)
        w->failed = true;
    if (w->failed)
        return;
    w->depth++;
    uint32_t from = m->first_touch[operation], to = m->first_touch[operation + 1];
    for (uint32_t k = from; k < to; k++)
        if (m->touch[k].mode == EBB_READS && !w->failed)
            bring_input(w, &m->touch[k]);
    for (uint32_t round = 0; round < 2; round++) /* what is updated first: it takes replays of its own */
        for (uint32_t k = from; k < to; k++)
            if (m->touch[k].mode == (round ? EBB_REPLACES : EBB_UPDATES) && !w->failed)
                prepare_output(w, &m->touch[k], content, place);
    uint32_t position = ebb_planner_position(w);
    if (!w->failed)
        add_replay(w, operation, base);
    for (uint32_t k = from; k < to && !w->failed; k++) {
        const ebb_touch_t *x = &m->touch[k];
        uint32_t at = place_of(w, x->buffer, base);
        if (is_scratch(w, at)) {
            release_scratch(w, at, position, at != place);
        } else if (m->buffer[x->buffer].chunks) {
            ebb_buffer_state_t *s = &w->state[at];
            s->content = x->after;
            if (s->first == EBB_NONE)
                s->first = position;
            ebb_planner_touch(w, at, position);
            s->pins--;
        }
    }
    for (uint32_t k = from; k < to && w->params->fates && !w->failed; k++)
        if (m->buffer[m->touch[k].buffer].chunks && m->touch[k].buffer != place)
            ebb_planner_let_go(w, m->touch[k].buffer);
    w->redirect_count = base;
    w->depth--;
}

void ebb_planner_rebuild(ebb_planner_walk_t *w, uint32_t content)
{
    w->replaying = true;
    rebuild_at(w, content, w->model->content[content].buffer);
    w->replaying = false;
}

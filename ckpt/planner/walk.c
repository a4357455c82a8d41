/* walk.c: the step in one walk under a limit of chunks: whenever memory runs out, something is given
 * up; whatever is needed is brought back. What may be given up can always be brought back (model.c
 * knows how long a recipe is good), so that the walk ends with a schedule, above the limit only where an
 * operation and what it takes to prepare it need more. */
#include "ckpt/planner/internal.h"

#include <stdlib.h>
#include <string.h>

void ebb_schedule_delete(ebb_schedule_t *s)
{
    free(s->event);
    free(s->move);
    free(s->interval);
    free(s->scratch);
    free(s->redirect);
    free(s->on_host);
    *s = (ebb_schedule_t){0};
}

static void add_operation(ebb_planner_walk_t *w)
{
    ebb_schedule_t *s = w->schedule;
    ebb_event_t *event =
        ebb_array_append((void **)&s->event, &s->event_count, &s->event_room, sizeof *s->event);
    if (event)
        *event = (ebb_event_t){.operation = w->point, .point = w->point};
    w->failed |= !event;
}

/* One input of the operation, if its turn is in this round: replays come before fetches, which a replay must
 * not wait for. Resident afterwards and pinned once. */
static void bring_input(ebb_planner_walk_t *w, const ebb_touch_t *x, bool replays)
{
    ebb_buffer_state_t *s = &w->state[x->buffer];
    bool on_host = s->host == x->before, fresh = w->model->content[x->before].producer == EBB_NONE;
    if (s->content == EBB_NONE && replays == (on_host || fresh))
        return;
    if (s->content == EBB_NONE && on_host)
        ebb_planner_fetch(w, x->buffer, ebb_planner_position(w));
    else if (s->content == EBB_NONE && fresh)
        ebb_planner_admit(w, x->buffer, x->before,
                          ebb_planner_position(w)); /* whatever an allocation holds */
    else if (s->content == EBB_NONE)
        ebb_planner_rebuild(w, x->before);
    if (!s->pins)
        s->pins = 1;
}

/* What the operation reads or updates becomes resident. */
static void bring_inputs(ebb_planner_walk_t *w, uint32_t from, uint32_t to)
{
    const ebb_model_t *m = w->model;
    for (uint32_t k = from; k < to; k++)
        if (w->state[m->touch[k].buffer].content != EBB_NONE && m->touch[k].mode != EBB_REPLACES)
            w->state[m->touch[k].buffer].pins = 1;
    for (int round = 0; round < 2; round++)
        for (uint32_t k = from; k < to && !w->failed; k++)
            if (m->buffer[m->touch[k].buffer].chunks && m->touch[k].mode != EBB_REPLACES)
                bring_input(w, &m->touch[k], round == 0);
}

/* Places for what the operation replaces, unless it is resident. */
static void admit_outputs(ebb_planner_walk_t *w, uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k < to && !w->failed; k++) {
        const ebb_touch_t *x = &w->model->touch[k];
        if (x->mode != EBB_REPLACES || !w->model->buffer[x->buffer].chunks)
            continue;
        if (w->state[x->buffer].content == EBB_NONE)
            ebb_planner_admit(w, x->buffer, x->after, ebb_planner_position(w));
        w->state[x->buffer].pins++;
    }
}

/* Fetches that must begin now to be in time, as far as there is room for them. */
static void prefetch(ebb_planner_walk_t *w)
{
    for (uint32_t buffer; (buffer = ebb_planner_due(w)) != EBB_NONE && !w->failed;) {
        uint32_t chunks = w->model->buffer[buffer].chunks;
        if (!ebb_planner_has_way(w, buffer))
            return;
        ebb_planner_make_room(w, chunks, ebb_planner_next(w, buffer)->operation);
        if (w->used_chunks + chunks > w->params->target_chunks)
            return;
        ebb_planner_fetch(w, buffer, ebb_planner_position(w));
    }
}

/* The operation itself: versions go on, and what goes back to the host after its last use goes at once. */
static void issue(ebb_planner_walk_t *w, uint32_t from, uint32_t to)
{
    const ebb_model_t *m = w->model;
    uint32_t position = ebb_planner_position(w);
    w->position_of[w->point] = position;
    add_operation(w);
    for (uint32_t k = from; k < to && !w->failed; k++) {
        const ebb_touch_t *x = &m->touch[k];
        ebb_buffer_state_t *s = &w->state[x->buffer];
        s->program = x->after;
        s->next++;
        const ebb_use_t *next = ebb_planner_next(w, x->buffer);
        s->next_operation = next ? next->operation : EBB_NONE;
        if (!m->buffer[x->buffer].chunks)
            continue;
        s->content = x->after;
        s->pins = 0;
        ebb_planner_touch(w, x->buffer, position);
        if (w->schedule->on_host[x->buffer] && s->next == m->buffer[x->buffer].use_count)
            ebb_planner_end_interval(w, x->buffer, EBB_OFFLOAD);
    }
    w->last_operation = position;
    for (uint32_t k = from; k < to && w->params->fates; k++)
        if (m->buffer[m->touch[k].buffer].chunks)
            ebb_planner_let_go(w, m->touch[k].buffer);
}

static void begin(ebb_planner_walk_t *w)
{
    const ebb_model_t *m = w->model;
    double step = (double)m->begin_ns[m->trace->operation_count];
    ebb_calendar_clear(&w->out, step);
    ebb_calendar_clear(&w->in, step);
    for (uint32_t i = 0; i < m->trace->buffer_count; i++) {
        const ebb_model_buffer_t *b = &m->buffer[i];
        ebb_buffer_state_t *s = &w->state[i];
        s->content = s->host = s->last = s->fetch = s->away = s->rank = s->due = EBB_NONE;
        s->program = b->first_content;
        s->next_operation = b->use_count ? m->use[b->first_use].operation : EBB_NONE;
        if (!b->persistent || !b->chunks)
            continue;
        if (!w->schedule->on_host[i]) {
            ebb_planner_make_way(w, i);
            w->used_chunks += b->chunks;
            s->content = s->program;
            s->index = w->resident_count;
            w->resident[w->resident_count++] = i;
            ebb_planner_rank(w, i);
            continue;
        }
        s->host = s->program;
        s->has_block = true;
        w->host_bytes += m->trace->buffer[i].bytes;
        const ebb_use_t *next = ebb_planner_next(w, i);
        if (!next)
            continue;
        const ebb_use_t *last = &m->use[b->first_use + b->use_count - 1];
        if (b->content_count > 1 || !ebb_planner_may_spare(w, i))
            ebb_calendar_take_after(&w->out, (double)m->begin_ns[last->operation + 1],
                                    (double)ebb_model_transfer_ns(m, i, false));
        if (next->mode == EBB_REPLACES)
            continue;
        s->fetch_ns = ebb_calendar_take_before(&w->in, (double)m->begin_ns[next->operation],
                                               (double)ebb_model_transfer_ns(m, i, true));
        ebb_planner_await(w, i);
    }
}

/* What is freed at this point has stayed until now. Its place may keep it, for recipes, as long as nothing
 * wants the chunks. */
static void free_dead(ebb_planner_walk_t *w, uint32_t *next)
{
    const ebb_model_t *m = w->model;
    for (; *next < m->trace->buffer_count; ++*next) {
        const uint32_t buffer = w->death[*next];
        if (m->buffer[buffer].persistent || m->trace->buffer[buffer].dies > w->point)
            break;
        ebb_buffer_state_t *s = &w->state[buffer];
        s->dead = true;
        s->host = EBB_NONE;
        if (s->content != EBB_NONE && ebb_planner_position(w))
            s->last = ebb_planner_position(w) - 1;
        if (s->content != EBB_NONE)
            ebb_planner_rank(w, w->death[*next]);
    }
}

/* Ends all intervals: what outlives the step stays up to its end. An evicted place is not free for the replays at
 * the point of its evict: they are issued before compute can wait for it. */
static void end(ebb_planner_walk_t *w)
{
    const ebb_model_t *m = w->model;
    ebb_schedule_t *s = w->schedule;
    while (w->resident_count) {
        uint32_t buffer = w->resident[w->resident_count - 1];
        ebb_buffer_state_t *state = &w->state[buffer];
        /* What begins the step on the host goes there, though a replay has brought it back since its last use. */
        const bool goes = m->buffer[buffer].persistent && s->on_host[buffer];
        if (m->buffer[buffer].persistent && !goes)
            state->last = s->event_count ? s->event_count - 1 : 0;
        ebb_planner_end_interval(w, buffer, goes ? EBB_OFFLOAD : EBB_FORGET);
    }
    for (uint32_t i = 0; i < m->trace->buffer_count; i++)
        if (m->buffer[i].persistent && m->buffer[i].chunks && s->on_host[i])
            w->failed |= w->state[i].host != w->state[i].program;
    for (uint32_t i = 0; i < s->interval_count; i++) {
        ebb_interval_t *interval = &s->interval[i];
        if (interval->evict == EBB_NONE)
            continue;
        uint32_t next = interval->last + 1;
        const uint32_t issued = s->move[interval->evict].position,
                       point = issued < s->event_count ? s->event[issued].point : EBB_NONE;
        while (next < s->event_count && s->event[next].replay && s->event[next].point == point)
            next++;
        interval->last = next - 1;
    }
}

static void walk_once(ebb_planner_walk_t *w)
{
    const ebb_model_t *m = w->model;
    ebb_fates_t *const fates = w->params->fates ? w->params->fates : w->params->advice;
    if (fates) {
        fates->stage = EBB_NONE;
        fates->chunks = w->params->fates_chunks;
    }
    uint32_t next_death = 0;
    begin(w);
    for (w->point = 0; w->point < m->trace->operation_count && !w->failed; w->point++) {
        uint32_t from = m->first_touch[w->point], to = m->first_touch[w->point + 1];
        free_dead(w, &next_death);
        if (fates && ebb_fates_turn(fates, w->point)) {
            if (w->params->fates)
                ebb_planner_let_all_go(w);
            for (uint32_t i = 0; w->params->advice && i < w->resident_count; i++)
                ebb_planner_rank(w, w->resident[i]);
        }
        bring_inputs(w, from, to);
        ebb_planner_make_room(w, 0, w->point);
        admit_outputs(w, from, to);
        prefetch(w);
        if (!w->failed)
            issue(w, from, to);
    }
    free_dead(w, &next_death);
    if (!w->failed)
        end(w);
}

/* The buffers by the points at which they are freed. NULL: no memory. */
static uint32_t *deaths_of(const ebb_model_t *m)
{
    const ebb_trace_t *t = m->trace;
    uint32_t *death = malloc(((size_t)t->buffer_count + 1) * sizeof *death);
    uint32_t *first = calloc((size_t)t->operation_count + 3, sizeof *first);
    if (!death || !first) {
        free(death);
        free(first);
        return NULL;
    }
    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t i = 0; i < t->buffer_count; i++) {
            const bool stays = m->buffer[i].persistent;
            uint32_t dies = stays ? t->operation_count + 1 : t->buffer[i].dies;
            if (fill)
                death[first[dies]++] = i;
            else
                first[dies + 1]++;
        }
        for (uint32_t i = 0; !fill && i <= t->operation_count; i++)
            first[i + 1] += first[i];
    }
    free(first);
    return death;
}

/* What must be on the host when the step begins. That the rest stays on the device is offload_price's business. */
static void agree(ebb_schedule_t *s, const ebb_model_t *m)
{
    const ebb_boundary_t *b = m->request->boundary;
    for (uint32_t i = 0; b && i < m->trace->buffer_count; i++)
        s->on_host[i] = m->buffer[i].chunks && b->start[i] == EBB_ON_HOST;
}

bool ebb_schedule_walk(ebb_schedule_t *s, const ebb_model_t *m, const ebb_search_params_t *params)
{
    enum { ROUNDS = 4, SEARCHES = 64 };
    size_t buffers = (size_t)m->trace->buffer_count + 1, operations = (size_t)m->trace->operation_count + 1;
    ebb_planner_walk_t w = {.model = m, .params = params, .schedule = s};
    w.state = malloc(buffers * sizeof *w.state);
    w.resident = malloc(buffers * sizeof *w.resident);
    w.away = malloc(buffers * sizeof *w.away);
    w.ranking = malloc(buffers * sizeof *w.ranking);
    w.due = malloc(operations * sizeof *w.due);
    w.waiting = malloc(buffers * sizeof *w.waiting);
    w.death = deaths_of(m);
    w.seen = malloc(operations * sizeof *w.seen);
    w.position_of = malloc(operations * sizeof *w.position_of);
    free(s->on_host);
    s->on_host = calloc(buffers, sizeof *s->on_host);
    if (s->on_host)
        agree(s, m);
    const uint32_t given = m->request->boundary ? m->request->boundary->chunk_count : 0;
    w.owner = malloc(((size_t)given + 1) * sizeof *w.owner);
    bool good = w.owner && w.state && w.resident && w.away && w.ranking && w.due && w.waiting && w.death &&
                w.seen && w.position_of && s->on_host;
    for (int round = 0; good && round < ROUNDS; round++) {
        memset(w.state, 0, buffers * sizeof *w.state);
        memset(w.seen, 0, operations * sizeof *w.seen);
        memset(w.owner, 0xff, ((size_t)given + 1) * sizeof *w.owner);
        memset(w.due, 0xff, operations * sizeof *w.due);
        w.resident_count = w.rank_count = w.away_count = w.awaited_count = w.redirect_count = w.seen_stamp =
            0;
        w.used_chunks = w.replays = w.depth = w.next_due = w.waiting_count = 0;
        w.host_bytes = 0;
        w.last_operation = EBB_NONE;
        w.searches = SEARCHES;
        w.replaying = w.again = w.failed = false;
        w.may_wrap = round + 1 < ROUNDS;
        s->event_count = s->move_count = s->interval_count = s->scratch_count = s->redirect_count = 0;
        s->replay_ns = 0;
        s->anew = params->anew;
        walk_once(&w);
        if (!w.again)
            break;
    }
    good = good && !w.failed;
    free(w.owner);
    free(w.state);
    free(w.resident);
    free(w.away);
    free(w.ranking);
    free(w.awaited);
    free(w.due);
    free(w.waiting);
    free(w.death);
    free(w.seen);
    free(w.position_of);
    free(w.redirect);
    return good;
}

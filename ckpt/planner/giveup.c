/* giveup.c: what to give up when memory runs out: the cheapest by price per chunk and idle time.
 *
 * The price is in nanoseconds: what the step is expected to take longer. The shape of the score, cost over
 * size and staleness, is that of Dynamic Tensor Rematerialization (Kirisame et al., 2021); here the future is
 * known, so the time until the next use takes the place of the time since the last one. Giving up is
 * retroactive: a copy out is issued as soon after the last touch as the link has time for it that is not booked; what
 * is wanted sooner was booked sooner. */
#include "ckpt/planner/internal.h"

#include <math.h>

enum { CHAIN_VISITS = 64 };

static double begin_of(const ebb_planner_walk_t *w, uint32_t operation)
{
    return (double)w->model->begin_ns[operation];
}

static double step_ns(const ebb_planner_walk_t *w)
{
    return begin_of(w, w->model->trace->operation_count);
}

/* The replays for those inputs of an operation that are neither on the device nor on the host: each counted
 * once. */
static double missing_ns(ebb_planner_walk_t *w, uint32_t operation, int *visits)
{
    const ebb_model_t *m = w->model;
    double sum = 0;
    for (uint32_t k = m->first_touch[operation]; k < m->first_touch[operation + 1] && *visits < CHAIN_VISITS;
         k++) {
        const ebb_touch_t *x = &m->touch[k];
        const ebb_buffer_state_t *s = &w->state[x->buffer];
        uint32_t producer = m->content[x->before].producer;
        if (x->mode == EBB_REPLACES || !m->buffer[x->buffer].chunks || producer == EBB_NONE ||
            (x->mode == EBB_READS && (s->content == x->before || s->host == x->before)) ||
            w->seen[producer] == w->seen_stamp)
            continue;
        w->seen[producer] = w->seen_stamp;
        ++*visits;
        sum += (x->mode == EBB_READS ? (double)m->trace->operation[producer].duration_ns : 0) +
               missing_ns(w, producer, visits);
    }
    return sum;
}

/* Whether what an operation has made is there, and could be dropped beside something else that it has made. */
static bool may_be_dropped(const ebb_planner_walk_t *w, const ebb_touch_t *x)
{
    const ebb_buffer_state_t *s = &w->state[x->buffer];
    const ebb_content_t *c = &w->model->content[x->after];
    return w->model->buffer[x->buffer].movable && s->content == x->after && s->program == x->after &&
           !s->pins && c->rebuild && s->next_operation != EBB_NONE && c->rebuild >= s->next_operation;
}

/* Whether it is given up, will be needed, and nothing but a replay brings it back. */
static bool is_dropped(const ebb_planner_walk_t *w, const ebb_touch_t *x)
{
    const ebb_buffer_state_t *s = &w->state[x->buffer];
    return w->model->buffer[x->buffer].chunks && s->content == EBB_NONE && s->program == x->after &&
           s->host != x->after && ebb_planner_needed(w, x->buffer);
}

/* The part that a buffer has in the replay of what made it: one replay rebuilds all that was dropped of what an operation made. */
static double part_of(const ebb_planner_walk_t *w, uint32_t buffer, uint32_t producer)
{
    const ebb_model_t *m = w->model;
    uint32_t chunks = m->buffer[buffer].chunks;
    for (uint32_t k = m->first_touch[producer]; k < m->first_touch[producer + 1]; k++) {
        const ebb_touch_t *x = &m->touch[k];
        if (x->mode == EBB_READS || x->buffer == buffer)
            continue;
        if (is_dropped(w, x))
            return 0;
        if (may_be_dropped(w, x))
            chunks += m->buffer[x->buffer].chunks;
    }
    return (double)m->buffer[buffer].chunks / (chunks + 1e-9);
}

static double drop_price(ebb_planner_walk_t *w, uint32_t buffer, const ebb_use_t *next)
{
    const ebb_model_t *m = w->model;
    const ebb_content_t *c = &m->content[w->state[buffer].content];
    uint32_t deadline =
        next ? next->operation : m->trace->buffer[buffer].dies; /* never: it outlives the step */
    if (!w->params->recompute || !c->rebuild || c->rebuild < deadline)
        return INFINITY;
    if (!ebb_planner_needed(w, buffer))
        return 0;
    double price = (double)c->cost_ns * part_of(w, buffer, c->producer), limit = m->request->max_cost;
    if (m->request->offload && limit > 0 &&
        price > limit * (double)(ebb_model_transfer_ns(m, buffer, false) +
                                 ebb_model_transfer_ns(m, buffer, true)))
        return INFINITY;
    if (w->params->chain > 0) {
        int visits = 0;
        w->seen_stamp++;
        price += w->params->chain * missing_ns(w, c->producer, &visits);
    }
    return price;
}

/* When the gap that a buffer is in began and ends, on the step's clock without waits. A gap around the step's
 * end begins before 0 or ends after the step. */
static void gap_of(const ebb_planner_walk_t *w, uint32_t buffer, double *from, double *to)
{
    const ebb_model_t *m = w->model;
    const ebb_model_buffer_t *b = &m->buffer[buffer];
    uint32_t next = w->state[buffer].next;
    const ebb_use_t *use = &m->use[b->first_use];
    if (!b->use_count) {
        *from = 0;
        *to = step_ns(w);
        return;
    }
    *from = next ? begin_of(w, use[next - 1].operation + 1)
                 : begin_of(w, use[b->use_count - 1].operation + 1) - step_ns(w);
    *to = next < b->use_count ? begin_of(w, use[next].operation)
          : b->persistent     ? begin_of(w, use[0].operation) + step_ns(w)
                              : begin_of(w, m->trace->buffer[buffer].dies);
}

/* Where it is at the boundary is not for this plan to say. */
static bool is_agreed_on(const ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_boundary_t *b = w->model->request->boundary;
    return b && b->start[buffer] != EBB_NOT_THERE && !w->schedule->on_host[buffer];
}

/* What has not been used yet in this step may go out in it, though it could have done so in the step before: a copy that goes over
 * the step's end is ahead of what the program reads back there. Its interval then begins and ends with the step's first operation. */
static bool goes_out_within(const ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_buffer_state_t *s = &w->state[buffer];
    const ebb_model_buffer_t *b = &w->model->buffer[buffer];
    return (w->model->reads_back || is_agreed_on(w, buffer)) && b->persistent && b->use_count && !s->next &&
           s->last == EBB_NONE && ebb_planner_position(w) && !w->schedule->on_host[buffer];
}

static double positive(double x)
{
    return x > 0 ? x : 0;
}

static double offload_price(const ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_model_t *m = w->model;
    ebb_buffer_state_t *s = &w->state[buffer];
    const ebb_model_buffer_t *b = &m->buffer[buffer];
    const bool within = goes_out_within(w, buffer),
               wraps = b->persistent && (s->next == 0 || s->next == b->use_count);
    double now = begin_of(w, w->point), from, to, total = step_ns(w);
    s->out_by_ns = now;
    if (!w->params->offload || (wraps && !within && ((s->next && !w->may_wrap) || is_agreed_on(w, buffer))) ||
        (!s->has_block && w->host_bytes + m->trace->buffer[buffer].bytes > m->request->host_bytes))
        return INFINITY;
    /* What a replay takes must have been copied out before the operation ahead of it. */
    if (w->replaying && s->last != EBB_NONE &&
        (w->last_operation == EBB_NONE || s->last >= w->last_operation))
        return INFINITY;
    if (!b->use_count)
        return 0;
    gap_of(w, buffer, &from, &to);
    if (within)
        from = 0;
    if (to - from < (double)m->request->min_gap_ns)
        return INFINITY;
    double out = s->host == s->content ? 0 : (double)ebb_model_transfer_ns(m, buffer, false);
    bool comes_back = ebb_planner_needed(w, buffer) && !(wraps && m->use[b->first_use].mode == EBB_REPLACES);
    double in = comes_back ? (double)ebb_model_transfer_ns(m, buffer, true) : 0;
    double out_free =
        from < 0 ? ebb_calendar_free(&w->out, from + total, total) + ebb_calendar_free(&w->out, 0, now)
                 : ebb_calendar_free(&w->out, from, now);
    double in_free =
        to > total ? ebb_calendar_free(&w->in, 0, to - total) : ebb_calendar_free(&w->in, now, to);
    s->out_by_ns += positive(out - out_free);
    const double looked_at =
        s->host == s->content ? ebb_hash_ns(&m->request->hardware, m->trace->buffer[buffer].bytes) : 0;
    return positive(out - out_free) + positive(in - in_free) + looked_at +
           m->request->hardware.out_slowdown * out + m->request->hardware.in_slowdown * in;
}

/* Whether an adviser would drop it. */
static bool is_advised(const ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_buffer_state_t *s = &w->state[buffer];
    return w->params->advice && s->content == s->program &&
           ebb_fates_of(w->params->advice, s->content, w->point, s->next_operation) == EBB_DROP;
}

/* x to the power of `exponent`, for the few exponents of the portfolio: 0, 1/4, 1/2, 1. (Without libm: sqrt is an
 * instruction here.) */
static double power(double x, double exponent)
{
    return exponent <= 0 ? 1 : exponent >= 1 ? x : exponent < 0.5 ? sqrt(sqrt(x)) : sqrt(x);
}

void ebb_planner_score(ebb_planner_walk_t *w, uint32_t buffer)
{
    ebb_buffer_state_t *s = &w->state[buffer];
    const ebb_model_buffer_t *b = &w->model->buffer[buffer];
    if (!ebb_planner_protected(w, buffer)) {
        s->fate = EBB_FORGET;
        s->score = -1;
        return;
    }
    s->fate = EBB_KEEP;
    s->score = INFINITY;
    if (!b->movable)
        return;
    double drop = drop_price(w, buffer, ebb_planner_next(w, buffer)), offload = offload_price(w, buffer),
           from, to;
    if (is_advised(w, buffer))
        drop *= 1e-6;
    if (w->params->more_to_drop) {
        drop += w->params->more_to_drop[buffer];
        offload += w->params->more_to_offload[buffer];
    }
    double price = drop < offload ? drop : offload;
    gap_of(w, buffer, &from, &to);
    double idle = (to - begin_of(w, w->point)) / (step_ns(w) + 1);
    s->fate = drop < offload ? EBB_DROP : EBB_OFFLOAD;
    /* Always above what is forgotten: prices that a search has lowered may be below 0. */
    s->score = (price > 0 ? price + 1 : 1 / (1 - price)) /
               (b->chunks * power(idle > 1e-6 ? idle : 1e-6, w->params->idle));
}

static void own(ebb_planner_walk_t *w, uint32_t buffer, uint32_t owner)
{
    const ebb_boundary_t *b = w->model->request->boundary;
    for (uint32_t i = 0; i < ebb_boundary_chunks(b, buffer); i++)
        w->owner[ebb_boundary_chunk(b, buffer, i)] = owner;
}

void ebb_planner_end_interval(ebb_planner_walk_t *w, uint32_t buffer, ebb_fate_t fate)
{
    ebb_buffer_state_t *s = &w->state[buffer];
    ebb_interval_t interval = {.place = buffer,
                               .first = s->first,
                               .last = s->last,
                               .begin = s->fresh ? s->last : s->begin, /* fetched, and given up untouched */
                               .fetch = s->fetch,
                               .evict = EBB_NONE};
    if (s->last != EBB_NONE) {
        if (fate == EBB_OFFLOAD) {
            interval.evict = w->schedule->move_count;
            interval.last = ebb_planner_position(w) - 1; /* it is now that the chunks are wanted */
            ebb_planner_move(w, EBB_EVICT, buffer, s->evict > s->last ? s->evict : s->last + 1);
            w->schedule->move[interval.evict].spared = s->host == s->content;
        } else if (fate == EBB_DROP) {
            ebb_planner_move(w, EBB_DISCARD, buffer, s->last + 1);
        }
        ebb_planner_add_interval(w, interval);
    }
    if (fate == EBB_OFFLOAD)
        s->host = s->content;
    else if (
        fate ==
        EBB_DROP) /* its replays are counted on; what it came from may not be copied after all (copies.c) */
        s->host = EBB_NONE;
    w->used_chunks -= w->model->buffer[buffer].chunks;
    own(w, buffer, EBB_NONE);
    uint32_t moved = w->resident[--w->resident_count];
    w->resident[s->index] = moved;
    w->state[moved].index = s->index;
    ebb_planner_unrank(w, buffer);
    s->content = s->fetch = s->last = EBB_NONE;
    s->evict = 0;
    s->fresh = false;
}

/* The position, from an interval's last touch on, at which the step's clock without waits reaches a moment. */
static uint32_t position_at(const ebb_planner_walk_t *w, uint32_t last, double ns)
{
    const uint32_t now = ebb_planner_position(w), operation = ebb_planner_operation_at(w, 0, w->point, ns);
    const uint32_t position = operation < w->point ? w->position_of[operation] : now;
    return position > last ? position : last + 1;
}

/* Books the link and remembers when to fetch. */
static void book(ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_model_t *m = w->model;
    const ebb_model_buffer_t *b = &m->buffer[buffer];
    ebb_buffer_state_t *s = &w->state[buffer];
    const ebb_use_t *next = ebb_planner_next(w, buffer);
    double from, to;
    const bool within = goes_out_within(w, buffer);
    if (within)
        s->last = 0;
    if (!s->has_block)
        w->host_bytes += m->trace->buffer[buffer].bytes;
    s->has_block = true;
    if (b->persistent && !s->next && s->last == EBB_NONE)
        w->schedule->on_host[buffer] = true;
    if (!b->use_count)
        return;
    gap_of(w, buffer, &from, &to);
    if (within)
        from = 0;
    if (s->host != s->content) {
        const double end = ebb_calendar_take_after(&w->out, from < 0 ? from + step_ns(w) : from,
                                                   (double)ebb_model_transfer_ns(m, buffer, false));
        if (s->last != EBB_NONE)
            s->evict = position_at(w, s->last, end - (double)ebb_model_transfer_ns(m, buffer, false));
    }
    if (b->persistent && !next && !w->schedule->on_host[buffer]) {
        w->schedule->on_host[buffer] = true; /* its first use was served as if it had been there */
        w->again = true;
    }
    if (!next || next->mode == EBB_REPLACES)
        return;
    s->fetch_ns = ebb_calendar_take_before(&w->in, to, (double)ebb_model_transfer_ns(m, buffer, true));
    ebb_planner_await(w, buffer);
}

static void give_up(ebb_planner_walk_t *w, uint32_t victim)
{
    if (w->state[victim].fate == EBB_OFFLOAD)
        book(w, victim);
    ebb_planner_end_interval(w, victim, w->state[victim].fate);
}

bool ebb_planner_has_way(const ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_boundary_t *b = w->model->request->boundary;
    for (uint32_t i = 0; i < ebb_boundary_chunks(b, buffer); i++)
        if (w->owner[ebb_boundary_chunk(b, buffer, i)] != EBB_NONE)
            return false;
    return true;
}

void ebb_planner_make_way(ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_boundary_t *b = w->model->request->boundary;
    for (uint32_t i = 0; i < ebb_boundary_chunks(b, buffer); i++) {
        const uint32_t victim = w->owner[ebb_boundary_chunk(b, buffer, i)];
        if (victim == EBB_NONE)
            continue;
        ebb_planner_score(w, victim);
        w->failed |= w->state[victim].pins || w->state[victim].fate == EBB_KEEP;
        if (w->failed)
            return;
        give_up(w, victim);
    }
    own(w, buffer, buffer);
}

void ebb_planner_make_room(ebb_planner_walk_t *w, uint32_t chunks, uint32_t beyond)
{
    while (w->used_chunks + chunks > w->params->target_chunks) {
        const uint32_t victim = ebb_planner_find_victim(w, beyond);
        if (victim == EBB_NONE)
            return;
        give_up(w, victim);
    }
}

void ebb_planner_let_go(ebb_planner_walk_t *w, uint32_t buffer)
{
    const ebb_buffer_state_t *s = &w->state[buffer];
    if (s->content == EBB_NONE || s->pins || s->fresh)
        return;
    const ebb_use_t *next = ebb_planner_next(w, buffer);
    ebb_fate_t fate = ebb_fates_of(w->params->fates, s->content, w->point,
                                   next && s->content == s->program ? next->operation : EBB_NONE);
    if (fate == EBB_KEEP)
        return;
    if (!ebb_planner_protected(w, buffer))
        fate = EBB_FORGET;
    else if (fate == EBB_DROP && w->model->content[s->content].rebuild <
                                     (next ? next->operation : w->model->trace->buffer[buffer].dies))
        return;
    if (fate == EBB_OFFLOAD && !s->has_block &&
        w->host_bytes + w->model->trace->buffer[buffer].bytes > w->model->request->host_bytes)
        return;
    if (fate == EBB_OFFLOAD)
        book(w, buffer);
    ebb_planner_end_interval(w, buffer, fate);
}

void ebb_planner_let_all_go(ebb_planner_walk_t *w)
{
    for (uint32_t i = w->resident_count; i-- > 0;)
        ebb_planner_let_go(w, w->resident[i]);
}

/* plan_oracle_leave.c: leaving a plan in the middle; see plan_oracle.h. */
#include "plan_oracle_parts.h"

#include <stdlib.h>
#include <string.h>

/* What the driver would believe of a place. */
typedef struct book {
    bool written, device, on_host, given_up;
} book_t;

typedef struct leave {
    oracle_t *o;
    book_t *book;    /* [places] */
    bool *alive;     /* [buffers] */
    uint64_t *truth; /* [buffers] */
    uint8_t *memo;   /* [(operations + 1) * buffers]: 0 unknown, 1 no, 2 yes */
    uint32_t step, cursor;
} leave_t;

static bool share_chunk(const oracle_t *o, uint32_t a, uint32_t b)
{
    const ebb_place_t *p = &o->plan->place[a], *q = &o->plan->place[b];
    for (uint32_t i = 0; i < p->chunk_count; i++)
        for (uint32_t k = 0; k < q->chunk_count; k++)
            if (o->plan->chunk[p->first_chunk + i] == o->plan->chunk[q->first_chunk + k])
                return true;
    return false;
}

static void book_written(leave_t *l, uint32_t place, bool on_host)
{
    for (uint32_t i = 0; i < l->o->plan->place_count; i++)
        if (i != place && share_chunk(l->o, place, i))
            l->book[i].device = false;
    l->book[place] = (book_t){.written = true, .device = true, .on_host = on_host};
}

static void book_action(leave_t *l, const ebb_action_t *a)
{
    oracle_t *o = l->o;
    uint32_t own = a->operation == EBB_NONE ? oracle_place(o, l->step, a->place) : EBB_NONE;
    if (a->kind == EBB_DISCARD)
        l->book[own].given_up = true;
    else if (a->kind == EBB_EVICT)
        l->book[own].on_host = true;
    else if (a->kind == EBB_FETCH)
        book_written(l, own, true);
    else
        for (uint32_t u = o->first_use[a->operation]; u < o->first_use[a->operation + 1]; u++) {
            uint32_t place = oracle_target_of(o, &(task_t){.action = a, .step = l->step}, o->use[u].buffer);
            if (o->use[u].mode != EBB_READS && o->plan->place[place].chunk_count)
                book_written(l, place, false);
        }
}

static uint32_t last_write(const oracle_t *o, uint32_t b, uint32_t upto)
{
    for (uint32_t i = upto; i-- > 0;)
        for (uint32_t u = o->first_use[i]; u < o->first_use[i + 1]; u++)
            if (o->use[u].buffer == b && o->use[u].mode != EBB_READS)
                return i;
    return EBB_NONE;
}

static bool is_dropped(const leave_t *l, uint32_t b)
{
    const book_t *k = &l->book[oracle_place(l->o, l->step, b)];
    return l->alive[b] && oracle_is_large(l->o, b) && k->written && !k->device && !k->on_host;
}

/* Could buffer b be had as it was just before operation `upto`? */
static bool can_provide(leave_t *l, uint32_t b, uint32_t upto)
{
    oracle_t *o = l->o;
    uint32_t w = last_write(o, b, upto);
    if (l->alive[b] && !is_dropped(l, b) && w == last_write(o, b, l->cursor))
        return true;
    if (w == EBB_NONE || !o->trace->operation[w].proofs)
        return false;
    uint8_t *memo = &l->memo[(size_t)w * o->plan->buffer_count + b];
    if (*memo)
        return *memo == 2;
    bool good = true;
    for (uint32_t u = o->first_use[w]; good && u < o->first_use[w + 1]; u++)
        good = o->use[u].mode == EBB_REPLACES || can_provide(l, o->use[u].buffer, w);
    *memo = good ? 2 : 1;
    return good;
}

static bool leave_here(leave_t *l, uint32_t step)
{
    oracle_t *o = l->o;
    memset(l->memo, 0, (size_t)(o->plan->operation_count + 1) * o->plan->buffer_count);
    for (uint32_t b = 0; b < o->plan->buffer_count; b++) {
        const uint32_t place = oracle_place(o, step, b);
        const book_t *k = &l->book[place];
        if (!l->alive[b] || !oracle_is_large(o, b) || !k->written)
            continue;
        if (k->device && oracle_read_value(o, place, b) != l->truth[b])
            return oracle_wrong(o, "step %u, left at %u: the place of buffer %u holds something else", step,
                                l->cursor, b);
        if (!k->device && k->on_host && oracle_read_host(o, place) != l->truth[b])
            return oracle_wrong(o, "step %u, left at %u: the host block of buffer %u holds something else",
                                step, l->cursor, b);
        if (is_dropped(l, b) && !k->given_up)
            return oracle_wrong(o, "step %u, left at %u: buffer %u was taken", step, l->cursor, b);
        if (is_dropped(l, b) && !can_provide(l, b, l->cursor))
            return oracle_wrong(o, "step %u, left at %u: buffer %u cannot be rebuilt", step, l->cursor, b);
    }
    return true;
}

static void live_through(leave_t *l, uint32_t point)
{
    const ebb_trace_t *t = l->o->trace;
    for (uint32_t b = 0; b < t->buffer_count; b++) {
        if (ebb_plan_dies(l->o->plan, t, b) == point)
            l->alive[b] = false;
        if (t->buffer[b].born == point) {
            l->alive[b] = ebb_plan_dies(l->o->plan, t, b) > point;
            l->book[oracle_place(l->o, l->step, b)] = (book_t){0};
        }
    }
}

static bool run_now(oracle_t *o, task_t t)
{
    bool good = true;
    for (uint32_t i = 0; good && i < oracle_pieces_of(o, &t); i++)
        good = oracle_run_piece(o, &t, i);
    return good;
}

static bool leave_action(leave_t *l, const ebb_action_t *a, uint32_t step)
{
    if (a->kind == EBB_ORDER)
        return true;
    book_action(l, a);
    return a->kind == EBB_DISCARD ||
           run_now(l->o, (task_t){.operation = a->operation,
                                  .action = a,
                                  .step = step,
                                  .place = a->operation == EBB_NONE ? oracle_place(l->o, step, a->place)
                                                                    : EBB_NONE});
}

static bool leave_operation(leave_t *l, uint32_t step)
{
    oracle_t *o = l->o;
    uint32_t i = l->cursor;
    if (!run_now(o, (task_t){.operation = i, .step = step}))
        return false;
    for (uint32_t u = o->first_use[i]; u < o->first_use[i + 1]; u++)
        if (o->use[u].mode != EBB_READS) {
            l->truth[o->use[u].buffer] = oracle_mix(o->result[0], o->use[u].buffer);
            if (o->plan->place[o->use[u].buffer].chunk_count)
                book_written(l, oracle_place(o, step, o->use[u].buffer), false);
        }
    return true;
}

static bool leave_step(leave_t *l, uint32_t step)
{
    const ebb_plan_t *p = l->o->plan;
    uint32_t next = 0;
    l->step = step;
    for (uint32_t b = 0; b < p->buffer_count; b++)
        l->alive[b] = oracle_outlives(l->o, b);
    for (l->cursor = 0; l->cursor <= p->operation_count; l->cursor++) {
        bool last = l->cursor == p->operation_count;
        if (!last)
            live_through(l, l->cursor);
        if (!last && !leave_here(l, step))
            return false;
        while (next < p->action_count && p->action[next].point == l->cursor)
            if (!leave_action(l, &p->action[next++], step))
                return false;
        if (!last && !leave_operation(l, step))
            return false;
    }
    l->cursor = p->operation_count;
    if (!leave_here(l, step))
        return false;
    live_through(l, p->operation_count);
    oracle_pass_on(l->o, l->truth, sizeof *l->truth);
    return true;
}

bool oracle_leave(const ebb_trace_t *trace, const ebb_plan_t *plan, char *what, size_t what_bytes)
{
    oracle_t o = {.trace = trace, .plan = plan, .what = what, .what_bytes = what_bytes};
    leave_t l = {.o = &o};
    oracle_set_up(&o);
    l.book = oracle_room(plan->place_count, sizeof *l.book);
    l.alive = oracle_room(plan->buffer_count, 1);
    l.truth = oracle_room(plan->buffer_count, sizeof *l.truth);
    l.memo = oracle_room((size_t)(plan->operation_count + 1) * plan->buffer_count, 1);
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        bool on_host = plan->place[b].at_start == EBB_ON_HOST;
        l.alive[b] = oracle_outlives(&o, b);
        l.truth[b] = o.kept[b];
        l.book[b] = (book_t){.written = l.alive[b], .device = l.alive[b] && !on_host, .on_host = on_host};
    }
    bool good = leave_step(&l, 0) && leave_step(&l, 1) && leave_step(&l, 2);
    free(l.book);
    free(l.alive);
    free(l.truth);
    free(l.memo);
    oracle_tear_down(&o);
    return good;
}

bool oracle_executes(const ebb_trace_t *trace, const ebb_plan_t *plan, unsigned seed, unsigned runs,
                     char *what, size_t what_bytes)
{
    bool good = oracle_leave(trace, plan, what, what_bytes);
    for (unsigned i = 0; good && i < runs; i++)
        good = oracle_run(trace, plan, seed + i, what, what_bytes);
    return good;
}

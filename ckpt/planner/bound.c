/* bound.c: see planner.h. */
#include "ckpt/planner/internal.h"

#include <stdlib.h>
#include <string.h>

/* What a buffer holds between two consecutive uses, or around the step's end. */
typedef struct gap {
    uint32_t content;
    uint32_t last, next; /* operations; EBB_NONE: in the step before, in the step behind */
} gap_t;

/* Whether what a use finds there is more than what an allocation happens to hold. */
static bool finds_something(const ebb_model_t *m, uint32_t buffer, const ebb_use_t *use)
{
    return use->mode != EBB_REPLACES &&
           (m->buffer[buffer].persistent || m->content[use->before].producer != EBB_NONE);
}

/* The gap that a moment lies in, if what the buffer holds then is needed again and the operation there does not touch it. */
static bool gap_at(const ebb_model_t *m, uint32_t buffer, uint32_t sync, gap_t *gap)
{
    const ebb_model_buffer_t *b = &m->buffer[buffer];
    const ebb_use_t *use = m->use + b->first_use;
    uint32_t low = 0, high = b->use_count;
    while (low < high) { /* the first use from the moment on */
        const uint32_t middle = low + (high - low) / 2;
        if (use[middle].operation < sync)
            low = middle + 1;
        else
            high = middle;
    }
    const bool again = low < b->use_count;
    if (!b->chunks || !b->use_count || (again && use[low].operation == sync) ||
        (!b->persistent && (!low || !again)) || !finds_something(m, buffer, &use[again ? low : 0]))
        return false;
    gap->last = low ? use[low - 1].operation : EBB_NONE;
    gap->next = again ? use[low].operation : EBB_NONE;
    gap->content = again ? use[low].before : b->first_content + b->content_count - 1;
    return true;
}

/* ---- the moment at which most is needed ---- */

static void need(int64_t *change, uint32_t from, uint32_t to, uint32_t chunks)
{
    if (from >= to)
        return;
    change[from] += chunks;
    change[to] -= chunks;
}

static void need_buffer(int64_t *change, const ebb_model_t *m, uint32_t buffer)
{
    const ebb_model_buffer_t *b = &m->buffer[buffer];
    const ebb_use_t *use = m->use + b->first_use;
    const uint32_t n = m->trace->operation_count;
    for (uint32_t i = 0; i < b->use_count; i++) {
        need(change, use[i].operation, use[i].operation + 1, b->chunks);
        if (i + 1 < b->use_count && finds_something(m, buffer, &use[i + 1]))
            need(change, use[i].operation + 1, use[i + 1].operation, b->chunks);
    }
    if (!b->persistent || !b->use_count || use[0].mode == EBB_REPLACES)
        return;
    need(change, 0, use[0].operation, b->chunks);
    need(change, use[b->use_count - 1].operation + 1, n, b->chunks);
}

static bool find_moment(ebb_bound_t *bound, const ebb_model_t *m, uint32_t *sync)
{
    int64_t *change = calloc((size_t)m->trace->operation_count + 2, sizeof *change), now = 0;
    for (uint32_t i = 0; change && i < m->trace->buffer_count; i++)
        if (m->buffer[i].chunks)
            need_buffer(change, m, i);
    for (uint32_t i = 0; change && i < m->trace->operation_count; i++) {
        now += change[i];
        if (now > bound->needed) {
            bound->needed = (uint32_t)now;
            *sync = i;
        }
    }
    const bool good = change;
    free(change);
    return good;
}

/* ---- what could go ---- */

static double begin_of(const ebb_model_t *m, uint32_t operation)
{
    return (double)m->begin_ns[operation];
}

/* When a content was made, in this step or the one before. Where the host's copy may be used again, it may have gone out from then on, before
 * its last use. */
static double made_at(const ebb_model_t *m, const ebb_model_buffer_t *b, uint32_t content, double step)
{
    const uint32_t producer = m->content[content].producer,
                   last = m->content[b->first_content + b->content_count - 1].producer;
    return producer != EBB_NONE ? begin_of(m, producer + 1) : begin_of(m, last + 1) - step;
}

/* What several streams have been given in one order they may do in another: then all of the step is before it, and behind it. */
static void add_item(ebb_bound_t *bound, const ebb_model_t *m, uint32_t buffer, const gap_t *gap,
                     uint32_t sync)
{
    const ebb_model_buffer_t *b = &m->buffer[buffer];
    const ebb_use_t *use = m->use + b->first_use;
    const double step = (double)bound->step_ns, now = begin_of(m, sync);
    const double last = m->streams > 1          ? now - step
                        : gap->last != EBB_NONE ? begin_of(m, gap->last + 1)
                                                : begin_of(m, use[b->use_count - 1].operation + 1) - step,
                 next = m->streams > 1          ? now + step
                        : gap->next != EBB_NONE ? begin_of(m, gap->next)
                                                : begin_of(m, use[0].operation) + step;
    const bool clean = m->request->hardware.clean > 0, frozen = clean && b->content_count == 1;
    const double made = clean && !frozen ? made_at(m, b, gap->content, step) : last;
    bound->out[bound->item_count++] =
        (ebb_bound_item_t){b->chunks, frozen ? 0 : (double)b->out_ns, (double)b->in_ns,
                           now - (made < last ? made : last), next - now};
}

/* A replay's own time, with what it zeroes. */
static double replay_ns(const ebb_model_t *m, const uint32_t *first_touch, uint32_t operation)
{
    double ns = (double)m->trace->operation[operation].duration_ns;
    for (uint32_t k = m->first_touch[operation]; k < m->first_touch[operation + 1]; k++) {
        const ebb_touch_t *x = &m->touch[k];
        if (x->mode == EBB_REPLACES && m->buffer[x->buffer].chunks && first_touch[x->buffer] != operation)
            ns += ebb_zero_ns(&m->request->hardware, m->trace->buffer[x->buffer].bytes);
    }
    return ns;
}

/* Of comparing a buffer that was dropped, for each of its chunks: it is hashed when it goes, and when it is there again. */
static double check_ns(const ebb_model_t *m, uint32_t buffer)
{
    return 2 * ebb_check_ns(&m->request->hardware, m->trace->buffer[buffer].bytes) / m->buffer[buffer].chunks;
}

/* What could be dropped, per operation: the chunks that its replay brings back, and the least that comparing one of them costs; how many
 * groups take its replay, and what that costs. */
typedef struct drops {
    const ebb_model_t *model;
    uint32_t *chunks, *users, *seen;
    double *check, *cost;
    uint32_t group;
} drops_t;

/* The replays that a group takes: of an operation, and of what made what it updates. Counts them as used; when all are counted,
 * `sum` gets the cost of those that no other group takes. */
static void follow_chain(drops_t *d, uint32_t operation, double *sum)
{
    const ebb_model_t *m = d->model;
    if (operation == EBB_NONE || d->seen[operation] == d->group + 1)
        return;
    d->seen[operation] = d->group + 1;
    if (!sum)
        d->users[operation]++;
    else if (d->users[operation] == 1)
        *sum += d->cost[operation];
    for (uint32_t k = m->first_touch[operation]; k < m->first_touch[operation + 1]; k++)
        if (m->touch[k].mode == EBB_UPDATES)
            follow_chain(d, m->content[m->touch[k].before].producer, sum);
}

static void make_groups(ebb_bound_t *bound, drops_t *d, const uint32_t *first_touch)
{
    const uint32_t n = d->model->trace->operation_count;
    for (d->group = 0; d->group < n; d->group++) {
        d->cost[d->group] = replay_ns(d->model, first_touch, d->group);
        if (d->chunks[d->group])
            follow_chain(d, d->group, NULL);
    }
    memset(d->seen, 0, n * sizeof *d->seen);
    for (d->group = 0; d->group < n; d->group++) {
        double sum = 0;
        if (!d->chunks[d->group])
            continue;
        follow_chain(d, d->group, &sum);
        sum += d->check[d->group] * d->chunks[d->group];
        bound->group[bound->group_count++] = (ebb_bound_group_t){d->chunks[d->group], sum};
    }
}

/* ---- orders ---- */

static int by_before(const void *a, const void *b)
{
    const ebb_bound_item_t *x = a, *y = b;
    return x->before < y->before ? -1 : x->before > y->before;
}

static int by_behind(const void *a, const void *b)
{
    const ebb_bound_item_t *x = a, *y = b;
    return x->behind < y->behind ? -1 : x->behind > y->behind;
}

static int by_out(const void *a, const void *b)
{
    const ebb_bound_item_t *x = a, *y = b;
    const double p = x->out_ns * y->chunks, q = y->out_ns * x->chunks;
    return p < q ? -1 : p > q;
}

static int by_in(const void *a, const void *b)
{
    const ebb_bound_item_t *x = a, *y = b;
    const double p = x->in_ns * y->chunks, q = y->in_ns * x->chunks;
    return p < q ? -1 : p > q;
}

static int by_cost(const void *a, const void *b)
{
    const ebb_bound_group_t *x = a, *y = b;
    const double p = x->ns * y->chunks, q = y->ns * x->chunks;
    return p < q ? -1 : p > q;
}

static void sort(ebb_bound_t *bound)
{
    const size_t bytes = bound->item_count * sizeof *bound->out;
    ebb_bound_item_t *const list[] = {bound->out, bound->in, bound->dense_out, bound->dense_in};
    int (*const order[])(const void *, const void *) = {by_before, by_behind, by_out, by_in};
    for (int i = 1; i < 4; i++)
        memcpy(list[i], bound->out, bytes);
    for (int i = 0; i < 4; i++)
        qsort(list[i], bound->item_count, sizeof *bound->out, order[i]);
    qsort(bound->group, bound->group_count, sizeof *bound->group, by_cost);
}

static void collect(ebb_bound_t *bound, const ebb_model_t *m, drops_t *d, uint32_t sync)
{
    for (uint32_t i = 0; i < m->trace->buffer_count; i++) {
        gap_t gap;
        if (!m->buffer[i].movable || !gap_at(m, i, sync, &gap))
            continue;
        if (m->request->offload)
            add_item(bound, m, i, &gap, sync);
        const ebb_content_t *c = &m->content[gap.content];
        if (!m->request->recompute || !c->rebuild || gap.next == EBB_NONE || c->rebuild < gap.next)
            continue;
        if (!d->chunks[c->producer] || check_ns(m, i) < d->check[c->producer])
            d->check[c->producer] = check_ns(m, i);
        d->chunks[c->producer] += m->buffer[i].chunks;
    }
}

/* The program's streams take turns on the device (plan.h), which copies between it and the host, and what communicates, leave to replays. */
static double idle_ns(const ebb_model_t *m, double step_ns)
{
    const ebb_trace_t *t = m->trace;
    for (uint32_t i = 0; i < t->operation_count; i++)
        if (!ebb_trace_is_host_copy(&t->operation[i]) && !t->operation[i].communicates)
            step_ns -= (double)t->operation[i].duration_ns;
    return step_ns > 0 ? step_ns : 0;
}

bool ebb_bound_make(ebb_bound_t *bound, const ebb_model_t *m)
{
    const size_t n = (size_t)m->trace->operation_count + 1, buffers = (size_t)m->trace->buffer_count + 1;
    const double out = m->request->hardware.out_slowdown, in = m->request->hardware.in_slowdown;
    uint32_t sync = 0;
    *bound = (ebb_bound_t){.step_ns = m->begin_ns[n - 1]};
    if (m->streams > 1) {
        bound->idle_ns = idle_ns(m, (double)bound->step_ns);
    } else {
        bound->out_cost = out / (1 + out + in);
        bound->in_cost = in / (1 + out + in);
    }
    bound->out = calloc(buffers, sizeof *bound->out);
    bound->in = calloc(buffers, sizeof *bound->in);
    bound->dense_out = calloc(buffers, sizeof *bound->dense_out);
    bound->dense_in = calloc(buffers, sizeof *bound->dense_in);
    bound->group = calloc(n, sizeof *bound->group);
    drops_t d = {m,
                 calloc(n, sizeof *d.chunks),
                 calloc(n, sizeof *d.users),
                 calloc(n, sizeof *d.seen),
                 calloc(n, sizeof *d.check),
                 calloc(n, sizeof *d.cost),
                 0};
    uint32_t *first_touch = ebb_trace_first_touches(m->trace);
    const bool good = bound->out && bound->in && bound->dense_out && bound->dense_in && bound->group &&
                      d.chunks && d.users && d.seen && d.check && d.cost && first_touch &&
                      find_moment(bound, m, &sync);
    if (good) {
        collect(bound, m, &d, sync);
        make_groups(bound, &d, first_touch);
        sort(bound);
    }
    free(d.chunks);
    free(d.users);
    free(d.seen);
    free(d.check);
    free(d.cost);
    free(first_touch);
    if (!good)
        ebb_bound_delete(bound);
    return good;
}

void ebb_bound_delete(ebb_bound_t *bound)
{
    free(bound->out);
    free(bound->in);
    free(bound->dense_out);
    free(bound->dense_in);
    free(bound->group);
    *bound = (ebb_bound_t){0};
}

/* ---- the bound ---- */

/* What one way of the link can carry if the step takes so much longer: the time of its copies at most, then the most chunks in that. */
static double carried(const ebb_bound_t *bound, bool in, double longer)
{
    double busy = 0, chunks = 0;
    for (uint32_t i = 0; i < bound->item_count; i++) {
        const ebb_bound_item_t *x = in ? &bound->in[i] : &bound->out[i];
        const double window = (in ? x->behind : x->before) + longer;
        busy += in ? x->in_ns : x->out_ns;
        busy = busy < window ? busy : window;
    }
    for (uint32_t i = 0; i < bound->item_count && busy >= 0; i++) {
        const ebb_bound_item_t *x = in ? &bound->dense_in[i] : &bound->dense_out[i];
        const double ns = in ? x->in_ns : x->out_ns, part = ns <= busy ? 1 : busy / ns;
        chunks += part * x->chunks;
        busy -= ns;
    }
    return chunks;
}

/* The most chunks that a step can do without which takes so much longer, `copied` of which at most may go over the link: the cheapest first. */
static double spared(const ebb_bound_t *bound, double copied, double longer)
{
    const ebb_bound_item_t *o = bound->dense_out, *in = bound->dense_in;
    const double each =
        bound->item_count ? bound->out_cost * o->out_ns / o->chunks + bound->in_cost * in->in_ns / in->chunks
                          : 0;
    double left = bound->idle_ns + longer, chunks = 0;
    for (uint32_t i = 0; i <= bound->group_count; i++) {
        const ebb_bound_group_t *g = i < bound->group_count ? &bound->group[i] : NULL;
        if (copied > 0 && (!g || g->ns > each * g->chunks)) {
            const double part = each * copied > left ? left / each : copied;
            chunks += part;
            left -= part * each;
            copied = 0;
        }
        if (!g || left < 0)
            break;
        const double part = g->ns > left ? left / g->ns : 1;
        chunks += part * g->chunks;
        left -= part * g->ns;
    }
    return chunks;
}

uint64_t ebb_bound_ns(const ebb_bound_t *bound, uint32_t chunks)
{
    enum { ROUNDS = 40 };
    const double missing = bound->needed > chunks ? bound->needed - chunks : 0;
    if (bound->needed <= chunks)
        return bound->step_ns;
    double low = 0, high = 0;
    for (uint32_t i = 0; i < bound->item_count; i++)
        high += bound->out[i].out_ns + bound->out[i].in_ns;
    for (uint32_t i = 0; i < bound->group_count; i++)
        high += bound->group[i].ns;
    for (int i = 0; i < ROUNDS; i++) {
        const double middle = i ? (low + high) / 2 : high, out = carried(bound, false, middle),
                     in = carried(bound, true, middle);
        const bool enough = spared(bound, out < in ? out : in, middle) + 1e-6 >= missing;
        if (!i && !enough)
            return UINT64_MAX;
        if (enough)
            high = middle;
        else
            low = middle;
    }
    return bound->step_ns + (uint64_t)low;
}

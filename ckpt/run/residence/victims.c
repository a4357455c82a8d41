#include "ckpt/run/residence/internal.h"

#include <stdlib.h>

#include "alloc/base/options.h"
#include "alloc/device.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"

static bool is_idle(const ebb_buffer_t *b)
{
    if (b->use_count > EBB_USE_MARKS)
        return false; /* on so many streams that they are not told apart */
    for (unsigned i = 0; i < b->use_count; i++)
        if (!ebb_mark_reached(b->use[i]))
            return false;
    return true;
}

static size_t count_candidates(ebb_device_t *dev)
{
    size_t count = 0;
    for (const ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer)
        count += ebb_may_evict(b);
    return count;
}

static bool is_wanted(const ebb_buffer_t *b)
{
    const ebb_residence_t *r = b->residence;
    return r && r->wanted;
}

/* ---- what it costs to have it back ---- */

/* Of buffers that the step does not know: touched again after as long as they were not touched. */
enum { UNKNOWN_NS = 2000 };

static ebb_next_use_t next_use(const ebb_buffer_t *b, uint32_t *age)
{
    ebb_next_use_t n = ebb_tracker_next_use(b);
    if (n.known) {
        *age = n.behind; /* the list is in the order of last use */
        return n;
    }
    return (ebb_next_use_t){.ahead = *age, .ns = (uint64_t)*age * UNKNOWN_NS, .behind = *age};
}

typedef struct rates {
    ebb_link_t link;
    double waiting_ns; /* what the link has to do besides: all that is on its way out, or has to come back */
} rates_t;

static double transfer_ns(const rates_t *q, size_t bytes)
{
    return (double)bytes / q->link.out + (double)bytes / q->link.in;
}

/* What both copies leave uncovered. Half of the time until the next use counts as hiding them: the rest is lost to copies
 * that begin late, because room was needed late, or wait for one another. Never less than half of the copies: the link is
 * wanted by others, and the host has to wait for their ends. (Half and not a quarter: measured, bench/README.md.) */
static double offload_cost(const rates_t *q, const ebb_buffer_t *b, const ebb_next_use_t *n)
{
    const double copies = transfer_ns(q, b->bytes), hidden = (double)n->ns / 2 - q->waiting_ns;
    const double shown = hidden > 0 ? copies - hidden : copies;
    return shown > copies / 2 ? shown : copies / 2;
}

/* Whether marks show when its users are done, without a copy behind them. */
static bool may_drop(const ebb_buffer_t *b)
{
    return ebb_options.recompute && !is_wanted(b) && b->use_count <= EBB_USE_MARKS && !b->peer_used;
}

/* The cheaper of the two ways that are allowed. False: none is. */
static bool appraise(const rates_t *q, ebb_buffer_t *b, const ebb_next_use_t *n, ebb_victim_t *out)
{
    const double most = (double)ebb_options.recompute_max_cost / 100 * transfer_ns(q, b->bytes);
    uint64_t replay_ns;
    double cost = 0;
    bool good = ebb_options.offload && n->ns >= (uint64_t)ebb_options.offload_min_gap * 1000;
    if (good)
        cost = offload_cost(q, b, n);
    *out = (ebb_victim_t){.buffer = b};
    if (may_drop(b) && ebb_recipe_can_rebuild(b, &replay_ns) &&
        (!ebb_options.recompute_max_cost || (double)replay_ns <= most) &&
        (!good || (double)replay_ns < cost)) {
        out->drop = good = true;
        cost = (double)replay_ns;
    }
    out->score = cost / ((double)b->range->chunk_count * ((double)n->ns + 1));
    return good;
}

static int by_score(const void *a, const void *b)
{
    const ebb_victim_t *x = a, *y = b;
    return x->score < y->score ? -1 : x->score > y->score;
}

static size_t bytes_on_host(ebb_device_t *dev)
{
    size_t bytes = 0;
    for (const ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer)
        bytes += ebb_where(b) == EBB_ON_HOST ? b->bytes : 0;
    return bytes;
}

/* Appends, in the order of their scores, until there are `chunks`. */
static void choose_by_score(ebb_device_t *dev, ebb_victims_t *v, size_t chunks, uint32_t beyond)
{
    rates_t q = {.link = ebb_link(dev)};
    q.waiting_ns = (double)dev->run->leaving->bytes / q.link.out + (double)bytes_on_host(dev) / q.link.in;
    ebb_victim_t *first = v->list + v->count;
    size_t count = 0;
    uint32_t age = 0;
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer) {
        const ebb_next_use_t n = next_use(b, &age);
        if (ebb_may_evict(b) && n.ahead >= beyond && appraise(&q, b, &n, &first[count]))
            count++;
    }
    qsort(first, count, sizeof *first, by_score);
    for (size_t i = 0; i < count && v->chunks < chunks; i++) {
        v->chunks += first[i].buffer->range->chunk_count;
        v->count++;
    }
}

/* ---- without lookahead, or whatever the options say ---- */

static bool is_listed(const ebb_victims_t *v, const ebb_buffer_t *b)
{
    size_t i = 0;
    while (i < v->count && v->list[i].buffer != b)
        i++;
    return i < v->count;
}

static void choose_by_age(ebb_device_t *dev, ebb_victims_t *v, size_t chunks, bool idle_only)
{
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b && v->chunks < chunks; b = b->newer) {
        if (!ebb_may_evict(b) || (idle_only && !is_idle(b)) || is_listed(v, b))
            continue;
        v->list[v->count++] = (ebb_victim_t){.buffer = b};
        v->chunks += b->range->chunk_count;
    }
}

static bool open_list(ebb_device_t *dev, ebb_victims_t *v)
{
    *v = (ebb_victims_t){.list = malloc((count_candidates(dev) + 1) * sizeof(ebb_victim_t))};
    return v->list != NULL;
}

static bool close_list(ebb_victims_t *v)
{
    if (!v->count)
        ebb_victims_free(v);
    return v->count != 0;
}

bool ebb_victims_choose(ebb_device_t *dev, ebb_victims_t *v, size_t chunks)
{
    if (!open_list(dev, v))
        return false;
    if (ebb_tracker_known(dev))
        choose_by_score(dev, v, chunks, 0);
    choose_by_age(dev, v, chunks, true);
    choose_by_age(dev, v, chunks, false);
    return close_list(v);
}

bool ebb_victims_choose_ahead(ebb_device_t *dev, ebb_victims_t *v, size_t chunks, uint32_t beyond)
{
    if (!ebb_tracker_known(dev) || !open_list(dev, v))
        return false;
    choose_by_score(dev, v, chunks, beyond);
    return close_list(v);
}

void ebb_victims_free(ebb_victims_t *v)
{
    free(v->list);
    v->list = NULL;
}

#include "ckpt/run/residence/internal.h"

#include <stdlib.h>
#include <string.h>

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

static ebb_next_use_t next_use(ebb_device_t *dev, const ebb_buffer_t *b)
{
    const ebb_next_use_t n = ebb_tracker_next_use(b);
    const uint64_t now = dev->heap.operations, age = now > b->used_at ? now - b->used_at : 0;
    return n.known ? n
                   : (ebb_next_use_t){.ahead = age < UINT32_MAX ? (uint32_t)age : UINT32_MAX,
                                      .ns = age * UNKNOWN_NS};
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

/* The cheaper of the two ways that are allowed. False: none is, or it is needed within the next `beyond` operations. */
static bool appraise(ebb_device_t *dev, const rates_t *q, uint32_t beyond, ebb_victim_t *v)
{
    const ebb_buffer_t *b = v->buffer;
    const ebb_next_use_t n = next_use(dev, b);
    const double most = (double)ebb_options.recompute_max_cost / 100 * transfer_ns(q, b->bytes);
    uint64_t replay_ns;
    double cost = 0;
    if (n.ahead < beyond)
        return false;
    bool good = ebb_options.offload && n.ns >= (uint64_t)ebb_options.offload_min_gap * 1000;
    if (good)
        cost = offload_cost(q, b, &n);
    if (may_drop(b) && ebb_recipe_can_rebuild(b, &replay_ns) &&
        (!ebb_options.recompute_max_cost || (double)replay_ns <= most) &&
        (!good || (double)replay_ns < cost)) {
        v->drop = good = true;
        cost = (double)replay_ns;
    }
    v->score = cost / ((double)b->range->chunk_count * ((double)n.ns + 1));
    return good;
}

static size_t bytes_on_host(ebb_device_t *dev)
{
    size_t bytes = 0;
    for (const ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer)
        bytes += ebb_where(b) == EBB_ON_HOST ? b->bytes : 0;
    return bytes;
}

static rates_t rates(ebb_device_t *dev)
{
    const ebb_link_t link = ebb_link(dev);
    return (rates_t){link,
                     (double)dev->run->leaving->bytes / link.out + (double)bytes_on_host(dev) / link.in};
}

/* ---- which ---- */

/* Those that the options allow first. */
static int by_score(const void *a, const void *b)
{
    const ebb_victim_t *x = a, *y = b;
    return x->forced != y->forced ? x->forced - y->forced : (x->score > y->score) - (x->score < y->score);
}

/* `forced`: whatever the options say, too. */
static void list_candidates(ebb_device_t *dev, ebb_victims_t *v, uint32_t beyond, bool forced)
{
    const bool known = ebb_tracker_known(dev);
    const rates_t q = known ? rates(dev) : (rates_t){.waiting_ns = 0};
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer) {
        ebb_victim_t *victim = &v->list[v->candidates];
        *victim = (ebb_victim_t){.buffer = b};
        if (!ebb_may_evict(b))
            continue;
        if (!(known && appraise(dev, &q, beyond, victim)))
            *victim = (ebb_victim_t){.buffer = b, .forced = true, .score = (double)b->used_at};
        v->candidates += forced || !victim->forced;
    }
    qsort(v->list, v->candidates, sizeof *v->list, by_score);
}

/* To the end of those that are taken. */
static void take(ebb_victims_t *v, size_t i)
{
    const ebb_victim_t taken = v->list[i];
    memmove(&v->list[v->count + 1], &v->list[v->count], (i - v->count) * sizeof taken);
    v->list[v->count++] = taken;
    v->chunks += taken.buffer->range->chunk_count;
}

static bool choose(ebb_device_t *dev, ebb_victims_t *v, size_t chunks, uint32_t beyond, bool forced)
{
    *v = (ebb_victims_t){.list = malloc((count_candidates(dev) + 1) * sizeof(ebb_victim_t))};
    if (!v->list)
        return false;
    list_candidates(dev, v, beyond, forced);
    for (int busy = 0; busy < 2; busy++)
        for (size_t i = v->count; i < v->candidates && v->chunks < chunks; i++)
            if (busy || !v->list[i].forced || is_idle(v->list[i].buffer))
                take(v, i);
    if (!v->count)
        ebb_victims_free(v);
    return v->count;
}

bool ebb_victims_choose(ebb_device_t *dev, ebb_victims_t *v, size_t chunks)
{
    return choose(dev, v, chunks, 0, true);
}

bool ebb_victims_choose_ahead(ebb_device_t *dev, ebb_victims_t *v, size_t chunks, uint32_t beyond)
{
    return choose(dev, v, chunks, beyond, false);
}

void ebb_victims_free(ebb_victims_t *v)
{
    free(v->list);
    v->list = NULL;
}

/* pack.c: offsets for buffers whose lifetimes are known, in as little memory as a limited search finds (planner.h).
 *
 * First fit in several orders comes first. Where it takes more than it must, heights below are searched by the method of Moffitt,
 * "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023:
 *   - solutions are canonical: every buffer lies on another one or at 0, and buffers are placed by ascending offset. What is placed
 *     tells the lowest offset of each further one, so that a solution is an order
 *   - inference: what waits at a moment begins at the lowest offset of one of its buffers, and not below the offset that was placed
 *     last (the monotonic floor). Where it ends above the limit, so does the branch
 *   - dominance: no buffer goes as high as the top that another one would have, which could then lie below it
 *   - groups that have no moment in common are searched one by one
 * Attempts are short, and each takes equal offsets in another order: what goes wrong early is too far up for the search to come back
 * to (Gomes, Selman, Kautz: "Boosting Combinatorial Search Through Randomization", AAAI 1998). Chance comes from a fixed seed.
 */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

#define MOST_BYTES (UINT64_C(1) << 31) /* heights below are searched: sums of two stay in 32 bits */

enum {
    MOST_SEARCHED = 2048, /* buffers: the search goes as deep */
    FEW = 8,              /* more, so that few buffers get steps and are shuffled, too */
    ATTEMPT = 5,          /* steps of the first one, times the square of the buffers */
    GROWTH = 32,          /* each attempt takes one in so many steps more */
    SHARE = 4,            /* one in so many of the steps that are left is for one height */
    SHUFFLE = 10          /* an attempt moves buffers by one in so many places at most */
};

/* Moments: sets of buffers that are alive together, none of them part of another one. Lifetimes overlap where they have one in
 * common. */
typedef struct moment {
    uint64_t load;    /* bytes alive */
    uint32_t waiting; /* bytes without a place */
    uint32_t witness; /* a buffer of it that waited and was low enough when last looked at */
} moment_t;

typedef struct item {
    uint64_t bytes, offset; /* offset: being tried */
    uint32_t first, last;   /* moments */
    uint32_t rank;          /* which of equal offsets comes first */
    uint32_t lowest;        /* UINT32_MAX: it has a place */
} item_t;

typedef enum order { BY_BEGIN, BY_LENGTH, BY_BYTES, ORDERS } order_t;

typedef struct keyed {
    uint64_t key;
    uint32_t buffer;
} keyed_t;

/* Without a place yet. */
typedef struct waiting {
    uint32_t buffer, lowest;
} waiting_t;

/* Owns its arrays; borrows the lifetimes, which have the offsets of the best so far. */
typedef struct packing {
    ebb_lifetime_t *lifetime;
    uint32_t count, moments, placed_count;
    item_t *item;
    moment_t *moment;
    keyed_t *order; /* [ORDERS][count], and room for two a buffer */
    uint32_t *placed;
    waiting_t *waiting;
    uint64_t bound, height; /* the largest load; of the best so far */
    uint64_t steps, stop;   /* that are left; that an attempt leaves */
    uint64_t chance;
    uint32_t limit; /* of the height */
} packing_t;

static int by_key(const void *a, const void *b)
{
    const keyed_t *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static keyed_t *in_order(const packing_t *p, order_t order)
{
    return p->order + (size_t)order * p->count;
}

static void spend(packing_t *p, uint64_t steps)
{
    p->steps -= p->steps < steps ? p->steps : steps;
}

static bool meet(const item_t *a, const item_t *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static uint64_t units(uint64_t bytes, uint64_t grain)
{
    return bytes / grain + (bytes % grain > 0);
}

/* A moment ends with the first end of a lifetime behind a begin. */
static void find_moments(packing_t *p)
{
    keyed_t *edge = in_order(p, ORDERS);
    uint64_t alive = 0;
    bool grown = false;
    for (uint32_t i = 0; i < p->count; i++) {
        p->item[i].bytes = p->lifetime[i].bytes;
        edge[2 * i] = (keyed_t){(uint64_t)p->lifetime[i].begin << 1, i};
        edge[2 * i + 1] = (keyed_t){(uint64_t)p->lifetime[i].end << 1 | 1, i};
    }
    qsort(edge, (size_t)p->count * 2, sizeof *edge, by_key);
    for (uint32_t i = 0; i < p->count * 2; i++) {
        item_t *x = &p->item[edge[i].buffer];
        const bool ends = edge[i].key & 1;
        if (ends && grown) {
            p->moment[p->moments++] = (moment_t){.load = alive, .witness = edge[i - 1].buffer};
            p->bound = alive > p->bound ? alive : p->bound;
        }
        if (ends)
            x->last = p->moments - 1;
        else
            x->first = p->moments;
        alive += ends ? -x->bytes : x->bytes;
        grown = !ends;
    }
}

/* ---- first fit ---- */

static void sort(packing_t *p, order_t order)
{
    keyed_t *to = in_order(p, order);
    for (uint32_t i = 0; i < p->count; i++) {
        const item_t *x = &p->item[i];
        const uint64_t bytes = x->bytes < UINT32_MAX ? x->bytes : UINT32_MAX, length = x->last - x->first;
        const uint64_t key[] = {[BY_BEGIN] = (uint64_t)x->first << 32 | (UINT32_MAX - bytes),
                                [BY_LENGTH] = ~(length << 32 | bytes),
                                [BY_BYTES] = ~x->bytes};
        to[i] = (keyed_t){key[order], i};
    }
    qsort(to, p->count, sizeof *to, by_key);
}

static void keep_best(packing_t *p)
{
    uint64_t height = 0;
    for (uint32_t i = 0; i < p->count; i++)
        height =
            p->item[i].offset + p->item[i].bytes > height ? p->item[i].offset + p->item[i].bytes : height;
    for (uint32_t i = 0; i < p->count && height < p->height; i++)
        p->lifetime[i].offset = p->item[i].offset;
    p->height = height < p->height ? height : p->height;
}

/* Each buffer in its turn goes into the first hole among those placed, which lie by offset. Gives up without steps, but for
 * BY_BEGIN. */
static void first_fit(packing_t *p, order_t order)
{
    uint32_t count = 0, at;
    sort(p, order);
    for (uint32_t k = 0; k < p->count && (p->steps || order == BY_BEGIN); k++) {
        const uint32_t b = in_order(p, order)[k].buffer;
        item_t *x = &p->item[b];
        uint32_t left = order == BY_BEGIN ? 0 : count;
        for (uint32_t i = 0; order == BY_BEGIN && i < count; i++) /* what has ended is not met any more */
            if (p->item[p->placed[i]].last >= x->first)
                p->placed[left++] = p->placed[i];
        x->offset = 0;
        for (at = 0; at < left; at++) {
            const item_t *other = &p->item[p->placed[at]];
            if (!meet(other, x))
                continue;
            if (other->offset >= x->offset + x->bytes)
                break;
            x->offset = other->offset + other->bytes > x->offset ? other->offset + other->bytes : x->offset;
        }
        spend(p, at);
        for (at = left; at && p->item[p->placed[at - 1]].offset > x->offset; at--)
            p->placed[at] = p->placed[at - 1];
        p->placed[at] = b;
        spend(p, left - at);
        count = left + 1;
    }
    if (p->steps || order == BY_BEGIN)
        keep_best(p);
}

/* ---- the search ---- */

static void place(packing_t *p, uint32_t b, uint32_t offset)
{
    item_t *x = &p->item[b];
    x->offset = offset;
    x->lowest = UINT32_MAX;
    p->placed[p->placed_count++] = b;
    for (uint32_t i = x->first; i <= x->last; i++)
        p->moment[i].waiting -= (uint32_t)x->bytes;
}

/* Until so many have a place. */
static void take_back(packing_t *p, uint32_t count)
{
    while (p->placed_count > count) {
        const item_t *x = &p->item[p->placed[--p->placed_count]];
        for (uint32_t i = x->first; i <= x->last; i++)
            p->moment[i].waiting += (uint32_t)x->bytes;
    }
}

/* Inference, for all that waits in these moments. */
static bool may_fit(packing_t *p, const waiting_t *w, uint32_t count, uint32_t floor, uint32_t end)
{
    const uint32_t begin = p->item[w->buffer].first;
    for (uint32_t i = 0; i < count; i++)
        p->item[w[i].buffer].lowest = w[i].lowest;
    spend(p, count + end - begin);
    for (uint32_t at = begin; at < end; at++) {
        moment_t *m = &p->moment[at];
        const uint32_t most = p->limit - m->waiting; /* one of its buffers must begin here or below */
        uint32_t i = 0;
        if (m->waiting > p->limit || floor > most)
            return false;
        if (p->item[m->witness].lowest <= most)
            continue;
        while (i < count && p->item[w[i].buffer].first <= at &&
               (p->item[w[i].buffer].last < at || w[i].lowest > most))
            i++;
        spend(p, i);
        if (i == count || p->item[w[i].buffer].first > at)
            return false;
        m->witness = w[i].buffer;
    }
    return true;
}

/* The next one to be placed, at `floor` or above, among equal offsets from `rank` on. EBB_NONE: none need be. */
static uint32_t next_of(packing_t *p, const waiting_t *w, uint32_t count, uint32_t floor, uint32_t rank)
{
    uint32_t next = EBB_NONE, least = UINT32_MAX;
    spend(p, count);
    for (uint32_t i = 0; i < count; i++) {
        const item_t *x = &p->item[w[i].buffer];
        const uint32_t low = w[i].lowest, top = low + (uint32_t)x->bytes;
        least = top < least ? top : least;
        if (low < floor || (low == floor && x->rank < rank))
            continue;
        if (next == EBB_NONE || low < w[next].lowest ||
            (low == w[next].lowest && x->rank < p->item[w[next].buffer].rank))
            next = i;
    }
    return next != EBB_NONE && w[next].lowest < least ? next : EBB_NONE;
}

static bool search(packing_t *p, const waiting_t *w, uint32_t count, waiting_t *later, uint32_t floor,
                   uint32_t rank);

/* Buffers that hang together in time, up to the moment `end`. */
static bool search_group(packing_t *p, const waiting_t *w, uint32_t count, waiting_t *later, uint32_t floor,
                         uint32_t rank, uint32_t end)
{
    const uint32_t before = p->placed_count;
    if (!may_fit(p, w, count, floor, end))
        return false;
    while (p->steps > p->stop) {
        const uint32_t next = next_of(p, w, count, floor, rank);
        if (next == EBB_NONE)
            return false;
        const uint32_t b = w[next].buffer, top = w[next].lowest + (uint32_t)p->item[b].bytes;
        memcpy(later, w, next * sizeof *w);
        memcpy(later + next, w + next + 1, (count - next - 1) * sizeof *w);
        for (uint32_t i = 0; i + 1 < count; i++)
            if (later[i].lowest < top && meet(&p->item[later[i].buffer], &p->item[b]))
                later[i].lowest = top;
        floor = w[next].lowest;
        rank = p->item[b].rank + 1;
        place(p, b, floor);
        if (search(p, later, count - 1, later + count - 1, floor, rank))
            return true;
        take_back(p, before);
    }
    return false;
}

/* Places what waits, at `floor` or above, among equal offsets from `rank` on. It is sorted by first moments; `later` is room. False: it
 * does not fit below the limit, or the attempt is over; nothing of it is placed then. */
static bool search(packing_t *p, const waiting_t *w, uint32_t count, waiting_t *later, uint32_t floor,
                   uint32_t rank)
{
    const uint32_t before = p->placed_count;
    for (uint32_t begin = 0, next; begin < count; begin = next) {
        uint32_t last = p->item[w[begin].buffer].last;
        for (next = begin + 1; next < count && p->item[w[next].buffer].first <= last; next++)
            last = p->item[w[next].buffer].last > last ? p->item[w[next].buffer].last : last;
        if (!search_group(p, w + begin, next - begin, later, floor, rank, last + 1)) {
            take_back(p, before);
            return false;
        }
    }
    return true;
}

static bool attempt(packing_t *p, order_t order, bool shuffled, uint64_t steps)
{
    keyed_t *key = in_order(p, ORDERS);
    for (uint32_t i = 0; i < p->count; i++) {
        p->chance = p->chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint64_t moved = shuffled ? (p->chance >> 33) % (p->count + FEW) : 0;
        key[i] = (keyed_t){(uint64_t)i * SHUFFLE + moved, in_order(p, order)[i].buffer};
    }
    qsort(key, p->count, sizeof *key, by_key);
    for (uint32_t i = 0; i < p->count; i++) {
        p->item[key[i].buffer].rank = i;
        p->waiting[i] = (waiting_t){in_order(p, BY_BEGIN)[i].buffer, 0};
    }
    for (uint32_t i = 0; i < p->moments; i++)
        p->moment[i].waiting = (uint32_t)p->moment[i].load;
    p->placed_count = 0;
    p->stop = p->steps > steps ? p->steps - steps : 0;
    return search(p, p->waiting, p->count, p->waiting + p->count, 0, 0);
}

/* The least height that is possible comes first, then those between it and the best so far. An attempt that ends early has proven
 * that there is none. */
static void search_heights(packing_t *p, uint64_t least, uint64_t grain)
{
    for (uint64_t target = least, high; least < (high = units(p->height, grain)) && p->steps;
         target = least + (high - least) / 2) {
        const uint64_t end = p->steps - p->steps / SHARE, size = p->count + FEW;
        uint64_t steps = ATTEMPT * size * size;
        bool found = false, none = false;
        p->limit = (uint32_t)(target * grain);
        for (uint32_t i = 0; p->steps > end && !found && !none; i++) {
            found = attempt(p, i % 2 ? BY_LENGTH : BY_BEGIN, i > 1, steps);
            steps += steps / GROWTH;
            none = !found && p->steps > p->stop;
        }
        if (found)
            keep_best(p);
        else
            least = target + 1;
    }
}

uint64_t ebb_pack(ebb_lifetime_t *lifetime, uint32_t count, uint64_t grain, uint64_t steps)
{
    const size_t n = (size_t)count + 1, deep = count <= MOST_SEARCHED ? n * n / 2 + n : 1;
    packing_t p = {.lifetime = lifetime, .count = count, .height = UINT64_MAX, .steps = steps};
    p.item = calloc(n, sizeof *p.item);
    p.moment = calloc(n, sizeof *p.moment);
    p.order = calloc(n * (ORDERS + 2), sizeof *p.order);
    p.placed = calloc(n, sizeof *p.placed);
    p.waiting = malloc(deep * sizeof *p.waiting);
    if (p.item && p.moment && p.order && p.placed && p.waiting) {
        find_moments(&p);
        const uint64_t least = units(p.bound, grain);
        for (order_t i = 0; i < ORDERS && units(p.height, grain) > least; i++)
            first_fit(&p, i);
        if (count <= MOST_SEARCHED && p.height < MOST_BYTES)
            search_heights(&p, least, grain);
    }
    free(p.item);
    free(p.moment);
    free(p.order);
    free(p.placed);
    free(p.waiting);
    return p.height;
}

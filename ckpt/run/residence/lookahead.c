/* lookahead.c: memory is moved before it has to be, by what is known of the program's next operations (tracker/tracker.h).
 *
 * After each operation the next ones are gone through, up to a window of bytes that they need: what is on the host is
 * fetched, as long as there are chunks without an owner for it; for what is missing, buffers that are needed later than
 * all of that are sent on their way. Their chunks are taken when their copies are over, later. So the host waits for
 * nothing here; it does in evict.c, when memory runs out nevertheless.
 */

#include "alloc/base/options.h"
#include "alloc/device.h"
#include "ckpt/run/residence/internal.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"
#include "offload/ebb_offload.h"

/* The window: a share of the budget, and operations. On their way out at once: as much as the engine's window. */
enum {
    WINDOW_SHARE = 4,
    FARTHEST = 256,
    LEAST_WINDOW_CHUNKS = 4,
    MOST_WINDOW_CHUNKS = 128,
    MOST_LEAVING_BYTES = 64 << 20
};

typedef struct sight {
    size_t window;      /* chunks */
    long missing, most; /* chunks that are needed up to here, beyond those in use now; the most of that */
    size_t needed;      /* chunks in the window so far */
    uint32_t end;       /* operations looked at */
} sight_t;

static size_t window_chunks(ebb_device_t *dev)
{
    size_t chunks = ebb_chunks_limit(dev) / WINDOW_SHARE;
    return chunks < LEAST_WINDOW_CHUNKS  ? LEAST_WINDOW_CHUNKS
           : chunks > MOST_WINDOW_CHUNKS ? MOST_WINDOW_CHUNKS
                                         : chunks;
}

/* Chunks that leaving buffers can give now. The driver is asked about one mark at most. */
static void take_what_has_left(ebb_device_t *dev)
{
    for (ebb_buffer_t *b = dev->run->leaving->first, *next; b; b = next) {
        const ebb_residence_t *r = b->residence;
        next = b->evicting;
        bool over = ebb_mark_reached(r->left);
        for (unsigned i = 0; over && r->dropping && i < b->use_count && i < EBB_USE_MARKS; i++)
            over = ebb_mark_reached(b->use[i]);
        if (!over || b->held || ebb_vacate(b))
            return;
    }
}

static bool may_come(const ebb_buffer_t *b)
{
    const ebb_residence_t *r = b->residence;
    return !b->range->mapped && r && r->where == EBB_ON_HOST && r->host.pinned;
}

/* A buffer that the operation touches. */
static void consider(sight_t *s, ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    if (ebb_where(b) == EBB_LEAVING)
        ebb_stay(b);
    if (b->range->mapped)
        return;
    const size_t chunks = b->range->chunk_count;
    s->needed += chunks;
    /* What will be freed by then counts for what is missing already, not for more. */
    const long before = s->missing > 0 ? s->missing : 0;
    if (may_come(b) && before + (long)chunks <= (long)ebb_chunks_unowned(dev) && !ebb_fetch(b))
        ebb_traffic_counted(dev)->ahead++;
    else
        s->missing += (long)chunks;
}

static sight_t look(ebb_device_t *dev)
{
    sight_t s = {.window = window_chunks(dev)};
    ebb_coming_t c;
    for (; s.end < FARTHEST && s.needed < s.window && ebb_tracker_coming(dev, s.end, &c); s.end++) {
        s.missing += (long)c.born_chunks - (long)c.freed_chunks;
        s.needed += c.born_chunks;
        for (uint32_t i = 0; i < c.buffers && s.needed < s.window; i++) {
            ebb_buffer_t *b = ebb_tracker_touched(dev, s.end, i);
            if (b)
                consider(&s, b);
        }
        s.most = s.missing > s.most ? s.missing : s.most;
    }
    return s;
}

static void send_ahead(ebb_device_t *dev, const sight_t *s, size_t chunks)
{
    ebb_victims_t v;
    if (dev->run->leaving->bytes >= MOST_LEAVING_BYTES || !ebb_victims_choose_ahead(dev, &v, chunks, s->end))
        return;
    const bool have = ebb_victims_have_hosts(dev, &v);
    for (size_t i = 0; have && i < v.count && dev->run->leaving->bytes < MOST_LEAVING_BYTES; i++) {
        ebb_residence_t *r = ebb_residence_of(v.list[i].buffer);
        if (!r)
            break;
        r->same = r->hashed = false; /* the host would have to wait for a hash */
        if (ebb_leave(v.list[i].buffer, v.list[i].drop))
            break;
    }
    ebb_victims_free(&v);
}

void ebb_residence_look_ahead(ebb_device_t *dev)
{
    if (!ebb_tracker_known(dev) || !(ebb_traffic_counted(dev)->evictions + ebb_traffic_counted(dev)->drops) ||
        ebb_keeps_everything(dev) || ebb_options.policy.code == EBB_POLICY_KEEP)
        return;
    const sight_t s = look(dev);
    const size_t most = (size_t)s.most;
    size_t unowned = ebb_chunks_unowned(dev);
    if (most > unowned && dev->run->leaving->first) {
        take_what_has_left(dev);
        unowned = ebb_chunks_unowned(dev);
    }
    if (most > unowned + dev->run->leaving->chunks)
        send_ahead(dev, &s, most - unowned - dev->run->leaving->chunks);
}

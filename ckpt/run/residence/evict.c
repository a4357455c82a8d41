/* evict.c: making room: sending away what victims.c has chosen. The copies are issued one after the other, within the
 * engine's window; mappings are taken away in the same order, as the copies end, because a mapping must not
 * change under work that is under way. What lookahead.c has sent away before it had to is first.
 */
#include <stdlib.h>

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/residence/internal.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

/* ---- host memory whose copy is still under way ---- */

typedef struct deferred_free {
    ebb_host_t host;
    ebb_mark_t until;
    struct deferred_free *next;
} deferred_free_t;

struct ebb_deferred_frees {
    deferred_free_t *first;
};
const size_t ebb_part_deferred_frees = sizeof(struct ebb_deferred_frees);

void ebb_collect_hosts(ebb_device_t *dev)
{
    for (deferred_free_t **link = &dev->run->deferred_frees->first; *link;) {
        deferred_free_t *l = *link;
        if (!ebb_mark_reached(l->until)) {
            link = &l->next;
            continue;
        }
        *link = l->next;
        ebb_host_free(dev, l->host);
        free(l);
    }
}

void ebb_free_host_at(ebb_device_t *dev, ebb_host_t host, ebb_mark_t until)
{
    deferred_free_t *l = ebb_mark_reached(until) ? NULL : malloc(sizeof *l);
    if (!l) {
        if (ebb_mark_wait(until))
            return; /* better lost than reused too early */
        ebb_host_free(dev, host);
        return;
    }
    *l = (deferred_free_t){.host = host, .until = until, .next = dev->run->deferred_frees->first};
    dev->run->deferred_frees->first = l;
}

static void make_host_room(ebb_device_t *dev, size_t bytes)
{
    if (dev->run->deferred_frees->first)
        ebb_collect_hosts(dev);
    const ebb_pinned_usage_t u = ebb_pinned_usage(dev);
    if (u.allocated_bytes + bytes > u.budget_bytes)
        ebb_clean_drop(dev, u.allocated_bytes + bytes - u.budget_bytes);
}

/* ---- one buffer ---- */

bool ebb_may_evict(const ebb_buffer_t *b)
{
    return b->range->mapped && ebb_is_resident(b) && !b->held && !b->kept &&
           b->bytes >= (size_t)ebb_options.min_buffer;
}

/* ---- those that are on their way ---- */

const size_t ebb_part_leaving = sizeof(struct ebb_leaving);

static void enqueue(struct ebb_leaving *leaving, ebb_buffer_t *b)
{
    b->evicting = NULL;
    *(leaving->last ? &leaving->last->evicting : &leaving->first) = b;
    leaving->last = b;
    leaving->chunks += b->range->chunk_count;
    leaving->bytes += b->bytes;
}

static void dequeue(struct ebb_leaving *leaving, ebb_buffer_t *b)
{
    ebb_buffer_t *before = NULL;
    for (ebb_buffer_t *at = leaving->first; at != b; at = at->evicting)
        before = at;
    *(before ? &before->evicting : &leaving->first) = b->evicting;
    if (leaving->last == b)
        leaving->last = before;
    leaving->chunks -= b->range->chunk_count;
    leaving->bytes -= b->bytes;
}

/* Starts the copy out, unless the host has the same bytes. */
static ebb_status_t copy_out(ebb_buffer_t *b, ebb_residence_t *r)
{
    ebb_device_t *dev = b->range->device;
    ebb_host_t host = r->kept;
    r->kept = (ebb_host_t){0};
    if (r->same) { /* the device has got to where its hash was taken */
        r->same = false;
        r->host = host;
        r->left = (ebb_mark_t){0};
        ebb_traffic_counted(dev)->clean_evictions++;
        return 0;
    }
    ebb_stream_t *out = ebb_copy_stream(dev, EBB_OUT);
    if (!host.at) {
        make_host_room(dev, b->bytes);
        EBB_TRY(ebb_host_alloc(dev, b->bytes, r->dropping, &host));
    }
    /* It may have been fetched and not used since. */
    ebb_status_t status = out ? ebb_mark_join(out, r->ready) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!status)
        status = ebb_copy_out(b, host, &r->left);
    if (status) {
        ebb_free_host_at(dev, host, out ? ebb_mark_here(out) : (ebb_mark_t){0});
        return status;
    }
    r->host = host;
    return 0;
}

/* With a copy all the same, if the host has memory for it: in case that what is made again is not the same. False: it has none for this. */
static bool begin_drop(ebb_buffer_t *b, ebb_residence_t *r)
{
    bool keep_copy;
    ebb_mark_t looked;
    ebb_stream_t *out = ebb_copy_stream(b->range->device, EBB_OUT);
    r->same = false;
    if (!ebb_recipe_dropping(b, r->ready, &keep_copy, &looked)) {
        r->hashed = false; /* of what the block is about to hold there is none: it was not looked at */
        return false;
    }
    r->dropping = true;
    r->left = looked;
    r->hashed &= !keep_copy; /* of what the block is about to hold there is no hash */
    if (keep_copy && out && !ebb_mark_join(out, looked) && copy_out(b, r))
        r->left = ebb_mark_here(out); /* a part of it may be under way */
    return true;
}

ebb_status_t ebb_leave(ebb_buffer_t *b, bool drop)
{
    ebb_residence_t *r = ebb_residence_of(b);
    if (!r)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *r);
    EBB_DCHECK(r->where == EBB_RESIDENT);
    if (!drop || !begin_drop(b, r))
        EBB_TRY(copy_out(b, r));
    r->where = EBB_LEAVING;
    enqueue(b->range->device->run->leaving, b);
    return 0;
}

void ebb_stay(ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    ebb_residence_t *r = b->residence;
    EBB_DCHECK(r->where == EBB_LEAVING);
    dequeue(dev->run->leaving, b);
    if (r->dropping)
        ebb_recipe_dropped(b, false);
    if (r->host.at)
        ebb_free_host_at(dev, r->host, r->left);
    r->host = (ebb_host_t){0};
    r->dropping = false;
    r->where = EBB_RESIDENT;
    if (r->left.stream)
        r->ready = r->left; /* the copy, or what looked at it, must be done before it is written */
}

ebb_status_t ebb_vacate(ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    ebb_residence_t *r = b->residence;
    ebb_status_t status = ebb_stall(dev, r->left);
    if (!status && r->dropping) { /* without a copy nothing else tells when its users are done */
        for (unsigned i = 0; !status && i < b->use_count && i < EBB_USE_MARKS; i++)
            status = ebb_stall(dev, b->use[i]);
        if (!status)
            status = ebb_stall(dev, r->ready);
    }
    if (status) {
        ebb_stay(b);
        return status;
    }
    dequeue(dev->run->leaving, b);
    ebb_range_unmap(b->range);
    if (r->dropping) {
        r->dropping = false;
        r->where = EBB_DROPPED;
        ebb_recipe_dropped(b, true);
        ebb_traffic_counted(dev)->drops++;
    } else {
        r->where = EBB_ON_HOST;
        ebb_traffic_counted(dev)->evictions++;
    }
    return 0;
}

/* ---- many ---- */

static void settle_hash(ebb_buffer_t *b)
{
    ebb_residence_t *r = b->residence;
    if (r)
        r->same = r->hashed = false;
}

/* Of those that are to be copied: the host may have them already. */
static void look_at_those_that_are_copied(ebb_victim_t *list, size_t count)
{
    ebb_buffer_t *first = NULL, **end = &first;
    for (size_t i = 0; i < count; i++) {
        if (list[i].drop)
            continue;
        *end = list[i].buffer;
        end = &list[i].buffer->evicting;
    }
    *end = NULL;
    ebb_clean_look(first);
}

/* Starts all copies, and ends them in the same order. After a failure what comes behind stays. */
static ebb_status_t send(ebb_victim_t *list, size_t count)
{
    ebb_status_t status = 0;
    size_t sent = 0;
    look_at_those_that_are_copied(list, count);
    while (sent < count && !(status = ebb_leave(list[sent].buffer, list[sent].drop)))
        sent++;
    for (size_t i = sent; i < count; i++)
        settle_hash(list[i].buffer);
    for (size_t i = 0; i < sent; i++) {
        ebb_status_t ended = ebb_vacate(list[i].buffer);
        status = ended ? ended : status;
    }
    return status;
}

/* ---- host memory ahead of need ---- */

static bool has_host(const ebb_buffer_t *b)
{
    const ebb_residence_t *r = b->residence;
    return r && r->kept.at;
}

/* It will be copied, or may be, and the host has no memory for that yet. */
static bool needs_host(const ebb_victim_t *v)
{
    return (!v->drop || ebb_recipe_may_keep_copy(v->buffer)) && !has_host(v->buffer);
}

/* Of those that would have been next: if they are not, others of their sizes are. Together they bound what lies pinned and unused
 * (offload/ebb_offload.h). */
static void expect_next(ebb_device_t *dev, const ebb_victims_t *v)
{
    enum { MOST = 16, LOOKED_AT = 256 };
    const size_t share = ebb_usage(dev).budget_bytes / 32, most = (size_t)256 << 20,
                 enough = share < most ? share : most;
    size_t bytes[MOST], count = 0, sum = 0;
    if (ebb_plans_rest(dev) || !ebb_traffic_counted(dev)->evictions)
        return;
    for (size_t i = v->count; i < v->candidates && count < MOST && sum < enough && i < v->count + LOOKED_AT;
         i++)
        if (needs_host(&v->list[i]))
            sum += bytes[count++] = v->list[i].buffer->bytes;
    ebb_pinned_expect(dev, bytes, count);
}

static size_t list_wanted(const ebb_victims_t *v, size_t *bytes, size_t *sum)
{
    size_t count = 0;
    *sum = 0;
    for (size_t i = 0; i < v->count; i++)
        if (needs_host(&v->list[i]))
            *sum += bytes[count++] = v->list[i].buffer->bytes;
    return count;
}

bool ebb_victims_have_hosts(ebb_device_t *dev, const ebb_victims_t *v)
{
    size_t sum, *bytes = malloc((v->count + 1) * sizeof *bytes);
    if (!bytes)
        return true;
    list_wanted(v, bytes, &sum);
    make_host_room(dev, sum); /* clean copies go, perhaps theirs */
    const bool have = ebb_pinned_want(dev, bytes, list_wanted(v, bytes, &sum), true);
    free(bytes);
    return have;
}

/* What is on its way goes first. */
static void end_leaving(ebb_device_t *dev, size_t wanted)
{
    struct ebb_leaving *leaving = dev->run->leaving;
    while (leaving->first && ebb_chunks_available(dev) < wanted)
        if (ebb_vacate(leaving->first)) {
            ebb_log(EBB_DEBUG, "eviction: %s", ebb_last_failure());
            return;
        }
}

bool ebb_residence_make_room(ebb_device_t *dev, size_t chunks)
{
    if (ebb_options.policy.code == EBB_POLICY_KEEP || ebb_keeps_everything(dev))
        return false;
    const size_t wanted = ebb_chunks_available(dev) + chunks;
    ebb_stage_prepare(dev);
    end_leaving(dev, wanted);
    /* Once more, because a victim may turn out not to be one: a drop that needs a copy, say. */
    for (int round = 0; round < 2 && ebb_chunks_available(dev) < wanted; round++) {
        ebb_victims_t v;
        if (!ebb_victims_choose(dev, &v, wanted - ebb_chunks_available(dev)))
            break;
        const bool have = ebb_victims_have_hosts(dev, &v);
        if (have && send(v.list, v.count))
            ebb_log(EBB_DEBUG, "eviction: %s", ebb_last_failure());
        if (have)
            expect_next(dev, &v);
        ebb_victims_free(&v);
        if (!have)
            break;
    }
    return ebb_chunks_available(dev) >= wanted;
}

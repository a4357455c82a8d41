/* evict.c: making room. Victims are the large buffers that were not used for the longest time. Those that
 * queued work still needs come last: their copies would wait for that work, and the host with them. The
 * copies are issued one after the other, within the engine's window; mappings are taken away in the same
 * order, as the copies end, because a mapping must not change under work that is under way.
 */
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "log.h"
#include "options.h"
#include "pinned.h"
#include "residence.h"
#include "staging.h"
#include "traffic.h"

/* ---- host memory whose copy is still under way ---- */

typedef struct leftover {
    ebb_host_t host;
    size_t bytes;
    ebb_mark_t until;
    struct leftover *next;
} leftover_t;

static leftover_t *leftovers_of[EBB_STATES];
#define leftovers (leftovers_of[ebb_slot])

void ebb_collect_hosts(void)
{
    for (leftover_t **link = &leftovers; *link;) {
        leftover_t *l = *link;
        if (!ebb_mark_reached(l->until)) {
            link = &l->next;
            continue;
        }
        *link = l->next;
        ebb_host_free(l->host, l->bytes);
        free(l);
    }
}

void ebb_free_host_at(ebb_host_t host, size_t bytes, ebb_mark_t until)
{
    leftover_t *l = ebb_mark_reached(until) ? NULL : malloc(sizeof *l);
    if (!l) {
        if (ebb_mark_wait(until))
            return; /* better lost than reused too early */
        ebb_host_free(host, bytes);
        return;
    }
    *l = (leftover_t){.host = host, .bytes = bytes, .until = until, .next = leftovers};
    leftovers = l;
}

static ebb_status_t find_host(size_t bytes, ebb_host_t *out)
{
    if (leftovers)
        ebb_collect_hosts();
    const ebb_pinned_usage_t u = ebb_pinned_usage();
    if (u.allocated_bytes + bytes > u.budget_bytes)
        ebb_clean_drop(u.allocated_bytes + bytes - u.budget_bytes);
    return ebb_host_alloc(bytes, out);
}

/* ---- one buffer ---- */

bool ebb_may_evict(const ebb_buffer_t *b)
{
    return b->range->mapped && !b->held && b->bytes >= (size_t)ebb_options.min_buffer;
}

/* Starts the copy out, if its content is not on the host already. */
static ebb_status_t leave(ebb_buffer_t *b)
{
    ebb_residence_t *r = ebb_residence_of(b);
    if (!r)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *r);
    r->left = (ebb_mark_t){0};
    if (r->host.at)
        return 0;
    ebb_host_t host = r->kept;
    r->kept = (ebb_host_t){0};
    if (r->same) { /* the device has got to where its hash was taken */
        r->same = false;
        r->host = host;
        ebb_traffic_counters.unchanged++;
        return 0;
    }
    ebb_stream_t *out = ebb_copy_stream(EBB_OUT);
    if (!host.at)
        EBB_TRY(find_host(b->bytes, &host));
    /* It may have been fetched and not used since. */
    ebb_status_t status = out ? ebb_mark_join(ebb_stream_handle(out), r->ready) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!status)
        status = ebb_copy_out(b, host, &r->left);
    if (status) {
        ebb_free_host_at(host, b->bytes, out ? ebb_mark_here(out) : (ebb_mark_t){0});
        return status;
    }
    r->host = host;
    return 0;
}

/* The host waits for the copy. On failure the buffer stays what it was. */
static ebb_status_t vacate(ebb_buffer_t *b)
{
    ebb_residence_t *r = b->listener_state;
    ebb_status_t status = ebb_stall(r->left);
    if (status) {
        ebb_free_host_at(r->host, b->bytes, r->left);
        r->host = (ebb_host_t){0};
        return status;
    }
    EBB_TRY(ebb_range_unmap(b->range)); /* mapped and on the host: see ebb_is_resident */
    ebb_traffic_counters.evictions++;
    return 0;
}

/* ---- many ---- */

static bool is_idle(const ebb_buffer_t *b)
{
    if (b->use_count > EBB_USE_MARKS)
        return false; /* on so many streams that they are not told apart */
    for (unsigned i = 0; i < b->use_count; i++)
        if (!ebb_mark_reached(b->use[i]))
            return false;
    return true;
}

typedef struct victims {
    ebb_buffer_t *first, **end; /* in the order of their copies, linked through `evicting` */
    size_t chunks;
} victims_t;

static void choose(victims_t *v, size_t chunks, bool idle_only)
{
    for (ebb_buffer_t *b = ebb_buffer_oldest(); b && v->chunks < chunks; b = b->newer) {
        if (!ebb_may_evict(b) || (idle_only && !is_idle(b)))
            continue;
        b->held++; /* not again by the second round */
        b->evicting = NULL;
        *v->end = b;
        v->end = &b->evicting;
        v->chunks += b->range->chunk_count;
    }
}

static void settle_hash(ebb_buffer_t *b)
{
    ebb_residence_t *r = b->listener_state;
    if (r)
        r->same = r->hashed = false;
}

/* Starts all copies, and ends them in the same order. After a failure what comes behind stays. */
static ebb_status_t send(ebb_buffer_t *first)
{
    ebb_status_t status = 0;
    ebb_buffer_t *b = first;
    ebb_clean_look(first);
    while (b && !(status = leave(b)))
        b = b->evicting;
    const ebb_buffer_t *stays = b;
    for (; b; b = b->evicting)
        settle_hash(b);
    for (b = first; b != stays; b = b->evicting) {
        ebb_status_t ended = vacate(b);
        status = ended ? ended : status;
    }
    for (b = first; b; b = b->evicting)
        b->held--;
    return status;
}

bool ebb_residence_make_room(size_t chunks)
{
    if (!strcmp(ebb_options.policy, "keep") || ebb_keeps_everything())
        return false;
    const size_t wanted = ebb_chunks_available() + chunks;
    victims_t v = {.first = NULL};
    v.end = &v.first;
    ebb_stage_prepare();
    choose(&v, chunks, true);
    choose(&v, chunks, false);
    if (send(v.first))
        ebb_log(EBB_INFO, "eviction: %s", ebb_last_failure());
    return ebb_chunks_available() >= wanted;
}

ebb_status_t ebb_residence_evict(ebb_buffer_t *b)
{
    settle_hash(b);
    EBB_TRY(leave(b));
    return vacate(b);
}

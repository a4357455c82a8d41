/* drive_install.c: from the state as it is to the plan's, and back. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "drive_state.h"
#include "ebb_offload.h"
#include "log.h"
#include "mismatch.h"
#include "pinned.h"
#include "rotate.h"

#define D ebb_drive

static bool persists(const ebb_trace_buffer_t *b)
{
    return b->born == EBB_TRACE_NEVER;
}

ebb_buffer_t *ebb_recorded_buffer(const ebb_recording_t *learned, ebb_buffer_t *const *present, uint32_t id)
{
    const ebb_trace_buffer_t *t = &learned->trace->buffer[id];
    if (ebb_trace_rotates(learned->trace, id)) {
        ebb_buffer_t *b = present ? present[id] : NULL;
        const bool fits = b && (ebb_is_large(t) ? b->bytes == t->bytes : b->bytes <= t->bytes);
        return fits ? b : NULL;
    }
    ebb_buffer_t *b = ebb_buffer_at(learned->address[id]);
    return b && b->generation == learned->generation[id] ? b : NULL;
}

bool ebb_drive_knows_all(const ebb_recording_t *learned, ebb_buffer_t *const *present)
{
    for (uint32_t i = 0; i < learned->trace->buffer_count; i++)
        if (persists(&learned->trace->buffer[i]) && ebb_trace_rotates(learned->trace, i) &&
            !ebb_recorded_buffer(learned, present, i))
            return false;
    return true;
}

bool ebb_drive_is_ready(const ebb_recording_t *learned)
{
    for (uint32_t i = 0; i < learned->trace->buffer_count; i++)
        if (persists(&learned->trace->buffer[i]) && !ebb_trace_rotates(learned->trace, i) &&
            !ebb_recorded_buffer(learned, NULL, i))
            return false;
    return true;
}

size_t ebb_drive_room(unsigned slot, const ebb_recording_t *learned, ebb_buffer_t *const *present)
{
    ebb_verify_prepare(ebb_share_drive(slot), learned->trace);
    ebb_heap_reclaim(SIZE_MAX, true);
    size_t chunks = ebb_chunks_available() + ebb_share_room(learned);
    for (uint32_t i = 0; i < learned->trace->buffer_count; i++) {
        const ebb_trace_buffer_t *t = &learned->trace->buffer[i];
        const ebb_buffer_t *b =
            persists(t) && ebb_is_large(t) ? ebb_recorded_buffer(learned, present, i) : NULL;
        if (b && b->range->mapped && !ebb_share_has(b))
            chunks += b->range->chunk_count;
    }
    return chunks * EBB_CHUNK_BYTES;
}

/* ---- buffers that are there ---- */

/* Where its content is now; a host block becomes the site's. False: it cannot, and nothing has changed. */
static bool note_where(site_t *s)
{
    void *host;
    if (!ebb_residence_take(s->buffer, &host))
        return false;
    s->range = s->buffer->range;
    s->host_bytes = s->buffer->bytes;
    s->host = host;
    s->device = s->range->mapped;
    s->on_host = !s->device && s->host;
    s->written = s->device || s->on_host; /* else it was handed over without content, and not touched since */
    return true;
}

/* NULL, or why not. */
static const char *find_persistent(ebb_buffer_t *const *present)
{
    for (uint32_t i = 0; i < D.trace->buffer_count; i++) {
        if (!persists(&D.trace->buffer[i]))
            continue;
        ebb_buffer_t *b = ebb_recorded_buffer(D.learned, present, i);
        if (!b)
            return "a buffer that outlives the step is gone";
        if (ebb_stays_itself(D.trace, i) && ebb_share_take(i, b))
            continue;
        D.site[i].buffer = b;
        if (ebb_is_large(&D.trace->buffer[i]) && !note_where(&D.site[i])) {
            D.site[i].buffer = NULL; /* it stays as it is, the reactive half's */
            return "not enough host memory can be pinned";
        }
        b->tag = i + 1;
        b->held++; /* the reactive half leaves it alone until the plan is dissolved */
        D.site[i].found = true;
        if (ebb_stays_itself(D.trace, i) && !ebb_share_add(i))
            return "no host memory";
        D.living += ebb_trace_rotates(D.trace, i);
    }
    return NULL;
}

/* A host block for what the plan copies out of this place. */
static bool find_host(uint32_t place)
{
    site_t *s = &D.site[place];
    s->evicted = true;
    s->host_bytes = D.plan->place[place].bytes;
    return s->host || (s->host = ebb_pinned_alloc(s->host_bytes));
}

/* Wherever it is, in all steps of a period; after it all are in their own places again. */
static bool find_hosts(void)
{
    for (uint32_t step = 0; step < D.period; step++) {
        for (uint32_t i = 0; i < D.plan->action_count; i++)
            if (D.plan->action[i].kind == EBB_EVICT && !find_host(ebb_place_now(D.plan->action[i].place)))
                return false;
        if (D.period > 1)
            ebb_rotation_turn(D.trace, D.at);
    }
    return true;
}

/* False: the trace is none that a plan can be driven for. */
static bool find_rings(void)
{
    char why[160];
    D.period = ebb_rotation_period(D.trace, why, sizeof why);
    for (uint32_t i = 0; i < D.trace->buffer_count; i++) {
        D.at[i] = i;
        D.outliving += ebb_trace_rotates(D.trace, i) && D.trace->buffer[i].dies == EBB_TRACE_NEVER;
    }
    return D.period;
}

/* Other plans know it as well, perhaps. */
static bool is_shared(uint32_t place)
{
    const ebb_settled_t *k = ebb_share_settled(place);
    return k && k->shared;
}

/* Sends away what the plan has on the host when the step begins. */
static bool settle_persistent(void)
{
    for (uint32_t i = 0; i < D.trace->buffer_count; i++) {
        site_t *s = &D.site[i];
        if (!s->range || !s->device || D.plan->place[i].at_start == EBB_ON_DEVICE || is_shared(i))
            continue;
        if (ebb_residence_evict(s->buffer) || !note_where(s))
            return false;
    }
    return true;
}

/* ---- places ---- */

static const uint32_t *chunks_of(uint32_t place)
{
    return D.plan->chunk + D.plan->place[place].first_chunk;
}

static bool map_place(uint32_t place)
{
    const ebb_place_t *p = &D.plan->place[place];
    site_t *s = &D.site[place];
    if (!p->chunk_count || (s->range && s->range->mapped))
        return true;
    if (!s->range && !(s->range = ebb_range_new(p->chunk_count)))
        return false;
    ebb_chunk_t *list = malloc(p->chunk_count * sizeof *list);
    if (!list)
        return false;
    for (uint32_t k = 0; k < p->chunk_count; k++)
        list[k] = D.chunk[chunks_of(place)[k]];
    ebb_status_t status = ebb_range_map_on(s->range, list);
    free(list);
    return !status;
}

/* What the plan has on the device when the step begins and is not there. */
static bool bring_in(void)
{
    for (uint32_t i = 0; i < D.trace->buffer_count; i++) {
        site_t *s = &D.site[i];
        if (D.plan->place[i].at_start != EBB_ON_DEVICE || s->device || !s->written)
            continue;
        if (!s->range || ebb_copy_issue(EBB_IN, s->range->base, s->host, s->host_bytes))
            return false;
        s->device = true;
    }
    if (ebb_driver.cuCtxSynchronize())
        return false;
    for (uint32_t i = 0; i < D.trace->buffer_count; i++) {
        site_t *s = &D.site[i];
        if (s->device && s->host && !s->evicted && !is_shared(i)) { /* never needed again */
            ebb_pinned_free(s->host, s->host_bytes);
            s->host = NULL;
        }
    }
    return true;
}

/* ---- rivals, events, joins ---- */

static bool find_rivals(void)
{
    uint32_t places = D.plan->place_count;
    uint32_t *seen = calloc((size_t)places + 1, sizeof *seen);
    uint32_t *list = calloc((size_t)places + 1, sizeof *list);
    /* Which places lie on a chunk: lists by chunk, in one array. */
    uint32_t *first = calloc((size_t)D.plan->chunk_count + 2, sizeof *first);
    uint32_t *on = calloc((size_t)D.plan->chunk_index_count + 1, sizeof *on);
    bool good = seen && list && first && on;
    for (uint32_t p = 0; good && p < places; p++)
        for (uint32_t k = 0; k < D.plan->place[p].chunk_count; k++)
            first[chunks_of(p)[k] + 2]++;
    for (uint32_t c = 0; good && c < D.plan->chunk_count; c++)
        first[c + 2] += first[c + 1];
    for (uint32_t p = 0; good && p < places; p++)
        for (uint32_t k = 0; k < D.plan->place[p].chunk_count; k++)
            on[first[chunks_of(p)[k] + 1]++] = p;
    for (uint32_t p = 0; good && p < places; p++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < D.plan->place[p].chunk_count; k++)
            for (uint32_t i = first[chunks_of(p)[k]]; i < first[chunks_of(p)[k] + 1]; i++)
                if (on[i] != p && seen[on[i]] != p + 1) {
                    seen[on[i]] = p + 1;
                    list[count++] = on[i];
                }
        if (count && (D.site[p].rival = malloc(count * sizeof *list)))
            memcpy(D.site[p].rival, list, count * sizeof *list);
        good = !count || D.site[p].rival;
        D.site[p].rival_count = count;
    }
    free(seen);
    free(list);
    free(first);
    free(on);
    return good;
}

static bool make_events(void)
{
    for (uint32_t i = 0; i < D.plan->action_count; i++) {
        ebb_action_kind_t kind = D.plan->action[i].kind;
        if (kind != EBB_EVICT && kind != EBB_FETCH)
            continue;
        if (ebb_driver.cuEventCreate(&D.before[i], CU_EVENT_DISABLE_TIMING) ||
            ebb_driver.cuEventCreate(&D.begun[i], CU_EVENT_DEFAULT) ||
            ebb_driver.cuEventCreate(&D.done[i], CU_EVENT_DEFAULT))
            return false;
    }
    return true;
}

/* By operation, which actions are waited for there. */
static bool list_joins(void)
{
    uint32_t n = D.trace->operation_count;
    for (uint32_t i = 0; i < D.plan->action_count; i++)
        if (D.plan->action[i].join < n)
            D.join_first[D.plan->action[i].join + 1]++;
    for (uint32_t p = 0; p < n; p++)
        D.join_first[p + 1] += D.join_first[p];
    uint32_t *next = malloc(((size_t)n + 1) * sizeof *next);
    if (!next)
        return false;
    memcpy(next, D.join_first, ((size_t)n + 1) * sizeof *next);
    for (uint32_t i = 0; i < D.plan->action_count; i++)
        if (D.plan->action[i].join < n)
            D.join_action[next[D.plan->action[i].join]++] = i;
    free(next);
    for (uint32_t p = 0; p < n; p++)
        for (uint32_t k = 0; D.join_first[p] < D.join_first[p + 1] && k < 4; k++)
            if (ebb_driver.cuEventCreate(&D.stall[4 * (size_t)p + k], CU_EVENT_DEFAULT))
                return false;
    return true;
}

static void list_deaths(void)
{
    uint32_t n = D.trace->operation_count;
    for (uint32_t i = 0; i < D.trace->buffer_count; i++)
        if (D.trace->buffer[i].dies <= n)
            D.death_first[D.trace->buffer[i].dies + 2]++;
    for (uint32_t p = 0; p <= n; p++)
        D.death_first[p + 2] += D.death_first[p + 1];
    for (uint32_t i = 0; i < D.trace->buffer_count; i++)
        if (D.trace->buffer[i].dies <= n)
            D.death[D.death_first[D.trace->buffer[i].dies + 1]++] = i;
}

static bool allocate(void)
{
    size_t n = D.trace->operation_count, actions = D.plan->action_count;
    D.chunk = calloc((size_t)D.plan->chunk_count + 1, sizeof *D.chunk);
    D.pool = calloc((size_t)D.plan->chunk_count + 1, sizeof *D.pool);
    if (D.pool)
        memset(D.pool, 0xff, ((size_t)D.plan->chunk_count + 1) * sizeof *D.pool);
    D.settled = malloc(((size_t)D.trace->buffer_count + 1) * sizeof *D.settled);
    if (D.settled)
        memset(D.settled, 0xff, ((size_t)D.trace->buffer_count + 1) * sizeof *D.settled);
    D.site = calloc((size_t)D.plan->place_count + 1, sizeof *D.site);
    D.at = calloc((size_t)D.trace->buffer_count + 1, sizeof *D.at);
    D.issued = calloc(n + 1, sizeof *D.issued);
    D.before = calloc(actions + 1, sizeof(CUevent));
    D.begun = calloc(actions + 1, sizeof(CUevent));
    D.done = calloc(actions + 1, sizeof(CUevent));
    D.recorded = calloc(actions + 1, sizeof *D.recorded);
    D.join_first = calloc(n + 2, sizeof *D.join_first);
    D.join_action = calloc(actions + 1, sizeof *D.join_action);
    D.death_first = calloc(n + 3, sizeof *D.death_first);
    D.death = calloc((size_t)D.trace->buffer_count + 1, sizeof *D.death);
    D.stall = calloc(4 * n + 1, sizeof(CUevent));
    D.first_touch = ebb_trace_first_touches(D.trace);
    return D.chunk && D.pool && D.settled && D.site && D.at && D.issued && D.before && D.begun && D.done &&
           D.recorded && D.join_first && D.join_action && D.death_first && D.death && D.stall &&
           D.first_touch;
}

static const char *install(ebb_buffer_t *const *present)
{
    if (!allocate() || !find_rings())
        return "no host memory";
    const char *wrong = ebb_streams_set_up();
    if (!wrong)
        wrong = find_persistent(present);
    if (wrong)
        return wrong;
    if (!settle_persistent())
        return ebb_last_failure();
    if (!find_hosts())
        return "no pinned host memory";
    if (!ebb_share_bind_chunks())
        return "the chunks are not there";
    for (uint32_t i = 0; i < D.plan->place_count; i++)
        if (!map_place(i))
            return ebb_last_failure();
    if (!ebb_share_open_small() || !bring_in())
        return ebb_last_failure();
    if (!ebb_share_note_chunks())
        return "no host memory";
    list_deaths();
    if (!find_rivals() || !make_events() || !list_joins() || !ebb_verify_set_up() || !ebb_tolerate_set_up() ||
        !ebb_guard_set_up())
        return "no host memory, or no events";
    return NULL;
}

bool ebb_drive_install(unsigned slot, ebb_recording_t *learned, const ebb_plan_t *plan,
                       ebb_buffer_t *const *present)
{
    const CUresult error = ebb_driver.cuCtxSynchronize();
    ebb_share_begin();
    ebb_share_select(slot);
    D = (drive_t){.counts = D.counts,
                  .clock = D.clock,
                  .hashes = D.hashes,
                  .hash_slots = D.hash_slots,
                  .verdict = D.verdict,
                  .arrived = D.arrived};
    D.learned = learned;
    D.trace = learned->trace;
    D.plan = plan;
    D.stream = learned->stream;
    D.streams = ebb_plan_streams(D.trace);
    D.installed = true;
    ebb_residence_waited();
    ebb_heap_reclaim(SIZE_MAX, true);
    const char *wrong = error ? "the device has failed" : install(present);
    if (wrong) {
        ebb_log(EBB_WARN, "the plan could not be installed: %s", wrong);
        ebb_driver.cuCtxSynchronize();
        ebb_guard_tear_down();
        ebb_share_dissolve();
        ebb_tolerate_tear_down();
        ebb_drive_forget();
        return false;
    }
    ebb_chunks_release();
    ebb_guard_close();
    D.active = true;
    D.cursor = D.trace->operation_count; /* a step is about to begin */
    return true;
}

/* ---- and back ---- */

/* What stays where it is keeps its chunks. */
static void keep_chunks(uint32_t place)
{
    const ebb_settled_t *k = ebb_share_settled(place);
    for (uint32_t i = 0; k && i < k->chunk_count; i++)
        ebb_share_keep_chunk(k->chunk[i]);
    /* Not noted yet, where the plan could not be installed. */
    for (uint32_t i = 0; !(k && k->chunk) && D.pool && i < D.plan->place[place].chunk_count; i++)
        if (D.pool[chunks_of(place)[i]] != EBB_TRACE_NEVER)
            ebb_share_keep_chunk(D.pool[chunks_of(place)[i]]);
}

void ebb_site_release(site_t *s, uint32_t place)
{
    if (s->range && !(s->buffer && s->device && s->range->mapped)) {
        if (s->range->mapped && ebb_range_unmap_from(s->range))
            ebb_log(EBB_WARN, "%s", ebb_last_failure());
        if (!s->buffer) {
            ebb_range_delete(s->range);
        } else {
            if (ebb_residence_put(s->buffer, s->on_host ? s->host : NULL))
                ebb_content_lost(place, "there is no host memory");
            if (s->on_host)
                s->host = NULL;
        }
    }
    if (s->buffer) {
        s->buffer->held--;
        s->buffer->tag = 0;
    }
    if (s->host)
        ebb_pinned_free(s->host, s->host_bytes);
    free(s->rival);
}

void ebb_drive_take_apart(void)
{
    ebb_verify_tear_down();
    ebb_streams_tear_down();
    ebb_step_clock_stop(&D.clock);
    for (uint32_t i = 0; D.site && i < D.plan->place_count; i++) {
        if (D.site[i].buffer && D.site[i].range && D.site[i].device && D.site[i].range->mapped)
            keep_chunks(i);
        ebb_site_release(&D.site[i], i);
    }
    for (uint32_t i = 0; D.before && D.begun && D.done && i < D.plan->action_count; i++) {
        if (D.before[i])
            ebb_driver.cuEventDestroy(D.before[i]);
        if (D.begun[i])
            ebb_driver.cuEventDestroy(D.begun[i]);
        if (D.done[i])
            ebb_driver.cuEventDestroy(D.done[i]);
    }
    for (size_t i = 0; D.stall && i < 4 * (size_t)D.trace->operation_count; i++)
        if (D.stall[i])
            ebb_driver.cuEventDestroy(D.stall[i]);
    free(D.chunk);
    free(D.pool);
    free(D.settled);
    free(D.site);
    free(D.at);
    free(D.before);
    free(D.begun);
    free(D.done);
    free(D.recorded);
    free(D.join_first);
    free(D.join_action);
    free(D.death_first);
    free(D.death);
    free(D.first_touch);
    free(D.stall);
    D.chunk = NULL;
    D.pool = D.settled = NULL;
    D.site = NULL;
    D.at = NULL;
    D.before = D.begun = D.done = D.stall = NULL;
    D.recorded = NULL;
    D.join_first = D.join_action = D.death_first = D.death = D.first_touch = NULL;
    D.small_slab = NULL;
    D.active = D.installed = false;
}

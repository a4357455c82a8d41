/* drive_install.c: from the state as it is to the plan's, and back. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/device.h"
#include "alloc/base/driver.h"
#include "alloc/base/log.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/drive_state.h"
#include "ckpt/run/replay/mismatch.h"
#include "ckpt/run/residence/residence.h"
#include "offload/ebb_offload.h"
#include "offload/pinned.h"

#define D ebb_drive

static bool persists(const ebb_trace_buffer_t *b)
{
    return b->born == EBB_NONE;
}

ebb_buffer_t *ebb_recorded_buffer(const ebb_recording_t *learned, ebb_buffer_t *const *present, uint32_t id)
{
    const ebb_trace_buffer_t *t = &learned->trace->buffer[id];
    if (ebb_trace_rotates(learned->trace, id)) {
        ebb_buffer_t *b = present ? present[id] : NULL;
        const bool fits = b && (ebb_is_large(t) ? b->bytes == t->bytes : b->bytes <= t->bytes);
        return fits ? b : NULL;
    }
    ebb_buffer_t *b = ebb_buffer_at(ebb_here->ebb, learned->address[id]);
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
    ebb_heap_reclaim(ebb_here, SIZE_MAX, true);
    size_t chunks = ebb_chunks_available(ebb_here) + ebb_share_room(learned);
    for (uint32_t i = 0; i < learned->trace->buffer_count; i++) {
        const ebb_trace_buffer_t *t = &learned->trace->buffer[i];
        const ebb_buffer_t *b =
            persists(t) && ebb_is_large(t) ? ebb_recorded_buffer(learned, present, i) : NULL;
        if (b && b->range->mapped && !ebb_share_has(b))
            chunks += b->range->chunk_count;
    }
    return chunks * EBB_CHUNK_BYTES;
}

size_t ebb_drive_host_room(const ebb_recording_t *learned, ebb_buffer_t *const *present)
{
    const ebb_pinned_usage_t u = ebb_pinned_usage();
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = u.budget_bytes + u.cached_bytes, used = u.registered_bytes;
    for (uint32_t i = 0; i < learned->trace->buffer_count; i++) {
        const ebb_trace_buffer_t *t = &learned->trace->buffer[i];
        const ebb_buffer_t *b =
            persists(t) && ebb_is_large(t) ? ebb_recorded_buffer(learned, present, i) : NULL;
        room += b ? ebb_residence_pinned_bytes(b) + ebb_share_pinned_bytes(b) : 0;
        used += ebb_is_large(t) ? page : 0; /* blocks are whole pages */
    }
    return room > used ? room - used : 0;
}

/* ---- buffers that are there: until everything else is, their contents stay residence's ---- */

/* What other plans have settled stays with them for now. */
static ebb_status_t find_persistent(ebb_buffer_t *const *present)
{
    for (uint32_t i = 0; i < D.trace->buffer_count; i++) {
        site_t *s = &D.site[i];
        if (!persists(&D.trace->buffer[i]))
            continue;
        ebb_buffer_t *b = ebb_recorded_buffer(D.learned, present, i);
        if (!b)
            return ebb_fail(CUDA_ERROR_NOT_FOUND, "a buffer that outlives the step", 0);
        if (ebb_stays_itself(D.trace, i) && ebb_share_find(i, b))
            continue;
        *s = (site_t){.buffer = b, .found = true};
        b->held++; /* the reactive half leaves it alone until the plan is dissolved */
        if (ebb_is_large(&D.trace->buffer[i])) {
            s->range = b->range;
            s->host_bytes = b->bytes;
        }
        if (ebb_stays_itself(D.trace, i) && !ebb_share_add(i))
            return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
    }
    return 0;
}

static bool starts(const site_t *s, uint32_t place, bool on_device)
{
    return s->found && s->range && (D.plan->place[place].at_start == EBB_ON_DEVICE) == on_device;
}

/* All of them to where the plan has them when a step begins: out, in, and then, when nothing is under way any more, to pinned
 * memory. */
static ebb_status_t bring_to_start(void)
{
    for (uint32_t i = 0; i < D.trace->buffer_count; i++)
        if (starts(&D.site[i], i, false))
            EBB_TRY(ebb_residence_send(D.site[i].buffer));
    for (uint32_t i = 0; i < D.trace->buffer_count; i++)
        if (starts(&D.site[i], i, true))
            EBB_TRY(ebb_residence_bring(D.site[i].buffer));
    EBB_TRY(ebb_wait_for_device());
    ebb_residence_waited();
    for (uint32_t i = 0; i < D.trace->buffer_count; i++)
        if (starts(&D.site[i], i, false))
            EBB_TRY(ebb_residence_pin(D.site[i].buffer));
    return 0;
}

/* Now nothing can fail any more: they are the plan's. */
static void take_over(void)
{
    for (uint32_t i = 0; i < D.trace->buffer_count; i++) {
        site_t *s = &D.site[i];
        if (!persists(&D.trace->buffer[i]))
            continue;
        if (!s->found) {
            ebb_share_take(i);
        } else if (s->range) {
            void *host;
            s->device = ebb_residence_give(s->buffer, &host);
            s->host = host ? host : s->host;
            s->on_host = host != NULL;
            s->written =
                s->device || s->on_host; /* else handed over without content, and not touched since */
        }
        s->buffer->tag = i + 1;
        D.living += ebb_trace_rotates(D.trace, i);
    }
    for (uint32_t i = 0; i < D.plan->place_count; i++)
        D.site[i].owned = true;
}

/* Wherever it is, in all steps of a period; after it all are in their own places again. */
static void note_evicted(void)
{
    for (uint32_t step = 0; step < D.period; step++) {
        for (uint32_t i = 0; i < D.plan->action_count; i++)
            if (D.plan->action[i].kind == EBB_EVICT)
                D.site[ebb_place_now(D.plan->action[i].place)].evicted = true;
        if (D.period > 1)
            ebb_rotation_turn(D.trace, D.at);
    }
}

/* What the plan copies out of this place has no host memory yet. */
static bool lacks_host(uint32_t place)
{
    const site_t *s = &D.site[place];
    const ebb_settled_t *k = ebb_share_settled(place);
    return !s->host && !(k && k->site.host) && !(s->found && ebb_residence_pinned_bytes(s->buffer));
}

static ebb_status_t want_hosts(void)
{
    size_t count = 0, *bytes = malloc(((size_t)D.plan->place_count + 1) * sizeof *bytes);
    for (uint32_t i = 0; bytes && i < D.plan->place_count; i++)
        if ((D.site[i].evicted || (i < D.trace->buffer_count && starts(&D.site[i], i, false))) &&
            lacks_host(i))
            bytes[count++] = D.plan->place[i].bytes;
    const bool have = !bytes || ebb_pinned_want(bytes, count, false);
    free(bytes);
    return have ? 0 : ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pinned host memory for a plan", 0);
}

/* A host block for what the plan copies out of each place, unless its content brings one. */
static ebb_status_t find_hosts(void)
{
    for (uint32_t i = 0; i < D.plan->place_count; i++) {
        site_t *s = &D.site[i];
        if (!s->evicted)
            continue;
        s->host_bytes = D.plan->place[i].bytes;
        if (lacks_host(i) && !(s->host = ebb_pinned_alloc(s->host_bytes)))
            return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pinned host memory for a plan", s->host_bytes);
    }
    return 0;
}

/* False: the trace is none that a plan can be driven for. */
static bool find_rings(void)
{
    char why[160];
    D.period = ebb_rotation_period(D.trace, why, sizeof why);
    for (uint32_t i = 0; i < D.trace->buffer_count; i++) {
        D.at[i] = i;
        D.outliving += ebb_trace_rotates(D.trace, i) && D.trace->buffer[i].dies == EBB_NONE;
    }
    return D.period;
}

/* ---- places ---- */

static const uint32_t *chunks_of(uint32_t place)
{
    return D.plan->chunk + D.plan->place[place].first_chunk;
}

/* Under a settled buffer it is there as a rule. */
static ebb_status_t map_place(uint32_t place)
{
    const ebb_place_t *p = &D.plan->place[place];
    const ebb_settled_t *k = ebb_share_settled(place);
    site_t *s = &D.site[place];
    ebb_range_t *range = k && k->site.range ? k->site.range : s->range;
    if (!p->chunk_count || (range && range->mapped))
        return 0;
    if (!range && !(range = s->range = ebb_range_new(ebb_here, p->chunk_count)))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "an address range", p->chunk_count * EBB_CHUNK_BYTES);
    ebb_chunk_t *list = malloc(p->chunk_count * sizeof *list);
    if (!list)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "malloc", p->chunk_count * sizeof *list);
    for (uint32_t c = 0; c < p->chunk_count; c++)
        list[c] = D.chunk[chunks_of(place)[c]];
    ebb_status_t status = ebb_range_map_on(range, list);
    free(list);
    s->laid = status ? NULL : range;
    return status;
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

static ebb_status_t make_event(CUevent *event, unsigned flags)
{
    EBB_DRIVER(cuEventCreate, 0, (event, flags));
    return 0;
}

static ebb_status_t make_events(void)
{
    for (uint32_t i = 0; i < D.plan->action_count; i++) {
        ebb_action_kind_t kind = D.plan->action[i].kind;
        if (kind != EBB_EVICT && kind != EBB_FETCH)
            continue;
        EBB_TRY(make_event(&D.before[i], CU_EVENT_DISABLE_TIMING));
        EBB_TRY(make_event(&D.begun[i], CU_EVENT_DEFAULT));
        EBB_TRY(make_event(&D.done[i], CU_EVENT_DEFAULT));
    }
    for (uint32_t p = 0; p < D.trace->operation_count; p++)
        for (uint32_t k = 0; D.join_first[p] < D.join_first[p + 1] && k < 4; k++)
            EBB_TRY(make_event(&D.stall[4 * (size_t)p + k], CU_EVENT_DEFAULT));
    return 0;
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
    D.left.buffer = calloc((size_t)D.trace->buffer_count + 1, sizeof(ebb_buffer_t *));
    D.left.given_up = calloc((size_t)D.trace->buffer_count + 1, sizeof *D.left.given_up);
    D.first_touch = ebb_trace_first_touches(D.trace);
    return D.chunk && D.pool && D.settled && D.site && D.at && D.issued && D.before && D.begun && D.done &&
           D.recorded && D.join_first && D.join_action && D.death_first && D.death && D.stall &&
           D.left.buffer && D.left.given_up && D.first_touch;
}

/* ---- all of it, or nothing ---- */

static ebb_status_t no_host_memory(void)
{
    return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
}

/* All that may fail. Contents stay residence's, which may have moved some, and plans that are installed stay as they are. */
static ebb_status_t prepare(ebb_buffer_t *const *present)
{
    EBB_TRY(ebb_wait_for_device());
    if (!allocate())
        return no_host_memory();
    if (!find_rings())
        return ebb_fail(CUDA_ERROR_INVALID_VALUE, "buffers that follow one another", 0);
    EBB_TRY(ebb_residence_reserve(D.trace->buffer_count));
    EBB_TRY(ebb_streams_set_up());
    EBB_TRY(find_persistent(present));
    note_evicted();
    EBB_TRY(want_hosts());
    EBB_TRY(bring_to_start());
    EBB_TRY(find_hosts());
    EBB_TRY(ebb_share_bind_chunks());
    for (uint32_t i = 0; i < D.plan->place_count; i++)
        EBB_TRY(map_place(i));
    EBB_TRY(ebb_share_open_small());
    list_deaths();
    if (!find_rivals() || !list_joins())
        return no_host_memory();
    EBB_TRY(make_events());
    EBB_TRY(ebb_verify_set_up());
    EBB_TRY(ebb_tolerate_set_up());
    EBB_TRY(ebb_guard_set_up());
    return ebb_share_note_chunks() ? 0 : no_host_memory();
}

ebb_status_t ebb_drive_install(unsigned slot, ebb_recording_t *learned, const ebb_plan_t *plan,
                               ebb_buffer_t *const *present)
{
    const ebb_share_mark_t before = ebb_share_begin(slot);
    D = (drive_t){.counts = D.counts, .clock = D.clock, .hashes = D.hashes, .compared = D.compared};
    D.learned = learned;
    D.trace = learned->trace;
    D.plan = plan;
    D.stream = learned->stream;
    D.streams = ebb_plan_streams(D.trace);
    D.installed = true;
    ebb_residence_waited();
    ebb_heap_reclaim(ebb_here, SIZE_MAX, true);
    const ebb_status_t status = prepare(present);
    if (status) {
        ebb_log(ebb_pinned_is_wanted() ? EBB_INFO : EBB_WARN, "the plan could not be installed%s: %s",
                ebb_pinned_is_wanted() ? " yet" : "", ebb_last_failure());
        ebb_drive_take_apart();
        ebb_tolerate_tear_down();
        ebb_drive_forget();
        ebb_share_undo(&before);
        return status;
    }
    take_over();
    ebb_chunks_release(ebb_here);
    D.active = true;
    D.cursor = D.trace->operation_count; /* a step is about to begin */
    ebb_guard_close();
    return 0;
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
        if (D.pool[chunks_of(place)[i]] != EBB_NONE)
            ebb_share_keep_chunk(D.pool[chunks_of(place)[i]]);
}

/* Its buffer's content is on the device, on the chunks of its own range. */
static bool stays(const site_t *s)
{
    return s->buffer && s->range && s->range->mapped && (s->owned ? s->device : !s->laid);
}

/* Of an installation that came to nothing: residence has never given the content away. */
static void withdraw(site_t *s)
{
    if (s->laid)
        ebb_range_unmap_from(s->laid);
    if (s->range && !s->buffer)
        ebb_range_delete(s->range);
}

static void hand_back(site_t *s)
{
    if (!s->range || stays(s))
        return;
    if (s->range->mapped)
        ebb_range_unmap_from(s->range);
    if (!s->buffer) {
        ebb_range_delete(s->range);
        return;
    }
    ebb_residence_put(s->buffer, s->on_host ? s->host : NULL);
    if (s->on_host)
        s->host = NULL;
}

void ebb_site_release(site_t *s)
{
    if (s->owned)
        hand_back(s);
    else
        withdraw(s);
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
    ebb_guard_tear_down();
    ebb_verify_tear_down();
    ebb_streams_tear_down();
    ebb_step_clock_stop(&D.clock);
    for (uint32_t i = 0; D.site && i < D.plan->place_count; i++) {
        if (stays(&D.site[i]))
            keep_chunks(i);
        ebb_site_release(&D.site[i]);
    }
    for (uint32_t i = 0; D.before && D.begun && D.done && i < D.plan->action_count; i++) {
        if (D.before[i])
            ebb_driver.cuEventDestroy_v2(D.before[i]);
        if (D.begun[i])
            ebb_driver.cuEventDestroy_v2(D.begun[i]);
        if (D.done[i])
            ebb_driver.cuEventDestroy_v2(D.done[i]);
    }
    for (size_t i = 0; D.stall && i < 4 * (size_t)D.trace->operation_count; i++)
        if (D.stall[i])
            ebb_driver.cuEventDestroy_v2(D.stall[i]);
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
    free(D.left.buffer);
    free(D.left.given_up);
    D.left = (ebb_left_t){.buffer = NULL};
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

/* drive_install.c: from the state as it is to the plan's, and back. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/internal.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/residence/residence.h"
#include "offload/ebb_offload.h"

static bool persists(const ebb_trace_buffer_t *b)
{
    return b->born == EBB_NONE;
}

ebb_buffer_t *ebb_recorded_buffer(ebb_device_t *dev, const ebb_recording_t *learned,
                                  ebb_buffer_t *const *present, uint32_t id)
{
    const ebb_trace_buffer_t *t = &learned->trace->buffer[id];
    if (!ebb_trace_stays_itself(learned->trace, id)) {
        ebb_buffer_t *b = present ? present[id] : NULL;
        return b && ebb_place_has_room(t, b->bytes) ? b : NULL;
    }
    ebb_buffer_t *b = ebb_buffer_at(dev->ebb, learned->buffer[id].address);
    const bool is_it = b && b->generation == learned->buffer[id].generation;
    return is_it && (t->pinned || !b->pinned || !ebb_buffer_is_large(b))
               ? b
               : NULL; /* it may have been pinned since */
}

bool ebb_drive_knows_all(ebb_device_t *dev, const ebb_recording_t *learned, ebb_buffer_t *const *present,
                         bool rotating)
{
    for (uint32_t i = 0; i < learned->trace->buffer_count; i++)
        if (persists(&learned->trace->buffer[i]) && ebb_trace_rotates(learned->trace, i) == rotating &&
            !ebb_is_passing(learned->trace, i) && !ebb_recorded_buffer(dev, learned, present, i))
            return false;
    return true;
}

size_t ebb_drive_room(ebb_device_t *dev, ebb_recording_t *learned, ebb_buffer_t *const *present)
{
    ebb_verify_open(dev, learned);
    ebb_heap_reclaim(dev, SIZE_MAX, true);
    size_t chunks = ebb_chunks_available(dev) + ebb_share_room(dev, learned), born = 0;
    for (uint32_t i = 0; i < learned->trace->buffer_count; i++) {
        const ebb_trace_buffer_t *t = &learned->trace->buffer[i];
        const ebb_buffer_t *b =
            persists(t) && ebb_is_large(t) ? ebb_recorded_buffer(dev, learned, present, i) : NULL;
        if (b && b->range->mapped && !ebb_share_has(b))
            chunks += b->range->chunk_count;
        born += t->born != EBB_NONE && ebb_trace_is_unplaced(learned->trace, i) ? t->bytes : 0;
    }
    const size_t kept_free = (born + EBB_CHUNK_BYTES / 2) / EBB_CHUNK_BYTES; /* few find room beside others */
    return (chunks > kept_free ? chunks - kept_free : 0) * EBB_CHUNK_BYTES;
}

size_t ebb_drive_host_room(ebb_device_t *dev, const ebb_recording_t *learned, ebb_buffer_t *const *present)
{
    const ebb_pinned_usage_t u = ebb_pinned_usage(dev);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = u.budget_bytes + u.cached_bytes, used = u.registered_bytes;
    for (uint32_t i = 0; i < learned->trace->buffer_count; i++) {
        const ebb_trace_buffer_t *t = &learned->trace->buffer[i];
        const ebb_buffer_t *b =
            persists(t) && ebb_is_large(t) ? ebb_recorded_buffer(dev, learned, present, i) : NULL;
        const ebb_host_t *shared = ebb_share_host(dev, learned, i);
        room += b ? ebb_residence_pinned_bytes(b) + ebb_share_pinned_bytes(b) : 0;
        room += shared ? shared->bytes : 0;
        used += ebb_is_large(t) ? page : 0; /* blocks are whole pages */
    }
    return room > used ? room - used : 0;
}

/* ---- buffers that are there: until everything else is, their contents stay residence's ---- */

/* What other plans have persistent stays with them for now. */
static ebb_status_t find_persistent(drive_t *drive, ebb_buffer_t *const *present)
{
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++) {
        site_t *s = &drive->site[i];
        if (!persists(&drive->trace->buffer[i]) || ebb_is_passing(drive->trace, i))
            continue;
        ebb_buffer_t *b = ebb_recorded_buffer(drive->device, drive->learned, present, i);
        if (!b)
            return ebb_fail(CUDA_ERROR_NOT_FOUND, "a buffer that outlives the step", 0);
        if (ebb_trace_stays_itself(drive->trace, i) && ebb_share_find(drive, i, b))
            continue;
        *s = (site_t){.buffer = b, .found = true};
        b->held++; /* the reactive half leaves it alone until the plan is dissolved */
        if (ebb_is_large(&drive->trace->buffer[i])) {
            s->range = b->range;
        }
        if (ebb_trace_stays_itself(drive->trace, i) && !ebb_share_add(drive, i))
            return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
    }
    return 0;
}

static bool starts(drive_t *drive, const site_t *s, uint32_t place, bool on_device)
{
    return s->found && s->range && (drive->plan->place[place].at_start == EBB_ON_DEVICE) == on_device;
}

/* All of them to where the plan has them when a step begins: out, in, and then, when nothing is under way any more, to pinned
 * memory. */
static ebb_status_t bring_to_start(drive_t *drive)
{
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++)
        if (starts(drive, &drive->site[i], i, false))
            EBB_TRY(ebb_residence_send(drive->site[i].buffer));
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++)
        if (starts(drive, &drive->site[i], i, true))
            EBB_TRY(ebb_residence_bring(drive->site[i].buffer));
    EBB_TRY(ebb_wait_for_device(drive->device->ebb));
    ebb_collect_hosts(drive->device);
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++)
        if (starts(drive, &drive->site[i], i, false))
            EBB_TRY(ebb_residence_pin(drive->site[i].buffer));
    return 0;
}

/* Now nothing can fail any more: they are the plan's. */
static void take_over(drive_t *drive)
{
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++) {
        site_t *s = &drive->site[i];
        if (!persists(&drive->trace->buffer[i]) || ebb_is_passing(drive->trace, i))
            continue;
        if (!s->found) {
            ebb_share_take(drive, i);
        } else if (s->range) {
            ebb_host_t host;
            s->device = ebb_residence_give(s->buffer, &host);
            s->host = host.at ? host : s->host;
            s->on_host = host.at != NULL;
            s->written =
                s->device || s->on_host; /* else handed over without content, and not touched since */
        }
        s->buffer->number = i + 1;
        if (s->device)
            ebb_site_claim(drive, i);
        drive->living += ebb_trace_rotates(drive->trace, i);
    }
    drive->owned = true;
    ebb_share_gather_hosts(drive);
}

/* Wherever it is, in all steps of a period; after it all are in their own places again. */
static void note_evicted(drive_t *drive)
{
    for (uint32_t step = 0; step < drive->period; step++) {
        for (uint32_t i = 0; i < drive->plan->action_count; i++)
            if (drive->plan->action[i].kind == EBB_EVICT)
                drive->evicted[ebb_place_now(drive, drive->plan->action[i].place)] = true;
        if (drive->period > 1)
            ebb_rotation_turn(drive->trace, drive->at);
    }
}

/* Without memory for it none are spared. */
static void note_spared(drive_t *drive)
{
    bool *spared = drive->trace->hardware.clean > 0 ? ebb_plan_spared(drive->plan, drive->trace) : NULL;
    for (uint32_t i = 0; spared && i < drive->plan->action_count; i++)
        if (spared[i])
            drive->spares[drive->plan->action[i].place] = true;
    free(spared);
}

/* What the plan copies out of this place has no host memory yet. */
static bool lacks_host(drive_t *drive, uint32_t place)
{
    const site_t *s = &drive->site[place];
    const ebb_persistent_t *k = ebb_share_persistent(drive, place);
    return !s->host.at && !(k && k->site.host.at) && !(s->found && ebb_residence_pinned_bytes(s->buffer)) &&
           !(place < drive->trace->buffer_count && ebb_share_host(drive->device, drive->learned, place));
}

/* Enough for what plans of the same recording have in it, whichever is driven. */
static size_t host_bytes(const drive_t *drive, uint32_t place)
{
    return place < drive->trace->buffer_count ? drive->learned->trace->buffer[place].bytes
                                              : drive->plan->place[place].bytes;
}

static ebb_status_t want_hosts(drive_t *drive)
{
    size_t count = 0, *bytes = malloc(((size_t)drive->plan->place_count + 1) * sizeof *bytes);
    for (uint32_t i = 0; bytes && i < drive->plan->place_count; i++)
        if ((drive->evicted[i] ||
             (i < drive->trace->buffer_count && starts(drive, &drive->site[i], i, false))) &&
            lacks_host(drive, i))
            bytes[count++] = host_bytes(drive, i);
    const bool have = !bytes || ebb_pinned_want(drive->device, bytes, count, false);
    free(bytes);
    return have ? 0 : ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pinned host memory for a plan", 0);
}

/* A host block for what the plan copies out of each place, unless its content brings one. */
static ebb_status_t find_hosts(drive_t *drive)
{
    for (uint32_t i = 0; i < drive->plan->place_count; i++) {
        site_t *s = &drive->site[i];
        if (!drive->evicted[i] || !lacks_host(drive, i))
            continue;
        const size_t bytes = host_bytes(drive, i);
        s->host = (ebb_host_t){.at = ebb_pinned_alloc(drive->device, bytes), .pinned = true, .bytes = bytes};
        if (!s->host.at)
            return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pinned host memory for a plan", bytes);
    }
    return 0;
}

/* False: the trace is none that a plan can be driven for. */
static bool find_rings(drive_t *drive)
{
    drive->period = ebb_rotation_period(drive->trace, NULL, 0);
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++) {
        drive->at[i] = i;
        drive->outliving += ebb_trace_rotates(drive->trace, i) && drive->trace->buffer[i].dies == EBB_NONE;
    }
    return drive->period;
}

/* ---- places ---- */

static const uint32_t *chunks_of(drive_t *drive, uint32_t place)
{
    return drive->plan->chunk + drive->plan->place[place].first_chunk;
}

/* Under a persistent buffer it is there as a rule. */
static ebb_status_t map_place(drive_t *drive, uint32_t place)
{
    const ebb_place_t *p = &drive->plan->place[place];
    const ebb_persistent_t *k = ebb_share_persistent(drive, place);
    site_t *s = &drive->site[place];
    ebb_range_t *range = k && k->site.range ? k->site.range : s->range;
    if (!p->chunk_count || (range && range->mapped))
        return 0;
    if (!range && !(range = s->range = ebb_range_new(drive->device, p->chunk_count)))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "an address range", p->chunk_count * EBB_CHUNK_BYTES);
    ebb_chunk_t *list = malloc(p->chunk_count * sizeof *list);
    if (!list)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "malloc", p->chunk_count * sizeof *list);
    for (uint32_t c = 0; c < p->chunk_count; c++)
        list[c] = drive->chunk[chunks_of(drive, place)[c]];
    ebb_status_t status = ebb_range_map_on(range, list);
    free(list);
    s->laid = status ? NULL : range;
    return status;
}

/* ---- events, joins, deaths ---- */

static ebb_status_t make_event(CUevent *event, unsigned flags)
{
    EBB_DRIVER(cuEventCreate, 0, (event, flags));
    return 0;
}

static ebb_status_t make_events(drive_t *drive)
{
    for (uint32_t i = 0; i < drive->plan->action_count; i++) {
        ebb_action_kind_t kind = drive->plan->action[i].kind;
        if (kind != EBB_EVICT && kind != EBB_FETCH)
            continue;
        EBB_TRY(make_event(&drive->copy[i].before, CU_EVENT_DISABLE_TIMING));
        EBB_TRY(make_event(&drive->copy[i].begun, CU_EVENT_DEFAULT));
        EBB_TRY(make_event(&drive->copy[i].done, CU_EVENT_DEFAULT));
    }
    for (uint32_t p = 0; p < drive->trace->operation_count; p++)
        for (uint32_t k = 0; drive->join_at[p] != EBB_NONE && k < 4; k++)
            EBB_TRY(make_event(&drive->stall[4 * (size_t)p + k], CU_EVENT_DEFAULT));
    return 0;
}

/* In front of the others at that point. */
static void list(uint32_t *at, uint32_t *next, uint32_t point, uint32_t index)
{
    next[index] = at[point];
    at[point] = index;
}

static void list_joins_and_deaths(drive_t *drive)
{
    const uint32_t n = drive->trace->operation_count;
    for (uint32_t i = drive->plan->action_count; i-- > 0;)
        if (drive->plan->action[i].join < n)
            list(drive->join_at, drive->join_next, drive->plan->action[i].join, i);
    for (uint32_t i = drive->trace->buffer_count; i-- > 0;) {
        const uint32_t dies = ebb_plan_dies(drive->plan, drive->trace, i);
        if (dies <= n)
            list(drive->death_at, drive->death_next, dies, i);
    }
}

void ebb_drive_own(drive_t *drive, void *at, void *array)
{
    EBB_DCHECK(drive->array_count < EBB_DRIVE_ARRAYS);
    memcpy(at, &array, sizeof array);
    drive->array[drive->array_count++] = at;
    drive->no_memory |= !array;
}

static bool allocate(drive_t *drive)
{
    const size_t operations = drive->trace->operation_count, buffers = drive->trace->buffer_count,
                 actions = drive->plan->action_count, places = drive->plan->place_count,
                 chunks = drive->plan->chunk_count;
    drive->issued = calloc(operations + 1, sizeof *drive->issued);
    ebb_drive_own(drive, &drive->chunk, calloc(chunks + 1, sizeof *drive->chunk));
    ebb_drive_own(drive, &drive->pool, ebb_none_array(chunks));
    ebb_drive_own(drive, &drive->persistent, ebb_none_array(buffers));
    ebb_drive_own(drive, &drive->site, calloc(places + 1, sizeof *drive->site));
    ebb_drive_own(drive, &drive->evicted, calloc(places + 1, sizeof *drive->evicted));
    ebb_drive_own(drive, &drive->holder, ebb_none_array(chunks));
    ebb_drive_own(drive, &drive->at, calloc(buffers + 1, sizeof *drive->at));
    ebb_drive_own(drive, &drive->copy, calloc(actions + 1, sizeof *drive->copy));
    ebb_drive_own(drive, &drive->join_at, ebb_none_array(operations));
    ebb_drive_own(drive, &drive->join_next, ebb_none_array(actions));
    ebb_drive_own(drive, &drive->death_at, ebb_none_array(operations + 1));
    ebb_drive_own(drive, &drive->death_next, ebb_none_array(buffers));
    ebb_drive_own(drive, &drive->stall, calloc(4 * operations + 1, sizeof *drive->stall));
    ebb_drive_own(drive, &drive->orphans.buffer, calloc(buffers + 1, sizeof *drive->orphans.buffer));
    ebb_drive_own(drive, &drive->orphans.given_up, calloc(buffers + 1, sizeof *drive->orphans.given_up));
    ebb_drive_own(drive, &drive->first_touch, ebb_trace_first_touches(drive->trace));
    ebb_drive_own(drive, &drive->spares, calloc(places + 1, sizeof *drive->spares));
    return drive->issued && !drive->no_memory;
}

/* ---- all of it, or nothing ---- */

static ebb_status_t no_host_memory(void)
{
    return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
}

/* All that may fail. Contents stay residence's, which may have moved some, and plans that are installed stay as they are. */
static ebb_status_t prepare(drive_t *drive, ebb_buffer_t *const *present)
{
    EBB_TRY(ebb_wait_for_device(drive->device->ebb));
    if (!allocate(drive))
        return no_host_memory();
    if (!find_rings(drive))
        return ebb_fail(CUDA_ERROR_INVALID_VALUE, "buffers that follow one another", 0);
    EBB_TRY(ebb_residence_reserve(drive->device, drive->trace->buffer_count));
    EBB_TRY(ebb_streams_set_up(drive));
    EBB_TRY(find_persistent(drive, present));
    note_evicted(drive);
    note_spared(drive);
    EBB_TRY(want_hosts(drive));
    EBB_TRY(bring_to_start(drive));
    EBB_TRY(find_hosts(drive));
    EBB_TRY(ebb_share_bind_chunks(drive->device));
    for (uint32_t i = 0; i < drive->plan->place_count; i++)
        EBB_TRY(map_place(drive, i));
    EBB_TRY(ebb_share_open_small(drive->device));
    list_joins_and_deaths(drive);
    EBB_TRY(make_events(drive));
    EBB_TRY(ebb_drive_verify_set_up(drive));
    EBB_TRY(ebb_unplanned_set_up(drive));
    EBB_TRY(ebb_guard_set_up(drive));
    return ebb_share_note_chunks(drive) ? 0 : no_host_memory();
}

ebb_status_t ebb_drive_install(ebb_device_t *dev, unsigned plan_index, unsigned counted_as,
                               ebb_recording_t *learned, const ebb_trace_t *trace, const ebb_plan_t *plan,
                               ebb_buffer_t *const *present)
{
    ebb_log(EBB_DEBUG, "installing the plan"); /* tests look for it, and for its end */
    const ebb_share_mark_t before = ebb_share_begin(dev, plan_index);
    drive_t *drive = ebb_driven(dev);
    *drive = (drive_t){.device = dev, .counts = &dev->run->drives->counts[counted_as]};
    drive->learned = learned;
    drive->trace = trace;
    drive->plan = plan;
    drive->stream = learned->stream;
    drive->alone_ns = trace == learned->trace ? learned->alone_ns : ebb_simulate_alone_ns(trace);
    drive->streams = ebb_plan_streams(drive->trace);
    drive->outgrown = EBB_NONE;
    drive->installed = true;
    ebb_collect_hosts(dev);
    ebb_heap_reclaim(dev, SIZE_MAX, true);
    const ebb_status_t status = prepare(drive, present);
    if (status) {
        ebb_log(ebb_pinned_is_wanted() ? EBB_DEBUG : EBB_WARN, "the plan could not be installed%s: %s",
                ebb_pinned_is_wanted() ? " yet" : "", ebb_last_failure());
        ebb_drive_take_apart(drive);
        ebb_drive_forget(drive);
        ebb_share_undo(dev, &before);
        return status;
    }
    take_over(drive);
    ebb_chunks_release(dev);
    drive->active = true;
    drive->cursor = drive->trace->operation_count; /* a step is about to begin */
    ebb_guard_close(drive);
    ebb_log(EBB_DEBUG, "the plan is installed");
    return 0;
}

/* ---- and back ---- */

/* What stays where it is keeps its chunks. */
static void keep_chunks(drive_t *drive, uint32_t place)
{
    const ebb_persistent_t *k = ebb_share_persistent(drive, place);
    for (uint32_t i = 0; k && i < k->chunk_count; i++)
        ebb_share_keep_chunk(drive->device, k->chunk[i]);
    /* Not noted yet, where the plan could not be installed. */
    for (uint32_t i = 0; !(k && k->chunk_count) && drive->pool && i < drive->plan->place[place].chunk_count;
         i++)
        if (drive->pool[chunks_of(drive, place)[i]] != EBB_NONE)
            ebb_share_keep_chunk(drive->device, drive->pool[chunks_of(drive, place)[i]]);
}

/* Its buffer's content is on the device, on the chunks of its own range. */
static bool stays(const site_t *s, bool owned)
{
    return s->buffer && s->range && s->range->mapped && (owned ? s->device : !s->laid);
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
    if (!s->range || stays(s, true))
        return;
    if (s->range->mapped)
        ebb_range_unmap_from(s->range);
    if (!s->buffer) {
        ebb_range_delete(s->range);
        return;
    }
    ebb_residence_put(s->buffer, s->on_host ? s->host : (ebb_host_t){.at = NULL});
    if (s->on_host)
        s->host = (ebb_host_t){.at = NULL};
}

void ebb_site_release(ebb_device_t *dev, site_t *s, bool owned)
{
    if (owned)
        hand_back(s);
    else
        withdraw(s);
    if (s->buffer) {
        s->buffer->held--;
        s->buffer->number = 0;
    }
    ebb_host_free(dev, s->host);
}

static void destroy_event(CUevent event)
{
    if (event)
        ebb_driver.cuEventDestroy_v2(event);
}

void ebb_drive_take_apart(drive_t *drive)
{
    ebb_guard_tear_down(drive);
    ebb_drive_verify_tear_down(drive);
    ebb_streams_tear_down(drive);
    ebb_step_clock_stop(drive);
    for (uint32_t i = 0; drive->site && i < drive->plan->place_count; i++) {
        if (stays(&drive->site[i], drive->owned))
            keep_chunks(drive, i);
        ebb_site_release(drive->device, &drive->site[i], drive->owned);
    }
    for (uint32_t i = 0; drive->copy && i < drive->plan->action_count; i++) {
        destroy_event(drive->copy[i].before);
        destroy_event(drive->copy[i].begun);
        destroy_event(drive->copy[i].done);
    }
    for (size_t i = 0; drive->stall && i < 4 * (size_t)drive->trace->operation_count; i++)
        destroy_event(drive->stall[i]);
    drive->small_slab = NULL;
    drive->active = drive->installed = false;
}

void ebb_drive_forget(drive_t *drive)
{
    for (uint32_t i = 0; drive->issued && i < drive->trace->operation_count; i++)
        ebb_issued_forget(&drive->issued[i]);
    free(drive->issued);
    drive->issued = NULL;
    while (drive->array_count) {
        void *array, *none = NULL, *at = drive->array[--drive->array_count];
        memcpy(&array, at, sizeof array);
        memcpy(at, &none, sizeof none);
        free(array);
    }
}

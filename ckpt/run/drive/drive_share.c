/* drive_share.c: plans that are installed beside each other, and what they share (drive.h): the chunks, and the buffers that
 * outlive the step and are the same in all of them.
 *
 * Such a buffer is persistent with the first plan that knows it: from then on it is where that plan has it between steps, on the same
 * chunks, until all plans are taken apart. Its site is the driven plan's while that knows it, and here otherwise (inactive);
 * so whatever a step does with it, the next one finds it as it was left, whichever plan that one follows.
 *
 * Without this, a change of plans leaves one and installs the other behind the next step like it. With 26 chunks, half of the steps are
 * driven then, and each maps 50 chunks, which takes 2.5 ms on an H200; with it none is mapped (bench/changes.sh).
 */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/base/table.h"
#include "alloc/device.h"
#include "ckpt/run/drive/internal.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

struct ebb_drive_share {
    struct {
        ebb_chunk_t at;
        bool bound; /* it is given back in the end */
    } * chunk;      /* [chunk_count] that places of any plan lie on */
    uint32_t chunk_count, chunk_room;
    ebb_persistent_t *persistent;
    uint32_t persistent_count, persistent_room;
    ebb_range_t *
        small[EBB_DRIVES]; /* [small_count] under slabs, for small buffers; each larger than the one before */
    unsigned small_count;
};
const size_t ebb_part_drive_share = sizeof(struct ebb_drive_share);

const size_t ebb_part_drives = sizeof(struct ebb_drives);

/* ---- the plans ---- */

unsigned ebb_drive_index(ebb_device_t *dev)
{
    return dev->run->drives->driven;
}

uint32_t ebb_drive_outgrown(ebb_device_t *dev, size_t *bytes)
{
    *bytes = ebb_driven(dev)->outgrown_bytes;
    return ebb_driven(dev)->outgrown;
}

size_t ebb_drive_key_bytes(ebb_device_t *dev)
{
    return dev->run->drives->key_bytes;
}

bool ebb_drive_installed(ebb_device_t *dev, unsigned plan_index)
{
    return dev->run->drives->of[plan_index].installed;
}

drive_t *ebb_share_drive(ebb_device_t *dev, unsigned plan_index)
{
    return &dev->run->drives->of[plan_index];
}

static bool any_installed(ebb_device_t *dev)
{
    for (unsigned i = 0; i < EBB_DRIVES; i++)
        if (dev->run->drives->of[i].installed)
            return true;
    return false;
}

ebb_drive_counts_t ebb_drive_counts_as(ebb_device_t *dev, unsigned counted_as)
{
    return dev->run->drives->counts[counted_as];
}

static void add_counts(ebb_drive_counts_t *sum, const ebb_drive_counts_t *c)
{
    sum->steps += c->steps;
    sum->replays += c->replays;
    sum->fallbacks += c->fallbacks;
    sum->unplanned += c->unplanned;
    sum->changes += c->changes;
    sum->stall_ns += c->stall_ns;
    sum->ns += c->ns;
    sum->timed += c->timed;
    sum->alone_ns += c->alone_ns;
    sum->spared_bytes += c->spared_bytes;
    sum->peak_bytes = c->peak_bytes > sum->peak_bytes ? c->peak_bytes : sum->peak_bytes;
}

ebb_drive_counts_t ebb_drive_counts(ebb_device_t *dev)
{
    ebb_drive_counts_t sum = {0};
    for (unsigned i = 0; i < EBB_DRIVES; i++)
        add_counts(&sum, &dev->run->drives->counts[i]);
    return sum;
}

/* ---- chunks ---- */

/* EBB_NONE: no host memory. */
static uint32_t add_chunk(ebb_device_t *dev, ebb_chunk_t chunk)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    if (!ebb_array_append((void **)&share->chunk, &share->chunk_count, &share->chunk_room,
                          sizeof *share->chunk))
        return EBB_NONE;
    share->chunk[share->chunk_count - 1].at = chunk;
    share->chunk[share->chunk_count - 1].bound = true;
    return share->chunk_count - 1;
}

void ebb_share_keep_chunk(ebb_device_t *dev, uint32_t index)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    share->chunk[index].bound = false;
}

/* ---- persistent buffers ---- */

static uint32_t find(const ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    struct ebb_drive_share *share = dev->run->drive_share;
    uint32_t i = 0;
    while (i < share->persistent_count && share->persistent[i].buffer != b)
        i++;
    return i < share->persistent_count ? i : EBB_NONE;
}

ebb_persistent_t *ebb_share_persistent(drive_t *drive, uint32_t place)
{
    struct ebb_drive_share *share = drive->device->run->drive_share;
    const uint32_t index =
        drive->persistent && place < drive->trace->buffer_count ? drive->persistent[place] : EBB_NONE;
    return index == EBB_NONE ? NULL : &share->persistent[index];
}

static void move_site(site_t *to, site_t *from)
{
    *to = *from;
    *from = (site_t){0};
}

bool ebb_share_find(drive_t *drive, uint32_t place, const ebb_buffer_t *b)
{
    drive->persistent[place] = find(b);
    return drive->persistent[place] != EBB_NONE;
}

void ebb_share_take(drive_t *drive, uint32_t place)
{
    ebb_persistent_t *k = ebb_share_persistent(drive, place);
    const ebb_host_t host = drive->site[place].host; /* the first plan that copies it out */
    move_site(&drive->site[place], &k->site);
    if (host.at)
        drive->site[place].host = host;
}

bool ebb_share_add(drive_t *drive, uint32_t place)
{
    struct ebb_drive_share *share = drive->device->run->drive_share;
    ebb_persistent_t *k = ebb_array_append((void **)&share->persistent, &share->persistent_count,
                                           &share->persistent_room, sizeof *k);
    if (!k)
        return false;
    k->buffer = drive->site[place].buffer;
    k->start = drive->plan->place[place].at_start;
    drive->persistent[place] = share->persistent_count - 1;
    return true;
}

/* The driven plan's, to where they are kept while it is not driven. */
static void deactivate(drive_t *drive)
{
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++) {
        ebb_persistent_t *k = ebb_share_persistent(drive, i);
        if (!k || !drive->site[i].buffer)
            continue;
        drive->site[i].buffer->number = EBB_INACTIVE;
        move_site(&k->site, &drive->site[i]);
        if (k->start == EBB_ON_HOST && k->site.on_host)
            k->site.device = false; /* perhaps it is there still; its chunks are others' between steps */
    }
    drive->active = false;
}

ebb_host_t *ebb_share_host(ebb_device_t *dev, const ebb_recording_t *learned, uint32_t buffer)
{
    for (unsigned i = 0; learned->trace->buffer[buffer].born != EBB_NONE && i < EBB_DRIVES; i++) {
        const drive_t *d = &dev->run->drives->of[i];
        if (d->installed && d->learned == learned && d->site && d->site[buffer].host.at)
            return &d->site[buffer].host;
    }
    return NULL;
}

void ebb_share_gather_hosts(drive_t *drive)
{
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++) {
        ebb_host_t *from = drive->site[i].host.at || !drive->evicted[i]
                               ? NULL
                               : ebb_share_host(drive->device, drive->learned, i);
        if (!from)
            continue;
        drive->site[i].host = *from;
        *from = (ebb_host_t){.at = NULL};
    }
}

/* And back. Other places hold nothing when a step begins. */
static void activate(drive_t *drive)
{
    for (uint32_t i = 0; i < drive->plan->place_count; i++) {
        site_t *s = &drive->site[i];
        ebb_persistent_t *k = ebb_share_persistent(drive, i);
        s->written = s->device = s->on_host = s->given_up = false;
        if (!k)
            continue;
        move_site(s, &k->site);
        s->buffer->number = i + 1;
        if (s->device)
            ebb_site_claim(drive, i);
    }
    ebb_share_gather_hosts(drive);
    drive->cursor = drive->trace->operation_count;
    drive->active = true;
}

/* All that has come since. */
static void give_back(ebb_device_t *dev, uint32_t chunk_count, unsigned small_count)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    while (share->chunk_count > chunk_count)
        if (share->chunk[--share->chunk_count].bound)
            ebb_chunks_give(dev, 1, &share->chunk[share->chunk_count].at);
    while (share->small_count > small_count)
        ebb_slab_close(share->small[--share->small_count]->slab);
}

ebb_share_mark_t ebb_share_begin(ebb_device_t *dev, unsigned plan_index)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    const ebb_share_mark_t mark = {.plan_index = ebb_drive_index(dev),
                                   .active = ebb_driven(dev)->active,
                                   .chunk_count = share->chunk_count,
                                   .persistent_count = share->persistent_count,
                                   .small_count = share->small_count};
    EBB_DCHECK(!mark.active || ebb_drive_at_boundary(dev));
    if (mark.active)
        deactivate(ebb_driven(dev));
    dev->run->drives->driven = plan_index;
    return mark;
}

void ebb_share_undo(ebb_device_t *dev, const ebb_share_mark_t *before)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    give_back(dev, before->chunk_count, before->small_count);
    while (share->persistent_count > before->persistent_count)
        free(share->persistent[--share->persistent_count].chunk);
    dev->run->drives->driven = before->plan_index;
    if (before->active)
        activate(ebb_driven(dev));
}

/* ---- laying a plan on the chunks that are there ---- */

/* Chunks that the plan's places must leave alone: of what is on the device between steps and none of its buffers. */
static void mark_others(ebb_device_t *dev, bool *taken)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    for (uint32_t i = 0; i < share->persistent_count; i++) {
        const ebb_persistent_t *k = &share->persistent[i];
        for (uint32_t c = 0; k->site.buffer && k->start == EBB_ON_DEVICE && c < k->chunk_count; c++)
            taken[k->chunk[c]] = true;
    }
}

/* Chunks of buffers that are mapped already; false: no host memory. */
static bool bind_mapped(drive_t *drive, uint32_t place)
{
    const ebb_place_t *p = &drive->plan->place[place];
    const ebb_persistent_t *k = ebb_share_persistent(drive, place);
    const ebb_range_t *range = k && k->site.range ? k->site.range : drive->site[place].range;
    for (uint32_t c = 0; range && range->mapped && c < p->chunk_count; c++) {
        uint32_t *at = &drive->pool[drive->plan->chunk[p->first_chunk + c]];
        *at = k && k->chunk_count ? k->chunk[c] : add_chunk(drive->device, range->chunk[c]);
        if (*at == EBB_NONE)
            return false;
    }
    return true;
}

/* What has no chunk yet gets one that is free between steps, or another one. */
static ebb_status_t bind_rest(ebb_device_t *dev, bool *taken)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    drive_t *drive = ebb_driven(dev);
    const uint32_t known = share->chunk_count;
    for (uint32_t c = 0; c < drive->plan->chunk_count; c++)
        if (drive->pool[c] != EBB_NONE)
            taken[drive->pool[c]] = true;
    for (uint32_t c = 0, next = 0; c < drive->plan->chunk_count; c++) {
        if (drive->pool[c] == EBB_NONE) {
            while (next < known && taken[next])
                next++;
            ebb_chunk_t chunk;
            if (next == known && !ebb_heap_make_room(dev, 1))
                return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "device memory for a plan", EBB_CHUNK_BYTES);
            if (next == known)
                EBB_TRY(ebb_chunks_take(dev, 1, &chunk));
            drive->pool[c] = next < known ? next++ : add_chunk(dev, chunk);
            if (drive->pool[c] == EBB_NONE) {
                ebb_chunks_give(dev, 1, &chunk);
                return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
            }
        }
        drive->chunk[c] = share->chunk[drive->pool[c]].at;
    }
    return 0;
}

ebb_status_t ebb_share_bind_chunks(ebb_device_t *dev)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    drive_t *drive = ebb_driven(dev);
    bool good = true;
    for (uint32_t i = 0; i < drive->trace->buffer_count && good; i++)
        good = bind_mapped(drive, i);
    bool *taken = good ? calloc((size_t)share->chunk_count + 1, sizeof *taken) : NULL;
    if (!taken)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
    mark_others(dev, taken);
    const ebb_status_t status = bind_rest(dev, taken);
    free(taken);
    return status;
}

/* Room first, which may be left unused: a buffer has as many chunks in every plan that gives it any. */
bool ebb_share_note_chunks(drive_t *drive)
{
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++) {
        const uint32_t count = drive->plan->place[i].chunk_count;
        ebb_persistent_t *k = ebb_share_persistent(drive, i);
        if (k && !k->chunk && count && !(k->chunk = malloc(count * sizeof *k->chunk)))
            return false;
    }
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++) {
        const ebb_place_t *p = &drive->plan->place[i];
        ebb_persistent_t *k = ebb_share_persistent(drive, i);
        if (!k || k->chunk_count)
            continue;
        k->chunk_count = p->chunk_count;
        for (uint32_t c = 0; c < k->chunk_count; c++)
            k->chunk[c] = drive->pool[drive->plan->chunk[p->first_chunk + c]];
    }
    return true;
}

ebb_status_t ebb_share_open_small(ebb_device_t *dev)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    drive_t *drive = ebb_driven(dev);
    const size_t chunks = drive->plan->small_bytes / EBB_CHUNK_BYTES;
    unsigned i = 0;
    if (!chunks)
        return 0;
    while (i < share->small_count && share->small[i]->chunk_count < chunks)
        i++;
    if (i < share->small_count) {
        drive->small_slab = share->small[i]->slab;
        return 0;
    }
    ebb_range_t *range = ebb_heap_make_room(dev, chunks) ? ebb_range_new(dev, chunks) : NULL;
    if (!range)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "device memory for a plan", chunks * EBB_CHUNK_BYTES);
    ebb_status_t status = ebb_range_map(range);
    if (!status && !(drive->small_slab = ebb_slab_open(range))) {
        ebb_range_unmap(range);
        status = ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
    }
    if (status)
        ebb_range_delete(range);
    else
        share->small[share->small_count++] = range;
    return status;
}

/* ---- what a further plan must agree with ---- */

/* The persistent buffer that this one of a recording is, or NULL. */
static const ebb_persistent_t *persistent_as(ebb_device_t *dev, const ebb_recording_t *r, uint32_t id)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    const ebb_buffer_t *b =
        ebb_trace_stays_itself(r->trace, id) ? ebb_recorded_buffer(dev, r, NULL, id) : NULL;
    const uint32_t index = b ? find(b) : EBB_NONE;
    return index == EBB_NONE ? NULL : &share->persistent[index];
}

bool ebb_drive_may_share(ebb_device_t *dev, const ebb_recording_t *learned)
{
    const drive_t *drive = ebb_driven(dev);
    return ebb_drive_at_boundary(dev) && drive->period == 1 && !ebb_options.guard &&
           ebb_rotation_period(learned->trace, NULL, 0) == 1;
}

ebb_boundary_t *ebb_drive_boundary(ebb_device_t *dev, const ebb_recording_t *learned)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    const ebb_trace_t *t = learned->trace;
    uint32_t total = 0;
    if (!ebb_drive_may_share(dev, learned))
        return NULL;
    for (uint32_t i = 0; i < share->persistent_count; i++)
        total += share->persistent[i].chunk_count;
    ebb_boundary_t *b = ebb_boundary_new(t->buffer_count, total);
    uint32_t *number = ebb_none_array(share->chunk_count);
    for (uint32_t i = 0; b && number && i < t->buffer_count; i++) {
        const ebb_persistent_t *k = persistent_as(dev, learned, i);
        const bool large = k && ebb_is_large(&t->buffer[i]);
        b->start[i] = large ? k->start : EBB_NOT_THERE;
        b->first[i + 1] = b->first[i];
        for (uint32_t c = 0; large && c < k->chunk_count; c++) {
            uint32_t *n = &number[k->chunk[c]];
            *n = *n == EBB_NONE ? b->chunk_count++ : *n;
            b->chunk[b->first[i + 1]++] = *n;
        }
    }
    if (!number) {
        ebb_boundary_delete(b);
        b = NULL;
    }
    free(number);
    return b;
}

size_t ebb_share_room(ebb_device_t *dev, const ebb_recording_t *learned)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    bool *foreign = calloc((size_t)share->chunk_count + 1, sizeof *foreign);
    bool *known = calloc((size_t)share->persistent_count + 1, sizeof *known);
    size_t room = 0;
    for (uint32_t i = 0; known && i < learned->trace->buffer_count; i++) {
        const ebb_persistent_t *k = persistent_as(dev, learned, i);
        if (k)
            known[k - share->persistent] = true;
    }
    for (uint32_t i = 0; known && foreign && i < share->persistent_count; i++)
        for (uint32_t c = 0;
             !known[i] && share->persistent[i].start == EBB_ON_DEVICE && c < share->persistent[i].chunk_count;
             c++)
            foreign[share->persistent[i].chunk[c]] = true;
    for (uint32_t c = 0; known && foreign && c < share->chunk_count; c++)
        room += !foreign[c];
    room += share->small_count ? share->small[share->small_count - 1]->chunk_count : 0;
    free(foreign);
    free(known);
    return room;
}

bool ebb_share_has(const ebb_buffer_t *b)
{
    return find(b) != EBB_NONE;
}

size_t ebb_share_pinned_bytes(const ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    struct ebb_drive_share *share = dev->run->drive_share;
    drive_t *drive = ebb_driven(dev);
    const uint32_t index = find(b);
    if (index == EBB_NONE)
        return 0;
    const site_t *s = drive->active && b->number != EBB_INACTIVE ? &drive->site[b->number - 1]
                                                                 : &share->persistent[index].site;
    return s->host.at ? s->host.bytes : 0;
}

/* ---- changes ---- */

bool ebb_drive_in_step(ebb_device_t *dev)
{
    return ebb_driven(dev)->active && !ebb_is_between_steps(ebb_driven(dev));
}

bool ebb_drive_at_boundary(ebb_device_t *dev)
{
    drive_t *drive = ebb_driven(dev);
    return drive->active && drive->cursor == drive->trace->operation_count && !drive->living &&
           !drive->late && !drive->learned->refuted;
}

/* A plan orders no other one's copies or streams: all that these have been given comes first. */
static ebb_status_t order_behind(drive_t *drive, const drive_t *next)
{
    for (uint32_t s = 0; s < drive->streams; s++)
        EBB_TRY(ebb_mark_join(next->stream, ebb_mark_here(ebb_drive_stream(drive, s))));
    for (ebb_direction_t d = EBB_OUT; d <= EBB_IN; d++)
        if (ebb_copy_stream(drive->device, d))
            EBB_TRY(ebb_mark_join(next->stream, ebb_mark_here(ebb_copy_stream(drive->device, d))));
    return 0;
}

bool ebb_drive_change(ebb_device_t *dev, unsigned plan_index)
{
    if (!ebb_drive_at_boundary(dev) || !dev->run->drives->of[plan_index].installed)
        return false;
    ebb_log(EBB_DEBUG, "changing to the plan of kind %u", plan_index); /* tests look for it */
    if (order_behind(ebb_driven(dev), &dev->run->drives->of[plan_index])) {
        ebb_log(EBB_WARN, "%s", ebb_last_failure());
        return false;
    }
    ebb_verify_poll(dev, ebb_driven(dev)->learned, false);
    deactivate(ebb_driven(dev));
    dev->run->drives->driven = plan_index;
    activate(ebb_driven(dev));
    ebb_driven(dev)->counts->changes++;
    return true;
}

/* ---- the end of all ---- */

static void release(ebb_device_t *dev, ebb_persistent_t *k)
{
    site_t *s = &k->site;
    if (!s->buffer)
        return; /* it was the driven plan's */
    for (uint32_t c = 0; s->device && c < k->chunk_count; c++)
        ebb_share_keep_chunk(dev, k->chunk[c]);
    ebb_site_release(s->buffer->range->device, s, true);
}

void ebb_share_dissolve(ebb_device_t *dev)
{
    struct ebb_drive_share *share = dev->run->drive_share;
    drive_t *driven = ebb_driven(dev);
    for (unsigned i = 0; i < EBB_DRIVES; i++) {
        drive_t *drive = ebb_share_drive(dev, i);
        if (drive == driven || !drive->installed)
            continue;
        ebb_drive_take_apart(drive);
        ebb_drive_forget(drive);
    }
    ebb_drive_take_apart(driven);
    for (uint32_t i = 0; i < share->persistent_count; i++)
        release(dev, &share->persistent[i]);
    give_back(dev, 0, 0);
    for (uint32_t i = 0; i < share->persistent_count; i++)
        free(share->persistent[i].chunk);
    free(share->chunk);
    free(share->persistent);
    memset(share, 0, sizeof *share);
    EBB_DCHECK(!any_installed(dev));
}

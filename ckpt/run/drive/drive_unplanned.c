/* drive_unplanned.c: what the plan does not know and that cannot hurt it.
 *
 * An operation more: on one of the plan's streams (of several, all wait for each other before and after it), on buffers whose
 * contents are in their places, of which it may write none that making a dropped content could need, and none that has a copy on the
 * host, because the plan goes by the copy. What it may write is remembered: recipes end there when the plan is left. Nothing moves
 * for it; the cursor stays.
 *
 * The planned operation on some other buffers: what its words lead to besides the planned ones is in its place, and nothing needs
 * the content that it had. Structures that the host fills in by half say so much (tracker.h), and not all of it is known.
 *
 * An allocation more: the allocator serves it, if nothing has to leave the device for it, or if it can do without memory until it is
 * touched. If something has to leave then, or for a small one, the plan is left to make room (runner.c).
 *
 * A free that is late, also one behind the last operation: what the plan does is done until it would take the buffer's chunks (or its
 * bytes, of a small one) without a copy on the host. One that is early, as those are that the plan puts off: its place gets no other buffer
 * until it should have died; if recipes read the buffer, or it outlives the step in the plan, it is freed then only, or when the plan has
 * been left.
 *
 * What the sources of dropped contents are is found by their buffers, all versions of a buffer taken for one: too many rather
 * than too few.
 */
#include <stdlib.h>

#include "alloc/base/driver.h"
#include "alloc/base/table.h"
#include "alloc/device.h"
#include "ckpt/run/drive/internal.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/residence/residence.h"
#include "offload/ebb_offload.h"

enum { MOST_STRAYS = 64 /* operations in a row that are not the planned one */, MOST_WRITES = 256 };

/* ---- what dropped contents are made of ---- */

static bool writes_one(const drive_t *drive, const ebb_trace_operation_t *o, const bool *of)
{
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (drive->trace->access[i].mode != EBB_READS && of[drive->trace->access[i].buffer])
            return true;
    return false;
}

/* [buffers] What these are made of as well, all that launches write and read with them. */
static void add_sources(const drive_t *drive, bool *of)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t o = drive->trace->operation_count; o-- > 0;) {
            const ebb_trace_operation_t *op = &drive->trace->operation[o];
            if (!writes_one(drive, op, of))
                continue;
            for (uint32_t i = op->first_access; i < op->first_access + op->access_count; i++) {
                more |= !of[drive->trace->access[i].buffer];
                of[drive->trace->access[i].buffer] = true;
            }
        }
    }
}

/* What a replay reads of a freed buffer is still in its place; when the plan is left before, that is made again, too. */
static void add_freed(drive_t *drive, const ebb_action_t *a)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[a->operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        const uint32_t buffer = drive->trace->access[i].buffer;
        drive->again[buffer] |= ebb_plan_dies(drive->plan, drive->trace, buffer) <= a->point;
    }
}

static void add_written(drive_t *drive, const ebb_action_t *a)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[a->operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        drive->again[drive->trace->access[i].buffer] |= drive->trace->access[i].mode != EBB_READS;
}

ebb_status_t ebb_unplanned_set_up(drive_t *drive)
{
    const ebb_plan_t *p = drive->plan;
    const size_t buffers = drive->trace->buffer_count;
    ebb_drive_own(drive, &drive->source, calloc(buffers + 1, sizeof *drive->source));
    ebb_drive_own(drive, &drive->again, calloc(buffers + 1, sizeof *drive->again));
    ebb_drive_own(drive, &drive->stray, calloc(MOST_WRITES, sizeof *drive->stray));
    if (drive->no_memory)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
    for (uint32_t i = 0; i < p->action_count; i++) {
        if (p->action[i].kind == EBB_DISCARD && p->action[i].place < drive->trace->buffer_count)
            drive->source[p->action[i].place] = true;
        if (p->action[i].kind == EBB_REPLAY)
            add_freed(drive, &p->action[i]);
    }
    add_sources(drive, drive->source);
    add_sources(drive, drive->again);
    for (uint32_t i = 0; i < p->action_count; i++)
        if (p->action[i].kind == EBB_REPLAY)
            add_written(drive, &p->action[i]);
    return 0;
}

/* ---- operations ---- */

static bool may_write(ebb_device_t *dev, const ebb_operation_t *op, const ebb_access_t *a)
{
    if (op->kind == EBB_COPY)
        return a->param_offset == 0;
    return op->kind != EBB_KERNEL || ebb_know_word(dev, op->function, a->param_offset) != EBB_WORD_READS;
}

/* Several words may lead to one buffer. */
static bool may_write_buffer(const ebb_operation_t *op, const ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (op->access[i].buffer == b && may_write(dev, op, &op->access[i]))
            return true;
    return false;
}

/* Whether something is still to be made from sources as they are: by a replay that is to come, of what is given up later, or in place
 * of a content that is, when the plan is left. */
static bool needs_sources(const drive_t *drive)
{
    for (uint32_t i = drive->next_action; i < drive->plan->action_count; i++)
        if (drive->plan->action[i].kind == EBB_REPLAY || drive->plan->action[i].kind == EBB_DISCARD)
            return true;
    for (uint32_t i = 0; i < drive->trace->buffer_count; i++)
        if (ebb_site_of(drive, i)->given_up && ebb_site_of(drive, i)->buffer)
            return true;
    return false;
}

bool ebb_unplanned_is_source(const drive_t *drive, uint32_t buffer)
{
    return drive->source[buffer] && needs_sources(drive);
}

static bool is_harmless_to(const ebb_operation_t *op, const ebb_buffer_t *b)
{
    drive_t *drive = ebb_driven(b->range->device);
    if (!b->number)
        return true;
    if (b->number == EBB_INACTIVE)
        return false;
    const site_t *s = ebb_site_of(drive, b->number - 1);
    if (s->range && !s->device)
        return false;
    return !may_write_buffer(op, b) ||
           (!ebb_unplanned_is_source(drive, b->number - 1) && !s->on_host && !s->late);
}

/* Fetches that are under way to buffers that it touches: its stream waits for them, and for all others. */
static ebb_status_t join_fetches(drive_t *drive, const ebb_operation_t *op)
{
    for (uint32_t i = 0; i < op->access_count; i++) {
        const uint32_t number = op->access[i].buffer->number;
        for (uint32_t a = 0; number && a < drive->plan->action_count; a++)
            if (drive->plan->action[a].kind == EBB_FETCH && drive->copy[a].bytes &&
                ebb_place_now(drive, drive->plan->action[a].place) == drive->at[number - 1])
                EBB_DRIVER(cuStreamWaitEvent, 0, (ebb_stream_handle(op->stream), drive->copy[a].done, 0));
    }
    return ebb_streams_order(drive, ebb_drive_stream_number(drive, op->stream), EBB_ALL_STREAMS);
}

/* By what is none of the plan's and comes before this operation. */
static void note_write(const ebb_buffer_t *b, uint32_t before)
{
    drive_t *drive = ebb_driven(b->range->device);
    drive->stray[drive->stray_count++] = (ebb_stray_t){before, b->number - 1};
    if (ebb_site_of(drive, b->number - 1)->range)
        ebb_site_take(drive, drive->at[b->number - 1]);
}

static bool note_writes(drive_t *drive, const ebb_operation_t *op)
{
    for (uint32_t i = 0; i < op->access_count; i++) {
        const ebb_buffer_t *b = op->access[i].buffer;
        if (!b->number || !may_write(drive->device, op, &op->access[i]))
            continue;
        if (drive->stray_count == MOST_WRITES)
            return false;
        note_write(b, drive->cursor);
    }
    return true;
}

bool ebb_unplanned_operation(drive_t *drive, ebb_operation_t *op)
{
    if (op->opaque || op->kind == EBB_OTHER || ebb_drive_stream_number(drive, op->stream) == drive->streams ||
        (op->kind == EBB_KERNEL && !op->plain) || ebb_record_is_resident(drive->device, op) ||
        drive->strays >= MOST_STRAYS || drive->stray_count + op->access_count > MOST_WRITES)
        return false;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (!is_harmless_to(op, op->access[i].buffer))
            return false;
    if (join_fetches(drive, op) || ebb_guard_open_buffers(drive, op) ||
        ebb_residence_acquire(drive->device, op))
        return false;
    drive->strays++;
    drive->unplanned = drive->active && note_writes(drive, op); /* the plan may have had to make room */
    if (!drive->unplanned)
        ebb_residence_release(op);
    return drive->unplanned;
}

/* By the plan, or by a recipe when it is left: content is made from what it writes. */
static bool may_be_repeated(drive_t *drive, uint32_t operation)
{
    for (uint32_t i = 0; i < drive->plan->action_count; i++)
        if (drive->plan->action[i].kind == EBB_REPLAY && drive->plan->action[i].operation == operation)
            return true;
    return writes_one(drive, &drive->trace->operation[operation], drive->source) && needs_sources(drive);
}

/* Most of it is as planned; it replaces nothing that it does not touch first, which was shown of the planned operands, and what it leaves alone
 * had not been given up to be replaced; it is never repeated; and no other stream has to be waited for. */
bool ebb_unplanned_may_match_partly(drive_t *drive, const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[drive->cursor];
    uint32_t planned = 0;
    for (uint32_t i = 0; i < op->access_count; i++)
        planned += ebb_drive_plans(drive, &op->access[i]);
    if (op->kind != EBB_KERNEL || !op->plain || drive->streams > 1 || 2 * planned < o->access_count ||
        !planned || may_be_repeated(drive, drive->cursor) ||
        drive->learned->operation[drive->cursor].replaces)
        return false;
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (drive->trace->access[i].mode == EBB_REPLACES &&
            !ebb_drive_makes(drive, op, &drive->trace->access[i]))
            return false;
    return true;
}

bool ebb_unplanned_partial_match(drive_t *drive, const ebb_operation_t *op)
{
    if (drive->stray_count + op->access_count > MOST_WRITES)
        return false;
    for (uint32_t i = 0; i < op->access_count; i++) {
        ebb_buffer_t *b = op->access[i].buffer;
        /* What the plan does not know stays as it is only if nothing moves it. */
        if (!ebb_drive_plans(drive, &op->access[i]) &&
            (!b->range->mapped || (!b->number && b->residence) || !is_harmless_to(op, b)))
            return false;
    }
    if (join_fetches(drive, op) || ebb_guard_open_buffers(drive, op))
        return false;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (!ebb_drive_plans(drive, &op->access[i]) && op->access[i].buffer->number &&
            may_write(drive->device, op, &op->access[i]))
            note_write(op->access[i].buffer, drive->cursor + 1);
    ebb_issued_forget(&drive->issued[drive->cursor]); /* it is never replayed */
    drive->counts->unplanned++;
    return true;
}

/* ---- allocations ---- */

bool ebb_unplanned_allocation(ebb_device_t *dev, const ebb_request_t *q)
{
    const size_t chunks = (q->bytes + EBB_CHUNK_BYTES - 1) / EBB_CHUNK_BYTES;
    ebb_request_t unplanned = *q;
    unplanned.planned = true;
    return q->bytes <= EBB_SMALL_BYTES || ebb_chunks_unowned(dev) >= chunks ||
           ebb_heap_may_wait(dev, &unplanned);
}

/* ---- frees ---- */

static bool is_due(const drive_t *drive, uint32_t buffer)
{
    return ebb_plan_dies(drive->plan, drive->trace, buffer) <= drive->cursor;
}

bool ebb_unplanned_needs(const drive_t *drive, uint32_t buffer)
{
    return !ebb_site_of(drive, buffer)->late && !is_due(drive, buffer) &&
           ((drive->trace->buffer[buffer].dies == EBB_NONE && !ebb_trace_is_unplaced(drive->trace, buffer)) ||
            ebb_unplanned_is_source(drive, buffer));
}

bool ebb_unplanned_put_off(const drive_t *drive, ebb_buffer_t *b, const ebb_stream_t *stream)
{
    struct ebb_drives *drives = drive->device->run->drives;
    const site_t *s = ebb_site_of(drive, b->number - 1);
    const bool placed = !s->found || s->range;
    if (!placed && (drive->streams > 1 || (stream && stream != drive->stream)))
        return false;
    ebb_buffer_t **early = ebb_array_append((void **)&drives->early, &drives->early_count,
                                            &drives->early_room, sizeof(*drives->early));
    if (early)
        *early = b;
    return early;
}

void ebb_unplanned_forget(ebb_device_t *dev, const ebb_buffer_t *b)
{
    struct ebb_drives *drives = dev->run->drives;
    for (uint32_t i = 0; i < drives->early_count; i++)
        if (drives->early[i] == b)
            drives->early[i--] = drives->early[--drives->early_count];
}

static bool is_still_needed(const drive_t *drive, const ebb_buffer_t *b)
{
    return drive->active && b->number && b->number != EBB_INACTIVE &&
           !ebb_trace_stays_itself(drive->trace, b->number - 1) && ebb_unplanned_needs(drive, b->number - 1);
}

static bool touches(const ebb_operation_t *op, const ebb_buffer_t *b)
{
    uint32_t i = 0;
    while (op && i < op->access_count && op->access[i].buffer != b)
        i++;
    return op && i < op->access_count;
}

bool ebb_drive_puts_off(ebb_device_t *dev)
{
    return dev->run->drives->early_count;
}

ebb_buffer_t *ebb_drive_put_off_free(ebb_device_t *dev, const ebb_operation_t *op, ebb_stream_t **stream)
{
    struct ebb_drives *drives = dev->run->drives;
    const drive_t *drive = ebb_driven(dev);
    uint32_t i = 0;
    while (i < drives->early_count &&
           (is_still_needed(drive, drives->early[i]) || touches(op, drives->early[i])))
        i++;
    if (i == drives->early_count)
        return NULL;
    *stream = drive->active && !ebb_stream_is_gone(drive->stream) ? drive->stream : NULL;
    return drives->early[i];
}

/* A content that only a replay could bring back is out of reach from here on. */
static bool may_stay(const site_t *s)
{
    return !s->range || !s->written || s->device || s->on_host;
}

/* The place's chunks hold the only copy of a content. */
static bool would_take_late(drive_t *drive, uint32_t place)
{
    const ebb_place_t *p = &drive->plan->place[place];
    for (uint32_t c = 0; c < p->chunk_count; c++) {
        const uint32_t holder = drive->holder[drive->plan->chunk[p->first_chunk + c]];
        const site_t *s = holder != EBB_NONE && holder != place ? &drive->site[holder] : NULL;
        if (s && s->late && s->device && !s->on_host)
            return true;
    }
    return false;
}

/* In its own place a replay may make an older version of what counts as freed. */
static bool operation_takes_late(drive_t *drive, const ebb_action_t *replay, const ebb_trace_operation_t *o)
{
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        const uint32_t place = ebb_replay_place(drive, replay, drive->trace->access[i].buffer);
        if (drive->trace->access[i].mode != EBB_READS &&
            ((drive->site[place].late && drive->site[place].written) || would_take_late(drive, place)))
            return true;
    }
    return false;
}

static bool action_takes_late(drive_t *drive, const ebb_action_t *a)
{
    return a->kind == EBB_FETCH    ? would_take_late(drive, ebb_place_now(drive, a->place))
           : a->kind == EBB_REPLAY ? operation_takes_late(drive, a, &drive->trace->operation[a->operation])
                                   : false;
}

/* Those that should have been freed at the point and were not. */
static const char *mark_late(drive_t *drive, uint32_t point)
{
    for (uint32_t i = drive->death_at[point]; i != EBB_NONE; i = drive->death_next[i]) {
        site_t *s = ebb_site_of(drive, i);
        if (!s->buffer || s->late || ebb_trace_is_unplaced(drive->trace, i))
            continue;
        if (!may_stay(s))
            return "a buffer was not freed";
        s->late = true;
        drive->late++;
    }
    return NULL;
}

const char *ebb_unplanned_end_step(drive_t *drive)
{
    const char *why = mark_late(drive, drive->trace->operation_count);
    if (why)
        return why;
    /* All others that are alive outlive the step, so that the numbers are equal only if those are alive, every one. */
    return drive->living == drive->outliving + drive->late ? NULL
                                                           : "a buffer that outlives the step was freed";
}

static const char needs_memory[] = "a buffer was not freed, and the plan needs its memory";

const char *ebb_unplanned_takes_late(drive_t *drive, uint32_t point)
{
    for (uint32_t i = drive->next_action;
         drive->late && i < drive->plan->action_count && drive->plan->action[i].point <= point; i++)
        if (action_takes_late(drive, &drive->plan->action[i]))
            return needs_memory;
    return NULL;
}

const char *ebb_unplanned_late_frees(drive_t *drive)
{
    const char *why = mark_late(drive, drive->cursor);
    if (!why)
        why = ebb_unplanned_takes_late(drive, drive->cursor);
    if (why || !drive->late)
        return why;
    return operation_takes_late(drive, NULL, &drive->trace->operation[drive->cursor]) ? needs_memory : NULL;
}

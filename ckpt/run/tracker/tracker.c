#include "ckpt/run/tracker/tracker.h"

#include <stdlib.h>

#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"

/* How far ahead a left-out stretch is looked for, and how many strays in a row end it. */
enum { LOOK = 64, STRAYS = 256 };

const size_t ebb_part_tracked = sizeof(ebb_tracked_t);

struct ebb_tracker {
    ebb_buffer_t **successor; /* [buffers] */
    uint32_t candidate;       /* where the program may have got to; EBB_NONE */
    unsigned strays;
    uint32_t candidate_before; /* the same, before the operation under way */
    unsigned strays_before;
    bool shaped; /* the operation under way is the one at F.at, whatever its buffers */
};
const size_t ebb_part_tracker = sizeof(struct ebb_tracker);

static const ebb_trace_t *trace(ebb_tracked_t *tracked)
{
    return tracked->learned->trace;
}

bool ebb_tracker_follows(ebb_t *ebb, const ebb_recording_t *learned)
{
    ebb_tracked_t *tracked = ebb->run->tracked;
    return tracked->learned && tracked->learned == learned;
}

/* ---- numbers ---- */

static void unbind(ebb_tracked_t *tracked, uint32_t id)
{
    if (tracked->buffer[id])
        tracked->buffer[id]->number = 0;
    tracked->buffer[id] = NULL;
}

/* The same in every step. */
static bool persists(ebb_tracked_t *tracked, uint32_t id)
{
    return trace(tracked)->buffer[id].born == EBB_NONE && trace(tracked)->buffer[id].next == id;
}

static void give_number(ebb_tracked_t *tracked, ebb_buffer_t *b, uint32_t id)
{
    tracked->buffer[id] = b;
    b->number = id + 1;
}

static bool is_bound(ebb_tracked_t *tracked, ebb_buffer_t *b, uint32_t id)
{
    if (tracked->buffer[id] == b)
        return true;
    if (tracked->buffer[id] || b->number || (b->pinned != 0) != trace(tracked)->buffer[id].pinned ||
        (persists(tracked, id) && tracked->learned->generation[id] != b->generation))
        return false;
    give_number(tracked, b, id);
    return true;
}

static void bind_persistent(ebb_device_t *dev)
{
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    for (uint32_t i = 0; i < trace(tracked)->buffer_count; i++) {
        ebb_buffer_t *b = persists(tracked, i) ? ebb_buffer_at(dev->ebb, tracked->learned->address[i]) : NULL;
        if (b)
            is_bound(tracked, b, i);
    }
}

/* ---- the cursor ---- */

/* No larger than is known of it: a small one, whose size may vary; else the same. */
static bool is_of_size(ebb_tracked_t *tracked, const ebb_buffer_t *b, uint32_t id)
{
    const size_t most = trace(tracked)->buffer[id].bytes;
    return b->bytes == most || (most <= EBB_SMALL_BYTES && b->bytes < most);
}

static bool is_shaped(ebb_tracked_t *tracked, const ebb_operation_t *op, uint32_t index)
{
    return index < trace(tracked)->operation_count && !ebb_record_difference(tracked->learned, index, op);
}

static bool is_on_recorded_buffers(ebb_tracked_t *tracked, const ebb_operation_t *op, uint32_t index)
{
    bool all = true;
    for (uint32_t i = 0; i < op->access_count; i++) {
        const ebb_trace_access_t *a =
            &trace(tracked)->access[trace(tracked)->operation[index].first_access + i];
        all &= is_bound(tracked, op->access[i].buffer, a->buffer) &&
               is_of_size(tracked, op->access[i].buffer, a->buffer) &&
               op->access[i].offset_bytes == a->offset_bytes && op->access[i].param_offset == a->param_offset;
    }
    return all;
}

/* What was this in the last step is that in the next. */
static void renumber(ebb_t *ebb, bool behind_another)
{
    struct ebb_tracker *tracker = ebb->run->tracker;
    ebb_tracked_t *tracked = ebb->run->tracked;
    for (uint32_t i = 0; i < trace(tracked)->buffer_count; i++) {
        tracker->successor[i] = behind_another ? tracked->buffer[i] : NULL;
        if (!persists(tracked, i))
            unbind(tracked, i);
    }
    for (uint32_t i = 0; i < trace(tracked)->buffer_count; i++) {
        const uint32_t next = trace(tracked)->buffer[i].next;
        if (tracker->successor[i] && next != EBB_NONE && next != i && !tracked->buffer[next])
            give_number(tracked, tracker->successor[i], next);
    }
}

static void go_on(ebb_t *ebb)
{
    struct ebb_tracker *tracker = ebb->run->tracker;
    ebb_tracked_t *tracked = ebb->run->tracked;
    tracked->known = true;
    tracked->paused = false;
    tracker->candidate = EBB_NONE;
    tracker->strays = 0;
    tracker->shaped = false;
}

static void begin_step(ebb_device_t *dev)
{
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    ebb_recipe_step_ends(dev);
    renumber(dev->ebb, tracked->known && tracked->cursor == trace(tracked)->operation_count);
    tracked->cursor = 0;
    tracked->step++;
    go_on(dev->ebb);
}

/* The operation is not the one at the cursor. Its place if the one before and this continue the step further on. */
static uint32_t find_place(ebb_t *ebb, const ebb_operation_t *op)
{
    struct ebb_tracker *tracker = ebb->run->tracker;
    ebb_tracked_t *tracked = ebb->run->tracked;
    if (tracker->candidate != EBB_NONE && is_shaped(tracked, op, tracker->candidate))
        return tracker->candidate;
    tracker->candidate = EBB_NONE;
    for (uint32_t i = tracked->cursor + 1; i < tracked->cursor + LOOK && i < trace(tracked)->operation_count;
         i++)
        if (is_shaped(tracked, op, i)) {
            tracker->candidate = i + 1;
            break;
        }
    if (++tracker->strays > STRAYS)
        tracked->known = false;
    return EBB_NONE;
}

static void place(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_tracker *tracker = dev->ebb->run->tracker;
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    if (tracked->cursor == trace(tracked)->operation_count)
        begin_step(dev);
    tracker->candidate_before = tracker->candidate;
    tracker->strays_before = tracker->strays;
    tracked->at = is_shaped(tracked, op, tracked->cursor) ? tracked->cursor : find_place(dev->ebb, op);
    /* Where only sizes vary, or where some words lead, the order is still the same. */
    if (tracked->at == EBB_NONE && tracker->candidate == EBB_NONE &&
        tracked->cursor < trace(tracked)->operation_count &&
        (ebb_record_is_like(tracked->learned, tracked->cursor, op) ||
         (op->structures && !ebb_record_other_launch(tracked->learned, tracked->cursor, op))))
        tracked->at = tracked->cursor;
    if (tracked->at == EBB_NONE)
        return;
    tracker->candidate = EBB_NONE;
    tracker->strays = 0;
    tracker->shaped = true;
    tracked->matches = op->access_count == trace(tracked)->operation[tracked->at].access_count &&
                       is_on_recorded_buffers(tracked, op, tracked->at) &&
                       is_shaped(tracked, op, tracked->at);
}

/* ---- life ---- */

/* False: no host memory; nothing is followed. */
static bool take_up(ebb_device_t *dev, ebb_recording_t *learned)
{
    struct ebb_tracker *tracker = dev->ebb->run->tracker;
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    ebb_tracker_end(dev);
    tracked->buffer = calloc((size_t)learned->trace->buffer_count + 1, sizeof(ebb_buffer_t *));
    tracker->successor = calloc((size_t)learned->trace->buffer_count + 1, sizeof(ebb_buffer_t *));
    if (!tracked->buffer || !tracker->successor || !learned->trace->operation_count ||
        !ebb_uses_make(&tracked->uses, learned->trace)) {
        free(tracked->buffer);
        free(tracker->successor);
        tracker->successor = NULL;
        tracked->buffer = NULL;
        return false;
    }
    tracked->learned = learned;
    tracked->device_number = dev->number;
    tracked->step = 0;
    return true;
}

static void begin(ebb_device_t *dev, ebb_recording_t *learned)
{
    if (!take_up(dev, learned))
        return;
    ebb_link(dev); /* takes memory while it measures, and so must not be asked first when memory runs out */
    ebb_recipe_begin(dev);
    bind_persistent(dev);
    begin_step(dev);
}

void ebb_tracker_resume(ebb_device_t *dev, ebb_orphans_t *left)
{
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    if (!take_up(dev, left->learned)) {
        ebb_recipe_abandon(left);
        return;
    }
    for (uint32_t i = 0; i < trace(tracked)->buffer_count; i++)
        if (left->buffer[i])
            give_number(tracked, left->buffer[i], i);
    tracked->cursor = left->cursor;
    tracked->resumed = true;
    go_on(dev->ebb);
    ebb_recipe_resume(dev, left);
}

void ebb_tracker_end(ebb_device_t *dev)
{
    struct ebb_tracker *tracker = dev->ebb->run->tracker;
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    if (!tracked->learned)
        return;
    ebb_recipe_end(dev);
    for (uint32_t i = 0; i < trace(tracked)->buffer_count; i++)
        unbind(tracked, i);
    free(tracked->buffer);
    free(tracker->successor);
    tracker->successor = NULL;
    ebb_uses_free(&tracked->uses);
    *tracked = (ebb_tracked_t){0};
}

void ebb_tracker_boundary(ebb_device_t *dev, ebb_recording_t *learned)
{
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    if (learned && learned->trace && (!ebb_tracker_follows(dev->ebb, learned) || tracked->resumed)) {
        begin(dev, learned);
    } else if (tracked->learned && (!tracked->known || tracked->cursor)) {
        begin_step(dev);
        bind_persistent(dev);
    }
}

ebb_buffer_t **ebb_tracker_present(ebb_t *ebb, const ebb_recording_t *learned)
{
    ebb_tracked_t *tracked = ebb->run->tracked;
    if (!ebb_tracker_follows(ebb, learned) || !tracked->known ||
        (tracked->cursor && tracked->cursor != trace(tracked)->operation_count))
        return NULL;
    ebb_buffer_t **present = calloc((size_t)trace(tracked)->buffer_count + 1, sizeof(ebb_buffer_t *));
    for (uint32_t i = 0; present && i < trace(tracked)->buffer_count; i++) {
        const uint32_t number = tracked->cursor ? ebb_trace_next(trace(tracked), i) : i;
        if (number != EBB_NONE && tracked->buffer[i])
            present[number] = tracked->buffer[i];
    }
    return present;
}

void ebb_tracker_pause(ebb_device_t *dev)
{
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    if (!tracked->learned || tracked->paused)
        return;
    ebb_recipe_step_ends(dev);
    for (uint32_t i = 0; i < trace(tracked)->buffer_count; i++)
        unbind(tracked, i);
    tracked->known = false;
    tracked->paused = true;
}

ebb_status_t ebb_tracker_before(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_tracker *tracker = dev->ebb->run->tracker;
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    tracked->matches = tracker->shaped = false;
    tracked->at = EBB_NONE;
    if (!tracked->learned)
        return 0;
    if (tracked->known)
        place(dev, op);
    return ebb_recipe_before(dev->ebb, op);
}

void ebb_tracker_after(ebb_t *ebb, const ebb_operation_t *op, bool issued)
{
    struct ebb_tracker *tracker = ebb->run->tracker;
    ebb_tracked_t *tracked = ebb->run->tracked;
    if (!tracked->learned)
        return;
    ebb_recipe_after(ebb, op, issued);
    if (issued && tracker->shaped)
        tracked->cursor = tracked->at + 1;
    if (!issued && tracked->known) { /* it may come once more */
        tracker->candidate = tracker->candidate_before;
        tracker->strays = tracker->strays_before;
    }
}

void ebb_tracker_freeing(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_t *ebb = b->range->device->ebb;
    ebb_tracked_t *tracked = ebb->run->tracked;
    if (!tracked->learned || !b->number)
        return;
    ebb_recipe_freeing(b, stream);
    unbind(tracked, b->number - 1);
}

/* ---- what it says ---- */

bool ebb_tracker_known(ebb_device_t *dev)
{
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    return tracked->learned && tracked->known && tracked->device_number == dev->number;
}

ebb_next_use_t ebb_tracker_next_use(const ebb_buffer_t *b)
{
    ebb_t *ebb = b->range->device->ebb;
    ebb_tracked_t *tracked = ebb->run->tracked;
    if (!b->number)
        return (ebb_next_use_t){.known = false};
    const uint32_t id = b->number - 1, n = trace(tracked)->operation_count;
    uint32_t next = ebb_uses_next(&tracked->uses, id, tracked->cursor),
             behind = ebb_uses_behind(&tracked->uses, id, tracked->cursor);
    if (next == EBB_NONE) /* as far as can be thought */
        next = 4 * n;
    return (ebb_next_use_t){.known = true,
                            .ahead = next - tracked->cursor,
                            .ns = ebb_uses_ns(&tracked->uses, tracked->cursor, next),
                            .behind = behind == EBB_NONE ? n : behind};
}

/* Those that die just before an operation, and are on the device or touched before that. */
static size_t freed_chunks(ebb_tracked_t *tracked, uint32_t operation)
{
    size_t chunks = 0;
    for (uint32_t i = tracked->uses.first_death[operation]; i < tracked->uses.first_death[operation + 1];
         i++) {
        const uint32_t id = tracked->uses.death[i];
        const ebb_buffer_t *b = tracked->buffer[id];
        if (!b || b->range->mapped || ebb_uses_next(&tracked->uses, id, tracked->cursor) < operation)
            chunks += ebb_uses_chunks(&trace(tracked)->buffer[id]);
    }
    return chunks;
}

bool ebb_tracker_coming(ebb_t *ebb, uint32_t ahead, ebb_coming_t *out)
{
    ebb_tracked_t *tracked = ebb->run->tracked;
    const uint32_t n = trace(tracked)->operation_count, at = tracked->cursor + ahead;
    if (ahead >= n)
        return false;
    const uint32_t o = at % n;
    *out = (ebb_coming_t){.born_chunks = tracked->uses.born[o],
                          .freed_chunks = freed_chunks(tracked, o) + (o ? 0 : freed_chunks(tracked, n)),
                          .buffers = trace(tracked)->operation[o].access_count};
    return true;
}

ebb_buffer_t *ebb_tracker_touched(ebb_t *ebb, uint32_t ahead, uint32_t i)
{
    ebb_tracked_t *tracked = ebb->run->tracked;
    const uint32_t n = trace(tracked)->operation_count, at = tracked->cursor + ahead;
    const uint32_t id = trace(tracked)->access[trace(tracked)->operation[at % n].first_access + i].buffer;
    return at >= n && trace(tracked)->buffer[id].born != EBB_NONE ? NULL : tracked->buffer[id];
}

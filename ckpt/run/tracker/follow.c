#include "ckpt/run/tracker/tracker.h"

#include <stdlib.h>

#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"

/* How far ahead a left-out stretch is looked for, and how many strays in a row end it. */
enum { LOOK = 64, STRAYS = 256 };

const size_t ebb_part_followed = sizeof(ebb_followed_t);

struct ebb_follow {
    ebb_buffer_t **heir; /* [buffers] */
    uint32_t candidate;  /* where the program may have got to; EBB_NONE */
    unsigned strays;
    uint32_t candidate_before; /* the same, before the operation under way */
    unsigned strays_before;
    bool shaped; /* the operation under way is the one at F.at, whatever its buffers */
};
const size_t ebb_part_follow = sizeof(struct ebb_follow);

static const ebb_trace_t *trace(ebb_followed_t *followed)
{
    return followed->learned->trace;
}

bool ebb_follow_follows(ebb_t *ebb, const ebb_recording_t *learned)
{
    ebb_followed_t *followed = ebb->run->followed;
    return followed->learned && followed->learned == learned;
}

/* ---- numbers ---- */

static void unbind(ebb_followed_t *followed, uint32_t id)
{
    if (followed->buffer[id])
        followed->buffer[id]->number = 0;
    followed->buffer[id] = NULL;
}

/* The same in every step. */
static bool persists(ebb_followed_t *followed, uint32_t id)
{
    return trace(followed)->buffer[id].born == EBB_NONE && trace(followed)->buffer[id].next == id;
}

static void give_number(ebb_followed_t *followed, ebb_buffer_t *b, uint32_t id)
{
    followed->buffer[id] = b;
    b->number = id + 1;
}

static bool is_bound(ebb_followed_t *followed, ebb_buffer_t *b, uint32_t id)
{
    if (followed->buffer[id] == b)
        return true;
    if (followed->buffer[id] || b->number || (b->pinned != 0) != trace(followed)->buffer[id].pinned ||
        (persists(followed, id) && followed->learned->generation[id] != b->generation))
        return false;
    give_number(followed, b, id);
    return true;
}

static void bind_persistent(ebb_device_t *dev)
{
    ebb_followed_t *followed = dev->ebb->run->followed;
    for (uint32_t i = 0; i < trace(followed)->buffer_count; i++) {
        ebb_buffer_t *b =
            persists(followed, i) ? ebb_buffer_at(dev->ebb, followed->learned->address[i]) : NULL;
        if (b)
            is_bound(followed, b, i);
    }
}

/* ---- the cursor ---- */

/* No larger than is known of it: a small one, whose size may vary; else the same. */
static bool is_of_size(ebb_followed_t *followed, const ebb_buffer_t *b, uint32_t id)
{
    const size_t most = trace(followed)->buffer[id].bytes;
    return b->bytes == most || (most <= EBB_SMALL_BYTES && b->bytes < most);
}

static bool is_shaped(ebb_followed_t *followed, const ebb_operation_t *op, uint32_t index)
{
    return index < trace(followed)->operation_count && !ebb_record_difference(followed->learned, index, op);
}

static bool is_on_recorded_buffers(ebb_followed_t *followed, const ebb_operation_t *op, uint32_t index)
{
    bool all = true;
    for (uint32_t i = 0; i < op->access_count; i++) {
        const ebb_trace_access_t *a =
            &trace(followed)->access[trace(followed)->operation[index].first_access + i];
        all &= is_bound(followed, op->access[i].buffer, a->buffer) &&
               is_of_size(followed, op->access[i].buffer, a->buffer) &&
               op->access[i].offset_bytes == a->offset_bytes && op->access[i].param_offset == a->param_offset;
    }
    return all;
}

/* What was this in the last step is that in the next. */
static void renumber(ebb_t *ebb, bool behind_another)
{
    struct ebb_follow *follow = ebb->run->follow;
    ebb_followed_t *followed = ebb->run->followed;
    for (uint32_t i = 0; i < trace(followed)->buffer_count; i++) {
        follow->heir[i] = behind_another ? followed->buffer[i] : NULL;
        if (!persists(followed, i))
            unbind(followed, i);
    }
    for (uint32_t i = 0; i < trace(followed)->buffer_count; i++) {
        const uint32_t next = trace(followed)->buffer[i].next;
        if (follow->heir[i] && next != EBB_NONE && next != i && !followed->buffer[next])
            give_number(followed, follow->heir[i], next);
    }
}

static void go_on(ebb_t *ebb)
{
    struct ebb_follow *follow = ebb->run->follow;
    ebb_followed_t *followed = ebb->run->followed;
    followed->known = true;
    followed->paused = false;
    follow->candidate = EBB_NONE;
    follow->strays = 0;
    follow->shaped = false;
}

static void begin_step(ebb_device_t *dev)
{
    ebb_followed_t *followed = dev->ebb->run->followed;
    ebb_recipe_step_ends(dev);
    renumber(dev->ebb, followed->known && followed->cursor == trace(followed)->operation_count);
    followed->cursor = 0;
    followed->step++;
    go_on(dev->ebb);
}

/* The operation is not the one at the cursor. Its place if the one before and this continue the step further on. */
static uint32_t find_place(ebb_t *ebb, const ebb_operation_t *op)
{
    struct ebb_follow *follow = ebb->run->follow;
    ebb_followed_t *followed = ebb->run->followed;
    if (follow->candidate != EBB_NONE && is_shaped(followed, op, follow->candidate))
        return follow->candidate;
    follow->candidate = EBB_NONE;
    for (uint32_t i = followed->cursor + 1;
         i < followed->cursor + LOOK && i < trace(followed)->operation_count; i++)
        if (is_shaped(followed, op, i)) {
            follow->candidate = i + 1;
            break;
        }
    if (++follow->strays > STRAYS)
        followed->known = false;
    return EBB_NONE;
}

static void place(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_follow *follow = dev->ebb->run->follow;
    ebb_followed_t *followed = dev->ebb->run->followed;
    if (followed->cursor == trace(followed)->operation_count)
        begin_step(dev);
    follow->candidate_before = follow->candidate;
    follow->strays_before = follow->strays;
    followed->at = is_shaped(followed, op, followed->cursor) ? followed->cursor : find_place(dev->ebb, op);
    /* Where only sizes vary, or where some words lead, the order is still the same. */
    if (followed->at == EBB_NONE && follow->candidate == EBB_NONE &&
        followed->cursor < trace(followed)->operation_count &&
        (ebb_record_is_like(followed->learned, followed->cursor, op) ||
         (op->structures && !ebb_record_other_launch(followed->learned, followed->cursor, op))))
        followed->at = followed->cursor;
    if (followed->at == EBB_NONE)
        return;
    follow->candidate = EBB_NONE;
    follow->strays = 0;
    follow->shaped = true;
    followed->matches = op->access_count == trace(followed)->operation[followed->at].access_count &&
                        is_on_recorded_buffers(followed, op, followed->at) &&
                        is_shaped(followed, op, followed->at);
}

/* ---- life ---- */

/* False: no host memory; nothing is followed. */
static bool take_up(ebb_device_t *dev, ebb_recording_t *learned)
{
    struct ebb_follow *follow = dev->ebb->run->follow;
    ebb_followed_t *followed = dev->ebb->run->followed;
    ebb_follow_end(dev);
    followed->buffer = calloc((size_t)learned->trace->buffer_count + 1, sizeof(ebb_buffer_t *));
    follow->heir = calloc((size_t)learned->trace->buffer_count + 1, sizeof(ebb_buffer_t *));
    if (!followed->buffer || !follow->heir || !learned->trace->operation_count ||
        !ebb_uses_make(&followed->uses, learned->trace)) {
        free(followed->buffer);
        free(follow->heir);
        follow->heir = NULL;
        followed->buffer = NULL;
        return false;
    }
    followed->learned = learned;
    followed->slot = dev->number;
    followed->step = 0;
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

void ebb_follow_resume(ebb_device_t *dev, ebb_left_t *left)
{
    ebb_followed_t *followed = dev->ebb->run->followed;
    if (!take_up(dev, left->learned)) {
        ebb_recipe_abandon(left);
        return;
    }
    for (uint32_t i = 0; i < trace(followed)->buffer_count; i++)
        if (left->buffer[i])
            give_number(followed, left->buffer[i], i);
    followed->cursor = left->cursor;
    followed->resumed = true;
    go_on(dev->ebb);
    ebb_recipe_resume(dev, left);
}

void ebb_follow_end(ebb_device_t *dev)
{
    struct ebb_follow *follow = dev->ebb->run->follow;
    ebb_followed_t *followed = dev->ebb->run->followed;
    if (!followed->learned)
        return;
    ebb_recipe_end(dev);
    for (uint32_t i = 0; i < trace(followed)->buffer_count; i++)
        unbind(followed, i);
    free(followed->buffer);
    free(follow->heir);
    follow->heir = NULL;
    ebb_uses_free(&followed->uses);
    *followed = (ebb_followed_t){0};
}

void ebb_follow_boundary(ebb_device_t *dev, ebb_recording_t *learned)
{
    ebb_followed_t *followed = dev->ebb->run->followed;
    if (learned && learned->trace && (!ebb_follow_follows(dev->ebb, learned) || followed->resumed)) {
        begin(dev, learned);
    } else if (followed->learned && (!followed->known || followed->cursor)) {
        begin_step(dev);
        bind_persistent(dev);
    }
}

ebb_buffer_t **ebb_follow_present(ebb_t *ebb, const ebb_recording_t *learned)
{
    ebb_followed_t *followed = ebb->run->followed;
    if (!ebb_follow_follows(ebb, learned) || !followed->known ||
        (followed->cursor && followed->cursor != trace(followed)->operation_count))
        return NULL;
    ebb_buffer_t **present = calloc((size_t)trace(followed)->buffer_count + 1, sizeof(ebb_buffer_t *));
    for (uint32_t i = 0; present && i < trace(followed)->buffer_count; i++) {
        const uint32_t number = followed->cursor ? ebb_trace_next(trace(followed), i) : i;
        if (number != EBB_NONE && followed->buffer[i])
            present[number] = followed->buffer[i];
    }
    return present;
}

void ebb_follow_pause(ebb_device_t *dev)
{
    ebb_followed_t *followed = dev->ebb->run->followed;
    if (!followed->learned || followed->paused)
        return;
    ebb_recipe_step_ends(dev);
    for (uint32_t i = 0; i < trace(followed)->buffer_count; i++)
        unbind(followed, i);
    followed->known = false;
    followed->paused = true;
}

ebb_status_t ebb_follow_before(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_follow *follow = dev->ebb->run->follow;
    ebb_followed_t *followed = dev->ebb->run->followed;
    followed->matches = follow->shaped = false;
    followed->at = EBB_NONE;
    if (!followed->learned)
        return 0;
    if (followed->known)
        place(dev, op);
    return ebb_recipe_before(dev->ebb, op);
}

void ebb_follow_after(ebb_t *ebb, const ebb_operation_t *op, bool issued)
{
    struct ebb_follow *follow = ebb->run->follow;
    ebb_followed_t *followed = ebb->run->followed;
    if (!followed->learned)
        return;
    ebb_recipe_after(ebb, op, issued);
    if (issued && follow->shaped)
        followed->cursor = followed->at + 1;
    if (!issued && followed->known) { /* it may come once more */
        follow->candidate = follow->candidate_before;
        follow->strays = follow->strays_before;
    }
}

void ebb_follow_freeing(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_t *ebb = b->range->device->ebb;
    ebb_followed_t *followed = ebb->run->followed;
    if (!followed->learned || !b->number)
        return;
    ebb_recipe_freeing(b, stream);
    unbind(followed, b->number - 1);
}

/* ---- what it says ---- */

bool ebb_follow_known(ebb_device_t *dev)
{
    ebb_followed_t *followed = dev->ebb->run->followed;
    return followed->learned && followed->known && followed->slot == dev->number;
}

ebb_next_use_t ebb_follow_next_use(const ebb_buffer_t *b)
{
    ebb_t *ebb = b->range->device->ebb;
    ebb_followed_t *followed = ebb->run->followed;
    if (!b->number)
        return (ebb_next_use_t){.known = false};
    const uint32_t id = b->number - 1, n = trace(followed)->operation_count;
    uint32_t next = ebb_uses_next(&followed->uses, id, followed->cursor),
             behind = ebb_uses_behind(&followed->uses, id, followed->cursor);
    if (next == EBB_NONE) /* as far as can be thought */
        next = 4 * n;
    return (ebb_next_use_t){.known = true,
                            .ahead = next - followed->cursor,
                            .ns = ebb_uses_ns(&followed->uses, followed->cursor, next),
                            .behind = behind == EBB_NONE ? n : behind};
}

/* Those that die just before an operation, and are on the device or touched before that. */
static size_t freed_chunks(ebb_followed_t *followed, uint32_t operation)
{
    size_t chunks = 0;
    for (uint32_t i = followed->uses.first_death[operation]; i < followed->uses.first_death[operation + 1];
         i++) {
        const uint32_t id = followed->uses.death[i];
        const ebb_buffer_t *b = followed->buffer[id];
        if (!b || b->range->mapped || ebb_uses_next(&followed->uses, id, followed->cursor) < operation)
            chunks += ebb_uses_chunks(&trace(followed)->buffer[id]);
    }
    return chunks;
}

bool ebb_follow_coming(ebb_t *ebb, uint32_t ahead, ebb_coming_t *out)
{
    ebb_followed_t *followed = ebb->run->followed;
    const uint32_t n = trace(followed)->operation_count, at = followed->cursor + ahead;
    if (ahead >= n)
        return false;
    const uint32_t o = at % n;
    *out = (ebb_coming_t){.born_chunks = followed->uses.born[o],
                          .freed_chunks = freed_chunks(followed, o) + (o ? 0 : freed_chunks(followed, n)),
                          .buffers = trace(followed)->operation[o].access_count};
    return true;
}

ebb_buffer_t *ebb_follow_touched(ebb_t *ebb, uint32_t ahead, uint32_t i)
{
    ebb_followed_t *followed = ebb->run->followed;
    const uint32_t n = trace(followed)->operation_count, at = followed->cursor + ahead;
    const uint32_t id = trace(followed)->access[trace(followed)->operation[at % n].first_access + i].buffer;
    return at >= n && trace(followed)->buffer[id].born != EBB_NONE ? NULL : followed->buffer[id];
}

#include "ckpt/run/tracker/follow.h"

#include <stdlib.h>

#include "alloc/device.h"
#include "alloc/base/log.h"
#include "ckpt/run/replay/left.h"
#include "ckpt/run/replay/recipe.h"

#define F ebb_followed

/* How far ahead a left-out stretch is looked for, and how many strays in a row end it. */
enum { LOOK = 64, STRAYS = 256 };

ebb_followed_t ebb_followed;

static struct {
    ebb_buffer_t **heir; /* [buffers] */
    uint32_t candidate;  /* where the program may have got to; EBB_NONE */
    unsigned strays;
    uint32_t candidate_before; /* the same, before the operation under way */
    unsigned strays_before;
    bool shaped; /* the operation under way is the one at F.at, whatever its buffers */
} follow;

static const ebb_trace_t *trace(void)
{
    return F.learned->trace;
}

bool ebb_follow_follows(const ebb_recording_t *learned)
{
    return F.learned && F.learned == learned;
}

/* ---- numbers ---- */

static void unbind(uint32_t id)
{
    if (F.buffer[id])
        F.buffer[id]->number = 0;
    F.buffer[id] = NULL;
}

/* The same in every step. */
static bool persists(uint32_t id)
{
    return trace()->buffer[id].born == EBB_NONE && trace()->buffer[id].next == id;
}

static void give_number(ebb_buffer_t *b, uint32_t id)
{
    F.buffer[id] = b;
    b->number = id + 1;
}

static bool is_bound(ebb_buffer_t *b, uint32_t id)
{
    if (F.buffer[id] == b)
        return true;
    if (F.buffer[id] || b->number || (b->pinned != 0) != trace()->buffer[id].pinned ||
        (persists(id) && F.learned->generation[id] != b->generation))
        return false;
    give_number(b, id);
    return true;
}

static void bind_persistent(void)
{
    for (uint32_t i = 0; i < trace()->buffer_count; i++) {
        ebb_buffer_t *b = persists(i) ? ebb_buffer_at(ebb_here->ebb, F.learned->address[i]) : NULL;
        if (b)
            is_bound(b, i);
    }
}

/* ---- the cursor ---- */

/* No larger than is known of it: a small one, whose size may vary; else the same. */
static bool is_of_size(const ebb_buffer_t *b, uint32_t id)
{
    const size_t most = trace()->buffer[id].bytes;
    return b->bytes == most || (most <= EBB_SMALL_BYTES && b->bytes < most);
}

static bool is_shaped(const ebb_operation_t *op, uint32_t index)
{
    return index < trace()->operation_count && !ebb_record_difference(F.learned, index, op);
}

static bool is_on_recorded_buffers(const ebb_operation_t *op, uint32_t index)
{
    bool all = true;
    for (uint32_t i = 0; i < op->access_count; i++) {
        const ebb_trace_access_t *a = &trace()->access[trace()->operation[index].first_access + i];
        all &= is_bound(op->access[i].buffer, a->buffer) && is_of_size(op->access[i].buffer, a->buffer) &&
               op->access[i].offset_bytes == a->offset_bytes && op->access[i].param_offset == a->param_offset;
    }
    return all;
}

/* What was this in the last step is that in the next. */
static void renumber(bool behind_another)
{
    for (uint32_t i = 0; i < trace()->buffer_count; i++) {
        follow.heir[i] = behind_another ? F.buffer[i] : NULL;
        if (!persists(i))
            unbind(i);
    }
    for (uint32_t i = 0; i < trace()->buffer_count; i++) {
        const uint32_t next = trace()->buffer[i].next;
        if (follow.heir[i] && next != EBB_NONE && next != i && !F.buffer[next])
            give_number(follow.heir[i], next);
    }
}

static void go_on(void)
{
    F.known = true;
    F.paused = false;
    follow.candidate = EBB_NONE;
    follow.strays = 0;
    follow.shaped = false;
}

static void begin_step(void)
{
    ebb_recipe_step_ends();
    renumber(F.known && F.cursor == trace()->operation_count);
    F.cursor = 0;
    F.step++;
    go_on();
}

/* The operation is not the one at the cursor. Its place if the one before and this continue the step further on. */
static uint32_t find_place(const ebb_operation_t *op)
{
    if (follow.candidate != EBB_NONE && is_shaped(op, follow.candidate))
        return follow.candidate;
    follow.candidate = EBB_NONE;
    for (uint32_t i = F.cursor + 1; i < F.cursor + LOOK && i < trace()->operation_count; i++)
        if (is_shaped(op, i)) {
            follow.candidate = i + 1;
            break;
        }
    if (++follow.strays > STRAYS)
        F.known = false;
    return EBB_NONE;
}

static void place(const ebb_operation_t *op)
{
    if (F.cursor == trace()->operation_count)
        begin_step();
    follow.candidate_before = follow.candidate;
    follow.strays_before = follow.strays;
    F.at = is_shaped(op, F.cursor) ? F.cursor : find_place(op);
    /* Where only sizes vary, or where some words lead, the order is still the same. */
    if (F.at == EBB_NONE && follow.candidate == EBB_NONE && F.cursor < trace()->operation_count &&
        (ebb_record_is_like(F.learned, F.cursor, op) ||
         (op->structures && !ebb_record_other_launch(F.learned, F.cursor, op))))
        F.at = F.cursor;
    if (F.at == EBB_NONE)
        return;
    follow.candidate = EBB_NONE;
    follow.strays = 0;
    follow.shaped = true;
    F.matches = op->access_count == trace()->operation[F.at].access_count &&
                is_on_recorded_buffers(op, F.at) && is_shaped(op, F.at);
}

/* ---- life ---- */

/* False: no host memory; nothing is followed. */
static bool take_up(ebb_recording_t *learned)
{
    ebb_follow_end();
    F.buffer = calloc((size_t)learned->trace->buffer_count + 1, sizeof(ebb_buffer_t *));
    follow.heir = calloc((size_t)learned->trace->buffer_count + 1, sizeof(ebb_buffer_t *));
    if (!F.buffer || !follow.heir || !learned->trace->operation_count ||
        !ebb_uses_make(&F.uses, learned->trace)) {
        free(F.buffer);
        free(follow.heir);
        follow.heir = NULL;
        F.buffer = NULL;
        return false;
    }
    F.learned = learned;
    F.slot = ebb_here->number;
    F.step = 0;
    return true;
}

static void begin(ebb_recording_t *learned)
{
    if (!take_up(learned))
        return;
    ebb_link(); /* takes memory while it measures, and so must not be asked first when memory runs out */
    ebb_recipe_begin();
    bind_persistent();
    begin_step();
}

void ebb_follow_resume(ebb_left_t *left)
{
    if (!take_up(left->learned)) {
        ebb_recipe_abandon(left);
        return;
    }
    for (uint32_t i = 0; i < trace()->buffer_count; i++)
        if (left->buffer[i])
            give_number(left->buffer[i], i);
    F.cursor = left->cursor;
    F.resumed = true;
    go_on();
    ebb_recipe_resume(left);
}

void ebb_follow_end(void)
{
    if (!F.learned)
        return;
    ebb_recipe_end();
    for (uint32_t i = 0; i < trace()->buffer_count; i++)
        unbind(i);
    free(F.buffer);
    free(follow.heir);
    follow.heir = NULL;
    ebb_uses_free(&F.uses);
    F = (ebb_followed_t){0};
}

void ebb_follow_boundary(ebb_recording_t *learned)
{
    if (learned && learned->trace && (!ebb_follow_follows(learned) || F.resumed)) {
        begin(learned);
    } else if (F.learned && (!F.known || F.cursor)) {
        begin_step();
        bind_persistent();
    }
}

ebb_buffer_t **ebb_follow_present(const ebb_recording_t *learned)
{
    if (!ebb_follow_follows(learned) || !F.known || (F.cursor && F.cursor != trace()->operation_count))
        return NULL;
    ebb_buffer_t **present = calloc((size_t)trace()->buffer_count + 1, sizeof(ebb_buffer_t *));
    for (uint32_t i = 0; present && i < trace()->buffer_count; i++) {
        const uint32_t number = F.cursor ? ebb_trace_next(trace(), i) : i;
        if (number != EBB_NONE && F.buffer[i])
            present[number] = F.buffer[i];
    }
    return present;
}

void ebb_follow_pause(void)
{
    if (!F.learned || F.paused)
        return;
    ebb_recipe_step_ends();
    for (uint32_t i = 0; i < trace()->buffer_count; i++)
        unbind(i);
    F.known = false;
    F.paused = true;
}

ebb_status_t ebb_follow_before(const ebb_operation_t *op)
{
    F.matches = follow.shaped = false;
    F.at = EBB_NONE;
    if (!F.learned)
        return 0;
    if (F.known)
        place(op);
    return ebb_recipe_before(op);
}

void ebb_follow_after(const ebb_operation_t *op, bool issued)
{
    if (!F.learned)
        return;
    ebb_recipe_after(op, issued);
    if (issued && follow.shaped)
        F.cursor = F.at + 1;
    if (!issued && F.known) { /* it may come once more */
        follow.candidate = follow.candidate_before;
        follow.strays = follow.strays_before;
    }
}

void ebb_follow_freeing(ebb_buffer_t *b, ebb_stream_t *stream)
{
    if (!F.learned || !b->number)
        return;
    ebb_recipe_freeing(b, stream);
    unbind(b->number - 1);
}

/* ---- what it says ---- */

bool ebb_follow_known(void)
{
    return F.learned && F.known && F.slot == ebb_here->number;
}

ebb_next_use_t ebb_follow_next_use(const ebb_buffer_t *b)
{
    if (!b->number)
        return (ebb_next_use_t){.known = false};
    const uint32_t id = b->number - 1, n = trace()->operation_count;
    uint32_t next = ebb_uses_next(&F.uses, id, F.cursor), behind = ebb_uses_behind(&F.uses, id, F.cursor);
    if (next == EBB_NONE) /* as far as can be thought */
        next = 4 * n;
    return (ebb_next_use_t){.known = true,
                            .ahead = next - F.cursor,
                            .ns = ebb_uses_ns(&F.uses, F.cursor, next),
                            .behind = behind == EBB_NONE ? n : behind};
}

/* Those that die just before an operation, and are on the device or touched before that. */
static size_t freed_chunks(uint32_t operation)
{
    size_t chunks = 0;
    for (uint32_t i = F.uses.first_death[operation]; i < F.uses.first_death[operation + 1]; i++) {
        const uint32_t id = F.uses.death[i];
        const ebb_buffer_t *b = F.buffer[id];
        if (!b || b->range->mapped || ebb_uses_next(&F.uses, id, F.cursor) < operation)
            chunks += ebb_uses_chunks(&trace()->buffer[id]);
    }
    return chunks;
}

bool ebb_follow_coming(uint32_t ahead, ebb_coming_t *out)
{
    const uint32_t n = trace()->operation_count, at = F.cursor + ahead;
    if (ahead >= n)
        return false;
    const uint32_t o = at % n;
    *out = (ebb_coming_t){.born_chunks = F.uses.born[o],
                          .freed_chunks = freed_chunks(o) + (o ? 0 : freed_chunks(n)),
                          .buffers = trace()->operation[o].access_count};
    return true;
}

ebb_buffer_t *ebb_follow_touched(uint32_t ahead, uint32_t i)
{
    const uint32_t n = trace()->operation_count, at = F.cursor + ahead;
    const uint32_t id = trace()->access[trace()->operation[at % n].first_access + i].buffer;
    return at >= n && trace()->buffer[id].born != EBB_NONE ? NULL : F.buffer[id];
}

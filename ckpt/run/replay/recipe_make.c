/* recipe_make.c: making what was dropped: the operations of its recipe are issued again (replay.h). */
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/replay/internal.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/run/state.h"

/* A content under way. */
typedef struct making {
    uint32_t id;
    ebb_buffer_t *buffer;
    ebb_stream_t *stream;
    const recipe_t *recipe;
    bool begun; /* the buffer has memory */
} making_t;

/* An operation under way: what must be there for it, and held. */
typedef struct cast {
    ebb_access_t use[EBB_RELAUNCH_POINTERS];
    uint32_t count;
} cast_t;

static ebb_status_t zero(const ebb_buffer_t *b, ebb_stream_t *stream)
{
    EBB_DRIVER(cuMemsetD8Async, b->bytes, (b->address, 0, b->bytes, ebb_stream_handle(stream)));
    ebb_mark_issue(stream);
    return 0;
}

/* ---- memory of ebb's own, in place of what is not there ---- */

void ebb_recipe_note_reads(ebb_device_t *dev, uint32_t id, const recipe_t *r, bool fill)
{
    recipes_t *recipes = dev->run->recipes;
    for (uint32_t i = 0; i < r->count; i++)
        for (uint32_t k = 0; k < ebb_recorded(dev, r->operation[i])->access_count; k++)
            if (ebb_is_own(dev, id, r->operation[i], k) &&
                ebb_accesses(dev, r->operation[i])[k].mode != EBB_REPLACES)
                recipes->last_read[ebb_accesses(dev, r->operation[i])[k].buffer] = fill ? i + 1 : 0;
}

/* What the launch replaces, beside the buffer that is wanted. */
static ebb_status_t take_own(ebb_device_t *dev, const making_t *m, uint32_t operation)
{
    recipes_t *recipes = dev->run->recipes;
    for (uint32_t k = 0; k < ebb_recorded(dev, operation)->access_count; k++) {
        const ebb_trace_access_t *a = &ebb_accesses(dev, operation)[k];
        if (a->mode != EBB_REPLACES || !ebb_is_own(dev, m->id, operation, k) ||
            !ebb_is_first(dev, operation, k))
            continue;
        const ebb_request_t q = {.bytes = ebb_recipe_bytes(dev, a->buffer), .stream = m->stream};
        if (!recipes->own[a->buffer]) {
            EBB_TRY(ebb_heap_alloc(dev, &q, &recipes->own[a->buffer]));
            recipes->own[a->buffer]->held++;
        }
        EBB_TRY(zero(recipes->own[a->buffer], m->stream));
    }
    return 0;
}

/* The i-th operation of the recipe is over: what no later one reads goes, what stays may leave the device meanwhile. */
static void give_own(ebb_device_t *dev, const making_t *m, uint32_t i)
{
    recipes_t *recipes = dev->run->recipes;
    const uint32_t operation = m->recipe->operation[i];
    for (uint32_t k = 0; k < ebb_recorded(dev, operation)->access_count; k++) {
        const uint32_t other = ebb_accesses(dev, operation)[k].buffer;
        ebb_buffer_t *b = recipes->own[other];
        if (!b)
            continue;
        b->held = 0;
        if (recipes->last_read[other] > i + 1)
            continue;
        ebb_residence_forget(b, m->stream);
        ebb_heap_free(b, ebb_mark_here(m->stream));
        recipes->own[other] = NULL;
    }
}

/* Also after a failure. */
static void give_all_own(ebb_device_t *dev, const making_t *m)
{
    ebb_recipe_note_reads(dev, m->id, m->recipe, false);
    for (uint32_t i = 0; i < m->recipe->count; i++)
        give_own(dev, m, i);
}

/* ---- one operation ---- */

/* NULL: it has no memory yet. */
static ebb_buffer_t *stands_for(ebb_device_t *dev, const making_t *m, uint32_t operation, uint32_t k)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    const uint32_t id = ebb_accesses(dev, operation)[k].buffer;
    return id == m->id                              ? m->begun ? m->buffer : NULL
           : ebb_is_there(dev, m->id, operation, k) ? tracked->buffer[id]
                                                    : recipes->own[id];
}

/* All that is there already. */
static void list_uses(ebb_device_t *dev, const making_t *m, uint32_t operation, cast_t *c)
{
    for (uint32_t k = 0; k < ebb_recorded(dev, operation)->access_count; k++) {
        ebb_buffer_t *b = stands_for(dev, m, operation, k);
        if (b && ebb_is_first(dev, operation, k))
            c->use[c->count++] = (ebb_access_t){.buffer = b};
    }
}

static ebb_status_t relaunch(ebb_device_t *dev, const making_t *m, uint32_t operation)
{
    recipes_t *recipes = dev->run->recipes;
    ebb_pointer_t pointer[EBB_RELAUNCH_POINTERS];
    unsigned count = 0;
    for (uint32_t k = 0; k < ebb_recorded(dev, operation)->access_count; k++) {
        const ebb_trace_access_t *a = &ebb_accesses(dev, operation)[k];
        if (ebb_is_own(dev, m->id, operation, k))
            pointer[count++] =
                (ebb_pointer_t){a->param_offset, recipes->own[a->buffer]->address +
                                                     ebb_issued_offset(&recipes->issued[operation], a)};
    }
    recipes->counts.replays++;
    return ebb_relaunch(dev, &recipes->issued[operation], m->stream, pointer, count);
}

/* The buffer gets memory with the first operation that writes it, and keeps it. */
static ebb_status_t prepare(ebb_tracked_t *tracked, making_t *m, uint32_t operation)
{
    const ebb_mode_t mode = ebb_trace_mode(tracked->learned->trace, operation, m->id);
    if (mode && !m->begun) {
        EBB_TRY(ebb_residence_blank(m->buffer, m->stream));
        m->buffer->held++;
        m->begun = true;
    }
    return mode == EBB_REPLACES ? zero(m->buffer, m->stream) : 0;
}

/* The next use of any of them is ordered behind this. */
static ebb_status_t note_used(ebb_device_t *dev, const making_t *m, uint32_t operation)
{
    const ebb_mark_t mark = ebb_mark_here(m->stream);
    for (uint32_t k = 0; k < ebb_recorded(dev, operation)->access_count; k++) {
        ebb_buffer_t *b = stands_for(dev, m, operation, k);
        if (b && ebb_is_first(dev, operation, k))
            EBB_TRY(ebb_residence_used(b, mark));
    }
    return 0;
}

/* Ordered behind every use of each argument. */
static ebb_status_t issue(ebb_device_t *dev, making_t *m, uint32_t operation, const cast_t *c)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    EBB_TRY(prepare(tracked, m, operation));
    EBB_TRY(take_own(dev, m, operation));
    for (uint32_t i = 0; i < c->count; i++)
        EBB_TRY(ebb_buffer_join(m->stream, c->use[i].buffer));
    EBB_TRY(relaunch(dev, m, operation));
    return note_used(dev, m, operation);
}

static ebb_status_t repeat(ebb_device_t *dev, making_t *m, uint32_t i)
{
    const uint32_t operation = m->recipe->operation[i];
    cast_t c = {.count = 0};
    list_uses(dev, m, operation, &c);
    ebb_operation_t op = {.kind = EBB_KERNEL, .stream = m->stream, .access = c.use, .access_count = c.count};
    EBB_TRY(ebb_residence_acquire(dev, &op));
    ebb_status_t status = issue(dev, m, operation, &c);
    ebb_residence_release(&op);
    give_own(dev, m, i);
    return status;
}

/* ---- what it takes, which may be dropped itself ---- */

/* Inputs may be copied out while others are made, not dropped. */
static void want_inputs(ebb_device_t *dev, uint32_t id, bool wanted)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    const recipe_t *r = dev->run->recipes->of[id].recipe;
    for (uint32_t i = 0; r && i < r->count; i++)
        for (uint32_t k = 0; k < ebb_recorded(dev, r->operation[i])->access_count; k++)
            if (ebb_is_there(dev, id, r->operation[i], k))
                ebb_residence_want(tracked->buffer[ebb_accesses(dev, r->operation[i])[k].buffer], wanted);
}

/* An input that is dropped; EBB_NONE: all are there. */
static uint32_t find_missing(ebb_device_t *dev, uint32_t id)
{
    const recipe_t *r = dev->run->recipes->of[id].recipe;
    for (uint32_t i = 0; r && i < r->count; i++)
        for (uint32_t k = 0; k < ebb_recorded(dev, r->operation[i])->access_count; k++)
            if (ebb_is_there(dev, id, r->operation[i], k) &&
                ebb_is_dropped(dev, ebb_accesses(dev, r->operation[i])[k].buffer))
                return ebb_accesses(dev, r->operation[i])[k].buffer;
    return EBB_NONE;
}

static void enter(ebb_device_t *dev, uint32_t id)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    EBB_DCHECK(recipes->path_length < tracked->learned->trace->buffer_count + 2);
    recipes->path[recipes->path_length++] = id;
    want_inputs(dev, id, true);
}

static void leave(ebb_device_t *dev)
{
    recipes_t *recipes = dev->run->recipes;
    want_inputs(dev, recipes->path[--recipes->path_length], false);
}

/* Enters the content, and makes what it reads, which was made earlier; what that reads first. A row of dropped contents may
 * be as long as there are buffers: so the way down to those whose inputs are there is a list, and not the host's stack. */
static ebb_status_t make_inputs(ebb_device_t *dev, uint32_t id, ebb_stream_t *stream)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    const uint32_t base = recipes->path_length;
    ebb_status_t status = 0;
    enter(dev, id);
    while (!status) {
        const uint32_t top = recipes->path[recipes->path_length - 1], missing = find_missing(dev, top);
        if (missing != EBB_NONE) {
            enter(dev, missing);
            continue;
        }
        if (recipes->path_length == base + 1)
            return 0;
        leave(dev);
        status = ebb_residence_restore(tracked->buffer[top], stream);
        if (!status)
            ebb_recipe_dropped(tracked->buffer[top], false); /* also if it was nothing of the kind */
    }
    while (recipes->path_length > base + 1)
        leave(dev);
    return status;
}

/* ---- a content ---- */

/* One of its operations may have been found to make other bits since a plan has given it up. What is compared may be tried
 * all the same, unless there is a copy. */
static ebb_status_t trust(const ebb_buffer_t *b, uint32_t id)
{
    ebb_device_t *dev = b->range->device;
    recipes_t *recipes = dev->run->recipes;
    const recipe_t *r = recipes->of[id].recipe;
    bool proven = true;
    for (uint32_t i = 0; r->given_up && i < r->count; i++)
        proven &= ebb_recorded(dev, r->operation[i])->proofs != 0;
    if (proven)
        return 0;
    if (r->copied)
        return ebb_fail(CUDA_ERROR_UNKNOWN, "a recipe that is not proven any more", b->bytes);
    if (!ebb_verify_is_hashed(dev->run->tracked->learned, id) && strcmp(ebb_options.on_mismatch, "warn"))
        ebb_content_lost(dev, id, "what would make it has made other bits");
    return 0;
}

static ebb_status_t make(ebb_device_t *dev, making_t *m)
{
    ebb_buffer_t *b = m->buffer;
    ebb_status_t status = 0;
    ebb_recipe_note_reads(dev, m->id, m->recipe, true);
    for (uint32_t i = 0; i < m->recipe->count && !status; i++)
        status = repeat(dev, m, i);
    give_all_own(dev, m);
    if (!status)
        status = ebb_verify_made(dev, dev->run->tracked->learned, m->id, m->stream, b->address, b->bytes);
    return status ? status : ebb_residence_used(b, ebb_mark_here(m->stream));
}

ebb_status_t ebb_recipe_rebuild(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_device_t *dev = b->range->device;
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    if (!tracked->learned || !b->number || !ebb_is_dropped(dev, b->number - 1))
        return ebb_fail(CUDA_ERROR_UNKNOWN, "a buffer without a recipe", b->bytes);
    making_t m = {b->number - 1, b, stream, recipes->of[b->number - 1].recipe, false};
    const uint32_t held = b->held;
    EBB_TRY(trust(b, m.id));
    ebb_status_t status = make_inputs(dev, m.id, stream);
    if (!status)
        status = make(dev, &m);
    b->held = held;
    leave(dev);
    if (status)
        ebb_residence_unblank(b, stream);
    else
        recipes->counts.rebuilt++;
    return status;
}

bool ebb_recipe_agrees(ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    return ebb_verify_agrees(dev, dev->run->tracked->learned, b->number - 1);
}

/* recipe_make.c: making what was dropped: the operations of its recipe are issued again (recipe.h). */
#include <string.h>

#include "alloc/device.h"
#include "alloc/base/driver.h"
#include "alloc/base/log.h"
#include "alloc/base/options.h"
#include "ckpt/run/replay/mismatch.h"
#include "ckpt/run/replay/recheck.h"
#include "ckpt/run/replay/recipe_state.h"
#include "ckpt/run/residence/residence.h"

#define F ebb_followed
#define R ebb_recipes

/* A content under way. */
typedef struct making {
    uint32_t id;
    ebb_buffer_t *buffer;
    ebb_stream_t *stream;
    recipe_t recipe;
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

void ebb_recipe_note_reads(uint32_t id, const recipe_t *r, bool fill)
{
    for (uint32_t i = 0; i < r->count; i++)
        for (uint32_t k = 0; k < ebb_recorded(r->operation[i])->access_count; k++)
            if (ebb_is_own(id, r->operation[i], k) && ebb_accesses(r->operation[i])[k].mode != EBB_REPLACES)
                R.last_read[ebb_accesses(r->operation[i])[k].buffer] = fill ? i + 1 : 0;
}

/* What the launch replaces, beside the buffer that is wanted. */
static ebb_status_t take_own(const making_t *m, uint32_t operation)
{
    for (uint32_t k = 0; k < ebb_recorded(operation)->access_count; k++) {
        const ebb_trace_access_t *a = &ebb_accesses(operation)[k];
        if (a->mode != EBB_REPLACES || !ebb_is_own(m->id, operation, k) || !ebb_is_first(operation, k))
            continue;
        const ebb_request_t q = {.bytes = F.learned->trace->buffer[a->buffer].bytes, .stream = m->stream};
        if (!R.own[a->buffer]) {
            EBB_TRY(ebb_heap_alloc(ebb_here, &q, &R.own[a->buffer]));
            R.own[a->buffer]->held++;
        }
        EBB_TRY(zero(R.own[a->buffer], m->stream));
    }
    return 0;
}

/* The i-th operation of the recipe is over: what no later one reads goes, what stays may leave the device meanwhile. */
static void give_own(const making_t *m, uint32_t i)
{
    const uint32_t operation = m->recipe.operation[i];
    for (uint32_t k = 0; k < ebb_recorded(operation)->access_count; k++) {
        const uint32_t other = ebb_accesses(operation)[k].buffer;
        ebb_buffer_t *b = R.own[other];
        if (!b)
            continue;
        b->held = 0;
        if (R.last_read[other] > i + 1)
            continue;
        ebb_residence_forget(b, m->stream);
        ebb_heap_free(b, ebb_mark_here(m->stream));
        R.own[other] = NULL;
    }
}

/* Also after a failure. */
static void give_all_own(const making_t *m)
{
    ebb_recipe_note_reads(m->id, &m->recipe, false);
    for (uint32_t i = 0; i < m->recipe.count; i++)
        give_own(m, i);
}

/* ---- one operation ---- */

/* NULL: it has no memory yet. */
static ebb_buffer_t *stands_for(const making_t *m, uint32_t operation, uint32_t k)
{
    const uint32_t id = ebb_accesses(operation)[k].buffer;
    return id == m->id                         ? m->begun ? m->buffer : NULL
           : ebb_is_there(m->id, operation, k) ? F.buffer[id]
                                               : R.own[id];
}

/* All that is there already. */
static void list_uses(const making_t *m, uint32_t operation, cast_t *c)
{
    for (uint32_t k = 0; k < ebb_recorded(operation)->access_count; k++) {
        ebb_buffer_t *b = stands_for(m, operation, k);
        if (b && ebb_is_first(operation, k))
            c->use[c->count++] = (ebb_access_t){.buffer = b};
    }
}

static ebb_status_t relaunch(const making_t *m, uint32_t operation)
{
    ebb_pointer_t pointer[EBB_RELAUNCH_POINTERS];
    unsigned count = 0;
    for (uint32_t k = 0; k < ebb_recorded(operation)->access_count; k++) {
        const ebb_trace_access_t *a = &ebb_accesses(operation)[k];
        if (ebb_is_own(m->id, operation, k))
            pointer[count++] = (ebb_pointer_t){a->param_offset, R.own[a->buffer]->address + a->offset_bytes};
    }
    R.counts.replays++;
    return ebb_relaunch(&R.issued[operation], m->stream, pointer, count);
}

/* The buffer gets memory with the first operation that writes it, and keeps it. */
static ebb_status_t prepare(making_t *m, uint32_t operation)
{
    const ebb_mode_t mode = ebb_trace_mode(F.learned->trace, operation, m->id);
    if (mode && !m->begun) {
        EBB_TRY(ebb_residence_blank(m->buffer, m->stream));
        m->buffer->held++;
        m->begun = true;
    }
    return mode == EBB_REPLACES ? zero(m->buffer, m->stream) : 0;
}

/* Whoever uses any of them next is behind this. */
static ebb_status_t note_used(const making_t *m, uint32_t operation)
{
    const ebb_mark_t mark = ebb_mark_here(m->stream);
    for (uint32_t k = 0; k < ebb_recorded(operation)->access_count; k++) {
        ebb_buffer_t *b = stands_for(m, operation, k);
        if (b && ebb_is_first(operation, k))
            EBB_TRY(ebb_residence_used(b, mark));
    }
    return 0;
}

/* Ordered behind every use of each argument. */
static ebb_status_t issue(making_t *m, uint32_t operation, const cast_t *c)
{
    EBB_TRY(prepare(m, operation));
    EBB_TRY(take_own(m, operation));
    for (uint32_t i = 0; i < c->count; i++)
        EBB_TRY(ebb_buffer_join(ebb_stream_handle(m->stream), c->use[i].buffer));
    EBB_TRY(relaunch(m, operation));
    return note_used(m, operation);
}

static ebb_status_t repeat(making_t *m, uint32_t i)
{
    const uint32_t operation = m->recipe.operation[i];
    cast_t c = {.count = 0};
    list_uses(m, operation, &c);
    ebb_operation_t op = {.kind = EBB_KERNEL, .stream = m->stream, .access = c.use, .access_count = c.count};
    EBB_TRY(ebb_residence_acquire(&op));
    ebb_status_t status = issue(m, operation, &c);
    ebb_residence_release(&op);
    give_own(m, i);
    return status;
}

/* ---- what it takes, which may be dropped itself ---- */

/* Inputs may be copied out while others are made, not dropped. */
static void want_inputs(uint32_t id, bool wanted)
{
    const recipe_t r = ebb_recipe_of(id);
    for (uint32_t i = 0; i < r.count; i++)
        for (uint32_t k = 0; k < ebb_recorded(r.operation[i])->access_count; k++) {
            if (!ebb_is_there(id, r.operation[i], k))
                continue;
            ebb_access_t input = {.buffer = F.buffer[ebb_accesses(r.operation[i])[k].buffer]};
            ebb_residence_want(&(ebb_operation_t){.access = &input, .access_count = 1}, wanted);
        }
}

/* An input that is dropped; EBB_NONE: all are there. */
static uint32_t find_missing(uint32_t id)
{
    const recipe_t r = ebb_recipe_of(id);
    for (uint32_t i = 0; i < r.count; i++)
        for (uint32_t k = 0; k < ebb_recorded(r.operation[i])->access_count; k++)
            if (ebb_is_there(id, r.operation[i], k) && ebb_is_dropped(ebb_accesses(r.operation[i])[k].buffer))
                return ebb_accesses(r.operation[i])[k].buffer;
    return EBB_NONE;
}

static void enter(uint32_t id)
{
    EBB_DCHECK(R.path_length < F.learned->trace->buffer_count + 2);
    R.path[R.path_length++] = id;
    want_inputs(id, true);
}

static void leave(void)
{
    want_inputs(R.path[--R.path_length], false);
}

/* Enters the content, and makes what it reads, which was made earlier; what that reads first. A row of dropped contents may
 * be as long as there are buffers: so the way down to those whose inputs are there is a list, and not the host's stack. */
static ebb_status_t make_inputs(uint32_t id, ebb_stream_t *stream)
{
    const uint32_t base = R.path_length;
    ebb_status_t status = 0;
    enter(id);
    while (!status) {
        const uint32_t top = R.path[R.path_length - 1], missing = find_missing(top);
        if (missing != EBB_NONE) {
            enter(missing);
            continue;
        }
        if (R.path_length == base + 1)
            return 0;
        leave();
        status = ebb_residence_restore(F.buffer[top], stream);
        if (!status)
            ebb_recipe_dropped(F.buffer[top], false); /* also if it was nothing of the kind */
    }
    while (R.path_length > base + 1)
        leave();
    return status;
}

/* ---- a content ---- */

/* One of its operations may have been found to make other bits since a plan has given it up. What is compared may be tried
 * all the same, unless there is a copy. */
static ebb_status_t trust(const ebb_buffer_t *b, uint32_t id)
{
    const left_t *l = R.of[id].left;
    bool proven = true;
    for (uint32_t i = 0; l && i < l->count; i++)
        proven &= ebb_recorded(l->operation[i])->proofs != 0;
    if (proven)
        return 0;
    if (l->copied)
        return ebb_fail(CUDA_ERROR_UNKNOWN, "a recipe that is not proven any more", b->bytes);
    if (!l->hashes && strcmp(ebb_options.on_mismatch, "warn"))
        ebb_content_lost(id, "what would make it has made other bits");
    return 0;
}

/* Of what a plan has given up, hashed: right after it was made. The host waits. */
static bool is_same(const ebb_buffer_t *b, uint32_t id, ebb_stream_t *stream)
{
    const left_t *l = R.of[id].left;
    const bool same = !ebb_hash_compare(l->hashes, l->slot, stream, b->address, b->bytes, l->part) &&
                      !ebb_mark_wait(ebb_mark_here(stream)) && !ebb_hash_differs(l->hashes, l->slot);
    ebb_recheck_judged(id, l->operation[l->count - 1], same, l->copied);
    return same;
}

static ebb_status_t make(making_t *m)
{
    const left_t *l = R.of[m->id].left;
    ebb_status_t status = 0;
    ebb_recipe_note_reads(m->id, &m->recipe, true);
    for (uint32_t i = 0; i < m->recipe.count && !status; i++)
        status = repeat(m, i);
    give_all_own(m);
    if (!status)
        status = ebb_recheck_made(m->buffer, m->id, m->stream);
    if (!status && l && l->hashes && !l->copied)
        is_same(m->buffer, m->id, m->stream);
    return status;
}

ebb_status_t ebb_recipe_rebuild(ebb_buffer_t *b, ebb_stream_t *stream)
{
    if (!F.learned || !b->number || !ebb_is_dropped(b->number - 1))
        return ebb_fail(CUDA_ERROR_UNKNOWN, "a buffer without a recipe", b->bytes);
    making_t m = {b->number - 1, b, stream, ebb_recipe_of(b->number - 1), false};
    const uint32_t held = b->held;
    EBB_TRY(trust(b, m.id));
    ebb_status_t status = make_inputs(m.id, stream);
    if (!status)
        status = make(&m);
    b->held = held;
    leave();
    if (status)
        ebb_residence_unblank(b, stream);
    else
        R.counts.rebuilt++;
    return status;
}

bool ebb_recipe_agrees(ebb_buffer_t *b, ebb_stream_t *stream)
{
    const left_t *l = R.of[b->number - 1].left;
    return l ? l->hashes && is_same(b, b->number - 1, stream) : ebb_recheck_agrees(b->number - 1);
}

/* plan_draft.c: see plan_draft.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan_draft.h"
#include "trace_streams.h"

uint32_t draft_draw(uint32_t below)
{
    return (uint32_t)rand() % below;
}

/* ---- traces ---- */

static uint32_t add_buffer(ebb_trace_t *t, uint32_t born, bool small)
{
    ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
    assert_non_null(b);
    b->bytes =
        small ? 1 + draft_draw(CHUNK / 2) : CHUNK / 2 + 1 + draft_draw(MOST_CHUNKS * CHUNK - CHUNK / 2);
    b->born = born;
    return t->buffer_count - 1;
}

static void add_access(ebb_trace_t *t, uint32_t buffer, ebb_mode_t mode)
{
    const ebb_trace_operation_t *o = &t->operation[t->operation_count - 1];
    for (uint32_t i = 0; i < o->access_count; i++)
        if (t->access[o->first_access + i].buffer == buffer) {
            mode = t->access[o->first_access + i].mode;
            if (draft_draw(4))
                return;
        }
    ebb_trace_access_t *a = ebb_trace_add_access(t);
    assert_non_null(a);
    *a = (ebb_trace_access_t){.buffer = buffer, .mode = mode};
}

/* Steps of a kind: new buffers are made from some that are there, the older ones come back later, a few
 * things are updated. */
ebb_trace_t *draft_trace(uint32_t streams)
{
    ebb_trace_t *t = ebb_trace_new(CHUNK);
    assert_non_null(t);
    uint32_t n = 6 + draft_draw(24), outliving = 1 + draft_draw(4);
    for (uint32_t i = 0; i < outliving; i++)
        add_buffer(t, EBB_NONE, !draft_draw(4));
    for (uint32_t i = 0; i < n; i++) {
        ebb_trace_operation_t *o = ebb_trace_add_operation(t);
        assert_non_null(o);
        o->proofs = draft_draw(6) ? 3 : 0;
        if (draft_draw(4))
            add_access(t, add_buffer(t, i, !draft_draw(4)), draft_draw(12) ? EBB_REPLACES : EBB_UPDATES);
        for (uint32_t k = draft_draw(3) + (i > n / 2); k > 0; k--)
            add_access(t, draft_draw(t->buffer_count), EBB_READS);
        if (!draft_draw(3))
            add_access(t, draft_draw(t->buffer_count), draft_draw(4) ? EBB_UPDATES : EBB_REPLACES);
    }
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (t->buffer[b].born != EBB_NONE)
            t->buffer[b].dies = t->buffer[b].born + 1;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < t->operation[i].access_count; k++) {
            ebb_trace_buffer_t *b = &t->buffer[t->access[t->operation[i].first_access + k].buffer];
            if (b->born != EBB_NONE && b->dies <= i)
                b->dies = i + 1;
        }
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (t->buffer[b].born != EBB_NONE && !draft_draw(3))
            t->buffer[b].dies += draft_draw(n - t->buffer[b].dies + 1);
    if (streams > 1)
        trace_put_on_streams(t, streams);
    assert_null(ebb_trace_check(t));
    return t;
}

static uint32_t chunks_for(uint64_t bytes)
{
    return (uint32_t)((bytes + CHUNK - 1) / CHUNK);
}

uint32_t draft_add_place(draft_t *d, uint64_t bytes, ebb_start_t start)
{
    ebb_place_t *p = &d->place[d->place_count];
    *p = (ebb_place_t){.bytes = bytes,
                       .chunk_count = chunks_for(bytes),
                       .at_start = start,
                       .small_offset = EBB_NONE,
                       .until = EBB_NONE};
    for (uint32_t i = 0; i < p->chunk_count; i++)
        d->chunk[d->place_count][i] = d->chunk_count++;
    return d->place_count++;
}

/* All that touches both is on one stream. */
static bool may_follow(const ebb_trace_t *t, uint32_t a, uint32_t b)
{
    uint32_t stream = UINT32_MAX;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        if (!ebb_trace_mode(t, i, a) && !ebb_trace_mode(t, i, b))
            continue;
        if (stream != UINT32_MAX && stream != t->operation[i].stream)
            return false;
        stream = t->operation[i].stream;
    }
    return true;
}

/* The first offset at which nobody lies who is alive at the same time, or whose streams are others. */
static uint32_t small_offset_for(const draft_t *d, const ebb_trace_t *t, uint32_t b)
{
    const ebb_trace_buffer_t *x = &t->buffer[b];
    uint32_t offset = 0;
    for (uint32_t i = 0; i < b; i++) {
        const ebb_trace_buffer_t *y = &t->buffer[i];
        uint32_t at = d->place[i].small_offset;
        const bool apart = (x->born >= y->dies || y->born >= x->dies) && may_follow(t, b, i);
        if (at == EBB_NONE || apart || offset >= at + y->bytes || at >= offset + x->bytes)
            continue;
        offset += 512;
        i = UINT32_MAX; /* from the beginning */
    }
    return offset;
}

void draft_begin(draft_t *d, const ebb_trace_t *t)
{
    memset(d, 0, sizeof *d);
    d->streams = ebb_plan_streams(t);
    for (uint32_t b = 0; b < t->buffer_count; b++) {
        uint64_t bytes = t->buffer[b].bytes;
        const bool outlives = t->buffer[b].born == EBB_NONE, unplaced = ebb_trace_is_unplaced(t, b);
        if (bytes > CHUNK / 2) {
            draft_add_place(d, bytes, outlives ? EBB_ON_DEVICE : EBB_NOT_THERE);
            continue;
        }
        uint32_t offset = unplaced ? EBB_NONE : small_offset_for(d, t, b);
        d->place[d->place_count++] = (ebb_place_t){.bytes = bytes, .small_offset = offset, .until = EBB_NONE};
        if (!unplaced && offset + bytes > d->small_bytes)
            d->small_bytes = chunks_for(offset + bytes) * CHUNK;
    }
}

uint32_t draft_streams(const draft_t *d)
{
    const uint32_t all = (UINT32_C(1) << d->streams) - 1;
    return d->streams == 1 ? 1 : draft_draw(4) ? all : draft_draw(all + 1);
}

static void give_streams(const draft_t *d, ebb_action_t *a)
{
    const bool copies = a->kind == EBB_EVICT || a->kind == EBB_FETCH,
               launches = a->kind == EBB_REPLAY || a->kind == EBB_ORDER;
    a->after = copies || (launches && d->streams > 1) ? draft_streams(d) : 0;
    a->joiners = copies ? draft_streams(d) : 0;
    a->stream = launches && d->streams > 1 ? draft_draw(d->streams) : 0;
}

/* Keeps the list in order of points, new ones last among equals. */
draft_action_t *draft_insert(draft_t *d, ebb_action_kind_t kind, uint32_t point)
{
    if (d->action_count == MOST_ACTIONS)
        return NULL;
    uint32_t at = d->action_count++;
    for (; at > 0 && d->action[at - 1].a.point > point; at--)
        d->action[at] = d->action[at - 1];
    d->action[at] = (draft_action_t){
        .id = ++d->next_id,
        .a = {.kind = kind, .point = point, .place = EBB_NONE, .operation = EBB_NONE, .join = EBB_NONE}};
    give_streams(d, &d->action[at].a);
    return &d->action[at];
}

ebb_plan_t *draft_build(const draft_t *d, const ebb_trace_t *t)
{
    ebb_plan_t *p = ebb_plan_new(t);
    assert_non_null(p);
    p->chunk_count = d->chunk_count;
    p->small_bytes = d->small_bytes;
    for (uint32_t i = 0; i < d->place_count; i++) {
        ebb_place_t *place = i < p->place_count ? &p->place[i] : ebb_plan_add_place(p);
        assert_non_null(place);
        place->bytes = d->place[i].bytes;
        place->at_start = d->place[i].at_start;
        place->small_offset = d->place[i].small_offset;
        place->until = d->place[i].until;
        for (uint32_t k = 0; k < d->place[i].chunk_count; k++)
            assert_true(ebb_plan_add_chunk(p, place, d->chunk[i][k]));
    }
    for (uint32_t i = 0; i < d->action_count; i++) {
        const draft_action_t *x = &d->action[i];
        ebb_action_t *a = ebb_plan_add_action(p, x->a.kind, x->a.point);
        assert_non_null(a);
        a->place = x->a.place;
        a->operation = x->a.operation;
        a->join = x->a.join;
        a->stream = x->a.stream;
        a->after = x->a.after;
        a->joiners = x->a.joiners;
        for (uint32_t k = 0; k < x->a.wait_count; k++)
            for (uint32_t other = 0; other < d->action_count; other++)
                if (d->action[other].id == x->wait[k])
                    assert_true(ebb_plan_add_wait(p, a, other));
        for (uint32_t k = 0; k < x->a.redirect_count; k++)
            assert_true(ebb_plan_add_redirect(p, a, x->redirect[k].buffer, x->redirect[k].place));
    }
    return p;
}

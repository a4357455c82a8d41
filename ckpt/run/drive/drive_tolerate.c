/* drive_tolerate.c: what the plan does not know and that cannot hurt it.
 *
 * An operation more: on one of the plan's streams (of several, all wait for each other before and after it), on buffers whose contents are in their places, of which it may write none that
 * making a dropped content could need, and none that has a copy on the host, because the plan goes by the copy. What it may
 * write is remembered: recipes end there when the plan is left. Nothing moves for it; the cursor stays.
 *
 * The planned operation on some other buffers: what its words lead to beside the planned ones is where it belongs, and nobody needs it
 * as it was. Structures that the host fills in by half say so much (leftover.h), and not all of it is known.
 *
 * An allocation more: the allocator serves it, if nothing has to leave the device for it, or if it can do without memory until it is
 * touched. If something has to leave then, or for a small one, the plan is left to make room (runner.c).
 *
 * A free that is late: what the plan does is done until it would take the buffer's chunks (or its bytes, of a small one) without
 * a copy on the host. One that is early: unless recipes read the buffer; its place is nobody else's until it should have died.
 *
 * What the sources of dropped contents are is found by their buffers, all versions of a buffer taken for one: too many rather
 * than too few.
 */
#include <stdlib.h>

#include "alloc/device.h"
#include "alloc/base/driver.h"
#include "ckpt/run/drive/drive_state.h"
#include "ckpt/run/profile/know.h"
#include "ckpt/run/residence/residence.h"
#include "offload/ebb_offload.h"

#define D ebb_drive

enum { MOST_STRAYS = 64 /* operations in a row that are not the planned one */, MOST_WRITES = 256 };

/* ---- what dropped contents are made of ---- */

static bool writes_source(const ebb_trace_operation_t *o)
{
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (D.trace->access[i].mode != EBB_READS && D.source[D.trace->access[i].buffer])
            return true;
    return false;
}

ebb_status_t ebb_tolerate_set_up(void)
{
    D.source = calloc((size_t)D.trace->buffer_count + 1, sizeof *D.source);
    D.stray = calloc(MOST_WRITES, sizeof *D.stray);
    bool more = D.source && D.stray;
    for (uint32_t i = 0; more && i < D.plan->action_count; i++)
        if (D.plan->action[i].kind == EBB_DISCARD && D.plan->action[i].place < D.trace->buffer_count)
            D.source[D.plan->action[i].place] = true;
    while (more) {
        more = false;
        for (uint32_t o = D.trace->operation_count; o-- > 0;) {
            const ebb_trace_operation_t *op = &D.trace->operation[o];
            if (!writes_source(op))
                continue;
            for (uint32_t i = op->first_access; i < op->first_access + op->access_count; i++) {
                more |= !D.source[D.trace->access[i].buffer];
                D.source[D.trace->access[i].buffer] = true;
            }
        }
    }
    return D.source && D.stray ? 0 : ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
}

void ebb_tolerate_tear_down(void)
{
    free(D.source);
    free(D.stray);
    D.source = NULL;
    D.stray = NULL;
}

void ebb_tolerate_begin_step(void)
{
    D.strays = D.stray_count = 0;
}

/* ---- operations ---- */

static bool may_write(const ebb_operation_t *op, const ebb_access_t *a)
{
    if (op->kind == EBB_COPY)
        return a->param_offset == 0;
    return op->kind != EBB_KERNEL || ebb_know_word(op->function, a->param_offset) != EBB_WORD_READS;
}

/* Several words may lead to one buffer. */
static bool may_write_buffer(const ebb_operation_t *op, const ebb_buffer_t *b)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        if (op->access[i].buffer == b && may_write(op, &op->access[i]))
            return true;
    return false;
}

/* Whether something is still to be made from sources as they are: by a replay that is to come, of what is given up later, or in place
 * of a content that is, when the plan is left. */
static bool needs_sources(void)
{
    for (uint32_t i = D.next_action; i < D.plan->action_count; i++)
        if (D.plan->action[i].kind == EBB_REPLAY || D.plan->action[i].kind == EBB_DISCARD)
            return true;
    for (uint32_t i = 0; i < D.trace->buffer_count; i++)
        if (ebb_site_of(i)->given_up && ebb_site_of(i)->buffer)
            return true;
    return false;
}

static bool is_harmless_to(const ebb_operation_t *op, const ebb_buffer_t *b)
{
    if (!b->tag)
        return true;
    if (b->tag == EBB_PARKED)
        return false;
    const site_t *s = ebb_site_of(b->tag - 1);
    if (s->range && !s->device)
        return false;
    return !may_write_buffer(op, b) ||
           ((!D.source[b->tag - 1] || !needs_sources()) && !s->on_host && !s->late);
}

/* Fetches that are under way to buffers that it touches: its stream waits for them, and for all others. */
static ebb_status_t join_fetches(const ebb_operation_t *op)
{
    for (uint32_t i = 0; i < op->access_count; i++) {
        const uint32_t tag = op->access[i].buffer->tag;
        for (uint32_t a = 0; tag && a < D.plan->action_count; a++)
            if (D.plan->action[a].kind == EBB_FETCH && D.recorded[a] &&
                ebb_place_now(D.plan->action[a].place) == D.at[tag - 1])
                EBB_DRIVER(cuStreamWaitEvent, 0, (ebb_stream_handle(op->stream), D.done[a], 0));
    }
    return ebb_streams_gather(ebb_drive_stream_number(op->stream));
}

/* By what is none of the plan's and comes before this operation. */
static void note_write(const ebb_buffer_t *b, uint32_t before)
{
    D.stray[D.stray_count++] = (ebb_stray_t){before, b->tag - 1};
    if (ebb_site_of(b->tag - 1)->range)
        ebb_site_take(D.at[b->tag - 1]);
}

static bool note_writes(const ebb_operation_t *op)
{
    for (uint32_t i = 0; i < op->access_count; i++) {
        const ebb_buffer_t *b = op->access[i].buffer;
        if (!b->tag || !may_write(op, &op->access[i]))
            continue;
        if (D.stray_count == MOST_WRITES)
            return false;
        note_write(b, D.cursor);
    }
    return true;
}

bool ebb_tolerate_operation(ebb_operation_t *op)
{
    if (op->opaque || op->kind == EBB_OTHER || ebb_drive_stream_number(op->stream) == D.streams ||
        (op->kind == EBB_KERNEL && !op->plain) || ebb_record_is_resident(op) || D.strays >= MOST_STRAYS ||
        D.stray_count + op->access_count > MOST_WRITES)
        return false;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (!is_harmless_to(op, op->access[i].buffer))
            return false;
    if (join_fetches(op) || ebb_guard_open_buffers(op) || ebb_residence_acquire(op))
        return false;
    D.strays++;
    D.tolerated = D.active && note_writes(op); /* the plan may have had to make room */
    if (!D.tolerated)
        ebb_residence_release(op);
    return D.tolerated;
}

/* By the plan, or by whoever goes on when it is left: content is made from what it writes. */
static bool may_be_repeated(uint32_t operation)
{
    for (uint32_t i = 0; i < D.plan->action_count; i++)
        if (D.plan->action[i].kind == EBB_REPLAY && D.plan->action[i].operation == operation)
            return true;
    return writes_source(&D.trace->operation[operation]) && needs_sources();
}

/* Most of it is as planned; what it leaves alone had not been given up to be replaced; it is never repeated; and no other stream has to
 * be waited for. */
bool ebb_tolerate_may_stand_in(const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &D.trace->operation[D.cursor];
    uint32_t planned = 0;
    for (uint32_t i = 0; i < op->access_count; i++)
        planned += ebb_drive_plans(&op->access[i]);
    if (op->kind != EBB_KERNEL || !op->plain || D.streams > 1 || 2 * planned < o->access_count || !planned ||
        may_be_repeated(D.cursor))
        return false;
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (D.trace->access[i].mode == EBB_REPLACES && !ebb_drive_makes(op, &D.trace->access[i]))
            return false;
    return true;
}

bool ebb_tolerate_stand_in(const ebb_operation_t *op)
{
    if (D.stray_count + op->access_count > MOST_WRITES)
        return false;
    for (uint32_t i = 0; i < op->access_count; i++) {
        ebb_buffer_t *b = op->access[i].buffer;
        /* What the plan does not know stays as it is only if nobody is moving it. */
        if (!ebb_drive_plans(&op->access[i]) &&
            (!b->range->mapped || (!b->tag && b->residence) || !is_harmless_to(op, b)))
            return false;
    }
    if (join_fetches(op) || ebb_guard_open_buffers(op))
        return false;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (!ebb_drive_plans(&op->access[i]) && op->access[i].buffer->tag && may_write(op, &op->access[i]))
            note_write(op->access[i].buffer, D.cursor + 1);
    ebb_issued_forget(&D.issued[D.cursor]); /* nobody repeats it */
    D.counts.tolerated++;
    return true;
}

/* ---- allocations ---- */

bool ebb_tolerate_allocation(const ebb_request_t *q)
{
    const size_t chunks = (q->bytes + EBB_CHUNK_BYTES - 1) / EBB_CHUNK_BYTES;
    ebb_request_t unplanned = *q;
    unplanned.planned = true;
    return q->bytes <= EBB_SMALL_BYTES || ebb_chunks_unowned(ebb_here) >= chunks ||
           ebb_heap_may_wait(ebb_here, &unplanned);
}

/* ---- frees ---- */

bool ebb_tolerate_early_free(uint32_t buffer)
{
    return D.trace->buffer[buffer].dies <= D.cursor || !D.source[buffer];
}

void ebb_tolerate_freed(site_t *s)
{
    D.late -= s->late;
    s->late = false;
}

/* A content that nobody but a replay could bring back is out of reach from here on. */
static bool may_stay(const site_t *s)
{
    return !s->range || !s->written || s->device || s->on_host;
}

/* The place's chunks hold what is nowhere else. */
static bool would_take_late(uint32_t place)
{
    const site_t *s = &D.site[place];
    for (uint32_t i = 0; i < s->rival_count; i++) {
        const site_t *rival = &D.site[s->rival[i]];
        if (rival->late && rival->device && !rival->on_host)
            return true;
    }
    return false;
}

static bool operation_takes_late(const ebb_action_t *replay, const ebb_trace_operation_t *o)
{
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (D.trace->access[i].mode != EBB_READS &&
            would_take_late(ebb_replay_place(replay, D.trace->access[i].buffer)))
            return true;
    return false;
}

static bool action_takes_late(const ebb_action_t *a)
{
    return a->kind == EBB_FETCH    ? would_take_late(ebb_place_now(a->place))
           : a->kind == EBB_REPLAY ? operation_takes_late(a, &D.trace->operation[a->operation])
                                   : false;
}

const char *ebb_tolerate_late_frees(void)
{
    for (uint32_t i = D.death_first[D.cursor]; i < D.death_first[D.cursor + 1]; i++) {
        site_t *s = ebb_site_of(D.death[i]);
        if (!s->buffer || s->late)
            continue;
        if (!may_stay(s))
            return "a buffer was not freed";
        s->late = true;
        D.late++;
    }
    if (!D.late)
        return NULL;
    for (uint32_t i = D.next_action; i < D.plan->action_count && D.plan->action[i].point <= D.cursor; i++)
        if (action_takes_late(&D.plan->action[i]))
            return "a buffer was not freed, and the plan needs its memory";
    return operation_takes_late(NULL, &D.trace->operation[D.cursor])
               ? "a buffer was not freed, and the plan needs its memory"
               : NULL;
}

bool ebb_tolerate_small_birth(uint32_t place)
{
    const ebb_place_t *p = &D.plan->place[place];
    for (uint32_t i = 0; D.late && i < D.trace->buffer_count; i++) {
        const ebb_place_t *other = &D.plan->place[i];
        if (D.site[i].late && !D.site[i].range && other->small_offset != EBB_NONE &&
            other->small_offset < p->small_offset + p->bytes &&
            p->small_offset < other->small_offset + other->bytes)
            return false;
    }
    return true;
}

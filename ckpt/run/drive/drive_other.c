/* drive_other.c: steps that are not quite what was expected, and are driven all the same: one that goes on as one of another
 * kind, whose plan is installed as well; and one that leaves out copies to the host, as a program does that logs now and then.
 */
#include <string.h>

#include "alloc/base/log.h"
#include "ckpt/run/drive/drive_state.h"
#include "ckpt/run/profile/know.h"
#include "ckpt/run/tracker/leftover.h"

#define D ebb_drive

/* ---- a step of another kind than was expected ---- */

enum { LONGEST_PREFIX = 64 };

/* So far nothing has been allocated, and the plan has done nothing: as the last step has left it. */
static bool is_untouched(void)
{
    return !D.refuted && !D.living && !D.late && !D.next_action && !D.strays && !D.stray_count &&
           D.next_birth == ebb_first_birth(0) && D.cursor <= LONGEST_PREFIX;
}

/* Whether two plans' operations are the same, on the same buffers. */
static bool is_same(const drive_t *a, const drive_t *b, uint32_t index)
{
    const ebb_trace_operation_t *o = &a->trace->operation[index], *p = &b->trace->operation[index];
    if (o->kind != p->kind || a->learned->function[index] != b->learned->function[index] ||
        a->learned->attributes[index] != b->learned->attributes[index] ||
        memcmp(o->grid, p->grid, sizeof o->grid) || memcmp(o->block, p->block, sizeof o->block) ||
        o->shared_bytes != p->shared_bytes || o->param_bytes != p->param_bytes ||
        o->access_count != p->access_count)
        return false;
    for (uint32_t i = 0; i < o->access_count; i++) {
        const ebb_trace_access_t *x = &a->trace->access[o->first_access + i],
                                 *y = &b->trace->access[p->first_access + i];
        if (a->settled[x->buffer] == EBB_NONE || a->settled[x->buffer] != b->settled[y->buffer] ||
            x->mode != y->mode || x->offset_bytes != y->offset_bytes || x->param_offset != y->param_offset)
            return false;
    }
    return true;
}

/* Whether a step of another plan can go on with this (an allocation or an operation), behind what has happened so far in this one. */
static bool could_go_on(const drive_t *d, const ebb_request_t *q, const ebb_operation_t *op)
{
    const uint32_t at = ebb_is_between_steps() ? 0 : D.cursor;
    const ebb_trace_t *t = d->trace;
    bool suits = false;
    /* In the middle of a step of several streams, these have been told what to wait for by the plan that would be left. */
    if ((at && (d->stream != D.stream || d->streams > 1 || D.streams > 1)) || t->operation_count <= at ||
        (at && d->plan->action_count && d->plan->action[0].point < at))
        return false;
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        if (t->buffer[i].born < at || (op && t->buffer[i].born == at))
            return false;
        suits |= q && t->buffer[i].born == at && ebb_is_of_size(&t->buffer[i], q->bytes);
    }
    for (uint32_t i = 0; i < at; i++)
        if (!is_same(ebb_driven, d, i))
            return false;
    return op ? !ebb_record_difference(d->learned, at, op) : suits;
}

/* The driven plan's step goes on as one of the plan in this slot. */
static bool go_on_with(unsigned slot)
{
    drive_t *last = ebb_driven, *next = ebb_share_drive(slot);
    const uint32_t before = D.cursor, at = ebb_is_between_steps() ? 0 : before;
    D.cursor = D.trace->operation_count;
    if (!ebb_drive_change(slot)) {
        last->cursor = before;
        return false;
    }
    if (!ebb_drive_begin_step())
        return false;
    D.cursor = at;
    for (uint32_t i = 0; i < at; i++) {
        const ebb_issued_t kept = last->issued[i];
        last->issued[i] = next->issued[i];
        next->issued[i] = kept;
    }
    if (at)
        ebb_step_clock_begin(&D.clock, D.step, ebb_stream_handle(D.stream));
    return true;
}

bool ebb_drive_change_over(const ebb_request_t *q, const ebb_operation_t *op)
{
    for (unsigned i = 0; i < EBB_DRIVES && is_untouched(); i++)
        if (ebb_drive_installed(i) && i != ebb_drive_slot() && could_go_on(ebb_share_drive(i), q, op))
            return go_on_with(i);
    return false;
}

/* ---- copies to the host that the program leaves out ---- */

/* It changes nothing that a plan rests on: whether it comes, and how often, is the program's business. */
static bool only_looks(uint32_t operation)
{
    const ebb_trace_operation_t *o = &D.trace->operation[operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (D.trace->access[i].mode != EBB_READS)
            return false;
    return o->kind == EBB_TRACE_COPY;
}

/* The first operation from the cursor on that does more than look, or the end. */
static uint32_t behind_looks(void)
{
    uint32_t at = D.cursor;
    while (at < D.trace->operation_count && only_looks(at))
        at++;
    return at;
}

/* The program is at a later operation, and has left out what comes before. False: the plan has been left. */
static bool leave_out(uint32_t up_to)
{
    while (D.active && D.cursor < up_to) {
        const char *why =
            D.next_birth < D.trace->buffer_count && D.trace->buffer[D.next_birth].born <= D.cursor
                ? "a buffer was not allocated"
                : ebb_drive_arrange(NULL);
        if (why)
            ebb_drive_leave(why);
        else if (++D.cursor == D.trace->operation_count)
            ebb_drive_end_step();
    }
    return D.active;
}

bool ebb_drive_skip(const ebb_request_t *q, const ebb_operation_t *op)
{
    const uint32_t at = behind_looks();
    if (at == D.cursor || at == D.trace->operation_count)
        return true;
    for (uint32_t i = D.next_birth; q && i < D.trace->buffer_count && D.trace->buffer[i].born <= at;
         i = ebb_first_birth(i + 1))
        if (D.trace->buffer[i].born > D.cursor && ebb_is_of_size(&D.trace->buffer[i], q->bytes))
            return leave_out(D.trace->buffer[i].born);
    return q || ebb_record_difference(D.learned, at, op) ? true : leave_out(at);
}

bool ebb_drive_expects(const ebb_operation_t *op)
{
    return D.active && !ebb_is_between_steps() && !ebb_drive_differs(op);
}

void ebb_drive_catch_up(void)
{
    if (D.active && !ebb_is_between_steps() && D.cursor && behind_looks() == D.trace->operation_count)
        leave_out(D.trace->operation_count);
}

/* ---- what was other than expected ---- */

void ebb_drive_say_other_buffers(const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &D.trace->operation[D.cursor];
    char word[128];
    if (op->kind == EBB_KERNEL)
        ebb_log(EBB_DEBUG, "operation %u: %s", D.cursor, ebb_know_name(op->function));
    for (uint32_t i = 0; i < op->access_count; i++) {
        const ebb_access_t *x = &op->access[i];
        if (ebb_drive_plans(x))
            continue;
        ebb_leftover_describe(x->param_offset, word, sizeof word);
        ebb_log(EBB_DEBUG, "operation %u: not planned: buffer %d at %zu (%s)", D.cursor,
                x->buffer->tag == EBB_PARKED ? -2 : (int)x->buffer->tag - 1, x->offset_bytes, word);
    }
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &D.trace->access[k];
        if (ebb_drive_makes(op, a) || ebb_leftover_is(a->param_offset))
            continue;
        ebb_leftover_describe(a->param_offset, word, sizeof word);
        ebb_log(EBB_DEBUG, "operation %u: left alone: buffer %u, mode %d (%s)", D.cursor, a->buffer,
                (int)a->mode, word);
    }
}

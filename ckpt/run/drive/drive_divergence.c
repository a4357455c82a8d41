/* drive_divergence.c: steps that are not quite what was expected, and are driven all the same: one that goes on as one of another
 * variant, or of another size, whose plan is installed as well; and one that leaves out operations, as a program does that logs now and
 * then, or whose experts get nothing now and then.
 */
#include <string.h>

#include "alloc/base/status.h"
#include "ckpt/run/drive/internal.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"

/* ---- a step of another variant than was expected ---- */

enum { LONGEST_PREFIX = 64 };

/* It may have been allocated in this step: in any order, of those that are due. */
static bool may_be_there(const drive_t *drive, uint32_t birth)
{
    return birth < drive->trace->buffer_count &&
           (birth < drive->next_birth ||
            (!ebb_is_between_steps(drive) && drive->trace->buffer[birth].born <= drive->cursor));
}

/* So far the plan has done nothing, and only small buffers have been allocated, which leave with none of them: as the last step has left it. */
static bool is_untouched(const drive_t *drive)
{
    if (drive->learned->refuted || drive->late || drive->next_action || drive->strays || drive->stray_count ||
        drive->cursor > LONGEST_PREFIX)
        return false;
    for (uint32_t i = ebb_first_birth(drive, 0); may_be_there(drive, i); i = ebb_first_birth(drive, i + 1))
        if (ebb_is_large(&drive->trace->buffer[i]) && (i < drive->next_birth || drive->site[i].buffer))
            return false;
    return true;
}

/* What has been allocated in this step lies where the other plan's would: theirs are sizes of one step. */
static bool is_placed_alike(const drive_t *drive, const drive_t *d)
{
    const bool alike = d->learned == drive->learned && d->small_slab == drive->small_slab;
    for (uint32_t i = ebb_first_birth(drive, 0); may_be_there(drive, i); i = ebb_first_birth(drive, i + 1))
        if (drive->site[i].buffer &&
            (!alike || d->plan->place[i].small_offset != drive->plan->place[i].small_offset))
            return false;
    return true;
}

/* Whether two plans' operations are the same, on the same buffers. */
static bool is_same(const drive_t *a, const drive_t *b, uint32_t index)
{
    const ebb_trace_operation_t *o = &a->trace->operation[index], *p = &b->trace->operation[index];
    if (a->learned == b->learned)
        return true;
    if (o->kind != p->kind ||
        a->learned->operation[index].function != b->learned->operation[index].function ||
        a->learned->operation[index].attributes != b->learned->operation[index].attributes ||
        memcmp(o->grid, p->grid, sizeof o->grid) || memcmp(o->block, p->block, sizeof o->block) ||
        o->shared_bytes != p->shared_bytes || o->param_bytes != p->param_bytes ||
        o->access_count != p->access_count)
        return false;
    for (uint32_t i = 0; i < o->access_count; i++) {
        const ebb_trace_access_t *x = &a->trace->access[o->first_access + i],
                                 *y = &b->trace->access[p->first_access + i];
        if (a->persistent[x->buffer] == EBB_NONE || a->persistent[x->buffer] != b->persistent[y->buffer] ||
            x->mode != y->mode || x->offset_bytes != y->offset_bytes || x->param_offset != y->param_offset)
            return false;
    }
    return true;
}

/* Whether a step of another plan can go on with this (an allocation or an operation), behind what has happened so far in this one. */
static bool could_go_on(drive_t *drive, const drive_t *d, const ebb_request_t *q, const ebb_operation_t *op)
{
    const uint32_t at = ebb_is_between_steps(drive) ? 0 : drive->cursor;
    const ebb_trace_t *t = d->trace;
    bool suits = false;
    /* In the middle of a step of several streams, these already wait for what the plan that would be left says. */
    if ((at && (d->stream != drive->stream || d->streams > 1 || drive->streams > 1)) ||
        t->operation_count <= at || (at && d->plan->action_count && d->plan->action[0].point < at) ||
        (op && d->learned == drive->learned) || !is_placed_alike(drive, d))
        return false;
    for (uint32_t i = d->learned == drive->learned ? drive->next_birth : 0; i < t->buffer_count; i++) {
        if (t->buffer[i].born < at || (op && t->buffer[i].born == at))
            return false;
        suits |= q && t->buffer[i].born == at && ebb_birth_has_room(d, i, q->bytes);
    }
    for (uint32_t i = 0; i < at; i++) /* what may be left out by one plan another one may need */
        if (!is_same(drive, d, i) || drive->issued[i].left_out)
            return false;
    return op ? !ebb_record_difference(d->learned, at, op) : suits;
}

/* Small buffers that have been allocated in this step. */
static void take_over(drive_t *next, drive_t *last, uint32_t next_birth)
{
    for (uint32_t i = 0; i < next_birth; i++) {
        site_t *from = &last->site[i], *to = &next->site[i];
        if (last->trace->buffer[i].born == EBB_NONE || !from->buffer)
            continue;
        to->buffer = from->buffer;
        to->found = from->found;
        to->written = from->written;
        to->device = from->device;
        from->buffer = NULL;
        next->living += !ebb_trace_is_unplaced(last->trace, i);
    }
    next->next_birth = next_birth;
}

/* The driven plan's step goes on as one of the plan under this index. */
static bool go_on_with(ebb_device_t *dev, unsigned plan_index)
{
    drive_t *last = ebb_driven(dev), *next = ebb_share_drive(dev, plan_index);
    const uint32_t before = last->cursor, living = last->living, next_birth = last->next_birth,
                   at = ebb_is_between_steps(ebb_driven(dev)) ? 0 : before;
    last->cursor = last->trace->operation_count;
    last->living = 0;
    ebb_drive_dismiss(last);
    if (!ebb_drive_change(dev, plan_index)) {
        last->cursor = before;
        last->living = living;
        ebb_drive_receive(last);
        return false;
    }
    if (!ebb_drive_begin_step(dev))
        return false;
    if (last->learned == next->learned)
        take_over(next, last, next_birth);
    next->cursor = at;
    for (uint32_t i = 0; i < at; i++) {
        const ebb_issued_t kept = last->issued[i];
        last->issued[i] = next->issued[i];
        next->issued[i] = kept;
    }
    if (at)
        ebb_step_clock_begin(ebb_driven(dev));
    return true;
}

bool ebb_drive_change_over(ebb_device_t *dev, const ebb_request_t *q, const ebb_operation_t *op)
{
    for (unsigned i = 0; i < EBB_DRIVES && is_untouched(ebb_driven(dev)); i++)
        if (ebb_drive_installed(dev, i) && i != ebb_drive_index(dev) &&
            could_go_on(ebb_driven(dev), ebb_share_drive(dev, i), q, op))
            return go_on_with(dev, i);
    return false;
}

/* ---- plans for several sizes ---- */

void ebb_drive_fit(ebb_device_t *dev, const ebb_request_t *q)
{
    const uint32_t key = ebb_driven(dev)->learned->key;
    unsigned best = ebb_drive_index(dev);
    if (!ebb_driven(dev)->learned->any_size || ebb_driven(dev)->next_birth != key || key == EBB_NONE ||
        ebb_driven(dev)->trace->buffer[key].born != ebb_driven(dev)->cursor || !is_untouched(ebb_driven(dev)))
        return;
    for (unsigned i = 0; i < EBB_DRIVES; i++) {
        const drive_t *d = ebb_share_drive(dev, i), *b = ebb_share_drive(dev, best);
        if (!d->installed || d->learned != b->learned)
            continue;
        const size_t room = d->trace->buffer[key].bytes, best_room = b->trace->buffer[key].bytes;
        if (q->bytes <= room && (q->bytes > best_room || room < best_room) &&
            could_go_on(ebb_driven(dev), d, q, NULL))
            best = i;
    }
    if (best != ebb_drive_index(dev))
        go_on_with(dev, best);
    dev->run->drives->key_bytes = q->bytes;
}

/* ---- operations that the program leaves out ---- */

enum { MOST_LEFT_OUT = 64 }; /* in a row */

/* It changes nothing that a plan rests on: whether it comes, and how often, is the program's business. */
static bool only_looks(drive_t *drive, uint32_t operation)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (drive->trace->access[i].mode != EBB_READS)
            return false;
    return o->kind == EBB_TRACE_COPY;
}

/* The first operation from the cursor on that does more than look, or the end. */
static uint32_t behind_looks(drive_t *drive)
{
    uint32_t at = drive->cursor;
    while (at < drive->trace->operation_count && only_looks(drive, at))
        at++;
    return at;
}

/* Which the plan gives up before an operation that replaces it. */
static bool has_content(const site_t *s)
{
    return s->buffer && s->range && s->written;
}

/* What it would have changed stays as it was. What it would have replaced in a large buffer does not: the plan may have given that up. Nor
 * may what is made again from what it would have put there be made without it. But there may be no such buffer in this step. */
static bool may_be_left_out(drive_t *drive, uint32_t operation)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        const ebb_trace_access_t *a = &drive->trace->access[i];
        const site_t *s = ebb_site_of(drive, a->buffer);
        if (a->mode == EBB_REPLACES && s->buffer &&
            (has_content(s) || ebb_unplanned_is_source(drive, a->buffer)))
            return false;
    }
    return o->kind != EBB_TRACE_OTHER && !o->resident;
}

/* What a later operation replaces the plan has given up before it: that is no operation to go on with where one that is left out uses it, for
 * it may be another one with the same buffers, which reads what is there. */
static bool replaces_what_is_used(drive_t *drive, uint32_t at, uint32_t operation)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        const uint32_t buffer = drive->trace->access[i].buffer;
        if (ebb_trace_mode(drive->trace, at, buffer) == EBB_REPLACES &&
            has_content(ebb_site_of(drive, buffer)))
            return true;
    }
    return false;
}

/* It is not allocated in this step. */
static bool may_be_absent(const ebb_trace_t *t, uint32_t buffer)
{
    return t->buffer[buffer].dies != EBB_NONE || ebb_trace_is_unplaced(t, buffer);
}

/* The program is at a later operation, or at the allocation of a later buffer, and has left out what comes before. False: the plan has been
 * left. */
static bool leave_out(drive_t *drive, uint32_t up_to, uint32_t birth)
{
    while (drive->active && drive->next_birth < birth) {
        site_t *s = ebb_site_of(drive, drive->next_birth);
        if (s->late || (!s->buffer && !may_be_absent(drive->trace, drive->next_birth))) {
            ebb_drive_leave(drive->device, "a buffer was not allocated");
            return false;
        }
        if (!s->buffer) /* nothing is left of that of the step before */
            s->written = s->device = s->on_host = s->given_up = false;
        drive->next_birth = ebb_first_birth(drive, drive->next_birth + 1);
    }
    while (drive->active && drive->cursor < up_to) {
        const char *why = ebb_drive_arrange(drive, NULL);
        if (why) {
            ebb_drive_leave(drive->device, why);
            return false;
        }
        drive->issued[drive->cursor].left_out =
            !only_looks(drive, drive->cursor); /* that is never repeated */
        if (++drive->cursor == drive->trace->operation_count)
            ebb_drive_end_step(drive);
    }
    return drive->active;
}

/* The next buffer to be allocated that is born behind this operation. */
static uint32_t born_behind(const drive_t *drive, uint32_t operation)
{
    uint32_t i = drive->next_birth;
    while (i < drive->trace->buffer_count && drive->trace->buffer[i].born <= operation)
        i = ebb_first_birth(drive, i + 1);
    return i;
}

/* A larger buffer than the one that is due, where only their order tells them apart, is one of the next that has that very size, or that
 * one has grown, as the key may always have; else a request alone says nothing about operations that do more than look. */
static bool skip_to_birth(drive_t *drive, const ebb_request_t *q, bool is_larger)
{
    const ebb_trace_buffer_t *b = drive->trace->buffer;
    uint32_t until = drive->cursor;
    if (is_larger && drive->next_birth == drive->learned->key)
        return true;
    for (uint32_t i = drive->next_birth; i < drive->trace->buffer_count; i = ebb_first_birth(drive, i + 1)) {
        for (; until < b[i].born; until++)
            if (until - drive->cursor == MOST_LEFT_OUT ||
                !(is_larger ? may_be_left_out(drive, until) : only_looks(drive, until)))
                return true;
        if (b[i].born > drive->cursor &&
            (is_larger ? b[i].bytes == q->bytes : ebb_birth_has_room(drive, i, q->bytes)))
            return leave_out(drive, b[i].born, is_larger ? i : born_behind(drive, b[i].born - 1));
    }
    return true;
}

bool ebb_drive_skip(drive_t *drive, const ebb_request_t *q, const ebb_operation_t *op)
{
    if (q)
        return skip_to_birth(drive, q, ebb_birth_is_outgrown(drive, q));
    uint32_t at = drive->cursor + 1, end = drive->trace->operation_count;
    end = end - drive->cursor > MOST_LEFT_OUT + 1 ? drive->cursor + MOST_LEFT_OUT + 1 : end;
    for (bool looks = only_looks(drive, drive->cursor);
         at < end && (looks              ? ebb_record_difference(drive->learned, at, op)
                      : op->access_count ? ebb_drive_differs(drive, op, at)
                                         : "it could be any");
         at++)
        looks &= only_looks(drive, at);
    for (uint32_t i = drive->cursor; i < at; i++)
        if (at >= end || !may_be_left_out(drive, i) || replaces_what_is_used(drive, at, i))
            return true;
    return leave_out(drive, at, born_behind(drive, at));
}

bool ebb_drive_expects(ebb_device_t *dev, const ebb_operation_t *op)
{
    return ebb_drive_in_step(dev) && !ebb_drive_differs(ebb_driven(dev), op, ebb_driven(dev)->cursor);
}

void ebb_drive_catch_up(ebb_device_t *dev)
{
    drive_t *drive = ebb_driven(dev);
    if (ebb_drive_in_step(dev) && drive->cursor && behind_looks(drive) == drive->trace->operation_count)
        leave_out(drive, drive->trace->operation_count,
                  born_behind(drive, drive->trace->operation_count - 1));
}

/* ---- what was other than expected ---- */

void ebb_drive_say_other_buffers(ebb_device_t *dev, const ebb_operation_t *op)
{
    drive_t *drive = ebb_driven(dev);
    const ebb_trace_operation_t *o = &drive->trace->operation[drive->cursor];
    char word[128];
    if (op->kind == EBB_KERNEL)
        ebb_log(EBB_DEBUG, "operation %u: %s", drive->cursor, ebb_know_name(dev, op->function));
    for (uint32_t i = 0; i < op->access_count; i++) {
        const ebb_access_t *x = &op->access[i];
        if (ebb_drive_plans(drive, x))
            continue;
        ebb_stale_describe(dev, x->param_offset, word, sizeof word);
        ebb_log(EBB_DEBUG, "operation %u: not planned: buffer %d at %zu (%s)", drive->cursor,
                x->buffer->number == EBB_INACTIVE ? -2 : (int)x->buffer->number - 1, x->offset_bytes, word);
    }
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &drive->trace->access[k];
        if (ebb_drive_makes(drive, op, a) || ebb_stale_is(dev, a->param_offset))
            continue;
        ebb_stale_describe(dev, a->param_offset, word, sizeof word);
        ebb_log(EBB_DEBUG, "operation %u: left alone: buffer %u, mode %d (%s)", drive->cursor, a->buffer,
                (int)a->mode, word);
    }
}

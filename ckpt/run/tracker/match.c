/* match.c: which operation of the recording is this, and which of its buffers are which? See tracker.h. */
#include "ckpt/run/tracker/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"
#include "alloc/device.h"
#include "ckpt/run/state.h"

const size_t ebb_part_tracked = sizeof(match_t);

void ebb_match_differ(match_t *m, const char *what, uint32_t operation, const char *name)
{
    if (!m->difference[0])
        snprintf(m->difference, sizeof m->difference, "%s, at operation %u (%.120s)", what, operation, name);
}

/* Something that steps of one kind may differ in, if it does not happen too often. */
void ebb_match_deviate(match_t *m, const char *what, uint32_t operation, const char *name)
{
    if (!m->first_deviation[0])
        snprintf(m->first_deviation, sizeof m->first_deviation, "%s, at operation %u (%.120s)", what,
                 operation, name);
    if (8 * ++m->deviations > trace_of(m)->operation_count + 16 && !m->difference[0])
        memcpy(m->difference, m->first_deviation, sizeof m->difference);
}

/* ---- operations ---- */

/* `resized`: as far as order goes. */
static bool fits(const match_t *m, const ebb_operation_t *op, uint32_t index, bool resized)
{
    if (index == EBB_NONE || !ebb_record_is_like(m->seen.learned, index, op) ||
        (!resized && ebb_record_difference(m->seen.learned, index, op)))
        return false;
    const ebb_trace_access_t *a = &trace_of(m)->access[trace_of(m)->operation[index].first_access];
    for (uint32_t k = 0; k < op->access_count; k++) {
        const ebb_access_t *x = &op->access[k];
        if (a[k].param_offset != x->param_offset || !ebb_number_can_bind(m, x->buffer, a[k].buffer) ||
            (!resized && (!ebb_record_may_be_at(m->seen.learned, &a[k], x->offset_bytes) ||
                          !ebb_number_is_of_size(m, x->buffer->bytes, a[k].buffer))))
            return false;
        for (uint32_t n = 0; n < k; n++)
            if ((a[n].buffer == a[k].buffer) != (op->access[n].buffer == op->access[k].buffer))
                return false;
    }
    return true;
}

/* What this access of the operation is in a recorded one, if their words are the same and lead to what may be the same; EBB_NONE: nothing. */
static uint32_t recorded_as(const match_t *m, const ebb_operation_t *op, uint32_t access, uint32_t index)
{
    const ebb_trace_operation_t *o = &trace_of(m)->operation[index];
    const ebb_access_t *x = &op->access[access];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &trace_of(m)->access[k];
        if (a->param_offset == x->param_offset)
            return ebb_record_may_be_at(m->seen.learned, a, x->offset_bytes) &&
                           ebb_number_can_bind(m, x->buffer, a->buffer)
                       ? k
                       : EBB_NONE;
    }
    return EBB_NONE;
}

/* Structures of its arguments are perhaps not all filled in (tracker.h). */
static bool may_be_filled_in_part(const match_t *m, const ebb_operation_t *op, uint32_t index)
{
    return op->kind == EBB_KERNEL && op->structures && !ebb_record_other_launch(m->seen.learned, index, op);
}

/* Most of its words lead to the same. */
static bool resembles(const match_t *m, const ebb_operation_t *op, uint32_t index)
{
    uint32_t same = 0;
    if (index == EBB_NONE ||
        (!may_be_filled_in_part(m, op, index) && !ebb_record_is_like(m->seen.learned, index, op)))
        return false;
    for (uint32_t k = 0; k < op->access_count; k++)
        same += recorded_as(m, op, k, index) != EBB_NONE;
    return same && 2 * same >= trace_of(m)->operation[index].access_count;
}

static uint32_t number_of_stream(const match_t *m, const ebb_stream_t *stream)
{
    uint32_t s = 0;
    while (s < m->seen.learned->stream_count && m->seen.learned->streams[s] != stream)
        s++;
    return s;
}

/* Of stream s: its number, as what it matches. EBB_NONE: an extra one, or the first behind some that were left out. */
static uint32_t find(match_t *m, const ebb_operation_t *op, uint32_t s)
{
    const uint32_t at = m->cursor[s], candidate = m->candidate[s];
    m->candidate[s] = EBB_NONE;
    m->seen.match = EBB_MATCH_EXACT;
    if (fits(m, op, at, false))
        return at;
    if (fits(m, op, candidate, false))
        return candidate;
    m->seen.match = EBB_MATCH_PARTIAL;
    if (resembles(m, op, at) && may_be_filled_in_part(m, op, at))
        return at;
    uint32_t i = at;
    for (unsigned n = 0; n < EBB_MATCH_LOOK && i != EBB_NONE; n++) {
        i = m->next[i];
        if (fits(m, op, i, false)) {
            m->candidate[s] = m->next[i];
            return EBB_NONE;
        }
    }
    return fits(m, op, at, true) || resembles(m, op, at) ? at : EBB_NONE;
}

void ebb_match_operation(ebb_device_t *dev, const ebb_operation_t *op)
{
    match_t *m = match_of(dev);
    const uint32_t s = number_of_stream(m, op->stream);
    const bool known = m->seen.known && s < m->seen.learned->stream_count;
    m->candidate_before = s < m->seen.learned->stream_count ? m->candidate[s] : EBB_NONE;
    const uint32_t at = known ? find(m, op, s) : EBB_NONE;
    m->seen.at = at;
    m->seen.match = at == EBB_NONE ? EBB_MATCH_EXTRA : m->seen.match;
    m->seen.matches = m->seen.match == EBB_MATCH_EXACT && at >= m->seen.cursor;
    const bool in_order = m->seen.match == EBB_MATCH_EXACT || (at != EBB_NONE && fits(m, op, at, true));
    for (uint32_t k = 0; at != EBB_NONE && k < op->access_count; k++) {
        const uint32_t as =
            in_order ? trace_of(m)->operation[at].first_access + k : recorded_as(m, op, k, at);
        if (as != EBB_NONE)
            ebb_number_bind(m, op->access[k].buffer, trace_of(m)->access[as].buffer);
    }
}

static void note_stray(match_t *m, const ebb_operation_t *op, uint32_t at)
{
    const bool known = at != EBB_NONE;
    const uint32_t operation = known ? at : trace_of(m)->operation_count;
    if (op->opaque)
        ebb_match_differ(m, "an operation that cannot be read", operation, "?");
    ebb_numbers_stray(m, op);
    const char *what = known ? ebb_record_difference(m->seen.learned, at, op) : "another operation";
    ebb_match_deviate(m, what ? what : "the buffers that an operation touches", operation,
                      known ? trace_of(m)->operation[at].name : "the end");
}

/* It stands in the place of one that is left out. */
static void note_partial(match_t *m, const ebb_operation_t *op, uint32_t at)
{
    ebb_numbers_stray(m, op); /* its effects are not known */
    if (fits(m, op, at, true) || may_be_filled_in_part(m, op, at))
        return;
    ebb_match_deviate(m, "the buffers that an operation touches", at, trace_of(m)->operation[at].name);
    ebb_match_deviate(m, "an operation that is left out", at, trace_of(m)->operation[at].name);
    m->missing++;
}

void ebb_match_done(ebb_device_t *dev, const ebb_operation_t *op, bool issued)
{
    match_t *m = match_of(dev);
    const uint32_t s = number_of_stream(m, op->stream), at = m->seen.at;
    const bool planned = s < m->seen.learned->stream_count;
    if (!issued && planned)
        m->candidate[s] = m->candidate_before;
    if (issued && at == EBB_NONE) {
        note_stray(m, op, planned ? m->cursor[s] : EBB_NONE);
        m->seen.known &= ++m->strays <= EBB_MATCH_STRAYS;
    }
    if (!issued || at == EBB_NONE)
        return;
    for (; m->cursor[s] != at; m->cursor[s] = m->next[m->cursor[s]], m->missing++)
        ebb_match_deviate(m, "an operation that is left out", m->cursor[s],
                          trace_of(m)->operation[m->cursor[s]].name);
    m->cursor[s] = m->next[at];
    m->candidate[s] = EBB_NONE;
    m->strays = 0;
    if (at >= m->seen.cursor)
        m->seen.cursor = at + 1;
    if (m->seen.match == EBB_MATCH_PARTIAL)
        note_partial(m, op, at);
}

uint32_t ebb_match_next(ebb_device_t *dev, uint32_t operation)
{
    return match_of(dev)->next[operation];
}

/* ---- begin and end of a step ---- */

bool ebb_match_is_over(const match_t *m)
{
    for (uint32_t s = 0; s < EBB_RECORD_STREAMS; s++)
        if (m->cursor[s] != EBB_NONE)
            return false;
    return true;
}

bool ebb_match_begins(ebb_device_t *dev, const ebb_operation_t *op)
{
    const match_t *m = match_of(dev);
    const uint32_t s = number_of_stream(m, op->stream);
    if (!m->seen.known || !ebb_match_is_over(m) || s == m->seen.learned->stream_count ||
        m->first[s] == EBB_NONE || ebb_record_difference(m->seen.learned, m->first[s], op))
        return false;
    const ebb_trace_access_t *a = &trace_of(m)->access[trace_of(m)->operation[m->first[s]].first_access];
    for (uint32_t k = 0; k < op->access_count; k++)
        if (a[k].param_offset != op->access[k].param_offset)
            return false;
    return true;
}

bool ebb_match_is_behind(ebb_device_t *dev, const ebb_operation_t *op)
{
    const match_t *m = match_of(dev);
    if (!m->seen.known || !ebb_match_is_over(m) || m->strays >= EBB_MATCH_BEHIND)
        return false;
    for (uint32_t s = 0; s < m->seen.learned->stream_count; s++) {
        uint32_t i = m->first[s];
        for (unsigned n = 0; n < EBB_MATCH_BEHIND && i != EBB_NONE; n++, i = m->next[i])
            if ((ebb_trace_kind_t)op->kind == trace_of(m)->operation[i].kind &&
                ebb_record_function(op) == m->seen.learned->operation[i].function)
                return false;
    }
    return true;
}

/* What is missing at the end of the step. */
static void end_step(match_t *m)
{
    const ebb_trace_t *t = trace_of(m);
    uint32_t born = 0;
    if (m->ended || m->difference[0])
        return;
    m->ended = true;
    for (uint32_t s = 0; s < EBB_RECORD_STREAMS; s++)
        for (uint32_t i = m->cursor[s]; i != EBB_NONE; i = m->next[i], m->missing++)
            ebb_match_deviate(m, "the number of operations", i, "the end");
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        born += t->buffer[i].born != EBB_NONE;
        if (m->bound[i].generation && t->buffer[i].dies != EBB_NONE && m->bound[i].freed == EBB_NONE &&
            !ebb_trace_is_unplaced(t, i))
            ebb_match_deviate(m, "a buffer that is not freed", t->buffer[i].dies, "frees");
    }
    if (born != m->allocations)
        ebb_match_deviate(m, "the number of allocations", t->operation_count, "the end");
}

const char *ebb_match_difference(ebb_device_t *dev, bool whole)
{
    match_t *m = match_of(dev);
    if (whole)
        end_step(m);
    return m->difference[0] ? m->difference : NULL;
}

uint32_t ebb_match_missing(ebb_device_t *dev)
{
    return match_of(dev)->missing;
}

/* A step that was followed to its end says what it has left behind. */
static bool settle(match_t *m)
{
    const bool whole = m->seen.known && m->seen.cursor == trace_of(m)->operation_count;
    if (whole)
        end_step(m);
    for (uint32_t id = 0; whole && !m->difference[0] && id < trace_of(m)->buffer_count; id++) {
        const bool there = m->bound[id].generation && m->bound[id].freed == EBB_NONE;
        if (!m->bound[id].generation && ebb_trace_stays_itself(trace_of(m), id))
            continue; /* it has not been touched */
        m->seen.learned->buffer[id].left = there ? m->bound[id].generation : 0;
        m->seen.learned->buffer[id].left_at = there && m->seen.buffer[id] ? m->seen.buffer[id]->address : 0;
    }
    return whole;
}

/* At the beginning of a step, but for numbers. */
static void reset(match_t *m)
{
    for (uint32_t id = 0; id < trace_of(m)->buffer_count; id++)
        m->bound[id] = (bound_t){.freed = EBB_NONE};
    memcpy(m->cursor, m->first, sizeof m->cursor);
    memset(m->candidate, 0xff, sizeof m->candidate);
    m->missing = m->deviations = m->strays = 0;
    m->ended = false;
    m->first_deviation[0] = m->difference[0] = 0;
    m->seen.cursor = 0;
    m->seen.at = EBB_NONE;
    m->seen.match = EBB_MATCH_EXTRA;
    m->seen.matches = false;
    m->seen.known = true;
}

void ebb_match_begin_step(ebb_device_t *dev)
{
    match_t *m = match_of(dev);
    ebb_numbers_turn(m, settle(m));
    ebb_numbers_keep_newest(m);
    reset(m);
    m->seen.step++;
}

bool ebb_match_is_fresh(ebb_device_t *dev)
{
    const match_t *m = match_of(dev);
    return m->seen.known && !m->seen.cursor && !m->deviations && !m->seen.resumed;
}

void ebb_match_resume(ebb_device_t *dev, ebb_buffer_t *const *buffer, uint32_t cursor)
{
    match_t *m = match_of(dev);
    reset(m);
    for (uint32_t i = 0; i < trace_of(m)->buffer_count; i++)
        if (buffer[i])
            ebb_number_bind(m, buffer[i], i);
    for (uint32_t s = 0; s < EBB_RECORD_STREAMS; s++)
        while (m->cursor[s] < cursor)
            m->cursor[s] = m->next[m->cursor[s]];
    m->seen.cursor = cursor;
    m->seen.resumed = true;
}

static void link_streams(match_t *m)
{
    const ebb_trace_t *t = trace_of(m);
    memset(m->first, 0xff, sizeof m->first);
    for (uint32_t i = t->operation_count; i-- > 0;) {
        const uint32_t s = t->operation[i].stream;
        m->next[i] = m->first[s];
        m->first[s] = i;
    }
}

bool ebb_match_open(ebb_device_t *dev, ebb_recording_t *learned)
{
    match_t *m = match_of(dev);
    const ebb_trace_t *t = learned->trace;
    m->next = calloc((size_t)t->operation_count + 1, sizeof *m->next);
    m->bound = calloc((size_t)t->buffer_count + 1, sizeof *m->bound);
    m->successor = calloc((size_t)t->buffer_count + 1, sizeof(ebb_buffer_t *));
    m->seen.buffer = calloc((size_t)t->buffer_count + 1, sizeof(ebb_buffer_t *));
    m->seen.learned = learned;
    if (!t->operation_count || !m->next || !m->bound || !m->successor || !m->seen.buffer ||
        !ebb_uses_make(&m->seen.uses, t)) {
        ebb_match_close(dev);
        return false;
    }
    link_streams(m);
    reset(m);
    return true;
}

void ebb_match_close(ebb_device_t *dev)
{
    match_t *m = match_of(dev);
    if (m->seen.learned && m->bound && m->seen.buffer)
        settle(m);
    for (uint32_t i = 0; m->seen.buffer && i < trace_of(m)->buffer_count; i++)
        ebb_number_take(m, i);
    free(m->next);
    free(m->bound);
    free(m->successor);
    free(m->seen.buffer);
    free(m->arrivals.at);
    ebb_uses_free(&m->seen.uses);
    *m = (match_t){.seen = {.learned = NULL}};
}

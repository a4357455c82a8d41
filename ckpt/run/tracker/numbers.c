/* numbers.c: which of the program's buffers is which of the recording's, in the step that is followed; see tracker.h. */
#include "ckpt/run/tracker/internal.h"

#include <stdlib.h>

#include "alloc/device.h"

/* Where allocations and frees are now; where there are several streams it says only whether the step is over. */
static uint32_t place(const match_t *m)
{
    return ebb_match_is_over(m) ? trace_of(m)->operation_count : m->cursor[0] == EBB_NONE ? 0 : m->cursor[0];
}

static bool is_single(const match_t *m)
{
    return m->seen.learned->stream_count <= 1;
}

/* ---- which may be which ---- */

bool ebb_number_is_of_size(const match_t *m, size_t bytes, uint32_t id)
{
    const size_t recorded = trace_of(m)->buffer[id].bytes;
    return bytes == recorded || m->seen.learned->any_size ||
           (bytes <= EBB_SMALL_BYTES && recorded <= EBB_SMALL_BYTES &&
            ebb_tile_count(bytes) == ebb_tile_count(recorded));
}

static void give_number(match_t *m, ebb_buffer_t *b, uint32_t id)
{
    m->seen.buffer[id] = b;
    b->number = id + 1;
}

void ebb_number_take(match_t *m, uint32_t id)
{
    if (m->seen.buffer[id])
        m->seen.buffer[id]->number = 0;
    m->seen.buffer[id] = NULL;
}

/* Seen in this step; else what has a number has it from the step before. */
static bool is_bound(const match_t *m, const ebb_buffer_t *b, uint32_t id)
{
    return m->bound[id].generation == b->generation;
}

static bool was_born(const match_t *m, const ebb_buffer_t *b)
{
    const arrival_t *e = ebb_table_find(&m->arrivals, sizeof *e, b->generation);
    return e && e->born != EBB_NONE;
}

/* What the last step has left behind under a number. EBB_NONE: nothing of that generation. */
static uint32_t left_as(const match_t *m, uint64_t generation)
{
    uint32_t id = 0;
    while (id < trace_of(m)->buffer_count && m->seen.learned->buffer[id].left != generation)
        id++;
    return id < trace_of(m)->buffer_count ? id : EBB_NONE;
}

/* Whether a buffer that is older than the step may be the one of this number: the same as recorded; or what the step
 * before has left behind, always the same of it; or, from whichever step it is, one that dies in this one, or is another in each. */
static bool may_have_entered(const match_t *m, const ebb_buffer_t *b, uint32_t id)
{
    if (b->generation == m->seen.learned->buffer[id].generation)
        return true;
    const uint32_t as = left_as(m, b->generation);
    if (as == EBB_NONE)
        return !ebb_trace_stays_itself(trace_of(m), id);
    const uint32_t next = trace_of(m)->buffer[as].next;
    return next == EBB_NONE || next == id || next == as;
}

bool ebb_number_can_bind(const match_t *m, const ebb_buffer_t *b, uint32_t id)
{
    const ebb_trace_buffer_t *recorded = &trace_of(m)->buffer[id];
    if (is_bound(m, b, id))
        return true;
    if ((b->pinned != 0) != recorded->pinned || m->bound[id].generation ||
        (b->number && is_bound(m, b, b->number - 1)))
        return false;
    const bool born = recorded->born != EBB_NONE;
    return born == was_born(m, b) && (born || may_have_entered(m, b, id));
}

void ebb_number_bind(match_t *m, ebb_buffer_t *b, uint32_t id)
{
    bound_t *bound = &m->bound[id];
    if (is_bound(m, b, id))
        return;
    const arrival_t *e = ebb_table_find(&m->arrivals, sizeof *e, b->generation);
    if (e && e->born != EBB_NONE && is_single(m) && e->born != trace_of(m)->buffer[id].born)
        ebb_match_deviate(m, "when a buffer is allocated", trace_of(m)->buffer[id].born, "allocations");
    if (b->number)
        ebb_number_take(m, b->number - 1);
    ebb_number_take(m, id);
    give_number(m, b, id);
    bound->generation = b->generation;
    bound->strayed |= e && e->strayed;
    if (b->bytes > bound->bytes)
        bound->bytes = b->bytes;
}

void ebb_match_allocated(ebb_device_t *dev, const ebb_buffer_t *b)
{
    match_t *m = match_of(dev);
    bool added;
    arrival_t *e = ebb_table_add(&m->arrivals, sizeof *e, b->generation, &added);
    m->allocations++;
    if (e)
        e->born = place(m);
    else
        ebb_match_differ(m, "out of memory", place(m), "allocations");
}

/* One that the step frees without ever touching it: its number; EBB_NONE: none is known. */
static uint32_t freed_as(const match_t *m, const ebb_buffer_t *b)
{
    const uint32_t known = b->number ? b->number - 1 : EBB_NONE;
    if (known != EBB_NONE && (is_bound(m, b, known) || trace_of(m)->buffer[known].dies != EBB_NONE))
        return known;
    for (uint32_t id = was_born(m, b) ? trace_of(m)->buffer_count : 0; id < trace_of(m)->buffer_count; id++) {
        const ebb_trace_buffer_t *t = &trace_of(m)->buffer[id];
        if (t->born == EBB_NONE && t->dies != EBB_NONE && ebb_number_is_of_size(m, b->bytes, id) &&
            (!is_single(m) || t->dies == place(m)) && ebb_number_can_bind(m, b, id))
            return id;
    }
    return EBB_NONE;
}

void ebb_match_freed(ebb_device_t *dev, ebb_buffer_t *b)
{
    match_t *m = match_of(dev);
    const uint32_t id = freed_as(m, b);
    if (id == EBB_NONE && b->number)
        ebb_number_take(m, b->number - 1);
    if (id == EBB_NONE)
        return;
    ebb_number_bind(m, b, id);
    const uint32_t dies = trace_of(m)->buffer[id].dies;
    m->bound[id].freed = place(m);
    ebb_number_take(m, id);
    if (!ebb_trace_is_unplaced(trace_of(m), id) && (is_single(m) ? dies != place(m) : dies == EBB_NONE))
        ebb_match_deviate(m, "when a buffer is freed", place(m), "frees");
}

ebb_buffer_t *ebb_match_buffer(ebb_device_t *dev, uint32_t id)
{
    match_t *m = match_of(dev);
    return m->bound[id].generation ? m->seen.buffer[id] : NULL;
}

bool ebb_match_take_strayed(ebb_device_t *dev, uint32_t id)
{
    match_t *m = match_of(dev);
    const bool strayed = m->bound[id].strayed;
    m->bound[id].strayed = false;
    return strayed;
}

void ebb_numbers_stray(match_t *m, const ebb_operation_t *op)
{
    for (uint32_t k = 0; k < op->access_count; k++) {
        const ebb_buffer_t *b = op->access[k].buffer;
        bool added, bound = b->number && is_bound(m, b, b->number - 1);
        arrival_t *e = bound ? NULL : ebb_table_add(&m->arrivals, sizeof *e, b->generation, &added);
        if (bound)
            m->bound[b->number - 1].strayed = true;
        else if (e && added)
            *e = (arrival_t){b->generation, EBB_NONE, true};
        else if (e)
            e->strayed = true;
        else
            ebb_match_differ(m, "out of memory", place(m), "operations");
    }
}

/* ---- from step to step ---- */

void ebb_match_note_next(ebb_device_t *dev)
{
    const match_t *m = match_of(dev);
    ebb_trace_t *t = trace_of(m);
    for (uint32_t id = 0; id < t->buffer_count; id++) {
        const uint64_t generation = m->bound[id].generation;
        if (generation && m->bound[id].freed == EBB_NONE && t->buffer[id].born != EBB_NONE &&
            t->buffer[id].dies != EBB_NONE && t->buffer[id].bytes <= EBB_SMALL_BYTES)
            ebb_trace_dies_later(t, id, EBB_NONE);
        const uint32_t as = generation && t->buffer[id].born == EBB_NONE ? left_as(m, generation) : id;
        /* What is freed in the recorded step, and was not in the last one, is nothing in the next. */
        if (as == id || as == EBB_NONE || t->buffer[as].dies != EBB_NONE)
            continue;
        t->buffer[as].next = id;
        if (ebb_trace_is_unplaced(t, id) &&
            ebb_trace_stays_itself(t, id)) { /* which is none of the next step's */
            t->buffer[id].dies = t->operation_count;
            t->buffer[id].next = EBB_NONE;
        }
    }
}

size_t ebb_match_bytes(ebb_device_t *dev, uint32_t id)
{
    const match_t *m = match_of(dev);
    const size_t bytes = m->bound[id].bytes;
    return ebb_number_is_of_size(m, bytes, id) ? bytes : 0;
}

/* What was this in the last step is that in the next. */
void ebb_numbers_turn(match_t *m, bool behind_another)
{
    for (uint32_t i = 0; i < trace_of(m)->buffer_count; i++) {
        m->successor[i] = behind_another ? m->seen.buffer[i] : NULL;
        if (!ebb_trace_stays_itself(trace_of(m), i))
            ebb_number_take(m, i);
    }
    for (uint32_t i = 0; i < trace_of(m)->buffer_count; i++) {
        const uint32_t next = trace_of(m)->buffer[i].next;
        if (m->successor[i] && next != EBB_NONE && next != i && !m->seen.buffer[next])
            give_number(m, m->successor[i], next);
    }
}

/* What was allocated behind the last operation is the next step's. */
void ebb_numbers_keep_newest(match_t *m)
{
    const ebb_table_t old = m->arrivals;
    const arrival_t *e = old.at;
    bool added;
    m->arrivals = (ebb_table_t){0};
    m->allocations = 0;
    for (size_t i = 0; i < old.room; i++)
        if (e[i].generation && e[i].born == trace_of(m)->operation_count) {
            arrival_t *kept = ebb_table_add(&m->arrivals, sizeof *kept, e[i].generation, &added);
            m->allocations += kept != NULL;
        }
    free(old.at);
}

void ebb_match_find_persistent(ebb_device_t *dev)
{
    match_t *m = match_of(dev);
    for (uint32_t i = 0; i < trace_of(m)->buffer_count; i++) {
        ebb_buffer_t *b = ebb_trace_stays_itself(trace_of(m), i) && !m->seen.buffer[i]
                              ? ebb_buffer_at(dev->ebb, m->seen.learned->buffer[i].address)
                              : NULL;
        if (b && !b->number && b->generation == m->seen.learned->buffer[i].generation &&
            (b->pinned != 0) == trace_of(m)->buffer[i].pinned)
            give_number(m, b, i);
    }
}

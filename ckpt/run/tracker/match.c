/* match.c: which operation of the recording is this, and which of its buffers are which? See tracker.h. */
#include "ckpt/run/tracker/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"
#include "alloc/device.h"
#include "ckpt/run/state.h"

/* Operations that are looked at when some were left out; strays in a row until nothing is known any more. */
enum { LOOK = 64, STRAYS = 256 };

/* A buffer of the program that was allocated in this step, or touched before it was known. */
typedef struct arrival {
    uint64_t generation;
    uint32_t born; /* before which operation; EBB_NONE: it was there */
    bool strayed;  /* an operation that was not recorded has touched it before */
} arrival_t;

/* A buffer of the recording, in this step. */
typedef struct bound {
    uint64_t generation; /* of the buffer that it is; 0: none was seen to be */
    uint64_t bytes;      /* the most so far */
    uint32_t freed;      /* before which operation; EBB_NONE: it was not */
    bool strayed;
} bound_t;

/* What is known of the step under way; the part of it that others see first. */
typedef struct match {
    ebb_tracked_t seen;
    uint32_t *next;                         /* [operations] on the same stream */
    uint32_t first[EBB_RECORD_STREAMS];     /* per stream */
    uint32_t cursor[EBB_RECORD_STREAMS];    /* per stream: the one to come */
    uint32_t candidate[EBB_RECORD_STREAMS]; /* where it goes on if some were left out; EBB_NONE */
    uint32_t candidate_before;              /* of the stream of the operation under way */
    uint32_t allocations, missing, deviations, strays;
    bool ended;               /* what is missing at the end has been counted */
    bound_t *bound;           /* [buffers] */
    ebb_buffer_t **successor; /* [buffers] */
    ebb_table_t arrivals;     /* arrival_t */
    char first_deviation[256];
    char difference[256];
} match_t;
const size_t ebb_part_tracked = sizeof(match_t);

static match_t *match_of(ebb_t *ebb)
{
    return (match_t *)ebb->run->tracked;
}

static ebb_trace_t *trace(const match_t *m)
{
    return m->seen.learned->trace;
}

static void differ(match_t *m, const char *what, uint32_t operation, const char *name)
{
    if (!m->difference[0])
        snprintf(m->difference, sizeof m->difference, "%s, at operation %u (%.120s)", what, operation, name);
}

/* Something that steps of one kind may differ in, if it does not happen too often. */
static void deviate(match_t *m, const char *what, uint32_t operation, const char *name)
{
    if (!m->first_deviation[0])
        snprintf(m->first_deviation, sizeof m->first_deviation, "%s, at operation %u (%.120s)", what,
                 operation, name);
    if (8 * ++m->deviations > trace(m)->operation_count + 16 && !m->difference[0])
        memcpy(m->difference, m->first_deviation, sizeof m->difference);
}

/* Where allocations and frees are now; without meaning where there are several streams. */
static uint32_t place(const match_t *m)
{
    return m->cursor[0] == EBB_NONE ? trace(m)->operation_count : m->cursor[0];
}

static bool is_single(const match_t *m)
{
    return m->seen.learned->stream_count <= 1;
}

/* ---- numbers of buffers ---- */

/* The same in every step. */
static bool persists(const match_t *m, uint32_t id)
{
    return trace(m)->buffer[id].born == EBB_NONE && trace(m)->buffer[id].next == id;
}

static void give_number(match_t *m, ebb_buffer_t *b, uint32_t id)
{
    m->seen.buffer[id] = b;
    b->number = id + 1;
}

static void take_number(match_t *m, uint32_t id)
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
    while (id < trace(m)->buffer_count && m->seen.learned->left[id] != generation)
        id++;
    return id < trace(m)->buffer_count ? id : EBB_NONE;
}

/* Whether a buffer that is older than the step may be the one of this number: the same as recorded; or what the step
 * before has left behind, always the same of it; or, from whichever step it is, one that dies in this one, or is another in each. */
static bool may_have_entered(const match_t *m, const ebb_buffer_t *b, uint32_t id)
{
    if (b->generation == m->seen.learned->generation[id])
        return true;
    const uint32_t as = left_as(m, b->generation);
    if (as == EBB_NONE)
        return trace(m)->buffer[id].dies != EBB_NONE || ebb_trace_rotates(trace(m), id);
    const uint32_t next = trace(m)->buffer[as].next;
    return next == EBB_NONE || next == id || next == as;
}

static bool can_bind(const match_t *m, const ebb_buffer_t *b, uint32_t id)
{
    const ebb_trace_buffer_t *recorded = &trace(m)->buffer[id];
    if (is_bound(m, b, id))
        return true;
    if ((b->pinned != 0) != recorded->pinned || m->bound[id].generation ||
        (b->number && is_bound(m, b, b->number - 1)))
        return false;
    const bool born = recorded->born != EBB_NONE;
    return born == was_born(m, b) && (born || may_have_entered(m, b, id));
}

static void bind(match_t *m, ebb_buffer_t *b, uint32_t id)
{
    bound_t *bound = &m->bound[id];
    if (is_bound(m, b, id))
        return;
    const arrival_t *e = ebb_table_find(&m->arrivals, sizeof *e, b->generation);
    if (e && e->born != EBB_NONE && is_single(m) && e->born != trace(m)->buffer[id].born)
        deviate(m, "when a buffer is allocated", trace(m)->buffer[id].born, "allocations");
    if (b->number)
        take_number(m, b->number - 1);
    take_number(m, id);
    give_number(m, b, id);
    bound->generation = b->generation;
    bound->strayed |= e && e->strayed;
    if (b->bytes > bound->bytes)
        bound->bytes = b->bytes;
}

void ebb_match_allocated(ebb_t *ebb, const ebb_buffer_t *b)
{
    match_t *m = match_of(ebb);
    bool added;
    arrival_t *e = ebb_table_add(&m->arrivals, sizeof *e, b->generation, &added);
    m->allocations++;
    if (e)
        e->born = place(m);
    else
        differ(m, "out of memory", place(m), "allocations");
}

/* One that the step frees without ever touching it: its number; EBB_NONE: none is known. */
static uint32_t freed_as(const match_t *m, const ebb_buffer_t *b)
{
    if (b->number)
        return b->number - 1;
    for (uint32_t id = was_born(m, b) ? trace(m)->buffer_count : 0; id < trace(m)->buffer_count; id++) {
        const ebb_trace_buffer_t *t = &trace(m)->buffer[id];
        if (t->born == EBB_NONE && t->dies != EBB_NONE && t->bytes == b->bytes &&
            (!is_single(m) || t->dies == place(m)) && can_bind(m, b, id))
            return id;
    }
    return EBB_NONE;
}

void ebb_match_freed(ebb_t *ebb, ebb_buffer_t *b)
{
    match_t *m = match_of(ebb);
    const uint32_t id = freed_as(m, b);
    if (id == EBB_NONE)
        return;
    bind(m, b, id);
    const uint32_t dies = trace(m)->buffer[id].dies;
    m->bound[id].freed = place(m);
    take_number(m, id);
    if (is_single(m) ? dies != place(m) : dies == EBB_NONE)
        deviate(m, "when a buffer is freed", place(m), "frees");
}

ebb_buffer_t *ebb_match_buffer(ebb_t *ebb, uint32_t id)
{
    match_t *m = match_of(ebb);
    return m->bound[id].generation ? m->seen.buffer[id] : NULL;
}

bool ebb_match_take_strayed(ebb_t *ebb, uint32_t id)
{
    match_t *m = match_of(ebb);
    const bool strayed = m->bound[id].strayed;
    m->bound[id].strayed = false;
    return strayed;
}

/* ---- operations ---- */

/* As good as the recorded size: the same, or that of a small buffer with as many tiles. */
static bool is_of_size(const match_t *m, const ebb_buffer_t *b, uint32_t id)
{
    const size_t recorded = trace(m)->buffer[id].bytes;
    return b->bytes == recorded || (b->bytes <= EBB_SMALL_BYTES && recorded <= EBB_SMALL_BYTES &&
                                    ebb_tile_count(b->bytes) == ebb_tile_count(recorded));
}

/* `resized`: as far as order goes. */
static bool fits(const match_t *m, const ebb_operation_t *op, uint32_t index, bool resized)
{
    if (index == EBB_NONE || !ebb_record_is_like(m->seen.learned, index, op) ||
        (!resized && ebb_record_difference(m->seen.learned, index, op)))
        return false;
    const ebb_trace_access_t *a = &trace(m)->access[trace(m)->operation[index].first_access];
    for (uint32_t k = 0; k < op->access_count; k++) {
        const ebb_access_t *x = &op->access[k];
        if (a[k].param_offset != x->param_offset || !can_bind(m, x->buffer, a[k].buffer) ||
            (!resized && (a[k].offset_bytes != x->offset_bytes || !is_of_size(m, x->buffer, a[k].buffer))))
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
    const ebb_trace_operation_t *o = &trace(m)->operation[index];
    const ebb_access_t *x = &op->access[access];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &trace(m)->access[k];
        if (a->param_offset == x->param_offset)
            return a->offset_bytes == x->offset_bytes && can_bind(m, x->buffer, a->buffer) ? k : EBB_NONE;
    }
    return EBB_NONE;
}

/* The same launch, most of whose words lead to the same: others are perhaps not filled in (tracker.h). */
static bool resembles(const match_t *m, const ebb_operation_t *op, uint32_t index)
{
    uint32_t same = 0;
    if (index == EBB_NONE || op->kind != EBB_KERNEL || !op->structures ||
        ebb_record_other_launch(m->seen.learned, index, op))
        return false;
    for (uint32_t k = 0; k < op->access_count; k++)
        same += recorded_as(m, op, k, index) != EBB_NONE;
    return same && 2 * same >= trace(m)->operation[index].access_count;
}

/* Of another size, or on other buffers. */
static bool is_in_its_place(const match_t *m, const ebb_operation_t *op, uint32_t index)
{
    return index != EBB_NONE &&
           (ebb_record_is_like(m->seen.learned, index, op) ||
            (op->structures && !ebb_record_other_launch(m->seen.learned, index, op)));
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
    if (resembles(m, op, at))
        return at;
    uint32_t i = at;
    for (unsigned n = 0; n < LOOK && i != EBB_NONE; n++) {
        i = m->next[i];
        if (fits(m, op, i, false)) {
            m->candidate[s] = m->next[i];
            return EBB_NONE;
        }
    }
    return is_in_its_place(m, op, at) ? at : EBB_NONE;
}

void ebb_match_operation(ebb_t *ebb, const ebb_operation_t *op)
{
    match_t *m = match_of(ebb);
    const uint32_t s = number_of_stream(m, op->stream);
    uint32_t at = EBB_NONE;
    if (m->seen.known && s < m->seen.learned->stream_count) {
        m->candidate_before = m->candidate[s];
        at = find(m, op, s);
    }
    m->seen.at = at;
    m->seen.match = at == EBB_NONE ? EBB_MATCH_EXTRA : m->seen.match;
    m->seen.matches = m->seen.match == EBB_MATCH_EXACT && at >= m->seen.cursor;
    const bool in_order = m->seen.match == EBB_MATCH_EXACT || (at != EBB_NONE && fits(m, op, at, true));
    for (uint32_t k = 0; at != EBB_NONE && k < op->access_count; k++) {
        const uint32_t as =
            in_order ? trace(m)->operation[at].first_access + k : recorded_as(m, op, k, at);
        if (as != EBB_NONE)
            bind(m, op->access[k].buffer, trace(m)->access[as].buffer);
    }
}

/* What it touches may be another content behind it. */
static void note_strayed(match_t *m, const ebb_operation_t *op)
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
            differ(m, "out of memory", place(m), "operations");
    }
}

static void note_stray(match_t *m, const ebb_operation_t *op, uint32_t at)
{
    const bool known = at != EBB_NONE;
    const uint32_t operation = known ? at : trace(m)->operation_count;
    if (op->opaque)
        differ(m, "an operation that cannot be read", operation, "?");
    note_strayed(m, op);
    const char *what = known ? ebb_record_difference(m->seen.learned, at, op) : "another operation";
    deviate(m, what ? what : "the buffers that an operation touches", operation,
            known ? trace(m)->operation[at].name : "the end");
}

void ebb_match_issued(ebb_t *ebb, const ebb_operation_t *op)
{
    match_t *m = match_of(ebb);
    const uint32_t s = number_of_stream(m, op->stream), at = m->seen.at;
    if (at == EBB_NONE) {
        note_stray(m, op, s < m->seen.learned->stream_count ? m->cursor[s] : EBB_NONE);
        m->seen.known &= ++m->strays <= STRAYS;
        return;
    }
    for (; m->cursor[s] != at; m->cursor[s] = m->next[m->cursor[s]], m->missing++)
        deviate(m, "an operation that is left out", m->cursor[s],
                trace(m)->operation[m->cursor[s]].name);
    m->cursor[s] = m->next[at];
    m->candidate[s] = EBB_NONE;
    m->strays = 0;
    if (at >= m->seen.cursor)
        m->seen.cursor = at + 1;
    if (m->seen.match == EBB_MATCH_PARTIAL)
        note_strayed(m, op); /* its effects are not known */
    if (m->seen.match == EBB_MATCH_PARTIAL && !fits(m, op, at, true) && !resembles(m, op, at)) {
        deviate(m, "the buffers that an operation touches", at, trace(m)->operation[at].name);
        deviate(m, "an operation that is left out", at, trace(m)->operation[at].name);
        m->missing++;
    }
}

void ebb_match_not_issued(ebb_t *ebb, const ebb_operation_t *op)
{
    match_t *m = match_of(ebb);
    const uint32_t s = number_of_stream(m, op->stream);
    if (m->seen.known && s < m->seen.learned->stream_count)
        m->candidate[s] = m->candidate_before;
}

uint32_t ebb_match_next(ebb_t *ebb, uint32_t operation)
{
    return match_of(ebb)->next[operation];
}

/* ---- begin and end of a step ---- */

static bool is_over(const match_t *m)
{
    for (uint32_t s = 0; s < EBB_RECORD_STREAMS; s++)
        if (m->cursor[s] != EBB_NONE)
            return false;
    return true;
}

bool ebb_match_begins(ebb_t *ebb, const ebb_operation_t *op)
{
    const match_t *m = match_of(ebb);
    const uint32_t s = number_of_stream(m, op->stream);
    return m->seen.known && is_over(m) && s < m->seen.learned->stream_count &&
           is_in_its_place(m, op, m->first[s]);
}

/* What is missing at the end of the step. */
static void end_step(match_t *m)
{
    const ebb_trace_t *t = trace(m);
    uint32_t born = 0;
    if (m->ended || m->difference[0])
        return;
    m->ended = true;
    for (uint32_t s = 0; s < EBB_RECORD_STREAMS; s++)
        for (uint32_t i = m->cursor[s]; i != EBB_NONE; i = m->next[i], m->missing++)
            deviate(m, "the number of operations", i, "the end");
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        born += t->buffer[i].born != EBB_NONE;
        if (m->bound[i].generation && t->buffer[i].dies != EBB_NONE && m->bound[i].freed == EBB_NONE)
            deviate(m, "a buffer that is not freed", t->buffer[i].dies, "frees");
    }
    if (born != m->allocations)
        deviate(m, "the number of allocations", t->operation_count, "the end");
}

const char *ebb_match_difference(ebb_t *ebb, bool whole)
{
    match_t *m = match_of(ebb);
    if (whole)
        end_step(m);
    return m->difference[0] ? m->difference : NULL;
}

uint32_t ebb_match_missing(ebb_t *ebb)
{
    return match_of(ebb)->missing;
}

void ebb_match_note_next(ebb_t *ebb)
{
    const match_t *m = match_of(ebb);
    ebb_trace_t *t = trace(m);
    for (uint32_t id = 0; id < t->buffer_count; id++) {
        const uint64_t generation = m->bound[id].generation;
        const uint32_t as = generation && t->buffer[id].born == EBB_NONE ? left_as(m, generation) : id;
        /* What is freed in the recorded step, and was not in the last one, is nothing in the next. */
        if (as != id && as != EBB_NONE && t->buffer[as].dies == EBB_NONE)
            t->buffer[as].next = id;
    }
    for (uint32_t id = 0; id < t->buffer_count; id++)
        if (t->buffer[id].bytes < m->bound[id].bytes && m->bound[id].bytes <= EBB_SMALL_BYTES &&
            ebb_tile_count(t->buffer[id].bytes) == ebb_tile_count(m->bound[id].bytes))
            t->buffer[id].bytes = m->bound[id].bytes;
}

/* A step that was followed to its end says what it has left behind. */
static bool settle(match_t *m)
{
    const bool whole = m->seen.known && m->seen.cursor == trace(m)->operation_count;
    if (whole)
        end_step(m);
    for (uint32_t id = 0; whole && !m->difference[0] && id < trace(m)->buffer_count; id++)
        if (m->bound[id].generation)
            m->seen.learned->left[id] = m->bound[id].freed == EBB_NONE ? m->bound[id].generation : 0;
    return whole;
}

/* What was this in the last step is that in the next. */
static void renumber(match_t *m, bool behind_another)
{
    for (uint32_t i = 0; i < trace(m)->buffer_count; i++) {
        m->successor[i] = behind_another ? m->seen.buffer[i] : NULL;
        if (!persists(m, i))
            take_number(m, i);
    }
    for (uint32_t i = 0; i < trace(m)->buffer_count; i++) {
        const uint32_t next = trace(m)->buffer[i].next;
        if (m->successor[i] && next != EBB_NONE && next != i && !m->seen.buffer[next])
            give_number(m, m->successor[i], next);
    }
}

/* What was allocated behind the last operation is the next step's. */
static void keep_newest(match_t *m)
{
    const ebb_table_t old = m->arrivals;
    const arrival_t *e = old.at;
    bool added;
    m->arrivals = (ebb_table_t){0};
    m->allocations = 0;
    for (size_t i = 0; i < old.room; i++)
        if (e[i].generation && e[i].born == trace(m)->operation_count) {
            arrival_t *kept = ebb_table_add(&m->arrivals, sizeof *kept, e[i].generation, &added);
            m->allocations += kept != NULL;
        }
    free(old.at);
}

/* At the beginning of a step, but for numbers. */
static void reset(match_t *m)
{
    for (uint32_t id = 0; id < trace(m)->buffer_count; id++)
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
    m->seen.paused = false;
}

void ebb_match_begin_step(ebb_t *ebb)
{
    match_t *m = match_of(ebb);
    renumber(m, settle(m));
    keep_newest(m);
    reset(m);
    m->seen.step++;
}

bool ebb_match_is_fresh(ebb_t *ebb)
{
    const match_t *m = match_of(ebb);
    return m->seen.known && !m->seen.cursor && !m->deviations && !m->seen.resumed;
}

void ebb_match_find_persistent(ebb_t *ebb)
{
    match_t *m = match_of(ebb);
    for (uint32_t i = 0; i < trace(m)->buffer_count; i++) {
        ebb_buffer_t *b = persists(m, i) && !m->seen.buffer[i]
                              ? ebb_buffer_at(ebb, m->seen.learned->address[i])
                              : NULL;
        if (b && !b->number && b->generation == m->seen.learned->generation[i] &&
            (b->pinned != 0) == trace(m)->buffer[i].pinned)
            give_number(m, b, i);
    }
}

void ebb_match_resume(ebb_t *ebb, ebb_buffer_t *const *buffer, uint32_t cursor)
{
    match_t *m = match_of(ebb);
    reset(m);
    for (uint32_t i = 0; i < trace(m)->buffer_count; i++)
        if (buffer[i])
            bind(m, buffer[i], i);
    for (uint32_t s = 0; s < EBB_RECORD_STREAMS; s++)
        while (m->cursor[s] < cursor)
            m->cursor[s] = m->next[m->cursor[s]];
    m->seen.cursor = cursor;
    m->seen.resumed = true;
}

void ebb_match_forget_numbers(ebb_t *ebb)
{
    match_t *m = match_of(ebb);
    for (uint32_t i = 0; i < trace(m)->buffer_count; i++)
        take_number(m, i);
}

static void link_streams(match_t *m)
{
    const ebb_trace_t *t = trace(m);
    memset(m->first, 0xff, sizeof m->first);
    for (uint32_t i = t->operation_count; i-- > 0;) {
        const uint32_t s = t->operation[i].stream;
        m->next[i] = m->first[s];
        m->first[s] = i;
    }
}

bool ebb_match_open(ebb_t *ebb, ebb_recording_t *learned)
{
    match_t *m = match_of(ebb);
    const ebb_trace_t *t = learned->trace;
    m->next = calloc((size_t)t->operation_count + 1, sizeof *m->next);
    m->bound = calloc((size_t)t->buffer_count + 1, sizeof *m->bound);
    m->successor = calloc((size_t)t->buffer_count + 1, sizeof(ebb_buffer_t *));
    m->seen.buffer = calloc((size_t)t->buffer_count + 1, sizeof(ebb_buffer_t *));
    m->seen.learned = learned;
    if (!t->operation_count || !m->next || !m->bound || !m->successor || !m->seen.buffer ||
        !ebb_uses_make(&m->seen.uses, t)) {
        ebb_match_close(ebb);
        return false;
    }
    link_streams(m);
    reset(m);
    return true;
}

void ebb_match_close(ebb_t *ebb)
{
    match_t *m = match_of(ebb);
    if (m->seen.learned && m->bound && m->seen.buffer) {
        settle(m);
        ebb_match_forget_numbers(ebb);
    }
    free(m->next);
    free(m->bound);
    free(m->successor);
    free(m->seen.buffer);
    free(m->arrivals.at);
    ebb_uses_free(&m->seen.uses);
    *m = (match_t){.seen = {.learned = NULL}};
}

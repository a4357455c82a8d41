#include "ckpt/run/tracker/tracker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/state.h"

/* A buffer of this step, by its generation. */
typedef struct entry {
    uint64_t generation;
    uint32_t born; /* before which operation; EBB_NONE: it was there */
    uint32_t id;   /* of the recording; EBB_NONE: not touched yet */
    bool strayed;  /* an operation that was not recorded has touched it before */
} entry_t;

/* Operations that are looked at when some were left out. */
enum { LOOK = 64 };

struct ebb_match {
    const ebb_recording_t *recorded;
    const uint64_t *left;                   /* of profiling passes: what the last step has left behind */
    uint32_t *next;                         /* [operations] on the same stream */
    uint32_t cursor[EBB_RECORD_STREAMS];    /* per stream: the one to come */
    uint32_t candidate[EBB_RECORD_STREAMS]; /* where it goes on if some were left out; EBB_NONE */
    uint32_t allocations, missing, deviations;
    ebb_buffer_t **buffer; /* [buffers], valid while it is alive */
    uint64_t *generation;  /* [buffers] bound; 0: none */
    uint32_t *freed;       /* [buffers] before which operation; EBB_NONE: it was not */
    bool *strayed;         /* [buffers] */
    uint64_t *bytes;       /* [buffers] the most so far */
    bool resized; /* the operation matched last, or one of its buffers, has another size than recorded */
    bool partial; /* some of its words lead elsewhere */
    ebb_table_t entries; /* entry_t */
    char first[256];     /* deviation */
    char difference[256];
};
const size_t ebb_part_match = sizeof(struct ebb_match);

static const ebb_trace_t *trace(struct ebb_match *match)
{
    return match->recorded->trace;
}

static void differ(struct ebb_match *match, const char *what, uint32_t operation, const char *name)
{
    if (!match->difference[0])
        snprintf(match->difference, sizeof match->difference, "%s, at operation %u (%.120s)", what, operation,
                 name);
}

/* Something that steps of one kind may differ in, if it does not happen too often. */
static void deviate(struct ebb_match *match, const char *what, uint32_t operation, const char *name)
{
    if (!match->first[0])
        snprintf(match->first, sizeof match->first, "%s, at operation %u (%.120s)", what, operation, name);
    if (8 * ++match->deviations > trace(match)->operation_count + 16 && !match->difference[0])
        memcpy(match->difference, match->first, sizeof match->difference);
}

/* ---- buffers ---- */

static entry_t *entry_of(struct ebb_match *match, const ebb_buffer_t *b)
{
    bool added;
    entry_t *e = ebb_table_add(&match->entries, sizeof *e, b->generation, &added);
    if (e && added)
        e->born = e->id = EBB_NONE;
    return e;
}

/* Where allocations and frees are now; without meaning where there are several streams. */
static uint32_t place(struct ebb_match *match)
{
    return match->cursor[0] == EBB_NONE ? trace(match)->operation_count : match->cursor[0];
}

static bool is_single(struct ebb_match *match)
{
    return match->recorded->stream_count <= 1;
}

void ebb_match_allocated(const ebb_buffer_t *b)
{
    ebb_t *ebb = b->range->device->ebb;
    struct ebb_match *match = ebb->run->match;
    entry_t *e = entry_of(match, b);
    match->allocations++;
    if (e)
        e->born = place(match);
    else
        differ(match, "out of memory", place(match), "allocations");
}

/* What the last step has left behind under a number. EBB_NONE: nothing of that generation. */
static uint32_t left_as(struct ebb_match *match, uint64_t generation)
{
    uint32_t id = 0;
    while (id < trace(match)->buffer_count && match->left[id] != generation)
        id++;
    return id < trace(match)->buffer_count ? id : EBB_NONE;
}

/* Whether a buffer that is older than the step may be the one of this number: the same as recorded; or what the step
 * before has left behind, always the same of it; or one that dies in the step, from whichever step it is. */
static bool may_have_entered(struct ebb_match *match, const ebb_buffer_t *b, uint32_t id)
{
    if (b->generation == match->recorded->generation[id])
        return true;
    const uint32_t as = left_as(match, b->generation);
    if (as == EBB_NONE)
        return trace(match)->buffer[id].dies != EBB_NONE;
    const uint32_t next = trace(match)->buffer[as].next;
    return next == EBB_NONE || next == id || next == as;
}

/* As good as the recorded size: the same, or that of a small buffer with as many tiles. */
static bool is_of_size(struct ebb_match *match, const ebb_buffer_t *b, uint32_t id)
{
    const size_t recorded = trace(match)->buffer[id].bytes;
    return b->bytes == recorded || (b->bytes <= EBB_SMALL_BYTES && recorded <= EBB_SMALL_BYTES &&
                                    ebb_tile_count(b->bytes) == ebb_tile_count(recorded));
}

static bool can_bind(struct ebb_match *match, const ebb_buffer_t *b, uint32_t id)
{
    const entry_t *e = entry_of(match, b);
    const ebb_trace_buffer_t *recorded = &trace(match)->buffer[id];
    if (!e || (b->pinned != 0) != recorded->pinned || (e->id != EBB_NONE && e->id != id) ||
        (match->generation[id] && match->generation[id] != b->generation))
        return false;
    if (e->id == id)
        return true;
    const bool born = recorded->born != EBB_NONE;
    return born == (e->born != EBB_NONE) && (born || may_have_entered(match, b, id));
}

static void bind(struct ebb_match *match, ebb_buffer_t *b, uint32_t id)
{
    entry_t *e = entry_of(match, b);
    if (e->id == id)
        return;
    if (e->born != EBB_NONE && is_single(match) && e->born != trace(match)->buffer[id].born)
        deviate(match, "when a buffer is allocated", trace(match)->buffer[id].born, "allocations");
    e->id = id;
    match->strayed[id] |= e->strayed;
    match->generation[id] = b->generation;
    match->buffer[id] = b;
    if (b->bytes > match->bytes[id])
        match->bytes[id] = b->bytes;
}

/* One that the step frees without ever touching it. */
static void bind_freed(struct ebb_match *match, ebb_buffer_t *b)
{
    for (uint32_t id = 0; id < trace(match)->buffer_count; id++) {
        const ebb_trace_buffer_t *t = &trace(match)->buffer[id];
        if (t->born == EBB_NONE && t->dies != EBB_NONE && !match->generation[id] && t->bytes == b->bytes &&
            (!is_single(match) || t->dies == place(match)) && can_bind(match, b, id)) {
            bind(match, b, id);
            return;
        }
    }
}

void ebb_match_freed(ebb_buffer_t *b)
{
    ebb_t *ebb = b->range->device->ebb;
    struct ebb_match *match = ebb->run->match;
    entry_t *e = entry_of(match, b);
    if (e && e->id == EBB_NONE && e->born == EBB_NONE) {
        bind_freed(match, b);
        e = entry_of(match, b); /* the table may have grown */
    }
    if (!e || e->id == EBB_NONE)
        return;
    const uint32_t dies = trace(match)->buffer[e->id].dies;
    match->freed[e->id] = place(match);
    match->buffer[e->id] = NULL;
    if (is_single(match) ? dies != place(match) : dies == EBB_NONE)
        deviate(match, "when a buffer is freed", place(match), "frees");
}

ebb_buffer_t *ebb_match_buffer(ebb_t *ebb, uint32_t id)
{
    struct ebb_match *match = ebb->run->match;
    return match->buffer[id];
}

bool ebb_match_take_strayed(ebb_t *ebb, uint32_t id)
{
    struct ebb_match *match = ebb->run->match;
    const bool strayed = match->strayed[id];
    match->strayed[id] = false;
    return strayed;
}

/* ---- operations ---- */

/* `resized`: as far as order goes. */
static bool fits(struct ebb_match *match, const ebb_operation_t *op, uint32_t index, bool resized)
{
    if (index == EBB_NONE || !ebb_record_is_like(match->recorded, index, op) ||
        (!resized && ebb_record_difference(match->recorded, index, op)))
        return false;
    const ebb_trace_access_t *a = &trace(match)->access[trace(match)->operation[index].first_access];
    for (uint32_t k = 0; k < op->access_count; k++) {
        const ebb_access_t *x = &op->access[k];
        if (a[k].param_offset != x->param_offset || !can_bind(match, x->buffer, a[k].buffer) ||
            (!resized &&
             (a[k].offset_bytes != x->offset_bytes || !is_of_size(match, x->buffer, a[k].buffer))))
            return false;
        for (uint32_t m = 0; m < k; m++)
            if ((a[m].buffer == a[k].buffer) != (op->access[m].buffer == op->access[k].buffer))
                return false;
    }
    return true;
}

/* What this access of the operation is in a recorded one, if their words are the same and lead to what may be the same; EBB_NONE: nothing. */
static uint32_t recorded_as(struct ebb_match *match, const ebb_operation_t *op, uint32_t access,
                            uint32_t index)
{
    const ebb_trace_operation_t *o = &trace(match)->operation[index];
    const ebb_access_t *x = &op->access[access];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &trace(match)->access[k];
        if (a->param_offset == x->param_offset)
            return a->offset_bytes == x->offset_bytes && can_bind(match, x->buffer, a->buffer) ? k : EBB_NONE;
    }
    return EBB_NONE;
}

/* The same launch, most of whose words lead to the same: others are perhaps not filled in (tracker.h). As far as order goes it is
 * the recorded one. */
static bool resembles(struct ebb_match *match, const ebb_operation_t *op, uint32_t index)
{
    uint32_t same = 0;
    if (index == EBB_NONE || op->kind != EBB_KERNEL || !op->structures ||
        ebb_record_other_launch(match->recorded, index, op))
        return false;
    for (uint32_t k = 0; k < op->access_count; k++)
        same += recorded_as(match, op, k, index) != EBB_NONE;
    return same && 2 * same >= trace(match)->operation[index].access_count;
}

static uint32_t number_of_stream(struct ebb_match *match, const ebb_stream_t *stream)
{
    uint32_t s = 0;
    while (s < match->recorded->stream_count && match->recorded->streams[s] != stream)
        s++;
    return s;
}

/* It is not the one to come: its number, if the one before it and this one continue the step further on. */
static uint32_t look_further(struct ebb_match *match, const ebb_operation_t *op, uint32_t s)
{
    const uint32_t candidate = match->candidate[s];
    match->candidate[s] = EBB_NONE;
    if (fits(match, op, candidate, false))
        return candidate;
    match->partial = resembles(match, op, match->cursor[s]);
    if (match->partial)
        return match->cursor[s];
    uint32_t i = match->cursor[s];
    for (unsigned n = 0; n < LOOK && i != EBB_NONE; n++) {
        i = match->next[i];
        if (fits(match, op, i, false)) {
            match->candidate[s] = match->next[i];
            return EBB_NONE;
        }
    }
    match->resized = fits(match, op, match->cursor[s], true);
    return match->resized ? match->cursor[s] : EBB_NONE;
}

/* What it touches may be another content behind it. */
static void note_strayed(struct ebb_match *match, const ebb_operation_t *op)
{
    for (uint32_t k = 0; k < op->access_count; k++) {
        entry_t *e = entry_of(match, op->access[k].buffer);
        if (e && e->id == EBB_NONE)
            e->strayed = true;
        else if (e)
            match->strayed[e->id] = true;
    }
}

static void note_stray(struct ebb_match *match, const ebb_operation_t *op, uint32_t at)
{
    const bool known = at != EBB_NONE;
    if (op->opaque)
        differ(match, "an operation that cannot be read", known ? at : trace(match)->operation_count, "?");
    note_strayed(match, op);
    const char *what = known ? ebb_record_difference(match->recorded, at, op) : "another operation";
    deviate(match, what ? what : "the buffers that an operation touches",
            known ? at : trace(match)->operation_count, known ? trace(match)->operation[at].name : "the end");
}

uint32_t ebb_match_operation(ebb_t *ebb, const ebb_operation_t *op)
{
    struct ebb_match *match = ebb->run->match;
    const uint32_t s = number_of_stream(match, op->stream);
    const bool known = s < match->recorded->stream_count;
    if (match->difference[0])
        return EBB_NONE;
    uint32_t i = known ? match->cursor[s] : EBB_NONE;
    match->resized = match->partial = false;
    if (known && !fits(match, op, i, false))
        i = look_further(match, op, s);
    if (i == EBB_NONE) {
        note_stray(match, op, known ? match->cursor[s] : EBB_NONE);
        return EBB_NONE;
    }
    match->candidate[s] = EBB_NONE;
    for (; match->cursor[s] != i; match->cursor[s] = match->next[match->cursor[s]], match->missing++)
        deviate(match, "an operation that is left out", match->cursor[s],
                trace(match)->operation[match->cursor[s]].name);
    for (uint32_t k = 0; k < op->access_count; k++) {
        const uint32_t as =
            match->partial ? recorded_as(match, op, k, i) : trace(match)->operation[i].first_access + k;
        if (as != EBB_NONE)
            bind(match, op->access[k].buffer, trace(match)->access[as].buffer);
    }
    if (match->resized || match->partial)
        note_strayed(match, op); /* its effects are not known */
    return match->difference[0] ? EBB_NONE : i;
}

bool ebb_match_is_resized(ebb_t *ebb)
{
    struct ebb_match *match = ebb->run->match;
    return match->resized || match->partial;
}

void ebb_match_advance(ebb_t *ebb, uint32_t operation)
{
    struct ebb_match *match = ebb->run->match;
    match->cursor[trace(match)->operation[operation].stream] = match->next[operation];
}

uint32_t ebb_match_next(ebb_t *ebb, uint32_t operation)
{
    struct ebb_match *match = ebb->run->match;
    return match->next[operation];
}

const char *ebb_match_difference(ebb_t *ebb, bool whole)
{
    struct ebb_match *match = ebb->run->match;
    const ebb_trace_t *t = trace(match);
    uint32_t born = 0;
    if (match->difference[0] || !whole)
        return match->difference[0] ? match->difference : NULL;
    for (uint32_t s = 0; s < match->recorded->stream_count; s++)
        for (uint32_t i = match->cursor[s]; i != EBB_NONE; i = match->next[i], match->missing++)
            deviate(match, "the number of operations", i, "the end");
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        born += t->buffer[i].born != EBB_NONE;
        if (match->generation[i] && t->buffer[i].dies != EBB_NONE && match->freed[i] == EBB_NONE)
            deviate(match, "a buffer that is not freed", t->buffer[i].dies, "frees");
    }
    if (born != match->allocations)
        deviate(match, "the number of allocations", t->operation_count, "the end");
    return match->difference[0] ? match->difference : NULL;
}

uint32_t ebb_match_missing(ebb_t *ebb)
{
    struct ebb_match *match = ebb->run->match;
    return match->missing;
}

/* ---- what outlives the step ---- */

void ebb_match_note_left(ebb_t *ebb, ebb_trace_t *t, uint64_t *left)
{
    struct ebb_match *match = ebb->run->match;
    for (uint32_t id = 0; id < t->buffer_count; id++) {
        const uint64_t generation = match->generation[id];
        const uint32_t as = generation && t->buffer[id].born == EBB_NONE ? left_as(match, generation) : id;
        /* What is freed in the recorded step, and was not in the last one, is nothing in the next. */
        if (as != id && as != EBB_NONE && t->buffer[as].dies == EBB_NONE)
            t->buffer[as].next = id;
    }
    for (uint32_t id = 0; id < t->buffer_count; id++) {
        if (t->buffer[id].bytes < match->bytes[id] && match->bytes[id] <= EBB_SMALL_BYTES &&
            ebb_tile_count(t->buffer[id].bytes) == ebb_tile_count(match->bytes[id]))
            t->buffer[id].bytes = match->bytes[id];
        if (match->generation[id])
            left[id] = match->freed[id] == EBB_NONE ? match->generation[id] : 0;
    }
}

/* ---- begin and end ---- */

static void link_streams(struct ebb_match *match)
{
    const ebb_trace_t *t = trace(match);
    for (uint32_t s = 0; s < EBB_RECORD_STREAMS; s++)
        match->cursor[s] = match->candidate[s] = EBB_NONE;
    for (uint32_t i = t->operation_count; i-- > 0;) {
        uint32_t s = t->operation[i].stream;
        match->next[i] = match->cursor[s];
        match->cursor[s] = i;
    }
}

bool ebb_match_begin(ebb_t *ebb, const ebb_recording_t *recorded, const uint64_t *left)
{
    struct ebb_match *match = ebb->run->match;
    const ebb_trace_t *t = recorded->trace;
    ebb_match_end(ebb);
    match->recorded = recorded;
    match->left = left;
    match->next = calloc((size_t)t->operation_count + 1, sizeof *match->next);
    match->buffer = calloc((size_t)t->buffer_count + 1, sizeof(ebb_buffer_t *));
    match->generation = calloc((size_t)t->buffer_count + 1, sizeof *match->generation);
    match->freed = calloc((size_t)t->buffer_count + 1, sizeof *match->freed);
    match->strayed = calloc((size_t)t->buffer_count + 1, sizeof *match->strayed);
    match->bytes = calloc((size_t)t->buffer_count + 1, sizeof *match->bytes);
    if (!match->next || !match->buffer || !match->generation || !match->freed || !match->strayed ||
        !match->bytes) {
        ebb_match_end(ebb);
        return false;
    }
    memset(match->freed, 0xff, ((size_t)t->buffer_count + 1) * sizeof *match->freed);
    link_streams(match);
    return true;
}

void ebb_match_end(ebb_t *ebb)
{
    struct ebb_match *match = ebb->run->match;
    free(match->next);
    free(match->buffer);
    free(match->generation);
    free(match->freed);
    free(match->strayed);
    free(match->bytes);
    free(match->entries.at);
    memset(match, 0, sizeof *match);
}

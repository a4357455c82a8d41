/* checker.c: what can be seen of a plan without walking through it, and the way in; see checker.h,
 * internal.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/checker/internal.h"

enum { MOST = 1 << 29 /* of anything */, GRAIN = 512 };
#define MOST_BYTES   (UINT64_C(1) << 50) /* of a buffer */
#define ENOUGH_BYTES (UINT64_C(1) << 60) /* where sums stop, lest they overflow */

typedef struct check {
    const ebb_trace_t *trace;
    const ebb_plan_t *plan;
    const ebb_check_limits_t *limits;
    char *why;
    size_t why_bytes;
    uint32_t streams; /* the program's */
} check_t;

#define WORD(name, word) word,
const char *const ebb_fault_word[EBB_FAULT_KINDS] = {EBB_FAULTS(WORD)};
#undef WORD

static void say(const check_t *c, ebb_fault_t fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(const check_t *c, ebb_fault_t fault, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = snprintf(c->why, c->why_bytes, "%s: ", ebb_fault_word[fault]);
    if (n > 0 && (size_t)n < c->why_bytes)
        vsnprintf(c->why + n, c->why_bytes - (size_t)n, format, args);
    va_end(args);
}

/* False, and says why. A macro: what reads the code one function at a time sees that it is false. */
#define fails(...) (say(__VA_ARGS__), false)

static uint64_t chunks_for(const check_t *c, uint64_t bytes)
{
    return (bytes + c->plan->chunk_bytes - 1) / c->plan->chunk_bytes;
}

/* ---- the trace ---- */

/* Buffers that outlive the step as others: each that is older than the step is what exactly one was in the step before, and of
 * the same size. */
static bool check_next(const check_t *c, uint32_t index, uint32_t *from)
{
    const ebb_trace_buffer_t *b = &c->trace->buffer[index];
    if (b->dies != EBB_NONE || !is_large(c->trace, index))
        return true;
    const uint32_t next = ebb_trace_next(c->trace, index);
    if (next == EBB_NONE)
        return fails(c, EBB_FAULT_FORM, "buffer %u outlives the step, and nothing in the next one is it",
                     index);
    if (from[next]++)
        return fails(c, EBB_FAULT_FORM, "two buffers are buffer %u in the next step", next);
    return c->trace->buffer[next].bytes == b->bytes ||
           fails(c, EBB_FAULT_FORM, "buffer %u is buffer %u in the next step, which is not as large", index,
                 next);
}

static bool check_rings(const check_t *c)
{
    const ebb_trace_t *t = c->trace;
    uint32_t *from = calloc((size_t)t->buffer_count + 1, sizeof *from);
    bool good = from || fails(c, EBB_FAULT_MEMORY, "no memory");
    for (uint32_t i = 0; good && i < t->buffer_count; i++)
        good = check_next(c, i, from);
    for (uint32_t i = 0; good && i < t->buffer_count; i++)
        good = t->buffer[i].born != EBB_NONE || from[i] || !is_large(t, i) ||
               fails(c, EBB_FAULT_FORM,
                     "buffer %u is older than the step, and nothing in the one before was it", i);
    free(from);
    return good;
}

static bool check_trace(const check_t *c)
{
    const ebb_trace_t *t = c->trace;
    const char *wrong = ebb_trace_check(t);
    if (wrong)
        return fails(c, EBB_FAULT_FORM, "the trace: %s", wrong);
    if (t->operation_count > MOST || t->buffer_count > MOST || t->access_count > MOST)
        return fails(c, EBB_FAULT_FORM, "the trace is too long");
    if (c->streams > EBB_PLAN_STREAMS)
        return fails(c, EBB_FAULT_FORM, "the trace is of %u streams, of %d at most a plan can be", c->streams,
                     EBB_PLAN_STREAMS);
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *b = &t->buffer[i];
        if (b->bytes > MOST_BYTES)
            return fails(c, EBB_FAULT_FORM, "buffer %u is too large", i);
        if (b->pinned)
            return fails(c, EBB_FAULT_FORM, "buffer %u must stay where it is", i);
    }
    return check_rings(c);
}

/* ---- places ---- */

static bool is_kept(const ebb_trace_t *t, uint32_t place)
{
    return place < t->buffer_count && t->buffer[place].kept;
}

static bool check_start(const check_t *c, uint32_t index)
{
    const ebb_place_t *p = &c->plan->place[index];
    bool persists = index < c->plan->buffer_count && is_persistent(c->trace, index);
    if (!persists)
        return p->at_start == EBB_NOT_THERE ||
               fails(c, EBB_FAULT_FORM, "place %u is there when the step begins, which nothing outlives",
                     index);
    if (is_kept(c->trace, index) && p->at_start == EBB_ON_HOST)
        return fails(c, EBB_FAULT_KEPT, "buffer %u is to stay on the device", index);
    if (!is_large(c->trace, index))
        return p->at_start != EBB_ON_HOST || fails(c, EBB_FAULT_FORM, "small buffer %u on the host", index);
    return p->at_start == EBB_ON_DEVICE || p->at_start == EBB_ON_HOST ||
           fails(c, EBB_FAULT_FORM, "buffer %u is nowhere when the step begins", index);
}

static bool check_small_place(const check_t *c, uint32_t index)
{
    const ebb_place_t *p = &c->plan->place[index];
    const bool unplaced = ebb_trace_is_unplaced(c->trace, index);
    if (p->chunk_count)
        return fails(c, EBB_FAULT_FORM, "small buffer %u on chunks", index);
    if (unplaced != (p->small_offset == EBB_NONE))
        return fails(c, EBB_FAULT_FORM, "small buffer %u %s", index,
                     unplaced ? "outlives the step and lies in the small region" : "lies nowhere");
    if (!unplaced && (p->small_offset % GRAIN || p->small_offset + p->bytes > c->plan->small_bytes))
        return fails(c, EBB_FAULT_FORM, "small buffer %u at %u is not in the small region", index,
                     p->small_offset);
    return true;
}

/* `seen` [chunks]: the last place that had it, plus 1. */
static bool check_chunks(const check_t *c, uint32_t index, uint32_t *seen)
{
    const ebb_plan_t *plan = c->plan;
    const ebb_place_t *p = &plan->place[index];
    if (p->small_offset != EBB_NONE)
        return fails(c, EBB_FAULT_FORM, "large place %u in the small region", index);
    if (p->chunk_count != chunks_for(c, p->bytes) &&
        (p->chunk_count || index >= plan->buffer_count || p->at_start != EBB_ON_HOST ||
         ebb_trace_rotates(c->trace, index)))
        return fails(c, EBB_FAULT_FORM, "place %u of %" PRIu64 " bytes has %u chunks", index, p->bytes,
                     p->chunk_count);
    for (uint32_t i = 0; i < p->chunk_count; i++) {
        uint32_t chunk = plan->chunk[p->first_chunk + i];
        if (chunk >= plan->chunk_count)
            return fails(c, EBB_FAULT_FORM, "place %u lies on chunk %u of %u", index, chunk,
                         plan->chunk_count);
        if (seen[chunk] == index + 1)
            return fails(c, EBB_FAULT_FORM, "place %u has chunk %u twice", index, chunk);
        seen[chunk] = index + 1;
    }
    return true;
}

static bool check_until(const check_t *c, uint32_t index)
{
    const ebb_trace_buffer_t *b = &c->trace->buffer[index];
    const uint32_t until = c->plan->place[index].until;
    return until == EBB_NONE ||
           (b->born != EBB_NONE && b->dies != EBB_NONE && until >= b->dies &&
            until <= c->trace->operation_count) ||
           fails(c, EBB_FAULT_FORM, "the free of buffer %u cannot be put off until operation %u", index,
                 until);
}

static bool check_place(const check_t *c, uint32_t index, uint32_t *seen)
{
    const ebb_plan_t *plan = c->plan;
    const ebb_place_t *p = &plan->place[index];
    if (p->first_chunk > plan->chunk_index_count || p->chunk_count > plan->chunk_index_count - p->first_chunk)
        return fails(c, EBB_FAULT_FORM, "the chunks of place %u are not there", index);
    if (!p->bytes || p->bytes > MOST_BYTES || (unsigned)p->at_start > EBB_ON_HOST)
        return fails(c, EBB_FAULT_FORM, "place %u is no place", index);
    if (!check_start(c, index))
        return false;
    if (index >= plan->buffer_count)
        return check_chunks(c, index, seen);
    if (p->bytes != c->trace->buffer[index].bytes)
        return fails(c, EBB_FAULT_FORM, "place %u is not as large as its buffer", index);
    if (!check_until(c, index))
        return false;
    return is_large(c->trace, index) ? check_chunks(c, index, seen) : check_small_place(c, index);
}

static bool check_places(const check_t *c)
{
    const ebb_plan_t *p = c->plan;
    uint32_t *seen = calloc((size_t)p->chunk_count + 1, sizeof *seen);
    bool good = seen || fails(c, EBB_FAULT_MEMORY, "no memory");
    for (uint32_t i = 0; good && i < p->place_count; i++)
        good = check_place(c, i, seen);
    free(seen);
    for (uint32_t i = 0; good && i < c->trace->access_count; i++) {
        uint32_t b = c->trace->access[i].buffer;
        good = !is_large(c->trace, b) || p->place[b].chunk_count ||
               fails(c, EBB_FAULT_FORM, "buffer %u is used and has no chunks", b);
    }
    return good;
}

/* ---- the small region ---- */

/* Of a small buffer: no operation and no replay touches it, or those of one stream do (then its number), or of several. */
enum { UNTOUCHED = EBB_PLAN_STREAMS, TOUCHED_BY_SEVERAL };

static void note_streams(const facts_t *f, uint32_t operation, uint32_t stream, uint32_t *streams)
{
    for (uint32_t k = f->first_touch[operation]; k < f->first_touch[operation + 1]; k++) {
        uint32_t *of = &streams[f->touch[k].buffer];
        *of = *of == UNTOUCHED || *of == stream ? stream : TOUCHED_BY_SEVERAL;
    }
}

/* [buffers]; NULL: no memory. */
static uint32_t *streams_of_buffers(const check_t *c, const facts_t *f)
{
    uint32_t *streams = malloc(((size_t)c->trace->buffer_count + 1) * sizeof *streams);
    if (!streams)
        return NULL;
    for (uint32_t b = 0; b < c->trace->buffer_count; b++)
        streams[b] = UNTOUCHED;
    for (uint32_t i = 0; i < c->trace->operation_count; i++)
        note_streams(f, i, c->trace->operation[i].stream, streams);
    for (uint32_t i = 0; i < c->plan->action_count; i++)
        if (c->plan->action[i].kind == EBB_REPLAY)
            note_streams(f, c->plan->action[i].operation, c->plan->action[i].stream, streams);
    return streams;
}

/* A 512th byte of the region: which buffer lies there, plus 1, and which did last. */
typedef struct grain {
    uint32_t now, last;
} grain_t;

static bool move_small(const check_t *c, grain_t *grain, const uint32_t *streams, uint32_t buffer, bool in)
{
    const ebb_place_t *p = &c->plan->place[buffer];
    size_t first = p->small_offset / GRAIN, end = (p->small_offset + p->bytes + GRAIN - 1) / GRAIN;
    for (size_t i = first; i < end; i++) {
        if (in && grain[i].now)
            return fails(c, EBB_FAULT_SMALL, "small buffers %u and %u overlap while both are alive",
                         grain[i].now - 1, buffer);
        const uint32_t last = grain[i].last ? grain[i].last - 1 : buffer;
        if (in && last != buffer && streams[last] != UNTOUCHED && streams[buffer] != UNTOUCHED &&
            (streams[last] != streams[buffer] || streams[last] == TOUCHED_BY_SEVERAL))
            return fails(c, EBB_FAULT_SMALL,
                         "small buffer %u takes the place of %u, and they are used on several streams",
                         buffer, last);
        grain[i].now = in ? buffer + 1 : 0;
        grain[i].last = buffer + 1;
    }
    return true;
}

static bool check_small_region(const check_t *c, const facts_t *f)
{
    const ebb_trace_t *t = c->trace;
    uint64_t end = 0;
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (!is_large(t, b) && c->plan->place[b].small_offset != EBB_NONE &&
            c->plan->place[b].small_offset + t->buffer[b].bytes > end)
            end = c->plan->place[b].small_offset + t->buffer[b].bytes;
    grain_t *grain = calloc((size_t)(end / GRAIN) + 2, sizeof *grain);
    uint32_t *streams = streams_of_buffers(c, f);
    bool good = (grain && streams) || fails(c, EBB_FAULT_MEMORY, "no memory");
    for (uint32_t p = 0; good && p <= t->operation_count; p++) {
        for (uint32_t i = f->deaths.first[p]; i < f->deaths.first[p + 1]; i++) {
            uint32_t b = f->deaths.item[i];
            if (c->plan->place[b].small_offset != EBB_NONE && t->buffer[b].born < p)
                move_small(c, grain, streams, b, false);
        }
        for (uint32_t i = f->births.first[p]; good && i < f->births.first[p + 1]; i++) {
            uint32_t b = f->births.item[i];
            good = c->plan->place[b].small_offset == EBB_NONE || ebb_plan_dies(c->plan, t, b) == p ||
                   move_small(c, grain, streams, b, true);
        }
    }
    free(grain);
    free(streams);
    return good;
}

/* ---- budgets ---- */

static bool check_device(const check_t *c)
{
    const ebb_plan_t *p = c->plan;
    if (p->small_bytes % p->chunk_bytes || p->small_bytes > MOST_BYTES)
        return fails(c, EBB_FAULT_FORM, "the small region is not a number of chunks");
    uint64_t bytes = p->chunk_count * p->chunk_bytes + p->small_bytes;
    return bytes <= c->limits->device_bytes ||
           fails(c, EBB_FAULT_DEVICE, "%" PRIu64 " bytes on the device, where %" PRIu64 " may be", bytes,
                 c->limits->device_bytes);
}

/* A ring's buffers go through all its places. */
static void count_rings(const check_t *c, bool *counted)
{
    const ebb_trace_t *t = c->trace;
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t i = 0; i < t->buffer_count; i++) {
            const uint32_t next = is_large(t, i) && t->buffer[i].dies == EBB_NONE ? ebb_trace_next(t, i) : i;
            const bool any = counted[i] || counted[next] || c->plan->place[i].at_start == EBB_ON_HOST ||
                             c->plan->place[next].at_start == EBB_ON_HOST;
            if (next == i || !any || (counted[i] && counted[next]))
                continue;
            counted[i] = counted[next] = more = true;
        }
    }
}

/* One block for every place that is ever on the host. */
static bool check_host(const check_t *c)
{
    const ebb_plan_t *p = c->plan;
    uint64_t bytes = 0;
    bool *counted = calloc((size_t)p->place_count + 1, sizeof *counted);
    if (!counted)
        return fails(c, EBB_FAULT_MEMORY, "no memory");
    for (uint32_t i = 0; i < p->action_count; i++)
        if (p->action[i].kind == EBB_EVICT || p->action[i].kind == EBB_FETCH)
            counted[p->action[i].place] = true;
    count_rings(c, counted);
    for (uint32_t i = 0; i < p->place_count && bytes < MOST_BYTES; i++)
        bytes += counted[i] || p->place[i].at_start == EBB_ON_HOST ? p->place[i].bytes : 0;
    free(counted);
    return bytes <= c->limits->host_bytes ||
           fails(c, EBB_FAULT_HOST, "host blocks of %" PRIu64 " bytes, where %" PRIu64 " may be", bytes,
                 c->limits->host_bytes);
}

static uint64_t whole_chunks(const check_t *c, uint32_t buffer)
{
    return is_large(c->trace, buffer) ? chunks_for(c, c->trace->buffer[buffer].bytes) * c->plan->chunk_bytes
                                      : 0;
}

/* At this point, without the plan: everything alive must find room. */
static bool check_room(const check_t *c, const facts_t *f, uint32_t point, uint64_t *live)
{
    const uint32_t *dead = f->deaths.item, *born = f->births.item;
    const uint64_t device = c->limits->device_bytes, pinned = c->limits->host_bytes,
                   behind = c->limits->behind_bytes,
                   host = pinned < ENOUGH_BYTES && behind < ENOUGH_BYTES ? pinned + behind : ENOUGH_BYTES;
    for (uint32_t i = f->deaths.first[point]; i < f->deaths.first[point + 1]; i++)
        if (is_persistent(c->trace, dead[i]) || c->trace->buffer[dead[i]].born < point)
            *live -= whole_chunks(c, dead[i]);
    for (uint32_t i = f->births.first[point]; i < f->births.first[point + 1]; i++)
        if (ebb_plan_dies(c->plan, c->trace, born[i]) > point && *live < ENOUGH_BYTES)
            *live += whole_chunks(c, born[i]);
    return (*live < ENOUGH_BYTES && (*live <= device || *live - device <= host)) ||
           fails(c, EBB_FAULT_FALLBACK,
                 "point %u: %" PRIu64 " bytes are alive, more than device and host may hold", point, *live);
}

/* Without the plan: the operation's buffers must be on the device at once. */
static bool check_width(const check_t *c, const facts_t *f, uint32_t operation)
{
    uint64_t bytes = 0;
    for (uint32_t k = f->first_touch[operation]; k < f->first_touch[operation + 1] && bytes < ENOUGH_BYTES;
         k++)
        bytes += whole_chunks(c, f->touch[k].buffer);
    return bytes <= c->limits->device_bytes ||
           fails(c, EBB_FAULT_FALLBACK,
                 "operation %u touches %" PRIu64 " bytes at once, where %" PRIu64 " may be", operation, bytes,
                 c->limits->device_bytes);
}

static bool check_without_plan(const check_t *c, const facts_t *f)
{
    const ebb_trace_t *t = c->trace;
    uint64_t live = c->plan->small_bytes;
    for (uint32_t b = 0; b < t->buffer_count && live < ENOUGH_BYTES; b++)
        live += is_persistent(t, b) ? whole_chunks(c, b) : 0;
    bool good = true;
    for (uint32_t p = 0; good && p <= t->operation_count; p++)
        good = check_room(c, f, p, &live) && (p == t->operation_count || check_width(c, f, p));
    return good;
}

/* ---- actions ---- */

static bool check_copy(const check_t *c, uint32_t index)
{
    const ebb_plan_t *p = c->plan;
    const ebb_action_t *a = &p->action[index];
    if (a->operation != EBB_NONE || a->redirect_count)
        return fails(c, EBB_FAULT_FORM, "action %u: a copy launches nothing", index);
    if (a->join != EBB_NONE && a->join >= p->operation_count)
        return fails(c, EBB_FAULT_FORM, "action %u: joined at %u, which is no operation", index, a->join);
    if (a->first_wait > p->wait_count || a->wait_count > p->wait_count - a->first_wait)
        return fails(c, EBB_FAULT_FORM, "action %u: its waits are not there", index);
    for (uint32_t i = a->first_wait; i < a->first_wait + a->wait_count; i++) {
        uint32_t other = p->wait[i];
        if (other >= p->action_count ||
            (p->action[other].kind != EBB_EVICT && p->action[other].kind != EBB_FETCH))
            return fails(c, EBB_FAULT_FORM, "action %u: it waits for %u, which is no copy", index, other);
    }
    return true;
}

/* `place_of` [buffers]: where this replay's redirection leads, plus 1; zero on entry, left filled. */
static bool check_redirects(const check_t *c, uint32_t index, const facts_t *f, uint32_t *place_of)
{
    const ebb_plan_t *p = c->plan;
    const ebb_action_t *a = &p->action[index];
    const ebb_redirect_t *r = p->redirect + a->first_redirect;
    for (uint32_t i = 0; i < a->redirect_count; i++) {
        if (r[i].buffer >= p->buffer_count || r[i].place >= p->place_count)
            return fails(c, EBB_FAULT_FORM, "action %u: a redirection of what is not there", index);
        const ebb_place_t *place = &p->place[r[i].place];
        if (!place->chunk_count || place->bytes < c->trace->buffer[r[i].buffer].bytes)
            return fails(c, EBB_FAULT_FORM, "action %u: buffer %u redirected to place %u, which is too small",
                         index, r[i].buffer, r[i].place);
        if (place_of[r[i].buffer])
            return fails(c, EBB_FAULT_FORM, "action %u: buffer %u redirected twice", index, r[i].buffer);
        place_of[r[i].buffer] = r[i].place + 1;
    }
    uint32_t used = 0;
    for (uint32_t k = f->first_touch[a->operation]; k < f->first_touch[a->operation + 1]; k++)
        used += place_of[f->touch[k].buffer] != 0;
    return used == a->redirect_count ||
           fails(c, EBB_FAULT_FORM, "action %u: a redirection of a buffer that operation %u does not touch",
                 index, a->operation);
}

static bool check_replay(const check_t *c, uint32_t index, const facts_t *f, uint32_t *place_of)
{
    const ebb_plan_t *p = c->plan;
    const ebb_action_t *a = &p->action[index];
    if (a->place != EBB_NONE || a->join != EBB_NONE || a->wait_count)
        return fails(c, EBB_FAULT_FORM,
                     "action %u: a replay has no place of its own, and nothing waits for it", index);
    if (a->operation >= p->operation_count)
        return fails(c, EBB_FAULT_FORM, "action %u: a replay of no operation", index);
    if (a->first_redirect > p->redirect_count || a->redirect_count > p->redirect_count - a->first_redirect)
        return fails(c, EBB_FAULT_FORM, "action %u: its redirections are not there", index);
    bool good = check_redirects(c, index, f, place_of);
    for (uint32_t i = a->first_redirect; i < a->first_redirect + a->redirect_count; i++)
        if (p->redirect[i].buffer < p->buffer_count)
            place_of[p->redirect[i].buffer] = 0;
    return good;
}

/* Which stream is meant, where there are several streams; else it can be stream 0 only. */
static bool check_streams(const check_t *c, uint32_t index)
{
    const ebb_action_t *a = &c->plan->action[index];
    const uint32_t streams = c->streams, all = UINT32_MAX >> (EBB_PLAN_STREAMS - streams);
    const bool copies = a->kind == EBB_EVICT || a->kind == EBB_FETCH,
               launches = a->kind == EBB_REPLAY || a->kind == EBB_ORDER;
    if (streams == 1)
        return (a->kind != EBB_ORDER && !a->stream && a->after == copies && a->joiners == copies) ||
               fails(c, EBB_FAULT_FORM, "action %u is of several streams: there is one", index);
    if (a->stream && (!launches || a->stream >= streams))
        return fails(c, EBB_FAULT_FORM, "action %u is on stream %u of %u", index, a->stream, streams);
    return (!(a->after & ~(copies || launches ? all : 0)) && !(a->joiners & ~(copies ? all : 0))) ||
           fails(c, EBB_FAULT_FORM, "action %u: streams wait that cannot", index);
}

static bool check_action(const check_t *c, uint32_t index, const facts_t *f, uint32_t *place_of)
{
    const ebb_plan_t *p = c->plan;
    const ebb_action_t *a = &p->action[index];
    if ((unsigned)a->kind >= EBB_ACTION_KINDS || a->point > p->operation_count ||
        (index && a->point < p->action[index - 1].point))
        return fails(c, EBB_FAULT_FORM, "action %u is unknown or not in its place in the list", index);
    if (!check_streams(c, index))
        return false;
    if (a->kind == EBB_REPLAY)
        return check_replay(c, index, f, place_of);
    if (a->kind == EBB_ORDER)
        return (a->place == EBB_NONE && a->operation == EBB_NONE && a->join == EBB_NONE && !a->wait_count &&
                !a->redirect_count) ||
               fails(c, EBB_FAULT_FORM, "action %u: an order that does something", index);
    if (a->place >= p->place_count || !p->place[a->place].chunk_count)
        return fails(c, EBB_FAULT_FORM, "action %u: place %u has no chunks", index, a->place);
    if (is_kept(c->trace, a->place))
        return fails(c, EBB_FAULT_KEPT, "action %u: buffer %u is to stay on the device", index, a->place);
    if (a->kind == EBB_DISCARD)
        return (a->operation == EBB_NONE && a->join == EBB_NONE && !a->wait_count && !a->redirect_count) ||
               fails(c, EBB_FAULT_FORM, "action %u: a discard that does something", index);
    return check_copy(c, index);
}

static bool check_actions(const check_t *c, const facts_t *f)
{
    uint32_t *place_of = calloc((size_t)c->plan->buffer_count + 1, sizeof *place_of);
    bool good = place_of || fails(c, EBB_FAULT_MEMORY, "no memory");
    for (uint32_t i = 0; good && i < c->plan->action_count; i++)
        good = check_action(c, i, f, place_of);
    free(place_of);
    return good;
}

/* ---- the way in ---- */

static bool check_head(const check_t *c)
{
    const ebb_plan_t *p = c->plan;
    if (p->chunk_bytes != c->trace->chunk_bytes || p->operation_count != c->trace->operation_count ||
        p->buffer_count != c->trace->buffer_count || p->place_count < p->buffer_count)
        return fails(c, EBB_FAULT_FORM, "the plan is not of this trace");
    if (p->place_count > MOST || p->action_count > MOST || p->chunk_count > MOST || p->chunk_bytes > 1 << 30)
        return fails(c, EBB_FAULT_FORM, "the plan is too long");
    return true;
}

static bool check_length(const check_t *c, const facts_t *f)
{
    const uint64_t events = (uint64_t)c->plan->operation_count + c->plan->action_count;
    if (f->period * 2 > MOST_STEPS)
        return fails(c, EBB_FAULT_FORM, "buffers go round in more than %d steps", MOST_STEPS / 2);
    return events * steps_to_walk(f) < UINT32_MAX || fails(c, EBB_FAULT_FORM, "the plan is too long");
}

bool ebb_check_plan(const ebb_trace_t *trace, const ebb_plan_t *plan, const ebb_check_limits_t *limits,
                    char *why, size_t why_bytes)
{
    check_t c = {trace, plan, limits, why, why_bytes, ebb_plan_streams(trace)};
    facts_t f;
    if (!check_trace(&c) || !check_head(&c) || !check_device(&c) || !check_places(&c))
        return false;
    if (!ebb_facts_make(&f, trace, plan))
        return fails(&c, EBB_FAULT_MEMORY, "no memory");
    bool good = check_length(&c, &f) && check_actions(&c, &f) && check_host(&c) &&
                check_small_region(&c, &f) && check_without_plan(&c, &f) &&
                ebb_check_walk(&f, plan, why, why_bytes);
    ebb_facts_delete(&f);
    return good;
}

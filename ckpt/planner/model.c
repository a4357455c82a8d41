/* model.c: contents and their recipes, from a trace; the small region. */
#include "ckpt/planner/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LONG_NS (UINT64_C(1) << 50) /* what costs more costs this: sums stay in range */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Not too many streams, and lifetimes that a periodic plan can serve. */
static bool acceptable(const ebb_trace_t *t, char *why, size_t why_bytes)
{
    const char *wrong = ebb_trace_check(t);
    if (wrong) {
        snprintf(why, why_bytes, "the trace is wrong: %s", wrong);
        return false;
    }
    if (ebb_plan_streams(t) > EBB_PLAN_STREAMS) {
        snprintf(why, why_bytes, "the step is of %" PRIu32 " streams, of %d at most a plan can be",
                 ebb_plan_streams(t), EBB_PLAN_STREAMS);
        return false;
    }
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *b = &t->buffer[i];
        if (b->pinned) {
            snprintf(why, why_bytes, "buffer %" PRIu32 " of %" PRIu64 " bytes must stay where it is", i,
                     b->bytes);
            return false;
        }
    }
    return ebb_rotation_period(t, why, why_bytes) != 0;
}

static bool allocate(ebb_model_t *m)
{
    const ebb_trace_t *t = m->trace;
    size_t n = t->operation_count, b = t->buffer_count, a = t->access_count;
    m->buffer = calloc(b + 1, sizeof *m->buffer);
    m->touch = calloc(a + 1, sizeof *m->touch);
    m->first_touch = calloc(n + 1, sizeof *m->first_touch);
    m->content = calloc(a + b + 1, sizeof *m->content);
    m->use = calloc(a + 1, sizeof *m->use);
    m->begin_ns = calloc(n + 1, sizeof *m->begin_ns);
    m->small_offset = calloc(b + 1, sizeof *m->small_offset);
    return m->buffer && m->touch && m->first_touch && m->content && m->use && m->begin_ns && m->small_offset;
}

static void read_buffers(ebb_model_t *m)
{
    const ebb_trace_t *t = m->trace;
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        ebb_model_buffer_t *b = &m->buffer[i];
        b->rotates = ebb_trace_rotates(t, i);
        b->persistent = t->buffer[i].born == EBB_NONE || b->rotates;
        b->chunks = t->buffer[i].bytes > t->chunk_bytes / 2 ? ebb_model_chunks(t, t->buffer[i].bytes) : 0;
        b->out_ns = (uint64_t)ebb_copy_ns(t->buffer[i].bytes, m->request->hardware.out_bytes_per_ns);
        b->in_ns = (uint64_t)ebb_copy_ns(t->buffer[i].bytes, m->request->hardware.in_bytes_per_ns);
        b->movable = b->chunks && t->buffer[i].bytes >= m->request->min_buffer && !b->rotates;
    }
}

/* One touch for each buffer of each operation, and how many uses and contents each buffer has. */
static void read_touches(ebb_model_t *m, uint32_t *mark)
{
    const ebb_trace_t *t = m->trace;
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        m->first_touch[i] = count;
        m->begin_ns[i + 1] = m->begin_ns[i] + o->duration_ns;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            const ebb_trace_access_t *a = &t->access[k];
            if (mark[a->buffer] == i + 1)
                continue;
            mark[a->buffer] = i + 1;
            m->touch[count++] = (ebb_touch_t){.buffer = a->buffer, .mode = a->mode};
            m->buffer[a->buffer].use_count++;
            m->buffer[a->buffer].content_count += a->mode != EBB_READS;
        }
    }
    m->first_touch[t->operation_count] = count;
}

/* The clock goes through the operations in their order; it takes as long as the step does. */
static void set_pace(ebb_model_t *m)
{
    const uint32_t n = m->trace->operation_count;
    const double all = (double)m->begin_ns[n], alone = m->streams > 1 ? ebb_simulate_alone_ns(m->trace) : all;
    m->pace = alone > 0 && alone < all ? alone / all : 1;
    for (uint32_t i = 0; m->pace < 1 && i <= n; i++)
        m->begin_ns[i] = (uint64_t)((double)m->begin_ns[i] * m->pace);
}

static void number_contents(ebb_model_t *m, uint32_t *version)
{
    uint32_t contents = 0, uses = 0;
    for (uint32_t i = 0; i < m->trace->buffer_count; i++) {
        ebb_model_buffer_t *b = &m->buffer[i];
        b->first_content = version[i] = contents;
        b->first_use = uses;
        contents += ++b->content_count;
        uses += b->use_count;
        b->use_count = 0;
        m->content[b->first_content] = (ebb_content_t){.buffer = i, .producer = EBB_NONE};
    }
    m->content_count = contents;
    for (uint32_t i = 0; i < m->trace->operation_count; i++) {
        uint32_t chunks = 0;
        for (uint32_t k = m->first_touch[i]; k < m->first_touch[i + 1]; k++) {
            ebb_touch_t *x = &m->touch[k];
            ebb_model_buffer_t *b = &m->buffer[x->buffer];
            x->before = x->after = version[x->buffer];
            if (x->mode != EBB_READS) {
                x->after = ++version[x->buffer];
                m->content[x->after] = (ebb_content_t){.buffer = x->buffer, .producer = i};
            }
            m->use[b->first_use + b->use_count++] = (ebb_use_t){i, x->before, x->mode};
            chunks += b->chunks;
        }
        if (chunks > m->widest_chunks) {
            m->widest = i;
            m->widest_chunks = chunks;
        }
    }
}

/* The operation that writes the next version, or EBB_NONE. */
static uint32_t overwritten_by(const ebb_model_t *m, uint32_t content)
{
    const ebb_model_buffer_t *b = &m->buffer[m->content[content].buffer];
    return content + 1 < b->first_content + b->content_count ? m->content[content + 1].producer : EBB_NONE;
}

/* How long a content can be had even if nothing rebuilds it: while it is what its buffer holds and the buffer
 * is alive. At the point of a free, the free comes first. */
static uint32_t held_until(const ebb_model_t *m, uint32_t content)
{
    uint32_t buffer = m->content[content].buffer, over = overwritten_by(m, content);
    const ebb_model_buffer_t *b = &m->buffer[buffer];
    if (content == b->first_content && m->trace->buffer[buffer].born != EBB_NONE)
        return 0; /* whatever an allocation holds */
    if (over != EBB_NONE)
        return over;
    return m->trace->buffer[buffer].dies == EBB_NONE ? m->trace->operation_count
                                                     : m->trace->buffer[buffer].dies - 1;
}

/* Contents in the order in which they come into being: a recipe's inputs before what it makes. */
static void find_recipes(ebb_model_t *m)
{
    for (uint32_t i = 0; i < m->trace->buffer_count; i++)
        m->content[m->buffer[i].first_content].until = held_until(m, m->buffer[i].first_content);
    for (uint32_t i = 0; i < m->trace->operation_count; i++) {
        uint32_t last = m->trace->operation[i].proofs ? m->trace->operation_count : 0;
        uint64_t cost = m->trace->operation[i].duration_ns;
        for (uint32_t k = m->first_touch[i]; k < m->first_touch[i + 1]; k++) {
            const ebb_touch_t *x = &m->touch[k];
            if (x->mode == EBB_READS)
                last = least(last, m->content[x->before].until);
            if (x->mode == EBB_UPDATES) {
                last = least(last, m->content[x->before].rebuild);
                cost = cost + m->content[x->before].cost_ns < LONG_NS ? cost + m->content[x->before].cost_ns
                                                                      : LONG_NS;
            }
        }
        for (uint32_t k = m->first_touch[i]; k < m->first_touch[i + 1]; k++) {
            const ebb_touch_t *x = &m->touch[k];
            if (x->mode == EBB_READS)
                continue;
            ebb_content_t *c = &m->content[x->after];
            c->rebuild = last > i ? last : 0;
            c->cost_ns = cost;
            c->until = held_until(m, x->after);
            if (m->buffer[x->buffer].movable && least(c->rebuild, overwritten_by(m, x->after)) > c->until)
                c->until = least(c->rebuild, overwritten_by(m, x->after));
        }
    }
}

static bool reads_back(const ebb_trace_t *t)
{
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        if (o->kind == EBB_TRACE_COPY && o->verdict == EBB_HOST && o->access_count &&
            t->access[o->first_access].mode == EBB_READS)
            return true;
    }
    return false;
}

bool ebb_model_make(ebb_model_t *m, const ebb_trace_t *t, const ebb_plan_request_t *request, char *why,
                    size_t why_bytes)
{
    *m = (ebb_model_t){.trace = t, .request = request, .streams = ebb_plan_streams(t)};
    if (!acceptable(t, why, why_bytes))
        return false;
    uint32_t *scratch = calloc((size_t)t->buffer_count + 1, sizeof *scratch);
    bool good = scratch && allocate(m);
    if (good) {
        read_buffers(m);
        read_touches(m, scratch);
        set_pace(m);
        number_contents(m, scratch);
        find_recipes(m);
        m->reads_back = reads_back(t);
        good = ebb_model_pack_small(m);
    }
    free(scratch);
    if (good)
        return true;
    snprintf(why, why_bytes, "out of memory");
    ebb_model_delete(m);
    return false;
}

void ebb_model_delete(ebb_model_t *m)
{
    free(m->buffer);
    free(m->touch);
    free(m->first_touch);
    free(m->content);
    free(m->use);
    free(m->begin_ns);
    free(m->small_offset);
    *m = (ebb_model_t){0};
}

/* ---- the small region ----
 *
 * The small region: where the small buffers of a step lie, packed by their lifetimes; those that are others
 * in the next step (plan.h) have places of their own. Where there are several streams, only buffers that are used on the same one
 * follow each other, and those that are used on several have places of their own.
 */

enum { ALIGN = 512 };

typedef struct piece {
    uint64_t offset, bytes;
    uint32_t dies;
} piece_t;

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* The first hole among the pieces in use (by offset) that takes `bytes`, after those that died before `born`
 * have left. Two lifetimes that meet in a point count as overlapping: which comes first there, free or
 * allocation, is not known. */
static uint64_t first_fit(piece_t *piece, uint32_t *count, uint32_t born, uint32_t dies, uint64_t bytes)
{
    uint32_t left = 0, at;
    for (uint32_t i = 0; i < *count; i++)
        if (piece[i].dies >= born)
            piece[left++] = piece[i];
    uint64_t end = 0;
    for (at = 0; at < left && piece[at].offset - end < bytes; at++)
        end = piece[at].offset + piece[at].bytes;
    memmove(&piece[at + 1], &piece[at], (left - at) * sizeof *piece);
    piece[at] = (piece_t){end, bytes, dies};
    *count = left + 1;
    return end;
}

typedef struct birth {
    uint32_t stream, born, buffer;
    uint64_t bytes;
} birth_t;

/* By birth, the larger ones first; stream by stream. */
static int earlier(const void *a, const void *b)
{
    const birth_t *x = a, *y = b;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    if (x->born != y->born)
        return x->born < y->born ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->buffer < y->buffer ? -1 : 1;
}

/* The only one that uses the buffer, EBB_PLAN_STREAMS: several do. Replays are on the streams of their operations. */
static uint32_t stream_of(const ebb_model_t *m, uint32_t buffer)
{
    const ebb_model_buffer_t *b = &m->buffer[buffer];
    uint32_t stream = 0;
    for (uint32_t i = 0; i < b->use_count; i++) {
        const uint32_t other = m->trace->operation[m->use[b->first_use + i].operation].stream;
        if (i && other != stream)
            return EBB_PLAN_STREAMS;
        stream = other;
    }
    return stream;
}

bool ebb_model_pack_small(ebb_model_t *m)
{
    const ebb_trace_t *t = m->trace;
    birth_t *birth = calloc((size_t)t->buffer_count + 1, sizeof *birth);
    piece_t *piece = calloc((size_t)t->buffer_count + 1, sizeof *piece);
    uint32_t count = 0, pieces = 0;
    uint64_t top = 0, bottom = 0; /* bottom: of the stream's part */
    for (uint32_t i = 0; birth && i < t->buffer_count; i++) {
        m->small_offset[i] = EBB_NONE;
        if (m->buffer[i].chunks || (m->buffer[i].persistent && !m->buffer[i].rotates))
            continue;
        const uint32_t born = m->buffer[i].rotates ? 0 : t->buffer[i].born;
        birth[count++] = (birth_t){stream_of(m, i), born, i, aligned(t->buffer[i].bytes)};
    }
    if (birth && piece) {
        qsort(birth, count, sizeof *birth, earlier);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t b = birth[i].buffer;
            const bool apart = m->buffer[b].rotates || birth[i].stream == EBB_PLAN_STREAMS;
            const uint32_t dies = apart ? EBB_NONE : t->buffer[b].dies;
            if (i && birth[i].stream != birth[i - 1].stream) {
                pieces = 0;
                bottom = top;
            }
            uint64_t at = bottom + first_fit(piece, &pieces, birth[i].born, dies, birth[i].bytes);
            m->small_offset[b] = (uint32_t)at;
            top = at + birth[i].bytes > top ? at + birth[i].bytes : top;
        }
    }
    m->small_bytes = ebb_model_chunks(t, top) * t->chunk_bytes;
    bool good = birth && piece && top < UINT32_MAX;
    free(birth);
    free(piece);
    return good;
}

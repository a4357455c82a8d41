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
        b->persistent = t->buffer[i].born == EBB_NONE || t->buffer[i].dies == EBB_NONE;
        b->chunks = t->buffer[i].bytes > t->chunk_bytes / 2 ? ebb_model_chunks(t, t->buffer[i].bytes) : 0;
        b->out_ns = (uint64_t)ebb_copy_ns(t->buffer[i].bytes, m->request->hardware.out_bytes_per_ns);
        b->in_ns = (uint64_t)ebb_copy_ns(t->buffer[i].bytes, m->request->hardware.in_bytes_per_ns);
        b->movable =
            b->chunks && t->buffer[i].bytes >= m->request->min_buffer && !b->rotates && !t->buffer[i].kept;
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
        if (ebb_trace_is_host_copy(o) && o->access_count && t->access[o->first_access].mode == EBB_READS)
            return true;
    }
    return false;
}

/* ---- the small region ----
 *
 * The small region: where the small buffers of a step lie, packed by their lifetimes (pack.c). Where there are several streams, only buffers that are used on the same one
 * follow each other, and those that are used on several have places of their own.
 */

enum { ALIGN = 512, PACKING_STEPS = 100000000 /* two tenths of a second */ };

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

/* Its lifetime; of a buffer that has its place for good, all that comes. */
static ebb_lifetime_t lifetime_of(const ebb_model_t *m, uint32_t buffer, uint32_t stream)
{
    const ebb_trace_buffer_t *b = &m->trace->buffer[buffer];
    return (ebb_lifetime_t){.begin = b->born,
                            .end = stream == EBB_PLAN_STREAMS ? EBB_NONE : b->dies,
                            .bytes = (b->bytes + ALIGN - 1) / ALIGN * ALIGN};
}

static bool pack_small(ebb_model_t *m)
{
    const ebb_trace_t *t = m->trace;
    uint64_t *small = malloc(((size_t)t->buffer_count + 1) * sizeof *small),
             top = 0; /* stream << 32 | buffer */
    ebb_lifetime_t *lifetime = malloc(((size_t)t->buffer_count + 1) * sizeof *lifetime);
    bool good = small && lifetime;
    uint32_t count = 0, parts = 0;
    for (uint32_t i = 0; good && i < t->buffer_count; i++) {
        m->small_offset[i] = EBB_NONE;
        if (!m->buffer[i].chunks && !m->buffer[i].persistent)
            small[count++] = (uint64_t)stream_of(m, i) << 32 | i;
    }
    if (count)
        qsort(small, count, sizeof *small, ebb_by_number);
    for (uint32_t i = 0; i < count; i++) {
        lifetime[i] = lifetime_of(m, (uint32_t)small[i], (uint32_t)(small[i] >> 32));
        parts += !i || small[i] >> 32 != small[i - 1] >> 32;
    }
    for (uint32_t i = 0, end; good && i < count; i = end) { /* one stream's part on another's */
        for (end = i + 1; end < count && small[end] >> 32 == small[i] >> 32; end++)
            ;
        const uint64_t height =
            ebb_pack(lifetime + i, end - i, parts == 1 ? t->chunk_bytes : 1, PACKING_STEPS / parts);
        good = height < UINT32_MAX - top;
        for (uint32_t k = i; good && k < end; k++)
            m->small_offset[(uint32_t)small[k]] = (uint32_t)(top + lifetime[k].offset);
        top += good ? height : 0;
    }
    m->small_bytes = ebb_model_chunks(t, top) * t->chunk_bytes;
    free(small);
    free(lifetime);
    return good;
}

/* ---- the model ---- */

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
        number_contents(m, scratch);
        find_recipes(m);
        m->reads_back = reads_back(t);
        good = pack_small(m) && ebb_simulate_begins(m->begin_ns, t);
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

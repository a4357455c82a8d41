/* planner_small.c: the small region: where the small buffers of a step lie, packed by their lifetimes; those that are others
 * in the next step (plan.h) have places of their own. Where there are several streams, only buffers that are used on the same one
 * follow each other, and those that are used on several have places of their own. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/planner_model.h"

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
            const uint32_t dies = apart ? EBB_TRACE_NEVER : t->buffer[b].dies;
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

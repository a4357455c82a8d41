#include "ckpt/trace/trace.h"

#include <stdlib.h>

#include "alloc/base/status.h"

uint32_t ebb_uses_chunks(const ebb_trace_buffer_t *b)
{
    return b->bytes > EBB_SMALL_BYTES ? (uint32_t)((b->bytes + EBB_CHUNK_BYTES - 1) / EBB_CHUNK_BYTES) : 0;
}

/* Goes through all accesses, each pair of operation and buffer once: counts them, or with `next` lists them. */
static void go_through(ebb_uses_t *u, uint32_t *last, uint32_t *next)
{
    const ebb_trace_t *t = u->trace;
    for (uint32_t i = 0; i < t->buffer_count; i++)
        last[i] = EBB_NONE;
    for (uint32_t o = 0; o < t->operation_count; o++)
        for (uint32_t k = 0; k < t->operation[o].access_count; k++) {
            const uint32_t b = t->access[t->operation[o].first_access + k].buffer;
            if (last[b] == o)
                continue;
            last[b] = o;
            if (next)
                u->operation[next[b]++] = o;
            else
                u->first[b + 1]++;
        }
}

/* Sorts the large buffers that die by when; `next` is as large as there are operations, and two more. */
static void sort_deaths(ebb_uses_t *u, uint32_t *next)
{
    const ebb_trace_t *t = u->trace;
    for (uint32_t i = 0; i < t->buffer_count; i++)
        if (t->buffer[i].dies <= t->operation_count && ebb_uses_chunks(&t->buffer[i]))
            u->first_death[t->buffer[i].dies + 1]++;
    for (uint32_t o = 0; o <= t->operation_count; o++) {
        u->first_death[o + 1] += u->first_death[o];
        next[o] = u->first_death[o];
    }
    for (uint32_t i = 0; i < t->buffer_count; i++)
        if (t->buffer[i].dies <= t->operation_count && ebb_uses_chunks(&t->buffer[i]))
            u->death[next[t->buffer[i].dies]++] = i;
}

bool ebb_uses_make(ebb_uses_t *u, const ebb_trace_t *t)
{
    const size_t n = t->operation_count, m = t->buffer_count;
    uint32_t *last = calloc(m + 1, sizeof *last), *next = calloc((m > n ? m : n) + 2, sizeof *next);
    *u = (ebb_uses_t){.trace = t,
                      .first = calloc(m + 2, sizeof *u->first),
                      .operation = calloc((size_t)t->access_count + 1, sizeof *u->operation),
                      .begin_ns = calloc(n + 1, sizeof *u->begin_ns),
                      .born = calloc(n + 1, sizeof *u->born),
                      .first_death = calloc(n + 2, sizeof *u->first_death),
                      .death = calloc(m + 1, sizeof *u->death)};
    const bool good =
        last && next && u->first && u->operation && u->begin_ns && u->born && u->first_death && u->death;
    for (size_t o = 0; good && o < n; o++)
        u->begin_ns[o + 1] = u->begin_ns[o] + t->operation[o].duration_ns;
    if (good)
        go_through(u, last, NULL);
    for (size_t b = 0; good && b < m; b++) {
        u->first[b + 1] += u->first[b];
        next[b] = u->first[b];
        if (t->buffer[b].born <= n)
            u->born[t->buffer[b].born] += ebb_uses_chunks(&t->buffer[b]);
    }
    if (good) {
        go_through(u, last, next);
        sort_deaths(u, next);
    }
    free(last);
    free(next);
    if (!good)
        ebb_uses_free(u);
    return good;
}

void ebb_uses_free(ebb_uses_t *u)
{
    free(u->first);
    free(u->operation);
    free(u->begin_ns);
    free(u->born);
    free(u->first_death);
    free(u->death);
    *u = (ebb_uses_t){0};
}

/* Index into u->operation of the first use of the buffer at or behind `at`; first[buffer + 1]: none. */
static uint32_t find(const ebb_uses_t *u, uint32_t buffer, uint32_t at)
{
    uint32_t low = u->first[buffer], high = u->first[buffer + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (u->operation[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t ebb_uses_next(const ebb_uses_t *u, uint32_t buffer, uint32_t at)
{
    const uint32_t i = find(u, buffer, at), n = u->trace->operation_count;
    const ebb_trace_buffer_t *b = &u->trace->buffer[buffer];
    if (i < u->first[buffer + 1])
        return u->operation[i];
    if (b->dies != EBB_NONE)
        return b->dies > at ? b->dies : at;
    const uint32_t next = b->next != EBB_NONE ? b->next : b->born == EBB_NONE ? buffer : EBB_NONE;
    if (next == EBB_NONE)
        return EBB_NONE;
    if (u->first[next] < u->first[next + 1])
        return n + u->operation[u->first[next]];
    return next != buffer && u->trace->buffer[next].dies != EBB_NONE ? n + u->trace->buffer[next].dies
                                                                     : EBB_NONE;
}

uint64_t ebb_uses_ns(const ebb_uses_t *u, uint32_t at, uint32_t to)
{
    const uint32_t n = u->trace->operation_count;
    const uint64_t steps = n ? to / n - at / n : 0;
    return n ? steps * u->begin_ns[n] + u->begin_ns[to % n] - u->begin_ns[at % n] : 0;
}

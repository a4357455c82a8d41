/* plan_exact.c: see plan_exact.h. */
#include "plan_exact.h"

#include <stdlib.h>
#include <string.h>

/* The next launch above, what is resident below: one bit a buffer. */
typedef uint64_t state_t;

typedef struct entry {
    uint64_t ns; /* that replays have taken */
    state_t state;
} entry_t;

typedef struct exact {
    const ebb_trace_t *t;
    uint32_t limit;
    uint32_t in[64], out[64], weight[32]; /* per launch: buffers; per buffer: chunks */
    uint32_t last[32];                    /* per buffer: the last launch that any state needs it for */
    entry_t *heap;
    size_t count, room;
    entry_t *known; /* hash table: the least time of each state that was reached; state 0 is empty */
    size_t slots, used;
} exact_t;

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static entry_t *slot_of(entry_t *known, size_t slots, state_t state)
{
    size_t at = (size_t)((state * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (slots - 1);
    while (known[at].state && known[at].state != state)
        at = (at + 1) & (slots - 1);
    return &known[at];
}

static void grow(exact_t *x)
{
    const size_t slots = 2 * x->slots;
    entry_t *known = must(calloc(slots, sizeof *known));
    for (size_t i = 0; i < x->slots; i++)
        if (x->known[i].state)
            *slot_of(known, slots, x->known[i].state) = x->known[i];
    free(x->known);
    x->known = known;
    x->slots = slots;
}

/* A state that can be reached in so much time. */
static void reach(exact_t *x, state_t state, uint64_t ns)
{
    if (2 * x->used >= x->slots)
        grow(x);
    entry_t *known = slot_of(x->known, x->slots, state);
    if (known->state && known->ns <= ns)
        return;
    x->used += !known->state;
    *known = (entry_t){ns, state};
    if (x->count == x->room)
        x->heap = must(realloc(x->heap, (x->room = 2 * x->room + 64) * sizeof *x->heap));
    size_t at = x->count++;
    for (; at && x->heap[(at - 1) / 2].ns > ns; at = (at - 1) / 2)
        x->heap[at] = x->heap[(at - 1) / 2];
    x->heap[at] = (entry_t){ns, state};
}

static entry_t nearest(exact_t *x)
{
    const entry_t first = x->heap[0], last = x->heap[--x->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < x->count; at = child) {
        child += child + 1 < x->count && x->heap[child + 1].ns < x->heap[child].ns;
        if (x->heap[child].ns >= last.ns)
            break;
        x->heap[at] = x->heap[child];
    }
    x->heap[at] = last;
    return first;
}

static uint32_t chunks_of(const exact_t *x, uint32_t buffers)
{
    uint32_t chunks = 0;
    for (; buffers; buffers &= buffers - 1)
        chunks += x->weight[__builtin_ctz(buffers)];
    return chunks;
}

/* Nothing is dropped as long as all that could come next fits. */
static void expand(exact_t *x, uint32_t next, uint32_t resident, uint64_t ns)
{
    bool all_fit = true;
    for (uint32_t i = 0; i <= next; i++) {
        const uint32_t there = resident | x->out[i];
        if ((i < next && (!x->t->operation[i].proofs || !(x->out[i] & ~resident))) || (x->in[i] & ~resident))
            continue;
        if (chunks_of(x, there) > x->limit) {
            all_fit = false;
            continue;
        }
        uint32_t after = there;
        for (uint32_t b = 0; b < x->t->buffer_count && i == next; b++)
            if (x->last[b] <= next)
                after &= ~(UINT32_C(1) << b);
        reach(x, (state_t)(next + (i == next)) << 32 | after,
              i == next ? ns : ns + x->t->operation[i].duration_ns);
    }
    for (uint32_t left = all_fit ? 0 : resident; left; left &= left - 1)
        if (x->t->buffer[__builtin_ctz(left)].born != EBB_NONE)
            reach(x, (state_t)next << 32 | (resident & ~(left & -left)), ns);
}

static void read_trace(exact_t *x, const ebb_trace_t *t)
{
    for (uint32_t i = 0; i < t->buffer_count; i++)
        x->weight[i] = ebb_model_chunks(t, t->buffer[i].bytes);
    for (uint32_t i = 0; i < t->operation_count; i++)
        for (uint32_t k = 0; k < t->operation[i].access_count; k++) {
            const ebb_trace_access_t *a = &t->access[t->operation[i].first_access + k];
            *(a->mode == EBB_READS ? &x->in[i] : &x->out[i]) |= UINT32_C(1) << a->buffer;
            x->last[a->buffer] = i;
        }
    /* What a replay reads is needed for as long as what it makes. */
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < t->operation_count; i++)
            for (uint32_t b = 0; b < t->buffer_count; b++)
                for (uint32_t o = x->out[i]; o && x->in[i] >> b & 1; o &= o - 1)
                    if (x->last[b] < x->last[__builtin_ctz(o)]) {
                        x->last[b] = x->last[__builtin_ctz(o)];
                        more = true;
                    }
    }
}

uint64_t plan_exact_ns(const ebb_trace_t *t, uint32_t chunks)
{
    exact_t x = {.t = t, .limit = chunks, .slots = 1 << 16};
    if (t->buffer_count > 32 || t->operation_count > 64)
        abort();
    x.known = must(calloc(x.slots, sizeof *x.known));
    read_trace(&x, t);
    uint32_t resident = 0;
    for (uint32_t i = 0; i < t->buffer_count; i++)
        resident |= t->buffer[i].born == EBB_NONE ? UINT32_C(1) << i : 0;
    uint64_t best = UINT64_MAX;
    if (chunks_of(&x, resident) <= chunks)
        reach(&x, (state_t)0 << 32 | resident, 0);
    while (x.count) {
        const entry_t e = nearest(&x);
        if (slot_of(x.known, x.slots, e.state)->ns < e.ns)
            continue;
        if (e.state >> 32 == t->operation_count) {
            best = e.ns;
            for (uint32_t i = 0; i < t->operation_count; i++)
                best += t->operation[i].duration_ns;
            break;
        }
        expand(&x, (uint32_t)(e.state >> 32), (uint32_t)e.state, e.ns);
    }
    free(x.heap);
    free(x.known);
    return best;
}

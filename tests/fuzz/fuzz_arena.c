/* fuzz_arena.c: see fuzz.h. A caching allocator as PyTorch's: segments of the driver's memory, blocks cut from them by first fit, merged
 * when they are free. A free block remembers the streams that may still use it, for the next buffer there. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { BLOCKS = 64, ALIGN = 512 };

typedef struct block {
    size_t at, bytes;
    unsigned users; /* of a free one: bits of streams */
    bool free;
} block_t;

struct fuzz_segment {
    CUdeviceptr base;
    size_t bytes;
    block_t block[BLOCKS]; /* without gaps, by address */
    unsigned blocks;
    bool small;
};

static void insert(fuzz_segment_t *g, unsigned at, block_t b)
{
    memmove(&g->block[at + 1], &g->block[at], (g->blocks - at) * sizeof b);
    g->block[at] = b;
    g->blocks++;
}

static void erase(fuzz_segment_t *g, unsigned at)
{
    g->blocks--;
    memmove(&g->block[at], &g->block[at + 1], (g->blocks - at) * sizeof g->block[0]);
}

static bool cut(fuzz_segment_t *g, size_t bytes, fuzz_buffer_t *out)
{
    for (unsigned i = 0; i < g->blocks; i++) {
        block_t *b = &g->block[i];
        if (!b->free || b->bytes < bytes)
            continue;
        if (b->bytes > bytes && g->blocks < BLOCKS) {
            insert(
                g, i + 1,
                (block_t){.at = b->at + bytes, .bytes = b->bytes - bytes, .users = b->users, .free = true});
            b->bytes = bytes;
        }
        b->free = false;
        out->address = g->base + b->at;
        out->users = b->users;
        out->writer = 0;
        out->segment = g->base;
        out->segment_bytes = g->bytes;
        return true;
    }
    return false;
}

static fuzz_segment_t *new_segment(fuzz_worker_t *w, size_t bytes, bool small)
{
    const size_t whole = (bytes + FUZZ_CHUNK - 1) / FUZZ_CHUNK * FUZZ_CHUNK;
    if (w->segments == FUZZ_SEGMENTS || w->segment_bytes + whole > w->most_bytes + w->most_bytes / 4)
        return NULL;
    fuzz_segment_t *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->bytes = whole;
    g->small = small;
    CALL(w, cuMemAlloc(&g->base, whole));
    insert(g, 0, (block_t){.bytes = whole, .free = true});
    w->segment[w->segments++] = g;
    w->segment_bytes += whole;
    w->peak = w->segment_bytes > w->peak ? w->segment_bytes : w->peak;
    w->chunks_peak = w->peak;
    return g;
}

bool fuzz_arena_take(fuzz_worker_t *w, size_t bytes, fuzz_buffer_t *out)
{
    const size_t aligned = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    const bool small = bytes <= FUZZ_SMALL;
    for (unsigned i = 0; i < w->segments; i++)
        if (w->segment[i]->small == small && cut(w->segment[i], aligned, out))
            return true;
    const size_t more = small ? FUZZ_CHUNK : aligned * (1 + fuzz_below(w, 3));
    fuzz_segment_t *g = new_segment(w, more, small);
    return g && cut(g, aligned, out);
}

/* As torch.cuda.empty_cache does; cuMemFree waits for those that may still use it. */
static void give_back(fuzz_worker_t *w, unsigned index)
{
    fuzz_segment_t *g = w->segment[index];
    CALL(w, cuMemFree(g->base));
    w->segment_bytes -= g->bytes;
    w->segment[index] = w->segment[--w->segments];
    free(g);
}

static void merge(fuzz_segment_t *g, unsigned i)
{
    if (i + 1 < g->blocks && g->block[i].free && g->block[i + 1].free) {
        g->block[i].bytes += g->block[i + 1].bytes;
        g->block[i].users |= g->block[i + 1].users;
        erase(g, i + 1);
    }
}

void fuzz_arena_give(fuzz_worker_t *w, const fuzz_buffer_t *b)
{
    for (unsigned k = 0; k < w->segments; k++) {
        fuzz_segment_t *g = w->segment[k];
        if (g->base != b->segment)
            continue;
        unsigned i = 0;
        while (g->block[i].at != b->address - g->base)
            i++;
        g->block[i].free = true;
        g->block[i].users = b->users | b->writer;
        merge(g, i);
        if (i)
            merge(g, i - 1);
        if (g->blocks == 1 && g->block[0].free && fuzz_chance(w, 10))
            give_back(w, k);
        return;
    }
    abort();
}

void fuzz_arena_touch(fuzz_worker_t *w, const fuzz_buffer_t *b)
{
    for (unsigned i = 0; i < w->reached_count; i++)
        if (w->reached[i] == b->segment)
            return;
    if (!b->segment || w->reached_count == FUZZ_TOUCHED)
        return;
    w->reached[w->reached_count++] = b->segment;
    w->reached_bytes += b->segment_bytes;
    w->need = w->reached_bytes > w->need ? w->reached_bytes : w->need;
}

void fuzz_arena_operation(fuzz_worker_t *w)
{
    w->reached_count = 0;
    w->reached_bytes = 0;
}

void fuzz_arena_close(fuzz_worker_t *w)
{
    while (w->segments)
        give_back(w, w->segments - 1);
}

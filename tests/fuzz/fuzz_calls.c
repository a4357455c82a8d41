/* fuzz_calls.c: see fuzz.h. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

bool fuzz_faults, fuzz_streams, fuzz_threads, fuzz_arenas, fuzz_tables, fuzz_lengths, fuzz_brings;

/* What the driver's documentation lets any call return for a shortage, or for a fault of work that was issued before. */
static bool is_documented(CUresult result)
{
    return result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_LAUNCH_FAILED ||
           result == CUDA_ERROR_UNKNOWN;
}

bool fuzz_failed(fuzz_worker_t *w, CUresult result, unsigned attempt, const char *call)
{
    if (!result)
        return false;
    const char *name = NULL;
    if (cuGetErrorName(result, &name) || !name)
        name = "?";
    if (!fuzz_faults || !is_documented(result)) {
        fprintf(stderr, "fuzz: worker %u, operation %u: %s: %s\n", w->index, w->operations, call, name);
        exit(fuzz_faults ? 4 : 3);
    }
    w->errors++;
    if (attempt < 3)
        return true;
    fprintf(w->out, "stopped\n");
    fprintf(stderr, "fuzz: worker %u stops at operation %u: %s: %s\n", w->index, w->operations, call, name);
    w->stopped = true;
    longjmp(w->stop, 1);
}

/* splitmix64, of Steele, Lea and Flood (2014). */
static uint64_t next_random(fuzz_worker_t *w)
{
    uint64_t z = w->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

unsigned fuzz_below(fuzz_worker_t *w, unsigned limit)
{
    return (unsigned)((next_random(w) >> 32) * limit >> 32);
}

bool fuzz_chance(fuzz_worker_t *w, unsigned percent)
{
    return fuzz_below(w, 100) < percent;
}

uint64_t fuzz_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    for (; bytes; bytes--)
        hash = (hash ^ *p++) * 0x100000001b3u;
    return hash;
}

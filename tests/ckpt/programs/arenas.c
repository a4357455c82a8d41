/* arenas.c: a library to be preloaded before a program of the runtime, which serves its tensors from few allocations, as trainers with an allocator
 * of their own do.
 *
 *   ARENAS=MIB    what is allocated in stream order lies in one allocation of so many MiB (activations, in ebb-train)
 *   ARENAS=MIB,all    what cudaMalloc is asked for as well, in another one (weights, gradients and moments)
 *
 * First fit, aligned to 256 bytes; what is freed is used again at once, for the program has one stream. What does not fit is the runtime's.
 */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256, PIECES = 1 << 14 };

/* A piece of an arena that is in use. */
typedef struct piece {
    size_t from, to;
} piece_t;

typedef struct arena {
    char *base; /* NULL: none yet */
    size_t bytes, count;
    piece_t piece[PIECES]; /* in order */
} arena_t;

static arena_t ordered, permanent;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static bool open_arena(arena_t *a, bool wanted)
{
    const char *const setting = getenv("ARENAS");
    if (a->base || !setting || !wanted)
        return a->base != NULL;
    a->bytes = strtoull(setting, NULL, 10) << 20;
    if (a->bytes && REAL(cudaMalloc)((void **)&a->base, a->bytes))
        a->base = NULL;
    return a->base != NULL;
}

static bool take(arena_t *a, bool wanted, void **out, size_t bytes)
{
    size_t from = 0, i = 0;
    const size_t size = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    pthread_mutex_lock(&lock);
    bool taken = size && open_arena(a, wanted) && a->count < PIECES;
    if (taken) {
        for (; i < a->count && a->piece[i].from - from < size; i++)
            from = a->piece[i].to;
        taken = size <= a->bytes - from;
    }
    if (taken) {
        memmove(a->piece + i + 1, a->piece + i, (a->count++ - i) * sizeof *a->piece);
        a->piece[i] = (piece_t){from, from + size};
        *out = a->base + from;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

static bool give_back(arena_t *a, const void *p)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (a->base && i < a->count && a->base + a->piece[i].from != p)
        i++;
    const bool found = a->base && i < a->count;
    if (found)
        memmove(a->piece + i, a->piece + i + 1, (--a->count - i) * sizeof *a->piece);
    pthread_mutex_unlock(&lock);
    return found;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    const char *const setting = getenv("ARENAS");
    return take(&permanent, setting && strstr(setting, ",all"), out, bytes) ? cudaSuccess
                                                                            : REAL(cudaMalloc)(out, bytes);
}

cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    return take(&ordered, true, out, bytes) ? cudaSuccess : REAL(cudaMallocAsync)(out, bytes, stream);
}

/* The runtime's waits for what uses the memory. */
cudaError_t cudaFree(void *p)
{
    if (!give_back(&permanent, p))
        return REAL(cudaFree)(p);
    return cudaDeviceSynchronize();
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
    return give_back(&ordered, p) ? cudaSuccess : REAL(cudaFreeAsync)(p, stream);
}

/* nasty.h: the frame of the programs that try to break ebb, none of which knows of it. Every program is the same small
 * training loop with one nasty trait: forward through some layers, each with an activation of more than 1 MiB that stays until
 * the backward pass, gradients, an update, a loss. A trait adds operations, or takes over how memory is given back,
 * by a few hooks.
 *
 * A program prints the losses and a hash of everything that it keeps on the device; on stderr "size PEAK MUST SMALL LARGEST":
 * bytes that were in large buffers (above 1 MiB, whole chunks of 2 MiB) at most, that must be on the device together (one
 * operation's operands and what may never leave), that were in small ones at most, and the largest buffer's.
 *
 * Any call that fails ends the program with exit code 3 and the error's name on stderr.
 */
#ifndef NASTY_H
#define NASTY_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels.cuh"

enum { NASTY_LAYERS = 16, NASTY_KEPT = 96, NASTY_WORKERS = 4, NASTY_LATE = 8 };
enum { NASTY_FLOATS = 300000, NASTY_STEPS_MOST = 512 };

typedef struct worker worker_t;

/* NULL: nothing. `state` of the worker is the trait's. */
typedef struct trait {
    const char *name;
    unsigned workers;  /* threads, each with a loop of its own; 0: 1 */
    unsigned operands; /* large buffers that one operation touches at most; 0: 4 */
    void (*set_up)(worker_t *);
    void (*begin)(worker_t *);                /* of a step */
    bool (*layer)(worker_t *, unsigned i);    /* in place of forward's launch, if true */
    void (*forward)(worker_t *, unsigned i);  /* after a layer */
    void (*middle)(worker_t *);               /* between forward and backward */
    void (*backward)(worker_t *, unsigned i); /* before a layer's gradients */
    void (*release)(worker_t *, float **);    /* an activation is not needed any more */
    void (*end)(worker_t *);                  /* of a step, before the update */
    bool (*update)(worker_t *);               /* in place of the updates, if true */
    void (*after)(worker_t *);                /* of a step, after the update */
    void (*finish)(worker_t *);               /* after all steps */
    bool (*shortage)(worker_t *);             /* out of memory; true: try again */
} trait_t;

typedef struct kept {
    void *p;
    size_t bytes;
} kept_t;

struct worker {
    const trait_t *trait;
    unsigned index, layers, step, steps;
    unsigned n; /* floats of an activation */
    unsigned seed;
    cudaStream_t stream;
    unsigned m[NASTY_LAYERS];
    float *w[NASTY_LAYERS], *dw[NASTY_LAYERS];
    float *x[NASTY_LAYERS + 1]; /* of the step; x[0] is its data */
    float *losses, *partial;
    kept_t kept[NASTY_KEPT]; /* hashed at the end */
    unsigned kept_count;
    uint64_t hash; /* of what was read on the way */
    union {
        struct {
            float *a, *b, *c;
            unsigned *word, *host, *tokens;
            float *host_floats;
            float **table, **host_table, ***object;
            float *late[NASTY_LATE];
            cudaStream_t other;
            cudaEvent_t event[4];
            unsigned count;
        };
    };
};

/* Also in use by the traits' tables. */
#define CHECK(call) nasty_check((call), #call)
void nasty_check(cudaError_t error, const char *call);

/* Blocks for n elements. */
static inline unsigned blocks_of(unsigned n)
{
    return (n + NASTY_SLICE - 1) / NASTY_SLICE;
}

/* LAUNCH(w, fill, blocks, &x, &seed, &n): on the worker's stream. */
#define LAUNCH(w, kernel, blocks, ...) LAUNCH_ON(w->stream, kernel, blocks, __VA_ARGS__)
#define LAUNCH_ON(stream, kernel, blocks, ...)                                                               \
    CHECK(cudaLaunchKernel((const void *)kernel, (dim3){blocks, 1, 1}, (dim3){256, 1, 1},                    \
                           (void *[]){__VA_ARGS__}, 0, stream))

/* Stream-ordered, its bytes counted. */
void *nasty_alloc(worker_t *w, size_t bytes);
void nasty_free(worker_t *w, void *p);
/* The same on another stream than the worker's. */
void nasty_free_on(void *p, cudaStream_t stream);
/* cudaMalloc and cudaFree. */
void *nasty_alloc_at_once(size_t bytes);
void nasty_free_at_once(void *p);
static inline float *new_activation(worker_t *w)
{
    return nasty_alloc(w, w->n * sizeof(float));
}
/* Zeroed, until the end, where it is hashed. */
void *nasty_keep(worker_t *w, size_t bytes);
void *nasty_pinned(size_t bytes);
/* These bytes must stay on the device all the time. */
void nasty_stays(size_t bytes);
/* The same numbers in every run. */
unsigned nasty_random(worker_t *w, unsigned limit);
/* Hashes what a copy has brought; waits for the worker's stream. */
void nasty_read(worker_t *w, const void *device, size_t bytes);

/* A forward pass through `layers` layers without a backward one. */
void nasty_evaluate(worker_t *w, unsigned layers);
/* A forward and a backward pass. */
void nasty_train(worker_t *w);

extern const trait_t nasty_contents[], nasty_memory[], nasty_order[],
    nasty_reach[]; /* each ended by a nameless one */

#endif

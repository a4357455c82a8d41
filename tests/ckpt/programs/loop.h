/* loop.h: what loop.c and loop_diverge.c share. */
#ifndef EBB_TESTS_LOOP_H
#define EBB_TESTS_LOOP_H

#include <stdbool.h>

#define TRAINER "loop"
#include "loop.cuh"
#include "trainer_parts.h"

/* Sizes are parts of ebb's chunks, so that a build with small ones runs the same program on less memory. */
#ifndef EBB_CHUNK_KIB
#define EBB_CHUNK_KIB 2048
#endif
enum { CHUNK_FLOATS = EBB_CHUNK_KIB * 256 };

enum { LAYERS_MAX = 64, KEEP_MAX = 8 };

typedef struct loop {
    int layers, steps, deviate, flag, hidden, each, more, grow, peek, through, keep, swap, small, look, mix,
        probe, diverge, how, every, until, evaluate, couple, clear, pad, blend, behind, poll, bring;
    int step, launches; /* of the step, so far */
    int filled;         /* activations of this step */
    float *more_memory; /* until the step is over */
    unsigned read;      /* a hash of what synchronous copies have brought */
    size_t full, n, m;  /* floats of an activation, of this step's, of a layer's weights */
    cudaStream_t stream;
    float *w[LAYERS_MAX], *dw[LAYERS_MAX];
    float *x[LAYERS_MAX + 1]; /* activations of the step */
    float *y[LAYERS_MAX];     /* couple=1: their partners */
    float *own[LAYERS_MAX];   /* pad=1, blend=STEP: a buffer of each layer */
    float *away[LAYERS_MAX];  /* bring=1: weights in pinned memory */
    int backward_at;          /* the layer that is next in the backward pass; layers before it */
    float *sums;
    unsigned *counter;
    int *flag_word;
    float **table;             /* on the device; leads to `shift` */
    float *shift;              /* pinned */
    float *late;               /* to be freed in the next step */
    size_t late_n;             /* floats of it */
    float *kept[KEEP_MAX + 1]; /* by age */
    float *pair[2];            /* swap=1 */
} loop_t;

static inline float *new_floats(const loop_t *l, size_t count)
{
    void *p = NULL;
    CHECK(cudaMallocAsync(&p, count * sizeof(float), l->stream));
    return p;
}

static inline void free_floats(const loop_t *l, float **p)
{
    CHECK(cudaFreeAsync(*p, l->stream));
    *p = NULL;
}

/* What a launch does with the buffer that it is about. */
typedef enum loop_launch { MAKES, CHANGES } loop_launch_t;

/* A launch of the step comes next, about x[count]. True: it has been left out, or replaced by something else. */
bool loop_diverge(loop_t *l, loop_launch_t what, float *x, size_t count);
/* An activation that is to be freed now stays for the next step. */
bool loop_keeps(const loop_t *l, int activation);
/* The step is over. */
void loop_diverge_end(loop_t *l);

#endif

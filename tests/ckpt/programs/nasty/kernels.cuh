/* kernels.cuh: the kernels of kernels.cu, globals.cu, hidden.cu and lists.cu, as host code in C sees them. Blocks own slices of
 * NASTY_SLICE elements; kernels that say so want one block. Addresses are device addresses on either side. */
#ifndef NASTY_KERNELS_CUH
#define NASTY_KERNELS_CUH

#include <cuda.h>

#define NASTY_SLICE         16384U
#define NASTY_MOST          16 /* pointers in a structure or a table */
#define NASTY_TOKEN         256U /* floats */
#define NASTY_LISTED        64 /* tensors in lists */
#define NASTY_LISTED_BLOCKS 320

struct nasty_pairs {
    unsigned count, m[NASTY_MOST];
    float *w[NASTY_MOST];
    const float *dw[NASTY_MOST];
};

struct nasty_lists {
    float *w[NASTY_LISTED], *dw[NASTY_LISTED];
    long long elements[NASTY_LISTED];
    unsigned char tensor_of_block[NASTY_LISTED_BLOCKS];
    int slice_of_block[NASTY_LISTED_BLOCKS];
    int first;
};

/* A tensor map inside a structure, behind what is no pointer. */
enum { NASTY_MAP_ROW = 64 }; /* floats in a box */
struct nasty_mapped {
    unsigned n;
    float by;
    CUtensorMap delta;
};
#define NASTY_MASK 0x5bd1e995c2b2ae35ULL

#ifdef __CUDACC__
#define NASTY_KERNEL extern "C" __global__ void
#else
#define NASTY_KERNEL void
#ifndef __grid_constant__
#define __grid_constant__
#endif
#endif

/* ---- kernels.cu: the frame ---- */
NASTY_KERNEL fill(float *x, unsigned seed, unsigned n);
NASTY_KERNEL forward(float *out, const float *in, const float *w, unsigned n, unsigned m);
NASTY_KERNEL input_gradient(float *din, const float *dout, const float *out, const float *w, unsigned n,
                            unsigned m);
NASTY_KERNEL weight_gradient(float *dw, const float *dout, const float *in, const float *out, unsigned n,
                             unsigned m);
NASTY_KERNEL update(float *w, const float *dw, float rate, unsigned m);
NASTY_KERNEL sums(float *partial, const float *x, unsigned n);                           /* [blocks] */
NASTY_KERNEL total(float *losses, unsigned index, const float *partial, unsigned count); /* one block */

/* ---- kernels.cu: one trait each ---- */
NASTY_KERNEL accumulate(float *x, const float *delta, float by, unsigned n);
NASTY_KERNEL perhaps(float *x, const unsigned *flag, float gain, unsigned n);
NASTY_KERNEL later(float *x, const unsigned *count, unsigned from,
                   unsigned n); /* writes from the count `from` on */
NASTY_KERNEL tally(float *result, float *partial, unsigned *counter, const float *x, unsigned n);
NASTY_KERNEL in_turn(float *result, unsigned *turn, const float *x, unsigned n);
NASTY_KERNEL statistics(float *running, float *batch, const float *x, unsigned n); /* one block */
NASTY_KERNEL centre(float *x, const float *batch, unsigned n);
NASTY_KERNEL dropout(float *out, const float *in, unsigned *state, unsigned n);
NASTY_KERNEL advance(unsigned *counter); /* one block */
NASTY_KERNEL scatter(unsigned *tickets, unsigned *stamps, unsigned *cursor, unsigned n);
NASTY_KERNEL collect(float *x, const unsigned *tickets, unsigned count); /* one block */
NASTY_KERNEL grouped(float *out, float *const *table, unsigned count, unsigned n);
/* Only the table says what it reads and writes. */
NASTY_KERNEL through_table(float *const *table, float by, unsigned n);
NASTY_KERNEL make_table(float **table, float *a, float *b, float *c); /* one block */
NASTY_KERNEL make_object(float ***object, float **table);             /* one block */
NASTY_KERNEL grouped_by(float *out, float *const *const *object, unsigned count, unsigned n);
NASTY_KERNEL span(float *first, float *end, float gain);
/* Of each expert the tokens that go to it, two experts a token, and how many; one block. */
NASTY_KERNEL route(unsigned *index, unsigned *count, unsigned seed, unsigned tokens, unsigned experts);
NASTY_KERNEL gather(float *rows, const float *x, const unsigned *index, unsigned n);
NASTY_KERNEL add_rows(float *x, const float *rows, const unsigned *index, float by, unsigned n);
NASTY_KERNEL update_all(struct nasty_pairs pairs, float rate); /* blocks of the largest */
/* As many pairs as the word on the device says. */
NASTY_KERNEL update_some(struct nasty_pairs pairs, const unsigned *count, float rate);
/* `masked`: its address, with NASTY_MASK in it. */
NASTY_KERNEL accumulate_masked(unsigned long long masked, float by, unsigned n);
NASTY_KERNEL accumulate_mapped(const __grid_constant__ CUtensorMap x,
                               const __grid_constant__ struct nasty_mapped rest);

/* ---- globals.cu: a module whose variables the host looks up ---- */
NASTY_KERNEL scaled(float *x, unsigned n);
NASTY_KERNEL counted(float *x, unsigned n);
NASTY_KERNEL by_count(float *x, unsigned n);
/* ---- hidden.cu: a module whose variable it never does ---- */
NASTY_KERNEL counted_unseen(float *x, unsigned n);
NASTY_KERNEL by_count_unseen(float *x, unsigned n);

/* The variables of globals.cu, for the runtime's symbol calls. */
#ifdef __cplusplus
extern "C" {
#endif
const void *nasty_symbol_gain(void);
const void *nasty_symbol_shift(void);
const void *nasty_symbol_passes(void);
/* lists.cu: nasty_lists, a byte, and a rate; the blocks that these name. */
const void *nasty_update_lists(void);
#ifdef __cplusplus
}
#endif

#endif

/* kernels.cuh: what kernels.cu and the host code agree upon. */
#ifndef FUZZ_KERNELS_CUH
#define FUZZ_KERNELS_CUH

#define FUZZ_SLICE  4096U
#define FUZZ_INPUTS 6

/* The addresses are device addresses on either side. */
struct fuzz_gather {
    unsigned tag; /* so that what follows does not begin at the structure's beginning */
    unsigned *out;
    unsigned n;
    const unsigned *in[FUZZ_INPUTS]; /* or 0 */
    unsigned count[FUZZ_INPUTS];
};

#endif

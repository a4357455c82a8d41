/* pair.cuh: what pair.cu and pair.c agree upon. */
#ifndef EBB_TESTS_PAIR_CUH
#define EBB_TESTS_PAIR_CUH

#define PAIR_SLICE 2048U /* elements a block */
#define PAIR_BINS  16U   /* of a histogram */

#endif

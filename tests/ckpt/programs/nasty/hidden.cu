/* hidden.cu: a variable that no host code ever names. */
#include "passes.cuh"

static __device__ unsigned passes_unseen;

NASTY_KERNEL counted_unseen(float *x, unsigned n)
{
    shrink_and_count(x, n, &passes_unseen);
}
BLOCK_SIZE_INDEPENDENT(counted_unseen);

NASTY_KERNEL by_count_unseen(float *x, unsigned n)
{
    grow_by_count(x, n, &passes_unseen);
}
BLOCK_SIZE_INDEPENDENT(by_count_unseen);

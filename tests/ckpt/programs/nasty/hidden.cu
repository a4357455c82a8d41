/* hidden.cu: a variable that no host code ever names. */
#include "slices.cuh"

static __device__ unsigned passes_unseen;

NASTY_KERNEL counted_unseen(float *x, unsigned n)
{
    EACH(i, n) x[i] *= 0.97f;
    if (is_first_thread())
        passes_unseen++;
}
BLOCK_SIZE_INDEPENDENT(counted_unseen);

NASTY_KERNEL by_count_unseen(float *x, unsigned n)
{
    EACH(i, n) x[i] += (float)(passes_unseen % 1024) * 1e-4f;
}
BLOCK_SIZE_INDEPENDENT(by_count_unseen);

/* hold.cu: a kernel that takes a while and touches no memory; see profile.h. Included by hash.cu: one module. */

/* One thread that goes through so many rounds, each of which needs the one before. What comes of them is never zero: that
 * it is asked keeps the compiler from leaving them out. */
extern "C" __global__ void ebb_hold(uint64_t *never, unsigned rounds)
{
    uint64_t x = 1;
    for (unsigned i = 0; i < rounds; i++)
        x = mix(x, i) | 1;
    if (x == 0)
        never[0] = x;
}
BLOCK_SIZE_INDEPENDENT(ebb_hold);
#ifdef KERNEL_COST
/* A round takes a GPU some forty nanoseconds, in which the others are idle; the clock only knows rates, so a round counts as what
 * all of an A100 does in that time. */
static inline softgpu_cost_t hold_cost(dim3, dim3, uint64_t *, unsigned rounds)
{
    return {8e5 * (double)rounds, SOFTGPU_FP32, 0};
}
KERNEL_COST(hold_cost, ebb_hold);
#endif

/* Kernels for the scheduler's tests. */
#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif

/* log[0] counts the tags that follow. Right only where one kernel runs at a time, which is what it shows. */
extern "C" __global__ void append(int *log, int tag)
{
    if (threadIdx.x == 0)
        log[++log[0]] = tag;
}
BLOCK_SIZE_INDEPENDENT(append);

extern "C" __global__ void store(int *p, int value)
{
    if (threadIdx.x == 0)
        p[0] = value;
}
BLOCK_SIZE_INDEPENDENT(store);

/* to[0] = first element, to[1] = last one */
extern "C" __global__ void ends(int *to, const int *from, int n)
{
    if (threadIdx.x == 0) {
        to[0] = from[0];
        to[1] = from[n - 1];
    }
}
BLOCK_SIZE_INDEPENDENT(ends);

/* Until somebody has written to *gate. */
extern "C" __global__ void wait_for(const int *gate)
{
    while (*(volatile const int *)gate == 0) {
    }
}
BLOCK_SIZE_INDEPENDENT(wait_for);

/* seen[blockIdx.x] = 1, once the next block has done so: blocks that depend on later ones. */
extern "C" __global__ void wait_for_next_block(int *seen)
{
    if (threadIdx.x == 0) {
        while (blockIdx.x + 1 < gridDim.x && ((volatile int *)seen)[blockIdx.x + 1] == 0) {
        }
        ((volatile int *)seen)[blockIdx.x] = 1;
    }
}
BLOCK_SIZE_INDEPENDENT(wait_for_next_block);

/* Costs what its arguments say and does nothing. */
extern "C" __global__ void spend(double operations, int kind, double bytes)
{
}
BLOCK_SIZE_INDEPENDENT(spend);

/* Says nothing about its cost. */
extern "C" __global__ void undeclared(int *p)
{
}
BLOCK_SIZE_INDEPENDENT(undeclared);

#ifdef KERNEL_COST
static inline softgpu_cost_t spend_cost(dim3, dim3, double operations, int kind, double bytes)
{
    return {operations, (softgpu_arithmetic_t)kind, bytes};
}
KERNEL_COST(spend_cost, spend);
#endif

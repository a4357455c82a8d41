/* A cooperative launch, in which blocks wait for one another. */
#include "check.h"

#include <cooperative_groups.h>

__global__ void steps(int *x, int *sum)
{
    const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    x[grid.thread_rank()] = (int)grid.thread_rank();
    grid.sync();
    const int other = x[grid.size() - 1 - grid.thread_rank()];
    grid.sync();
    x[grid.thread_rank()] = other;
    if (grid.thread_rank() == 0)
        *sum = (int)grid.num_blocks();
}

int main()
{
    array<int> x(96), sum(1);
    void *args[] = {&x.device, &sum.device};
    OK(cudaLaunchCooperativeKernel((void *)steps, 3, 32, args));
    x.down(), sum.down();
    for (int i = 0; i < 96; i++)
        CHECK(x[i] == 95 - i);
    CHECK(sum[0] == 3);
}

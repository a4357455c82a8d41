/* Cooperative groups: blocks, tiles, coalesced groups and their collectives. */
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void sums(const int *in, int *of_tile, int *of_odd)
{
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int x = in[block.thread_rank()];
    of_tile[block.thread_rank()] = cg::reduce(tile, x, cg::plus<int>()) + (int)tile.meta_group_rank();
    block.sync();
    if (x % 2) {
        const cg::coalesced_group odd = cg::coalesced_threads();
        of_odd[block.thread_rank()] = (int)odd.size() * 100 + odd.shfl(x, 0);
    }
}

int main()
{
    array<int> in(64), tile(64), odd(64);
    for (int i = 0; i < 64; i++)
        in[i] = i;
    in.up();
    sums<<<1, 64>>>(in.device, tile.device, odd.device);
    tile.down(), odd.down();
    for (int i = 0; i < 64; i++) {
        CHECK(tile[i] == i / 8 * 64 + 28 + i / 8);
        CHECK(odd[i] == (i % 2 ? 1600 + i / 32 * 32 + 1 : 0));
    }
}

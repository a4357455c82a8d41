/* Shuffles, votes, matches and reductions of a warp, in divergent code too. */
#include "check.h"

__global__ void reduce(const float *in, float *out)
{
    float x = in[threadIdx.x];
    for (int by = 16; by; by /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, by);
    if (threadIdx.x % 32 == 0)
        out[threadIdx.x / 32] = x;
}

__global__ void ask(unsigned *out)
{
    const unsigned lane = threadIdx.x;
    unsigned *mine = out + 10 * lane;
    mine[0] = __ballot_sync(0xffffffffu, lane % 3 == 0);
    mine[1] = (unsigned)__any_sync(0xffffffffu, lane == 40) + 2 * (unsigned)__all_sync(0xffffffffu, lane < 32);
    mine[2] = __shfl_up_sync(0xffffffffu, lane, 3);
    mine[3] = __shfl_down_sync(0xffffffffu, lane, 5, 8);
    mine[4] = (unsigned)(__shfl_sync(0xffffffffu, 1ull << lane, 33) >> 1);
    mine[5] = __match_any_sync(0xffffffffu, lane / 5);
    if (lane % 2)
        mine[6] = __ballot_sync(0xaaaaaaaau, lane > 15);
    else
        mine[6] = __shfl_sync(0x55555555u, lane * 10, 2);
    __syncwarp();
    mine[7] = __activemask();
#if __CUDA_ARCH__ >= 800
    mine[8] = __reduce_add_sync(0xffffffffu, lane);
    mine[9] = __reduce_max_sync(0xffffffffu, lane ^ 5);
#endif
}

int main()
{
    array<float> in(96), out(3);
    for (int i = 0; i < 96; i++)
        in[i] = (float)i;
    in.up();
    reduce<<<1, 96>>>(in.device, out.device);
    out.down();
    for (int w = 0; w < 3; w++)
        CHECK(out[w] == 32 * 32 * w + 31 * 16);
    array<unsigned> a(320);
    ask<<<1, 32>>>(a.device);
    a.down();
    for (unsigned lane = 0; lane < 32; lane++) {
        const unsigned *mine = &a[10 * lane];
        unsigned alike = 0;
        for (unsigned i = 0; i < 32; i++)
            alike |= (unsigned)(i / 5 == lane / 5) << i;
        CHECK(mine[0] == 0x49249249u && mine[1] == 2);
        CHECK(mine[2] == (lane < 3 ? lane : lane - 3));
        CHECK(mine[3] == (lane % 8 < 3 ? lane + 5 : lane));
        CHECK(mine[4] == 1 && mine[5] == alike);
        CHECK(mine[6] == (lane % 2 ? 0xaaaa0000u : 20u));
        CHECK(mine[7] == 0xffffffffu && mine[8] == 496 && mine[9] == 31);
    }
}

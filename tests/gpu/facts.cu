/* facts.cu: the kernels of facts.c. What a kernel was given it leaves in a variable: no argument says where, so that it is told also when
 * the arguments were put in wrong places. */
#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif

typedef unsigned long long word_t;

/* As CUtensorMap is in the headers of CUDA 13 and of CUDA 12. */
struct alignas(128) map_t {
    word_t word[16];
};
struct alignas(64) old_map_t {
    word_t word[16];
};
struct holds_t {
    int number;
    map_t a, b;
    word_t last;
};
struct much_t {
    unsigned word[1100]; /* with it, more than the 4352 bytes that ptxas once allowed for all parameters */
};

__device__ word_t facts_seen[40];

static __device__ void see(unsigned first, const word_t *at, unsigned words)
{
    for (unsigned i = 0; i < words; i++)
        facts_seen[first + i] = at[i];
}

extern "C" __global__ void facts_first(const __grid_constant__ map_t map, word_t last)
{
    see(0, map.word, 16);
    facts_seen[16] = last;
}
BLOCK_SIZE_INDEPENDENT(facts_first);

extern "C" __global__ void facts_behind(word_t first, const __grid_constant__ map_t map)
{
    facts_seen[0] = first;
    see(1, map.word, 16);
}
BLOCK_SIZE_INDEPENDENT(facts_behind);

extern "C" __global__ void facts_within(const __grid_constant__ holds_t holds)
{
    facts_seen[0] = (word_t)holds.number;
    see(1, holds.a.word, 16);
    see(17, holds.b.word, 16);
    facts_seen[33] = holds.last;
}
BLOCK_SIZE_INDEPENDENT(facts_within);

extern "C" __global__ void facts_large(word_t first, const __grid_constant__ map_t map, const __grid_constant__ much_t much)
{
    facts_seen[0] = first;
    see(1, map.word, 16);
    facts_seen[17] = much.word[0];
}
BLOCK_SIZE_INDEPENDENT(facts_large);

extern "C" __global__ void facts_old(const __grid_constant__ old_map_t map, word_t last)
{
    see(0, map.word, 16);
    facts_seen[16] = last;
}
BLOCK_SIZE_INDEPENDENT(facts_old);

/* Counts in device memory until the host says so, or for so many ticks of the clock. */
extern "C" __global__ void facts_spin(volatile unsigned *host, unsigned *memory, unsigned words, long long ticks)
{
    const long long begin = clock64();
    unsigned rounds = 0;
    host[0] = 1; /* it runs */
    while (!host[1] && clock64() - begin < ticks)
        memory[(word_t)rounds++ * 1024 % words] += 1;
    host[2] = rounds;
}
BLOCK_SIZE_INDEPENDENT(facts_spin);

/* rng.h: the trainer's random numbers, on the host: reproducible from a seed by a few lines in any language.
 *
 * All of them are outputs of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014), addressed by index instead of drawn in turn, so that no number depends on how
 * many were drawn before. Each use has its own stream: key = rng_at(seed, stream), then rng_at(key, 0),
 * rng_at(key, 1), ... (Dropout masks are not made here but by the kernels, with Philox.)
 */
#ifndef EBB_MODEL_RNG_H
#define EBB_MODEL_RNG_H

#include <math.h>
#include <stdint.h>

#define RNG_GAMMA 0x9e3779b97f4a7c15u

/* Streams of one seed. An initial tensor's stream is RNG_INIT + its number (layout.h). */
#define RNG_INIT     ((uint64_t)0)
#define RNG_BATCH    ((uint64_t)1 << 32)
#define RNG_DROPOUT  ((uint64_t)2 << 32)
#define RNG_SAMPLE   ((uint64_t)3 << 32)
#define RNG_ROUNDING ((uint64_t)4 << 32)
#define RNG_FACTORS  ((uint64_t)5 << 32)
#define RNG_ADAPTERS ((uint64_t)6 << 32)

static inline uint64_t rng_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The index-th output of splitmix64 whose state starts at `key`. */
static inline uint64_t rng_at(uint64_t key, uint64_t index)
{
    return rng_mix(key + (index + 1) * RNG_GAMMA);
}

/* 53 bits of x as a number in (0, 1]. */
static inline double rng_unit(uint64_t x)
{
    return (double)((x >> 11) + 1) * 0x1p-53;
}

/* Standard normals 2*pair and 2*pair+1 of a stream: Box and Muller's, cosine before sine, in double. */
static inline void rng_normal_pair(uint64_t key, uint64_t pair, double normals[2])
{
    double radius = sqrt(-2.0 * log(rng_unit(rng_at(key, 2 * pair))));
    double angle = 6.283185307179586476925 * rng_unit(rng_at(key, 2 * pair + 1));
    normals[0] = radius * cos(angle);
    normals[1] = radius * sin(angle);
}

/* One step of the 64-bit hash of a sequence of words (parameters.h: the state hash). */
static inline uint64_t rng_hash(uint64_t hash, uint64_t word)
{
    return rng_mix((hash + RNG_GAMMA) ^ word);
}

#endif

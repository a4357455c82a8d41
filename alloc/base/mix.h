/* mix.h: hashes of a few numbers. */
#ifndef EBB_MIX_H
#define EBB_MIX_H

#include <stdint.h>

/* A hash with one number more. */
static inline uint64_t ebb_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

#endif

/* order.h: a shuffled order of 0 .. count-1 that is computed where it is asked for, and stored nowhere: so a
 * place in it is one number, and resuming there costs nothing.
 *
 * The permutation: a balanced Feistel network (Luby, Rackoff, "How to construct pseudorandom permutations",
 * 1988) on numbers of 2h bits, h the least with 2^(2h) >= count (and at least 1). Round r of 8 turns (left,
 * right) into (right, left xor f), f being the lowest h bits of rng_at(rng_at(key, r), right) (rng.h). A result
 * that is not below count goes through the network again until one is (Black, Rogaway, "Ciphers with arbitrary
 * finite domains", 2002: cycle walking); that takes fewer than four passes on average.
 */
#ifndef EBB_MODEL_DATA_ORDER_H
#define EBB_MODEL_DATA_ORDER_H

#include <stdint.h>

#define ORDER_ROUNDS 8

typedef struct order {
    uint64_t count;
    uint64_t keys[ORDER_ROUNDS];
    int half_bits;
} order_t;

/* The order that `key` chooses. 1 <= count <= 2^62. */
order_t order_of(uint64_t key, uint64_t count);

/* What comes at place `place` (below count): each number below count at exactly one. */
uint64_t order_at(const order_t *order, uint64_t place);

#endif

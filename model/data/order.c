#include "model/data/order.h"

#include "model/base/rng.h"

order_t order_of(uint64_t key, uint64_t count)
{
    order_t order = {.count = count, .half_bits = 1};
    while ((uint64_t)1 << 2 * order.half_bits < count)
        order.half_bits++;
    for (uint64_t r = 0; r < ORDER_ROUNDS; r++)
        order.keys[r] = rng_at(key, r);
    return order;
}

uint64_t order_at(const order_t *order, uint64_t place)
{
    uint64_t mask = ((uint64_t)1 << order->half_bits) - 1;
    do {
        uint64_t left = place >> order->half_bits, right = place & mask;
        for (int r = 0; r < ORDER_ROUNDS; r++) {
            uint64_t mixed = left ^ (rng_at(order->keys[r], right) & mask);
            left = right;
            right = mixed;
        }
        place = left << order->half_bits | right;
    } while (place >= order->count);
    return place;
}

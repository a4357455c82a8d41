/* lifetimes.c: made-up buffers; see lifetimes.h. */
#include "lifetimes.h"

#include <stdlib.h>

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

static uint64_t area(const ebb_lifetime_t *l)
{
    return (l->end - l->begin + UINT64_C(1)) * l->bytes;
}

void lifetimes_by_cuts(ebb_lifetime_t *l, uint32_t count, uint32_t points, uint32_t bytes, uint32_t seed)
{
    uint64_t state = seed;
    l[0] = (ebb_lifetime_t){.begin = 0, .end = points - 1, .bytes = bytes};
    for (uint32_t made = 1; made < count;) {
        ebb_lifetime_t *x = &l[draw(&state, made)];
        for (int i = 0; i < 3; i++) { /* the larger ones rather */
            ebb_lifetime_t *other = &l[draw(&state, made)];
            x = area(other) > area(x) ? other : x;
        }
        const uint32_t length = x->end - x->begin + 1;
        const bool in_time = draw(&state, 2);
        if ((in_time ? length : x->bytes) < 2)
            continue;
        ebb_lifetime_t *rest = &l[made++];
        *rest = *x;
        if (in_time) {
            rest->begin += 1 + draw(&state, length - 1);
            x->end = rest->begin - 1;
        } else {
            x->bytes = 1 + draw(&state, (uint32_t)x->bytes - 1);
            rest->bytes -= x->bytes;
        }
    }
    for (uint32_t i = count; i-- > 1;) {
        const uint32_t other = draw(&state, i + 1);
        const ebb_lifetime_t x = l[i];
        l[i] = l[other];
        l[other] = x;
    }
}

void lifetimes_of_step(ebb_lifetime_t *l, uint32_t count, uint32_t seed)
{
    static const uint32_t sizes[] = {512, 512, 1024, 4096, 16384, 65536, 262144};
    uint64_t state = seed;
    for (uint32_t i = 0; i < count; i++) {
        const bool saved = i < count / 2 && !draw(&state, 4);
        const uint32_t end = saved ? count - i + draw(&state, 50) : i + 1 + draw(&state, 20);
        l[i] = (ebb_lifetime_t){
            .begin = i, .end = end, .bytes = sizes[draw(&state, sizeof sizes / sizeof sizes[0])]};
    }
}

uint64_t lifetimes_alive(const ebb_lifetime_t *l, uint32_t count)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t now = 0;
        for (uint32_t k = 0; k < count; k++)
            now += l[k].begin <= l[i].begin && l[k].end >= l[i].begin ? l[k].bytes : 0;
        most = now > most ? now : most;
    }
    return most;
}

/* tiles.c: how a product is cut into tiles, one for each block.
 *
 * Large tiles are efficient (OpenBLAS packs both operands of every tile anew), several are needed to keep
 * workers busy, and equally so. Chosen by measurement (tests/softgpu/cublas/measure_sgemm.c) on two cores
 * with AVX-512: one thread loses 2-5% against a single call for y and dx of a layer, 5-12% for dW, whose sides
 * are short. Columns of C are long in memory and cheap to cut between: n is divided first. */
#include "softgpu/blas/gemm.h"

enum {
    UNIT = 16,      /* tiles are multiples of OpenBLAS's register tile */
    GOOD_COUNT = 8, /* enough tiles: made if they keep this side and this many multiply-adds */
    GOOD_SIDE = 256,
    GOOD_WORK = 1 << 24,
    FEW = 4, /* the fewest that are acceptable: for them, tiles may be as small as this */
    SMALLEST_SIDE = 64,
    SMALLEST_WORK = 1 << 20
};

static int64_t parts(int64_t length, int64_t step)
{
    return (length + step - 1) / step;
}

/* `length` in `count` nearly equal pieces, multiples of OpenBLAS's register tile. */
static int64_t piece(int64_t length, int64_t count)
{
    return parts(parts(length, count), UNIT) * UNIT;
}

/* Halves n while it is long, then the longer side. 0: the side would be too short, or the tile too little
 * work. */
static int halve(gemm_tiles_t *t, int64_t k, int64_t shortest, int64_t least_work)
{
    int64_t *side = t->n > GOOD_SIDE || t->n >= t->m ? &t->n : &t->m;
    if (*side < 2 * shortest || t->m * t->n / 2 * k < least_work)
        return 0;
    *side = piece(*side, 2);
    return 1;
}

gemm_tiles_t gemm_choose_tiles(int64_t m, int64_t n, int64_t k, int64_t batch)
{
    gemm_tiles_t t = {.m = piece(m, parts(m, GEMM_LARGEST_M)), .n = piece(n, parts(n, GEMM_LARGEST_N))};
    while (parts(m, t.m) * parts(n, t.n) * batch < GOOD_COUNT && halve(&t, k, GOOD_SIDE, GOOD_WORK))
        ;
    while (parts(m, t.m) * parts(n, t.n) * batch < FEW && halve(&t, k, SMALLEST_SIDE, SMALLEST_WORK))
        ;
    t.down = parts(m, t.m);
    t.across = parts(n, t.n);
    return t;
}

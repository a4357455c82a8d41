/* test_pack.c: where small buffers lie. Against an exhaustive search on tiny instances, and against pieces of a rectangle, whose least
 * height is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lifetimes.h"
#include "program.h"

enum { MOST = 1000, TINY = 9, STEPS = 100000000 };

static bool overlap(const ebb_lifetime_t *a, const ebb_lifetime_t *b)
{
    return a->begin <= b->end && b->begin <= a->end;
}

/* What overlaps has bytes apart, below the height, which some buffer reaches. */
static void assert_apart(const ebb_lifetime_t *l, uint32_t count, uint64_t height)
{
    uint64_t top = 0;
    for (uint32_t i = 0; i < count; i++) {
        top = l[i].offset + l[i].bytes > top ? l[i].offset + l[i].bytes : top;
        for (uint32_t k = 0; k < i; k++)
            if (overlap(&l[i], &l[k]) && l[i].offset < l[k].offset + l[k].bytes &&
                l[k].offset < l[i].offset + l[i].bytes)
                fail_msg("%" PRIu32 " and %" PRIu32 " lie on the same bytes", i, k);
    }
    assert_int_equal(top, height);
}

/* The least height of all orders in which each buffer goes on top of what it overlaps, or `enough`. */
static uint64_t least_height(ebb_lifetime_t *l, uint32_t count, uint32_t placed, uint64_t height,
                             uint64_t best, uint64_t enough)
{
    if (height >= best || placed == count)
        return height < best ? height : best;
    for (uint32_t i = placed; i < count && best > enough; i++) {
        ebb_lifetime_t x = l[i];
        l[i] = l[placed];
        x.offset = 0;
        for (uint32_t k = 0; k < placed; k++)
            if (overlap(&x, &l[k]) && l[k].offset + l[k].bytes > x.offset)
                x.offset = l[k].offset + l[k].bytes;
        l[placed] = x;
        const uint64_t top = x.offset + x.bytes > height ? x.offset + x.bytes : height;
        best = least_height(l, count, placed + 1, top, best, enough);
        l[placed] = l[i];
        l[i] = x;
    }
    return best;
}

/* At most TINY, which leave hardly any room below what is alive together. */
static uint32_t fill(ebb_lifetime_t *l)
{
    const uint32_t most = 3 + (uint32_t)rand() % 6, points = 4 + (uint32_t)rand() % 9;
    uint32_t count = 0;
    for (int tries = 0; tries < 60 && count < TINY; tries++) {
        const uint32_t begin = (uint32_t)rand() % points;
        l[count] = (ebb_lifetime_t){
            .begin = begin, .end = begin + (uint32_t)rand() % 6, .bytes = 1 + (uint32_t)rand() % 3};
        count += lifetimes_alive(l, count + 1) <= most;
    }
    return count;
}

static void tiny_instances_take_the_least_height(void **state)
{
    (void)state;
    const uint32_t seed = test_is_long() ? (uint32_t)time(NULL) : 1, rounds = test_is_long() ? 100000 : 5000;
    uint32_t better = 0, above = 0;
    srand(seed);
    for (uint32_t round = 0; round < rounds; round++) {
        ebb_lifetime_t l[TINY], other[TINY];
        const uint32_t count = fill(l);
        memcpy(other, l, sizeof l);
        const uint64_t alive = lifetimes_alive(l, count), first_fit = ebb_pack(l, count, 1, 0),
                       least = least_height(other, count, 0, 0, UINT64_MAX, alive);
        assert_apart(l, count, first_fit);
        const uint64_t height = ebb_pack(l, count, 1, STEPS);
        assert_apart(l, count, height);
        if (height != least)
            fail_msg("seed %" PRIu32 ", round %" PRIu32 ": %" PRIu64 " where %" PRIu64 " is possible", seed,
                     round, height, least);
        better += height < first_fit;
        above += least > alive;
    }
    print_message("seed %" PRIu32 ": %" PRIu32 " instances, %" PRIu32 " better than first fit, %" PRIu32
                  " above what is alive\n",
                  seed, rounds, better, above);
    assert_true(better > rounds / 20 && above > 0);
}

/* Mean ratios to the least height, on so many instances of each size. */
static void pieces_of_a_rectangle_fit_into_it(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        double mean, worst; /* at most */
    } bars[] = {{20, 1, 1}, {50, 1, 1}, {100, 1, 1}, {200, 1.05, 1.2}, {1000, 1.25, 1.3}};
    enum { BYTES = 1000000 };
    static ebb_lifetime_t l[MOST];
    const uint32_t seeds = test_is_long() ? 40 : 5;
    for (size_t i = 0; i < sizeof bars / sizeof bars[0]; i++) {
        double mean = 0, worst = 0, first_fit = 0;
        for (uint32_t seed = 1; seed <= seeds; seed++) {
            lifetimes_by_cuts(l, bars[i].count, 10 * bars[i].count, BYTES, seed);
            assert_int_equal(lifetimes_alive(l, bars[i].count), BYTES);
            first_fit += (double)ebb_pack(l, bars[i].count, 1, 0) / BYTES / seeds;
            const uint64_t height = ebb_pack(l, bars[i].count, 1, STEPS);
            assert_apart(l, bars[i].count, height);
            mean += (double)height / BYTES / seeds;
            worst = (double)height / BYTES > worst ? (double)height / BYTES : worst;
        }
        print_message("%4" PRIu32 " pieces: %.3f of the least height, %.3f at worst; first fit %.3f\n",
                      bars[i].count, mean, worst, first_fit);
        assert_true(mean < bars[i].mean + 1e-9 && worst < bars[i].worst + 1e-9 && first_fit > 1.1);
    }
}

/* Nothing is searched for below a height that counts as many grains as what is alive. */
static void grains_say_what_is_enough(void **state)
{
    (void)state;
    enum { COUNT = 60, BYTES = 1000000 };
    ebb_lifetime_t l[COUNT], fine[COUNT];
    for (uint32_t seed = 1; seed <= 20; seed++) {
        lifetimes_by_cuts(l, COUNT, 10 * COUNT, BYTES, seed);
        memcpy(fine, l, sizeof l);
        const uint64_t first_fit = ebb_pack(l, COUNT, 1, 0);
        assert_int_equal(ebb_pack(l, COUNT, 2 * first_fit, STEPS), first_fit);
        const uint64_t height = ebb_pack(l, COUNT, BYTES / 4, STEPS);
        assert_apart(l, COUNT, height);
        assert_int_equal((height + BYTES / 4 - 1) / (BYTES / 4), 4);
        assert_int_equal(ebb_pack(fine, COUNT, 1, STEPS), BYTES);
    }
}

static void same_buffers_get_the_same_offsets(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    ebb_lifetime_t a[COUNT], b[COUNT];
    lifetimes_by_cuts(a, COUNT, 10 * COUNT, 1000000, 1);
    memcpy(b, a, sizeof a);
    assert_int_equal(ebb_pack(a, COUNT, 1, STEPS / 10), ebb_pack(b, COUNT, 1, STEPS / 10));
    assert_memory_equal(a, b, sizeof a);
}

static void a_step_takes_hardly_more_than_is_alive(void **state)
{
    (void)state;
    static const uint32_t counts[] = {100, 500, 2000, 10000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        ebb_lifetime_t *l = calloc(counts[i], sizeof *l);
        lifetimes_of_step(l, counts[i], 1);
        const uint64_t alive = lifetimes_alive(l, counts[i]), first_fit = ebb_pack(l, counts[i], 1, 0),
                       height = ebb_pack(l, counts[i], 1, STEPS);
        assert_apart(l, counts[i], height);
        print_message("%5" PRIu32 " buffers: %.4f of what is alive; first fit %.4f\n", counts[i],
                      (double)height / (double)alive, (double)first_fit / (double)alive);
        assert_true((double)height <= 1.002 * (double)alive && height <= first_fit);
        free(l);
    }
    assert_int_equal(ebb_pack(NULL, 0, 1, STEPS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_instances_take_the_least_height),
        cmocka_unit_test(pieces_of_a_rectangle_fit_into_it),
        cmocka_unit_test(grains_say_what_is_enough),
        cmocka_unit_test(same_buffers_get_the_same_offsets),
        cmocka_unit_test(a_step_takes_hardly_more_than_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Kinds of step that alternate, under libebb: the loop in programs/loop.c. TEST_ONLY=PATTERN: some of the tests;
 * TEST_LONG=1: each by every means, and a long one more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loop_run.h"

static const char *const means[] = {TIGHT, TIGHT "EBB_RECOMPUTE=0", TIGHT "EBB_OFFLOAD=0"};
enum { MEANS = sizeof means / sizeof *means };

static unsigned count_of(const char *log, const char *what)
{
    unsigned count = 0;
    for (const char *at = log; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* The plan of the next kind takes over at a boundary: the one before is not left for it, once both are known. */
static void kinds_that_alternate_share_a_boundary(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        int driven, changes, left;
    } cases[] = {{"short=2 steps=44", 22, 20, 3},              /* every second one of half the batch */
                 {"short=5 steps=60", 38, 8, 8},               /* one in five */
                 {"evaluate=5 steps=50", 40, 6, 8},            /* forward passes in between */
                 {"mix=3 evaluate=4 steps=140", 100, 80, 30}}; /* all of it, in no order */
    const size_t count = test_is_long() ? 4 : 3;
    for (size_t i = 0; i < count; i += test_is_long() ? 1 : 2) {
        loop_statistics_t s;
        program_run_t without = loop_run("", cases[i].arguments);
        program_run_t with = loop_under_ebb(means[i % MEANS], cases[i].arguments, &s);
        print_message("%s, %s: %.0f steps driven, left %.0f times, changed %.0f times\n", cases[i].arguments,
                      means[i % MEANS], s.driven, s.fallbacks, s.changes);
        assert_same(&without, &with, cases[i].arguments);
        assert_true(s.mismatches == 0 && s.driven_peak == s.predicted_peak);
        assert_true(s.driven >= cases[i].driven && s.changes >= cases[i].changes &&
                    s.fallbacks <= cases[i].left);
    }
}

/* Nobody can expect the next one: the step begins as one kind and goes on as the other, where its first allocation tells. */
static void kinds_that_come_as_they_like_are_driven(void **state)
{
    (void)state;
    for (int i = 0; i < (test_is_long() ? MEANS : 1); i++) {
        loop_statistics_t s;
        char arguments[64];
        snprintf(arguments, sizeof arguments, "mix=%d steps=50", i + 1);
        program_run_t without = loop_run("", arguments);
        program_run_t with = loop_under_ebb(means[i], arguments, &s);
        print_message("%s, %s: %.0f of 50 steps driven, left %.0f times, changed %.0f times\n", arguments,
                      means[i], s.driven, s.fallbacks, s.changes);
        assert_same(&without, &with, arguments);
        assert_true(s.driven >= 20 && s.changes >= 10 && s.mismatches == 0);
        assert_true(count_of(with.log, "ebb: plan: ") <= 4);
    }
}

/* A plan that is left takes all with it; they come back together. */
static void kinds_that_alternate_leave_and_come_back(void **state)
{
    (void)state;
    for (int i = test_is_long() ? 0 : MEANS - 1; i < MEANS; i++) {
        loop_statistics_t s;
        char arguments[64];
        snprintf(arguments, sizeof arguments, "short=2 steps=44 deviate=%d", i + 1);
        program_run_t without = loop_run("", arguments);
        program_run_t with = loop_under_ebb(means[i], arguments, &s);
        print_message(
            "%s, %s: %.0f steps driven, left %.0f times, changed %.0f times, %.0f contents rebuilt\n",
            arguments, means[i], s.driven, s.fallbacks, s.changes, s.rebuilt);
        assert_same(&without, &with, arguments);
        assert_true(s.mismatches == 0 && s.driven >= 8 && s.changes >= 4 && s.fallbacks >= 3);
    }
}

/* A copy to the host that comes with some steps only, and belongs to the one that it is behind. */
static void steps_that_are_looked_at_now_and_then_stay_with_the_plan(void **state)
{
    (void)state;
    static const char *const arguments[] = {"look=3 steps=30", "look=1 steps=30", "look=4 short=2 steps=38"};
    for (int i = test_is_long() ? 0 : MEANS - 1; i < MEANS; i++) {
        loop_statistics_t s;
        program_run_t without = loop_run("", arguments[i]);
        program_run_t with = loop_under_ebb(means[i], arguments[i], &s);
        print_message("%s, %s: %.0f steps driven, left %.0f times, changed %.0f times\n", arguments[i],
                      means[i], s.driven, s.fallbacks, s.changes);
        assert_same(&without, &with, arguments[i]);
        assert_true(s.driven >= 16 && s.fallbacks <= 3 && s.mismatches == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_that_alternate_share_a_boundary),
        cmocka_unit_test(kinds_that_come_as_they_like_are_driven),
        cmocka_unit_test(kinds_that_alternate_leave_and_come_back),
        cmocka_unit_test(steps_that_are_looked_at_now_and_then_stay_with_the_plan),
    };
    if (getenv("TEST_ONLY"))
        cmocka_set_test_filter(getenv("TEST_ONLY"));
    return cmocka_run_group_tests(tests, loop_run_setup, loop_run_teardown);
}

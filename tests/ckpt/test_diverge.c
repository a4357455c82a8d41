/* A step that departs from the plan at one launch, at each of its launches in turn, under libebb: the loop in programs/loop.c.
 * TEST_LONG=1: every launch, and every means of a plan; else every fourth launch, and the means in turn. TEST_ONLY=PATTERN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "loop_run.h"

/* Of a step with so many layers, in the order of loop.c; steps before the first that departs; departing steps are two apart. */
enum { LAYERS = 5, LAUNCHES = 4 * LAYERS + 3, FIRST = 14, APART = 3, FREED_LATE = 7 };

static const char *const means[] = {"SOFTGPU_MEMORY=36MiB EBB_VERIFY=1",
                                    "SOFTGPU_MEMORY=40MiB EBB_OFFLOAD=0 EBB_VERIFY=1",
                                    "SOFTGPU_MEMORY=36MiB EBB_RECOMPUTE=0"};
enum { MEANS = sizeof means / sizeof *means };

/* The steps in between are driven: the plan resumes at each boundary. Of the others so many, at least, leave it, or are tolerated. */
static void depart(int how, const char *means_now, double least_left)
{
    const int every = test_is_long() ? 1 : 4, departing = (LAUNCHES + every - 1) / every,
              steps = FIRST + APART * departing;
    char arguments[96];
    loop_statistics_t s;
    snprintf(arguments, sizeof arguments, "layers=%d diverge=%d how=%d every=%d steps=%d", LAYERS, FIRST, how,
             every, steps);
    program_run_t without = loop_run("", arguments);
    program_run_t with = loop_under_ebb(means_now, arguments, &s);
    print_message(
        "%s, %s: %d steps depart; %.0f driven, left %.0f times, %.0f unplanned, %.0f contents rebuilt\n",
        arguments, means_now, departing, s.driven, s.fallbacks, s.unplanned, s.rebuilt);
    assert_same(&without, &with, arguments);
    assert_true(s.mismatches == 0);
    /* All that do not depart, but for a few: some are expected to be of another kind. What is freed late departs twice. */
    assert_true(s.driven >= 0.75 * (APART - 1 - (how == FREED_LATE)) * departing);
    assert_true(s.fallbacks + s.unplanned >= least_left * departing);
}

static void at_each_launch(int how, double least_left)
{
    for (int i = 0; i < MEANS; i++)
        if (test_is_long() || i == how % MEANS)
            depart(how, means[i], least_left);
}

static void launch_more_is_survived(void **state)
{
    (void)state;
    at_each_launch(0, 0.5);
}

static void launch_that_is_missing_is_survived(void **state)
{
    (void)state;
    at_each_launch(1, 0.75);
}

static void launch_of_other_geometry_is_survived(void **state)
{
    (void)state;
    at_each_launch(2, 0.5);
}

static void launch_on_other_buffers_is_survived(void **state)
{
    (void)state;
    at_each_launch(3, 0.75);
}

static void allocation_more_is_survived(void **state)
{
    (void)state;
    at_each_launch(4, 0.5);
}

static void synchronous_copy_is_survived(void **state)
{
    (void)state;
    at_each_launch(5, 0.75);
}

/* Also while it is on the host, dropped, or on its way. */
static void buffer_that_is_freed_early_is_survived(void **state)
{
    (void)state;
    at_each_launch(6, 0.1);
}

static void buffer_that_is_freed_in_the_next_step_is_survived(void **state)
{
    (void)state;
    at_each_launch(FREED_LATE, 0.5);
}

/* Of the driver: from then on everything stays. */
static void function_that_ebb_does_not_know_is_survived(void **state)
{
    static const char *const in_any_case[] = {"EBB_POLICY=offload EBB_VERIFY=1",
                                              "EBB_POLICY=sqrt EBB_VERIFY=1"};
    (void)state;
    for (int every = 0; every < LAUNCHES; every += test_is_long() ? 1 : 9) {
        char arguments[96];
        loop_statistics_t s;
        snprintf(arguments, sizeof arguments, "layers=%d diverge=%d how=8 every=%d until=%d steps=30", LAYERS,
                 2 * FIRST - 6, every, 2 * FIRST - 4);
        const program_run_t without = loop_run("", arguments);
        program_run_t with = loop_under_ebb(in_any_case[every % 2], arguments, &s);
        assert_same(&without, &with, arguments);
        assert_true(s.driven > 0 && s.driven <= FIRST && s.mismatches == 0);
        assert_non_null(strstr(with.log, "cuMemcpyWithAttributesAsync, which ebb does not know"));
        with = loop_under_ebb(means[every % MEANS], arguments, &s); /* which has no room for everything */
        assert_int_equal(WEXITSTATUS(with.status), 3);
        assert_non_null(strstr(with.log, "cuMemcpyWithAttributesAsync, which ebb does not know"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch_more_is_survived),
        cmocka_unit_test(launch_that_is_missing_is_survived),
        cmocka_unit_test(launch_of_other_geometry_is_survived),
        cmocka_unit_test(launch_on_other_buffers_is_survived),
        cmocka_unit_test(allocation_more_is_survived),
        cmocka_unit_test(synchronous_copy_is_survived),
        cmocka_unit_test(buffer_that_is_freed_early_is_survived),
        cmocka_unit_test(buffer_that_is_freed_in_the_next_step_is_survived),
        cmocka_unit_test(function_that_ebb_does_not_know_is_survived),
    };
    if (getenv("TEST_ONLY"))
        cmocka_set_test_filter(getenv("TEST_ONLY"));
    return cmocka_run_group_tests(tests, loop_run_setup, loop_run_teardown);
}

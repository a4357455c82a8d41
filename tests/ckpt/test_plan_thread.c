/* Plans that a thread makes while the program goes on: the loop in programs/loop.c, under a libebb whose plans take as many of the program's
 * steps as a test wants (break.c). Other tests wait for plans (EBB_PLAN_WAIT).
 * TEST_ONLY=PATTERN: some of the tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loop_run.h"

#define ASIDE TIGHT "EBB_PLAN_WAIT=0 "

static const char begun[] = "a plan is being made, and the program goes on meanwhile",
                  went_on[] = "s, and the program went on meanwhile";

/* The same output, and this in the log. */
static program_run_t run(const char *settings, const char *arguments, const char *alone, loop_statistics_t *s)
{
    program_run_t without = loop_run("", alone);
    program_run_t with = loop_under_ebb(settings, arguments, s);
    print_message("%s %s: %.0f steps driven\n", settings, arguments, s->driven);
    assert_same(&without, &with, settings);
    assert_int_equal(s->mismatches, 0);
    return with;
}

static unsigned count(const char *log, const char *line)
{
    unsigned n = 0;
    for (; (log = strstr(log, line)); log++)
        n++;
    return n;
}

/* Steps go by while the plan is made: none of them is driven, all behind them are. */
static void program_goes_on_while_a_plan_is_made(void **state)
{
    (void)state;
    loop_statistics_t s, waited;
    program_run_t at_once = run(TIGHT, "steps=48", "steps=48", &waited);
    assert_null(strstr(at_once.log, begun));
    assert_null(strstr(at_once.log, went_on));
    assert_non_null(strstr(at_once.log, "planning took "));
    program_run_t with = run(ASIDE "TEST_PLAN_STEPS=12", "steps=48", "steps=48", &s);
    assert_true(strstr(with.log, begun) && strstr(with.log, went_on));
    assert_true(s.driven >= 16 && s.driven <= waited.driven - 12 && s.driven_peak == s.predicted_peak);
}

/* Without a thread whoever asks makes the plan. */
static void plan_is_made_in_the_call_where_no_thread_can_be_had(void **state)
{
    (void)state;
    loop_statistics_t s;
    program_run_t with = run(ASIDE "TEST_NO_THREADS=1", "steps=48", "steps=48", &s);
    assert_non_null(strstr(with.log, "the thread ebb-plans, which works beside the program, cannot be had"));
    assert_null(strstr(with.log, begun));
    assert_true(s.driven >= 20);
}

/* Managed memory takes some of the budget while the plan is made. */
static void plan_for_more_memory_than_is_left_is_made_anew(void **state)
{
    (void)state;
    loop_statistics_t s;
    program_run_t with = run(ASIDE "TEST_PLAN_STEPS=12", "steps=56 grow=14", "steps=56 grow=14", &s);
    assert_non_null(strstr(with.log, begun));
    assert_non_null(strstr(with.log, "does not suit any more: device: 52428800 bytes on the device, where "));
    assert_true(s.driven >= 16 && s.driven_peak == s.predicted_peak);
}

/* A launch that the plan repeats gives other bits while the plan is made: the reactive half finds that out. */
static void plan_with_what_was_refuted_meanwhile_is_made_anew(void **state)
{
    (void)state;
    loop_statistics_t s;
    static const char *const settings = ASIDE "TEST_PLAN_STEPS=12 EBB_LINK=10M EBB_VERIFY=1";
    program_run_t without = loop_run("", "steps=48 flag=9"); /* the first step for which it is asked */
    program_run_t with = loop_under_ebb(settings, "steps=48 flag=9", &s);
    assert_same(&without, &with, settings);
    assert_non_null(
        strstr(with.log, "does not suit any more: what it launches again has given other bits meanwhile"));
    assert_true(s.driven > 0);
}

/* Copies come late: the plan is driven until another one is there. */
static void plan_is_driven_while_a_better_one_is_made(void **state)
{
    (void)state;
    loop_statistics_t s;
    program_run_t with = run(ASIDE "TEST_PLAN_STEPS=3 SOFTGPU_PROFILE=H100 EBB_RECOMPUTE=0 EBB_LINK=100GB",
                             "steps=60", "steps=60", &s);
    assert_non_null(strstr(with.log, "a new plan: the program waited"));
    assert_int_equal(loop_statistic("replans"), 1);
    assert_int_equal(count(with.log, went_on), 2);
    assert_true(s.driven >= 20 && s.driven_peak == s.predicted_peak);
}

/* What is found first is driven while a better one is looked for, and stays where there is none. */
static void first_plan_is_driven_while_a_better_one_is_looked_for(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        int replans;
    } cases[] = {{ASIDE, 1}, {"SOFTGPU_MEMORY=32MiB EBB_PLAN_WAIT=0 SOFTGPU_PROFILE=H100 ", 0}};
    for (int i = 0; i < 2; i++) {
        loop_statistics_t s;
        char settings[200];
        snprintf(settings, sizeof settings, "%sTEST_FIRST_STEPS=12", cases[i].settings);
        program_run_t with = run(settings, "steps=60", "steps=60", &s);
        assert_non_null(strstr(with.log, went_on));
        assert_int_equal(count(with.log, "a better plan: a step is expected to last"), cases[i].replans);
        assert_int_equal(count(with.log, "the plan is at most"), !cases[i].replans);
        assert_int_equal(loop_statistic("replans"), cases[i].replans);
        assert_true(s.driven >= 36 && s.driven_peak == s.predicted_peak);
    }
}

/* Two step variants: each has its question. */
static void variants_have_plans_of_their_own(void **state)
{
    (void)state;
    loop_statistics_t s;
    program_run_t with = run(ASIDE "TEST_PLAN_STEPS=5", "steps=80 short=3", "steps=80 short=3", &s);
    assert_true(count(with.log, begun) >= 2);
    assert_true(s.driven >= 16 && s.changes >= 4);
}

static void smallest_budget_is_told_when_it_is_known(void **state)
{
    (void)state;
    loop_statistics_t s;
    program_run_t with = run("SOFTGPU_MEMORY=26MiB EBB_PLAN_WAIT=0 TEST_PLAN_STEPS=5", "steps=60", "steps=60", &s);
    assert_non_null(strstr(with.log, "there is no plan for a budget of "));
    assert_int_equal(s.driven, 0);
}

/* The plan would never be done: the process ends all the same, and so do a child and a context. */
static void process_ends_while_a_plan_is_made(void **state)
{
    (void)state;
    static const char *const arguments[] = {"steps=24", "steps=24 fork=14 reset=1"};
    for (int i = 0; i < 2; i++) {
        loop_statistics_t s;
        program_run_t with = run(ASIDE "TEST_PLAN_STEPS=100000", arguments[i], "steps=24", &s);
        assert_non_null(strstr(with.log, begun));
        assert_int_equal(s.driven, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_goes_on_while_a_plan_is_made),
        cmocka_unit_test(plan_is_made_in_the_call_where_no_thread_can_be_had),
        cmocka_unit_test(plan_for_more_memory_than_is_left_is_made_anew),
        cmocka_unit_test(plan_with_what_was_refuted_meanwhile_is_made_anew),
        cmocka_unit_test(plan_is_driven_while_a_better_one_is_made),
        cmocka_unit_test(first_plan_is_driven_while_a_better_one_is_looked_for),
        cmocka_unit_test(variants_have_plans_of_their_own),
        cmocka_unit_test(smallest_budget_is_told_when_it_is_known),
        cmocka_unit_test(process_ends_while_a_plan_is_made),
    };
    const char *only = getenv("TEST_ONLY");
    if (only)
        cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, loop_run_setup, loop_run_teardown);
}

/* A program that uses ebb's interface (ckpt/run/ebb.h), with and without libebb: programs/told.c, which also looks itself at what the calls return. */
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

enum { AT = 15, STEPS = 45, MIB = 1 << 20 };

/* What the program says at a place. */
typedef struct said {
    double driven, plans, fetches, evictions, mapped, budget;
} said_t;

static said_t said(const program_run_t *run, const char *where)
{
    char begin[32];
    said_t s = {.driven = -1};
    snprintf(begin, sizeof begin, "told: %s: ", where);
    const char *line = strstr(run->log, begin);
    if (!line || sscanf(line + strlen(begin),
                        "driven %lf, plans %lf, fetches %lf, evictions %lf, mapped %lf, budget %lf",
                        &s.driven, &s.plans, &s.fetches, &s.evictions, &s.mapped, &s.budget) != 6)
        fail_msg("nothing is said: %s: %s", where, run->log);
    return s;
}

static unsigned count_of(const program_run_t *run, const char *text)
{
    unsigned count = 0;
    for (const char *at = run->log; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

/* The same bits as without ebb, where nothing is told. */
static program_run_t told(const char *settings, const char *arguments)
{
    char all[128], with[256];
    loop_statistics_t s;
    snprintf(all, sizeof all, "%s steps=%d at=%d", arguments, STEPS, AT);
    snprintf(with, sizeof with, "EBB_PLAN_WAIT=600000 SOFTGPU_MEMORY=128MiB %s", settings);
    const program_run_t without = loop_run("", all), run = loop_under_ebb(with, all, &s);
    assert_same(&without, &run, arguments);
    assert_true(s.mismatches == 0);
    return run;
}

static void nothing_is_decided_while_decisions_are_paused(void **state)
{
    (void)state;
    const program_run_t run = told("EBB_BUDGET=52MiB", "pause=1");
    const said_t at = said(&run, "at"), until = said(&run, "until"), end = said(&run, "end");
    print_message("driven: %.0f, %.0f, %.0f\n", at.driven, until.driven, end.driven);
    assert_true(at.driven >= 4);
    assert_true(until.driven <= at.driven + 1 && until.plans == at.plans && until.fetches > at.fetches);
    assert_true(end.driven >= until.driven + AT - 2);
}

static void budget_is_followed_both_ways(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        double small, large;
    } ways[] = {
        {"small=44 large=60", 44, 60}, {"small=60 large=44", 60, 44}, {"small=50 large=100", 50, 100}};
    for (int i = 0; i < 2; i++) {
        const program_run_t run = told("EBB_BUDGET=52MiB", ways[i].arguments);
        const said_t at = said(&run, "at"), until = said(&run, "until"), end = said(&run, "end");
        print_message("%s: driven %.0f, %.0f, %.0f; plans %.0f, %.0f, %.0f\n", ways[i].arguments, at.driven,
                      until.driven, end.driven, at.plans, until.plans, end.plans);
        assert_true(until.driven >= at.driven + AT - 3 && end.driven >= until.driven + AT - 3);
        assert_true(until.plans > at.plans && end.plans > until.plans);
        assert_true(until.budget == ways[i].small * MIB && until.mapped <= until.budget);
        assert_true(end.budget == ways[i].large * MIB && end.mapped <= end.budget);
    }
}

/* Once a plan has to be left for it, the next one provides for it. */
static void activation_that_is_kept_is_moved_by_no_plan(void **state)
{
    (void)state;
    const program_run_t run = told("EBB_BUDGET=52MiB", "keep=1");
    const said_t at = said(&run, "at"), until = said(&run, "until"), end = said(&run, "end");
    print_message("driven: %.0f, %.0f, %.0f\n", at.driven, until.driven, end.driven);
    const unsigned left = count_of(&run, "the program keeps a buffer that plans move");
    assert_true(left >= 1 && left <= 2);
    assert_true(until.driven >= at.driven + AT - 3 && end.driven >= until.driven + AT - 2);
}

/* Plans of two variants beside each other: what is kept in the steps of one is left alone by the other's. */
/* Of two variants, which a plan is driven for in turn. */
static void budget_is_followed_by_steps_of_two_sizes(void **state)
{
    (void)state;
    const program_run_t run = told("EBB_BUDGET=52MiB", "short=2 small=44 large=100 steps=90 at=30");
    const said_t until = said(&run, "until"), end = said(&run, "end");
    assert_true(end.plans >= until.plans + 2 && end.mapped > 60 * MIB);
    assert_true(end.driven >= until.driven + 25);
}

static void activation_that_is_kept_is_so_in_steps_of_two_sizes(void **state)
{
    (void)state;
    const program_run_t run = told("EBB_BUDGET=52MiB", "short=2 keep=1 steps=90 at=30");
    const said_t at = said(&run, "at"), until = said(&run, "until"), end = said(&run, "end");
    print_message("driven: %.0f, %.0f, %.0f\n", at.driven, until.driven, end.driven);
    assert_true(count_of(&run, "the program keeps a buffer that plans move") <= 2);
    assert_true(until.driven >= at.driven + 25 && end.driven >= until.driven + 28);
}

/* Within each step: what is driven goes on, whether plans move the weights or not; within one step, so much that there is no plan for it. */
static void memory_that_is_kept_within_steps_leaves_them_driven(void **state)
{
    (void)state;
    static const char *const runs[][2] = {
        {"EBB_BUDGET=52MiB", "within=1"}, {"EBB_BUDGET=64MiB", "within=1"}, {"EBB_BUDGET=52MiB", "greedy=1"}};
    for (int i = 0; i < 3; i++) {
        const program_run_t run = told(runs[i][0], runs[i][1]);
        const said_t at = said(&run, "at"), until = said(&run, "until"), end = said(&run, "end");
        print_message("%s: driven: %.0f, %.0f, %.0f; plans %.0f, %.0f, %.0f\n", runs[i][1], at.driven,
                      until.driven, end.driven, at.plans, until.plans, end.plans);
        assert_true(until.driven >= at.driven + AT - 4 && end.driven >= until.driven + AT - 2);
        assert_true(until.plans <= at.plans + 2 && end.plans == until.plans);
    }
}

static void activation_that_is_kept_is_not_evicted(void **state)
{
    (void)state;
    const program_run_t run = told("EBB_BUDGET=44MiB EBB_POLICY=reactive", "keep=1");
    assert_true(said(&run, "until").evictions > said(&run, "at").evictions);
}

static void memory_that_is_kept_is_there_by_every_means(void **state)
{
    (void)state;
    static const char *const means[] = {"EBB_BUDGET=52MiB", "EBB_BUDGET=56MiB EBB_RECOMPUTE=0",
                                        "EBB_BUDGET=52MiB EBB_POLICY=reactive"};
    for (int i = 0; i < 3; i++) {
        const program_run_t run = told(means[i], "hold=1");
        const said_t at = said(&run, "at"), until = said(&run, "until"), end = said(&run, "end");
        print_message("%s: driven %.0f, %.0f, %.0f\n", means[i], at.driven, until.driven, end.driven);
        assert_true(strstr(means[i], "reactive") ||
                    (until.driven >= at.driven + AT - 5 && end.driven >= until.driven + AT - 5));
    }
}

static void steps_that_are_marked_are_driven_and_named(void **state)
{
    (void)state;
    char trace[96], setting[192];
    snprintf(trace, sizeof trace, "%s.trace", loop_stats);
    snprintf(setting, sizeof setting, "EBB_BUDGET=52MiB EBB_TRACE=%s", trace);
    const program_run_t run = told(setting, "mark=1");
    assert_true(said(&run, "end").driven >= STEPS - AT);
    assert_int_equal(count_of(&run, "learning begins after"), 1);
    FILE *file = fopen(trace, "r");
    char *line = NULL;
    size_t room = 0;
    bool named = false;
    while (file && getline(&line, &room, file) >= 0)
        named |= strstr(line, "\"nvtx\": \"told step\"") != NULL;
    free(line);
    if (file)
        fclose(file);
    remove(trace);
    assert_true(named);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_decided_while_decisions_are_paused),
        cmocka_unit_test(budget_is_followed_both_ways),
        cmocka_unit_test(budget_is_followed_by_steps_of_two_sizes),
        cmocka_unit_test(activation_that_is_kept_is_moved_by_no_plan),
        cmocka_unit_test(activation_that_is_kept_is_so_in_steps_of_two_sizes),
        cmocka_unit_test(memory_that_is_kept_within_steps_leaves_them_driven),
        cmocka_unit_test(activation_that_is_kept_is_not_evicted),
        cmocka_unit_test(memory_that_is_kept_is_there_by_every_means),
        cmocka_unit_test(steps_that_are_marked_are_driven_and_named),
    };
    return cmocka_run_group_tests(tests, loop_run_setup, loop_run_teardown);
}

/* Modules that the program unloads and loads again, under libebb: programs/reload.c. Its output is a hash of all that it has
 * computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "program.h"
#include "trace_file.h"

static char trace_path[64], stats_path[64];
static program_run_t without;

/* With the module reloaded at these steps. */
static program_run_t run(const char *settings, const char *steps)
{
    static program_run_t out;
    char command[1536];
    snprintf(command, sizeof command, "%s %s %s %s", settings, getenv("TEST_RELOAD"),
             getenv("TEST_RELOAD_KERNELS"), steps);
    program_run(command, &out);
    return out;
}

static void assert_same(const program_run_t *with, const char *what)
{
    if (with->status || strcmp(with->output, without.output))
        fail_msg("%s: status %d, %s instead of %s: %s", what, with->status, with->output, without.output,
                 with->log);
}

/* ---- while a step is learned ---- */

static void check_trace(const char *steps)
{
    unsigned proven = 0, exchanges = 0;
    ebb_trace_t *t = trace_file_read(trace_path);
    for (uint32_t k = 0; k < t->operation_count; k++) {
        const ebb_trace_operation_t *o = &t->operation[k];
        proven += o->verdict == EBB_PROVEN;
        if (strncmp(o->name, "nccl", 4))
            continue;
        exchanges++;
        assert_int_equal(o->verdict, EBB_COMMUNICATES);
        assert_true(o->resident);
    }
    ebb_trace_delete(t);
    print_message("reloaded at step %s: %u proven\n", *steps ? steps : "none", proven);
    assert_true(exchanges == 1 && proven > 0);
}

/* Unloaded in every profiling pass, later, and never. What was learned names functions that are no more, and is learned again; by its
 * name one kernel is never repeated. */
static void modules_may_go_while_a_step_is_learned(void **state)
{
    (void)state;
    static const char *const steps[] = {"", "5", "6", "7 8", "9 10 11", "12", "4 13", "24 27"};
    char settings[1024];
    snprintf(settings, sizeof settings, "LD_PRELOAD=%s EBB_TRACE=%s", getenv("TEST_LIBEBB"), trace_path);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        remove(trace_path);
        program_run_t with = run(settings, steps[i]);
        assert_same(&with, steps[i]);
        check_trace(steps[i]);
    }
}

/* ---- while contents are dropped that its kernels make ---- */

static program_run_t run_recomputing(const char *policy, const char *steps)
{
    char settings[1024];
    snprintf(settings, sizeof settings,
             "LD_PRELOAD=%s EBB_STATS=%s EBB_LOG=info EBB_OFFLOAD=0 EBB_POLICY=%s SOFTGPU_MEMORY=14M",
             getenv("TEST_LIBEBB"), stats_path, policy);
    program_run_t with = run(settings, steps);
    assert_same(&with, steps);
    assert_true(program_statistic(stats_path, NULL, "mismatches") == 0);
    return with;
}

/* They are made again before it goes. */
static void what_is_dropped_outlives_the_module_that_makes_it(void **state)
{
    (void)state;
    static const char *const tries[][2] = {
        {"auto", "30"}, {"auto", "31"}, {"auto", "25 26 27"}, {"learn", "31"}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        program_run_t with = run_recomputing(tries[i][0], tries[i][1]);
        assert_non_null(strstr(with.log, "what was learned is given up: a module"));
        assert_true(program_statistic(stats_path, NULL, "replays") +
                        program_statistic(stats_path, NULL, "reactive_replays") >
                    0);
    }
}

/* A module from which no step launches changes nothing. */
static void other_modules_may_go_while_a_plan_is_driven(void **state)
{
    (void)state;
    program_run_t with = run_recomputing("auto", "-30 -31");
    assert_null(strstr(with.log, "given up"));
    assert_true(program_statistic(stats_path, NULL, "fallbacks") <= 1); /* the end of the program */
    assert_true(program_statistic(stats_path, NULL, "steps_driven") > 20);
}

static int setup(void **state)
{
    (void)state;
    snprintf(trace_path, sizeof trace_path, "/tmp/ebb-modules-trace-%d", (int)getpid());
    snprintf(stats_path, sizeof stats_path, "/tmp/ebb-modules-stats-%d", (int)getpid());
    without = run("", "");
    return without.status || strlen(without.output) < 16;
}

static int teardown(void **state)
{
    (void)state;
    unlink(trace_path);
    unlink(stats_path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_may_go_while_a_step_is_learned),
        cmocka_unit_test(what_is_dropped_outlives_the_module_that_makes_it),
        cmocka_unit_test(other_modules_may_go_while_a_plan_is_driven),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

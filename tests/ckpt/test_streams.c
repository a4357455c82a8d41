/* Steps on several streams that wait for one another: what libebb learns of one on two, programs/nasty's `branches`, and how one
 * on three is driven, programs/lanes.c. TEST_SEEDS=N: by so many orders of what is not ordered; TEST_LONG=1: more of the rest. */
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

enum { STREAMS = 2, EVENTS = 64 };

static char trace_path[64], stats_path[64];
static program_run_t without;
static double half; /* bytes: between what must be there at once and what is alive at most */

static program_run_t run(const char *settings)
{
    static program_run_t out;
    char command[1024];
    snprintf(command, sizeof command, "SOFTGPU_POISON=1 %s %s branches", settings,
             getenv("TEST_NASTY_PROGRAM"));
    program_run(command, &out);
    return out;
}

static ebb_trace_t *learn(const char *settings)
{
    char all[768];
    snprintf(all, sizeof all, "LD_PRELOAD=%s EBB_TRACE=%s EBB_STATS=%s SOFTGPU_MEMORY=%.0f %s",
             getenv("TEST_LIBEBB"), trace_path, stats_path, half, settings);
    remove(trace_path);
    program_run_t with = run(all);
    if (with.status || strcmp(with.output, without.output))
        fail_msg("%s: status %d, %s the same output: %s", settings, with.status,
                 strcmp(with.output, without.output) ? "not" : "and", with.log);
    assert_true(program_statistic(stats_path, NULL, "peak_bytes") <= half);
    assert_true(program_statistic(stats_path, NULL, "evictions") > 0);
    return trace_file_read(trace_path);
}

/* Waits of each stream for an event that the other one has recorded in this step. */
static void check_edges(const ebb_trace_t *t)
{
    uint32_t recorded_on[EVENTS], edges[STREAMS] = {0};
    memset(recorded_on, 0xff, sizeof recorded_on);
    for (uint32_t i = 0; i < t->sync_count; i++) {
        const ebb_trace_sync_t *m = &t->sync[i];
        if (m->what != EBB_SYNC_RECORD && m->what != EBB_SYNC_WAIT)
            continue;
        assert_true(m->id < EVENTS && m->stream < STREAMS);
        if (m->what == EBB_SYNC_RECORD)
            recorded_on[m->id] = m->stream;
        else
            edges[m->stream] += recorded_on[m->id] == 1 - m->stream;
    }
    print_message("%u waits of the first stream, %u of the second\n", edges[0], edges[1]);
    assert_true(edges[0] >= 8 && edges[1] >= 8); /* a layer has one of each at least */
}

static void check_proofs(const ebb_trace_t *t)
{
    uint32_t proven[STREAMS] = {0};
    for (uint32_t i = 0; i < t->operation_count; i++) {
        assert_true(t->operation[i].stream < STREAMS);
        proven[t->operation[i].stream] +=
            t->operation[i].verdict == EBB_PROVEN && t->operation[i].proofs >= 3;
    }
    print_message("%u launches proven on the first stream, %u on the second\n", proven[0], proven[1]);
    assert_true(proven[0] >= 8 && proven[1] >= 8);
}

static void launches_on_both_streams_are_proven_under_half_the_memory(void **state)
{
    (void)state;
    static const char *const settings[] = {"EBB_OFFLOAD=0", "SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=1"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        ebb_trace_t *t = learn(settings[i]);
        check_edges(t);
        check_proofs(t);
        ebb_trace_delete(t);
    }
}

/* ---- driving ---- */

typedef struct driven {
    double steps, fallbacks, unplanned, replays, offloaded, dropped, changes;
} driven_t;

/* Runs lanes by itself and under ebb: the same bits, no more memory than the budget, and as much as was predicted. */
static driven_t drive(const char *settings, const char *arguments, double budget_mib, program_run_t *with)
{
    static program_run_t alone;
    char command[1024];
    snprintf(command, sizeof command, "SOFTGPU_POISON=1 %s %s", getenv("TEST_LANES"), arguments);
    program_run(command, &alone);
    if (alone.status && strstr(alone.log, "kernel library was built without Clang")) /* cooperative kernels */
        skip();
    assert_int_equal(alone.status, 0);
    snprintf(command, sizeof command,
             "SOFTGPU_POISON=1 LD_PRELOAD=%s EBB_STATS=%s EBB_LOG=info EBB_BUDGET=%.0fMiB %s %s %s",
             getenv("TEST_LIBEBB"), stats_path, budget_mib, settings, getenv("TEST_LANES"), arguments);
    program_run(command, with);
    if (with->status || strcmp(with->output, alone.output))
        fail_msg("%s, %s: status %d, %s instead of %s: %s", settings, arguments, with->status, with->output,
                 alone.output, with->log);
    const driven_t out = {
        program_statistic(stats_path, NULL, "steps_driven"), program_statistic(stats_path, NULL, "fallbacks"),
        program_statistic(stats_path, NULL, "unplanned"),    program_statistic(stats_path, NULL, "replays"),
        program_statistic(stats_path, NULL, "offloaded"),    program_statistic(stats_path, NULL, "dropped"),
        program_statistic(stats_path, NULL, "changes")};
    print_message("%s, %s at %.0f MiB: %.0f steps driven, left %.0f times, %.0f unplanned; %.0f offloaded, "
                  "%.0f dropped; %.0f changes\n",
                  settings, arguments, budget_mib, out.steps, out.fallbacks, out.unplanned, out.offloaded,
                  out.dropped, out.changes);
    assert_true(program_statistic(stats_path, NULL, "peak_bytes") <= budget_mib * (1 << 20));
    assert_true(program_statistic(stats_path, NULL, "mismatches") == 0);
    assert_true(program_statistic(stats_path, NULL, "driven_peak_bytes") ==
                program_statistic(stats_path, NULL, "predicted_peak_bytes"));
    return out;
}

/* It holds 76 MiB: 70%, 50%, and as much as it takes with replays alone. By threads the profiling passes depend on time, and may be as
 * many as there can be. */
static void step_on_three_streams_is_driven(void **state)
{
    (void)state;
    static const struct {
        double mib;
        const char *means;
    } cases[] = {{54, ""}, {38, ""}, {60, "EBB_OFFLOAD=0"}, {38, "EBB_RECOMPUTE=0"}};
    static program_run_t with;
    const int seeds = getenv("TEST_SEEDS") ? atoi(getenv("TEST_SEEDS")) : 0;
    for (int seed = 0; seed <= (seeds ? seeds : 1); seed++) /* 0: by threads */
        for (size_t i = seed && !test_is_long() && !seeds ? 1 : 0; i < (seeds ? 4 : seed ? 3 : 1); i++) {
            char settings[256] = "";
            if (seed)
                snprintf(settings, sizeof settings, "SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=%d ", seed);
            strcat(settings, cases[i].means);
            const driven_t d = drive(settings, seed ? "steps=20" : "steps=28", cases[i].mib, &with);
            assert_true(d.steps >= 3 && d.offloaded + d.dropped > 0);
            assert_true(!strstr(settings, "OFFLOAD=0") || (!d.offloaded && d.replays > 0));
            assert_true(!strstr(settings, "RECOMPUTE=0") || (d.offloaded > 0 && !d.replays));
        }
}

/* Another order of issue, a wait that is the host's, one launch more, a stream that is another: nothing is lost, and driving goes on. */
static void streams_that_do_otherwise_are_left_or_tolerated(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *says;
    } cases[] = {{"steps=23 turn=17", "leaving the plan"},
                 {"steps=23 sync=17", "a stream has not waited for another one"},
                 {"steps=24 more=16", NULL},
                 {"steps=32 fresh=17", "leaving the plan"}};
    static program_run_t with;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const driven_t d =
            drive("SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=1", cases[i].arguments, 46, &with);
        assert_true(d.steps >= 5);
        if (cases[i].says)
            assert_non_null(strstr(with.log, cases[i].says));
        else
            assert_true(d.unplanned >= 4 && d.fallbacks <= 1);
    }
}

/* Every second step, or one in three, has half the batch: its plan and the other one take turns. */
static void kinds_of_steps_on_three_streams_share_a_boundary(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *means;
        double mib, driven, changes, left;
    } cases[] = {{"short=2 steps=44", "", 60, 22, 18, 3},
                 {"short=2 steps=44", "EBB_OFFLOAD=0", 60, 22, 18, 3},
                 {"short=3 steps=40", "", 46, 20, 8, 6}};
    static program_run_t with;
    for (size_t i = test_is_long() ? 0 : 1; i < sizeof cases / sizeof *cases; i++) {
        char settings[128];
        snprintf(settings, sizeof settings, "SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=%d %s", (int)i + 1,
                 cases[i].means);
        const driven_t d = drive(settings, cases[i].arguments, cases[i].mib, &with);
        assert_true(d.steps >= cases[i].driven && d.changes >= cases[i].changes &&
                    d.fallbacks <= cases[i].left);
    }
}

/* Cooperative kernels, beside which no chunk changes hands: the plans order them, and the trace says which they are. */
static void step_with_cooperative_kernels_is_driven(void **state)
{
    (void)state;
    static const char *const means[] = {"", "EBB_OFFLOAD=0", "EBB_RECOMPUTE=0"};
    static program_run_t with;
    setenv("SOFTGPU_PROFILE", "A100", 1); /* with room for all their blocks */
    for (int i = 0; i < (test_is_long() ? 3 : 1); i++) {
        char settings[256];
        snprintf(settings, sizeof settings, "SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=%d EBB_TRACE=%s %s",
                 i + 1, trace_path, means[i]);
        const driven_t d = drive(settings, "steps=24 together=1", 60, &with);
        assert_true(d.steps >= 3 && d.offloaded + d.dropped > 0);
        ebb_trace_t *t = trace_file_read(trace_path);
        uint32_t residents = 0;
        for (uint32_t k = 0; k < t->operation_count; k++) {
            assert_int_equal(t->operation[k].resident, t->operation[k].verdict == EBB_ATTRIBUTES);
            residents += t->operation[k].resident;
        }
        assert_true(residents >= 4);
        ebb_trace_delete(t);
    }
    unsetenv("SOFTGPU_PROFILE");
}

static int setup(void **state)
{
    double peak, must, small;
    (void)state;
    snprintf(trace_path, sizeof trace_path, "/tmp/ebb-streams-trace-%d", (int)getpid());
    snprintf(stats_path, sizeof stats_path, "/tmp/ebb-streams-stats-%d", (int)getpid());
    without = run("");
    const char *size = strstr(without.log, "size ");
    if (without.status || !size || sscanf(size, "size %lf %lf %lf", &peak, &must, &small) != 3)
        return -1;
    const double chunk = 2 << 20, least = must + 2 * small + 3 * chunk;
    half = (double)(uint64_t)((least + (peak + small)) / 2 / chunk) * chunk;
    return 0;
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
        cmocka_unit_test(launches_on_both_streams_are_proven_under_half_the_memory),
        cmocka_unit_test(step_on_three_streams_is_driven),
        cmocka_unit_test(streams_that_do_otherwise_are_left_or_tolerated),
        cmocka_unit_test(kinds_of_steps_on_three_streams_share_a_boundary),
        cmocka_unit_test(step_with_cooperative_kernels_is_driven)};
    return cmocka_run_group_tests(tests, setup, teardown);
}

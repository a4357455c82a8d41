/* What libebb learns of a step on two streams that wait for one another: programs/nasty, `branches`. */
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
    for (uint32_t i = 0; i < t->moment_count; i++) {
        const ebb_trace_moment_t *m = &t->moment[i];
        if (m->what != EBB_MOMENT_RECORD && m->what != EBB_MOMENT_WAIT)
            continue;
        assert_true(m->id < EVENTS && m->stream < STREAMS);
        if (m->what == EBB_MOMENT_RECORD)
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
        cmocka_unit_test(launches_on_both_streams_are_proven_under_half_the_memory)};
    return cmocka_run_group_tests(tests, setup, teardown);
}

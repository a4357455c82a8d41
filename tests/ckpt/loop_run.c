/* loop_run.c: see loop_run.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop_run.h"

char loop_stats[64];

int loop_run_setup(void **state)
{
    (void)state;
    snprintf(loop_stats, sizeof loop_stats, "/tmp/ebb-loop-stats-%d.json", (int)getpid());
    return 0;
}

int loop_run_teardown(void **state)
{
    (void)state;
    remove(loop_stats);
    return 0;
}

program_run_t loop_run(const char *settings, const char *arguments)
{
    static program_run_t out, alone;
    static char
        alone_with[256]; /* the arguments of the last run without settings, which is the same every time */
    char command[1280];
    if (!*settings && *alone_with && !strcmp(arguments, alone_with))
        return alone;
    snprintf(command, sizeof command, "%s %s %s", settings, getenv("TEST_LOOP"), arguments);
    program_run(command, &out);
    if (!*settings) {
        alone = out;
        snprintf(alone_with, sizeof alone_with, "%s", arguments);
    }
    return out;
}

double loop_statistic(const char *key)
{
    return program_statistic(loop_stats, NULL, key);
}

program_run_t loop_under_ebb(const char *settings, const char *arguments, loop_statistics_t *s)
{
    char all[1024];
    snprintf(all, sizeof all,
             "SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=1 LD_PRELOAD=%s EBB_STATS=%s EBB_LOG=debug %s",
             getenv("TEST_LIBEBB"), loop_stats, settings);
    program_run_t out = loop_run(all, arguments);
    *s = (loop_statistics_t){
        .driven = loop_statistic("steps_driven"),
        .fallbacks = loop_statistic("fallbacks"),
        .rebuilt = loop_statistic("rebuilt"),
        .mismatches = loop_statistic("mismatches"),
        .verified = loop_statistic("verified"),
        .dropped = loop_statistic("dropped"),
        .offloaded = loop_statistic("offloaded"),
        .peak = loop_statistic("peak_bytes"),
        .predicted_peak = loop_statistic("predicted_peak_bytes"),
        .driven_peak = loop_statistic("driven_peak_bytes"),
        .replays = loop_statistic("reactive_replays"),
        .unplanned = loop_statistic("unplanned"),
        .changes = loop_statistic("changes"),
    };
    return out;
}

void assert_same(const program_run_t *a, const program_run_t *b, const char *what)
{
    if (a->status || b->status || strcmp(a->output, b->output))
        fail_msg("%s: exit codes %d and %d, %s and %s: %s", what, WEXITSTATUS(a->status),
                 WEXITSTATUS(b->status), a->output, b->output, b->log);
    assert_true(strlen(a->output) >= 16);
}

/* loop_run.h: runs of programs/loop.c with and without libebb, for tests of driving. Its output is a hash of all that it has
 * computed. A test's first call is loop_run_setup. */
#ifndef TESTS_CKPT_LOOP_RUN_H
#define TESTS_CKPT_LOOP_RUN_H

#include "program.h"

/* The device has 60% of what the program would hold, and nothing else. */
#define TIGHT "SOFTGPU_MEMORY=52MiB "

typedef struct loop_statistics {
    double driven, fallbacks, rebuilt, mismatches, verified, dropped, offloaded, peak, predicted_peak,
        driven_peak, replays /* but by plans */, unplanned, changes;
} loop_statistics_t;

extern char loop_stats[64]; /* the file with the statistics of the last run */

/* CMocka's, of a group of tests. */
int loop_run_setup(void **state);
int loop_run_teardown(void **state);

/* With the environment `settings` ("A=1 B=2") before the program. */
program_run_t loop_run(const char *settings, const char *arguments);

/* By the computed clock: what a profiling pass can afford to prove depends on times, and so does the step in which driving begins.
 * It never takes more than 16 profiling passes. */
program_run_t loop_under_ebb(const char *settings, const char *arguments, loop_statistics_t *statistics);
/* Another number of that run. */
double loop_statistic(const char *key);

/* Fails unless both have ended well, with the same output. */
void assert_same(const program_run_t *a, const program_run_t *b, const char *what);

#endif

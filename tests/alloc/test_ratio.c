/* How much memory the allocator reserves for what is alive: steps of the trainer (bench/traces), replayed on a driver that does
 * nothing but count (bench/bench_replay.c tells what the figures mean). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program.h"

/* Whether the device is in step with the host or 500 operations behind it. In the small ones this is one page of 2 MiB; in the
 * others it differs from run to run, by what a thread creates ahead: 1.013 to 1.020, and 1.002 to 1.009. */
static const struct {
    const char *trace;
    double most;
} known[] = {{"tiny", 1.06}, {"naive-dropout", 1.06}, {"wide", 1.03}, {"gpt2-124M", 1.02}};

static void trainers_steps_need_little_more_than_what_is_alive(void **state)
{
    static program_run_t out;
    (void)state;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        for (unsigned behind = 0; behind < 2; behind++) {
            char command[1024];
            double reserved, live;
            snprintf(command, sizeof command,
                     "LD_LIBRARY_PATH=%s LD_PRELOAD=%s NULL_DRIVER_LAG=%u %s %s/%s.txt --passes 5",
                     NULL_DRIVER, getenv("TEST_LIBEBB"), behind ? 500 : 0, getenv("TEST_REPLAY"), TRACES,
                     known[i].trace);
            program_run(command, &out);
            const char *at = strstr(out.output, "reserved_pages");
            if (out.status || !at || sscanf(at, "reserved_pages %lf live_pages %lf", &reserved, &live) != 2)
                fail_msg("%s: %d: %s", command, out.status, out.log);
            print_message("%s%s: %.0f pages for %.0f: %.3f\n", known[i].trace, behind ? ", behind" : "",
                          reserved, live, reserved / live);
            assert_true(live > 0 && reserved >= live);
            assert_true(reserved / live <= known[i].most);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainers_steps_need_little_more_than_what_is_alive),
    };
    return cmocka_run_group_tests_name("ratio", tests, NULL, NULL);
}

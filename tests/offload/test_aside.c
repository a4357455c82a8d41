/* Devices on which virtual memory management is there, but does not work (vGPU, WSL2): ebb stands aside, says so in one line, and the
 * program runs as it does without ebb. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program.h"

static program_run_t native, run;

static void run_pair(const char *settings, program_run_t *out)
{
    char command[1024];
    snprintf(command, sizeof command, "%s %s", settings, getenv("TEST_PAIR"));
    program_run(command, out);
    if (out->status || !*out->output)
        fail_msg("%s: %d: %s", command, out->status, out->log);
}

static unsigned lines_of(const char *log, const char *with)
{
    unsigned count = 0;
    for (const char *at = log; (at = strstr(at, with)); at += strlen(with))
        count++;
    return count;
}

/* Nothing that ebb does is seen in a device without room for two: what it has created has gone back. */
static void stands_aside(const char *what, const char *settings)
{
    char all[512];
    snprintf(all, sizeof all, "LD_PRELOAD=%s SOFTGPU_MEMORY=1GiB EBB_BUDGET=200MiB %s", getenv("TEST_LIBEBB"),
             settings);
    run_pair(all, &run);
    if (strcmp(run.output, native.output) != 0 || lines_of(run.log, "ebb: ") != 1 || !strstr(run.log, what) ||
        !strstr(run.log, "ebb leaves device 0 alone"))
        fail_msg("%s: %s", settings, run.log);
}

static void vmm_that_fails_at_any_step_leaves_the_program_alone(void **state)
{
    /* The write last: of all the program's it is the first. */
    static const char *const steps[] = {"cuMemGetAllocationGranularity",
                                        "cuMemAddressReserve",
                                        "cuMemCreate",
                                        "cuMemMap",
                                        "cuMemSetAccess",
                                        "cuMemUnmap",
                                        "cuMemRelease",
                                        "cuMemAddressFree",
                                        "cuMemsetD32Async"};
    (void)state;
    run_pair("SOFTGPU_MEMORY=1GiB", &native);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char settings[128];
        snprintf(settings, sizeof settings, "SOFTGPU_FAULT=%s@1%s=NOT_SUPPORTED", steps[i],
                 strstr(steps[i], "Memset") ? "" : "+");
        stands_aside(steps[i], settings);
    }
    stands_aside("CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", "SOFTGPU_LIMITS=vmm:0");
    /* Some of these orders put the write off until it is waited for. A wait that has failed is none, nor is a question that has. */
    for (unsigned seed = 1; seed <= 6; seed++) {
        char settings[128];
        snprintf(settings, sizeof settings,
                 "SOFTGPU_FAULT=cuStreamSynchronize@1%s SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=%u",
                 seed > 4 ? ",cuStreamQuery@1" : "", seed);
        stands_aside("cuStreamSynchronize", settings);
    }
}

static void reservations_that_are_refused_are_tried_smaller(void **state)
{
    char all[512];
    (void)state;
    run_pair("SOFTGPU_MEMORY=1GiB", &native);
    snprintf(all, sizeof all, "LD_PRELOAD=%s SOFTGPU_MEMORY=256MiB SOFTGPU_LIMITS=reserve:2GiB EBB_LOG=info",
             getenv("TEST_LIBEBB"));
    run_pair(all, &run);
    assert_string_equal(run.output, native.output);
    assert_null(strstr(run.log, "alone"));
    stands_aside("cuMemAddressReserve", "SOFTGPU_LIMITS=reserve:256MiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vmm_that_fails_at_any_step_leaves_the_program_alone),
        cmocka_unit_test(reservations_that_are_refused_are_tried_smaller),
    };
    return cmocka_run_group_tests_name("aside", tests, NULL, NULL);
}

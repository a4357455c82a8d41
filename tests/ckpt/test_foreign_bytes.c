/* What the driver serves a program beside ebb is told in EBB_STATS, to the byte, and counts against the budget. The program
 * starts itself again, under libebb. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "program.h"

enum { MANAGED = (5 << 20) + 4096, CHUNK = 2 << 20 };

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if (call)                                                                                            \
            return __LINE__ % 100 + 1;                                                                       \
    } while (0)

/* An exit code. `give_back`: nothing of it is there at the end. */
static int allocate(int give_back)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr p, q;
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&p, 1 << 20));
    OK(cuMemAllocManaged(&q, MANAGED, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemCreate(&handle, CHUNK, &prop, 0));
    if (give_back) {
        OK(cuMemFree(q));
        OK(cuMemRelease(handle));
    }
    return 0;
}

static void *allocate_there(void *context)
{
    CUdeviceptr p;
    return cuCtxSetCurrent(context) || cuMemAlloc(&p, 1 << 20) ? NULL : context;
}

/* In a thread that has asked nothing before. */
static int allocate_elsewhere(void)
{
    CUdevice device;
    CUcontext context;
    pthread_t thread;
    void *done;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(pthread_create(&thread, NULL, allocate_there, context) || pthread_join(thread, &done));
    return done ? 0 : 99;
}

static void run_to_its_end(const char *settings, const char *mode, double expected)
{
    static program_run_t out;
    char command[512], path[64];
    snprintf(path, sizeof path, "/tmp/ebb-foreign-%d", (int)getpid());
    snprintf(command, sizeof command, "%s LD_PRELOAD=%s EBB_STATS=%s /proc/%d/exe %s", settings,
             getenv("TEST_LIBEBB"), path, (int)getpid(), mode);
    program_run(command, &out);
    if (out.status)
        fail_msg("%s: %d: %s", command, out.status, out.log);
    assert_true(program_statistic(path, NULL, "foreign_bytes") == expected);
    assert_true(program_statistic(path, "{\"device\": 0,", "foreign_bytes") == expected);
    assert_true(program_statistic(path, NULL, "overhead_bytes") >= expected);
    assert_true(program_statistic(path, NULL, "live_bytes") == 1 << 20);
    remove(path);
}

static void what_the_driver_serves_is_told(void **state)
{
    (void)state;
    run_to_its_end("", "hold", MANAGED + CHUNK);
}

static void what_is_given_back_is_not(void **state)
{
    (void)state;
    run_to_its_end("", "give", 0);
}

/* Else an allocation would be the driver's, beside the budget. */
static void a_question_for_the_context_that_fails_is_asked_again(void **state)
{
    char settings[64];
    (void)state;
    for (unsigned nth = 1; nth <= 8; nth++) {
        snprintf(settings, sizeof settings, "SOFTGPU_FAULT=cuCtxGetCurrent@%u", nth);
        run_to_its_end(settings, "elsewhere", 0);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "elsewhere"))
        return allocate_elsewhere();
    if (argc > 1)
        return allocate(!strcmp(argv[1], "give"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_driver_serves_is_told),
        cmocka_unit_test(what_is_given_back_is_not),
        cmocka_unit_test(a_question_for_the_context_that_fails_is_asked_again),
    };
    return cmocka_run_group_tests_name("foreign_bytes", tests, NULL, NULL);
}

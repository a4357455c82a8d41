/* Evicted again without a change: nothing is copied; with the smallest change: it is. The program starts itself again,
 * under libebb on a small device. */
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

enum { BUFFERS = 10, WORDS = 1 << 20, BYTES = WORDS * 4, ROUNDS = 4 };

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if (call)                                                                                            \
            return __LINE__ % 100 + 1;                                                                       \
    } while (0)

/* Reads all buffers in turn, round and round; `write`: changes one byte of each in between. An exit code. */
static int go_round(int write)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr p[BUFFERS];
    static uint32_t host[WORDS];
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    for (uint32_t i = 0; i < BUFFERS; i++) {
        OK(cuMemAlloc(&p[i], BYTES));
        OK(cuMemsetD32(p[i], i + 1, WORDS));
    }
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < BUFFERS; i++) {
            const uint32_t at = (i * 7919 + round) % WORDS;
            OK(cuMemcpyDtoH(host, p[i], BYTES));
            for (uint32_t k = 0; k < WORDS; k++) {
                /* Bytes changed in earlier rounds lie just before `at`. */
                const uint32_t want = write && k < at && at - k <= round ? (i + 1) | 0xab000000 : i + 1;
                OK(host[k] != want);
            }
            if (write)
                OK(cuMemsetD8(p[i] + at * 4 + 3, 0xab, 1));
        }
    return 0;
}

typedef struct statistics {
    double evictions, clean_evictions, bytes_out;
} statistics_t;

static statistics_t run(const char *mode, const char *settings)
{
    static program_run_t out;
    char command[1024], path[64];
    snprintf(path, sizeof path, "/tmp/ebb-clean-%d", (int)getpid());
    snprintf(command, sizeof command,
             "LD_PRELOAD=%s SOFTGPU_MEMORY=24MiB EBB_STATS=%s EBB_POLICY=reactive %s /proc/%d/exe %s",
             getenv("TEST_LIBEBB"), path, settings, (int)getpid(), mode);
    program_run(command, &out);
    if (out.status)
        fail_msg("%s: %d: %s", command, out.status, out.log);
    const statistics_t s = {program_statistic(path, NULL, "evictions"),
                            program_statistic(path, NULL, "clean_evictions"),
                            program_statistic(path, NULL, "bytes_out")};
    remove(path);
    return s;
}

static void unchanged_buffers_leave_without_a_copy(void **state)
{
    (void)state;
    statistics_t s = run("read", "");
    assert_true(s.evictions >= (ROUNDS - 1) * BUFFERS);
    assert_true(s.clean_evictions >= s.evictions / 2);
    assert_true(s.bytes_out == (s.evictions - s.clean_evictions) * BYTES);
}

static void changed_buffers_are_copied(void **state)
{
    (void)state;
    statistics_t s = run("write", "");
    assert_true(s.evictions >= (ROUNDS - 1) * BUFFERS);
    assert_true(s.clean_evictions == 0 && s.bytes_out == s.evictions * BYTES);
}

static void the_option_forbids_it(void **state)
{
    (void)state;
    statistics_t s = run("read", "EBB_CLEAN=0");
    assert_true(s.clean_evictions == 0 && s.bytes_out == s.evictions * BYTES);
}

/* Blocks that are kept make room when pinned memory is short. */
static void kept_blocks_go_first(void **state)
{
    (void)state;
    statistics_t s = run("write", "EBB_HOST_BUDGET=28MiB EBB_PAGEABLE=0");
    assert_true(s.evictions >= (ROUNDS - 1) * BUFFERS);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return go_round(!strcmp(argv[1], "write"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged_buffers_leave_without_a_copy),
        cmocka_unit_test(changed_buffers_are_copied),
        cmocka_unit_test(the_option_forbids_it),
        cmocka_unit_test(kept_blocks_go_first),
    };
    return cmocka_run_group_tests_name("clean", tests, NULL, NULL);
}

/* Programs that allocate all that is free to learn how much that is, halving what is refused, and give it back at once, as PyTorch's
 * cudaMallocAsync backend does: it costs neither memory nor evictions. What is kept is there for whoever touches it, on whatever stream
 * the program has ordered behind the allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "program.h"

#define MIB ((size_t)1 << 20)
#define OK(call)                                                                                             \
    do {                                                                                                     \
        if (call)                                                                                            \
            return __LINE__ % 256;                                                                           \
    } while (0)

/* ---- the program: an exit code, its line where it goes wrong ---- */

enum { BUFFERS = 8, FULL = 3 * BUFFERS, BYTES = 7 << 20 }; /* four chunks each: an eighth of it is waste */
enum { SMALL = 20, SMALL_BYTES = 300 << 10 };              /* three chunks; every second one is freed */

static size_t free_now(void)
{
    size_t bytes = 0, total;
    return cuMemGetInfo(&bytes, &total) || bytes > total ? 0 : bytes;
}

/* The largest that is granted. */
static size_t probe(CUdeviceptr *p, bool async)
{
    size_t guess = free_now();
    while (guess &&
           (async ? cuMemAllocAsync(p, guess, NULL) : cuMemAlloc(p, guess)) == CUDA_ERROR_OUT_OF_MEMORY)
        guess /= 2;
    return guess;
}

static CUresult give_back(CUdeviceptr p, bool async)
{
    return async ? cuMemFreeAsync(p, NULL) : cuMemFree(p);
}

static int has(CUdeviceptr p, size_t bytes, unsigned char want)
{
    static unsigned char host[BYTES];
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < BYTES ? bytes - at : BYTES;
        OK(cuMemcpyDtoH(host, p + at, n));
        for (size_t i = 0; i < n; i++)
            OK(host[i] != want);
    }
    return 0;
}

/* `keep`: what was granted last is used. */
static int run_program(int buffers, bool keep)
{
    CUcontext context;
    CUdeviceptr p[FULL], small[SMALL], guess;
    size_t granted = 0;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < buffers; i++) {
        OK(cuMemAlloc(&p[i], BYTES));
        OK(cuMemsetD8(p[i], (unsigned char)(i + 1), BYTES));
    }
    for (int i = 0; i < SMALL; i++)
        OK(cuMemAlloc(&small[i], SMALL_BYTES));
    for (int i = 1; i < SMALL; i += 2)
        OK(cuMemFree(small[i]));
    for (int i = 0; i < 4; i++) {
        granted = probe(&guess, i & 1);
        OK(!granted);
        OK(give_back(guess, i & 1));
    }
    OK(cuMemAlloc(&guess, (size_t)1 << 40) != CUDA_ERROR_OUT_OF_MEMORY);
    if (keep) {
        OK(probe(&guess, false) != granted);
        OK(free_now() != 2 * MIB); /* it counts */
        OK(cuMemsetD8(guess, 0x5a, granted));
        OK(has(guess, granted, 0x5a));
        OK(cuMemFree(guess));
    }
    for (int i = 0; i < BUFFERS && buffers == BUFFERS; i++)
        OK(has(p[i], BYTES, (unsigned char)(i + 1)));
    printf("%zu\n", granted);
    return 0;
}

static atomic_bool go_on;

static void CUDA_CB wait_to_go_on(void *unused)
{
    (void)unused;
    for (int i = 0; i < 10000 && !atomic_load(&go_on); i++)
        usleep(1000);
}

/* Another stream uses what was allocated on one, behind an event. `busy` is what the memory could be made of, used by a third stream until
 * the program lets it go on; freed on that one before the allocation, or on the first behind it. */
static int run_streams(bool freed_before)
{
    const size_t busy_bytes = (freed_before ? 64 : 48) * MIB, bytes = busy_bytes;
    CUcontext context;
    CUstream first, second, third;
    CUevent allocated, done;
    CUdeviceptr rest = 0, busy, p;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&allocated, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    if (freed_before) /* there is nothing else to make it of */
        OK(cuMemAllocAsync(&rest, free_now() - bytes, first));
    OK(cuMemAllocAsync(&busy, busy_bytes, third));
    OK(cuMemsetD8Async(busy, 1, busy_bytes, third));
    OK(cuStreamSynchronize(third));
    OK(cuLaunchHostFunc(third, wait_to_go_on, NULL));
    OK(cuMemsetD8Async(busy, 2, busy_bytes, third));
    if (freed_before)
        OK(cuMemFreeAsync(busy, third));
    OK(cuMemAllocAsync(&p, bytes, first));
    OK(cuEventRecord(allocated, first));
    if (!freed_before) {
        OK(cuEventRecord(done, third));
        OK(cuStreamWaitEvent(first, done, 0));
        OK(cuMemFreeAsync(busy, first));
    }
    OK(cuStreamWaitEvent(second, allocated, 0));
    OK(cuMemsetD8Async(p, 3, bytes, second));
    usleep(100000);
    atomic_store(&go_on, true);
    OK(cuStreamSynchronize(third));
    OK(cuStreamSynchronize(second));
    return has(p, bytes, 3);
}

/* ---- the tests ---- */

typedef struct outcome {
    size_t granted;
    double evictions, peak;
} outcome_t;

static outcome_t run(const char *mode)
{
    static program_run_t out;
    char command[1024], path[64];
    snprintf(path, sizeof path, "/tmp/ebb-probe-%d", (int)getpid());
    snprintf(
        command, sizeof command,
        "LD_PRELOAD=%s SOFTGPU_MEMORY=256MiB EBB_BUDGET=128MiB EBB_PREALLOC=0 EBB_STATS=%s /proc/%d/exe %s",
        getenv("TEST_LIBEBB"), path, (int)getpid(), mode);
    program_run(command, &out);
    if (out.status)
        fail_msg("%s: line %d: %s", command, out.status >> 8, out.log);
    const outcome_t o = {strtoull(out.output, NULL, 10), program_statistic(path, NULL, "evictions"),
                         program_statistic(path, NULL, "peak_bytes")};
    print_message("%s: %zu MiB granted, %.0f evictions, %.0f MiB created at most\n", mode, o.granted >> 20,
                  o.evictions, o.peak / (double)MIB);
    remove(path);
    return o;
}

/* Half of the budget is alive, in 70 MiB of chunks. */
static void a_probe_costs_neither_memory_nor_evictions(void **state)
{
    (void)state;
    const outcome_t o = run("half");
    assert_int_equal(o.granted, 58 * MIB); /* all that nothing has to leave for */
    assert_true(o.evictions == 0);
    assert_true(o.peak == 70 * MIB);
}

static void what_is_kept_has_memory_when_it_is_touched(void **state)
{
    (void)state;
    const outcome_t o = run("keep");
    assert_true(o.evictions == 0 && o.peak == 128 * MIB);
}

/* Half as much again as the budget is alive: a probe does not find nothing, and does not send everything away. */
static void a_full_device_says_that_a_little_is_free(void **state)
{
    (void)state;
    const outcome_t o = run("full");
    assert_int_equal(o.granted, 2 * MIB);
    assert_true(o.peak <= 128 * MIB);
    assert_true(o.evictions <=
                FULL - 2 * BUFFERS + 1); /* one of them for the first probe; the next find its memory */
}

/* What is under way on another stream when memory comes to a buffer is waited for by all that use the buffer. */
static void memory_that_comes_later_is_ordered_for_every_stream(void **state)
{
    (void)state;
    run("freed-before");
    run("freed-since");
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strncmp(argv[1], "freed", 5))
        return run_streams(!strcmp(argv[1], "freed-before"));
    if (argc > 1)
        return run_program(strcmp(argv[1], "full") ? BUFFERS : FULL, !strcmp(argv[1], "keep"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_probe_costs_neither_memory_nor_evictions),
        cmocka_unit_test(what_is_kept_has_memory_when_it_is_touched),
        cmocka_unit_test(a_full_device_says_that_a_little_is_free),
        cmocka_unit_test(memory_that_comes_later_is_ordered_for_every_stream),
    };
    return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}

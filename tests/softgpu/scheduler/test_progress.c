/* Whatever a program relies on that CUDA promises comes to its end: polling, watching memory, kernels that wait for the
 * host or for each other, host functions that wait, several host threads. */
#include "scheduler_test.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SEEDS = 6 };

static void run_under_seeds(void (*body)(void *))
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        int wrong = 0;
        run_seeded(seed, body, &wrong, sizeof wrong);
        assert_int_equal(wrong, 0);
    }
}

/* ---- polling: each call is time for the device ---- */

static void poll_stream(void *out)
{
    int64_t *polls = out;
    CUfunction spend = kernel("spend");
    CUdeviceptr p = device_alloc(4);
    CUstream s = new_stream(0);
    double operations = 19.5e3 * 1e6, bytes = 0; /* a millisecond of the default profile */
    int kind = 0, value = 7, seen = 0;
    LAUNCH(s, spend, &operations, &kind, &bytes);
    OK(cuMemcpyDtoDAsync(p, p, 4, s));
    CUfunction store = kernel("store");
    LAUNCH(s, store, &p, &value);
    while (cuStreamQuery(s) == CUDA_ERROR_NOT_READY)
        ++*polls;
    OK(cuMemcpyDtoH(&seen, p, 4));
    if (seen != 7)
        _exit(1);
}

static void polling_ends_after_the_same_number_of_calls_everywhere(void **state)
{
    (void)state;
    int64_t first = 0;
    run_seeded(0, poll_stream, &first, sizeof first);
    assert_in_range(first, 490, 510); /* a millisecond at two microseconds a call */
    for (unsigned seed = 1; seed < SEEDS; seed++) {
        int64_t polls = 0;
        run_seeded(seed, poll_stream, &polls, sizeof polls);
        assert_int_equal(polls, first);
    }
}

static void poll_elapsed_time(void *out)
{
    (void)out;
    CUstream s = new_stream(0);
    CUevent a = new_event(), b = new_event();
    double operations = 1e9, bytes = 0;
    int kind = 0;
    float ms;
    OK(cuEventRecord(a, s));
    LAUNCH(s, kernel("spend"), &operations, &kind, &bytes);
    OK(cuEventRecord(b, s));
    while (cuEventElapsedTime(&ms, a, b) == CUDA_ERROR_NOT_READY)
        ;
    while (cuEventQuery(b) != CUDA_SUCCESS)
        _exit(1);
}

static void polling_for_elapsed_time_ends(void **state)
{
    (void)state;
    run_under_seeds(poll_elapsed_time);
}

/* A program may read pinned memory until a copy of the device has arrived there. To ThreadSanitizer, for which the copy is a memmove
 * of another thread, that is a race. */
__attribute__((no_sanitize("thread"))) static void watch_memory(void *out)
{
    int *wrong = out;
    CUdeviceptr p = device_alloc(4);
    volatile int *flag = pinned_alloc(4);
    int value = 7;
    LAUNCH(NULL, kernel("store"), &p, &value);
    OK(cuMemcpyDtoHAsync((void *)(uintptr_t)flag, p, 4, NULL));
    while (*flag == 0) { /* no call at all */
    }
    *wrong = *flag != 7;
}

static void host_that_watches_memory_sees_it_change(void **state)
{
    (void)state;
    int wrong = 0;
    run_seeded(1, watch_memory, &wrong, sizeof wrong);
    assert_int_equal(wrong, 0);
}

/* ---- kernels that wait ---- */

static void kernel_waits_for_the_host(void *out)
{
    int *wrong = out;
    CUstream held = new_stream(0), other = new_stream(0);
    CUdeviceptr p = device_alloc(8), gate_seen;
    CUevent before = new_event(), released = new_event(), behind = new_event();
    volatile int *gate = pinned_alloc(4);
    int one = 1, seen[2];
    OK(cuMemHostGetDevicePointer(&gate_seen, (void *)(uintptr_t)gate, 0));
    CUfunction store = kernel("store");
    OK(cuEventRecord(before, held));
    LAUNCH(held, kernel("wait_for"), &gate_seen);
    LAUNCH(held, store, &p, &one);
    OK(cuEventRecord(behind, held));
    CUdeviceptr q = p + 4;
    LAUNCH(other, store, &q, &one);
    OK(cuStreamSynchronize(other)); /* must not wait for the other stream */
    *wrong |= cuStreamQuery(held) != CUDA_ERROR_NOT_READY;
    *wrong |= cuEventQuery(behind) != CUDA_ERROR_NOT_READY;
    for (int i = 0; i < 100; i++)
        OK(cuStreamQuery(other));
    *wrong |= cuEventQuery(behind) != CUDA_ERROR_NOT_READY;
    OK(cuEventRecord(released, other));
    *gate = 1;
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(seen, p, 8));
    *wrong |= seen[0] != 1 || seen[1] != 1;
    /* What the host held back has not happened before the host let it go. */
    *wrong |= elapsed_ns(released, behind) < 0 || elapsed_ns(before, behind) < 0;
}

static void kernel_that_waits_for_the_host_stops_nobody_else(void **state)
{
    (void)state;
    run_under_seeds(kernel_waits_for_the_host);
}

static void kernel_waits_for_a_kernel(void *out)
{
    int *wrong = out;
    CUstream a = new_stream(0), b = new_stream(0);
    CUdeviceptr gate = device_alloc(4);
    int one = 1;
    CUfunction store = kernel("store");
    LAUNCH(a, kernel("wait_for"), &gate);
    LAUNCH(b, store, &gate, &one);
    OK(cuStreamSynchronize(a)); /* nobody waits for b but a's kernel */
    *wrong = cuCtxSynchronize() != CUDA_SUCCESS;
}

static void kernel_that_waits_for_another_stream_ends(void **state)
{
    (void)state;
    run_under_seeds(kernel_waits_for_a_kernel);
}

static void block_waits_for_a_block(void *out)
{
    int *wrong = out;
    CUdeviceptr seen = device_alloc(16);
    OK(cuLaunchKernel(kernel("wait_for_next_block"), 3, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&seen}, NULL));
    *wrong = cuCtxSynchronize() != CUDA_SUCCESS;
}

static void blocks_that_wait_for_later_ones_end(void **state)
{
    (void)state;
    run_under_seeds(block_waits_for_a_block);
}

/* ---- host functions ---- */

static atomic_int open_gate, called;

static void wait_for_gate(void *data)
{
    (void)data;
    while (!atomic_load(&open_gate))
        usleep(1000);
}

static void count_call(void *data)
{
    (void)data;
    atomic_fetch_add(&called, 1);
}

static void host_function_waits(void *out)
{
    int *wrong = out;
    CUstream a = new_stream(0), b = new_stream(0);
    CUdeviceptr p = device_alloc(4);
    int one = 1;
    OK(cuLaunchHostFunc(a, wait_for_gate, NULL));
    OK(cuLaunchHostFunc(a, count_call, NULL));
    LAUNCH(b, kernel("store"), &p, &one);
    OK(cuStreamSynchronize(b));
    *wrong |= cuStreamQuery(a) != CUDA_ERROR_NOT_READY || atomic_load(&called) != 0;
    OK(cuLaunchHostFunc(b, count_call, NULL)); /* behind the other one: there is one thread for them */
    atomic_store(&open_gate, 1);
    OK(cuCtxSynchronize());
    *wrong |= atomic_load(&called) != 2;
}

static void host_function_that_waits_for_the_host_stops_no_work(void **state)
{
    (void)state;
    run_under_seeds(host_function_waits);
}

/* ---- several host threads ---- */

static void *thread_body(void *argument)
{
    CUcontext context;
    int tag = *(int *)argument;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    CUstream s = new_stream(0);
    CUdeviceptr p = device_alloc(4);
    CUfunction store = kernel("store");
    for (int i = 0; i < 100; i++) {
        int value = tag * 1000 + i, seen = -1;
        LAUNCH(s, store, &p, &value);
        OK(cuMemcpyDtoHAsync(&seen, p, 4, s));
        if (seen != value)
            _exit(1);
    }
    return NULL;
}

static void four_threads(void *out)
{
    (void)out;
    pthread_t thread[4];
    int tag[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, thread_body, &tag[i]))
            _exit(2);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

static void several_host_threads_come_to_their_end(void **state)
{
    (void)state;
    run_under_seeds(four_threads);
}

typedef struct relay {
    CUcontext context;
    CUdeviceptr gate;
    CUstream held;
} relay_t;

static void *waits_in_a_call(void *argument)
{
    const relay_t *r = argument;
    OK(cuCtxSetCurrent(r->context));
    OK(cuStreamSynchronize(r->held));
    return NULL;
}

/* One thread waits for a kernel that only another thread's call lets end. */
static void thread_releases_another(void *out)
{
    int *wrong = out;
    relay_t r = {.gate = device_alloc(4), .held = new_stream(0)};
    CUstream other = new_stream(0);
    pthread_t thread;
    int one = 1;
    CUfunction store = kernel("store");
    OK(cuCtxGetCurrent(&r.context));
    LAUNCH(r.held, kernel("wait_for"), &r.gate);
    if (pthread_create(&thread, NULL, waits_in_a_call, &r))
        _exit(2);
    usleep(300000); /* let it wait; the outcome does not depend on it */
    LAUNCH(other, store, &r.gate, &one);
    OK(cuStreamSynchronize(other));
    pthread_join(thread, NULL);
    *wrong = cuStreamQuery(r.held) != CUDA_SUCCESS;
}

static void thread_that_waits_does_not_keep_others_from_calling(void **state)
{
    (void)state;
    run_under_seeds(thread_releases_another);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(polling_ends_after_the_same_number_of_calls_everywhere),
        cmocka_unit_test(polling_for_elapsed_time_ends),
        cmocka_unit_test(host_that_watches_memory_sees_it_change),
        cmocka_unit_test(kernel_that_waits_for_the_host_stops_nobody_else),
        cmocka_unit_test(kernel_that_waits_for_another_stream_ends),
        cmocka_unit_test(blocks_that_wait_for_later_ones_end),
        cmocka_unit_test(host_function_that_waits_for_the_host_stops_no_work),
        cmocka_unit_test(several_host_threads_come_to_their_end),
        cmocka_unit_test(thread_that_waits_does_not_keep_others_from_calling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

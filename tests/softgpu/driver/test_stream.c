/* Streams, events, the legacy default stream's rules, beside what tests/conformance has of them. */
#include "driver_test.h"

#include <pthread.h>

enum { SLOW = 20000000 }; /* rounds of slow_store: some ten milliseconds */

static void ops_of_one_stream_run_in_order(void **state)
{
    (void)state;
    enum { N = 500 };
    CUstream s;
    CUdeviceptr p = device_alloc(4), q = device_alloc(4 * N);
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < N; i++) {
        launch_slow_store(s, p, i, (unsigned)(i % 7) * 1000);
        OK(cuMemcpyDtoDAsync(q + 4 * (CUdeviceptr)i, p, 4, s));
    }
    int host[N];
    OK(cuMemcpyDtoHAsync(host, q, sizeof host, s));
    OK(cuStreamSynchronize(s));
    for (int i = 0; i < N; i++)
        assert_int_equal(host[i], i);
    OK(cuStreamDestroy(s));
    OK(cuMemFree(p));
    OK(cuMemFree(q));
}

/* legacy -> blocking, blocking -> legacy; a non-blocking stream is not concerned. */
static void legacy_stream_orders_itself_with_blocking_streams_only(void **state)
{
    (void)state;
    CUstream blocking, free_running;
    CUdeviceptr p = device_alloc(12);
    OK(cuMemsetD32(p, 0, 3));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));

    launch_slow_store(NULL, p, 1, SLOW);
    OK(cuMemcpyDtoDAsync(p + 4, p, 4, blocking));
    OK(cuStreamSynchronize(blocking));
    assert_int_equal(read_int(p + 4), 1);

    launch_slow_store(blocking, p, 2, SLOW);
    OK(cuMemcpyDtoDAsync(p + 4, p, 4, NULL));
    OK(cuStreamSynchronize(NULL));
    assert_int_equal(read_int(p + 4), 2);

    hold(NULL);
    launch_slow_store(NULL, p, 3, 1);
    OK(cuMemcpyDtoDAsync(p + 8, p + 4, 4, free_running));
    OK(cuStreamSynchronize(free_running));
    assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY); /* it did not wait */
    let_go();
    OK(cuCtxSynchronize());
    assert_int_equal(read_int(p + 8), 2);
    OK(cuStreamDestroy(blocking));
    OK(cuStreamDestroy(free_running));
    OK(cuMemFree(p));
}

static CUfunction listed(CUmodule module, const char *wanted)
{
    CUfunction f[64];
    unsigned count, i = 0;
    const char *name;
    OK(cuModuleGetFunctionCount(&count, module));
    assert_true(count <= sizeof f / sizeof *f);
    OK(cuModuleEnumerateFunctions(f, count, module));
    while (OK(cuFuncGetName(&name, f[i])), strcmp(name, wanted))
        assert_true(++i < count);
    return f[i];
}

static void *let_go_later(void *nothing)
{
    usleep(100000);
    let_go();
    return nothing;
}

/* Of a kernel that was only listed: for its loading the host waits until the context has done what it had to do. From then on it waits for
 * its own stream alone. */
static void first_launch_of_a_kernel_waits_for_the_context(void **state)
{
    (void)state;
    CUstream held, other;
    CUmodule module;
    CUfunctionLoadingState loading;
    CUdeviceptr p = device_alloc(8);
    float value = 1;
    int n = 1;
    void *args[] = {&p, &value, &n};
    OK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuModuleLoad(&module, KERNELS));
    CUfunction f = listed(module, "_Z4fillPffi");
    OK(cuFuncIsLoaded(&loading, f));
    assert_int_equal(loading, CU_FUNCTION_LOADING_STATE_UNLOADED);
    for (int launch = 0; launch < 2; launch++) {
        pthread_t later;
        hold(held);
        if (!launch)
            assert_int_equal(pthread_create(&later, NULL, let_go_later, NULL), 0);
        OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, other, args, NULL));
        assert_int_equal(cuStreamQuery(held), launch ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
        OK(cuStreamSynchronize(other));
        if (launch)
            let_go();
        else
            assert_int_equal(pthread_join(later, NULL), 0);
        OK(cuStreamSynchronize(held));
        OK(cuFuncIsLoaded(&loading, f));
        assert_int_equal(loading, CU_FUNCTION_LOADING_STATE_LOADED);
    }
    OK(cuModuleUnload(module));
    OK(cuStreamDestroy(held));
    OK(cuStreamDestroy(other));
    OK(cuMemFree(p));
}

static void *per_thread_stream_id(void *out)
{
    OK(cuCtxSetCurrent(test_context));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, out));
    return NULL;
}

static void per_thread_stream_differs_from_thread_to_thread(void **state)
{
    (void)state;
    unsigned long long mine, others;
    pthread_t thread;
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
    assert_int_equal(pthread_create(&thread, NULL, per_thread_stream_id, &others), 0);
    pthread_join(thread, NULL);
    assert_int_not_equal(mine, others);
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &others));
    assert_int_equal(mine, others);
}

static void elapsed_time_covers_the_work_between(void **state)
{
    (void)state;
    CUevent a, b, untimed;
    CUdeviceptr p = device_alloc(4);
    float ms = -1;
    OK(cuEventCreate(&a, 0));
    OK(cuEventCreate(&b, 0));
    OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(a, NULL));
    hold(NULL);
    launch_slow_store(NULL, p, 1, 10 * SLOW);
    OK(cuEventRecord(b, NULL));
    OK(cuEventRecord(untimed, NULL));
    assert_int_equal(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
    let_go();
    OK(cuEventSynchronize(b));
    OK(cuEventElapsedTime(&ms, a, b));
    assert_true(ms > 5 && ms < 60000);
    OK(cuEventSynchronize(untimed));
    assert_int_equal(cuEventElapsedTime(&ms, a, untimed), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(a));
    assert_int_equal(cuEventDestroy(a), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(b));
    OK(cuEventDestroy(untimed));
    OK(cuMemFree(p));
}

/* Random work on several streams, joined by events into one chain: every kernel reads what its predecessor
 * wrote. */
static void random_event_chains_carry_every_value(void **state)
{
    (void)state;
    enum { STREAMS = 5, EVENTS = 7, ROUNDS = 2000 };
    const unsigned seed = 4711;
    print_message("seed %u\n", seed);
    srand(seed);
    CUstream s[STREAMS];
    CUevent e[EVENTS];
    CUdeviceptr p = device_alloc(4 * (ROUNDS + 1));
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamCreateWithPriority(&s[i], CU_STREAM_NON_BLOCKING, -i));
    for (int i = 0; i < EVENTS; i++)
        OK(cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
    OK(cuMemsetD32(p, 99, 1));
    OK(cuCtxSynchronize());
    int last = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int next = rand() % STREAMS, via = rand() % EVENTS;
        OK(cuEventRecord(e[via], s[last]));
        OK(cuStreamWaitEvent(s[next], e[via], 0));
        OK(cuMemcpyDtoDAsync(p + 4 * ((CUdeviceptr)i + 1), p + 4 * (CUdeviceptr)i, 4, s[next]));
        last = next;
    }
    OK(cuStreamSynchronize(s[last]));
    assert_int_equal(read_int(p + 4 * ROUNDS), 99);
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamDestroy(s[i]));
    for (int i = 0; i < EVENTS; i++)
        OK(cuEventDestroy(e[i]));
    OK(cuMemFree(p));
}

static void *thread_traffic(void *argument)
{
    CUdeviceptr p;
    CUstream s;
    int tag = (int)(intptr_t)argument;
    OK(cuCtxSetCurrent(test_context));
    OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    for (int i = 0; i < 300; i++) {
        int value;
        OK(cuMemAllocAsync(&p, 4096 + (size_t)tag * 512, s));
        launch_slow_store(s, p, tag * 1000 + i, 500);
        OK(cuMemcpyDtoHAsync(&value, p, 4, s));
        OK(cuMemFreeAsync(p, s));
        assert_int_equal(value, tag * 1000 + i);
    }
    OK(cuStreamDestroy(s));
    return NULL;
}

static void threads_with_their_own_streams_do_not_disturb_each_other(void **state)
{
    (void)state;
    pthread_t thread[4];
    for (intptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, thread_traffic, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_of_one_stream_run_in_order),
        cmocka_unit_test(legacy_stream_orders_itself_with_blocking_streams_only),
        cmocka_unit_test(first_launch_of_a_kernel_waits_for_the_context),
        cmocka_unit_test(per_thread_stream_differs_from_thread_to_thread),
        cmocka_unit_test(elapsed_time_covers_the_work_between),
        cmocka_unit_test(random_event_chains_carry_every_value),
        cmocka_unit_test(threads_with_their_own_streams_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, driver_setup, NULL);
}

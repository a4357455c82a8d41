/* Streams, events, host functions, threads. Built twice: as it is, and with the per-thread default stream. */
#include "runtime_test.h"
#include "kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { SLOW = 20000000 }; /* about 20 ms */

static int *counter;

static int setup(void **state)
{
    (void)state;
    counter = device_alloc(64);
    return 0;
}

static cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static int read_counter(void)
{
    int value;
    OK(cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void launch_increment(unsigned rounds, cudaStream_t stream)
{
    void *args[] = {&counter, &rounds};
    OK(cudaLaunchKernel(increment_kernel, (dim3){1, 1, 1}, (dim3){32, 1, 1}, args, 0, stream));
}

/* What is issued to the stream from here on waits for let_go(). */
static atomic_int gate;
static void wait_for_gate(void *data)
{
    (void)data;
    while (!atomic_load(&gate))
        usleep(1000);
}
static void hold(cudaStream_t stream)
{
    atomic_store(&gate, 0);
    OK(cudaLaunchHostFunc(stream, wait_for_gate, NULL));
}
static void let_go(void)
{
    atomic_store(&gate, 1);
}

static void query_is_not_ready_while_work_runs(void **state)
{
    (void)state;
    cudaStream_t stream = new_stream();
    launch_increment(1, stream); /* loads it */
    OK(cudaDeviceSynchronize());
    OK(cudaMemset(counter, 0, 4));
    OK(cudaDeviceSynchronize());
    hold(stream);
    launch_increment(1, stream);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    let_go();
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamQuery(stream));
    OK(cudaStreamDestroy(stream));
    assert_int_equal(read_counter(), 1);
}

static void event_orders_two_streams(void **state)
{
    (void)state;
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t event;
    int value = 0;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaMemset(counter, 0, 4));
    OK(cudaDeviceSynchronize());
    hold(first);
    launch_increment(SLOW, first);
    OK(cudaEventRecord(event, first));
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    cudaGetLastError();
    let_go();
    OK(cudaStreamWaitEvent(second, event, 0));
    OK(cudaMemcpyAsync(&value, counter, 4, cudaMemcpyDeviceToHost, second));
    OK(cudaStreamSynchronize(second));
    assert_int_equal(value, 1);
    OK(cudaEventQuery(event));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
}

static void elapsed_time_spans_the_work(void **state)
{
    (void)state;
    cudaEvent_t start, end;
    float ms = -1;
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    OK(cudaEventRecord(start, NULL));
    launch_increment(SLOW, NULL);
    OK(cudaEventRecord(end, NULL));
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms > 1 && ms < 10000);
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(end));
}

static atomic_int called;
static void host_function(void *data)
{
    atomic_fetch_add(&called, *(int *)data);
}
static void stream_callback(cudaStream_t stream, cudaError_t error, void *data)
{
    (void)stream;
    atomic_fetch_add(&called, error == cudaSuccess ? *(int *)data : 1000);
}

static void host_functions_run_in_order(void **state)
{
    (void)state;
    cudaStream_t stream = new_stream();
    int one = 1, ten = 10;
    atomic_store(&called, 0);
    hold(stream);
    OK(cudaLaunchHostFunc(stream, host_function, &one));
    OK(cudaStreamAddCallback(stream, stream_callback, &ten, 0));
    assert_int_equal(atomic_load(&called), 0);
    let_go();
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(atomic_load(&called), 11);
    OK(cudaStreamDestroy(stream));
}

static void streams_tell_their_properties(void **state)
{
    (void)state;
    cudaStream_t stream;
    unsigned flags = 99;
    int least, greatest, priority = 99, device = 99;
    unsigned long long id, other;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    OK(cudaStreamGetFlags(stream, &flags));
    OK(cudaStreamGetPriority(stream, &priority));
    OK(cudaStreamGetDevice(stream, &device));
    assert_int_equal(flags, cudaStreamNonBlocking);
    assert_int_equal(priority, greatest);
    assert_int_equal(device, 0);
    OK(cudaStreamGetId(stream, &id));
    OK(cudaStreamGetId(NULL, &other));
    assert_int_not_equal(id, other);
    OK(cudaStreamDestroy(stream));
    assert_int_equal(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
}

/* Stream 0 means the legacy one, or, built so, the thread's own. */
static void stream_zero_is_the_default_stream_of_the_build(void **state)
{
    (void)state;
    unsigned long long zero, legacy, per_thread;
    OK(cudaStreamGetId(NULL, &zero));
    OK(cudaStreamGetId(cudaStreamLegacy, &legacy));
    OK(cudaStreamGetId(cudaStreamPerThread, &per_thread));
    assert_int_not_equal(legacy, per_thread);
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    assert_int_equal(zero, per_thread);
#else
    assert_int_equal(zero, legacy);
#endif
}

/* The legacy stream waits for blocking streams; the thread's own does not. */
static void default_stream_orders_blocking_streams_as_it_should(void **state)
{
    (void)state;
    cudaStream_t stream;
    int value = -1;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMemsetAsync(counter, 0, 4, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamCreate(&stream));
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    hold(stream);
#endif
    launch_increment(SLOW, stream);
    OK(cudaMemcpyAsync(&value, counter, 4, cudaMemcpyDeviceToHost, NULL));
    OK(cudaStreamSynchronize(NULL));
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    assert_int_equal(value, 0);
    let_go();
#else
    assert_int_equal(value, 1);
#endif
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamDestroy(stream));
}

typedef struct thread_result {
    int device_before, device_after;
    cudaError_t error;
    int sum;
} thread_result_t;

/* A thread that never chose a device allocates, launches and copies. */
static void *work_in_thread(void *out)
{
    thread_result_t *r = out;
    int *p = NULL, value = 0;
    unsigned rounds = 1000;
    void *args[] = {&p, &rounds};
    cudaStream_t stream = NULL;
    r->error = cudaGetDevice(&r->device_before);
    if (r->error == cudaSuccess)
        r->error = cudaMalloc((void **)&p, 64);
    for (int i = 0; i < 50 && r->error == cudaSuccess; i++) {
        r->error = cudaStreamCreate(&stream);
        if (r->error == cudaSuccess)
            r->error = cudaMemsetAsync(p, 0, 4, stream);
        if (r->error == cudaSuccess)
            r->error = cudaLaunchKernel(increment_kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, stream);
        if (r->error == cudaSuccess)
            r->error = cudaMemcpyAsync(&value, p, 4, cudaMemcpyDeviceToHost, stream);
        if (r->error == cudaSuccess)
            r->error = cudaStreamSynchronize(stream);
        if (r->error == cudaSuccess)
            r->error = cudaStreamDestroy(stream);
        r->sum += value;
    }
    cudaFree(p);
    cudaGetDevice(&r->device_after);
    return NULL;
}

static void threads_share_the_primary_context(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    thread_result_t result[THREADS];
    memset(result, 0, sizeof result);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work_in_thread, &result[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(result[i].error, cudaSuccess);
        assert_int_equal(result[i].sum, 50);
        assert_int_equal(result[i].device_before, 0);
        assert_int_equal(result[i].device_after, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_is_not_ready_while_work_runs),
        cmocka_unit_test(event_orders_two_streams),
        cmocka_unit_test(elapsed_time_spans_the_work),
        cmocka_unit_test(host_functions_run_in_order),
        cmocka_unit_test(streams_tell_their_properties),
        cmocka_unit_test(stream_zero_is_the_default_stream_of_the_build),
        cmocka_unit_test(default_stream_orders_blocking_streams_as_it_should),
        cmocka_unit_test(threads_share_the_primary_context),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

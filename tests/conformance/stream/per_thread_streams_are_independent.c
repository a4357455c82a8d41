/* behaviour: each thread has a default stream of its own, which another thread's does not hold up; work in the legacy default
 * stream is ordered with all of them.
 * rules: none
 * source: CUDA driver API, Stream synchronization behavior, Per-thread default stream
 */
#include "conformance.h"

#include <pthread.h>

static CUdeviceptr p;

static void *elsewhere(void *argument)
{
    (void)argument;
    OK(cuCtxSetCurrent(context));
    fill(CU_STREAM_PER_THREAD, p, 5, 1024);
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

CONFORMANCE
{
    pthread_t thread;
    p = device_alloc(4096);
    hold_t h = hold(CU_STREAM_PER_THREAD);
    CHECK(!pthread_create(&thread, NULL, elsewhere, NULL));
    CHECK(!pthread_join(thread, NULL)); /* it did not wait for this thread's stream */
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
    add(CU_STREAM_LEGACY, p, 1, 1024);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
    let_go(h);
    add(CU_STREAM_PER_THREAD, p, 1, 1024); /* behind the legacy stream's */
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(read_int(p) == 7);
}

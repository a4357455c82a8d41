/* behaviour: each thread has a default stream of its own, which does not wait for another thread's.
 * rules: none
 * source: CUDA driver API, Stream synchronization behavior, per-thread default stream
 */
#include "conformance.h"

#include <pthread.h>

static CUdeviceptr p;

static void *other_thread(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(context));
    OK(cuMemsetD32Async(p, 4, 1, CU_STREAM_PER_THREAD));
    EXPECT(CUDA_SUCCESS, cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

CONFORMANCE
{
    p = device_alloc(64);
    hold_t h = hold(CU_STREAM_PER_THREAD);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, other_thread, NULL));
    pthread_join(thread, NULL);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
    let_go(h);
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(read_int(p) == 4);
}

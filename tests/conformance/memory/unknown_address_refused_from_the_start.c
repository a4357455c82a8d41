/* behaviour: cuMemFree of an address that no call has given is refused, also before the context's first allocation and
 * while another thread makes it.
 * rules: none
 * source: CUDA driver API, cuMemFree; the driver API is thread-safe
 */
#include "conformance.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_bool is_done;

static void free_unknown(void)
{
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree((CUdeviceptr)1 << 46));
}

static void *free_until_done(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(context));
    while (!atomic_load(&is_done))
        free_unknown();
    return NULL;
}

CONFORMANCE
{
    pthread_t thread;
    free_unknown();
    CHECK(!pthread_create(&thread, NULL, free_until_done, NULL));
    for (int i = 0; i < 100; i++)
        OK(cuMemFree(device_alloc(4096)));
    atomic_store(&is_done, true);
    pthread_join(thread, NULL);
}

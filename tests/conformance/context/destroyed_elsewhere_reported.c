/* behaviour: a context that another thread destroys stays current here, and every call on it says
 * CONTEXT_IS_DESTROYED.
 * rules: handle
 * source: CUDA driver API, cuCtxDestroy
 */
#include "conformance.h"

#include <pthread.h>

static void *destroy(void *ctx)
{
    EXPECT(CUDA_SUCCESS, cuCtxDestroy(ctx));
    return NULL;
}

CONFORMANCE
{
    CUcontext other;
    OK(cuCtxCreate(&other, NULL, 0, device));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, destroy, other));
    pthread_join(thread, NULL);
    CUdeviceptr p;
    EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&p, 4));
    OK(cuCtxPopCurrent(NULL));
    OK(cuMemAlloc(&p, 4));
}

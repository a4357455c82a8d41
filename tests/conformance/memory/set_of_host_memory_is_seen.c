/* behaviour: a synchronous memset of host or managed memory, and a copy to it by cuMemcpyDtoD, has ended when the call returns.
 * rules: none
 * source: CUDA driver API, API synchronization behavior
 */
#include <pthread.h>
#include <unistd.h>

#include "conformance.h"

static void *soon(void *held)
{
    usleep(100000);
    let_go(*(hold_t *)held);
    return NULL;
}

/* What is issued meanwhile stands in the stream behind a kernel that goes on for a while. */
static pthread_t keep_busy(hold_t *held)
{
    pthread_t thread;
    *held = hold(CU_STREAM_LEGACY);
    CHECK(!pthread_create(&thread, NULL, soon, held));
    return thread;
}

static void end(pthread_t thread)
{
    CHECK(!pthread_join(thread, NULL));
    OK(cuCtxSynchronize());
}

static void see(volatile unsigned char *host, CUdeviceptr at)
{
    hold_t held;
    CUdeviceptr source = device_alloc(4096);
    OK(cuMemsetD8(source, 3, 4096));
    pthread_t thread = keep_busy(&held);
    OK(cuMemsetD8(at, 7, 4096));
    CHECK(host[0] == 7 && host[4095] == 7);
    end(thread);
    thread = keep_busy(&held);
    OK(cuMemcpyDtoD(at, source, 4096));
    CHECK(host[0] == 3 && host[4095] == 3);
    end(thread);
    thread = keep_busy(&held);
    OK(cuMemsetD2D8(at, 128, 9, 16, 32));
    CHECK(host[0] == 9 && host[128 * 31 + 15] == 9 && host[16] == 3);
    end(thread);
    OK(cuMemFree(source));
}

CONFORMANCE
{
    void *pinned;
    CUdeviceptr at;
    kernel("wait_for"); /* loaded before anything is held */
    OK(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&at, pinned, 0));
    see(pinned, at);
    OK(cuMemFreeHost(pinned));
    if (device_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)) {
        OK(cuMemAllocManaged(&at, 4096, CU_MEM_ATTACH_GLOBAL));
        see((unsigned char *)(uintptr_t)at, at);
        OK(cuMemFree(at));
    }
}

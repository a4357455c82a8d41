/* behaviour: a kernel is loaded when its handle is asked for, or else at its first launch, which returns only when the device has done what its
 * context had to do, in other streams too. The second launch does not wait.
 * rules: none
 * source: CUDA C++ programming guide 12.2, Lazy Loading; meta-pytorch/torchcomms 2334
 */
#include "conformance.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int gone, returned;
static int longest_ms;

/* Once the launch has returned, or after that time. */
static void *let_go_later(void *held)
{
    for (int ms = 0; ms < longest_ms && !atomic_load(&returned); ms += 10)
        usleep(10000);
    atomic_store(&gone, 1);
    let_go(*(hold_t *)held);
    return NULL;
}

CONFORMANCE
{
    CUmoduleLoadingMode mode;
    OK(cuModuleGetLoadingMode(&mode));
    if (mode != CU_MODULE_LAZY_LOADING)
        SKIP("kernels are loaded with their module");
    CUstream busy = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(4096);
    int value = 5, n = 1;
    void *params[] = {&p, &value, &n};
    CUmodule again;
    CUfunction f;
    OK(cuModuleLoad(&again, conformance_kernels()));
    OK(cuCtxSynchronize());
    for (int launch = 0; launch < 2; launch++) {
        pthread_t later;
        hold_t h = hold(busy);
        atomic_store(&gone, 0);
        atomic_store(&returned, 0);
        longest_ms = launch ? 30000 : 300;
        CHECK(!pthread_create(&later, NULL, let_go_later, &h));
        OK(cuModuleGetFunction(&f, again, "fill"));
        OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, other, params, NULL));
        CHECK(atomic_load(&gone) == !launch);
        atomic_store(&returned, 1);
        pthread_join(later, NULL);
        OK(cuCtxSynchronize());
    }
    CHECK(read_int(p) == 5);
}

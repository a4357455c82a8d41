/* behaviour: host code that reads device memory through its address gets a SIGSEGV; the device is unharmed.
 * rules: host-access
 * source: CUDA programming guide, Memory Hierarchy: device memory is not host addressable (without HMM or ATS)
 */
#include "conformance.h"

#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;

static void on_fault(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

CONFORMANCE
{
    if (device_attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES))
        SKIP("device memory is part of the host's address space here");
    CUdeviceptr p = device_alloc(4096);
    fill(NULL, p, 5, 16);
    OK(cuCtxSynchronize());

    struct sigaction action = {.sa_handler = on_fault}, old;
    volatile bool faulted = true;
    sigaction(SIGSEGV, &action, &old);
    if (!sigsetjmp(back, 1)) {
        (void)*(volatile int *)(uintptr_t)p;
        faulted = false;
    }
    sigaction(SIGSEGV, &old, NULL);
    CHECK(faulted);
    CHECK(read_int(p) == 5);
}

/* SOFTGPU_LIMITS: a device that refuses what the API has. Each in a process of its own, for the variable is read once. */
#include "driver_test.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { MIB = 1 << 20 };

/* With the limits, in a child; assertions that fail there fail here. */
static void under(const char *limits, void (*body)(void))
{
    const pid_t child = fork();
    if (!child) {
        setenv("SOFTGPU_LIMITS", limits, 1);
        if (driver_setup(NULL))
            _exit(2);
        body();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static char *pages(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static int attribute(CUdevice_attribute which)
{
    int value;
    OK(cuDeviceGetAttribute(&value, which, 0));
    return value;
}

static void no_vmm(void)
{
    const CUmemAllocationProp prop = device_memory();
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    size_t g;
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0);
    assert_int_equal(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemCreate(&h, CHUNK, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemAddressReserve(&p, CHUNK, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemAlloc(&p, CHUNK));
}

static void reservations(void)
{
    CUdeviceptr p;
    OK(cuMemAddressReserve(&p, 4 * CHUNK, 0, 0, 0));
    assert_int_equal(cuMemAddressReserve(&p, 5 * CHUNK, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void no_registration(void)
{
    void *p;
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED), 0);
    assert_int_equal(cuMemHostRegister(pages(4096), 4096, CU_MEMHOSTREGISTER_PORTABLE),
                     CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemHostAlloc(&p, 4096, CU_MEMHOSTALLOC_PORTABLE));
}

static void pieces(void)
{
    char *const at = pages(3 * MIB);
    void *p;
    assert_int_equal(cuMemHostRegister(at, 3 * MIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemHostRegister(at, 2 * MIB, 0));
    OK(cuMemHostRegister(at + 2 * MIB, MIB, 0));
    assert_int_equal(cuMemHostAlloc(&p, 5 * MIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemHostAlloc(&p, 4 * MIB, 0));
    /* 7 of 8. */
    assert_int_equal(cuMemHostAlloc(&p, 2 * MIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemHostUnregister(at + 2 * MIB));
    OK(cuMemHostAlloc(&p, 2 * MIB, 0));
}

static void charged(void)
{
    size_t before, during, after;
    char *const at = pages(64 * MIB);
    OK(cuMemGetInfo(&before, NULL));
    OK(cuMemHostRegister(at, 64 * MIB, 0));
    OK(cuMemGetInfo(&during, NULL));
    OK(cuMemHostUnregister(at));
    OK(cuMemGetInfo(&after, NULL));
    assert_int_equal(before - during, 8 * MIB);
    assert_int_equal(before, after);
}

static void limits_hold_alone_and_together(void **state)
{
    (void)state;
    under("vmm:0", no_vmm);
    under("reserve:8MiB", reservations);
    under("register:0", no_registration);
    under("register:2MiB,hostalloc:4MiB,pinned:8MiB", pieces);
    under("charge:128MiB", charged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits_hold_alone_and_together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A driver that looks up another one behind it, and calls itself (runtime/stub_driver.c), under libebb: both go straight through. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>
#include <cudaTypedefs.h>

static void *driver;
static PFN_cuGetProcAddress_v12000 get;

static void *function(const char *name)
{
    void *p = NULL;
    CUdriverProcAddressQueryResult status;
    assert_int_equal(get(name, &p, 12000, 0, &status), CUDA_SUCCESS);
    return p;
}

static const char *object_of(void *p)
{
    Dl_info info;
    assert_true(p && dladdr(p, &info));
    return info.dli_fname;
}

static void the_program_finds_ebb(void **state)
{
    (void)state;
    get = (PFN_cuGetProcAddress_v12000)dlsym(driver, "cuGetProcAddress_v2");
    assert_non_null(strstr(object_of((void *)get), "libebb.so"));
    assert_non_null(strstr(object_of(dlsym(driver, "cuMemAlloc_v2")), "libebb.so"));
    assert_non_null(strstr(object_of(function("cuMemAlloc")), "libebb.so"));
}

static void the_driver_finds_the_one_behind_it(void **state)
{
    (void)state;
    void *(*found)(void) = (void *(*)(void))dlsym(driver, "stub_found");
    assert_non_null(found);
    assert_string_equal(object_of(found()), getenv("INNER_DRIVER"));
}

/* Ebb's own calls of cuMemCreate come back to it. */
static void calls_from_within_the_driver_pass(void **state)
{
    (void)state;
    CUcontext context;
    CUdeviceptr p;
    char byte = 0;
    assert_int_equal(((PFN_cuInit_v2000)function("cuInit"))(0), CUDA_SUCCESS);
    assert_int_equal(((PFN_cuDevicePrimaryCtxRetain_v7000)function("cuDevicePrimaryCtxRetain"))(&context, 0),
                     CUDA_SUCCESS);
    assert_int_equal(((PFN_cuCtxSetCurrent_v4000)function("cuCtxSetCurrent"))(context), CUDA_SUCCESS);
    alarm(60); /* else it would wait for itself for ever */
    assert_int_equal(((PFN_cuMemAlloc_v3020)function("cuMemAlloc"))(&p, 8 << 20), CUDA_SUCCESS);
    assert_int_equal(((PFN_cuMemsetD8_v3020)function("cuMemsetD8"))(p, 7, 8 << 20), CUDA_SUCCESS);
    assert_int_equal(((PFN_cuMemcpyDtoH_v3020)function("cuMemcpyDtoH"))(&byte, p + 12345, 1), CUDA_SUCCESS);
    assert_int_equal(byte, 7);
    assert_int_equal(((PFN_cuMemFree_v3020)function("cuMemFree"))(p), CUDA_SUCCESS);
    alarm(0);
}

/* For ebb's threads to have their turn. */
static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* On ebb's own threads, too, while the program's waits for one of them with the lock held: the chunk that is created ahead may be the last
 * one, and who evicts wants the block that is pinned ahead. */
static void calls_from_within_the_driver_pass_on_threads_of_ebb(void **state)
{
    enum { BUFFERS = 100 };
    unsigned (*beside)(void) = (unsigned (*)(void))dlsym(driver, "stub_calls_beside");
    PFN_cuMemAlloc_v3020 allocate = (PFN_cuMemAlloc_v3020)function("cuMemAlloc");
    PFN_cuMemsetD8_v3020 set = (PFN_cuMemsetD8_v3020)function("cuMemsetD8");
    PFN_cuMemFree_v3020 release = (PFN_cuMemFree_v3020)function("cuMemFree");
    CUdeviceptr p[BUFFERS];
    unsigned before_eviction = 0;
    (void)state;
    alarm(60);
    for (int i = 0; i < BUFFERS; i++) { /* 800 MiB, of which 512 fit */
        assert_int_equal(allocate(&p[i], 8 << 20), CUDA_SUCCESS);
        assert_int_equal(set(p[i], 7, 8 << 20), CUDA_SUCCESS);
        before_eviction = i == 60 ? beside() : before_eviction;
        nap();
    }
    for (int i = 0; i < 5000 && beside() == before_eviction; i++) { /* on a busy machine they come late */
        assert_int_equal(set(p[i % BUFFERS], 7, 8 << 20), CUDA_SUCCESS);
        nap();
    }
    assert_true(before_eviction > 0 && beside() > before_eviction);
    for (int i = 0; i < BUFFERS; i++)
        assert_int_equal(release(p[i]), CUDA_SUCCESS);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_finds_ebb),
        cmocka_unit_test(the_driver_finds_the_one_behind_it),
        cmocka_unit_test(calls_from_within_the_driver_pass),
        cmocka_unit_test(calls_from_within_the_driver_pass_on_threads_of_ebb),
    };
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}

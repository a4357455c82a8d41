/* The preloaded library in a program that does not know of it: how its look-ups end. */
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>
#include <cudaTypedefs.h>

static const char *object_of(void *p)
{
    Dl_info info;
    assert_true(p && dladdr(p, &info));
    const char *base = strrchr(info.dli_fname, '/');
    return base ? base + 1 : info.dli_fname;
}

static void *libcuda(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(handle);
    return handle;
}

static void dlsym_on_the_driver_finds_ebb_for_its_entry_points_only(void **state)
{
    (void)state;
    const char *const ours[] = {"cuGetProcAddress_v2", "cuMemAlloc_v2", "cuMemAllocAsync_ptsz",
                                "cuMemcpyHtoD_v2_ptds"};
    const char *const theirs[] = {"cuInit", "cuEventCreate", "cuEventElapsedTime"};
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(object_of(dlsym(libcuda(), ours[i])), "libebb.so");
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(object_of(dlsym(libcuda(), theirs[i])), "libcuda.so.1");
    assert_null(dlsym(libcuda(), "cuMemAllocEverything"));
    assert_non_null(dlerror());
    assert_null(dlsym(libcuda(), "cuMemAlloc_v9"));
}

static void other_lookups_are_as_if_nothing_were_in_between(void **state)
{
    (void)state;
    assert_ptr_equal(dlsym(RTLD_DEFAULT, "printf"), (void *)printf);
    assert_ptr_equal(dlvsym(RTLD_DEFAULT, "strlen", "GLIBC_2.2.5"), dlsym(RTLD_DEFAULT, "strlen"));
    assert_null(dlvsym(RTLD_DEFAULT, "strlen", "GLIBC_9.9"));
    /* RTLD_NEXT depends on who asks: from here, the next dlsym after this program's is the hook. */
    assert_string_equal(object_of(dlsym(RTLD_NEXT, "dlsym")), "libebb.so");
    assert_string_equal(object_of(dlsym(RTLD_NEXT, "malloc")), "libc.so.6");
}

static void proc_address_is_answered_with_version_flags_and_status(void **state)
{
    (void)state;
    PFN_cuGetProcAddress_v12000 get = (PFN_cuGetProcAddress_v12000)dlsym(libcuda(), "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult status;
    void *p, *plain;
    assert_int_equal(get("cuMemAllocAsync", &plain, 13000, 0, &status), CUDA_SUCCESS);
    assert_string_equal(object_of(plain), "libebb.so");
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
    assert_int_equal(get("cuMemAllocAsync", &p, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL),
                     CUDA_SUCCESS);
    assert_string_equal(object_of(p), "libebb.so");
    assert_ptr_not_equal(p, plain);
    assert_int_equal(get("cuMemAllocAsync", &p, 11010, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    assert_int_equal(get("cuEventElapsedTime", &p, 13000, 0, &status), CUDA_SUCCESS);
    assert_string_equal(object_of(p), "libcuda.so.1");
    assert_int_equal(get("cuNothing", &p, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
    /* A second name for a form: what ebb does not know, nothing leaves the device for. */
    assert_int_equal(get("cuGraphInstantiate", &p, 11040, 0, NULL), CUDA_SUCCESS);
    assert_ptr_equal(p, dlsym(libcuda(), "cuGraphInstantiateWithFlags"));
    assert_string_equal(object_of(p), "libebb.so");
    /* Asked for itself, by either version, it stays the hook. */
    assert_int_equal(get("cuGetProcAddress", &p, 13000, 0, NULL), CUDA_SUCCESS);
    assert_string_equal(object_of(p), "libebb.so");
    assert_int_equal(get("cuGetProcAddress", &p, 11030, 0, NULL), CUDA_SUCCESS);
    assert_string_equal(object_of(p), "libebb.so");
}

static void linked_calls_are_served_by_ebb(void **state)
{
    (void)state;
    CUcontext ctx;
    CUdeviceptr p;
    size_t free_bytes, total;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
    assert_int_equal(cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(total, 64 << 20); /* EBB_BUDGET, not the device's */
    assert_int_equal(cuMemAlloc_v2(&p, 1 << 20), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8_v2(p, 7, 1 << 20), CUDA_SUCCESS);
    char byte = 0;
    assert_int_equal(cuMemcpyDtoH_v2(&byte, p + 12345, 1), CUDA_SUCCESS);
    assert_int_equal(byte, 7);
    assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

static int count_objects(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    const char *const unwanted[] = {"libcuda", "libhwloc", "libjemalloc", "libstdc++"};
    for (size_t i = 0; i < 4; i++)
        if (strstr(info->dlpi_name, unwanted[i]))
            ++*(int *)data;
    return 0;
}

/* Run as another process: one that has ebb preloaded and nothing to do with CUDA. */
static int bystander(void)
{
    int unwanted = 0;
    dl_iterate_phdr(count_objects, &unwanted);
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    int threads = 0;
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "Threads: %d", &threads);
    printf("%d %d\n", unwanted, threads);
    return 0;
}

static void process_without_cuda_is_left_alone(void **state)
{
    (void)state;
    int unwanted = -1, threads = -1;
    /* The shell between, too, is such a process. The program itself links libcuda here, hence the 1. */
    FILE *child = popen("BYSTANDER=1 /proc/$PPID/exe", "r");
    assert_non_null(child);
    assert_int_equal(fscanf(child, "%d %d", &unwanted, &threads), 2);
    pclose(child);
    assert_int_equal(unwanted, 1);
    assert_int_equal(threads, 1);
}

int main(void)
{
    if (getenv("BYSTANDER"))
        return bystander();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dlsym_on_the_driver_finds_ebb_for_its_entry_points_only),
        cmocka_unit_test(other_lookups_are_as_if_nothing_were_in_between),
        cmocka_unit_test(proc_address_is_answered_with_version_flags_and_status),
        cmocka_unit_test(process_without_cuda_is_left_alone),
        cmocka_unit_test(linked_calls_are_served_by_ebb),
    };
    setenv("EBB_BUDGET", "64MiB", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Wrong handles: of another kind, of something that is gone, or of nothing at all. Each is an error, none is
 * followed.
 */
#include "driver_test.h"

#include <signal.h>
#include <sys/wait.h>

enum { KINDS = 8 };

/* What a program might pass by mistake instead of one kind of handle: those of the other kinds, and pointers
 * to no object. */
typedef struct wrong {
    void *handle[KINDS];
    int count;
} wrong_t;

typedef enum kind { STREAM, EVENT, MODULE, FUNCTION, POOL, CONTEXT } kind_t;

static CUstream stream;
static CUevent event;
static CUmemoryPool pool;
static CUdeviceptr memory;

static int handles_setup(void **state)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    if (driver_setup(state))
        return -1;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, 0));
    OK(cuMemPoolCreate(&pool, &props));
    memory = device_alloc(64);
    return 0;
}

static int handles_teardown(void **state)
{
    (void)state;
    OK(cuMemFree(memory));
    OK(cuMemPoolDestroy(pool));
    OK(cuEventDestroy(event));
    OK(cuStreamDestroy(stream));
    return 0;
}

static wrong_t wrong_for(kind_t kind)
{
    static char zeros[512];
    void *const live[] = {stream, event, test_module, kernel("_Z4fillPffi"), pool, test_context};
    wrong_t w = {.count = 0};
    for (int i = 0; i <= CONTEXT; i++)
        if (i != (int)kind)
            w.handle[w.count++] = live[i];
    w.handle[w.count++] = zeros;                       /* no object */
    w.handle[w.count++] = (void *)(uintptr_t)0xdead10; /* no memory */
    return w;
}

static void wrong_streams_are_invalid_handles(void **state)
{
    (void)state;
    wrong_t w = wrong_for(STREAM);
    CUstream gone;
    OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    OK(cuStreamDestroy(gone));
    w.handle[w.count - 1] = gone;
    for (int i = 0; i < w.count; i++) {
        CUstream s = w.handle[i];
        CUdeviceptr p;
        assert_int_equal(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuStreamDestroy(s), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuStreamWaitEvent(s, event, 0), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuEventRecord(event, s), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuMemsetD8Async(memory, 0, 4, s), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuMemAllocAsync(&p, 4, s), CUDA_ERROR_INVALID_HANDLE);
    }
}

static void wrong_events_are_invalid_handles(void **state)
{
    (void)state;
    wrong_t w = wrong_for(EVENT);
    CUevent gone;
    float ms;
    OK(cuEventCreate(&gone, 0));
    OK(cuEventDestroy(gone));
    w.handle[w.count - 1] = gone;
    for (int i = 0; i <= w.count; i++) {
        CUevent e = i < w.count ? w.handle[i] : NULL;
        assert_int_equal(cuEventRecord(e, stream), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuEventSynchronize(e), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuEventElapsedTime(&ms, e, e), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuStreamWaitEvent(stream, e, 0), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuEventDestroy(e), CUDA_ERROR_INVALID_HANDLE);
    }
}

static void wrong_modules_are_invalid_handles(void **state)
{
    (void)state;
    const wrong_t w = wrong_for(MODULE);
    for (int i = 0; i <= w.count; i++) {
        CUmodule m = i < w.count ? w.handle[i] : NULL;
        CUfunction f;
        CUdeviceptr p;
        unsigned count;
        assert_int_equal(cuModuleGetFunction(&f, m, "_Z4fillPffi"), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuModuleGetFunctionCount(&count, m), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuModuleGetGlobal(&p, NULL, m, "x"), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    }
}

/* That of an unloaded module is gone with it, and half-way into a live one is none either. */
static void wrong_functions_are_invalid_handles(void **state)
{
    (void)state;
    wrong_t w = wrong_for(FUNCTION);
    CUmodule unloaded;
    CUfunction gone;
    OK(cuModuleLoad(&unloaded, KERNELS));
    OK(cuModuleGetFunction(&gone, unloaded, "_Z4fillPffi"));
    OK(cuModuleUnload(unloaded));
    w.handle[w.count++] = gone;
    w.handle[FUNCTION] = (char *)kernel("_Z4fillPffi") + 8;
    for (int i = 0; i <= w.count; i++) {
        CUfunction f = i < w.count ? w.handle[i] : NULL;
        float value = 1;
        int n = 1, number;
        size_t offset, size;
        void *args[] = {&memory, &value, &n};
        assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL),
                         CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuFuncGetParamInfo(f, 0, &offset, &size), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuFuncGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, f),
                         CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, f, 32, 0),
                         CUDA_ERROR_INVALID_HANDLE);
    }
}

/* ---- kernels and functions ---- */

static CUlibrary library;

static CUkernel library_kernel(void)
{
    CUkernel k;
    OK(cuLibraryLoadFromFile(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&k, library, "_Z4fillPffi"));
    return k;
}

static void kernels_are_no_functions_but_can_be_launched(void **state)
{
    (void)state;
    CUkernel k = library_kernel();
    CUfunction f, cast = (CUfunction)k;
    CUmodule m;
    CUfunctionLoadingState loading;
    const char *name;
    size_t offset, size;
    int number, n = 1;
    float value = 3;
    OK(cuKernelGetFunction(&f, k));
    assert_ptr_not_equal(f, k);
    assert_int_equal(cuFuncGetParamInfo(cast, 0, &offset, &size), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuFuncGetName(&name, cast), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuFuncGetModule(&m, cast), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuFuncLoad(cast), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuFuncIsLoaded(&loading, cast), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuFuncSetCacheConfig(cast, CU_FUNC_CACHE_PREFER_NONE), CUDA_ERROR_INVALID_HANDLE);
    void *args[] = {&memory, &value, &n};
    OK(cuLaunchKernel(cast, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, cast, 32, 0));
    OK(cuStreamSynchronize(stream));
    OK(cuLibraryUnload(library));
    assert_int_equal(cuLaunchKernel(cast, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
}

static void functions_are_no_kernels(void **state)
{
    (void)state;
    const CUkernel cast = (CUkernel)kernel("_Z4fillPffi");
    CUfunction f;
    CUlibrary l;
    const char *name;
    size_t offset;
    int value;
    assert_int_equal(cuKernelGetFunction(&f, cast), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuKernelGetLibrary(&l, cast), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuKernelGetName(&name, cast), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuKernelGetParamInfo(cast, 0, &offset, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, cast, 0),
                     CUDA_ERROR_INVALID_HANDLE);
}

/* The child starts the driver itself. */
static void module_as_library_ends_the_process(void **state)
{
    (void)state;
    const pid_t pid = fork();
    if (!pid) {
        CUmodule m;
        signal(SIGSEGV, SIG_DFL);
        driver_setup(NULL);
        cuLibraryGetModule(&m, (CUlibrary)test_module);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* For pools the driver says INVALID_VALUE. */
static void wrong_pools_are_invalid_values(void **state)
{
    (void)state;
    const wrong_t w = wrong_for(POOL);
    for (int i = 0; i < w.count; i++) {
        CUmemoryPool wrong = w.handle[i];
        CUdeviceptr p;
        uint64_t used;
        assert_int_equal(cuMemPoolGetAttribute(wrong, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
                         CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuMemAllocFromPoolAsync(&p, 64, wrong, stream), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuMemPoolTrimTo(wrong, 0), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuDeviceSetMemPool(0, wrong), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuMemPoolDestroy(wrong), CUDA_ERROR_INVALID_VALUE);
    }
}

static void wrong_contexts_are_invalid(void **state)
{
    (void)state;
    const wrong_t w = wrong_for(CONTEXT);
    CUcontext current;
    for (int i = 0; i < w.count; i++) {
        assert_int_equal(cuCtxSetCurrent(w.handle[i]), CUDA_ERROR_INVALID_CONTEXT);
        assert_int_equal(cuCtxPushCurrent(w.handle[i]), CUDA_ERROR_INVALID_CONTEXT);
    }
    OK(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, test_context);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(module_as_library_ends_the_process)}; /* first: it forks */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_streams_are_invalid_handles),
        cmocka_unit_test(wrong_events_are_invalid_handles),
        cmocka_unit_test(wrong_modules_are_invalid_handles),
        cmocka_unit_test(wrong_functions_are_invalid_handles),
        cmocka_unit_test(kernels_are_no_functions_but_can_be_launched),
        cmocka_unit_test(functions_are_no_kernels),
        cmocka_unit_test(wrong_pools_are_invalid_values),
        cmocka_unit_test(wrong_contexts_are_invalid),
    };
    return cmocka_run_group_tests(own, NULL, NULL)
               ?: cmocka_run_group_tests(tests, handles_setup, handles_teardown);
}

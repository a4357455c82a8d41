/* Rules about the order of operations that hardware does not check: each is broken here, in a context of its own, and kept by
 * programs that do the same in order. What they break: rules: alias-order, alloc-order, free-order, unmap-busy. */
#include "driver_test.h"

#include <stdbool.h>
#include <sys/wait.h>

/* A context that a broken rule may ruin, two streams, and a chunk with two addresses. */
typedef struct scene {
    CUcontext ctx;
    CUstream a, b;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p, q; /* aliases */
    CUdeviceptr other;
} scene_t;

static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
    CUdeviceptr p;
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    OK(cuMemAddressReserve(&p, CHUNK, 0, 0, 0));
    OK(cuMemMap(p, CHUNK, 0, handle, 0));
    OK(cuMemSetAccess(p, CHUNK, &access, 1));
    return p;
}

static scene_t begin(void)
{
    scene_t s;
    CUmemAllocationProp props = device_memory();
    OK(cuCtxCreate(&s.ctx, NULL, 0, 0));
    OK(cuStreamCreate(&s.a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&s.b, CU_STREAM_NON_BLOCKING));
    OK(cuMemCreate(&s.handle, CHUNK, &props, 0));
    s.p = map(s.handle);
    s.q = map(s.handle);
    OK(cuMemAlloc(&s.other, 1 << 20));
    OK(cuCtxSynchronize());
    return s;
}

static void end(scene_t s, CUresult expected)
{
    let_go();
    assert_int_equal(cuCtxSynchronize(), expected);
    OK(cuCtxDestroy(s.ctx));
    OK(cuMemUnmap(s.p, CHUNK));
    OK(cuMemUnmap(s.q, CHUNK));
    OK(cuMemAddressFree(s.p, CHUNK));
    OK(cuMemAddressFree(s.q, CHUNK));
    OK(cuMemRelease(s.handle));
    OK(cuCtxSetCurrent(test_context));
}

static void order(CUstream first, CUstream then)
{
    CUevent e;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(e, first));
    OK(cuStreamWaitEvent(then, e, 0));
    OK(cuEventDestroy(e));
}

/* ---- alias-order ---- */

static void writes_through_two_aliases_without_order_are_reported(void **state)
{
    (void)state;
    scene_t s = begin();
    hold(s.a);
    OK(cuMemsetD32Async(s.p + 4096, 1, 256, s.a));
    OK(cuMemsetD32Async(s.q + 4096 + 1020, 2, 4, s.b)); /* one element in common */
    end(s, CUDA_ERROR_LAUNCH_FAILED);
}

static void read_and_write_through_two_aliases_without_order_are_reported(void **state)
{
    (void)state;
    scene_t s = begin();
    hold(s.a);
    OK(cuMemcpyDtoDAsync(s.other, s.p, 4096, s.a));
    OK(cuMemsetD32Async(s.q, 2, 4, s.b));
    end(s, CUDA_ERROR_LAUNCH_FAILED);
}

static void aliases_in_order_are_fine(void **state)
{
    (void)state;
    scene_t s = begin();
    CUstream c;
    OK(cuStreamCreate(&c, CU_STREAM_NON_BLOCKING));
    hold(s.a);
    OK(cuMemsetD32Async(s.p, 1, 256, s.a));
    OK(cuMemsetD32Async(s.q, 2, 256, s.a)); /* one stream */
    order(s.a, s.b);
    OK(cuMemsetD32Async(s.p, 3, 256, s.b)); /* an event */
    order(s.b, c);
    OK(cuMemsetD32Async(s.q, 4, 256, c)); /* two events */
    let_go();
    OK(cuStreamSynchronize(c));
    OK(cuMemsetD32Async(s.p, 5, 256, s.a)); /* the host */
    OK(cuStreamSynchronize(s.a));
    assert_int_equal(read_int(s.q), 5);
    end(s, CUDA_SUCCESS);
}

static void aliases_apart_or_only_read_are_fine(void **state)
{
    (void)state;
    scene_t s = begin();
    hold(s.a);
    OK(cuMemsetD32Async(s.p, 1, 256, s.a));
    OK(cuMemsetD32Async(s.q + 1024, 2, 256, s.b)); /* another place */
    OK(cuMemcpyDtoDAsync(s.other, s.p + 8192, 1024, s.a));
    OK(cuMemcpyDtoDAsync(s.other + 4096, s.q + 8192, 1024, s.b)); /* both read */
    OK(cuMemsetD32Async(s.p, 3, 16, s.b)); /* the same alias: a race, but not this rule's */
    end(s, CUDA_SUCCESS);
}

/* The kernel on one stream, beside a memset of the other alias on the other; the launch's end says whether that was reported. */
static void launch_beside_a_memset(scene_t s, const char *kernel, void **args, CUresult end_of_it)
{
    CUmodule m;
    CUfunction f;
    OK(cuModuleLoad(&m, KERNELS));
    OK(cuModuleGetFunction(&f, m, kernel));
    hold(s.a);
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s.a, args, NULL));
    OK(cuMemsetD32Async(s.q, 2, 16, s.b));
    end(s, end_of_it);
}

static void kernel_argument_in_what_another_alias_writes_is_reported(void **state)
{
    (void)state;
    scene_t s = begin();
    float value = 1;
    int n = 16;
    void *args[] = {&s.p, &value, &n};
    launch_beside_a_memset(s, "_Z4fillPffi", args, CUDA_ERROR_LAUNCH_FAILED);
}

/* The program has filled in one pointer; the others are what was there before. */
static void what_a_large_structure_holds_beside_is_no_use(void **state)
{
    (void)state;
    scene_t s = begin();
    struct {
        int count;
        CUdeviceptr p[12];
    } list = {1, {s.other, s.p, s.p + 64}};
    float value = 1;
    int n = 16;
    void *args[] = {&list, &value, &n};
    launch_beside_a_memset(s, "_Z9fill_some4listfi", args, CUDA_SUCCESS);
}

static void two_kernels_are_not_compared(void **state)
{
    (void)state;
    scene_t s = begin();
    CUmodule m;
    CUfunction f;
    OK(cuModuleLoad(&m, KERNELS));
    OK(cuModuleGetFunction(&f, m, "_Z4fillPffi"));
    float value = 1;
    int n = 16;
    void *args[] = {&s.p, &value, &n}, *others[] = {&s.q, &value, &n};
    hold(s.a);
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s.a, args, NULL));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s.b, others, NULL));
    end(s, CUDA_SUCCESS);
}

static void alias_that_comes_later_is_compared_with_what_is_queued(void **state)
{
    (void)state;
    scene_t s = begin();
    OK(cuMemUnmap(s.q, CHUNK));
    hold(s.a);
    OK(cuMemsetD32Async(s.p, 1, 256, s.a)); /* one address so far */
    OK(cuMemMap(s.q, CHUNK, 0, s.handle, 0));
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    OK(cuMemSetAccess(s.q, CHUNK, &access, 1));
    OK(cuMemsetD32Async(s.q, 2, 4, s.b));
    end(s, CUDA_ERROR_LAUNCH_FAILED);
}

static void streams_ordered_by_values_are_left_out(void **state)
{
    (void)state;
    scene_t s = begin();
    OK(cuMemsetD32(s.other, 0, 4));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(s.b, s.other, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemsetD32Async(s.q, 2, 4, s.b));
    OK(cuMemsetD32Async(s.p, 1, 4, s.a));
    OK(cuStreamWriteValue32(s.a, s.other, 1, 0));
    OK(cuCtxSynchronize());
    assert_int_equal(read_int(s.p), 2);
    end(s, CUDA_SUCCESS);
}

/* ---- allocations ---- */

static void use_before_allocation_in_stream_order_is_reported(void **state)
{
    (void)state;
    scene_t s = begin();
    CUdeviceptr p;
    hold(s.a);
    OK(cuMemAllocAsync(&p, 1 << 16, s.a));
    OK(cuMemsetD32Async(p, 0, 16, s.b));
    end(s, CUDA_ERROR_LAUNCH_FAILED);
    OK(cuMemFree(p));
}

static void use_after_allocation_in_stream_order_is_fine(void **state)
{
    (void)state;
    scene_t s = begin();
    CUdeviceptr p, q;
    OK(cuMemAllocAsync(&q, 1 << 16, s.a)); /* nothing is before it */
    OK(cuMemsetD32Async(q, 0, 16, s.b));
    hold(s.a);
    OK(cuMemAllocAsync(&p, 1 << 16, s.a));
    OK(cuMemsetD32Async(p, 0, 16, s.a));
    order(s.a, s.b);
    OK(cuMemsetD32Async(p, 1, 16, s.b));
    order(s.b, s.a);
    OK(cuMemFreeAsync(p, s.a));
    let_go();
    OK(cuCtxSynchronize());
    OK(cuMemFreeAsync(q, s.a));
    end(s, CUDA_SUCCESS);
}

static void free_without_order_is_reported(void **state)
{
    (void)state;
    scene_t s = begin();
    CUdeviceptr p;
    OK(cuMemAllocAsync(&p, 1 << 16, s.a));
    OK(cuCtxSynchronize());
    hold(s.a);
    OK(cuMemsetD32Async(p, 0, 16, s.a));
    OK(cuMemFreeAsync(p, s.b));
    end(s, CUDA_ERROR_LAUNCH_FAILED);
}

/* A free in the legacy stream comes after what blocking streams hold. */
static void free_in_the_legacy_stream_waits_for_blocking_streams(void **state)
{
    (void)state;
    scene_t s = begin();
    CUstream blocking;
    CUdeviceptr p, next;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuMemAllocAsync(&p, 1 << 16, NULL));
    hold(blocking);
    OK(cuMemsetD32Async(p, 7, 16, blocking));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemAllocAsync(&next, 1 << 16, s.a)); /* must not be the same memory yet */
    assert_true(next != p);
    OK(cuMemFreeAsync(next, s.a));
    end(s, CUDA_SUCCESS);
}

/* A kernel has the end of its memory as an argument, and that is freed behind it, in its stream: what begins there is nobody's use. */
static void end_of_memory_that_is_freed_in_order_is_no_use(void **state)
{
    (void)state;
    enum { BLOCKS = 16, BYTES = 512 };
    scene_t s = begin();
    CUdeviceptr p[BLOCKS], mine = 0, next = 0;
    CUmodule m;
    CUfunction f;
    OK(cuModuleLoad(&m, KERNELS));
    OK(cuModuleGetFunction(&f, m, "_Z3addPfPKfS1_i"));
    for (int i = 0; i < BLOCKS; i++)
        OK(cuMemAllocAsync(&p[i], BYTES, s.a));
    for (int i = 0; i < BLOCKS * BLOCKS && !next; i++)
        if (p[i % BLOCKS] == p[i / BLOCKS] + BYTES) {
            mine = p[i / BLOCKS];
            next = p[i % BLOCKS];
        }
    assert_true(next);
    OK(cuCtxSynchronize());
    hold(s.a);
    int n = 0;
    void *args[] = {&mine, &mine, &next, &n};
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s.a, args, NULL));
    OK(cuMemFreeAsync(mine, s.a));
    OK(cuMemFreeAsync(next, s.b));
    end(s, CUDA_SUCCESS);
}

/* ---- unmapping ---- */

static void unmapping_under_a_copy_is_reported(void **state)
{
    (void)state;
    scene_t s = begin();
    hold(s.a);
    OK(cuMemsetD32Async(s.p, 1, 16, s.a));
    OK(cuMemUnmap(s.p, CHUNK));
    let_go();
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuCtxDestroy(s.ctx));
    OK(cuCtxSetCurrent(test_context));
    OK(cuMemUnmap(s.q, CHUNK));
    OK(cuMemRelease(s.handle));
}

/* ---- switching off ---- */

static int race(void)
{
    if (driver_setup(NULL))
        return 9;
    scene_t s = begin();
    hold(s.a);
    OK(cuMemsetD32Async(s.p, 1, 256, s.a));
    OK(cuMemsetD32Async(s.q, 2, 256, s.b));
    let_go();
    return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 1;
}

static int race_with(const char *check)
{
    pid_t pid = fork();
    if (!pid) {
        setenv("SOFTGPU_CHECK", check, 1);
        setenv("SOFTGPU_LOG", "0", 1);
        execl("/proc/self/exe", "test_order", "race", NULL);
        _exit(8);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void rule_is_switched_off_by_name(void **state)
{
    (void)state;
    assert_int_equal(race_with("-free-order"), 1);
    assert_int_equal(race_with("-alias-order"), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "race"))
        return race();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_through_two_aliases_without_order_are_reported),
        cmocka_unit_test(read_and_write_through_two_aliases_without_order_are_reported),
        cmocka_unit_test(aliases_in_order_are_fine),
        cmocka_unit_test(aliases_apart_or_only_read_are_fine),
        cmocka_unit_test(kernel_argument_in_what_another_alias_writes_is_reported),
        cmocka_unit_test(what_a_large_structure_holds_beside_is_no_use),
        cmocka_unit_test(two_kernels_are_not_compared),
        cmocka_unit_test(alias_that_comes_later_is_compared_with_what_is_queued),
        cmocka_unit_test(streams_ordered_by_values_are_left_out),
        cmocka_unit_test(use_before_allocation_in_stream_order_is_reported),
        cmocka_unit_test(use_after_allocation_in_stream_order_is_fine),
        cmocka_unit_test(free_without_order_is_reported),
        cmocka_unit_test(free_in_the_legacy_stream_waits_for_blocking_streams),
        cmocka_unit_test(end_of_memory_that_is_freed_in_order_is_no_use),
        cmocka_unit_test(unmapping_under_a_copy_is_reported),
        cmocka_unit_test(rule_is_switched_off_by_name),
    };
    setenv("SOFTGPU_MEMORY", "256MiB", 0);
    return cmocka_run_group_tests(tests, driver_setup, NULL);
}

/* Memory that the driver serves beside ebb's, other contexts, and what the program is told: preloaded, under a
 * budget. */
#include <setjmp.h>
#include <stdbool.h>
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

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

enum { MIB = 1 << 20, BUDGET = 64 * MIB };

static CUcontext context;

static int set_up(void **state)
{
    (void)state;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    return 0;
}

static size_t told_free(void)
{
    size_t free_bytes, total;
    OK(cuMemGetInfo(&free_bytes, &total));
    assert_true(total <= BUDGET);
    assert_true(free_bytes <= total);
    return free_bytes;
}

static CUmemAllocationProp device_memory(void)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

static void own_physical_memory_counts_until_it_is_gone(void **state)
{
    (void)state;
    CUmemAllocationProp prop = device_memory();
    CUmemGenericAllocationHandle handle, none;
    CUdeviceptr at;
    size_t before = told_free();
    OK(cuMemCreate(&handle, 16 * MIB, &prop, 0));
    assert_int_equal(told_free(), before - 16 * MIB);
    assert_int_equal(cuMemCreate(&none, BUDGET, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(told_free(), before - 16 * MIB);
    OK(cuMemAddressReserve(&at, 16 * MIB, 0, 0, 0));
    OK(cuMemMap(at, 16 * MIB, 0, handle, 0));
    OK(cuMemRelease(handle));
    assert_int_equal(told_free(), before - 16 * MIB); /* the mapping keeps it */
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemSetAccess(at, 16 * MIB, &access, 1));
    OK(cuMemRetainAllocationHandle(&none, (void *)(uintptr_t)at));
    OK(cuMemRelease(none));
    OK(cuMemsetD8(at, 1, 16 * MIB));
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(at, 16 * MIB));
    OK(cuMemAddressFree(at, 16 * MIB));
    assert_int_equal(told_free(), before);
}

static void buffers_make_room_for_the_drivers_memory(void **state)
{
    (void)state;
    CUmemAllocationProp prop = device_memory();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p[3];
    unsigned char byte = 0;
    for (int i = 0; i < 3; i++) {
        OK(cuMemAlloc(&p[i], 16 * MIB));
        OK(cuMemsetD8(p[i], (unsigned char)(i + 1), 16 * MIB));
    }
    OK(cuMemCreate(&handle, 32 * MIB, &prop, 0)); /* 48 + 32 are more than there are */
    for (int i = 0; i < 3; i++) {
        OK(cuMemcpyDtoH(&byte, p[i] + 12345, 1));
        assert_int_equal(byte, i + 1);
    }
    OK(cuMemRelease(handle));
    for (int i = 0; i < 3; i++)
        OK(cuMemFree(p[i]));
}

static void addresses_of_ebb_are_no_mappings_to_the_program(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUmemGenericAllocationHandle handle;
    unsigned long long flags = 0;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    OK(cuMemAlloc(&p, 4 * MIB));
    assert_int_equal(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemUnmap(p, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemGetAccess(&flags, &here, p));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemFree(p));
}

static void managed_memory_passes_and_counts(void **state)
{
    (void)state;
    CUdeviceptr p;
    size_t before = told_free();
    OK(cuMemAllocManaged(&p, 8 * MIB, CU_MEM_ATTACH_GLOBAL));
    assert_int_equal(told_free(), before - 8 * MIB);
    *(char *)(uintptr_t)p = 7;
    OK(cuMemFree(p));
    assert_int_equal(told_free(), before);
}

static void pools_that_can_be_exported_are_the_drivers(void **state)
{
    (void)state;
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool plain, exported, of;
    OK(cuMemPoolCreate(&plain, &props));
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    OK(cuMemPoolCreate(&exported, &props));
    CUdeviceptr p, q;
    CUmemPoolPtrExportData data;
    size_t before = told_free();
    OK(cuMemAllocFromPoolAsync(&p, 4 * MIB, plain, NULL));
    OK(cuMemAllocFromPoolAsync(&q, 4 * MIB, exported, NULL));
    assert_int_equal(told_free(), before - 8 * MIB);
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    assert_ptr_equal(of, plain);
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q));
    assert_ptr_equal(of, exported);
    assert_int_equal(cuMemPoolExportPointer(&data, p), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolExportPointer(&data, q));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemFreeAsync(q, NULL));
    OK(cuStreamSynchronize(NULL));
    /* What cuMemAllocAsync takes from is what was set. */
    OK(cuDeviceSetMemPool(0, plain));
    OK(cuMemAllocAsync(&p, 1 * MIB, NULL));
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    assert_ptr_equal(of, plain);
    OK(cuMemFreeAsync(p, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuDeviceGetDefaultMemPool(&of, 0));
    OK(cuDeviceSetMemPool(0, of));
    OK(cuMemPoolDestroy(plain));
    OK(cuMemPoolDestroy(exported));
}

static void high_marks_of_pools_begin_anew(void **state)
{
    (void)state;
    CUmemoryPool pool;
    CUdeviceptr p;
    cuuint64_t high, now, zero = 0;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocAsync(&p, 20 * MIB, NULL));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
    assert_true(high >= 20 * MIB);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    OK(cuMemAllocAsync(&p, 5 * MIB, NULL));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &now));
    assert_true(high >= 5 * MIB && high < 20 * MIB && now <= high);
    OK(cuMemFreeAsync(p, NULL));
}

static void ipc_is_refused_as_the_driver_does_or_served_natively(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    CUipcMemHandle handle;
    size_t before = told_free();
    bool native = getenv("EBB_IPC") != NULL;
    OK(cuMemAlloc(&p, 4 * MIB));
    OK(cuMemAllocAsync(&q, 4 * MIB, NULL));
    assert_int_equal(cuIpcGetMemHandle(&handle, p), native ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    assert_int_not_equal(cuIpcGetMemHandle(&handle, q), CUDA_SUCCESS); /* stream-ordered: never */
    assert_int_equal(told_free(), before - 8 * MIB);
    OK(cuMemFree(p));
    OK(cuMemFree(q));
}

/* 72 MiB in a budget of 64, one of them used by a context that ebb does not serve. */
static void another_context_reaches_evicted_buffers(void **state)
{
    (void)state;
    enum { COUNT = 9 };
    CUdeviceptr p[COUNT], foreign;
    CUcontext other, back;
    unsigned char byte = 0;
    for (int i = 0; i < COUNT; i++) {
        OK(cuMemAlloc(&p[i], 8 * MIB));
        OK(cuMemsetD8(p[i], (unsigned char)(40 + i), 8 * MIB));
    }
    OK(cuCtxCreate(&other, NULL, 0, 0));
    OK(cuMemAlloc(&foreign, 1 * MIB));
    OK(cuMemsetD8(foreign, 3, 1 * MIB));
    OK(cuMemcpyDtoH(&byte, p[0] + 77, 1));
    assert_int_equal(byte, 40);
    OK(cuMemsetD8(p[1], 99, 8 * MIB));
    OK(cuCtxSynchronize());
    OK(cuMemFree(p[2])); /* a buffer of the first context's */
    OK(cuMemFree(foreign));
    OK(cuCtxPopCurrent(&back));
    OK(cuCtxDestroy(other));
    OK(cuCtxSetCurrent(context));
    for (int i = 3; i < COUNT; i++)
        OK(cuMemsetD8(p[i], (unsigned char)i, 8 * MIB));
    OK(cuMemcpyDtoH(&byte, p[1] + 8 * MIB - 1, 1));
    assert_int_equal(byte, 99);
    OK(cuMemcpyDtoH(&byte, p[0], 1));
    assert_int_equal(byte, 40);
    for (int i = 0; i < COUNT; i++)
        if (i != 2)
            OK(cuMemFree(p[i]));
}

static void pinned_buffers_stay_and_others_make_room(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    CUdeviceptr p[COUNT];
    unsigned on = 1;
    unsigned char byte = 0;
    for (int i = 0; i < COUNT; i++) {
        OK(cuMemAlloc(&p[i], 16 * MIB));
        OK(cuMemsetD8(p[i], (unsigned char)(i + 1), 16 * MIB));
    }
    /* As many can be pinned as fit; the next one is refused, and nothing is lost. */
    int pinned = 0;
    while (pinned < COUNT && !cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p[pinned]))
        pinned++;
    assert_in_range(pinned, 2, 4);
    OK(cuMemFree(p[pinned - 1])); /* room for the rest to come and go */
    for (int i = 0; i < COUNT; i++) {
        if (i == pinned - 1)
            continue;
        OK(cuMemcpyDtoH(&byte, p[i] + 5, 1));
        assert_int_equal(byte, i + 1);
        OK(cuMemFree(p[i]));
    }
}

/* In a child of its own: the process's context ends for good. */
static int reset_and_go_on(void)
{
    CUdeviceptr p;
    CUcontext again;
    unsigned char byte = 0;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&again, 0) || cuCtxSetCurrent(again) ||
        cuMemAlloc(&p, 8 * MIB) || cuMemsetD8(p, 1, 8 * MIB) || cuDevicePrimaryCtxReset(0))
        return 1;
    /* From here on in the next context. */
    if (cuDevicePrimaryCtxRetain(&again, 0) || cuCtxSetCurrent(again) || cuMemAlloc(&p, 8 * MIB) ||
        cuMemsetD8(p, 5, 8 * MIB) || cuMemcpyDtoH(&byte, p + 100, 1) || cuMemFree(p))
        return 2;
    if (cuDevicePrimaryCtxRelease(0) || cuDevicePrimaryCtxRelease(0))
        return 3;
    return byte == 5 ? 0 : 4;
}

/* On a device that has no more than the budget, all of which is in use. */
static int load_into_a_full_device(void)
{
    enum { COUNT = 8, BYTES = BUDGET / COUNT };
    CUdeviceptr p[COUNT];
    CUmodule module;
    size_t before, after, total;
    setenv("SOFTGPU_MEMORY", "64MiB", 1);
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    for (unsigned i = 0; i < COUNT; i++)
        if (cuMemAlloc(&p[i], BYTES) || cuMemsetD8(p[i], (unsigned char)(i + 1), BYTES))
            return 2;
    if (cuMemGetInfo(&before, &total) || cuModuleLoad(&module, VARIABLES))
        return 3;
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned char byte = 0;
        if (cuMemcpyDtoH(&byte, p[i] + BYTES - 1, 1) || byte != i + 1 || cuMemFree(p[i]))
            return 4;
    }
    /* The module's variables count. */
    return cuMemGetInfo(&after, &total) || after > BUDGET - 8 * MIB ? 5 : 0;
}

static int run_part(const char *name)
{
    pid_t child = fork();
    if (!child) {
        setenv("EBB_TEST_PART", name, 1);
        execl("/proc/self/exe", "test_foreign", (char *)NULL);
        _exit(99);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_module_finds_room_on_a_full_device(void **state)
{
    (void)state;
    assert_int_equal(run_part("load"), 0);
}

static void program_goes_on_after_its_context_is_reset(void **state)
{
    (void)state;
    assert_int_equal(run_part("reset"), 0);
}

/* The child of a fork may not use CUDA, and ebb neither does nor says anything in it. */
static void forked_child_is_left_alone(void **state)
{
    (void)state;
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4 * MIB));
    int out[2];
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    if (!child) {
        size_t free_bytes = 0, total = 0;
        dup2(out[1], 2);
        dup2(out[1], 1);
        cuMemGetInfo(&free_bytes, &total); /* whatever the driver says of it */
        cuMemFree(p);
        exit(0); /* with all destructors */
    }
    close(out[1]);
    int status = -1;
    waitpid(child, &status, 0);
    char text[256] = "";
    ssize_t n = read(out[0], text, sizeof text - 1);
    close(out[0]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    if (n > 0 && strstr(text, "ebb:"))
        fail_msg("the child said: %s", text);
    OK(cuMemsetD8(p, 1, 4 * MIB));
    OK(cuMemFree(p));
}

int main(void)
{
    setenv("EBB_BUDGET", "64MiB", 1);
    setenv("SOFTGPU_MEMORY", "1GiB", 1);
    const char *part = getenv("EBB_TEST_PART");
    if (part)
        return strcmp(part, "load") ? reset_and_go_on() : load_into_a_full_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_physical_memory_counts_until_it_is_gone),
        cmocka_unit_test(addresses_of_ebb_are_no_mappings_to_the_program),
        cmocka_unit_test(managed_memory_passes_and_counts),
        cmocka_unit_test(pools_that_can_be_exported_are_the_drivers),
        cmocka_unit_test(high_marks_of_pools_begin_anew),
        cmocka_unit_test(ipc_is_refused_as_the_driver_does_or_served_natively),
        cmocka_unit_test(program_goes_on_after_its_context_is_reset),
        cmocka_unit_test(a_module_finds_room_on_a_full_device),
        cmocka_unit_test(forked_child_is_left_alone),
        cmocka_unit_test(buffers_make_room_for_the_drivers_memory),
        cmocka_unit_test(pinned_buffers_stay_and_others_make_room),
        cmocka_unit_test(another_context_reaches_evicted_buffers),
    };
    const struct CMUnitTest with_ipc[] = {
        cmocka_unit_test(ipc_is_refused_as_the_driver_does_or_served_natively),
    };
    return getenv("EBB_IPC") ? cmocka_run_group_tests(with_ipc, set_up, NULL)
                             : cmocka_run_group_tests(tests, set_up, NULL);
}

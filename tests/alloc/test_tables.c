/* Tables of pointers in device memory: preloaded, under a budget that holds a part of what is allocated, what a table
 * points to is there when a kernel follows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

enum { BUFFER = 4 << 20, CHURN = 6, COUNT = 3 };

static CUfunction chase, chase_maps;
static CUdeviceptr target[COUNT], churn[CHURN], table, out;

static int set_up(void **state)
{
    (void)state;
    CUcontext context;
    CUmodule module;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, CHASE));
    OK(cuModuleGetFunction(&chase, module, "_Z5chasePfPKS_i"));
    OK(cuModuleGetFunction(&chase_maps, module, "chase_maps"));
    for (int i = 0; i < COUNT; i++)
        OK(cuMemAlloc(&target[i], BUFFER));
    for (int i = 0; i < CHURN; i++)
        OK(cuMemAlloc(&churn[i], BUFFER));
    OK(cuMemAlloc(&table, 4096));
    OK(cuMemAlloc(&out, 4096));
    return 0;
}

static void evict(void)
{
    for (int i = 0; i < CHURN; i++)
        OK(cuMemsetD8(churn[i], (unsigned char)i, BUFFER));
    OK(cuCtxSynchronize());
}

/* Every target holds its number, as a float, everywhere. */
static void fill(int from)
{
    for (int i = 0; i < COUNT; i++) {
        float value = (float)(from + i);
        unsigned bits;
        memcpy(&bits, &value, sizeof bits);
        OK(cuMemsetD32(target[i], bits, BUFFER / 4));
    }
    evict();
}

static void follow_by(CUfunction kernel, CUdeviceptr at, int from)
{
    int n = COUNT;
    float seen[COUNT];
    void *args[] = {&out, &at, &n};
    evict();
    OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH(seen, out, sizeof seen));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal((int)seen[i], from + i);
}

static void follow(CUdeviceptr at, int from)
{
    follow_by(chase, at, from);
}

/* The first: no pointer holds the targets. */
static void tensor_maps_are_seen(void **state)
{
    (void)state;
    CUtensorMap maps[COUNT];
    const cuuint64_t size[] = {64, BUFFER / 256}, stride[] = {256};
    const cuuint32_t box[] = {4, 1}, step[] = {1, 1};
    fill(30);
    for (int i = 0; i < COUNT; i++)
        OK(cuTensorMapEncodeTiled(&maps[i], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)(uintptr_t)target[i],
                                  size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                  CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    OK(cuMemcpyHtoD(table + 3072, maps, sizeof maps));
    follow_by(chase_maps, table + 3072, 30);
    follow_by(chase_maps, table + 3072, 30);
    memset(maps, 0, sizeof maps);
    OK(cuMemcpyHtoD(table + 3072, maps, sizeof maps));
}

static void pointers_from_pageable_memory_are_seen(void **state)
{
    (void)state;
    CUdeviceptr pointers[COUNT];
    fill(10);
    for (int i = 0; i < COUNT; i++)
        pointers[i] = target[i] + 400 * (unsigned)i;
    OK(cuMemcpyHtoD(table, pointers, sizeof pointers));
    follow(table, 10);
    follow(table, 10);
}

static void pointers_from_pinned_memory_are_seen_by_either_copy(void **state)
{
    (void)state;
    CUdeviceptr *pointers;
    OK(cuMemAllocHost((void **)&pointers, 4096));
    fill(20);
    for (int i = 0; i < COUNT; i++)
        pointers[i] = target[i];
    OK(cuMemcpyHtoDAsync(table + 1024, pointers, COUNT * sizeof *pointers, NULL));
    follow(table + 1024, 20);
    OK(cuMemcpyAsync(table + 2048, (CUdeviceptr)(uintptr_t)pointers, COUNT * sizeof *pointers, NULL));
    follow(table + 2048, 20);
    OK(cuMemFreeHost(pointers));
}

/* Nine buffers of 4 MiB pass through 24 MiB only if none of the three is held any more. */
static void overwritten_and_freed_tables_hold_nothing(void **state)
{
    (void)state;
    CUdeviceptr dsts[4], srcs[4], pointers[COUNT] = {0}, other;
    size_t sizes[4] = {64, 64, 64, 64}, index = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 4; i++) {
        dsts[i] = churn[i];
        srcs[i] = churn[4];
    }
    for (size_t at = 0; at < 4096; at += 1024) /* zeros over all of them */
        OK(cuMemcpyHtoD(table + at, pointers, sizeof pointers));
    OK(cuMemAlloc(&other, 4096));
    for (int i = 0; i < COUNT; i++)
        pointers[i] = target[i];
    OK(cuMemcpyHtoD(other, pointers, sizeof pointers));
    evict();
    assert_int_equal(cuMemcpyBatchAsync(dsts, srcs, sizes, 4, &attributes, &index, 1, stream),
                     CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(other));
    OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 4, &attributes, &index, 1, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_maps_are_seen),
        cmocka_unit_test(pointers_from_pageable_memory_are_seen),
        cmocka_unit_test(pointers_from_pinned_memory_are_seen_by_either_copy),
        cmocka_unit_test(overwritten_and_freed_tables_hold_nothing),
    };
    setenv("EBB_BUDGET", "24MiB", 1);
    setenv("SOFTGPU_MEMORY", "1GiB", 1);
    return cmocka_run_group_tests(tests, set_up, NULL);
}

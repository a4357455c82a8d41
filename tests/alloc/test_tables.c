/* Tables of pointers in device memory: preloaded, under a budget that holds a part of what is allocated, what a table
 * points to is there when a kernel follows it, and may leave at other times. */
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

static CUfunction chase, chase_maps, chase_nested, chase_variable;
static CUdeviceptr target[COUNT], churn[CHURN], table, out, root;

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
    OK(cuModuleGetFunction(&chase_nested, module, "chase_nested"));
    OK(cuModuleGetFunction(&chase_variable, module, "chase_variable"));
    OK(cuModuleGetGlobal(&root, NULL, module, "chase_root"));
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

/* The program sees that no address has changed, and does not bring the table again. */
static void memory_that_takes_an_old_address_is_followed(void **state)
{
    (void)state;
    CUdeviceptr before[COUNT];
    memcpy(before, target, sizeof before);
    OK(cuMemcpyHtoD(table, before, sizeof before));
    for (int i = 0; i < COUNT; i++) {
        OK(cuMemFree(target[i]));
        OK(cuMemAlloc(&target[i], BUFFER));
    }
    assert_memory_equal(before, target, sizeof before);
    OK(cuMemcpyDtoD(table + 1024, table, sizeof before));
    fill(60);
    follow(table, 60);
    follow(table + 1024, 60);
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

static void tables_are_followed_where_they_are_copied_to(void **state)
{
    (void)state;
    CUdeviceptr pointers[COUNT], copies[3], other, src = (CUdeviceptr)(uintptr_t)pointers;
    size_t bytes = sizeof pointers, index = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuMemAlloc(&other, 4096));
    for (int i = 0; i < 3; i++) /* each in a buffer without other pointers */
        OK(cuMemAlloc(&copies[i], 4096));
    fill(40);
    for (int i = 0; i < COUNT; i++)
        pointers[i] = target[i];
    OK(cuMemcpyHtoD(other, pointers, sizeof pointers));
    OK(cuMemcpyDtoD(copies[0], other, sizeof pointers));
    OK(cuMemcpyAsync(copies[1] + 640, copies[0], sizeof pointers, NULL));
    OK(cuMemFree(other));
    follow(copies[0], 40);
    follow(copies[1] + 640, 40);
    for (int i = 0; i < COUNT; i++)
        pointers[i] = target[COUNT - 1 - i];
    OK(cuMemcpyBatchAsync(&copies[2], &src, &bytes, 1, &attributes, &index, 1, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
    evict();
    float seen[COUNT];
    int n = COUNT;
    OK(cuLaunchKernel(chase, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out, &copies[2], &n}, NULL));
    OK(cuMemcpyDtoH(seen, out, sizeof seen));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal((int)seen[i], 40 + COUNT - 1 - i);
    for (int i = 0; i < 3; i++)
        OK(cuMemFree(copies[i]));
}

/* A table of tables, of which one leads back. */
static void tables_are_followed_by_tables(void **state)
{
    (void)state;
    CUdeviceptr inner[COUNT], words[2];
    fill(50);
    for (int i = 0; i < COUNT; i++) {
        inner[i] = table + 1024 + 64 * (unsigned)i;
        words[0] = target[i];
        words[1] = table;
        OK(cuMemcpyHtoD(inner[i], words, sizeof words));
    }
    OK(cuMemAlloc(&words[0], 4096));
    OK(cuMemcpyHtoD(words[0], inner, sizeof inner));
    follow_by(chase_nested, words[0], 50);
    follow_by(chase_nested, words[0], 50);
    OK(cuMemFree(words[0]));
}

/* Nine buffers of 4 MiB pass through 24 MiB only if none of the three is held. */
static CUresult touch_five(void)
{
    CUdeviceptr dsts[4], srcs[4];
    size_t sizes[4] = {64, 64, 64, 64}, index = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 4; i++) {
        dsts[i] = churn[i];
        srcs[i] = churn[4];
    }
    evict();
    CUresult result = cuMemcpyBatchAsync(dsts, srcs, sizes, 4, &attributes, &index, 1, stream);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
    return result;
}

static void follow_variable(int from)
{
    int n = COUNT;
    float seen[COUNT];
    evict();
    OK(cuLaunchKernel(chase_variable, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out, &n}, NULL));
    OK(cuMemcpyDtoH(seen, out, sizeof seen));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal((int)seen[i], from + i);
}

/* No argument leads to it: what it leads to is held, whether the table was there before the variable led to it or after. */
static void what_a_variable_leads_to_is_held(void **state)
{
    (void)state;
    CUdeviceptr pointers[COUNT], none = 0, other;
    OK(cuMemAlloc(&other, 4096));
    fill(60);
    for (int i = 0; i < COUNT; i++)
        pointers[i] = target[i];
    OK(cuMemcpyHtoD(other, pointers, sizeof pointers));
    OK(touch_five()); /* a table that nothing leads to holds nothing */
    OK(cuMemcpyHtoD(root, &other, sizeof other));
    assert_int_equal(touch_five(), CUDA_ERROR_OUT_OF_MEMORY);
    follow_variable(60);
    fill(70);
    OK(cuMemcpyHtoD(other, pointers, sizeof pointers)); /* as it was */
    follow_variable(70);
    for (int i = 0; i < COUNT; i++)
        pointers[i] = target[COUNT - 1 - i];
    OK(cuMemcpyHtoD(other, pointers, sizeof pointers));
    assert_int_equal(touch_five(), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemsetD8(other, 0, 4096));
    OK(touch_five());
    OK(cuMemcpyHtoD(other, pointers, sizeof pointers));
    assert_int_equal(touch_five(), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemcpyHtoD(root, &none, sizeof none));
    OK(cuMemFree(other));
    OK(touch_five());
}

/* No kernel follows what the host has. */
static void tables_that_are_copied_out_hold_nothing(void **state)
{
    (void)state;
    CUdeviceptr pointers[COUNT], back[COUNT], other, dst = (CUdeviceptr)(uintptr_t)back;
    size_t bytes = sizeof pointers, index = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuMemAlloc(&other, 4096));
    for (int i = 0; i < COUNT; i++)
        pointers[i] = target[i];
    OK(cuMemcpyHtoD(other, pointers, sizeof pointers));
    OK(cuMemcpy(dst, other, sizeof back));
    OK(cuMemcpyBatchAsync(&dst, &other, &bytes, 1, &attributes, &index, 1, stream));
    OK(cuStreamSynchronize(stream));
    assert_memory_equal(pointers, back, sizeof back);
    OK(touch_five());
    OK(cuMemFree(other));
    OK(cuStreamDestroy(stream));
}

static const CUDA_KERNEL_NODE_PARAMS chase_node = {
    .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};

/* A graph that copies a table, from the device or from the host, and follows the copy. */
static void copy_and_follow(CUdeviceptr from, const void *host, CUdeviceptr to, int first)
{
    CUcontext context;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode copied, node;
    int n = COUNT;
    float seen[COUNT];
    const CUDA_MEMCPY3D copy = {.srcMemoryType = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                                .srcDevice = from,
                                .srcHost = host,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = to,
                                .WidthInBytes = COUNT * sizeof(CUdeviceptr),
                                .Height = 1,
                                .Depth = 1};
    CUDA_KERNEL_NODE_PARAMS launch = chase_node;
    launch.func = chase;
    launch.kernelParams = (void *[]){&out, &to, &n};
    OK(cuCtxGetCurrent(&context));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemcpyNode(&copied, graph, NULL, 0, &copy, context));
    OK(cuGraphAddKernelNode(&node, graph, &copied, 1, &launch));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        evict();
        OK(cuGraphLaunch(exec, NULL));
        OK(cuMemcpyDtoH(seen, out, sizeof seen));
        for (int k = 0; k < COUNT; k++)
            assert_int_equal((int)seen[k], first + k);
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void what_a_graph_leads_to_is_held(void **state)
{
    (void)state;
    CUdeviceptr pointers[COUNT], from, to;
    for (int i = 0; i < COUNT; i++)
        pointers[i] = target[i];
    for (int of_host = 0; of_host < 2; of_host++) {
        OK(cuMemAlloc(&from, 4096));
        OK(cuMemAlloc(&to, 4096));
        fill(80 + 10 * of_host);
        OK(cuMemcpyHtoD(from, pointers, sizeof pointers));
        copy_and_follow(from, of_host ? pointers : NULL, to, 80 + 10 * of_host);
        OK(cuMemFree(from));
        OK(cuMemFree(to));
        OK(touch_five());
    }
}

/* What has stood there until then is followed still. */
static void copies_that_are_captured_have_not_been_made(void **state)
{
    (void)state;
    CUdeviceptr *pointers, to;
    CUgraph graph;
    CUstream stream;
    OK(cuMemAllocHost((void **)&pointers, 4096));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&to, 4096));
    fill(20);
    for (int i = 0; i < COUNT; i++)
        pointers[i] = target[i];
    OK(cuMemcpyHtoD(to, pointers, COUNT * sizeof *pointers));
    for (int i = 0; i < COUNT; i++)
        pointers[i] = out;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemcpyHtoDAsync(to, pointers, COUNT * sizeof *pointers, stream));
    OK(cuStreamEndCapture(stream, &graph));
    follow(to, 20);
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(to));
    OK(cuMemFreeHost(pointers));
    OK(cuStreamDestroy(stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_maps_are_seen),
        cmocka_unit_test(pointers_from_pageable_memory_are_seen),
        cmocka_unit_test(memory_that_takes_an_old_address_is_followed),
        cmocka_unit_test(pointers_from_pinned_memory_are_seen_by_either_copy),
        cmocka_unit_test(tables_are_followed_where_they_are_copied_to),
        cmocka_unit_test(tables_are_followed_by_tables),
        cmocka_unit_test(what_a_variable_leads_to_is_held),
        cmocka_unit_test(tables_that_are_copied_out_hold_nothing),
        cmocka_unit_test(what_a_graph_leads_to_is_held),
        cmocka_unit_test(copies_that_are_captured_have_not_been_made),
    };
    setenv("EBB_BUDGET", "24MiB", 1);
    setenv("SOFTGPU_MEMORY", "1GiB", 1);
    return cmocka_run_group_tests(tests, set_up, NULL);
}

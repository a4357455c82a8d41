/* Graphs as this device has them: what it refuses that hardware may not notice, how branches run side by side, and where
 * the memory of allocation nodes is. What hardware shows too: tests/conformance/graph. */
#include "driver_test.h"

#include <stdbool.h>

enum { N = 4096 };

static CUstream new_stream(void)
{
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static CUgraphNode add_fill(CUgraph g, const CUgraphNode *deps, size_t count, CUdeviceptr p, float value)
{
    int n = N;
    CUDA_KERNEL_NODE_PARAMS k = {.func = kernel("_Z4fillPffi"),
                                 .gridDimX = slices(N),
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 128,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = (void *[]){&p, &value, &n}};
    CUgraphNode node;
    OK(cuGraphAddKernelNode(&node, g, deps, count, &k));
    return node;
}

static float read_float(CUdeviceptr p)
{
    float value;
    OK(cuMemcpyDtoH(&value, p, sizeof value));
    return value;
}

static void destroyed_handles_are_errors_until_they_come_again(void **state)
{
    (void)state;
    CUgraph g, other;
    CUgraphNode node, added;
    CUgraphExec e;
    CUgraphNodeType type;
    size_t n = 0;
    bool again = false;
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddEmptyNode(&node, g, NULL, 0));
    OK(cuGraphInstantiate(&e, g, 0));
    OK(cuGraphExecDestroy(e));
    OK(cuGraphDestroy(g));
    assert_int_equal(cuGraphDestroy(g), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphGetNodes(g, NULL, &n), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphNodeGetType(node, &type), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphDestroyNode(node), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphExecDestroy(e), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphLaunch(e, NULL), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 100; i++) { /* handles of another kind */
        OK(cuGraphCreate(&other, 0));
        OK(cuGraphAddEmptyNode(&added, other, NULL, 0));
        again |= other == g;
        assert_int_equal(cuGraphNodeGetType((CUgraphNode)other, &type), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuGraphDestroy((CUgraph)added), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuGraphNodeGetType((CUgraphNode)&type, &type), CUDA_ERROR_INVALID_VALUE);
    }
    assert_true(again);
}

static void launch_with_what_is_gone_is_refused(void **state)
{
    (void)state;
    CUevent event;
    CUmodule module;
    CUfunction f;
    CUgraph g;
    CUgraphNode node;
    CUgraphExec with_event, with_kernel;
    CUstream s = new_stream();
    OK(cuEventCreate(&event, 0));
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddEventRecordNode(&node, g, NULL, 0, event));
    OK(cuGraphInstantiate(&with_event, g, 0));
    OK(cuGraphLaunch(with_event, s));
    OK(cuEventDestroy(event));
    assert_int_equal(cuGraphLaunch(with_event, s), CUDA_ERROR_INVALID_HANDLE);

    OK(cuModuleLoad(&module, KERNELS));
    OK(cuModuleGetFunction(&f, module, "_Z4fillPffi"));
    OK(cuGraphCreate(&g, 0));
    CUdeviceptr p = device_alloc(N * sizeof(float));
    float value = 1;
    int n = N;
    CUDA_KERNEL_NODE_PARAMS k = {f, 1, 1, 1, 32, 1, 1, 0, (void *[]){&p, &value, &n}, NULL, NULL, NULL};
    OK(cuGraphAddKernelNode(&node, g, NULL, 0, &k));
    OK(cuGraphInstantiate(&with_kernel, g, 0));
    OK(cuGraphLaunch(with_kernel, s));
    OK(cuStreamSynchronize(s));
    OK(cuModuleUnload(module));
    assert_int_equal(cuGraphLaunch(with_kernel, s), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamSynchronize(s));
}

/* One branch stands still until the host lets it go, the other one does not wait for it. */
static void branches_run_side_by_side(void **state)
{
    (void)state;
    CUgraph g;
    CUgraphNode filled, recorded, waiting;
    CUgraphExec e;
    CUevent before, done;
    CUstream s = new_stream(), other = new_stream();
    CUdeviceptr p = device_alloc(N * sizeof(float));
    OK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddEventWaitNode(&waiting, g, NULL, 0, before));
    filled = add_fill(g, NULL, 0, p, 5);
    OK(cuGraphAddEventRecordNode(&recorded, g, &filled, 1, done));
    OK(cuGraphInstantiate(&e, g, 0));

    hold(other);
    OK(cuEventRecord(before, other));
    OK(cuGraphLaunch(e, s));
    OK(cuEventSynchronize(done));
    assert_int_equal(cuEventQuery(before), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    let_go();
    OK(cuStreamSynchronize(s));
    assert_int_equal(cuEventQuery(before), CUDA_SUCCESS);
    assert_true(read_float(p) == 5);
}

static void launch_in_the_default_streams_is_ordered(void **state)
{
    (void)state;
    CUgraph g;
    CUgraphNode nodes[40];
    CUgraphExec e;
    CUstream blocking;
    CUdeviceptr p = device_alloc(40 * N * sizeof(float)), q = device_alloc(4);
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuGraphCreate(&g, 0));
    for (size_t i = 0; i < 40; i++) /* more branches than lanes */
        nodes[i] = add_fill(g, i % 3 ? &nodes[i - 1] : NULL, i % 3 != 0, p + i * N * sizeof(float), (float)i);
    OK(cuGraphInstantiate(&e, g, 0));
    for (int round = 0; round < 4; round++) {
        CUstream s = round == 0   ? CU_STREAM_LEGACY
                     : round == 1 ? CU_STREAM_PER_THREAD
                     : round == 2 ? blocking
                                  : NULL;
        OK(cuMemsetD8(p, 0, 40 * N * sizeof(float)));
        launch_slow_store(blocking, q, round, 20u * 1000 * 1000);
        OK(cuGraphLaunch(e, s));
        if (s == CU_STREAM_LEGACY ||
            !s) { /* behind everything in blocking streams, and before what they get later */
            launch_fill(blocking, p, -1, 1);
            OK(cuStreamSynchronize(blocking));
            assert_true(read_float(p) == -1);
            assert_int_equal(read_int(q), round);
        }
        for (int i = 1; i < 40; i++)
            assert_true(read_float(p + (size_t)i * N * sizeof(float)) == (float)i);
        OK(cuCtxSynchronize());
    }
}

static CUgraph allocating(size_t bytes, CUdeviceptr *out, bool freeing)
{
    CUgraph g;
    CUgraphNode node, last;
    CUDA_MEM_ALLOC_NODE_PARAMS m = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
                                    .bytesize = bytes};
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddMemAllocNode(&node, g, NULL, 0, &m));
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = m.dptr, .value = 3, .elementSize = 4, .width = bytes / 4, .height = 1};
    OK(cuGraphAddMemsetNode(&last, g, &node, 1, &set, test_context));
    if (freeing)
        OK(cuGraphAddMemFreeNode(&node, g, &last, 1, m.dptr));
    *out = m.dptr;
    return g;
}

/* Each graph needs more than half of the device. */
static void idle_graphs_give_their_memory_to_others(void **state)
{
    (void)state;
    size_t free_bytes, total;
    CUdeviceptr a, b, c;
    CUgraphExec ea, eb, ec;
    CUstream s = new_stream();
    OK(cuDeviceGraphMemTrim(0));
    OK(cuMemGetInfo(&free_bytes, &total));
    size_t bytes = total / 2 + CHUNK;
    OK(cuGraphInstantiate(&ea, allocating(bytes, &a, true), 0));
    OK(cuGraphInstantiate(&eb, allocating(bytes, &b, true), 0));
    OK(cuGraphInstantiate(&ec, allocating(bytes, &c, false), 0));
    assert_true(a != b && b != c);
    for (int i = 0; i < 3; i++) {
        OK(cuGraphLaunch(ea, s));
        OK(cuStreamSynchronize(s));
        OK(cuGraphLaunch(eb, s));
        OK(cuStreamSynchronize(s));
    }
    OK(cuGraphLaunch(ec, s));
    OK(cuStreamSynchronize(s));
    assert_int_equal(read_int(c + bytes - 4), 3);
    assert_int_equal(cuGraphLaunch(ea, s), CUDA_ERROR_OUT_OF_MEMORY); /* the third's is in use */
    OK(cuMemFree(c));
    OK(cuGraphLaunch(ea, s));
    OK(cuStreamSynchronize(s));
    OK(cuDeviceGraphMemTrim(0));
    size_t after;
    OK(cuMemGetInfo(&after, &total));
    assert_int_equal(after, free_bytes);
}

static void unfreed_memory_outlives_its_graphs(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUgraphExec e;
    CUgraph g = allocating(CHUNK + 4, &p, false);
    CUdeviceptr base;
    size_t size;
    assert_int_equal(cuMemFree(p), CUDA_ERROR_INVALID_VALUE); /* not yet allocated */
    OK(cuGraphInstantiate(&e, g, 0));
    OK(cuGraphLaunch(e, NULL));
    OK(cuGraphExecDestroy(e));
    OK(cuGraphDestroy(g));
    assert_int_equal(read_int(p + CHUNK), 3);
    OK(cuMemGetAddressRange(&base, &size, p + 100));
    assert_true(base == p && size == CHUNK + 4);
    int value = 0;
    assert_int_equal(cuMemcpyDtoH(&value, p + CHUNK + 4, 4), CUDA_ERROR_INVALID_VALUE); /* behind its end */
    assert_int_equal(cuMemUnmap(p, 2 * CHUNK), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    assert_int_equal(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoH(&value, p, 4), CUDA_ERROR_INVALID_VALUE);
}

/* rule: graph-free */
static void free_beside_its_allocation_is_refused(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUgraph g = allocating(CHUNK, &p, false);
    CUgraphNode root, freeing, between;
    CUgraphExec e;
    size_t one = 1;
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    OK(cuGraphGetRootNodes(g, &root, &one));
    OK(cuGraphAddEmptyNode(&between, g, NULL, 0));
    OK(cuGraphAddMemFreeNode(&freeing, g, &between, 1, p));
    assert_int_equal(cuGraphInstantiateWithParams(&e, g, &params), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    assert_ptr_equal(params.hErrNode_out, freeing);
    OK(cuGraphAddDependencies(g, &root, &between, NULL, 1));
    OK(cuGraphInstantiate(&e, g, 0));
}

static void a_stream_that_captures_is_not_destroyed(void **state)
{
    (void)state;
    CUstream s = new_stream(), joined = new_stream();
    CUevent fork, join;
    CUgraph g = NULL;
    CUdeviceptr p = device_alloc(N * sizeof(float));
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork, s));
    OK(cuStreamWaitEvent(joined, fork, 0));
    launch_fill(joined, p, 4, N);
    OK(cuEventRecord(join, joined));
    OK(cuStreamDestroy(joined)); /* its work stays */
    OK(cuEventDestroy(fork));
    OK(cuStreamWaitEvent(s, join, 0));
    OK(cuStreamEndCapture(s, &g));
    size_t n = 0;
    OK(cuGraphGetNodes(g, NULL, &n));
    assert_int_equal(n, 1);

    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(cuStreamDestroy(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamDestroy(s));
}

static void event_of_an_ended_capture_cannot_be_waited_for(void **state)
{
    (void)state;
    CUstream s = new_stream();
    CUevent event;
    CUgraph g;
    float ms;
    OK(cuEventCreate(&event, 0));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(event, s));
    OK(cuStreamEndCapture(s, &g));
    assert_int_equal(cuStreamWaitEvent(s, event, 0), CUDA_ERROR_CAPTURED_EVENT);
    assert_int_equal(cuEventElapsedTime(&ms, event, event), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuEventRecord(event, s));
    OK(cuStreamWaitEvent(s, event, 0));
    OK(cuEventSynchronize(event));
}

static void what_is_not_provided_says_so(void **state)
{
    (void)state;
    CUgraph g;
    CUgraphNode node;
    CUgraphExec e = NULL;
    OK(cuGraphCreate(&g, 0));
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    assert_int_equal(cuGraphAddNode(&node, g, NULL, NULL, 0, &p), CUDA_ERROR_NOT_SUPPORTED);
    p = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EMPTY};
    p.reserved2 = 1;
    assert_int_equal(cuGraphAddNode(&node, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    p.reserved2 = 0;
    p.reserved1[28] = 1;
    assert_int_equal(cuGraphAddNode(&node, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    p.reserved1[28] = 0;
    OK(cuGraphAddNode(&node, g, NULL, NULL, 0, &p));
    assert_int_equal(cuGraphInstantiate(&e, g, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuGraphInstantiate(&e, g, 1 << 10), CUDA_ERROR_INVALID_VALUE);
}

/* Last: the context's streams are gone afterwards. */
static void reset_ends_captures(void **state)
{
    (void)state;
    CUstream s = new_stream(), other;
    CUgraph g = NULL;
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuDevicePrimaryCtxReset(0));
    assert_int_equal(cuStreamEndCapture(s, &g), CUDA_ERROR_INVALID_HANDLE);
    other = new_stream();
    OK(cuStreamSynchronize(other));
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 512)); /* nothing captures any more */
}

static int setup(void **state)
{
    setenv("SOFTGPU_MEMORY", "96MiB", 1);
    setenv("SOFTGPU_WORKERS", "3", 1);
    return driver_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destroyed_handles_are_errors_until_they_come_again),
        cmocka_unit_test(launch_with_what_is_gone_is_refused),
        cmocka_unit_test(branches_run_side_by_side),
        cmocka_unit_test(launch_in_the_default_streams_is_ordered),
        cmocka_unit_test(idle_graphs_give_their_memory_to_others),
        cmocka_unit_test(unfreed_memory_outlives_its_graphs),
        cmocka_unit_test(free_beside_its_allocation_is_refused),
        cmocka_unit_test(a_stream_that_captures_is_not_destroyed),
        cmocka_unit_test(event_of_an_ended_capture_cannot_be_waited_for),
        cmocka_unit_test(what_is_not_provided_says_so),
        cmocka_unit_test(reset_ends_captures),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

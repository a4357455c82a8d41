/* Graphs and stream capture under a budget that holds a part of what is allocated, preloaded. 77: this driver has no
 * graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

enum { BUFFER = 4 << 20, FLOATS = BUFFER / 4, CHURN = 6 };

static CUcontext context;
static CUmodule module;
static CUfunction fill, add;
static CUstream stream, other;
static CUdeviceptr a, b, c, churn[CHURN];
static float *seen;

static int set_up(void **state)
{
    (void)state;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuModuleLoad(&module, KERNELS));
    OK(cuModuleGetFunction(&fill, module, "_Z4fillPffi"));
    OK(cuModuleGetFunction(&add, module, "_Z3addPfPKfS1_i"));
    OK(cuMemAlloc(&a, BUFFER));
    OK(cuMemAlloc(&b, BUFFER));
    OK(cuMemAlloc(&c, BUFFER));
    for (int i = 0; i < CHURN; i++)
        OK(cuMemAlloc(&churn[i], BUFFER));
    seen = malloc(BUFFER);
    return seen ? 0 : -1;
}

static void evict(void)
{
    for (int i = 0; i < CHURN; i++)
        OK(cuMemsetD8Async(churn[i], (unsigned char)i, BUFFER, other));
    OK(cuStreamSynchronize(other));
}

static void launch_fill(CUdeviceptr p, float value)
{
    int n = FLOATS;
    void *args[] = {&p, &value, &n};
    OK(cuLaunchKernel(fill, FLOATS / 1024, 1, 1, 128, 1, 1, 0, stream, args, NULL));
}

static void launch_add(CUdeviceptr out, CUdeviceptr x, CUdeviceptr y)
{
    int n = FLOATS;
    void *args[] = {&out, &x, &y, &n};
    OK(cuLaunchKernel(add, FLOATS / 1024, 1, 1, 128, 1, 1, 0, stream, args, NULL));
}

static void check(CUdeviceptr p, float value)
{
    OK(cuMemcpyDtoHAsync(seen, p, BUFFER, stream));
    OK(cuStreamSynchronize(stream));
    for (size_t i = 0; i < FLOATS; i++)
        if (seen[i] < value || seen[i] > value)
            fail_msg("float %zu is %g, not %g", i, (double)seen[i], (double)value);
}

static void CUDA_CB do_nothing(void *unused)
{
    (void)unused;
}

/* c = a + b; a = c; `whole`: and something that ebb does not launch by itself. */
static CUgraphExec capture_step(CUgraph *graph, bool whole)
{
    CUgraphExec exec;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_add(c, a, b);
    if (whole)
        OK(cuLaunchHostFunc(stream, do_nothing, NULL));
    OK(cuMemcpyDtoDAsync(a, c, BUFFER, stream));
    OK(cuStreamEndCapture(stream, graph));
    OK(cuGraphInstantiate(&exec, *graph, 0));
    return exec;
}

static void find_buffers_at_every_launch(bool whole)
{
    CUgraph graph;
    launch_fill(a, 1);
    launch_fill(b, 2);
    OK(cuStreamSynchronize(stream));
    evict();
    CUgraphExec exec = capture_step(&graph, whole);
    check(a, 1); /* nothing of it has run */
    float value = 1;
    for (int i = 0; i < 10; i++) {
        evict();
        OK(cuGraphLaunch(exec, stream));
        value += 2;
        if (i % 3 == 0)
            check(a, value);
    }
    evict();
    check(c, value);
    check(b, 2);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void captured_work_finds_its_buffers_at_every_launch(void **state)
{
    (void)state;
    find_buffers_at_every_launch(false);
    find_buffers_at_every_launch(true);
}

/* A graph has the address; which buffer lies there is asked when it is launched. */
static void memory_that_takes_an_old_address_is_what_the_graph_reaches(void **state)
{
    (void)state;
    CUgraph graph;
    CUgraphExec exec;
    const CUdeviceptr before = a;
    for (int instantiated_before = 0; instantiated_before < 2; instantiated_before++) {
        launch_fill(b, 2);
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch_add(c, a, b);
        OK(cuLaunchHostFunc(stream, do_nothing, NULL)); /* it is launched as one */
        OK(cuMemcpyDtoDAsync(a, c, BUFFER, stream));
        OK(cuStreamEndCapture(stream, &graph));
        if (instantiated_before)
            OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuMemFree(a));
        if (!instantiated_before)
            OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuMemAlloc(&a, BUFFER));
        assert_int_equal(a, before);
        launch_fill(a, 5);
        OK(cuStreamSynchronize(stream));
        evict();
        OK(cuGraphLaunch(exec, stream));
        evict();
        check(a, 7);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
    }
}

/* Five buffers of 4 MiB at once, in a budget of 24, beside what a graph holds. */
static CUresult touch_five(void)
{
    CUdeviceptr dsts[4], srcs[4];
    size_t sizes[4] = {64, 64, 64, 64}, index = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    for (int i = 0; i < 4; i++) {
        dsts[i] = churn[i];
        srcs[i] = churn[4];
    }
    CUresult result = cuMemcpyBatchAsync(dsts, srcs, sizes, 4, &attributes, &index, 1, stream);
    OK(cuStreamSynchronize(stream));
    return result;
}

static void what_a_graph_mentions_stays_only_where_it_is_launched_as_one(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        CUgraph graph, clone;
        const CUresult expected = whole ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        launch_fill(a, 1);
        launch_fill(b, 2);
        evict();
        OK(touch_five());
        CUgraphExec exec = capture_step(&graph, whole);
        OK(cuGraphClone(&clone, graph));
        OK(touch_five());
        OK(cuGraphLaunch(exec, stream)); /* a, b and c are here now */
        OK(cuStreamSynchronize(stream));
        assert_int_equal(touch_five(), expected);
        OK(cuGraphDestroy(graph));
        OK(cuGraphDestroy(clone));
        assert_int_equal(touch_five(), expected);
        OK(cuGraphExecDestroy(exec));
        OK(touch_five());
        check(a, 3);
    }
}

/* What is added by the handle of a child graph that has been asked for is kept for good. When the parent is gone, the driver may give the
 * handle to a new graph. */
static void new_graph_is_no_part_of_a_dead_one(void **state)
{
    (void)state;
    enum { GRAPHS = 64 };
    CUgraph inner, outer, part, graph[GRAPHS];
    CUgraphExec exec;
    CUgraphNode node;
    unsigned same = 0, count = 0;
    OK(cuGraphCreate(&inner, 0));
    OK(cuGraphCreate(&outer, 0));
    OK(cuGraphAddChildGraphNode(&node, outer, NULL, 0, inner));
    OK(cuGraphChildGraphNodeGetGraph(node, &part));
    OK(cuGraphDestroy(outer));
    while (count < GRAPHS && !same) {
        OK(cuGraphCreate(&graph[count], 0));
        same = graph[count++] == part ? count : 0;
    }
    assert_true(same); /* else nothing would be shown */
    const CUdeviceptr dst[] = {a, b, c};
    for (unsigned i = 0; i < 3; i++) {
        CUDA_MEMSET_NODE_PARAMS set = {.dst = dst[i], .elementSize = 4, .width = FLOATS, .height = 1};
        OK(cuGraphAddMemsetNode(&node, graph[count - 1], NULL, 0, &set, context));
    }
    CUDA_HOST_NODE_PARAMS host = {.fn = do_nothing}; /* it is launched as one */
    OK(cuGraphAddHostNode(&node, graph[count - 1], NULL, 0, &host));
    OK(cuGraphInstantiate(&exec, graph[count - 1], 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(touch_five(), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuGraphExecDestroy(exec));
    while (count--)
        OK(cuGraphDestroy(graph[count]));
    OK(cuGraphDestroy(inner));
    OK(touch_five());
}

static void others_come_and_go_while_a_stream_is_captured(void **state)
{
    (void)state;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr more;
    launch_fill(a, 0);
    OK(cuMemsetD8Async(b, 0, BUFFER, stream));
    evict(); /* the budget is full, a and b are on the host */
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    launch_fill(a, 5);
    evict();
    OK(cuMemsetD8Async(b, 0, BUFFER, other));
    OK(cuMemAlloc(&more, 2 * BUFFER));
    OK(cuMemsetD8Async(more, 1, 2 * BUFFER, other));
    OK(cuMemFree(more));
    OK(cuMemcpyDtoDAsync(c, a, BUFFER, stream));
    OK(cuStreamEndCapture(stream, &graph));
    check(b, 0);
    check(a, 0);
    OK(cuGraphInstantiate(&exec, graph, 0));
    evict();
    OK(cuGraphLaunch(exec, stream));
    check(c, 5);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* Eight buffers in 24 MiB, of which five fit beside what the context has. */
static void graph_that_does_not_fit_is_launched_node_by_node(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        CUgraph graph;
        CUgraphExec exec;
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        for (int i = 0; i < CHURN; i++)
            launch_fill(churn[i], (float)(i + 10 * whole));
        if (whole)
            OK(cuLaunchHostFunc(stream, do_nothing, NULL));
        launch_add(a, churn[0], churn[5]);
        launch_add(b, churn[2], churn[4]);
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphUpload(exec, stream));
        assert_int_equal(cuGraphLaunch(exec, stream), whole ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
        check(a, 5);
        check(b, 6);
        for (int i = 0; i < CHURN; i++)
            check(churn[i], (float)i);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
    }
}

static CUgraph captured_fill(CUdeviceptr p, float value)
{
    CUgraph graph;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_fill(p, value);
    OK(cuMemsetD32Async(b, 0, FLOATS, stream));
    OK(cuMemcpyDtoDAsync(c, p, BUFFER, stream));
    OK(cuStreamEndCapture(stream, &graph));
    return graph;
}

/* By node, by another graph, and then by node once more, always by the first graph's handles. */
static void changes_of_nodes_are_followed(void **state)
{
    (void)state;
    CUgraph graph = captured_fill(a, 1), another = captured_fill(a, 2);
    CUgraphExec exec;
    CUgraphNode old[3];
    CUgraphExecUpdateResultInfo how;
    size_t count = 3;
    const unsigned one = 0x3f800000u;
    float value = 5;
    int n = FLOATS;
    void *args[] = {&a, &value, &n};
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = fill,
                                      .gridDimX = FLOATS / 1024,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 128,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = args};
    CUDA_MEMSET_NODE_PARAMS set = {.dst = b, .value = one, .elementSize = 4, .width = FLOATS, .height = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = b,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = c,
                          .WidthInBytes = BUFFER,
                          .Height = 1,
                          .Depth = 1};
    evict();
    OK(cuGraphGetNodes(graph, old, &count));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    check(c, 1);
    OK(cuGraphExecMemsetNodeSetParams(exec, old[1], &set, context));
    OK(cuGraphExecMemcpyNodeSetParams(exec, old[2], &copy, context));
    OK(cuGraphExecKernelNodeSetParams(exec, old[0], &kernel));
    evict();
    OK(cuGraphLaunch(exec, stream));
    check(a, 5);
    check(b, 1);
    check(c, 1);
    OK(touch_five()); /* followed: else the graph is launched as one, and keeps three buffers */
    OK(cuGraphNodeSetEnabled(exec, old[0], 0));
    launch_fill(a, 7);
    OK(cuGraphLaunch(exec, stream));
    check(a, 7);
    OK(touch_five());
    OK(cuGraphNodeSetEnabled(exec, old[0], 1));
    OK(cuGraphExecUpdate(exec, another, &how));
    evict();
    OK(cuGraphLaunch(exec, stream));
    check(a, 2);
    check(b, 0);
    check(c, 2);
    OK(touch_five());
    value = 6;
    OK(cuGraphExecKernelNodeSetParams(exec, old[0], &kernel));
    evict();
    OK(cuGraphLaunch(exec, stream));
    check(c, 6);
    OK(touch_five());
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(another));
}

/* Each destination in turn: those before stay no longer than it takes to make the node. */
static void what_a_node_is_given_does_not_stay(void **state)
{
    (void)state;
    CUgraph graph = captured_fill(a, 4);
    CUgraphExec exec;
    CUgraphNode node[3];
    size_t count = 3;
    OK(cuGraphGetNodes(graph, node, &count));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < CHURN; i++) {
        CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = a,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = churn[i],
                              .WidthInBytes = BUFFER,
                              .Height = 1,
                              .Depth = 1};
        OK(cuGraphExecMemcpyNodeSetParams(exec, node[2], &copy, context));
        OK(cuGraphLaunch(exec, stream));
        OK(touch_five());
    }
    check(churn[5], 4);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* What it mentions then does not fit, which the launch tells, not the update. */
static void update_of_a_graph_launched_as_one_may_not_fit(void **state)
{
    (void)state;
    CUgraph graph[2];
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo how;
    launch_fill(a, 1);
    for (int k = 0; k < 2; k++) {
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cuLaunchHostFunc(stream, do_nothing, NULL));
        for (int i = 0; i < CHURN; i++)
            launch_add(k ? churn[i] : b, a, k ? churn[i] : b);
        OK(cuStreamEndCapture(stream, &graph[k]));
    }
    OK(cuGraphInstantiate(&exec, graph[0], 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecUpdate(exec, graph[1], &how));
    evict();
    assert_int_equal(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
    check(a, 1);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph[0]));
    OK(cuGraphDestroy(graph[1]));
}

/* Launches of one graph do not overtake each other, on whatever streams. */
static void launches_on_other_streams_wait(void **state)
{
    (void)state;
    CUgraph graph;
    launch_fill(a, 0);
    launch_fill(b, 1);
    OK(cuStreamSynchronize(stream));
    CUgraphExec exec = capture_step(&graph, false);
    for (int i = 0; i < 12; i++)
        OK(cuGraphLaunch(exec, i % 2 ? stream : other));
    check(a, 12);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void branches_by_events_are_captured_unharmed(void **state)
{
    (void)state;
    CUgraph graph;
    CUgraphExec exec;
    CUevent fork_event, join_event;
    OK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    launch_fill(a, 1);
    launch_fill(b, 1);
    OK(cuMemsetD8Async(c, 0, BUFFER, other)); /* under way on the stream that will join */
    OK(cuStreamSynchronize(stream));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_fill(a, 4);
    OK(cuEventRecord(fork_event, stream));
    OK(cuStreamWaitEvent(other, fork_event, 0));
    OK(cuMemcpyDtoDAsync(b, a, BUFFER, other));
    OK(cuEventRecord(join_event, other));
    OK(cuStreamWaitEvent(stream, join_event, 0));
    launch_add(c, a, b);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    size_t nodes = 0;
    OK(cuGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 3); /* nothing of ebb's own has got in */
    for (int i = 0; i < 3; i++) {
        evict();
        OK(cuGraphLaunch(exec, stream));
        check(c, 8);
        OK(cuMemsetD8Async(c, 0, BUFFER, stream));
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy(fork_event));
    OK(cuEventDestroy(join_event));
}

static void nodes_made_by_hand_are_read(void **state)
{
    (void)state;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode first, second, third;
    int n = FLOATS;
    float value = 3;
    void *args[] = {&a, &value, &n};
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = fill,
                                      .gridDimX = FLOATS / 1024,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 128,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = args};
    CUDA_MEMSET_NODE_PARAMS set = {.dst = b, .value = 0, .elementSize = 4, .width = FLOATS, .height = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = a,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = c,
                          .WidthInBytes = BUFFER,
                          .Height = 1,
                          .Depth = 1};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&first, graph, NULL, 0, &kernel));
    OK(cuGraphAddMemsetNode(&second, graph, NULL, 0, &set, context));
    OK(cuGraphAddMemcpyNode(&third, graph, &first, 1, &copy, context));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuMemsetD8Async(b, 1, BUFFER, stream));
    evict();
    OK(cuGraphLaunch(exec, stream));
    check(a, 3);
    check(b, 0);
    check(c, 3);
    /* Another buffer, another value. */
    args[0] = &b;
    value = 6;
    OK(cuGraphExecKernelNodeSetParams(exec, first, &kernel));
    evict();
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    check(a, 3);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* The capture tells its graph's handle. */
static void nodes_added_while_it_is_captured_are_read(void **state)
{
    (void)state;
    CUgraph graph, ended;
    CUgraphExec exec;
    CUgraphNode by_hand;
    CUstreamCaptureStatus status;
    CUDA_MEMSET_NODE_PARAMS set = {.dst = b, .value = 0, .elementSize = 4, .width = FLOATS, .height = 1};
    OK(cuMemsetD8Async(b, 1, BUFFER, stream));
    OK(cuStreamSynchronize(stream));
    evict();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_fill(a, 7);
    OK(cuStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL, NULL));
    OK(cuGraphAddMemsetNode(&by_hand, graph, NULL, 0, &set, context));
    OK(cuStreamUpdateCaptureDependencies(stream, &by_hand, NULL, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    OK(cuLaunchHostFunc(stream, do_nothing, NULL)); /* it is launched as one */
    OK(cuStreamEndCapture(stream, &ended));
    assert_ptr_equal(ended, graph);
    OK(cuGraphInstantiate(&exec, graph, 0));
    evict();
    OK(cuGraphLaunch(exec, stream));
    check(a, 7);
    check(b, 0);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void child_graphs_speak_for_their_parents(void **state)
{
    (void)state;
    CUgraph inner, outer;
    CUgraphExec exec;
    CUgraphNode at;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_fill(a, 9);
    OK(cuStreamEndCapture(stream, &inner));
    OK(cuGraphCreate(&outer, 0));
    OK(cuGraphAddChildGraphNode(&at, outer, NULL, 0, inner));
    OK(cuGraphDestroy(inner));
    OK(cuGraphInstantiate(&exec, outer, 0));
    evict();
    OK(cuGraphLaunch(exec, stream));
    check(a, 9);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(outer));
}

static void allocations_of_a_graph_launched_as_one_are_the_drivers(void **state)
{
    (void)state;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr p, base;
    size_t bytes, before, during, total;
    OK(cuMemFree(churn[5])); /* room for it */
    OK(cuMemGetInfo(&before, &total));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&p, BUFFER, stream));
    launch_fill(p, 7);
    OK(cuLaunchHostFunc(stream, do_nothing, NULL));
    OK(cuMemcpyDtoDAsync(a, p, BUFFER, stream));
    OK(cuMemFreeAsync(p, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuMemGetInfo(&during, &total));
    assert_true(before <= 2 << 20 || during < before); /* counted; it is never nothing */
    OK(cuGraphLaunch(exec, stream));
    check(a, 7);
    assert_true(cuMemGetAddressRange(&base, &bytes, p) != CUDA_SUCCESS || base == p);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemAlloc(&churn[5], BUFFER));
}

/* What the driver holds for graphs. */
static uint64_t graph_memory(void)
{
    uint64_t bytes = 0;
    OK(cuDeviceGraphMemTrim(0));
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
}

/* Eight more buffers than there are, two at a time, some at the same addresses. */
static void allocations_of_a_graph_launched_node_by_node_are_served(void **state)
{
    (void)state;
    const uint64_t before = graph_memory();
    CUmodule another;
    CUgraphNode node[64];
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr p, q;
    launch_fill(a, 0);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < 8; i++) {
        OK(cuMemAllocAsync(&p, BUFFER, stream));
        launch_fill(p, (float)i);
        OK(cuMemAllocAsync(&q, BUFFER + 256, stream));
        OK(cuMemsetD32Async(q, 0, FLOATS, stream));
        launch_add(q, q, p);
        OK(cuMemFreeAsync(p, stream));
        OK(cuMemcpyDtoDAsync(b, q, BUFFER, stream));
        launch_add(a, a, b);
        OK(cuMemFreeAsync(q, stream));
    }
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 1; i < 5; i++) {
        evict();
        OK(cuGraphLaunch(exec, stream));
        check(a, 28 * (float)i);
    }
    /* A node is changed, when what was known of functions has been forgotten. */
    size_t count = sizeof node / sizeof *node, at = 0;
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUgraphNodeType type;
    OK(cuGraphGetNodes(graph, node, &count));
    do
        OK(cuGraphNodeGetType(node[at++], &type));
    while (type != CU_GRAPH_NODE_TYPE_KERNEL);
    OK(cuGraphKernelNodeGetParams(node[at - 1], &kernel));
    float value = 10; /* for 0 */
    int n = FLOATS;
    void *args[] = {kernel.kernelParams[0], &value, &n};
    kernel.kernelParams = args;
    OK(cuModuleLoad(&another, KERNELS));
    OK(cuModuleUnload(another));
    OK(cuGraphExecKernelNodeSetParams(exec, node[at - 1], &kernel));
    OK(cuGraphLaunch(exec, stream));
    check(a, 28 * 5 + 10);
    assert_int_equal(graph_memory(), before);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* A copy from the host brings the address of memory that the graph allocates: kernels might follow it. */
static void table_of_a_graphs_own_memory_keeps_it_whole(void **state)
{
    (void)state;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr p, seen_there, *table;
    OK(cuMemHostAlloc((void **)&table, sizeof *table, 0));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&p, BUFFER, stream));
    *table = p + 64;
    OK(cuMemcpyHtoDAsync(b, table, sizeof *table, stream));
    launch_fill(p, 8);
    OK(cuMemcpyDtoDAsync(a, p, BUFFER, stream));
    OK(cuMemFreeAsync(p, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    check(a, 8);
    OK(cuMemcpyDtoH(&seen_there, b, sizeof seen_there));
    assert_true(seen_there == *table);
    uint64_t bytes = 0;
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
    assert_true(bytes >= BUFFER); /* it was there */
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFreeHost(table));
}

/* A launch in part would show in the results of the next one: the program ends. */
static void graph_that_fails_in_the_middle_fails_the_program(void **state)
{
    (void)state;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr p;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_add(b, b, a);
    OK(cuMemAllocAsync(&p, 6 * (size_t)BUFFER, stream));
    OK(cuMemsetD8Async(p, 0, 6 * (size_t)BUFFER, stream));
    OK(cuMemFreeAsync(p, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    assert_int_not_equal(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
}

static void a_broken_capture_ends(void **state)
{
    (void)state;
    CUgraph graph = NULL;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_fill(a, 1);
    assert_int_not_equal(cuStreamSynchronize(stream),
                         CUDA_SUCCESS); /* not allowed: it invalidates the capture */
    assert_int_not_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    evict(); /* works again */
    launch_fill(a, 2);
    check(a, 2);
}

int main(void)
{
    CUgraph graph;
    setenv("EBB_BUDGET", "24MiB", 1);
    setenv("SOFTGPU_MEMORY", "1GiB", 1);
    if (cuInit(0) || cuGraphCreate(&graph, 0))
        return 77;
    cuGraphDestroy(graph);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_work_finds_its_buffers_at_every_launch),
        cmocka_unit_test(memory_that_takes_an_old_address_is_what_the_graph_reaches),
        cmocka_unit_test(what_a_graph_mentions_stays_only_where_it_is_launched_as_one),
        cmocka_unit_test(new_graph_is_no_part_of_a_dead_one),
        cmocka_unit_test(others_come_and_go_while_a_stream_is_captured),
        cmocka_unit_test(graph_that_does_not_fit_is_launched_node_by_node),
        cmocka_unit_test(changes_of_nodes_are_followed),
        cmocka_unit_test(what_a_node_is_given_does_not_stay),
        cmocka_unit_test(update_of_a_graph_launched_as_one_may_not_fit),
        cmocka_unit_test(launches_on_other_streams_wait),
        cmocka_unit_test(branches_by_events_are_captured_unharmed),
        cmocka_unit_test(nodes_made_by_hand_are_read),
        cmocka_unit_test(nodes_added_while_it_is_captured_are_read),
        cmocka_unit_test(child_graphs_speak_for_their_parents),
        cmocka_unit_test(allocations_of_a_graph_launched_as_one_are_the_drivers),
        cmocka_unit_test(allocations_of_a_graph_launched_node_by_node_are_served),
        cmocka_unit_test(table_of_a_graphs_own_memory_keeps_it_whole),
        cmocka_unit_test(a_broken_capture_ends),
        cmocka_unit_test(graph_that_fails_in_the_middle_fails_the_program), /* the last */
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}

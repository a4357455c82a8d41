/* graphs.h: what the cases about graphs share. */
#ifndef CONFORMANCE_GRAPHS_H
#define CONFORMANCE_GRAPHS_H

#include "conformance.h"

#include <pthread.h>

enum { N = 4096 }; /* ints in a buffer */

static inline CUstream capturing(CUstreamCaptureMode mode)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(s, mode));
    return s;
}

static inline CUgraph end_capture(CUstream s)
{
    CUgraph g = NULL;
    OK(cuStreamEndCapture(s, &g));
    return g;
}

/* The capture was invalidated: no graph comes of it, and the stream works again. */
static inline void expect_invalidated(CUstream s)
{
    CUgraph g = (CUgraph)1;
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
    CHECK(!g);
    OK(cuStreamSynchronize(s));
}

static inline CUstreamCaptureStatus status_of(CUstream s)
{
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(s, &status));
    return status;
}

static inline CUgraphExec instantiate(CUgraph g)
{
    CUgraphExec e = NULL;
    OK(cuGraphInstantiate(&e, g, 0));
    return e;
}

/* Launches once and waits. */
static inline void run(CUgraphExec e, CUstream s)
{
    OK(cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
}

static inline size_t count_nodes(CUgraph g)
{
    size_t n = 0;
    OK(cuGraphGetNodes(g, NULL, &n));
    return n;
}

static inline size_t count_edges(CUgraph g)
{
    size_t n = 0;
    OK(cuGraphGetEdges(g, NULL, NULL, NULL, &n));
    return n;
}

static inline CUgraphNodeType type_of(CUgraphNode node)
{
    CUgraphNodeType type = (CUgraphNodeType)-1;
    OK(cuGraphNodeGetType(node, &type));
    return type;
}

/* The only node of a type. */
static inline CUgraphNode only_node(CUgraph g, CUgraphNodeType type)
{
    CUgraphNode nodes[64], found = NULL;
    size_t n = 64;
    OK(cuGraphGetNodes(g, nodes, &n));
    for (size_t i = 0; i < n; i++)
        if (type_of(nodes[i]) == type) {
            CHECK(!found);
            found = nodes[i];
        }
    CHECK(found);
    return found;
}

/* A kernel node of `fill` or `add`. */
static inline CUgraphNode kernel_node(CUgraph g, const CUgraphNode *deps, size_t count, const char *name,
                                      CUdeviceptr p, int value, int n)
{
    CUDA_KERNEL_NODE_PARAMS k = {.func = kernel(name),
                                 .gridDimX = (unsigned)(n + 1023) / 1024,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 128,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = (void *[]){&p, &value, &n}};
    CUgraphNode node = NULL;
    OK(cuGraphAddKernelNode(&node, g, deps, count, &k));
    return node;
}

static inline CUgraph new_graph(void)
{
    CUgraph g = NULL;
    OK(cuGraphCreate(&g, 0));
    return g;
}

static inline CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .WidthInBytes = bytes,
                           .Height = 1,
                           .Depth = 1};
}

/* Runs a function on another thread, in the same context, and waits. */
typedef struct elsewhere {
    void (*body)(void *);
    void *data;
} elsewhere_t;

static inline void *elsewhere_main(void *argument)
{
    const elsewhere_t *e = argument;
    OK(cuCtxSetCurrent(context));
    e->body(e->data);
    return NULL;
}

static inline void on_another_thread(void (*body)(void *), void *data)
{
    elsewhere_t e = {body, data};
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, elsewhere_main, &e));
    CHECK(!pthread_join(thread, NULL));
}

static inline bool all_equal(CUdeviceptr p, int value, int n)
{
    int *host = malloc((size_t)n * sizeof *host);
    bool equal = true;
    OK(cuMemcpyDtoH(host, p, (size_t)n * sizeof *host));
    for (int i = 0; i < n; i++)
        equal = equal && host[i] == value;
    free(host);
    return equal;
}

#endif

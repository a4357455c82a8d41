/* behaviour: The runtime captures what is launched with <<<>>> and its copies and sets, builds the same nodes by hand, and gives
 * their parameters back in its own terms: a kernel by its host function.
 * rules: none
 * source: CUDA runtime API, Graph Management
 * uses: cudart
 */
#include "graph/graphs.h"

#include <cuda_runtime_api.h>

extern const void *const bump_kernel;
cudaError_t launch_bump(int *p, int by, int n, cudaStream_t stream);

#define RT(call) CHECK((call) == cudaSuccess)

static int host[N];

static void expect_all(const int *p, int value)
{
    RT(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
    bool equal = true;
    for (int i = 0; i < N; i++)
        equal = equal && host[i] == value;
    CHECK(equal);
}

static void run_here(cudaGraphExec_t e, cudaStream_t s)
{
    RT(cudaGraphLaunch(e, s));
    RT(cudaStreamSynchronize(s));
}

static void captured(int *p, cudaStream_t s)
{
    cudaGraph_t g = NULL;
    cudaGraphExec_t e = NULL;
    cudaGraphNode_t nodes[4];
    size_t count = 4;
    RT(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    RT(cudaMemsetAsync(p, 0, sizeof host, s));
    RT(launch_bump(p, 3, N, s));
    RT(cudaStreamEndCapture(s, &g));
    RT(cudaGraphInstantiate(&e, g, 0));
    run_here(e, s);
    expect_all(p, 3);

    struct cudaKernelNodeParams k;
    RT(cudaGraphGetNodes(g, nodes, &count));
    CHECK(count == 2);
    RT(cudaGraphKernelNodeGetParams(nodes[1], &k));
    CHECK(k.func == bump_kernel && k.gridDim.x == 4 && k.blockDim.x == 64 && k.kernelParams);
    int by = 30, n = N;
    k.kernelParams = (void *[]){&p, &by, &n};
    RT(cudaGraphExecKernelNodeSetParams(e, nodes[1], &k));
    struct cudaMemsetParams m;
    RT(cudaGraphMemsetNodeGetParams(nodes[0], &m));
    CHECK(m.dst == p && m.value == 0 && m.width * m.elementSize * m.height == sizeof host);
    m.value = 1;
    RT(cudaGraphExecMemsetNodeSetParams(e, nodes[0], &m));
    run_here(e, s);
    expect_all(p, 30 + (m.elementSize == 1 ? 0x01010101 : 1));
    RT(cudaGraphExecDestroy(e));
    RT(cudaGraphDestroy(g));
}

static void built(int *p, int *q, cudaStream_t s)
{
    cudaGraph_t g = NULL;
    cudaGraphExec_t e = NULL;
    cudaGraphNode_t set, kernel, copy;
    int by = 5, n = N;
    RT(cudaGraphCreate(&g, 0));
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeMemset};
    params.memset =
        (struct cudaMemsetParamsV2){.dst = p, .value = 2, .elementSize = 4, .width = N, .height = 1};
    RT(cudaGraphAddNode(&set, g, NULL, NULL, 0, &params));
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeKernel};
    params.kernel = (struct cudaKernelNodeParamsV2){.func = (void *)(uintptr_t)bump_kernel,
                                                    .gridDim = {2, 1, 1},
                                                    .blockDim = {32, 1, 1},
                                                    .kernelParams = (void *[]){&p, &by, &n}};
    RT(cudaGraphAddNode(&kernel, g, &set, NULL, 1, &params));
    RT(cudaGraphAddMemcpyNode1D(&copy, g, &kernel, 1, q, p, sizeof host, cudaMemcpyDeviceToDevice));
    RT(cudaGraphInstantiate(&e, g, 0));
    run_here(e, s);
    expect_all(q, 7);

    struct cudaMemcpy3DParms c;
    RT(cudaGraphMemcpyNodeGetParams(copy, &c));
    CHECK(c.dstPtr.ptr == q && c.srcPtr.ptr == p && c.extent.width == sizeof host &&
          c.kind == cudaMemcpyDeviceToDevice);
    RT(cudaMemset(q, 0, sizeof host));
    RT(cudaDeviceSynchronize()); /* s does not wait for the default stream */
    RT(cudaGraphExecMemcpyNodeSetParams1D(e, copy, q + N / 2, p, sizeof host / 2, cudaMemcpyDeviceToDevice));
    run_here(e, s);
    RT(cudaMemcpy(host, q, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(host[0] == 0 && host[N / 2 - 1] == 0 && host[N / 2] == 7 && host[N - 1] == 7);
    RT(cudaGraphExecDestroy(e));
    RT(cudaGraphDestroy(g));
}

/* An error of a capture is the last error, like any. */
static void refused(cudaStream_t s)
{
    cudaGraph_t g = (cudaGraph_t)1;
    enum cudaStreamCaptureStatus status;
    RT(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaStreamSynchronize(s) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaGetLastError() == cudaErrorStreamCaptureUnsupported);
    RT(cudaStreamIsCapturing(s, &status));
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    CHECK(cudaStreamEndCapture(s, &g) == cudaErrorStreamCaptureInvalidated);
    CHECK(!g && cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaGetLastError() == cudaSuccess);
}

CONFORMANCE
{
    int *p = NULL, *q = NULL;
    cudaStream_t s = NULL;
    RT(cudaMalloc((void **)&p, sizeof host));
    RT(cudaMalloc((void **)&q, sizeof host));
    RT(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    captured(p, s);
    built(p, q, s);
    refused(s);
}

/* behaviour: The runtime captures what is launched with <<<>>> and its copies and sets; another capture of the same calls updates the
 * executable graph.
 * rules: none
 * source: CUDA runtime API, Graph Management
 * uses: cudart
 */
#include "graph/graphs.h"

#include <cuda_runtime_api.h>

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

static cudaGraph_t capture(int *q, int *p, int byte, int by, cudaStream_t s)
{
    cudaGraph_t g = NULL;
    size_t count = 0;
    RT(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    RT(cudaMemsetAsync(p, byte, sizeof host, s));
    RT(launch_bump(p, by, N, s));
    RT(cudaMemcpyAsync(q, p, sizeof host, cudaMemcpyDeviceToDevice, s));
    RT(cudaStreamEndCapture(s, &g));
    RT(cudaGraphGetNodes(g, NULL, &count));
    CHECK(count == 3);
    return g;
}

static void captured(int *p, int *q, cudaStream_t s)
{
    cudaGraphExec_t e = NULL;
    cudaGraphExecUpdateResultInfo info;
    cudaGraph_t first = capture(q, p, 0, 3, s), second = capture(p, q, 1, 30, s);
    RT(cudaGraphInstantiate(&e, first, 0));
    run_here(e, s);
    expect_all(q, 3);
    RT(cudaGraphExecUpdate(e, second, &info));
    CHECK(info.result == cudaGraphExecUpdateSuccess);
    RT(cudaGraphDestroy(first));
    RT(cudaGraphDestroy(second));
    run_here(e, s);
    expect_all(p, 0x01010101 + 30);
    RT(cudaGraphExecDestroy(e));
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
    captured(p, q, s);
    refused(s);
}

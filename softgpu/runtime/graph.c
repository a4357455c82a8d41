/* graph.c: stream capture, and launches and updates of what was captured. Graphs are not built node by node: programs that do so use the
 * driver here. Handles are the driver's own.
 */
#include "softgpu/runtime/runtime.h"

_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData) &&
                   sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) &&
                   sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo),
               "graph structures are passed to the driver as they are");

/* Defines a public function that is one call of the driver's. */
#define PASS(name, parameters, function, ...)                                                                \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        return RT_PASS(function, __VA_ARGS__);                                                               \
    }

/* capture */

/* clang-format off */
RT_BOTH_FORMS(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
              RT_CALL(d, cuStreamBeginCapture, stream, (CUstreamCaptureMode)mode))
RT_BOTH_FORMS(cudaStreamBeginCaptureToGraph, _ptsz,
              (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
               const cudaGraphEdgeData *edges, size_t count, enum cudaStreamCaptureMode mode),
              RT_CALL(d, cuStreamBeginCaptureToGraph, stream, graph, dependencies,
                      (const CUgraphEdgeData *)edges, count,
                      (CUstreamCaptureMode)mode))
RT_BOTH_FORMS(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *graph),
              RT_CALL(d, cuStreamEndCapture, stream, graph))
RT_BOTH_FORMS(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
              RT_CALL(d, cuStreamIsCapturing, stream, (CUstreamCaptureStatus *)status))
RT_BOTH_FORMS(cudaStreamGetCaptureInfo, _ptsz,
              (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
               cudaGraph_t *graph,
               const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count),
              RT_CALL(d, cuStreamGetCaptureInfo, stream, (CUstreamCaptureStatus *)status, (cuuint64_t *)id,
                      graph,
                      dependencies, (const CUgraphEdgeData **)edges, count))
RT_BOTH_FORMS(cudaStreamUpdateCaptureDependencies, _ptsz,
              (cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges,
               size_t count, unsigned int flags),
              RT_CALL(d, cuStreamUpdateCaptureDependencies, stream, dependencies,
                      (const CUgraphEdgeData *)edges, count, flags))

/* instantiation and launch */

RT_BOTH_FORMS(cudaGraphInstantiateWithParams, _ptsz,
              (cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphInstantiateParams *params),
              RT_CALL(d, cuGraphInstantiateWithParams, exec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)params))
RT_BOTH_FORMS(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
              RT_CALL(d, cuGraphLaunch, exec, stream))
RT_BOTH_FORMS(cudaGraphUpload, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
              RT_CALL(d, cuGraphUpload, exec, stream))

PASS(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode *mode),
     cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *)mode)
PASS(cudaGraphInstantiate, (cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags),
     cuGraphInstantiateWithFlags, exec, graph, flags)
PASS(cudaGraphInstantiateWithFlags, (cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags),
     cuGraphInstantiateWithFlags, exec, graph, flags)
PASS(cudaGraphExecDestroy, (cudaGraphExec_t exec), cuGraphExecDestroy, exec)
PASS(cudaGraphExecGetFlags, (cudaGraphExec_t exec, unsigned long long *flags), cuGraphExecGetFlags, exec,
     (cuuint64_t *)flags)
PASS(cudaGraphExecUpdate, (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info),
     cuGraphExecUpdate, exec, graph, (CUgraphExecUpdateResultInfo *)info)

/* graphs */

PASS(cudaGraphCreate, (cudaGraph_t *graph, unsigned int flags), cuGraphCreate, graph, flags)
PASS(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy, graph)
PASS(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count), cuGraphGetNodes, graph,
     nodes, count)

/* clang-format on */

/* graph.c: stream capture, and what of graphs is passed to the driver as it is. */
#include "softgpu/runtime/graph.h"

_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData) &&
                   sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) &&
                   sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo) &&
                   sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS) &&
                   sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS),
               "graph structures are passed to the driver as they are");

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

/* graphs, nodes, edges */

PASS(cudaGraphCreate, (cudaGraph_t *graph, unsigned int flags), cuGraphCreate, graph, flags)
PASS(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy, graph)
PASS(cudaGraphClone, (cudaGraph_t *clone, cudaGraph_t graph), cuGraphClone, clone, graph)
PASS(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned int flags), cuGraphDebugDotPrint,
     graph, path, flags)
PASS(cudaGraphDestroyNode, (cudaGraphNode_t node), cuGraphDestroyNode, node)
PASS(cudaGraphNodeFindInClone, (cudaGraphNode_t *found, cudaGraphNode_t node, cudaGraph_t clone),
     cuGraphNodeFindInClone, found, node, clone)
PASS(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *type),
     cuGraphNodeGetType, node, (CUgraphNodeType *)type)
PASS(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count), cuGraphGetNodes, graph,
     nodes, count)
PASS(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count), cuGraphGetRootNodes,
     graph, nodes, count)
PASS(cudaGraphGetEdges, (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                         cudaGraphEdgeData *edges, size_t *count),
     cuGraphGetEdges, graph, from, to, (CUgraphEdgeData *)edges, count)
PASS(cudaGraphNodeGetDependencies, (cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges,
                                    size_t *count),
     cuGraphNodeGetDependencies, node, nodes, (CUgraphEdgeData *)edges, count)
PASS(cudaGraphNodeGetDependentNodes, (cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges,
                                      size_t *count),
     cuGraphNodeGetDependentNodes, node, nodes, (CUgraphEdgeData *)edges, count)
PASS(cudaGraphAddDependencies,
     (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
      const cudaGraphEdgeData *edges, size_t count),
     cuGraphAddDependencies, graph, from, to, (const CUgraphEdgeData *)edges, count)
PASS(cudaGraphRemoveDependencies,
     (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
      const cudaGraphEdgeData *edges, size_t count),
     cuGraphRemoveDependencies, graph, from, to, (const CUgraphEdgeData *)edges, count)
PASS(cudaGraphNodeGetEnabled, (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int *enabled),
     cuGraphNodeGetEnabled, exec, node, enabled)
PASS(cudaGraphNodeSetEnabled, (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int enabled),
     cuGraphNodeSetEnabled, exec, node, enabled)

/* nodes that need no translation: empty, child graph, events, host functions, frees */

PASS(cudaGraphAddEmptyNode, (NODE_PARAMETERS), cuGraphAddEmptyNode, NODE_ARGUMENTS)
PASS(cudaGraphAddChildGraphNode, (NODE_PARAMETERS, cudaGraph_t child), cuGraphAddChildGraphNode,
     NODE_ARGUMENTS, child)
PASS(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t *graph),
     cuGraphChildGraphNodeGetGraph, node, graph)
PASS(cudaGraphExecChildGraphNodeSetParams, (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child),
     cuGraphExecChildGraphNodeSetParams, exec, node, child)
PASS(cudaGraphAddEventRecordNode, (NODE_PARAMETERS, cudaEvent_t event), cuGraphAddEventRecordNode,
     NODE_ARGUMENTS, event)
PASS(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event),
     cuGraphEventRecordNodeGetEvent, node, event)
PASS(cudaGraphAddEventWaitNode, (NODE_PARAMETERS, cudaEvent_t event), cuGraphAddEventWaitNode,
     NODE_ARGUMENTS, event)
PASS(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event),
     cuGraphEventWaitNodeGetEvent, node, event)
PASS(cudaGraphAddHostNode, (NODE_PARAMETERS, const struct cudaHostNodeParams *params),
     cuGraphAddHostNode, NODE_ARGUMENTS, (const CUDA_HOST_NODE_PARAMS *)params)
PASS(cudaGraphExecHostNodeSetParams, (cudaGraphExec_t exec, cudaGraphNode_t node,
                                      const struct cudaHostNodeParams *params),
     cuGraphExecHostNodeSetParams, exec, node, (const CUDA_HOST_NODE_PARAMS *)params)
PASS(cudaGraphAddMemFreeNode, (NODE_PARAMETERS, void *pointer), cuGraphAddMemFreeNode, NODE_ARGUMENTS,
     rt_address(pointer))
PASS(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void *pointer), cuGraphMemFreeNodeGetParams, node,
     (CUdeviceptr *)pointer)
PASS(cudaGraphAddMemAllocNode, (NODE_PARAMETERS, struct cudaMemAllocNodeParams *params),
     cuGraphAddMemAllocNode, NODE_ARGUMENTS, (CUDA_MEM_ALLOC_NODE_PARAMS *)params)
PASS(cudaGraphMemAllocNodeGetParams, (cudaGraphNode_t node, struct cudaMemAllocNodeParams *params),
     cuGraphMemAllocNodeGetParams, node, (CUDA_MEM_ALLOC_NODE_PARAMS *)params)

/* clang-format on */

/* graph.c: stream capture and graphs, passed to the driver. Handles are the driver's own; only the
 * descriptions of kernel, copy and set nodes have to be translated. */
#include "runtime.h"

#include <stddef.h>

_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData) &&
                   sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) &&
                   sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo) &&
                   sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS),
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

/* Defines a public function that is one call of the driver's. */
#define PASS(name, parameters, function, ...)                                                                \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        return RT_PASS(function, __VA_ARGS__);                                                               \
    }

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

#define NODE_PARAMETERS cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, \
                        size_t count
#define NODE_ARGUMENTS  node, graph, dependencies, count

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
PASS(cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
     cuGraphEventRecordNodeSetEvent, node, event)
PASS(cudaGraphExecEventRecordNodeSetEvent, (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event),
     cuGraphExecEventRecordNodeSetEvent, exec, node, event)
PASS(cudaGraphAddEventWaitNode, (NODE_PARAMETERS, cudaEvent_t event), cuGraphAddEventWaitNode,
     NODE_ARGUMENTS, event)
PASS(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event),
     cuGraphEventWaitNodeGetEvent, node, event)
PASS(cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event), cuGraphEventWaitNodeSetEvent,
     node, event)
PASS(cudaGraphExecEventWaitNodeSetEvent, (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event),
     cuGraphExecEventWaitNodeSetEvent, exec, node, event)
PASS(cudaGraphAddHostNode, (NODE_PARAMETERS, const struct cudaHostNodeParams *params),
     cuGraphAddHostNode, NODE_ARGUMENTS, (const CUDA_HOST_NODE_PARAMS *)params)
PASS(cudaGraphHostNodeGetParams, (cudaGraphNode_t node, struct cudaHostNodeParams *params),
     cuGraphHostNodeGetParams, node, (CUDA_HOST_NODE_PARAMS *)params)
PASS(cudaGraphHostNodeSetParams, (cudaGraphNode_t node, const struct cudaHostNodeParams *params),
     cuGraphHostNodeSetParams, node, (const CUDA_HOST_NODE_PARAMS *)params)
PASS(cudaGraphExecHostNodeSetParams, (cudaGraphExec_t exec, cudaGraphNode_t node,
                                      const struct cudaHostNodeParams *params),
     cuGraphExecHostNodeSetParams, exec, node, (const CUDA_HOST_NODE_PARAMS *)params)
PASS(cudaGraphAddMemFreeNode, (NODE_PARAMETERS, void *pointer), cuGraphAddMemFreeNode, NODE_ARGUMENTS,
     rt_address(pointer))
PASS(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void *pointer), cuGraphMemFreeNodeGetParams, node,
     (CUdeviceptr *)pointer)

/* user objects */

PASS(cudaUserObjectCreate, (cudaUserObject_t *object, void *pointer, cudaHostFn_t destroy,
                            unsigned int count, unsigned int flags),
     cuUserObjectCreate, object, pointer, destroy, count, flags)
PASS(cudaUserObjectRetain, (cudaUserObject_t object, unsigned int count), cuUserObjectRetain, object, count)
PASS(cudaUserObjectRelease, (cudaUserObject_t object, unsigned int count), cuUserObjectRelease, object, count)
PASS(cudaGraphRetainUserObject, (cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                 unsigned int flags),
     cuGraphRetainUserObject, graph, object, count, flags)
PASS(cudaGraphReleaseUserObject, (cudaGraph_t graph, cudaUserObject_t object, unsigned int count),
     cuGraphReleaseUserObject, graph, object, count)
/* clang-format on */

/* kernel nodes */

static cudaError_t describe_kernel(CUDA_KERNEL_NODE_PARAMS *out, const struct cudaKernelNodeParams *p)
{
    CUfunction function;
    cudaError_t error = p ? rt_function(p->func, &function) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *out = (CUDA_KERNEL_NODE_PARAMS){
            .func = function,
            .gridDimX = p->gridDim.x,
            .gridDimY = p->gridDim.y,
            .gridDimZ = p->gridDim.z,
            .blockDimX = p->blockDim.x,
            .blockDimY = p->blockDim.y,
            .blockDimZ = p->blockDim.z,
            .sharedMemBytes = p->sharedMemBytes,
            .kernelParams = p->kernelParams,
            .extra = p->extra,
        };
    return error;
}

/* Defines a public function with a description of type `type`: `describe` fills `described`, the expression
 * uses it. */
#define DESCRIBED(name, parameters, type, describe, expression)                                              \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        const driver_t *d = &rt_driver[RT_LEGACY];                                                           \
        type described;                                                                                      \
        return rt_record(rt_enter() ?: describe(&described, params) ?: (expression));                        \
    }

/* clang-format off */
DESCRIBED(cudaGraphAddKernelNode, (NODE_PARAMETERS, const struct cudaKernelNodeParams *params),
          CUDA_KERNEL_NODE_PARAMS, describe_kernel,
          RT_CALL(d, cuGraphAddKernelNode, NODE_ARGUMENTS, &described))
DESCRIBED(cudaGraphKernelNodeSetParams, (cudaGraphNode_t node, const struct cudaKernelNodeParams *params),
          CUDA_KERNEL_NODE_PARAMS, describe_kernel, RT_CALL(d, cuGraphKernelNodeSetParams, node, &described))
DESCRIBED(cudaGraphExecKernelNodeSetParams,
          (cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaKernelNodeParams *params),
          CUDA_KERNEL_NODE_PARAMS, describe_kernel,
          RT_CALL(d, cuGraphExecKernelNodeSetParams, exec, node, &described))

PASS(cudaGraphKernelNodeCopyAttributes, (cudaGraphNode_t to, cudaGraphNode_t from),
     cuGraphKernelNodeCopyAttributes, to, from)
PASS(cudaGraphKernelNodeGetAttribute, (cudaGraphNode_t node, cudaKernelNodeAttrID id,
                                       cudaKernelNodeAttrValue *value),
     cuGraphKernelNodeGetAttribute, node, (CUkernelNodeAttrID)id, (CUkernelNodeAttrValue *)value)
PASS(cudaGraphKernelNodeSetAttribute, (cudaGraphNode_t node, cudaKernelNodeAttrID id,
                                       const cudaKernelNodeAttrValue *value),
     cuGraphKernelNodeSetAttribute, node, (CUkernelNodeAttrID)id, (const CUkernelNodeAttrValue *)value)
/* clang-format on */

/* copy and set nodes, which run in the current context */

static cudaError_t add_copy_node(NODE_PARAMETERS, const struct cudaMemcpy3DParms *params)
{
    CUcontext context;
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_enter_context(&context) ?: rt_describe_box(&copy, params);
    if (error == cudaErrorNotReady)
        error = cudaErrorInvalidValue; /* a node must copy something */
    return error ?: RT_CALL(&rt_driver[RT_LEGACY], cuGraphAddMemcpyNode, NODE_ARGUMENTS, &copy, context);
}

cudaError_t cudaGraphAddMemcpyNode(NODE_PARAMETERS, const struct cudaMemcpy3DParms *params)
{
    return rt_record(add_copy_node(NODE_ARGUMENTS, params));
}

cudaError_t cudaGraphAddMemcpyNode1D(NODE_PARAMETERS, void *to, const void *from, size_t bytes,
                                     enum cudaMemcpyKind kind)
{
    const struct cudaMemcpy3DParms params = {
        .srcPtr = {.ptr = (void *)(uintptr_t)from, .pitch = bytes, .xsize = bytes, .ysize = 1},
        .dstPtr = {.ptr = to, .pitch = bytes, .xsize = bytes, .ysize = 1},
        .extent = {.width = bytes, .height = 1, .depth = 1},
        .kind = kind,
    };
    return rt_record(add_copy_node(NODE_ARGUMENTS, &params));
}

static CUDA_MEMSET_NODE_PARAMS describe_set(const struct cudaMemsetParams *params)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = rt_address(params->dst),
        .pitch = params->pitch,
        .value = params->value,
        .elementSize = params->elementSize,
        .width = params->width,
        .height = params->height,
    };
}

cudaError_t cudaGraphAddMemsetNode(NODE_PARAMETERS, const struct cudaMemsetParams *params)
{
    CUcontext context;
    cudaError_t error = params ? rt_enter_context(&context) : cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_record(error);
    const CUDA_MEMSET_NODE_PARAMS described = describe_set(params);
    return rt_record(
        RT_CALL(&rt_driver[RT_LEGACY], cuGraphAddMemsetNode, NODE_ARGUMENTS, &described, context));
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *params)
{
    if (!params)
        return rt_record(cudaErrorInvalidValue);
    const CUDA_MEMSET_NODE_PARAMS described = describe_set(params);
    return RT_PASS(cuGraphMemsetNodeSetParams, node, &described);
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *params)
{
    CUDA_MEMSET_NODE_PARAMS described = {0};
    cudaError_t error =
        params ? RT_PASS(cuGraphMemsetNodeGetParams, node, &described) : rt_record(cudaErrorInvalidValue);
    if (error == cudaSuccess)
        *params = (struct cudaMemsetParams){
            .dst = (void *)(uintptr_t)described.dst,
            .pitch = described.pitch,
            .value = described.value,
            .elementSize = described.elementSize,
            .width = described.width,
            .height = described.height,
        };
    return error;
}

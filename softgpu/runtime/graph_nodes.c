/* graph_nodes.c: kernel, copy and set nodes, whose descriptions differ from the driver's, and the union that describes
 * any node.
 */
#include "softgpu/runtime/graph.h"
#include "softgpu/runtime/registry.h"

#include <string.h>

/* What the driver is told. */
typedef struct copy_in_context {
    CUDA_MEMCPY3D copy;
    CUcontext context;
} copy_in_context_t;

typedef struct set_in_context {
    CUDA_MEMSET_NODE_PARAMS set;
    CUcontext context;
} set_in_context_t;

/* Defines a public function with a description of type `type`: `describe` fills `described` from `params`, the
 * expression uses it. */
#define DESCRIBED(name, parameters, type, describe, expression)                                              \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        const driver_t *d = &rt_driver[RT_LEGACY];                                                           \
        type described;                                                                                      \
        return rt_record(rt_enter() ?: describe(&described, params) ?: (expression));                        \
    }

/* kernels */

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

static cudaError_t get_kernel(cudaGraphNode_t node, struct cudaKernelNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS k;
    cudaError_t error = p ? rt_enter() : cudaErrorInvalidValue;
    error = error ?: RT_CALL(&rt_driver[RT_LEGACY], cuGraphKernelNodeGetParams, node, &k);
    if (error == cudaSuccess)
        *p = (struct cudaKernelNodeParams){
            .func = (void *)(uintptr_t)registry_symbol(k.func),
            .gridDim = {k.gridDimX, k.gridDimY, k.gridDimZ},
            .blockDim = {k.blockDimX, k.blockDimY, k.blockDimZ},
            .sharedMemBytes = k.sharedMemBytes,
            .kernelParams = k.kernelParams,
            .extra = k.extra,
        };
    return error;
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *params)
{
    return rt_record(get_kernel(node, params));
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

/* copies, which run in the current context */

static cudaError_t describe_copy(copy_in_context_t *out, const struct cudaMemcpy3DParms *params)
{
    cudaError_t error = rt_enter_context(&out->context) ?: rt_describe_box(&out->copy, params);
    return error == cudaErrorNotReady ? cudaErrorInvalidValue : error; /* a node must copy something */
}

static struct cudaMemcpy3DParms flat_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return (struct cudaMemcpy3DParms){
        .srcPtr = {.ptr = (void *)(uintptr_t)from, .pitch = bytes, .xsize = bytes, .ysize = 1},
        .dstPtr = {.ptr = to, .pitch = bytes, .xsize = bytes, .ysize = 1},
        .extent = {.width = bytes, .height = 1, .depth = 1},
        .kind = kind,
    };
}

/* Defines the public forms of one operation on a copy node: by a box, flat, to and from a symbol. `leading` are the
 * parameters before the description, `call` the driver's. */
#define COPY_CALLS(box, flat, to_symbol, from_symbol, leading, ...)                                          \
    static cudaError_t box##_box(COPY_UNPACK leading, const struct cudaMemcpy3DParms *params)                \
    {                                                                                                        \
        copy_in_context_t described;                                                                         \
        return describe_copy(&described, params) ?: RT_CALL(&rt_driver[RT_LEGACY], __VA_ARGS__);             \
    }                                                                                                        \
    cudaError_t box(COPY_UNPACK leading, const struct cudaMemcpy3DParms *params)                             \
    {                                                                                                        \
        return rt_record(box##_box(COPY_NAMES_##box, params));                                               \
    }                                                                                                        \
    cudaError_t flat(COPY_UNPACK leading, void *to, const void *from, size_t bytes,                          \
                     enum cudaMemcpyKind kind)                                                               \
    {                                                                                                        \
        const struct cudaMemcpy3DParms params = flat_copy(to, from, bytes, kind);                            \
        return rt_record(box##_box(COPY_NAMES_##box, &params));                                              \
    }                                                                                                        \
    cudaError_t to_symbol(COPY_UNPACK leading, const void *symbol, const void *from, size_t bytes,           \
                          size_t offset, enum cudaMemcpyKind kind)                                           \
    {                                                                                                        \
        void *to;                                                                                            \
        cudaError_t error = find_symbol(&to, symbol, bytes, offset);                                         \
        const struct cudaMemcpy3DParms params = flat_copy(to, from, bytes, kind);                            \
        return rt_record(error ?: box##_box(COPY_NAMES_##box, &params));                                     \
    }                                                                                                        \
    cudaError_t from_symbol(COPY_UNPACK leading, void *to, const void *symbol, size_t bytes, size_t offset,  \
                            enum cudaMemcpyKind kind)                                                        \
    {                                                                                                        \
        void *from;                                                                                          \
        cudaError_t error = find_symbol(&from, symbol, bytes, offset);                                       \
        const struct cudaMemcpy3DParms params = flat_copy(to, from, bytes, kind);                            \
        return rt_record(error ?: box##_box(COPY_NAMES_##box, &params));                                     \
    }
#define COPY_UNPACK(...) __VA_ARGS__

/* Part of a variable. */
static cudaError_t find_symbol(void **out, const void *symbol, size_t bytes, size_t offset)
{
    CUdeviceptr address = 0;
    size_t size = 0;
    cudaError_t error = rt_enter() ?: registry_variable(symbol, &address, &size);
    if (error == cudaSuccess && (offset > size || bytes > size - offset))
        error = cudaErrorInvalidValue;
    *out = (void *)(uintptr_t)(address + offset);
    return error;
}

/* clang-format off */
#define COPY_NAMES_cudaGraphAddMemcpyNode NODE_ARGUMENTS
COPY_CALLS(cudaGraphAddMemcpyNode, cudaGraphAddMemcpyNode1D, cudaGraphAddMemcpyNodeToSymbol,
           cudaGraphAddMemcpyNodeFromSymbol, (NODE_PARAMETERS),
           cuGraphAddMemcpyNode, NODE_ARGUMENTS, &described.copy, described.context)
#define COPY_NAMES_cudaGraphMemcpyNodeSetParams node
COPY_CALLS(cudaGraphMemcpyNodeSetParams, cudaGraphMemcpyNodeSetParams1D, cudaGraphMemcpyNodeSetParamsToSymbol,
           cudaGraphMemcpyNodeSetParamsFromSymbol, (cudaGraphNode_t node),
           cuGraphMemcpyNodeSetParams, node, &described.copy)
#define COPY_NAMES_cudaGraphExecMemcpyNodeSetParams exec, node
COPY_CALLS(cudaGraphExecMemcpyNodeSetParams, cudaGraphExecMemcpyNodeSetParams1D,
           cudaGraphExecMemcpyNodeSetParamsToSymbol, cudaGraphExecMemcpyNodeSetParamsFromSymbol,
           (cudaGraphExec_t exec, cudaGraphNode_t node),
           cuGraphExecMemcpyNodeSetParams, exec, node, &described.copy, described.context)
/* clang-format on */

static enum cudaMemcpyKind kind_of(CUmemorytype from, CUmemorytype to)
{
    if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
        return cudaMemcpyDefault;
    if (from == CU_MEMORYTYPE_HOST)
        return to == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
    return to == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

static void *side_of(CUmemorytype type, const void *host, CUdeviceptr address)
{
    return (void *)(uintptr_t)(type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : address);
}

static cudaError_t get_copy(cudaGraphNode_t node, struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D c;
    cudaError_t error = p ? rt_enter() : cudaErrorInvalidValue;
    error = error ?: RT_CALL(&rt_driver[RT_LEGACY], cuGraphMemcpyNodeGetParams, node, &c);
    if (error == cudaSuccess)
        *p = (struct cudaMemcpy3DParms){
            .srcPos = {c.srcXInBytes, c.srcY, c.srcZ},
            .srcPtr = {.ptr = side_of(c.srcMemoryType, c.srcHost, c.srcDevice),
                       .pitch = c.srcPitch,
                       .xsize = c.WidthInBytes,
                       .ysize = c.srcHeight},
            .dstPos = {c.dstXInBytes, c.dstY, c.dstZ},
            .dstPtr = {.ptr = side_of(c.dstMemoryType, c.dstHost, c.dstDevice),
                       .pitch = c.dstPitch,
                       .xsize = c.WidthInBytes,
                       .ysize = c.dstHeight},
            .extent = {c.WidthInBytes, c.Height, c.Depth},
            .kind = kind_of(c.srcMemoryType, c.dstMemoryType),
        };
    return error;
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *params)
{
    return rt_record(get_copy(node, params));
}

/* sets */

static cudaError_t describe_set(set_in_context_t *out, const struct cudaMemsetParams *params)
{
    if (!params)
        return cudaErrorInvalidValue;
    out->set = (CUDA_MEMSET_NODE_PARAMS){
        .dst = rt_address(params->dst),
        .pitch = params->pitch,
        .value = params->value,
        .elementSize = params->elementSize,
        .width = params->width,
        .height = params->height,
    };
    return rt_enter_context(&out->context);
}

/* clang-format off */
DESCRIBED(cudaGraphAddMemsetNode, (NODE_PARAMETERS, const struct cudaMemsetParams *params),
          set_in_context_t, describe_set,
          RT_CALL(d, cuGraphAddMemsetNode, NODE_ARGUMENTS, &described.set, described.context))
DESCRIBED(cudaGraphMemsetNodeSetParams, (cudaGraphNode_t node, const struct cudaMemsetParams *params),
          set_in_context_t, describe_set, RT_CALL(d, cuGraphMemsetNodeSetParams, node, &described.set))
DESCRIBED(cudaGraphExecMemsetNodeSetParams,
          (cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaMemsetParams *params),
          set_in_context_t, describe_set,
          RT_CALL(d, cuGraphExecMemsetNodeSetParams, exec, node, &described.set, described.context))
/* clang-format on */

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

/* any node */

static cudaError_t describe_kernel_of_union(CUDA_KERNEL_NODE_PARAMS_v3 *out,
                                            const struct cudaKernelNodeParamsV2 *p)
{
    const struct cudaKernelNodeParams plain = {.func = p->func,
                                               .gridDim = p->gridDim,
                                               .blockDim = p->blockDim,
                                               .sharedMemBytes = p->sharedMemBytes,
                                               .kernelParams = p->kernelParams,
                                               .extra = p->extra};
    CUDA_KERNEL_NODE_PARAMS described;
    cudaError_t error = describe_kernel(&described, &plain);
    _Static_assert(sizeof *out == sizeof described, "the second and third form are the same");
    if (error == cudaSuccess)
        memcpy(out, &described, sizeof described);
    return error;
}

static cudaError_t describe_copy_of_union(CUDA_MEMCPY_NODE_PARAMS *out, const struct cudaMemcpyNodeParams *p)
{
    copy_in_context_t described;
    if (p->flags || p->reserved[0] || p->reserved[1] || p->reserved[2])
        return cudaErrorInvalidValue;
    cudaError_t error = describe_copy(&described, &p->copyParams);
    if (error == cudaSuccess)
        *out = (CUDA_MEMCPY_NODE_PARAMS){.copyCtx = described.context, .copyParams = described.copy};
    return error;
}

static cudaError_t describe_set_of_union(CUDA_MEMSET_NODE_PARAMS_v2 *out, const struct cudaMemsetParamsV2 *p)
{
    *out = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = rt_address(p->dst),
                                        .pitch = p->pitch,
                                        .value = p->value,
                                        .elementSize = p->elementSize,
                                        .width = p->width,
                                        .height = p->height};
    return rt_enter_context(&out->ctx);
}

/* Members of the other types have the driver's layout. */
static cudaError_t describe_node(CUgraphNodeParams *out, const struct cudaGraphNodeParams *p)
{
    _Static_assert(sizeof *out == sizeof *p, "the unions have one size");
    if (!p)
        return cudaErrorInvalidValue;
    memset(out, 0, sizeof *out);
    switch (p->type) {
    case cudaGraphNodeTypeKernel:
        out->type = CU_GRAPH_NODE_TYPE_KERNEL;
        return describe_kernel_of_union(&out->kernel, &p->kernel);
    case cudaGraphNodeTypeMemcpy:
        out->type = CU_GRAPH_NODE_TYPE_MEMCPY;
        return describe_copy_of_union(&out->memcpy, &p->memcpy);
    case cudaGraphNodeTypeMemset:
        out->type = CU_GRAPH_NODE_TYPE_MEMSET;
        return describe_set_of_union(&out->memset, &p->memset);
    default:
        memcpy(out, p, sizeof *out);
        return cudaSuccess;
    }
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                             const cudaGraphEdgeData *edges, size_t count, struct cudaGraphNodeParams *params)
{
    CUgraphNodeParams described;
    cudaError_t error = rt_enter() ?: describe_node(&described, params);
    error = error
                ?: RT_CALL(&rt_driver[RT_LEGACY], cuGraphAddNode, node, graph, dependencies,
                           (const CUgraphEdgeData *)edges, count, &described);
    if (error == cudaSuccess && params->type == cudaGraphNodeTypeMemAlloc)
        params->alloc.dptr = (void *)(uintptr_t)described.alloc.dptr;
    return rt_record(error);
}

/* clang-format off */
DESCRIBED(cudaGraphNodeSetParams, (cudaGraphNode_t node, struct cudaGraphNodeParams *params),
          CUgraphNodeParams, describe_node, RT_CALL(d, cuGraphNodeSetParams, node, &described))
DESCRIBED(cudaGraphExecNodeSetParams,
          (cudaGraphExec_t exec, cudaGraphNode_t node, struct cudaGraphNodeParams *params),
          CUgraphNodeParams, describe_node, RT_CALL(d, cuGraphExecNodeSetParams, exec, node, &described))
/* clang-format on */

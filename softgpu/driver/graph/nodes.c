/* nodes.c: the calls that name a type of node. They fill in the union of graph/params.c. */
#include "softgpu/driver/graph/graph.h"

#include <string.h>

#define SPOT_PARAMETERS CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t count
#define SPOT                                                                                                 \
    &(sg_spot_t)                                                                                             \
    {                                                                                                        \
        .out = out, .graph = graph, .deps = deps, .count = count                                             \
    }

/* ---- kernels ---- */

static CUgraphNodeParams of_kernel(const CUDA_KERNEL_NODE_PARAMS *k)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    memcpy(&p.kernel, k, sizeof *k);
    return p;
}

SG_EXPORT CUresult cuGraphAddKernelNode_v2(SPOT_PARAMETERS, const CUDA_KERNEL_NODE_PARAMS *k)
{
    if (!k)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = of_kernel(k);
    return sg_params_add(SPOT, &p);
}

SG_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *k)
{
    if (!k)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams p = of_kernel(k);
    return sg_params_set(node, &p);
}

SG_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_KERNEL_NODE_PARAMS *k)
{
    if (!k)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams p = of_kernel(k);
    return sg_params_set_in_exec(exec, node, &p);
}

/* Copies the first `bytes` of the node's description, which is of type `type`, from member `member`. */
static CUresult get(CUgraphNode node, CUgraphNodeType type, void *out, size_t bytes)
{
    CUgraphNodeParams p = {.type = type};
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_params_get(node, &p));
    memcpy(out, &p.kernel, bytes); /* members of the union begin together */
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *k)
{
    return get(node, CU_GRAPH_NODE_TYPE_KERNEL, k, sizeof *k);
}

/* ---- attributes of kernel nodes ---- */

static bool known_attribute(CUlaunchAttributeID id)
{
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return true;
    default:
        return false;
    }
}

SG_EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                                 CUkernelNodeAttrValue *out)
{
    SG_TRY(sg_graph_enter());
    if (!out || !known_attribute(id))
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    const sg_node_t *node = sg_node_find_locked(handle);
    const bool is_kernel = node && node->action.type == CU_GRAPH_NODE_TYPE_KERNEL;
    if (is_kernel)
        *out = node->action.view->attribute[id];
    sg_unlock();
    return is_kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- copies ---- */

static CUgraphNodeParams of_copy(const CUDA_MEMCPY3D *c, CUcontext ctx)
{
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                               .memcpy = {.copyCtx = ctx, .copyParams = *c}};
}

SG_EXPORT CUresult cuGraphAddMemcpyNode(SPOT_PARAMETERS, const CUDA_MEMCPY3D *c, CUcontext ctx)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = of_copy(c, ctx);
    return sg_params_add(SPOT, &p);
}

SG_EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *c)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams p = of_copy(c, NULL);
    return sg_params_set(node, &p);
}

SG_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *c,
                                                  CUcontext ctx)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams p = of_copy(c, ctx);
    return sg_params_set_in_exec(exec, node, &p);
}

SG_EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *c)
{
    CUDA_MEMCPY_NODE_PARAMS p;
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(get(node, CU_GRAPH_NODE_TYPE_MEMCPY, &p, sizeof p));
    *c = p.copyParams;
    return CUDA_SUCCESS;
}

/* ---- memsets ---- */

static CUgraphNodeParams of_set(const CUDA_MEMSET_NODE_PARAMS *m, CUcontext ctx)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    memcpy(&p.memset, m, sizeof *m);
    p.memset.ctx = ctx;
    return p;
}

SG_EXPORT CUresult cuGraphAddMemsetNode(SPOT_PARAMETERS, const CUDA_MEMSET_NODE_PARAMS *m, CUcontext ctx)
{
    if (!m)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = of_set(m, ctx);
    return sg_params_add(SPOT, &p);
}

SG_EXPORT CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *m)
{
    if (!m)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams p = of_set(m, NULL);
    return sg_params_set(node, &p);
}

SG_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMSET_NODE_PARAMS *m, CUcontext ctx)
{
    if (!m)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams p = of_set(m, ctx);
    return sg_params_set_in_exec(exec, node, &p);
}

SG_EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *m)
{
    return get(node, CU_GRAPH_NODE_TYPE_MEMSET, m, sizeof *m);
}

/* ---- host functions ---- */

SG_EXPORT CUresult cuGraphAddHostNode(SPOT_PARAMETERS, const CUDA_HOST_NODE_PARAMS *h)
{
    if (!h)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {h->fn, h->userData}};
    return sg_params_add(SPOT, &p);
}

/* ---- child graphs, nothing ---- */

SG_EXPORT CUresult cuGraphAddChildGraphNode(SPOT_PARAMETERS, CUgraph child)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
    return sg_params_add(SPOT, &p);
}

SG_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
    return get(node, CU_GRAPH_NODE_TYPE_GRAPH, graph, sizeof *graph);
}

SG_EXPORT CUresult cuGraphAddEmptyNode(SPOT_PARAMETERS)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return sg_params_add(SPOT, &p);
}

/* ---- events ---- */

/* The calls on event nodes of one type. */
#define EVENT_CALLS(add, get_event, kind)                                                                    \
    SG_EXPORT CUresult add(SPOT_PARAMETERS, CUevent event)                                                   \
    {                                                                                                        \
        CUgraphNodeParams p = {.type = kind, .eventRecord = {event}};                                        \
        return sg_params_add(SPOT, &p);                                                                      \
    }                                                                                                        \
    SG_EXPORT CUresult get_event(CUgraphNode node, CUevent *event)                                           \
    {                                                                                                        \
        return get(node, kind, event, sizeof *event);                                                        \
    }
EVENT_CALLS(cuGraphAddEventRecordNode, cuGraphEventRecordNodeGetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
EVENT_CALLS(cuGraphAddEventWaitNode, cuGraphEventWaitNodeGetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT)

/* ---- values in memory ---- */

static CUgraphNodeParams of_memops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *m)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    memcpy(&p.memOp, m, sizeof *m);
    return p;
}

SG_EXPORT CUresult cuGraphAddBatchMemOpNode(SPOT_PARAMETERS, const CUDA_BATCH_MEM_OP_NODE_PARAMS *m)
{
    if (!m)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = of_memops(m);
    return sg_params_add(SPOT, &p);
}

SG_EXPORT CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *m)
{
    return get(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, m, sizeof *m);
}

SG_EXPORT CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS *m)
{
    if (!m)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraphNodeParams p = of_memops(m);
    return sg_params_set_in_exec(exec, node, &p);
}

/* ---- memory ---- */

SG_EXPORT CUresult cuGraphAddMemAllocNode(SPOT_PARAMETERS, CUDA_MEM_ALLOC_NODE_PARAMS *m)
{
    if (!m)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    memcpy(&p.alloc, m, sizeof *m);
    SG_TRY(sg_params_add(SPOT, &p));
    m->dptr = p.alloc.dptr;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *m)
{
    return get(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, m, sizeof *m);
}

SG_EXPORT CUresult cuGraphAddMemFreeNode(SPOT_PARAMETERS, CUdeviceptr address)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {address}};
    return sg_params_add(SPOT, &p);
}

SG_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address)
{
    return get(node, CU_GRAPH_NODE_TYPE_MEM_FREE, address, sizeof *address);
}

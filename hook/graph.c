/* graph.c: streams captured into graphs, and graphs made node by node. What is executable: graph_exec.c. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/status.h"
#include "alloc/device.h"
#include "alloc/kernel/kernel.h"
#include "hook/internal.h"

/* ---- capture ---- */

static void begins(void)
{
    const ebb_device_t *dev = ebb_enter_work();
    if (dev) {
        ebb_capture_begins(dev->ebb);
        ebb_unlock();
    }
}

static CUresult began(CUresult result, CUstream stream, bool anew)
{
    ebb_device_t *dev = ebb_enter_work();
    if (dev) {
        ebb_capture_began(dev, result, stream, anew);
        ebb_unlock();
    }
    return result;
}

static CUresult begin_capture_old(CUstream stream)
{
    begins();
    return began(EBB_PASS(cuStreamBeginCapture, (stream)), stream, true);
}

static CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
    begins();
    return began(EBB_PASS(cuStreamBeginCapture_v2, (stream, mode)), stream, true);
}

static CUresult begin_capture_to(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
                                 const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    begins();
    return began(EBB_PASS(cuStreamBeginCaptureToGraph, (stream, graph, nodes, edges, count, mode)), stream,
                 false);
}

static CUresult end_capture(CUstream stream, CUgraph *graph)
{
    CUresult result = EBB_PASS(cuStreamEndCapture, (stream, graph));
    ebb_device_t *dev = ebb_enter_work();
    if (dev) {
        ebb_capture_ended(dev, result, stream, result || !graph ? NULL : *graph);
        ebb_unlock();
    }
    return result;
}

/* By waiting for an event of a capture a stream becomes part of it: then it is too late to ask how far it is. */
static CUresult wait_event(CUstream stream, CUevent event, unsigned flags)
{
    ebb_device_t *dev = ebb_captures_under_way(&ebb_global) ? ebb_enter_work() : NULL;
    if (dev) {
        ebb_stream_of(dev, stream);
        ebb_streams_record(dev->ebb, true);
        ebb_unlock();
    }
    return ebb_order_done(EBB_PASS(cuStreamWaitEvent, (stream, event, flags)), EBB_ORDER_WAIT, stream, event);
}

ASYNC_CALL(cuStreamBeginCapture, (CUstream stream), begin_capture_old(stream))
ASYNC_CALL(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), begin_capture(stream, mode))
ASYNC_CALL(cuStreamBeginCaptureToGraph,
           (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
            size_t count, CUstreamCaptureMode mode),
           begin_capture_to(stream, graph, nodes, edges, count, mode))
ASYNC_CALL(cuStreamEndCapture, (CUstream stream, CUgraph *graph), end_capture(stream, graph))
ASYNC_CALL(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
           wait_event(stream, event, flags))

/* ---- what nodes mention ---- */

static ebb_status_t mention_addresses(ebb_t *ebb, ebb_mentions_t *m, const CUdeviceptr *address, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ebb_buffer_t *b = ebb_buffer_at(ebb, address[i]);
        if (b)
            EBB_TRY(ebb_mentions_add(m, b, true));
    }
    return 0;
}

/* `f`: of a CUkernel cast, too. */
static ebb_status_t mention_kernel(ebb_t *ebb, ebb_mentions_t *m, CUfunction f, void **params, void **extra)
{
    ebb_signature_t *s = ebb_signature_of(ebb, f);
    ebb_args_t args;
    ebb_operation_t op = {.kind = EBB_KERNEL};
    ebb_status_t status = 0;
    if (ebb_args_begin(ebb, &args, &op, s, params, extra)) {
        op.opaque = ebb_is_obscure(ebb, s, &op, args.block);
    } else {
        op.opaque = true;
    }
    for (uint32_t i = 0; i < op.access_count && !status; i++)
        status = ebb_mentions_add(m, op.access[i].buffer, false);
    if (op.opaque)
        m->all = true;
    ebb_args_end(&args);
    return status;
}

static CUfunction function_of(CUfunction f, CUkernel kernel)
{
    return f ? f : (CUfunction)kernel;
}

static ebb_status_t mention_copy(ebb_t *ebb, ebb_mentions_t *m, const CUDA_MEMCPY3D *copy)
{
    CUdeviceptr address[2];
    ebb_copy_addresses(copy, address);
    EBB_TRY(mention_addresses(ebb, m, address, 2));
    const bool flat = copy->Height <= 1 && copy->Depth <= 1 && copy->srcMemoryType == CU_MEMORYTYPE_HOST &&
                      copy->dstMemoryType == CU_MEMORYTYPE_DEVICE;
    return flat ? ebb_table_written(ebb, copy->dstDevice + copy->dstXInBytes,
                                    (CUdeviceptr)(uintptr_t)copy->srcHost + copy->srcXInBytes,
                                    copy->WidthInBytes, true)
                : 0;
}

static ebb_status_t mention_words(ebb_t *ebb, ebb_mentions_t *m, const CUstreamBatchMemOpParams *op,
                                  unsigned count)
{
    for (unsigned i = 0; op && i < count; i++) {
        CUdeviceptr address = ebb_word_address(&op[i]);
        EBB_TRY(mention_addresses(ebb, m, &address, 1));
    }
    return 0;
}

static ebb_status_t mention_node(ebb_t *ebb, ebb_mentions_t *m, const CUgraphNodeParams *p)
{
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return mention_kernel(ebb, m, function_of(p->kernel.func, p->kernel.kern), p->kernel.kernelParams,
                              p->kernel.extra);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return mention_copy(ebb, m, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return mention_addresses(ebb, m, &p->memset.dst, 1);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        ebb_graph_mention(ebb, m, p->graph.graph);
        return 0;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return mention_words(ebb, m, p->memOp.paramArray, p->memOp.count);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        m->alloc_bytes += p->alloc.bytesize;
        return 0;
    default:
        return 0; /* no memory */
    }
}

/* Before the driver's call, because it may look at the memory: what the node's parameters mention, for a graph or an executable one. NULL: for the
 * graph of a node, which is not known: for all graphs, then. If the call fails, the graph mentions too much. */
static CUresult mention(const void *graph, const CUgraphNodeParams *p)
{
    const ebb_device_t *dev = p ? ebb_enter_work() : NULL;
    if (!dev)
        return CUDA_SUCCESS;
    ebb_t *ebb = dev->ebb;
    const ebb_status_t status =
        mention_node(ebb, graph ? ebb_graph_mentions(ebb, graph) : ebb_graph_common_mentions(ebb), p);
    ebb_unlock();
    return (CUresult)status;
}

/* Of the older structures the newer ones, which CUgraphNodeParams has, are the same and more behind it. */
_Static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS_v1, extra) == offsetof(CUDA_KERNEL_NODE_PARAMS_v3, extra) &&
                   offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ctx) == offsetof(CUDA_KERNEL_NODE_PARAMS_v3, ctx) &&
                   offsetof(CUDA_MEMSET_NODE_PARAMS_v1, height) ==
                       offsetof(CUDA_MEMSET_NODE_PARAMS_v2, height) &&
                   offsetof(CUDA_BATCH_MEM_OP_NODE_PARAMS_v1, flags) ==
                       offsetof(CUDA_BATCH_MEM_OP_NODE_PARAMS_v2, flags) &&
                   offsetof(CUDA_MEM_ALLOC_NODE_PARAMS_v1, dptr) ==
                       offsetof(CUDA_MEM_ALLOC_NODE_PARAMS_v2, dptr),
               "one begins with the other");

static CUgraphNodeParams params_of(CUgraphNodeType type, const void *p, size_t bytes)
{
    CUgraphNodeParams params = {.type = type};
    memcpy(type == CU_GRAPH_NODE_TYPE_MEMCPY ? (void *)&params.memcpy.copyParams : (void *)&params.kernel, p,
           bytes);
    return params;
}

static CUresult mention_older(const void *graph, CUgraphNodeType type, const void *p, size_t bytes)
{
    if (!p)
        return CUDA_SUCCESS;
    const CUgraphNodeParams params = params_of(type, p, bytes);
    return mention(graph, &params);
}

/* The bodies of a conditional node are made with it. A child graph that is moved into it may have nodes added later (cuda.h,
 * CUgraphChildGraphNodeOwnership). */
static CUresult with_parts(CUresult result, CUgraph graph, const CUgraphNodeParams *p)
{
    const bool bodies = !result && p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && p->conditional.phGraph_out,
               moved = !result && p->type == CU_GRAPH_NODE_TYPE_GRAPH &&
                       p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    const ebb_device_t *dev = bodies || moved ? ebb_enter_work() : NULL;
    if (!dev)
        return result;
    if (moved)
        ebb_graph_contains(dev->ebb, graph, p->graph.graph);
    for (unsigned i = 0; bodies && i < p->conditional.size; i++)
        ebb_graph_contains(dev->ebb, graph, p->conditional.phGraph_out[i]);
    ebb_unlock();
    return result;
}

/* The call, after what it mentions is resident. */
#define AFTER(mentioned, call) ((mentioned) ? CUDA_ERROR_OUT_OF_MEMORY : (call))

/* What is added to it through this handle is added to a part of an unknown graph. */
static CUresult embedded(CUresult result, const CUgraph *graph)
{
    const ebb_device_t *dev = !result && graph ? ebb_enter_work() : NULL;
    if (dev) {
        ebb_graph_contains(dev->ebb, NULL, *graph);
        ebb_unlock();
    }
    return result;
}

#define OLDER(graph, kind, p) mention_older(graph, CU_GRAPH_NODE_TYPE_##kind, p, sizeof *(p))
#define ADD_CALL(name, type, kind)                                                                           \
    PLAIN_CALL(name,                                                                                         \
               (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, size_t count, const type *p),    \
               AFTER(OLDER(graph, kind, p), EBB_PASS(name, (out, graph, nodes, count, p))))
#define ADD_IN_CONTEXT_CALL(name, type, kind)                                                                \
    PLAIN_CALL(name,                                                                                         \
               (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, size_t count, const type *p,     \
                CUcontext context),                                                                          \
               AFTER(OLDER(graph, kind, p), EBB_PASS(name, (out, graph, nodes, count, p, context))))
#define SET_CALL(name, type, kind)                                                                           \
    PLAIN_CALL(name, (CUgraphNode at, const type *p), AFTER(OLDER(NULL, kind, p), EBB_PASS(name, (at, p))))
#define EXEC_SET_CALL(name, type, kind)                                                                      \
    PLAIN_CALL(name, (CUgraphExec exec, CUgraphNode at, const type *p),                                      \
               AFTER(OLDER(exec, kind, p), followed_by(EBB_PASS(name, (exec, at, p)), exec, at,              \
                                                       CU_GRAPH_NODE_TYPE_##kind, p, sizeof *p)))
#define EXEC_SET_IN_CONTEXT_CALL(name, type, kind)                                                           \
    PLAIN_CALL(name, (CUgraphExec exec, CUgraphNode at, const type *p, CUcontext context),                   \
               AFTER(OLDER(exec, kind, p), followed_by(EBB_PASS(name, (exec, at, p, context)), exec, at,     \
                                                       CU_GRAPH_NODE_TYPE_##kind, p, sizeof *p)))

/* A node of an executable graph has changed: NULL: in a way that is not followed. */
static CUresult followed(CUresult result, CUgraphExec exec, CUgraphNode at, const CUgraphNodeParams *p)
{
    const ebb_device_t *dev = result ? NULL : ebb_enter_work();
    if (!dev)
        return result;
    ebb_nodes_t *nodes = ebb_graph_nodes(dev->ebb, exec);
    if (nodes && !(p && ebb_nodes_set(dev->ebb, nodes, at, p)))
        ebb_graph_give_nodes(dev->ebb, exec, NULL);
    ebb_mentions_let_go(dev->ebb, ebb_graph_mentions(dev->ebb, exec));
    ebb_unlock();
    return result;
}

static CUresult followed_by(CUresult result, CUgraphExec exec, CUgraphNode at, CUgraphNodeType type,
                            const void *p, size_t bytes)
{
    if (result)
        return result;
    const CUgraphNodeParams params = params_of(type, p, bytes);
    return followed(result, exec, at, &params);
}

static CUresult enabled(CUresult result, CUgraphExec exec, CUgraphNode at, bool on)
{
    const ebb_device_t *dev = result ? NULL : ebb_enter_work();
    if (!dev)
        return result;
    ebb_nodes_t *nodes = ebb_graph_nodes(dev->ebb, exec);
    if (nodes && !ebb_nodes_enable(nodes, at, on))
        ebb_graph_give_nodes(dev->ebb, exec, NULL);
    ebb_unlock();
    return result;
}

ADD_CALL(cuGraphAddKernelNode, CUDA_KERNEL_NODE_PARAMS_v1, KERNEL)
ADD_CALL(cuGraphAddKernelNode_v2, CUDA_KERNEL_NODE_PARAMS_v2, KERNEL)
ADD_CALL(cuGraphAddBatchMemOpNode, CUDA_BATCH_MEM_OP_NODE_PARAMS, BATCH_MEM_OP)
ADD_IN_CONTEXT_CALL(cuGraphAddMemcpyNode, CUDA_MEMCPY3D, MEMCPY)
ADD_IN_CONTEXT_CALL(cuGraphAddMemsetNode, CUDA_MEMSET_NODE_PARAMS_v1, MEMSET)
SET_CALL(cuGraphKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1, KERNEL)
SET_CALL(cuGraphKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2, KERNEL)
SET_CALL(cuGraphMemcpyNodeSetParams, CUDA_MEMCPY3D, MEMCPY)
SET_CALL(cuGraphMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS_v1, MEMSET)
SET_CALL(cuGraphBatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, BATCH_MEM_OP)
EXEC_SET_CALL(cuGraphExecKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1, KERNEL)
EXEC_SET_CALL(cuGraphExecKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2, KERNEL)
EXEC_SET_IN_CONTEXT_CALL(cuGraphExecMemcpyNodeSetParams, CUDA_MEMCPY3D, MEMCPY)
EXEC_SET_IN_CONTEXT_CALL(cuGraphExecMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS_v1, MEMSET)
PLAIN_CALL(cuGraphExecBatchMemOpNodeSetParams,
           (CUgraphExec exec, CUgraphNode at, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p),
           AFTER(OLDER(exec, BATCH_MEM_OP, p),
                 followed(EBB_PASS(cuGraphExecBatchMemOpNodeSetParams, (exec, at, p)), exec, at, NULL)))
PLAIN_CALL(cuGraphAddMemAllocNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, size_t count,
            CUDA_MEM_ALLOC_NODE_PARAMS *p),
           AFTER(OLDER(graph, MEM_ALLOC, p), EBB_PASS(cuGraphAddMemAllocNode, (out, graph, nodes, count, p))))
PLAIN_CALL(cuGraphAddChildGraphNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, size_t count, CUgraph of),
           AFTER(OLDER(graph, GRAPH, &of),
                 EBB_PASS(cuGraphAddChildGraphNode, (out, graph, nodes, count, of))))
PLAIN_CALL(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode at, CUgraph of),
           AFTER(OLDER(exec, GRAPH, &of),
                 followed(EBB_PASS(cuGraphExecChildGraphNodeSetParams, (exec, at, of)), exec, at, NULL)))
PLAIN_CALL(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode at, unsigned on),
           enabled(EBB_PASS(cuGraphNodeSetEnabled, (exec, at, on)), exec, at, on))
PLAIN_CALL(cuGraphChildGraphNodeGetGraph, (CUgraphNode at, CUgraph *graph),
           embedded(EBB_PASS(cuGraphChildGraphNodeGetGraph, (at, graph)), graph))
PLAIN_CALL(cuGraphAddNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, size_t count, CUgraphNodeParams *p),
           AFTER(mention(graph, p),
                 with_parts(EBB_PASS(cuGraphAddNode, (out, graph, nodes, count, p)), graph, p)))
PLAIN_CALL(cuGraphAddNode_v2,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
            size_t count, CUgraphNodeParams *p),
           AFTER(mention(graph, p),
                 with_parts(EBB_PASS(cuGraphAddNode_v2, (out, graph, nodes, edges, count, p)), graph, p)))
PLAIN_CALL(cuGraphNodeSetParams, (CUgraphNode at, CUgraphNodeParams *p),
           AFTER(mention(NULL, p), EBB_PASS(cuGraphNodeSetParams, (at, p))))
PLAIN_CALL(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode at, CUgraphNodeParams *p),
           AFTER(mention(exec, p), followed(EBB_PASS(cuGraphExecNodeSetParams, (exec, at, p)), exec, at, p)))

/* graph.c: streams captured into graphs, graphs made node by node, and their launches. See capture.h.
 */
#include <stdlib.h>

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

static CUresult began(CUresult result, CUstream stream, CUgraph graph)
{
    ebb_device_t *dev = ebb_enter_work();
    if (dev) {
        ebb_capture_began(dev, result, stream, graph);
        ebb_unlock();
    }
    return result;
}

static CUresult begin_capture_old(CUstream stream)
{
    begins();
    return began(EBB_PASS(cuStreamBeginCapture, (stream)), stream, NULL);
}

static CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
    begins();
    return began(EBB_PASS(cuStreamBeginCapture_v2, (stream, mode)), stream, NULL);
}

static CUresult begin_capture_to(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
                                 const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    begins();
    return began(EBB_PASS(cuStreamBeginCaptureToGraph, (stream, graph, nodes, edges, count, mode)), stream,
                 graph);
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
            EBB_TRY(ebb_mentions_add(m, b));
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
        status = ebb_mentions_add(m, op.access[i].buffer);
    if (op.opaque)
        ebb_mentions_all(ebb, m);
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
    return flat ? ebb_table_written_later(ebb, copy->dstDevice + copy->dstXInBytes,
                                          (CUdeviceptr)(uintptr_t)copy->srcHost + copy->srcXInBytes,
                                          copy->WidthInBytes)
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

static ebb_status_t mention_graph(ebb_t *ebb, ebb_mentions_t *m, CUgraph graph)
{
    const ebb_mentions_t *child = ebb_graph_known_mentions(ebb, graph);
    if (child)
        ebb_mentions_add_all(ebb, m, child);
    return 0;
}

static ebb_status_t mention_allocation(ebb_mentions_t *m, size_t bytes)
{
    m->alloc_bytes += bytes;
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
        return mention_graph(ebb, m, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return mention_words(ebb, m, p->memOp.paramArray, p->memOp.count);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return mention_allocation(m, p->alloc.bytesize);
    default:
        return 0; /* no memory */
    }
}

/* Before the driver's call, because it may look at the memory: what `mention`, a call on `ebb` and `m`, finds, for a graph or
 * an executable one. NULL: for the graph of a node, which is not known: for all graphs, then. If the call fails, the
 * graph mentions too much. */
#define MENTION(graph, parameters, mention)                                                                  \
    do {                                                                                                     \
        const ebb_device_t *dev = parameters ? ebb_enter_work() : NULL;                                      \
        if (dev) {                                                                                           \
            ebb_t *ebb = dev->ebb;                                                                           \
            const void *in = (graph);                                                                        \
            ebb_mentions_t *m = in ? ebb_graph_mentions(ebb, in) : ebb_graph_common_mentions(ebb);           \
            ebb_status_t status = mention;                                                                   \
            ebb_unlock();                                                                                    \
            return (CUresult)status;                                                                         \
        }                                                                                                    \
        return CUDA_SUCCESS;                                                                                 \
    } while (0)

static CUresult kernel_old(const void *graph, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    MENTION(graph, p, mention_kernel(ebb, m, p->func, p->kernelParams, p->extra));
}

static CUresult kernel(const void *graph, const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    MENTION(graph, p, mention_kernel(ebb, m, function_of(p->func, p->kern), p->kernelParams, p->extra));
}

static CUresult copy(const void *graph, const CUDA_MEMCPY3D *p)
{
    MENTION(graph, p, mention_copy(ebb, m, p));
}

static CUresult set(const void *graph, const CUDA_MEMSET_NODE_PARAMS_v1 *p)
{
    MENTION(graph, p, mention_addresses(ebb, m, &p->dst, 1));
}

static CUresult words(const void *graph, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    MENTION(graph, p, mention_words(ebb, m, p->paramArray, p->count));
}

static CUresult child(const void *graph, CUgraph of)
{
    MENTION(graph, of, mention_graph(ebb, m, of));
}

static CUresult allocation(const void *graph, const CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    MENTION(graph, p, mention_allocation(m, p->bytesize));
}

static CUresult node(const void *graph, const CUgraphNodeParams *p)
{
    MENTION(graph, p, mention_node(ebb, m, p));
}

/* The bodies of a conditional node are made with it. */
static CUresult with_bodies(CUresult result, CUgraph graph, const CUgraphNodeParams *p)
{
    const bool bodies = !result && p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && p->conditional.phGraph_out;
    const ebb_device_t *dev = bodies ? ebb_enter_work() : NULL;
    if (!dev)
        return result;
    for (unsigned i = 0; i < p->conditional.size; i++)
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

#define ADD_CALL(name, type, mention)                                                                        \
    PLAIN_CALL(name,                                                                                         \
               (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, size_t count, const type *p),    \
               AFTER(mention(graph, p), EBB_PASS(name, (out, graph, nodes, count, p))))
#define ADD_IN_CONTEXT_CALL(name, type, mention)                                                             \
    PLAIN_CALL(name,                                                                                         \
               (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, size_t count, const type *p,     \
                CUcontext context),                                                                          \
               AFTER(mention(graph, p), EBB_PASS(name, (out, graph, nodes, count, p, context))))
#define SET_CALL(name, type, mention)                                                                        \
    PLAIN_CALL(name, (CUgraphNode at, const type *p), AFTER(mention(NULL, p), EBB_PASS(name, (at, p))))
#define EXEC_SET_CALL(name, type, mention)                                                                   \
    PLAIN_CALL(name, (CUgraphExec exec, CUgraphNode at, const type *p),                                      \
               AFTER(mention(exec, p), EBB_PASS(name, (exec, at, p))))
#define EXEC_SET_IN_CONTEXT_CALL(name, type, mention)                                                        \
    PLAIN_CALL(name, (CUgraphExec exec, CUgraphNode at, const type *p, CUcontext context),                   \
               AFTER(mention(exec, p), EBB_PASS(name, (exec, at, p, context))))

ADD_CALL(cuGraphAddKernelNode, CUDA_KERNEL_NODE_PARAMS_v1, kernel_old)
ADD_CALL(cuGraphAddKernelNode_v2, CUDA_KERNEL_NODE_PARAMS_v2, kernel)
ADD_CALL(cuGraphAddBatchMemOpNode, CUDA_BATCH_MEM_OP_NODE_PARAMS, words)
ADD_IN_CONTEXT_CALL(cuGraphAddMemcpyNode, CUDA_MEMCPY3D, copy)
ADD_IN_CONTEXT_CALL(cuGraphAddMemsetNode, CUDA_MEMSET_NODE_PARAMS_v1, set)
SET_CALL(cuGraphKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1, kernel_old)
SET_CALL(cuGraphKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2, kernel)
SET_CALL(cuGraphMemcpyNodeSetParams, CUDA_MEMCPY3D, copy)
SET_CALL(cuGraphMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS_v1, set)
SET_CALL(cuGraphBatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, words)
EXEC_SET_CALL(cuGraphExecKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1, kernel_old)
EXEC_SET_CALL(cuGraphExecKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2, kernel)
EXEC_SET_CALL(cuGraphExecBatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, words)
EXEC_SET_IN_CONTEXT_CALL(cuGraphExecMemcpyNodeSetParams, CUDA_MEMCPY3D, copy)
EXEC_SET_IN_CONTEXT_CALL(cuGraphExecMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS_v1, set)
PLAIN_CALL(cuGraphAddMemAllocNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, size_t count,
            CUDA_MEM_ALLOC_NODE_PARAMS *p),
           AFTER(allocation(graph, p), EBB_PASS(cuGraphAddMemAllocNode, (out, graph, nodes, count, p))))
PLAIN_CALL(cuGraphAddChildGraphNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, size_t count, CUgraph of),
           AFTER(child(graph, of), EBB_PASS(cuGraphAddChildGraphNode, (out, graph, nodes, count, of))))
PLAIN_CALL(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode at, CUgraph of),
           AFTER(child(exec, of), EBB_PASS(cuGraphExecChildGraphNodeSetParams, (exec, at, of))))
PLAIN_CALL(cuGraphChildGraphNodeGetGraph, (CUgraphNode at, CUgraph *graph),
           embedded(EBB_PASS(cuGraphChildGraphNodeGetGraph, (at, graph)), graph))
PLAIN_CALL(cuGraphAddNode,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, size_t count, CUgraphNodeParams *p),
           AFTER(node(graph, p),
                 with_bodies(EBB_PASS(cuGraphAddNode, (out, graph, nodes, count, p)), graph, p)))
PLAIN_CALL(cuGraphAddNode_v2,
           (CUgraphNode * out, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
            size_t count, CUgraphNodeParams *p),
           AFTER(node(graph, p),
                 with_bodies(EBB_PASS(cuGraphAddNode_v2, (out, graph, nodes, edges, count, p)), graph, p)))
PLAIN_CALL(cuGraphNodeSetParams, (CUgraphNode at, CUgraphNodeParams *p),
           AFTER(node(NULL, p), EBB_PASS(cuGraphNodeSetParams, (at, p))))
PLAIN_CALL(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode at, CUgraphNodeParams *p),
           AFTER(node(exec, p), EBB_PASS(cuGraphExecNodeSetParams, (exec, at, p))))

/* ---- graphs as a whole ---- */

/* What the graph allocates itself is the driver's, and counted for as long as it can be launched. */
static bool count_allocations(CUgraph graph, size_t *bytes)
{
    *bytes = 0;
    ebb_device_t *dev = ebb_enter();
    if (!dev)
        return true;
    const ebb_mentions_t *m = ebb_graph_known_mentions(dev->ebb, graph);
    bool counted = !m || ebb_foreign_count(dev, m->alloc_bytes);
    if (counted && m)
        *bytes = m->alloc_bytes;
    if (!counted)
        ebb_log(EBB_WARN, "out of memory: %zu MiB that a graph allocates do not fit into the budget",
                m->alloc_bytes >> 20);
    ebb_unlock();
    return counted;
}

/* A graph that the device itself may launch must find everything in place at any time. */
static ebb_status_t pin_all(ebb_t *ebb, const ebb_mentions_t *m)
{
    size_t at = 0;
    for (ebb_buffer_t *b = ebb_mentions_next(ebb, m, &at); b; b = ebb_mentions_next(ebb, m, &at)) {
        EBB_TRY(ebb_buffer_pin(b));
        ebb_buffer_release(b); /* the mention still holds it */
    }
    return 0;
}

static CUresult instantiated(CUresult result, const CUgraphExec *exec, CUgraph graph, size_t counted,
                             bool on_device)
{
    ebb_device_t *dev = ebb_enter_work();
    if (!dev)
        return result;
    if (result) {
        ebb_foreign_uncount(dev, counted);
    } else {
        ebb_graph_forget(dev->ebb, *exec); /* a dead one's */
        ebb_mentions_t *m = ebb_graph_mentions(dev->ebb, *exec);
        mention_graph(dev->ebb, m, graph);
        m->alloc_bytes = counted;
        m->counted = dev;
        if (on_device && pin_all(dev->ebb, m))
            ebb_log(EBB_WARN, "%s: a graph that the device may launch needs more than there is",
                    ebb_last_failure());
    }
    ebb_unlock();
    return result;
}

static CUresult instantiate_old(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *text,
                                size_t room, bool first)
{
    size_t counted;
    if (!count_allocations(graph, &counted))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = first ? EBB_PASS(cuGraphInstantiate, (exec, graph, failed, text, room))
                            : EBB_PASS(cuGraphInstantiate_v2, (exec, graph, failed, text, room));
    return instantiated(result, exec, graph, counted, false);
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    size_t counted;
    if (!count_allocations(graph, &counted))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return instantiated(EBB_PASS(cuGraphInstantiateWithFlags, (exec, graph, flags)), exec, graph, counted,
                        flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
}

static CUresult instantiate_with(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p,
                                 bool per_thread)
{
    size_t counted;
    if (!p)
        return EBB_PASS(cuGraphInstantiateWithParams, (exec, graph, p));
    if (!count_allocations(graph, &counted))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUstream stream = p->hUploadStream;
    if (per_thread && !stream)
        p->hUploadStream = CU_STREAM_PER_THREAD;
    CUresult result = EBB_PASS(cuGraphInstantiateWithParams, (exec, graph, p));
    p->hUploadStream = stream;
    return instantiated(result, exec, graph, counted, p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
}

/* Before the driver may give the handle to another. */
static void forget(const void *graph, bool executable)
{
    const ebb_device_t *dev = graph ? ebb_enter_any() : NULL;
    if (!dev)
        return;
    const ebb_mentions_t *m = ebb_graph_known_mentions(dev->ebb, graph);
    if (executable && m && m->counted)
        ebb_foreign_uncount(m->counted, m->alloc_bytes);
    ebb_graph_forget(dev->ebb, graph);
    ebb_unlock();
}

static CUresult cloned(CUresult result, const CUgraph *clone, CUgraph of)
{
    const ebb_device_t *dev = result ? NULL : ebb_enter_work();
    if (dev) {
        ebb_graph_forget(dev->ebb, *clone);
        mention_graph(dev->ebb, ebb_graph_mentions(dev->ebb, *clone), of);
        ebb_unlock();
    }
    return result;
}

static CUresult updated(CUresult result, CUgraphExec exec, CUgraph by)
{
    const ebb_device_t *dev = result ? NULL : ebb_enter_work();
    if (dev) {
        ebb_mentions_t *m = ebb_graph_mentions(dev->ebb, exec);
        size_t alloc_bytes = m->alloc_bytes; /* an update cannot change it */
        mention_graph(dev->ebb, m, by);
        m->alloc_bytes = alloc_bytes;
        ebb_unlock();
    }
    return result;
}

PLAIN_CALL(cuGraphInstantiate,
           (CUgraphExec * exec, CUgraph graph, CUgraphNode *failed, char *text, size_t room),
           instantiate_old(exec, graph, failed, text, room, true))
PLAIN_CALL(cuGraphInstantiate_v2,
           (CUgraphExec * exec, CUgraph graph, CUgraphNode *failed, char *text, size_t room),
           instantiate_old(exec, graph, failed, text, room, false))
PLAIN_CALL(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
           instantiate(exec, graph, flags))
PLAIN_CALL(cuGraphInstantiateWithParams,
           (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p),
           instantiate_with(exec, graph, p, false))
PLAIN_CALL(cuGraphInstantiateWithParams_ptsz,
           (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p),
           instantiate_with(exec, graph, p, true))
PLAIN_CALL(cuGraphDestroy, (CUgraph graph), (forget(graph, false), EBB_PASS(cuGraphDestroy, (graph))))
PLAIN_CALL(cuGraphExecDestroy, (CUgraphExec exec), (forget(exec, true), EBB_PASS(cuGraphExecDestroy, (exec))))
PLAIN_CALL(cuGraphClone, (CUgraph * clone, CUgraph of),
           cloned(EBB_PASS(cuGraphClone, (clone, of)), clone, of))
PLAIN_CALL(cuGraphExecUpdate,
           (CUgraphExec exec, CUgraph by, CUgraphNode *failed, CUgraphExecUpdateResult *how),
           updated(EBB_PASS(cuGraphExecUpdate, (exec, by, failed, how)), exec, by))
PLAIN_CALL(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph by, CUgraphExecUpdateResultInfo *how),
           updated(EBB_PASS(cuGraphExecUpdate_v2, (exec, by, how)), exec, by))

/* ---- launches ---- */

typedef struct graph_launch {
    CUgraphExec exec;
    CUstream stream;
} graph_launch_t;

static CUresult issue_graph(const void *context)
{
    const graph_launch_t *l = context;
    return EBB_PASS(cuGraphLaunch, (l->exec, l->stream));
}

static CUresult launch_graph(const graph_launch_t *l)
{
    ebb_device_t *dev = ebb_enter_work();
    if (!dev)
        return issue_graph(l);
    ebb_t *ebb = dev->ebb;
    const ebb_mentions_t *m = ebb_graph_known_mentions(ebb, l->exec),
                         *common = ebb_graph_common_mentions(ebb);
    size_t room = (m ? m->refs.count : 0) + common->refs.count + 1;
    ebb_access_t *access = malloc(room * sizeof *access);
    ebb_operation_t op = {.kind = EBB_OTHER,
                          .stream = ebb_stream_of(dev, l->stream),
                          .name = "cuGraphLaunch",
                          .access = access,
                          .opaque = !access};
    if (access && m)
        ebb_mentions_list(ebb, m, &op);
    if (access)
        ebb_mentions_list(ebb, common, &op);
    CUresult result = ebb_issue(&op, issue_graph, l);
    ebb_unlock();
    free(access);
    return result;
}

ASYNC_CALL(cuGraphLaunch, (CUgraphExec exec, CUstream stream), launch_graph(&(graph_launch_t){exec, stream}))

/* graph.c: streams captured into graphs, graphs made node by node, and their launches. See capture.h.
 */
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
               AFTER(mention(exec, p), followed_##mention(EBB_PASS(name, (exec, at, p)), exec, at, p)))
#define EXEC_SET_IN_CONTEXT_CALL(name, type, mention)                                                        \
    PLAIN_CALL(                                                                                              \
        name, (CUgraphExec exec, CUgraphNode at, const type *p, CUcontext context),                          \
        AFTER(mention(exec, p), followed_##mention(EBB_PASS(name, (exec, at, p, context)), exec, at, p)))

/* A node of an executable graph has changed: NULL: in a way that is not followed. */
static CUresult followed(CUresult result, CUgraphExec exec, CUgraphNode at, const CUgraphNodeParams *p)
{
    const ebb_device_t *dev = result ? NULL : ebb_enter_work();
    if (!dev)
        return result;
    ebb_nodes_t *nodes = ebb_graph_nodes(dev->ebb, exec);
    if (nodes && !(p && ebb_nodes_set(dev->ebb, nodes, at, p)))
        ebb_graph_give_nodes(dev->ebb, exec, NULL);
    ebb_unlock();
    return result;
}

static CUresult followed_kernel(CUresult result, CUgraphExec exec, CUgraphNode at,
                                const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    if (result)
        return result;
    const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                                      .kernel = {.func = p->func,
                                                 .gridDimX = p->gridDimX,
                                                 .gridDimY = p->gridDimY,
                                                 .gridDimZ = p->gridDimZ,
                                                 .blockDimX = p->blockDimX,
                                                 .blockDimY = p->blockDimY,
                                                 .blockDimZ = p->blockDimZ,
                                                 .sharedMemBytes = p->sharedMemBytes,
                                                 .kernelParams = p->kernelParams,
                                                 .extra = p->extra,
                                                 .kern = p->kern}};
    return followed(result, exec, at, &params);
}

static CUresult followed_kernel_old(CUresult result, CUgraphExec exec, CUgraphNode at,
                                    const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = NULL};
    if (!result)
        memcpy(&params, p, sizeof *p); /* which the newer one begins with */
    return followed_kernel(result, exec, at, &params);
}

static CUresult followed_copy(CUresult result, CUgraphExec exec, CUgraphNode at, const CUDA_MEMCPY3D *p)
{
    if (result)
        return result;
    const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyParams = *p}};
    return followed(result, exec, at, &params);
}

static CUresult followed_set(CUresult result, CUgraphExec exec, CUgraphNode at,
                             const CUDA_MEMSET_NODE_PARAMS_v1 *p)
{
    if (result)
        return result;
    const CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                      .memset = {.dst = p->dst,
                                                 .pitch = p->pitch,
                                                 .value = p->value,
                                                 .elementSize = p->elementSize,
                                                 .width = p->width,
                                                 .height = p->height}};
    return followed(result, exec, at, &params);
}

static CUresult followed_words(CUresult result, CUgraphExec exec, CUgraphNode at,
                               const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    (void)p;
    return followed(result, exec, at, NULL);
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
           AFTER(child(exec, of),
                 followed(EBB_PASS(cuGraphExecChildGraphNodeSetParams, (exec, at, of)), exec, at, NULL)))
PLAIN_CALL(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode at, unsigned on),
           enabled(EBB_PASS(cuGraphNodeSetEnabled, (exec, at, on)), exec, at, on))
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
           AFTER(node(exec, p), followed(EBB_PASS(cuGraphExecNodeSetParams, (exec, at, p)), exec, at, p)))

/* ---- graphs as a whole ---- */

/* Of a graph that is made executable. */
typedef struct instance {
    CUgraph graph;
    bool on_device;     /* the device may launch it */
    size_t counted;     /* bytes that it allocates */
    ebb_nodes_t *nodes; /* what it is launched by once graphs have come apart, or NULL */
} instance_t;

/* What the graph allocates itself is the driver's, and counted for as long as it can be launched as one. False: it does not fit. */
static bool prepare(instance_t *in)
{
    ebb_device_t *dev = ebb_enter();
    if (!dev)
        return true;
    const ebb_mentions_t *m = ebb_graph_known_mentions(dev->ebb, in->graph);
    in->nodes = in->on_device || (m && m->owns) ? NULL : ebb_nodes_read(dev->ebb, in->graph);
    const size_t bytes = in->nodes ? ebb_nodes_peak(in->nodes) : m ? m->alloc_bytes : 0;
    bool apart = in->nodes && ebb_graphs_are_apart(dev), good = true;
    if (!apart && bytes && !ebb_foreign_count(dev, bytes))
        apart = good = in->nodes && ebb_graphs_come_apart(dev->ebb);
    else if (!apart)
        in->counted = bytes;
    if (!good)
        ebb_log(EBB_WARN, "out of memory: %zu MiB that a graph allocates do not fit into the budget",
                bytes >> 20);
    if (m && apart)
        good = !ebb_mentions_show(dev->ebb, m);
    if (!good)
        ebb_nodes_delete(in->nodes);
    ebb_unlock();
    return good;
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

static CUresult instantiated(CUresult result, const CUgraphExec *exec, const instance_t *in)
{
    ebb_device_t *dev = ebb_enter_work();
    if (!dev) {
        ebb_nodes_delete(in->nodes);
        return result;
    }
    if (result) {
        ebb_foreign_uncount(dev, in->counted);
        ebb_nodes_delete(in->nodes);
    } else {
        ebb_graph_forget(dev->ebb, *exec); /* a dead one's */
        ebb_mentions_t *m = ebb_graph_mentions(dev->ebb, *exec);
        mention_graph(dev->ebb, m, in->graph);
        m->alloc_bytes = in->counted;
        m->counted = dev;
        ebb_graph_give_nodes(dev->ebb, *exec, in->nodes);
        if (in->on_device && (pin_all(dev->ebb, m) || ebb_mentions_stay(dev->ebb, m)))
            ebb_log(EBB_WARN, "%s: a graph that the device may launch needs more than there is",
                    ebb_last_failure());
    }
    if (ebb_graph_known_mentions(dev->ebb, in->graph))
        ebb_mentions_let_go(dev->ebb, ebb_graph_mentions(dev->ebb, in->graph));
    ebb_unlock();
    return result;
}

static CUresult instantiate_old(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *text,
                                size_t room, bool first)
{
    instance_t in = {.graph = graph};
    if (!prepare(&in))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = first ? EBB_PASS(cuGraphInstantiate, (exec, graph, failed, text, room))
                            : EBB_PASS(cuGraphInstantiate_v2, (exec, graph, failed, text, room));
    return instantiated(result, exec, &in);
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    instance_t in = {.graph = graph, .on_device = flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH};
    if (!prepare(&in))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return instantiated(EBB_PASS(cuGraphInstantiateWithFlags, (exec, graph, flags)), exec, &in);
}

static CUresult instantiate_with(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p,
                                 bool per_thread)
{
    if (!p)
        return EBB_PASS(cuGraphInstantiateWithParams, (exec, graph, p));
    instance_t in = {.graph = graph, .on_device = p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH};
    if (!prepare(&in))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUstream stream = p->hUploadStream;
    if (per_thread && !stream)
        p->hUploadStream = CU_STREAM_PER_THREAD;
    CUresult result = EBB_PASS(cuGraphInstantiateWithParams, (exec, graph, p));
    p->hUploadStream = stream;
    return instantiated(result, exec, &in);
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

static CUresult owns(CUresult result, CUgraph graph)
{
    const ebb_device_t *dev = result ? NULL : ebb_enter_work();
    if (dev) {
        ebb_graph_mentions(dev->ebb, graph)->owns = true;
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
        const ebb_nodes_t *nodes = ebb_graph_nodes(dev->ebb, exec);
        if (nodes) /* they are changed by the new graph's handles from now on, and are given up at one of the old graph's */
            ebb_graph_give_nodes(dev->ebb, exec,
                                 ebb_nodes_all_enabled(nodes) ? ebb_nodes_read(dev->ebb, by) : NULL);
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
PLAIN_CALL(cuGraphRetainUserObject, (CUgraph graph, CUuserObject object, unsigned count, unsigned flags),
           owns(EBB_PASS(cuGraphRetainUserObject, (graph, object, count, flags)), graph))
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

static void note_launch(ebb_device_t *dev, const graph_launch_t *l)
{
    ebb_mark_t *last = ebb_graph_last_launch(dev->ebb, l->exec);
    if (last)
        *last = ebb_mark_here(ebb_stream_of(dev, l->stream));
}

/* Lock held; when this returns it is not. Launches of one executable graph come one after another, on whatever streams. */
static CUresult launch_nodes(ebb_device_t *dev, const graph_launch_t *l, ebb_nodes_t *nodes)
{
    const ebb_mark_t *last = ebb_graph_last_launch(dev->ebb, l->exec);
    ebb_stream_t *stream = ebb_stream_of(dev, l->stream);
    if (ebb_graph_mentions(dev->ebb, l->exec)->alloc_bytes)
        ebb_graphs_give_back(dev);
    CUresult result =
        last->stream && last->stream != stream ? (CUresult)ebb_mark_join(stream, *last) : CUDA_SUCCESS;
    ebb_unlock();
    if (!result)
        result = ebb_nodes_issue(nodes, l->stream);
    dev = ebb_enter_work();
    if (dev) {
        note_launch(dev, l);
        ebb_unlock();
    }
    return result;
}

static CUresult launch_graph(const graph_launch_t *l)
{
    ebb_device_t *dev = ebb_enter_work();
    if (!dev)
        return issue_graph(l);
    ebb_t *ebb = dev->ebb;
    const bool captured = ebb_captures_under_way(ebb) && ebb_is_capturing(l->stream);
    ebb_nodes_t *nodes = captured ? NULL : ebb_graph_nodes(ebb, l->exec);
    if (nodes && ebb_graphs_are_apart(dev))
        return launch_nodes(dev, l, nodes);
    ebb_mentions_t *m = NULL;
    const ebb_mentions_t *common = ebb_graph_common_mentions(ebb);
    if (ebb_graph_known_mentions(ebb, l->exec))
        m = ebb_graph_mentions(ebb, l->exec);
    const ebb_status_t status = m && ebb->hook->apart ? ebb_mentions_stay(ebb, m) : 0;
    if (status) {
        ebb_unlock();
        return (CUresult)status;
    }
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
    if (!result && !captured)
        note_launch(dev, l);
    ebb_unlock();
    free(access);
    return result;
}

/* Nothing is uploaded of what is launched node by node. */
static CUresult upload_graph(CUgraphExec exec, CUstream stream)
{
    ebb_device_t *dev = ebb_enter_work();
    const bool apart = dev && ebb_graph_nodes(dev->ebb, exec) && ebb_graphs_are_apart(dev);
    if (dev)
        ebb_unlock();
    return apart ? CUDA_SUCCESS : EBB_PASS(cuGraphUpload, (exec, stream));
}

ASYNC_CALL(cuGraphLaunch, (CUgraphExec exec, CUstream stream), launch_graph(&(graph_launch_t){exec, stream}))
ASYNC_CALL(cuGraphUpload, (CUgraphExec exec, CUstream stream), upload_graph(exec, stream))

/* graph_exec.c: graphs made executable, and their launches: as one, or node by node (nodes.c). */
#include <stdlib.h>

#include "alloc/base/status.h"
#include "alloc/device.h"
#include "hook/internal.h"

/* ---- graphs as a whole ---- */

/* Of a graph that is made executable. */
typedef struct instance {
    CUgraph graph;
    bool on_device; /* the device may launch it */
    size_t bytes;   /* that it allocates */
    bool counted;
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
    in->bytes = in->nodes ? ebb_nodes_peak(in->nodes) : m ? m->alloc_bytes : 0;
    bool apart = in->nodes && ebb_graphs_are_apart(dev), good = true;
    if (!apart && in->bytes && !ebb_foreign_count(dev, in->bytes))
        apart = good = in->nodes && ebb_graphs_come_apart(dev->ebb);
    else
        in->counted = !apart;
    if (!good)
        ebb_log(EBB_WARN, "out of memory: %zu MiB that a graph allocates do not fit into the budget",
                in->bytes >> 20);
    if (m && good && dev->ebb->hook->apart)
        good = !ebb_mentions_show(dev->ebb, m);
    if (!good) {
        ebb_nodes_delete(in->nodes);
        ebb_foreign_uncount(dev, in->counted ? in->bytes : 0);
    }
    ebb_unlock();
    return good;
}

static CUresult instantiated(CUresult result, const CUgraphExec *exec, const instance_t *in)
{
    ebb_device_t *dev = ebb_enter_work();
    if (!dev) {
        ebb_nodes_delete(in->nodes);
        return result;
    }
    if (result) {
        ebb_foreign_uncount(dev, in->counted ? in->bytes : 0);
        ebb_nodes_delete(in->nodes);
    } else {
        ebb_graph_forget(dev->ebb, *exec); /* a dead one's */
        ebb_mentions_t *m = ebb_graph_mentions(dev->ebb, *exec);
        ebb_graph_mention(dev->ebb, m, in->graph);
        m->alloc_bytes = in->bytes;
        m->counted = in->counted ? dev : NULL;
        m->executable = true;
        ebb_graph_give_nodes(dev->ebb, *exec, in->nodes);
        /* What the device itself may launch must find everything in place at any time. */
        if (in->on_device && m->all)
            ebb_keep_everything(dev->ebb, "a graph that the device may launch may touch any of it");
        if (in->on_device && ebb_mentions_stay(dev->ebb, m))
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
    const cuuint64_t flags = p->flags;
    if (in.nodes && !in.counted) /* it is launched node by node */
        p->flags &= ~(cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    CUresult result = EBB_PASS(cuGraphInstantiateWithParams, (exec, graph, p));
    p->flags = flags;
    p->hUploadStream = stream;
    return instantiated(result, exec, &in);
}

/* Before the driver may give the handle to another. */
static void forget(const void *graph)
{
    const ebb_device_t *dev = graph ? ebb_enter_any() : NULL;
    if (!dev)
        return;
    ebb_graph_forget(dev->ebb, graph);
    ebb_unlock();
}

/* What is known by a new graph's handle is a dead one's. `of`: it is a clone, or NULL. */
static CUresult created(CUresult result, const CUgraph *graph, CUgraph of)
{
    const ebb_device_t *dev = result ? NULL : ebb_enter_work();
    if (dev) {
        ebb_graph_forget(dev->ebb, *graph);
        if (of)
            ebb_graph_mention(dev->ebb, ebb_graph_mentions(dev->ebb, *graph), of);
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
    if (!dev)
        return result;
    ebb_t *ebb = dev->ebb;
    ebb_mentions_t *m = ebb_graph_mentions(ebb, exec);
    const size_t alloc_bytes = m->alloc_bytes; /* an update cannot change it */
    if (m != ebb_graph_common_mentions(ebb))
        ebb_mentions_empty(ebb, m);
    ebb_graph_mention(ebb, m, by);
    m->alloc_bytes = alloc_bytes;
    const ebb_nodes_t *older = ebb_graph_nodes(ebb, exec);
    ebb_nodes_t *nodes = older && !m->owns ? ebb_nodes_read(ebb, by) : NULL;
    if (nodes && !ebb_nodes_succeed(nodes, older)) {
        ebb_nodes_delete(nodes);
        nodes = NULL;
    }
    if (older)
        ebb_graph_give_nodes(ebb, exec, nodes);
    ebb_mentions_let_go(ebb, m);
    if (ebb_graph_known_mentions(ebb, by))
        ebb_mentions_let_go(ebb, ebb_graph_known_mentions(ebb, by));
    ebb_unlock();
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
PLAIN_CALL(cuGraphDestroy, (CUgraph graph), (forget(graph), EBB_PASS(cuGraphDestroy, (graph))))
PLAIN_CALL(cuGraphExecDestroy, (CUgraphExec exec), (forget(exec), EBB_PASS(cuGraphExecDestroy, (exec))))
PLAIN_CALL(cuGraphRetainUserObject, (CUgraph graph, CUuserObject object, unsigned count, unsigned flags),
           owns(EBB_PASS(cuGraphRetainUserObject, (graph, object, count, flags)), graph))
PLAIN_CALL(cuGraphCreate, (CUgraph * graph, unsigned flags),
           created(EBB_PASS(cuGraphCreate, (graph, flags)), graph, NULL))
PLAIN_CALL(cuGraphClone, (CUgraph * clone, CUgraph of),
           created(EBB_PASS(cuGraphClone, (clone, of)), clone, of))
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

/* Those that the launch is made of; NULL: it is one. */
static ebb_nodes_t *nodes_for(ebb_device_t *dev, CUgraphExec exec, CUstream stream)
{
    ebb_nodes_t *nodes = ebb_graph_nodes(dev->ebb, exec);
    if (!nodes || !ebb_graphs_are_apart(dev) || dev->context != ebb_nodes_context(nodes) ||
        ebb_stream_device(ebb_stream_of(dev, stream)) != dev)
        return NULL;
    if (ebb_nodes_can_be_issued(nodes))
        return nodes;
    ebb_graph_give_nodes(dev->ebb, exec, NULL);
    return NULL;
}

/* Lock held; when this returns it is not. Launches of one executable graph come one after another, on whatever streams. */
static CUresult launch_nodes(ebb_device_t *dev, const graph_launch_t *l, ebb_nodes_t *nodes)
{
    const ebb_mark_t *last = ebb_graph_last_launch(dev->ebb, l->exec);
    ebb_stream_t *stream = ebb_stream_of(dev, l->stream);
    const ebb_mentions_t *m = ebb_graph_known_mentions(dev->ebb, l->exec);
    if (m && m->counted && m->alloc_bytes)
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

/* All that it mentions is there, and what it allocates fits. */
static ebb_status_t prepare_launch(ebb_device_t *dev, ebb_mentions_t *m)
{
    EBB_TRY(ebb_mentions_stay(dev->ebb, m));
    return !m->executable || ebb_mentions_count(dev, m)
               ? 0
               : ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "memory that a graph allocates", m->alloc_bytes);
}

static CUresult launch_whole(ebb_device_t *dev, const graph_launch_t *l, bool captured)
{
    ebb_t *ebb = dev->ebb;
    ebb_mentions_t *m = ebb_graph_known_mentions(ebb, l->exec) ? ebb_graph_mentions(ebb, l->exec) : NULL;
    const ebb_mentions_t *common = ebb_graph_common_mentions(ebb);
    if (m && !captured)
        EBB_TRY(prepare_launch(dev, m));
    size_t room = (m ? m->addresses.count : 0) + common->addresses.count + 1;
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
    const CUresult result = ebb_issue(&op, issue_graph, l);
    if (!result && !captured)
        note_launch(dev, l);
    free(access);
    return result;
}

static CUresult launch_graph(const graph_launch_t *l)
{
    ebb_device_t *dev = ebb_enter_work();
    if (!dev)
        return issue_graph(l);
    const bool captured = ebb_captures_under_way(dev->ebb) && ebb_is_capturing(l->stream);
    ebb_nodes_t *nodes = captured ? NULL : nodes_for(dev, l->exec, l->stream);
    if (nodes)
        return launch_nodes(dev, l, nodes);
    const CUresult result = launch_whole(dev, l, captured);
    ebb_unlock();
    return result;
}

/* Nothing is uploaded of what is launched node by node. */
static CUresult upload_graph(CUgraphExec exec, CUstream stream)
{
    ebb_device_t *dev = ebb_enter_work();
    const bool apart = dev && nodes_for(dev, exec, stream);
    if (dev)
        ebb_unlock();
    return apart ? CUDA_SUCCESS : EBB_PASS(cuGraphUpload, (exec, stream));
}

ASYNC_CALL(cuGraphLaunch, (CUgraphExec exec, CUstream stream), launch_graph(&(graph_launch_t){exec, stream}))
ASYNC_CALL(cuGraphUpload, (CUgraphExec exec, CUstream stream), upload_graph(exec, stream))

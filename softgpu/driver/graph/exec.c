/* exec.c: executable graphs: made of an image, in an order, in lanes. Launching them: graph/launch.c.
 *
 * An item goes behind one of its dependencies if that one is the last of its lane, so that chains stay in one
 * stream; otherwise into a fresh lane, or, when there are no more, behind something that it does not depend on.
 * That costs overlap, never correctness: items are launched with their dependencies first.
 */
#include "softgpu/driver/graph/graph.h"

#include <stdlib.h>

/* ---- items ---- */

typedef struct builder {
    sg_exec_t *exec;
    size_t item_capacity;
    size_t dep_count, dep_capacity;
    sg_node_t *bad;
} builder_t;

static CUresult add_dep(builder_t *b, uint32_t item)
{
    sg_exec_t *e = b->exec;
    if (b->dep_count == b->dep_capacity) {
        size_t capacity = b->dep_capacity ? 2 * b->dep_capacity : 64;
        uint32_t *grown = realloc(e->deps, capacity * sizeof *grown);
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        e->deps = grown;
        b->dep_capacity = capacity;
    }
    e->deps[b->dep_count++] = item;
    e->items[e->item_count - 1].dep_count++;
    return CUDA_SUCCESS;
}

static CUresult add_item(builder_t *b, sg_node_t *node)
{
    sg_exec_t *e = b->exec;
    if (e->item_count == b->item_capacity) {
        size_t capacity = b->item_capacity ? 2 * b->item_capacity : 64;
        sg_item_t *grown = realloc(e->items, capacity * sizeof *grown);
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        e->items = grown;
        b->item_capacity = capacity;
    }
    e->items[e->item_count++] = (sg_item_t){.node = node, .first_dep = (uint32_t)b->dep_count};
    return CUDA_SUCCESS;
}

static CUresult flatten(builder_t *b, sg_graph_t *g, const uint32_t *entry);

/* A child graph node becomes two items around those of its graph. */
static CUresult flatten_child(builder_t *b, sg_node_t *node)
{
    sg_graph_t *child = node->action.child;
    uint32_t entry = (uint32_t)b->exec->item_count - 1;
    SG_TRY(flatten(b, child, &entry));
    SG_TRY(add_item(b, node));
    SG_TRY(add_dep(b, entry));
    for (const sg_node_t *n = child->first; n; n = n->next)
        if (!n->dependents.count)
            SG_TRY(add_dep(b, (uint32_t)n->mark));
    return CUDA_SUCCESS;
}

/* The graph's nodes as items; what depends on nothing else depends on `entry`, if there is one. Each node's mark is its
 * item then. */
static CUresult flatten(builder_t *b, sg_graph_t *g, const uint32_t *entry)
{
    sg_node_t **order = malloc((g->count + 1) * sizeof *order);
    if (!order)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result =
        sg_graph_sort_locked(g, order, &b->bad) < g->count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (size_t i = 0; i < g->count && !result; i++) {
        sg_node_t *n = order[i];
        result = add_item(b, n);
        for (size_t d = 0; d < n->deps.count && !result; d++)
            result = add_dep(b, (uint32_t)n->deps.at[d].node->mark);
        if (!result && !n->deps.count && entry)
            result = add_dep(b, *entry);
        if (!result && n->action.type == CU_GRAPH_NODE_TYPE_GRAPH)
            result = flatten_child(b, n);
        n->mark = b->exec->item_count - 1;
    }
    free(order);
    return result;
}

/* ---- lanes ---- */

static unsigned choose_lane(sg_exec_t *e, size_t item, const size_t *tail)
{
    const sg_item_t *it = &e->items[item];
    for (uint32_t d = 0; d < it->dep_count; d++) {
        uint32_t dep = e->deps[it->first_dep + d];
        if (tail[e->items[dep].lane] == dep)
            return e->items[dep].lane;
    }
    if (e->lanes < SG_MAX_LANES)
        return e->lanes++;
    unsigned oldest = 0;
    for (unsigned lane = 1; lane < e->lanes; lane++)
        if (tail[lane] < tail[oldest])
            oldest = lane;
    return oldest;
}

static void assign_lanes(sg_exec_t *e)
{
    size_t tail[SG_MAX_LANES] = {0}; /* the last item of each lane */
    e->lanes = 0;
    for (size_t i = 0; i < e->item_count; i++) {
        e->items[i].lane = choose_lane(e, i, tail);
        tail[e->items[i].lane] = i;
    }
}

CUresult sg_exec_build_locked(sg_exec_t *e, const sg_node_t **bad)
{
    builder_t b = {.exec = e};
    CUresult result = flatten(&b, e->image, NULL);
    *bad = b.bad;
    if (!result)
        result = sg_memory_check_locked(e, bad);
    if (!result)
        assign_lanes(e);
    return result;
}

/* ---- instantiation ---- */

static void delete_exec_locked(sg_exec_t *e)
{
    sg_graph_t *source = sg_graph_find_locked((CUgraph)(uintptr_t)e->source);
    if (source)
        source->execs--;
    for (unsigned i = 0; i < SG_MAX_LANES; i++)
        if (e->lane[i]) {
            e->lane[i]->destroyed = true;
            sg_stream_unref_locked(e->lane[i]); /* what runs in it keeps it */
        }
    if (e->image)
        sg_graph_delete_locked(e->image);
    if (e->last)
        sg_stream_unref_locked(e->last);
    sg_object_remove_locked(&e->object);
    free(e->items);
    free(e->deps);
    free(e);
}

static bool device_launch_wanted(uint64_t flags)
{
    if (!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH))
        return false;
    sg_log(1, "graphs that kernels launch are not provided");
    return true;
}

/* The image's nodes know which of the source's nodes they stand for. */
static CUgraphNode source_of(const sg_node_t *node)
{
    return node ? (CUgraphNode)(uintptr_t)node->origin : NULL;
}

static CUresult instantiate_locked(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    sg_graph_t *g = sg_graph_find_locked(graph);
    if (!g || (g->owner && g->owner->action.child_moved))
        return CUDA_ERROR_INVALID_VALUE;
    if (g->has_memory && g->execs)
        return CUDA_ERROR_NOT_SUPPORTED;
    sg_exec_t *e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->flags = p->flags & ~(uint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    e->source = g->object.id;
    g->execs++;
    const sg_node_t *bad = NULL;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if ((e->image = sg_graph_clone_locked(g, false)))
        result = sg_exec_build_locked(e, &bad);
    if (!result && !sg_object_add_locked(&e->object, SG_OBJECT_EXEC))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (bad) {
        p->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
        p->hErrNode_out = source_of(bad);
    }
    if (!result && p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
        sg_stream_t *s = sg_stream_resolve_locked(p->hUploadStream);
        result = s ? sg_exec_upload_locked(e, s) : CUDA_ERROR_INVALID_HANDLE;
    }
    if (result)
        delete_exec_locked(e);
    else
        *out = sg_handle_of(&e->object);
    return result;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p,
                            uint64_t allowed)
{
    p->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    p->hErrNode_out = NULL;
    SG_TRY(sg_enter_context());
    if (!out || p->flags & ~allowed ||
        (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH &&
         p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
        return CUDA_ERROR_INVALID_VALUE;
    if (device_launch_wanted(p->flags))
        return CUDA_ERROR_NOT_SUPPORTED;
    sg_lock();
    CUresult result = instantiate_locked(out, graph, p);
    sg_unlock();
    if (!result)
        p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return result;
}

enum {
    WITH_FLAGS = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY,
    WITH_PARAMS = WITH_FLAGS | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD
};

SG_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS p = {.flags = flags};
    return instantiate(out, graph, &p, WITH_FLAGS);
}

/* The older forms say which node is wrong, and leave a text. */
SG_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *bad, char *log,
                                         size_t log_bytes)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS p = {0};
    CUresult result = instantiate(out, graph, &p, WITH_FLAGS);
    if (bad)
        *bad = p.hErrNode_out;
    if (log && log_bytes)
        *log = 0;
    return result;
}

SG_EXPORT CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *bad, char *log,
                                      size_t log_bytes)
{
    return cuGraphInstantiate_v2(out, graph, bad, log, log_bytes);
}

SG_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *out, CUgraph graph,
                                                     CUDA_GRAPH_INSTANTIATE_PARAMS *p);
SG_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    return p ? instantiate(out, graph, p, WITH_PARAMS) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUstream given = p->hUploadStream;
    if (!given)
        p->hUploadStream = CU_STREAM_PER_THREAD;
    CUresult result = instantiate(out, graph, p, WITH_PARAMS);
    p->hUploadStream = given;
    return result;
}

SG_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    SG_TRY(sg_graph_enter());
    sg_lock();
    sg_exec_t *e = sg_exec_find_locked(exec);
    if (e)
        delete_exec_locked(e);
    sg_unlock();
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    SG_TRY(sg_graph_enter());
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    const sg_exec_t *e = sg_exec_find_locked(exec);
    if (e)
        *flags = e->flags;
    sg_unlock();
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* query.c: the calls on graphs as a whole, their nodes and edges. */
#include "softgpu/driver/graph/graph.h"

#include <stdlib.h>

/* ---- graphs ---- */

SG_EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned flags)
{
    SG_TRY(sg_graph_enter());
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg_graph_t *g = sg_graph_new_locked(true);
    if (g)
        *out = sg_handle_of(&g->object);
    sg_unlock();
    return g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A graph that a node owns goes with its node, one that is being captured into with its capture. */
SG_EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    SG_TRY(sg_graph_enter());
    sg_lock();
    sg_graph_t *g = sg_graph_find_locked(graph);
    bool ours = g && !g->owner && !g->capture;
    if (ours)
        sg_graph_delete_locked(g);
    sg_unlock();
    return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult clone_locked(CUgraph *out, CUgraph original)
{
    sg_graph_t *g = sg_graph_find_locked(original);
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    if (g->has_memory)
        return CUDA_ERROR_NOT_SUPPORTED;
    sg_graph_t *copy = sg_graph_clone_locked(g, true);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = sg_handle_of(&copy->object);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuGraphClone(CUgraph *out, CUgraph original)
{
    SG_TRY(sg_graph_enter());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = clone_locked(out, original);
    sg_unlock();
    return result;
}

/* ---- lists that calls give out ---- */

/* What the program gave: room for so many; entries beyond what there is become NULL. */
typedef struct list {
    CUgraphNode *nodes, *others; /* may be NULL: only count */
    CUgraphEdgeData *data;
    size_t room, count;
} list_t;

static void list_add(list_t *l, const sg_node_t *node, const sg_node_t *other, const CUgraphEdgeData *data)
{
    size_t i = l->count++;
    if (!l->nodes || i >= l->room)
        return;
    l->nodes[i] = sg_handle_of(&node->object);
    if (l->others)
        l->others[i] = sg_handle_of(&other->object);
    if (l->data)
        l->data[i] = *data;
}

static CUresult list_end(list_t *l, size_t *count)
{
    if (!l->nodes) {
        *count = l->count;
        return CUDA_SUCCESS;
    }
    for (size_t i = l->count; i < l->room; i++) {
        l->nodes[i] = NULL;
        if (l->others)
            l->others[i] = NULL;
    }
    *count = l->count < l->room ? l->count : l->room;
    return CUDA_SUCCESS;
}

static bool is_lossy(const list_t *l, const sg_edges_t *e)
{
    for (size_t i = 0; l->nodes && !l->data && i < e->count; i++)
        if (e->at[i].data.type || e->at[i].data.from_port)
            return true;
    return false;
}

static CUresult get_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots)
{
    SG_TRY(sg_graph_enter());
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    list_t list = {.nodes = nodes, .room = *count};
    sg_lock();
    const sg_graph_t *g = sg_graph_find_locked(graph);
    for (const sg_node_t *n = g ? g->first : NULL; n; n = n->next)
        if (!roots || !n->deps.count)
            list_add(&list, n, NULL, NULL);
    sg_unlock();
    return g ? list_end(&list, count) : CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return get_nodes(graph, nodes, count, false);
}

SG_EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return get_nodes(graph, nodes, count, true);
}

static CUresult get_edges_locked(CUgraph graph, list_t *list)
{
    const sg_graph_t *g = sg_graph_find_locked(graph);
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    for (const sg_node_t *n = g->first; n; n = n->next) {
        if (is_lossy(list, &n->dependents))
            return CUDA_ERROR_LOSSY_QUERY;
        for (size_t i = 0; i < n->dependents.count; i++)
            list_add(list, n, n->dependents.at[i].node, &n->dependents.at[i].data);
    }
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                      CUgraphEdgeData *data, size_t *count)
{
    SG_TRY(sg_graph_enter());
    if (!count || !from != !to || (data && !from))
        return CUDA_ERROR_INVALID_VALUE;
    list_t list = {.nodes = from, .others = to, .data = data, .room = *count};
    sg_lock();
    CUresult result = get_edges_locked(graph, &list);
    sg_unlock();
    return result ? result : list_end(&list, count);
}

SG_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

/* ---- nodes ---- */

SG_EXPORT CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
    SG_TRY(sg_graph_enter());
    if (!type)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    const sg_node_t *node = sg_node_find_locked(handle);
    if (node)
        *type = node->action.type;
    sg_unlock();
    return node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult neighbours(CUgraphNode handle, bool after, list_t list, size_t *count)
{
    SG_TRY(sg_graph_enter());
    if (!count || (list.data && !list.nodes))
        return CUDA_ERROR_INVALID_VALUE;
    list.room = *count;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    const sg_node_t *node = sg_node_find_locked(handle);
    const sg_edges_t *edges = !node ? NULL : after ? &node->dependents : &node->deps;
    if (edges)
        result = is_lossy(&list, edges) ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
    for (size_t i = 0; !result && i < edges->count; i++)
        list_add(&list, edges->at[i].node, NULL, &edges->at[i].data);
    sg_unlock();
    return result ? result : list_end(&list, count);
}

SG_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                                 size_t *count)
{
    return neighbours(node, false, (list_t){.nodes = nodes, .data = data}, count);
}

SG_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return neighbours(node, false, (list_t){.nodes = nodes}, count);
}

SG_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
                                                   CUgraphEdgeData *data, size_t *count)
{
    return neighbours(node, true, (list_t){.nodes = nodes, .data = data}, count);
}

SG_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return neighbours(node, true, (list_t){.nodes = nodes}, count);
}

/* Memory nodes hold on to the nodes and edges of their graph, and a capture to its nodes. */
SG_EXPORT CUresult cuGraphDestroyNode(CUgraphNode handle)
{
    SG_TRY(sg_graph_enter());
    CUresult result = CUDA_SUCCESS;
    sg_lock();
    sg_node_t *node = sg_node_find_locked(handle);
    if (!node || node->graph->capture)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (node->graph->has_memory)
        result = CUDA_ERROR_NOT_SUPPORTED;
    else
        sg_node_delete_locked(node);
    sg_unlock();
    return result;
}

/* ---- edges ---- */

typedef struct edge_list {
    const CUgraphNode *from, *to;
    const CUgraphEdgeData *data;
    size_t count;
} edge_list_t;

typedef struct resolved_edge {
    sg_node_t *from, *to;
    CUgraphEdgeData data;
} resolved_edge_t;

static bool resolve_locked(const sg_graph_t *g, const edge_list_t *l, size_t i, resolved_edge_t *out)
{
    *out = (resolved_edge_t){.from = sg_node_find_locked(l->from[i]), .to = sg_node_find_locked(l->to[i])};
    if (l->data)
        out->data = l->data[i];
    return out->from && out->to && out->from != out->to && out->from->graph == g && out->to->graph == g;
}

static void cut(const resolved_edge_t *e)
{
    sg_edge_t *in = sg_edges_find(&e->to->deps, e->from);
    sg_edge_t *out = sg_edges_find(&e->from->dependents, e->to);
    size_t behind_in = (size_t)(e->to->deps.at + e->to->deps.count - (in + 1));
    size_t behind_out = (size_t)(e->from->dependents.at + e->from->dependents.count - (out + 1));
    for (size_t i = 0; i < behind_in; i++)
        in[i] = in[i + 1];
    for (size_t i = 0; i < behind_out; i++)
        out[i] = out[i + 1];
    e->to->deps.count--;
    e->from->dependents.count--;
}

static CUresult tie(const resolved_edge_t *e)
{
    if (sg_edges_find(&e->to->deps, e->from) ||
        !sg_edge_data_fits(&e->data, e->from->action.type, e->to->action.type))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_edges_add(&e->to->deps, e->from, e->data))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (sg_edges_add(&e->from->dependents, e->to, e->data))
        return CUDA_SUCCESS;
    e->to->deps.count--;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* All of the edges or none. */
static CUresult add_edges_locked(const sg_graph_t *g, const edge_list_t *l)
{
    resolved_edge_t e;
    CUresult result = CUDA_SUCCESS;
    size_t done = 0;
    for (; done < l->count && !result; done += !result)
        result = resolve_locked(g, l, done, &e) ? tie(&e) : CUDA_ERROR_INVALID_VALUE;
    while (result && done--) {
        resolve_locked(g, l, done, &e);
        cut(&e);
    }
    return result;
}

SG_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                             const CUgraphEdgeData *data, size_t count)
{
    SG_TRY(sg_graph_enter());
    if (count && (!from || !to))
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    const sg_graph_t *g = sg_graph_find_locked(graph);
    CUresult result =
        g ? add_edges_locked(g, &(edge_list_t){from, to, data, count}) : CUDA_ERROR_INVALID_VALUE;
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                          size_t count)
{
    return cuGraphAddDependencies_v2(graph, from, to, NULL, count);
}

/* core.c: graphs as data: nodes, edges, clones, an order of execution. */
#include "softgpu/driver/graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- edges ---- */

bool sg_edges_add(sg_edges_t *e, sg_node_t *node, CUgraphEdgeData data)
{
    if (e->count == e->capacity) {
        size_t capacity = e->capacity ? 2 * e->capacity : 4;
        sg_edge_t *grown = realloc(e->at, capacity * sizeof *grown);
        if (!grown)
            return false;
        e->at = grown;
        e->capacity = capacity;
    }
    e->at[e->count++] = (sg_edge_t){node, data};
    return true;
}

sg_edge_t *sg_edges_find(const sg_edges_t *e, const sg_node_t *node)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->at[i].node == node)
            return &e->at[i];
    return NULL;
}

void sg_edges_clear(sg_edges_t *e)
{
    free(e->at);
    *e = (sg_edges_t){0};
}

static void edges_remove(sg_edges_t *e, const sg_node_t *node)
{
    size_t i = e->count;
    while (i && e->at[i - 1].node != node)
        i--;
    if (!i)
        return;
    memmove(e->at + i - 1, e->at + i, (e->count - i) * sizeof *e->at);
    e->count--;
}

bool sg_edge_data_fits(const CUgraphEdgeData *d, CUgraphNodeType from, CUgraphNodeType to)
{
    static const unsigned char zero[sizeof d->reserved];
    if (d->to_port || memcmp(d->reserved, zero, sizeof zero))
        return false;
    if (d->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT)
        return !d->from_port;
    return d->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && from == CU_GRAPH_NODE_TYPE_KERNEL &&
           to == CU_GRAPH_NODE_TYPE_KERNEL &&
           (d->from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
            d->from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
}

CUresult sg_edges_read_locked(sg_edges_t *out, const sg_graph_t *g, const CUgraphNode *nodes,
                              const CUgraphEdgeData *data, size_t count)
{
    *out = (sg_edges_t){0};
    if (count && !nodes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && !result; i++) {
        sg_node_t *node = sg_node_find_locked(nodes[i]);
        if (!node || node->graph != g || sg_edges_find(out, node))
            result = CUDA_ERROR_INVALID_VALUE;
        else if (!sg_edges_add(out, node, data ? data[i] : (CUgraphEdgeData){0}))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result)
        sg_edges_clear(out);
    return result;
}

/* ---- nodes ---- */

static bool connect(sg_node_t *node, const sg_edges_t *deps)
{
    for (size_t i = 0; deps && i < deps->count; i++) {
        const sg_edge_t *d = &deps->at[i];
        if (!sg_edges_add(&node->deps, d->node, d->data))
            return false;
        if (!sg_edges_add(&d->node->dependents, node, d->data)) {
            node->deps.count--;
            return false;
        }
    }
    return true;
}

static void disconnect(sg_node_t *node)
{
    for (size_t i = 0; i < node->deps.count; i++)
        edges_remove(&node->deps.at[i].node->dependents, node);
    for (size_t i = 0; i < node->dependents.count; i++)
        edges_remove(&node->dependents.at[i].node->deps, node);
    sg_edges_clear(&node->deps);
    sg_edges_clear(&node->dependents);
}

/* A node without edges, at the end of the graph. Takes the action over if it succeeds. */
static sg_node_t *append_node(sg_graph_t *g, const sg_action_t *action)
{
    sg_node_t *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    if (g->object.id && !sg_object_add_locked(&node->object, SG_OBJECT_NODE)) {
        free(node);
        return NULL;
    }
    node->graph = g;
    node->action = *action;
    if (action->type == CU_GRAPH_NODE_TYPE_GRAPH)
        action->child->owner = node;
    node->prev = g->last;
    *(g->last ? &g->last->next : &g->first) = node;
    g->last = node;
    g->count++;
    return node;
}

static bool holds_memory(const sg_action_t *a)
{
    return a->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || a->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
           (a->type == CU_GRAPH_NODE_TYPE_GRAPH && a->child->has_memory);
}

CUresult sg_node_add_locked(sg_graph_t *g, const sg_edges_t *deps, sg_action_t *action, sg_node_t **out)
{
    for (size_t i = 0; deps && i < deps->count; i++)
        if (!sg_edge_data_fits(&deps->at[i].data, deps->at[i].node->action.type, action->type)) {
            sg_action_drop_locked(action);
            return CUDA_ERROR_INVALID_VALUE;
        }
    sg_node_t *node = append_node(g, action);
    if (!node) {
        sg_action_drop_locked(action);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!connect(node, deps)) {
        sg_node_delete_locked(node);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (sg_graph_t *up = g; holds_memory(action) && up; up = up->owner ? up->owner->graph : NULL)
        up->has_memory = true;
    *out = node;
    return CUDA_SUCCESS;
}

void sg_node_delete_locked(sg_node_t *node)
{
    sg_graph_t *g = node->graph;
    disconnect(node);
    *(node->prev ? &node->prev->next : &g->first) = node->next;
    *(node->next ? &node->next->prev : &g->last) = node->prev;
    g->count--;
    sg_action_drop_locked(&node->action);
    sg_object_remove_locked(&node->object);
    free(node);
}

/* ---- graphs ---- */

sg_graph_t *sg_graph_new_locked(bool handle)
{
    sg_graph_t *g = calloc(1, sizeof *g);
    if (g && handle && !sg_object_add_locked(&g->object, SG_OBJECT_GRAPH)) {
        free(g);
        g = NULL;
    }
    return g;
}

void sg_graph_delete_locked(sg_graph_t *g)
{
    while (g->last) {
        /* From the end: edges mostly go forward, so there is little to take out of lists. */
        sg_node_delete_locked(g->last);
    }
    sg_object_remove_locked(&g->object);
    free(g);
}

static bool clone_edges(const sg_graph_t *from)
{
    for (const sg_node_t *n = from->first; n; n = n->next) {
        for (size_t i = 0; i < n->deps.count; i++)
            if (!sg_edges_add(&n->pair->deps, n->deps.at[i].node->pair, n->deps.at[i].data))
                return false;
        for (size_t i = 0; i < n->dependents.count; i++)
            if (!sg_edges_add(&n->pair->dependents, n->dependents.at[i].node->pair, n->dependents.at[i].data))
                return false;
    }
    return true;
}

sg_graph_t *sg_graph_clone_locked(const sg_graph_t *from, bool handles)
{
    sg_graph_t *g = sg_graph_new_locked(handles);
    if (!g)
        return NULL;
    g->has_memory = from->has_memory;
    for (sg_node_t *n = from->first; n; n = n->next) {
        sg_action_t action;
        if (!sg_action_clone_locked(&action, &n->action, handles)) {
            sg_graph_delete_locked(g);
            return NULL;
        }
        sg_node_t *copy = append_node(g, &action);
        if (!copy) {
            sg_action_drop_locked(&action);
            sg_graph_delete_locked(g);
            return NULL;
        }
        copy->origin = n->object.id ? n->object.id : n->origin;
        copy->disabled = n->disabled;
        n->pair = copy;
    }
    if (!clone_edges(from)) {
        sg_graph_delete_locked(g);
        return NULL;
    }
    return g;
}

/* ---- order ---- */

static bool creation_order_serves(sg_graph_t *g)
{
    size_t position = 0;
    for (sg_node_t *n = g->first; n; n = n->next)
        n->mark = position++;
    for (const sg_node_t *n = g->first; n; n = n->next)
        for (size_t i = 0; i < n->deps.count; i++)
            if (n->deps.at[i].node->mark >= n->mark)
                return false;
    return true;
}

size_t sg_graph_sort_locked(sg_graph_t *g, sg_node_t **out, sg_node_t **stuck)
{
    size_t ready = 0, done = 0;
    if (creation_order_serves(g)) {
        for (sg_node_t *n = g->first; n; n = n->next)
            out[done++] = n;
        return done;
    }
    for (sg_node_t *n = g->first; n; n = n->next) {
        n->mark = n->deps.count; /* how many it still waits for */
        if (!n->mark)
            out[ready++] = n;
    }
    for (; done < ready; done++)
        for (size_t i = 0; i < out[done]->dependents.count; i++) {
            sg_node_t *n = out[done]->dependents.at[i].node;
            if (!--n->mark)
                out[ready++] = n;
        }
    for (sg_node_t *n = g->first; done < g->count && n; n = n->next)
        if (n->mark)
            *stuck = n;
    return done;
}

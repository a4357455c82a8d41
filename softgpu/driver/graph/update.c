/* update.c: changes of executable graphs: parameters node by node, or all of them from another graph of the same
 * shape.
 */
#include "softgpu/driver/graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- which node ---- */

static sg_node_t *find_origin(const sg_graph_t *g, uint64_t id)
{
    for (sg_node_t *n = g->first; n; n = n->next) {
        if (n->origin == id)
            return n;
        sg_node_t *inner =
            n->action.type == CU_GRAPH_NODE_TYPE_GRAPH ? find_origin(n->action.child, id) : NULL;
        if (inner)
            return inner;
    }
    return NULL;
}

sg_node_t *sg_exec_node_locked(sg_exec_t *e, CUgraphNode handle)
{
    return sg_node_find_locked(handle) ? find_origin(e->image, (uint64_t)(uintptr_t)handle) : NULL;
}

/* ---- what may change ---- */

static bool is_flat(const CUDA_MEMCPY3D *c)
{
    return c->Height <= 1 && c->Depth <= 1;
}

static bool side_stays(CUmemorytype type, const void *old_host, CUdeviceptr old, const void *new_host,
                       CUdeviceptr new)
{
    if (type == CU_MEMORYTYPE_HOST)
        return sg_window_contains((CUdeviceptr)(uintptr_t)old_host) ==
               sg_window_contains((CUdeviceptr)(uintptr_t)new_host);
    return sg_window_contains(old) == sg_window_contains(new);
}

static bool copy_fits(const CUDA_MEMCPY3D *old, const CUDA_MEMCPY3D *new)
{
    if (!memcmp(old, new, sizeof *old))
        return true;
    return is_flat(old) && is_flat(new) && old->srcMemoryType == new->srcMemoryType &&
           old->dstMemoryType == new->dstMemoryType &&side_stays(old->srcMemoryType, old->srcHost,
                                                                 old->srcDevice, new->srcHost,
                                                                 new->srcDevice) &&
           side_stays(old->dstMemoryType, old->dstHost, old->dstDevice, new->dstHost, new->dstDevice);
}

static bool set_fits(const CUDA_MEMSET_NODE_PARAMS *old, const CUDA_MEMSET_NODE_PARAMS *new)
{
    if (old->height != new->height || sg_window_contains(old->dst) != sg_window_contains(new->dst))
        return false;
    return old->height == 1 ||
           (old->width == new->width && old->elementSize == new->elementSize && old->pitch == new->pitch);
}

static bool kernel_attributes_fit(const sg_exec_t *e, const sg_kernel_view_t *old,
                                  const sg_kernel_view_t *new)
{
    if (!old->attribute[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative !=
        !new->attribute[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative)
        return false;
    return !(e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) ||
           old->attribute[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority ==
               new->attribute[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority;
}

static bool memops_fit(const sg_action_t *old, const sg_action_t *new)
{
    if (old->memops.count != new->memops.count)
        return false;
    for (unsigned i = 0; i < old->memops.count; i++)
        if (old->memops.params[i].operation != new->memops.params[i].operation)
            return false;
    return true;
}

CUgraphExecUpdateResult sg_update_fits(const sg_exec_t *e, const sg_action_t *old, const sg_action_t *new)
{
    if (old->type != new->type)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    bool fits = true;
    switch (old->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        if (!kernel_attributes_fit(e, old->view, new->view))
            return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
        if (old->ctx != new->ctx)
            return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        fits = old->ctx == new->ctx &&copy_fits(&old->copy, &new->copy);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        fits = old->ctx == new->ctx &&set_fits(&old->set, &new->set);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        fits = old->ctx == new->ctx &&memops_fit(old, new);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    default:
        break;
    }
    return fits ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

/* ---- pairing a graph's nodes with the image's ---- */

typedef struct pairing {
    sg_exec_t *exec;
    CUgraphExecUpdateResult result;
    const sg_node_t *node, *from; /* of the graph, where they do not fit */
} pairing_t;

static bool differ(pairing_t *p, CUgraphExecUpdateResult result, const sg_node_t *node, const sg_node_t *from)
{
    p->result = result;
    p->node = node;
    p->from = from;
    return false;
}

static size_t unpair(sg_graph_t *g)
{
    size_t exits = 0;
    for (sg_node_t *n = g->first; n; n = n->next) {
        n->pair = NULL;
        exits += !n->dependents.count;
    }
    return exits;
}

static void pair(sg_node_t *ours, sg_node_t *theirs, sg_node_t **stack, size_t *depth)
{
    ours->pair = theirs;
    theirs->pair = ours;
    stack[(*depth)++] = theirs;
}

/* Nodes that nothing depends on are paired in the order of creation, dependencies in the order of edges. */
static bool pair_exits(pairing_t *p, sg_graph_t *image, sg_graph_t *with, sg_node_t **stack, size_t *depth)
{
    unpair(image);
    unpair(with);
    sg_node_t *ours = image->first;
    for (sg_node_t *n = with->first; n; n = n->next) {
        if (n->dependents.count)
            continue;
        while (ours && ours->dependents.count)
            ours = ours->next;
        if (!ours)
            return differ(p, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, n, NULL);
        pair(ours, n, stack, depth);
        ours = ours->next;
    }
    return true;
}

static bool same_edge(const CUgraphEdgeData *a, const CUgraphEdgeData *b)
{
    return a->type == b->type && a->from_port == b->from_port && a->to_port == b->to_port;
}

static bool pair_dependencies(pairing_t *p, sg_node_t *theirs, sg_node_t **stack, size_t *depth)
{
    const sg_node_t *ours = theirs->pair;
    if (ours->deps.count != theirs->deps.count)
        return differ(p, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, theirs, NULL);
    for (size_t i = 0; i < ours->deps.count; i++) {
        sg_node_t *a = ours->deps.at[i].node, *b = theirs->deps.at[i].node;
        if (!a->pair && !b->pair)
            pair(a, b, stack, depth);
        if (a->pair != b || !same_edge(&ours->deps.at[i].data, &theirs->deps.at[i].data))
            return differ(p, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, theirs, b);
    }
    return true;
}

static bool pair_graphs(pairing_t *p, sg_graph_t *image, sg_graph_t *with);

static bool pair_actions(pairing_t *p, sg_graph_t *with)
{
    for (const sg_node_t *n = with->first; n; n = n->next) {
        if (!n->pair)
            return differ(p, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, n, NULL);
        CUgraphExecUpdateResult fits = sg_update_fits(p->exec, &n->pair->action, &n->action);
        if (fits != CU_GRAPH_EXEC_UPDATE_SUCCESS)
            return differ(p, fits, n, NULL);
        if (n->action.type == CU_GRAPH_NODE_TYPE_GRAPH &&
            !pair_graphs(p, n->pair->action.child, n->action.child))
            return false;
    }
    return true;
}

/* Whether the image can take over the graph's parameters; pairs are set then, those of child graphs too. */
static bool pair_graphs(pairing_t *p, sg_graph_t *image, sg_graph_t *with)
{
    if (image->count != with->count)
        return differ(p, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL, NULL);
    sg_node_t **stack = malloc((with->count + 1) * sizeof *stack);
    size_t depth = 0;
    if (!stack)
        return differ(p, CU_GRAPH_EXEC_UPDATE_ERROR, NULL, NULL);
    bool same = pair_exits(p, image, with, stack, &depth);
    while (same && depth)
        same = pair_dependencies(p, stack[--depth], stack, &depth);
    free(stack);
    return same && pair_actions(p, with);
}

/* ---- taking over ---- */

static CUresult take_over_locked(sg_graph_t *with)
{
    for (const sg_node_t *n = with->first; n; n = n->next) {
        if (n->action.type == CU_GRAPH_NODE_TYPE_GRAPH) {
            SG_TRY(take_over_locked(n->action.child));
            continue;
        }
        sg_action_t action;
        if (!sg_action_clone_locked(&action, &n->action, false))
            return CUDA_ERROR_OUT_OF_MEMORY;
        sg_action_drop_locked(&n->pair->action);
        n->pair->action = action;
    }
    return CUDA_SUCCESS;
}

static CUresult update_locked(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    sg_exec_t *e = sg_exec_find_locked(exec);
    sg_graph_t *with = sg_graph_find_locked(graph);
    if (!e || !with || with->capture || (with->owner && with->owner->action.child_moved))
        return CUDA_ERROR_INVALID_VALUE;
    pairing_t p = {.exec = e, .result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
    bool same = pair_graphs(&p, e->image, with);
    info->result = p.result;
    info->errorNode = p.node ? sg_handle_of(&p.node->object) : NULL;
    info->errorFromNode = p.from ? sg_handle_of(&p.from->object) : NULL;
    return same ? take_over_locked(with) : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

SG_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    if (!info)
        return CUDA_ERROR_INVALID_VALUE;
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    SG_TRY(sg_graph_enter());
    sg_lock();
    CUresult result = update_locked(exec, graph, info);
    sg_unlock();
    return result;
}

/* ---- switched off ---- */

static sg_node_t *switchable_locked(CUgraphExec exec, CUgraphNode handle)
{
    sg_exec_t *e = sg_exec_find_locked(exec);
    sg_node_t *node = e ? sg_exec_node_locked(e, handle) : NULL;
    if (!node)
        return NULL;
    CUgraphNodeType type = node->action.type;
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
                   type == CU_GRAPH_NODE_TYPE_MEMSET
               ? node
               : NULL;
}

SG_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode handle, unsigned enabled)
{
    SG_TRY(sg_graph_enter());
    sg_lock();
    sg_node_t *node = switchable_locked(exec, handle);
    if (node)
        node->disabled = !enabled;
    sg_unlock();
    return node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode handle, unsigned *enabled)
{
    SG_TRY(sg_graph_enter());
    if (!enabled)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    const sg_node_t *node = switchable_locked(exec, handle);
    if (node)
        *enabled = !node->disabled;
    sg_unlock();
    return node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* params.c: nodes by the tagged union that describes any of them (CUgraphNodeParams): added, changed, changed in
 * an executable graph, asked.
 */
#include "softgpu/driver/graph/graph.h"

#include <string.h>

/* ---- actions ---- */

static CUresult make_child_locked(sg_action_t *out, const sg_graph_t *parent,
                                  const CUDA_CHILD_GRAPH_NODE_PARAMS *p)
{
    sg_graph_t *child = sg_graph_find_locked(p->graph);
    if (!child || child == parent || child->capture)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_GRAPH};
    if (p->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
        if (child->owner || child->execs || parent->owner)
            return CUDA_ERROR_INVALID_VALUE;
        out->child = child;
        out->child_moved = true;
        return CUDA_SUCCESS;
    }
    if (p->ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
        return CUDA_ERROR_INVALID_VALUE;
    if (child->has_memory)
        return CUDA_ERROR_NOT_SUPPORTED;
    out->child = sg_graph_clone_locked(child, true);
    return out->child ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult make_alloc_locked(sg_action_t *out, sg_graph_t *g, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *p)
{
    if (g->owner)
        return CUDA_ERROR_NOT_SUPPORTED; /* a child graph gets no memory of its own any more */
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    memcpy(&params, p, sizeof params);
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    SG_TRY(sg_block_new_locked(&params, g, &out->block));
    p->dptr = sg_block_address(out->block);
    return CUDA_SUCCESS;
}

static CUresult make_free_locked(sg_action_t *out, sg_graph_t *g, CUdeviceptr address)
{
    if (g->owner)
        return CUDA_ERROR_NOT_SUPPORTED;
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .block = sg_block_find_locked(address)};
    if (!out->block)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_block_plan_free_locked(out->block, g));
    sg_block_ref(out->block);
    return CUDA_SUCCESS;
}

/* All but kernels, for a node of `g`. */
static CUresult make_locked(sg_action_t *out, sg_graph_t *g, CUgraphNodeParams *p)
{
    CUDA_MEMSET_NODE_PARAMS set;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_EMPTY};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        if (p->memcpy.flags || p->memcpy.reserved)
            return CUDA_ERROR_INVALID_VALUE;
        return sg_action_copy_locked(out, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        set = (CUDA_MEMSET_NODE_PARAMS){.dst = p->memset.dst,
                                        .pitch = p->memset.pitch,
                                        .value = p->memset.value,
                                        .elementSize = p->memset.elementSize,
                                        .width = p->memset.width,
                                        .height = p->memset.height};
        return sg_action_set_locked(out, &set, p->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
        return sg_action_host_locked(out, &(CUDA_HOST_NODE_PARAMS){p->host.fn, p->host.userData});
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return sg_action_event_locked(out, p->type, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return sg_action_event_locked(out, p->type, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return make_child_locked(out, g, &p->graph);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return sg_action_memops_locked(out, p->memOp.count, p->memOp.paramArray, p->memOp.ctx);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return make_alloc_locked(out, g, &p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return make_free_locked(out, g, p->free.dptr);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        sg_log(1, "graph nodes of type %d are not provided", (int)p->type);
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* What has to be asked without the lock. */
static CUresult check_before(const CUgraphNodeParams *p)
{
    SG_TRY(sg_graph_enter());
    if (p->type != CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        return CUDA_SUCCESS;
    sg_poll_start();
    return sg_memop_check(p->memOp.count, p->memOp.paramArray, p->memOp.flags);
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(const CUgraphNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS k;
    _Static_assert(sizeof k == sizeof p->kernel, "the second and third form are the same");
    memcpy(&k, &p->kernel, sizeof k);
    return k;
}

/* ---- adding ---- */

static CUresult add_locked(const sg_spot_t *spot, CUgraphNodeParams *p, sg_action_t *kernel)
{
    sg_graph_t *g = sg_graph_find_locked(spot->graph);
    sg_edges_t deps = {0};
    sg_action_t action;
    CUresult result =
        g ? sg_edges_read_locked(&deps, g, spot->deps, spot->data, spot->count) : CUDA_ERROR_INVALID_VALUE;
    if (!result && kernel)
        action = *kernel;
    else if (!result)
        result = make_locked(&action, g, p);
    else if (kernel)
        sg_action_drop_locked(kernel);
    sg_node_t *node;
    if (!result)
        result = sg_node_add_locked(g, &deps, &action, &node);
    if (!result)
        *spot->out = sg_handle_of(&node->object);
    sg_edges_clear(&deps);
    return result;
}

CUresult sg_params_add(const sg_spot_t *spot, CUgraphNodeParams *p)
{
    SG_TRY(check_before(p));
    if (!spot->out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_action_t kernel;
    bool is_kernel = p->type == CU_GRAPH_NODE_TYPE_KERNEL;
    CUDA_KERNEL_NODE_PARAMS k = is_kernel ? kernel_params(p) : (CUDA_KERNEL_NODE_PARAMS){0};
    if (is_kernel)
        SG_TRY(sg_action_kernel(&kernel, &k));
    sg_lock();
    CUresult result = add_locked(spot, p, is_kernel ? &kernel : NULL);
    sg_unlock();
    return result;
}

/* ---- changing ---- */

/* Attributes outlive a change of the parameters. */
static void replace_locked(sg_node_t *node, sg_action_t *action)
{
    if (action->view)
        sg_action_take_attributes(action, &node->action);
    sg_action_drop_locked(&node->action);
    node->action = *action;
}

static CUresult set_locked(CUgraphNode handle, CUgraphNodeParams *p, sg_action_t *kernel)
{
    sg_node_t *node = sg_node_find_locked(handle);
    sg_action_t action;
    CUresult result = node && node->action.type == p->type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result && kernel)
        action = *kernel;
    else if (!result)
        result = make_locked(&action, node->graph, p);
    else if (kernel)
        sg_action_drop_locked(kernel);
    if (!result)
        replace_locked(node, &action);
    return result;
}

CUresult sg_params_set(CUgraphNode handle, const CUgraphNodeParams *params)
{
    SG_TRY(check_before(params));
    CUgraphNodeParams p = *params;
    sg_action_t kernel;
    bool is_kernel = p.type == CU_GRAPH_NODE_TYPE_KERNEL;
    CUDA_KERNEL_NODE_PARAMS k = is_kernel ? kernel_params(&p) : (CUDA_KERNEL_NODE_PARAMS){0};
    if (is_kernel)
        SG_TRY(sg_action_kernel(&kernel, &k));
    sg_lock();
    CUresult result = set_locked(handle, &p, is_kernel ? &kernel : NULL);
    sg_unlock();
    return result;
}

static CUresult set_in_exec_locked(CUgraphExec exec, CUgraphNode handle, CUgraphNodeParams *p,
                                   sg_action_t *kernel)
{
    sg_exec_t *e = sg_exec_find_locked(exec);
    sg_node_t *node = e ? sg_exec_node_locked(e, handle) : NULL;
    sg_action_t action;
    CUresult result = node && node->action.type == p->type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result && kernel)
        action = *kernel;
    else if (!result)
        result = make_locked(&action, node->graph, p);
    else if (kernel)
        sg_action_drop_locked(kernel);
    if (result)
        return result;
    if (sg_update_fits(e, &node->action, &action) != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        sg_action_drop_locked(&action);
        return CUDA_ERROR_INVALID_VALUE;
    }
    replace_locked(node, &action);
    return CUDA_SUCCESS;
}

CUresult sg_params_set_in_exec(CUgraphExec exec, CUgraphNode handle, const CUgraphNodeParams *params)
{
    SG_TRY(check_before(params));
    CUgraphNodeParams p = *params;
    sg_action_t kernel;
    bool is_kernel = p.type == CU_GRAPH_NODE_TYPE_KERNEL;
    CUDA_KERNEL_NODE_PARAMS k = is_kernel ? kernel_params(&p) : (CUDA_KERNEL_NODE_PARAMS){0};
    if (is_kernel)
        SG_TRY(sg_action_kernel(&kernel, &k));
    sg_lock();
    CUresult result = set_in_exec_locked(exec, handle, &p, is_kernel ? &kernel : NULL);
    sg_unlock();
    return result;
}

/* ---- asking ---- */

static void describe_locked(const sg_action_t *a, CUgraphNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS k;
    switch (a->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        sg_action_describe_kernel(a, &k);
        memcpy(&p->kernel, &k, sizeof k);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        p->memcpy.copyParams = a->copy;
        p->memcpy.copyCtx = a->ctx;
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&p->memset, &a->set, sizeof a->set);
        p->memset.ctx = a->ctx;
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        p->host.fn = a->op->host.function;
        p->host.userData = a->op->host.data;
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        p->graph.graph = sg_handle_of(&a->child->object);
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        p->eventRecord.event = a->event;
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        p->memOp.ctx = a->ctx;
        p->memOp.count = a->memops.count;
        p->memOp.paramArray = a->memops.params;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        memcpy(&p->alloc, sg_block_params(a->block), sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        p->free.dptr = sg_block_address(a->block);
        break;
    default:
        break;
    }
}

CUresult sg_params_get(CUgraphNode handle, CUgraphNodeParams *p)
{
    SG_TRY(sg_graph_enter());
    sg_lock();
    const sg_node_t *node = sg_node_find_locked(handle);
    bool fits = node && node->action.type == p->type;
    if (fits)
        describe_locked(&node->action, p);
    sg_unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the API of any node ---- */

static size_t used_bytes(CUgraphNodeType type)
{
    const CUgraphNodeParams *p = NULL;
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sizeof p->kernel;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sizeof p->memcpy;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return sizeof p->memset;
    case CU_GRAPH_NODE_TYPE_HOST:
        return sizeof p->host;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return sizeof p->graph;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return sizeof p->eventRecord;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return sizeof p->memOp;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return sizeof p->alloc;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return sizeof p->free;
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return 0;
    default:
        return sizeof p->reserved1;
    }
}

/* What a node's type does not use has to be zero. */
static bool is_clean(const CUgraphNodeParams *p)
{
    const unsigned char *bytes = (const unsigned char *)p->reserved1;
    for (size_t i = used_bytes(p->type); i < sizeof p->reserved1; i++)
        if (bytes[i])
            return false;
    return !p->reserved0[0] && !p->reserved0[1] && !p->reserved0[2] && !p->reserved2;
}

SG_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
                                     const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
    if (!params || !is_clean(params))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_params_add(&(sg_spot_t){out, graph, deps, data, count}, params);
}

SG_EXPORT CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t count,
                                  CUgraphNodeParams *params)
{
    return cuGraphAddNode_v2(out, graph, deps, NULL, count, params);
}

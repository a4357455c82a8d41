/* dot.c: a graph as a picture's description, in the language of Graphviz. */
#include "softgpu/driver/graph/graph.h"

#include <stdio.h>

static const char *name_of(CUgraphNodeType type)
{
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
        return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return "GRAPH";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return "WAIT_EVENT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return "BATCH_MEM_OP";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return "MEM_FREE";
    default:
        return "EMPTY";
    }
}

static char side_letter(CUmemorytype type, CUdeviceptr address)
{
    bool device =
        type == CU_MEMORYTYPE_DEVICE || (type == CU_MEMORYTYPE_UNIFIED && sg_window_contains(address));
    return device ? 'D' : 'H';
}

static bool wants(unsigned flags, unsigned which)
{
    return flags & (which | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
}

static void print_kernel(FILE *f, const sg_action_t *a, unsigned flags)
{
    const softgpu_launch_t *l = &a->op->kernel.launch;
    fprintf(f, "\\n%s", a->op->kernel.function->kernel->name);
    if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
        fprintf(f, "\\nfunction %p", (void *)a->op->kernel.function);
    if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
        fprintf(f, "\\ngrid %u %u %u, block %u %u %u, shared %u", l->grid[0], l->grid[1], l->grid[2],
                l->block[0], l->block[1], l->block[2], l->dynamic_shared_bytes);
    if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES))
        fprintf(f, "\\npriority %d", a->view->attribute[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority);
}

static void print_copy(FILE *f, const CUDA_MEMCPY3D *c, unsigned flags)
{
    fprintf(f, "\\n%c to %c", side_letter(c->srcMemoryType, c->srcDevice),
            side_letter(c->dstMemoryType, c->dstDevice));
    if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
        fprintf(f, "\\n%zu x %zu x %zu bytes, 0x%llx to 0x%llx", c->WidthInBytes, c->Height, c->Depth,
                c->srcMemoryType == CU_MEMORYTYPE_HOST ? (unsigned long long)(uintptr_t)c->srcHost
                                                       : (unsigned long long)c->srcDevice,
                c->dstMemoryType == CU_MEMORYTYPE_HOST ? (unsigned long long)(uintptr_t)c->dstHost
                                                       : (unsigned long long)c->dstDevice);
}

static void print_action(FILE *f, const sg_action_t *a, unsigned flags)
{
    switch (a->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        print_kernel(f, a, flags);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        print_copy(f, &a->copy, flags);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
            fprintf(f, "\\n0x%llx: %zu x %zu of %u bytes become %u", a->set.dst, a->set.width, a->set.height,
                    a->set.elementSize, a->set.value);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS))
            fprintf(f, "\\n%p(%p)", (void *)(uintptr_t)a->op->host.function, a->op->host.data);
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS))
            fprintf(f, "\\nevent %p", (void *)a->event);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
            fprintf(f, "\\n%zu bytes at 0x%llx", sg_block_params(a->block)->bytesize,
                    sg_block_address(a->block));
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS))
            fprintf(f, "\\n0x%llx", sg_block_address(a->block));
        break;
    default:
        break;
    }
}

/* Returns the number of the next graph. */
static unsigned print_graph(FILE *f, sg_graph_t *g, unsigned number, unsigned flags)
{
    unsigned next = number + 1;
    size_t id = 0;
    fprintf(f, "subgraph cluster_%u {\nlabel=\"graph_%u\" graph[style=\"dashed\"];\n", number, number);
    for (sg_node_t *n = g->first; n; n = n->next) {
        n->mark = id++;
        fprintf(f, "\"graph_%u_node_%zu\"[shape=\"box\" label=\"%zu\\n%s", number, n->mark, n->mark,
                name_of(n->action.type));
        if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
            fprintf(f, "\\nnode %p", sg_handle_of(&n->object));
        print_action(f, &n->action, flags);
        fprintf(f, "\"];\n");
    }
    for (const sg_node_t *n = g->first; n; n = n->next)
        for (size_t i = 0; i < n->dependents.count; i++) {
            fprintf(f, "\"graph_%u_node_%zu\" -> \"graph_%u_node_%zu\"", number, n->mark, number,
                    n->dependents.at[i].node->mark);
            if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
                fprintf(f, "[headlabel=\"%zu\"]", i);
            fprintf(f, ";\n");
        }
    fprintf(f, "}\n");
    for (const sg_node_t *n = g->first; n; n = n->next)
        if (n->action.type == CU_GRAPH_NODE_TYPE_GRAPH)
            next = print_graph(f, n->action.child, next, flags);
    return next;
}

SG_EXPORT CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags)
{
    SG_TRY(sg_graph_enter());
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg_graph_t *g = sg_graph_find_locked(graph);
    FILE *f = g ? fopen(path, "w") : NULL;
    if (f) {
        fprintf(f, "digraph dot {\n");
        print_graph(f, g, 1, flags);
        fprintf(f, "}\n");
    }
    sg_unlock();
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_OPERATING_SYSTEM;
    bool failed = ferror(f);
    return fclose(f) || failed ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* nodes.c: graphs that are launched node by node (internal.h). */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"
#include "alloc/device.h"
#include "alloc/kernel/kernel.h"
#include "hook/internal.h"

enum { ATTRIBUTES = 8 };

typedef struct node {
    CUgraphNode handle;
    CUgraphNodeType type;
    bool disabled;
    union {
        struct {
            CUfunction function;
            CUlaunchConfig config; /* its attributes are these: */
            CUlaunchAttribute attribute[ATTRIBUTES];
            const ebb_signature_t *signature; /* read when the node is, only */
            void **param;                     /* [params] into the block behind them; owns both */
            unsigned char *block;             /* [bytes] */
            size_t bytes;
        } kernel;
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS set;
        struct {
            size_t bytes;
            CUdeviceptr recorded, now; /* where the graph has it; in this launch, 0: it is not alive */
        } alloc;
        struct {
            CUdeviceptr recorded;
            uint32_t allocation; /* the node */
        } free;
    };
    uint32_t moves; /* so many, behind those of the nodes before */
} node_t;

/* An address in memory that the graph allocates. */
typedef struct move {
    void *at;            /* in its node: the word, or the tensor map that has it; unaligned */
    uint32_t allocation; /* the node */
    bool is_map;
    uint64_t offset;
} move_t;

struct ebb_nodes {
    node_t *node; /* [count] in an order that their edges allow */
    uint32_t count;
    bool allocates, found; /* some of them, or free; the moves are known */
    move_t *move;          /* owns */
    uint32_t move_count, move_room;
};

static void forget_kernel(node_t *n)
{
    if (n->type == CU_GRAPH_NODE_TYPE_KERNEL)
        free(n->kernel.param);
}

void ebb_nodes_delete(ebb_nodes_t *g)
{
    for (uint32_t i = 0; g && i < g->count; i++)
        forget_kernel(&g->node[i]);
    if (g) {
        free(g->node);
        free(g->move);
    }
    free(g);
}

/* ---- what a node is ---- */

/* Those that a launch cannot do without. False: one of them ties it to something that is not the launch's own. */
static bool read_attributes(CUgraphNode handle, node_t *n)
{
    static const CUlaunchAttributeID read[] = {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                               CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                               CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                               CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
                                               CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                               CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
                                               CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN};
    static const CUlaunchAttributeID refused[] = {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
                                                  CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
                                                  CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE};
    static const CUlaunchAttributeValue none;
    _Static_assert(sizeof read / sizeof *read <= ATTRIBUTES, "room for each");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CUlaunchAttributeValue value = none;
        if (!ebb_driver.cuGraphKernelNodeGetAttribute(handle, refused[i], &value) &&
            memcmp(&value, &none, sizeof none) != 0)
            return false;
    }
    n->kernel.config.numAttrs = 0;
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        CUlaunchAttribute *a = &n->kernel.attribute[n->kernel.config.numAttrs];
        *a = (CUlaunchAttribute){.id = read[i]};
        if (!ebb_driver.cuGraphKernelNodeGetAttribute(handle, read[i], &a->value) &&
            memcmp(&a->value, &none, sizeof none) != 0)
            n->kernel.config.numAttrs++;
    }
    return true;
}

/* Its arguments are copied: the driver's own may change. What an older node had stays as it is if that fails. */
static bool read_kernel(ebb_t *ebb, node_t *n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    const CUfunction f = p->func ? p->func : (CUfunction)p->kern;
    ebb_signature_t *s = ebb_signature_of(ebb, f);
    if (!s || ebb_function_communicates(ebb, s))
        return false;
    void **param = malloc(s->param_count * sizeof *param + s->param_bytes + 1);
    unsigned char *block = param ? (unsigned char *)(param + s->param_count) : NULL;
    if (!param || !ebb_args_pack(s, block, p->kernelParams, p->extra)) {
        free(param);
        return false;
    }
    for (uint32_t i = 0; i < s->param_count; i++)
        param[i] = block + s->params[i].offset_bytes;
    forget_kernel(n);
    n->type = CU_GRAPH_NODE_TYPE_KERNEL;
    n->kernel.function = f;
    n->kernel.signature = s;
    n->kernel.param = param;
    n->kernel.block = block;
    n->kernel.bytes = s->param_bytes;
    n->kernel.config.gridDimX = p->gridDimX;
    n->kernel.config.gridDimY = p->gridDimY;
    n->kernel.config.gridDimZ = p->gridDimZ;
    n->kernel.config.blockDimX = p->blockDimX;
    n->kernel.config.blockDimY = p->blockDimY;
    n->kernel.config.blockDimZ = p->blockDimZ;
    n->kernel.config.sharedMemBytes = p->sharedMemBytes;
    return true;
}

/* Pageable memory is read when a call is made, and by a graph as it runs. */
static bool is_there_later(CUmemorytype type, CUdeviceptr address)
{
    unsigned kind = 0;
    return type == CU_MEMORYTYPE_DEVICE || ebb_arena_contains(&ebb_global, address) ||
           !ebb_driver.cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
}

static bool read_copy(node_t *n, const CUDA_MEMCPY3D *p)
{
    CUdeviceptr address[2];
    ebb_copy_addresses(p, address);
    if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY ||
        !is_there_later(p->dstMemoryType, address[0]) || !is_there_later(p->srcMemoryType, address[1]))
        return false;
    n->copy = *p;
    return true;
}

static bool read_allocation(ebb_nodes_t *g, node_t *n)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p;
    CUdevice device;
    if (ebb_driver.cuGraphMemAllocNodeGetParams(n->handle, &p) || p.accessDescCount ||
        p.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE || ebb_driver.cuCtxGetDevice(&device) ||
        p.poolProps.location.id != device)
        return false;
    n->alloc.bytes = p.bytesize;
    n->alloc.recorded = p.dptr;
    n->alloc.now = 0;
    g->allocates = true;
    return true;
}

static bool read_node(ebb_t *ebb, ebb_nodes_t *g, node_t *n)
{
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUDA_MEMCPY3D copy;
    CUgraphNodeType type;
    if (ebb_driver.cuGraphNodeGetType(n->handle, &type))
        return false;
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return !ebb_driver.cuGraphKernelNodeGetParams_v2(n->handle, &kernel) &&
               read_kernel(ebb, n, &kernel) && read_attributes(n->handle, n);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        n->type = type;
        return !ebb_driver.cuGraphMemcpyNodeGetParams(n->handle, &copy) && read_copy(n, &copy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        n->type = type;
        return !ebb_driver.cuGraphMemsetNodeGetParams(n->handle, &n->set);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        n->type = type;
        return read_allocation(g, n);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        n->type = type;
        g->allocates = true;
        return !ebb_driver.cuGraphMemFreeNodeGetParams(n->handle, &n->free.recorded);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        n->type = type;
        return true;
    default:
        return false;
    }
}

/* ---- their order ---- */

typedef struct edges {
    CUgraphNode *node, *from, *to; /* [nodes], [edges] */
    CUgraphEdgeData
        *data; /* [edges] says more than order does: programmatic launches, which wait in full here */
    size_t nodes, edges;
} edges_t;

static bool ask(CUgraph graph, edges_t *e)
{
    if (ebb_driver.cuGraphGetNodes(graph, NULL, &e->nodes) ||
        ebb_driver.cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &e->edges) || e->nodes > UINT32_MAX)
        return false;
    e->node = malloc((e->nodes + 1) * sizeof *e->node);
    e->from = malloc((e->edges + 1) * sizeof *e->from);
    e->to = malloc((e->edges + 1) * sizeof *e->to);
    e->data = malloc((e->edges + 1) * sizeof *e->data);
    return e->node && e->from && e->to && e->data &&
           (!e->nodes || !ebb_driver.cuGraphGetNodes(graph, e->node, &e->nodes)) &&
           (!e->edges || !ebb_driver.cuGraphGetEdges_v2(graph, e->from, e->to, e->data, &e->edges));
}

typedef struct numbered {
    uint64_t handle;
    uint32_t number;
} numbered_t;

/* [edges] from[i] before to[i], by number. */
static bool number_edges(const edges_t *e, uint32_t *from, uint32_t *to)
{
    ebb_table_t numbers = {.at = NULL};
    bool good = true, added;
    for (size_t i = 0; i < e->nodes && good; i++) {
        numbered_t *n = ebb_table_add(&numbers, sizeof *n, (uint64_t)(uintptr_t)e->node[i], &added);
        good = n != NULL;
        if (n)
            n->number = (uint32_t)i;
    }
    for (size_t i = 0; i < e->edges && good; i++) {
        const numbered_t *a = ebb_table_find(&numbers, sizeof *a, (uint64_t)(uintptr_t)e->from[i]),
                         *b = ebb_table_find(&numbers, sizeof *b, (uint64_t)(uintptr_t)e->to[i]);
        good = a && b;
        if (good) {
            from[i] = a->number;
            to[i] = b->number;
        }
    }
    free(numbers.at);
    return good;
}

/* Each node behind those that it waits for; else in the driver's order, which is that of their making wherever it was seen. False: some wait for
 * each other. */
static bool sort(uint32_t nodes, size_t edges, const uint32_t *from, const uint32_t *to, uint32_t *first,
                 uint32_t *before, uint32_t *stack, uint32_t *order)
{
    uint32_t placed = 0;
    memset(first, 0, (nodes + 2) * sizeof *first);
    for (size_t i = 0; i < edges; i++)
        first[to[i] + 2]++;
    for (uint32_t i = 0; i < nodes; i++)
        first[i + 2] += first[i + 1];
    for (size_t i = 0; i < edges; i++)
        before[first[to[i] + 1]++] = from[i];
    /* before[first[i]] to before[first[i + 1]]: what i waits for. On the stack are nodes that each wait for the next one; seen[i]: how many of
     * them were looked at, and one more. */
    uint32_t *seen = stack + nodes;
    memset(seen, 0, nodes * sizeof *seen);
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t height = 0;
        if (!seen[i])
            stack[height++] = i;
        while (height) {
            const uint32_t top = stack[height - 1], at = first[top] + (seen[top] ? seen[top] - 1 : 0);
            seen[top] = at - first[top] + 2;
            if (at == first[top + 1]) {
                seen[top] = UINT32_MAX;
                order[placed++] = top;
                height--;
            } else if (!seen[before[at]]) {
                stack[height++] = before[at];
            } else if (seen[before[at]] != UINT32_MAX) {
                return false;
            }
        }
    }
    return true;
}

/* The nodes' handles in such an order. NULL: no memory, or the driver does not say. */
static CUgraphNode *in_order(CUgraph graph, size_t *count)
{
    edges_t e = {.node = NULL};
    CUgraphNode *sorted = NULL;
    if (ask(graph, &e)) {
        const size_t nodes = e.nodes, edges = e.edges;
        uint32_t *room = malloc((3 * edges + 4 * nodes + 4) * sizeof *room);
        uint32_t *from = room, *to = room + edges, *before = to + edges, *first = before + edges,
                 *order = first + nodes + 2, *stack = order + nodes;
        sorted = room && number_edges(&e, from, to) ? malloc((nodes + 1) * sizeof(CUgraphNode)) : NULL;
        if (sorted && !sort((uint32_t)nodes, edges, from, to, first, before, stack, order)) {
            free(sorted);
            sorted = NULL;
        }
        for (size_t i = 0; sorted && i < nodes; i++)
            sorted[i] = e.node[order[i]];
        free(room);
    }
    *count = e.nodes;
    free(e.node);
    free(e.from);
    free(e.to);
    free(e.data);
    return sorted;
}

/* ---- addresses in memory that the graph allocates ---- */

/* Which of its allocations has the address: inside, else right behind its end. The same address may be one's and then another's, so only those count
 * that are alive where it is used. UINT32_MAX: none. */
static uint32_t allocation_at(const ebb_nodes_t *g, const uint32_t *alive, uint32_t count,
                              CUdeviceptr address)
{
    uint32_t behind = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const node_t *a = &g->node[alive[i]];
        if (address - a->alloc.recorded < a->alloc.bytes)
            return alive[i];
        if (address == a->alloc.recorded + a->alloc.bytes)
            behind = alive[i];
    }
    return behind;
}

typedef struct seeker {
    ebb_t *ebb;
    ebb_nodes_t *nodes;
    uint32_t *alive, count;
    bool failed;
} seeker_t;

static bool add_move(seeker_t *s, void *at, CUdeviceptr address, bool is_map)
{
    ebb_nodes_t *g = s->nodes;
    const uint32_t allocation = allocation_at(g, s->alive, s->count, address);
    if (allocation == UINT32_MAX)
        return false;
    if (g->move_count == g->move_room) {
        const uint32_t room = g->move_room ? 2 * g->move_room : 64;
        move_t *grown = realloc(g->move, room * sizeof *grown);
        s->failed |= !grown;
        if (!grown)
            return false;
        g->move = grown;
        g->move_room = room;
    }
    g->move[g->move_count++] = (move_t){at, allocation, is_map, address - g->node[allocation].alloc.recorded};
    return true;
}

/* One word, or all of a tensor map, wherever a parameter may have one (args.c). */
static void seek_in_kernel(seeker_t *s, node_t *n)
{
    const ebb_signature_t *signature = n->kernel.signature;
    unsigned char *block = n->kernel.block;
    for (uint32_t i = 0; i < signature->param_count; i++) {
        const size_t begin = signature->params[i].offset_bytes, end = begin + signature->params[i].size_bytes;
        for (size_t at = (begin + 7) / 8 * 8; at + sizeof(CUdeviceptr) <= end;) {
            const bool may_be_map =
                at + EBB_TENSOR_MAP_BYTES <= end && (at - begin) % EBB_TENSOR_MAP_ALIGN == 0;
            const CUdeviceptr mapped = may_be_map ? ebb_tensor_map_address(s->ebb, block + at) : 0;
            CUdeviceptr word;
            memcpy(&word, block + at, sizeof word);
            if (mapped)
                s->failed |= add_move(s, block + at, mapped, true) && !ebb_driver.cuTensorMapReplaceAddress;
            else
                add_move(s, block + at, word, false);
            at += mapped ? EBB_TENSOR_MAP_BYTES : sizeof word;
        }
    }
}

static void seek_in(seeker_t *s, uint32_t number)
{
    node_t *n = &s->nodes->node[number];
    const uint32_t before = s->nodes->move_count;
    switch (n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        seek_in_kernel(s, n);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        if (n->copy.dstMemoryType != CU_MEMORYTYPE_HOST)
            add_move(s, &n->copy.dstDevice, n->copy.dstDevice, false);
        if (n->copy.srcMemoryType != CU_MEMORYTYPE_HOST)
            add_move(s, &n->copy.srcDevice, n->copy.srcDevice, false);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        add_move(s, &n->set.dst, n->set.dst, false);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        s->alive[s->count++] = number;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE: {
        uint32_t i = 0;
        while (i < s->count && s->nodes->node[s->alive[i]].alloc.recorded != n->free.recorded)
            i++;
        s->failed |= i == s->count; /* another graph's */
        if (i < s->count) {
            n->free.allocation = s->alive[i];
            s->alive[i] = s->alive[--s->count];
        }
        break;
    }
    default:
        break;
    }
    n->moves = s->nodes->move_count - before;
}

/* False: some of it outlives the launch, or comes from another graph; no host memory. */
static bool find_moves(ebb_t *ebb, ebb_nodes_t *g)
{
    if (!g->allocates || g->found)
        return true;
    seeker_t s = {ebb, g, malloc((g->count + 1) * sizeof *s.alive), 0, false};
    g->move_count = 0;
    s.failed = !s.alive;
    for (uint32_t i = 0; i < g->count && !s.failed; i++)
        seek_in(&s, i);
    free(s.alive);
    g->found = !s.failed && !s.count;
    return g->found;
}

/* As the graph has it (`back`), or as it is in this launch. */
static CUresult move(const ebb_nodes_t *g, const move_t *m, bool back)
{
    const node_t *a = &g->node[m->allocation];
    const CUdeviceptr address = (back ? a->alloc.recorded : a->alloc.now) + m->offset;
    if (!m->is_map) {
        memcpy(m->at, &address, sizeof address);
        return CUDA_SUCCESS;
    }
    CUtensorMap map; /* which is aligned as the driver wants it */
    memcpy(&map, m->at, sizeof map);
    const CUresult result = cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)address);
    memcpy(m->at, &map, sizeof map);
    return result;
}

/* ---- reading and changing ---- */

bool ebb_nodes_can_be_read(void)
{
    return ebb_driver.cuGraphGetNodes && ebb_driver.cuGraphGetEdges_v2 && ebb_driver.cuGraphNodeGetType &&
           ebb_driver.cuGraphKernelNodeGetParams_v2 && ebb_driver.cuGraphKernelNodeGetAttribute &&
           ebb_driver.cuGraphMemcpyNodeGetParams && ebb_driver.cuGraphMemsetNodeGetParams &&
           ebb_driver.cuGraphMemAllocNodeGetParams && ebb_driver.cuGraphMemFreeNodeGetParams;
}

ebb_nodes_t *ebb_nodes_read(ebb_t *ebb, CUgraph graph)
{
    size_t count = 0;
    CUgraphNode *handle = ebb_nodes_can_be_read() ? in_order(graph, &count) : NULL;
    ebb_nodes_t *g = handle ? calloc(1, sizeof *g) : NULL;
    if (g)
        g->node = calloc(count + 1, sizeof *g->node);
    bool good = g && g->node;
    for (size_t i = 0; i < count && good; i++) {
        g->node[i].handle = handle[i];
        good = read_node(ebb, g, &g->node[i]);
        g->count++;
    }
    good = good && find_moves(ebb, g);
    free(handle);
    if (!good) {
        ebb_nodes_delete(g);
        return NULL;
    }
    return g;
}

static node_t *find(ebb_nodes_t *g, CUgraphNode handle)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->node[i].handle == handle)
            return &g->node[i];
    return NULL;
}

bool ebb_nodes_set(ebb_t *ebb, ebb_nodes_t *g, CUgraphNode handle, const CUgraphNodeParams *p)
{
    node_t *n = find(g, handle);
    if (!n || n->type != p->type)
        return false;
    g->found = false;
    switch (n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        const CUDA_KERNEL_NODE_PARAMS kernel = {.func = p->kernel.func,
                                                .gridDimX = p->kernel.gridDimX,
                                                .gridDimY = p->kernel.gridDimY,
                                                .gridDimZ = p->kernel.gridDimZ,
                                                .blockDimX = p->kernel.blockDimX,
                                                .blockDimY = p->kernel.blockDimY,
                                                .blockDimZ = p->kernel.blockDimZ,
                                                .sharedMemBytes = p->kernel.sharedMemBytes,
                                                .kernelParams = p->kernel.kernelParams,
                                                .extra = p->kernel.extra,
                                                .kern = p->kernel.kern};
        return read_kernel(ebb, n, &kernel) && find_moves(ebb, g);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return read_copy(n, &p->memcpy.copyParams) && find_moves(ebb, g);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        n->set = (CUDA_MEMSET_NODE_PARAMS){p->memset.dst,         p->memset.pitch, p->memset.value,
                                           p->memset.elementSize, p->memset.width, p->memset.height};
        return find_moves(ebb, g);
    default:
        return false;
    }
}

bool ebb_nodes_enable(ebb_nodes_t *g, CUgraphNode handle, bool enabled)
{
    node_t *n = find(g, handle);
    if (n)
        n->disabled = !enabled;
    return n != NULL;
}

bool ebb_nodes_all_enabled(const ebb_nodes_t *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->node[i].disabled)
            return false;
    return true;
}

size_t ebb_nodes_peak(const ebb_nodes_t *g)
{
    size_t now = 0, peak = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const node_t *n = &g->node[i];
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            now += n->alloc.bytes;
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            now -= g->node[n->free.allocation].alloc.bytes;
        peak = now > peak ? now : peak;
    }
    return peak;
}

/* ---- issuing ---- */

static void *host(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static CUresult issue_copy(const CUDA_MEMCPY3D *p, CUstream stream)
{
    CUdeviceptr to[2];
    const CUmemorytype dst = p->dstMemoryType, src = p->srcMemoryType;
    ebb_copy_addresses(p, to);
    if (p->Height > 1 || p->Depth > 1)
        return cuMemcpy3DAsync_v2(p, stream);
    if (!p->WidthInBytes || !p->Height || !p->Depth)
        return CUDA_SUCCESS;
    if (src == CU_MEMORYTYPE_HOST && dst == CU_MEMORYTYPE_DEVICE)
        return cuMemcpyHtoDAsync_v2(to[0], host(to[1]), p->WidthInBytes, stream);
    if (src == CU_MEMORYTYPE_DEVICE && dst == CU_MEMORYTYPE_HOST)
        return cuMemcpyDtoHAsync_v2(host(to[0]), to[1], p->WidthInBytes, stream);
    if (src == CU_MEMORYTYPE_DEVICE && dst == CU_MEMORYTYPE_DEVICE)
        return cuMemcpyDtoDAsync_v2(to[0], to[1], p->WidthInBytes, stream);
    return cuMemcpyAsync(to[0], to[1], p->WidthInBytes, stream);
}

static CUresult issue_set(const CUDA_MEMSET_NODE_PARAMS *p, CUstream stream)
{
    const bool flat = p->height <= 1;
    switch (p->elementSize) {
    case 1:
        return flat ? cuMemsetD8Async(p->dst, (unsigned char)p->value, p->width, stream)
                    : cuMemsetD2D8Async(p->dst, p->pitch, (unsigned char)p->value, p->width, p->height,
                                        stream);
    case 2:
        return flat ? cuMemsetD16Async(p->dst, (unsigned short)p->value, p->width, stream)
                    : cuMemsetD2D16Async(p->dst, p->pitch, (unsigned short)p->value, p->width, p->height,
                                         stream);
    default:
        return flat ? cuMemsetD32Async(p->dst, p->value, p->width, stream)
                    : cuMemsetD2D32Async(p->dst, p->pitch, p->value, p->width, p->height, stream);
    }
}

static CUresult issue_free(node_t *allocation, CUstream stream)
{
    const CUdeviceptr now = allocation->alloc.now;
    allocation->alloc.now = 0;
    return now ? cuMemFreeAsync(now, stream) : CUDA_SUCCESS;
}

static CUresult issue(ebb_nodes_t *g, node_t *n, CUstream stream)
{
    switch (n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        n->kernel.config.hStream = stream;
        n->kernel.config.attrs = n->kernel.attribute;
        return cuLaunchKernelEx(&n->kernel.config, n->kernel.function, n->kernel.param, NULL);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return issue_copy(&n->copy, stream);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return issue_set(&n->set, stream);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return cuMemAllocAsync(&n->alloc.now, n->alloc.bytes, stream);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return issue_free(&g->node[n->free.allocation], stream);
    default:
        return CUDA_SUCCESS;
    }
}

CUresult ebb_nodes_issue(ebb_nodes_t *g, CUstream stream)
{
    const move_t *m = g->move;
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < g->count && !result; i++) {
        node_t *n = &g->node[i];
        const uint32_t moves = g->allocates ? n->moves : 0;
        for (uint32_t k = 0; k < moves && !result; k++)
            result = move(g, &m[k], false);
        if (!result && !n->disabled)
            result = issue(g, n, stream);
        for (uint32_t k = 0; k < moves; k++)
            move(g, &m[k], true);
        m += moves;
    }
    for (uint32_t i = 0; result && i < g->count; i++)
        if (g->node[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            issue_free(&g->node[i], stream);
    return result;
}

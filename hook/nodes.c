/* nodes.c: graphs that are launched node by node (internal.h). */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/status.h"
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
            void **param; /* [params] into the block behind them; owns both */
            unsigned char *block;
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
    CUcontext context;
    node_t *node; /* [count] in an order that their edges allow */
    uint32_t count;
    bool chained;   /* they allow no other */
    bool allocates; /* some of them, or free */
    move_t *move;   /* owns */
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
static bool read_kernel(ebb_t *ebb, const ebb_nodes_t *g, node_t *n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    const CUfunction f = p->func ? p->func : (CUfunction)p->kern;
    ebb_signature_t *s = ebb_signature_of(ebb, f);
    if (!s || ebb_function_communicates(ebb, s) || (p->ctx && p->ctx != g->context))
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
    n->kernel.param = param;
    n->kernel.block = block;
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

/* Not another device's. */
static bool is_here(ebb_t *ebb, const ebb_nodes_t *g, CUdeviceptr address)
{
    const ebb_device_t *dev = ebb_arena_contains(ebb, address) ? ebb_arena_device(ebb, address) : NULL;
    return !dev || dev->context == g->context;
}

static bool read_copy(ebb_t *ebb, const ebb_nodes_t *g, node_t *n, const CUDA_MEMCPY3D *p)
{
    CUdeviceptr address[2];
    ebb_copy_addresses(p, address);
    if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY ||
        !is_here(ebb, g, address[0]) || !is_here(ebb, g, address[1]) ||
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
               read_kernel(ebb, g, n, &kernel) && read_attributes(n->handle, n);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        n->type = type;
        return !ebb_driver.cuGraphMemcpyNodeGetParams(n->handle, &copy) && read_copy(ebb, g, n, &copy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        n->type = type;
        return !ebb_driver.cuGraphMemsetNodeGetParams(n->handle, &n->set) && is_here(ebb, g, n->set.dst);
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
    move_t *m = ebb_array_append((void **)&g->move, &g->move_count, &g->move_room, sizeof *m);
    s->failed |= !m;
    if (m)
        *m = (move_t){at, allocation, is_map, address - g->node[allocation].alloc.recorded};
    return m;
}

/* Nothing of its arguments leads anywhere that ebb sees, and it may reach memory all the same. */
static bool is_obscure(ebb_t *ebb, ebb_signature_t *signature, const node_t *n)
{
    ebb_args_t args;
    ebb_operation_t op = {.kind = EBB_KERNEL, .function = n->kernel.function};
    const bool obscure = !ebb_args_begin(ebb, &args, &op, signature, n->kernel.param, NULL) ||
                         ebb_is_obscure(ebb, signature, &op, args.block);
    ebb_args_end(&args);
    return obscure;
}

/* One word, or all of a tensor map, wherever a parameter may have one (args.c). */
static void seek_in_kernel(seeker_t *s, node_t *n)
{
    ebb_signature_t *signature = ebb_signature_of(s->ebb, n->kernel.function);
    const uint32_t moves = s->nodes->move_count;
    unsigned char *block = n->kernel.block;
    for (uint32_t i = 0; signature && i < signature->param_count; i++) {
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
    s->failed |= !signature || (s->nodes->move_count == moves && is_obscure(s->ebb, signature, n));
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
    if (!g->allocates)
        return true;
    seeker_t s = {ebb, g, malloc((g->count + 1) * sizeof *s.alive), 0, false};
    g->move_count = 0;
    s.failed = !s.alive;
    for (uint32_t i = 0; i < g->count && !s.failed; i++)
        seek_in(&s, i);
    free(s.alive);
    return !s.failed && !s.count;
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

/* Pointers that a copy brings from the host: a table, which kernels may follow (tables.c). It is read when the graph is launched, so this is asked then. */
static bool brings_address(const ebb_nodes_t *g, const node_t *n, CUdeviceptr low, CUdeviceptr high)
{
    CUdeviceptr address[2], word;
    ebb_copy_addresses(&n->copy, address);
    const size_t bytes = n->copy.WidthInBytes;
    if (n->copy.srcMemoryType != CU_MEMORYTYPE_HOST || bytes > EBB_LARGEST_TABLE || n->copy.Height > 1 ||
        n->copy.Depth > 1)
        return false;
    for (size_t at = 0; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&word, (const char *)(uintptr_t)address[1] + at, sizeof word);
        for (uint32_t i = 0; word - low <= high - low && i < g->count; i++)
            if (g->node[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
                word - g->node[i].alloc.recorded <= g->node[i].alloc.bytes)
                return true;
    }
    return false;
}

bool ebb_nodes_can_be_issued(const ebb_nodes_t *g)
{
    CUdeviceptr low = UINT64_MAX, high = 0;
    bool can = true;
    for (uint32_t i = 0; g->allocates && i < g->count; i++) {
        const node_t *n = &g->node[i];
        if (n->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            continue;
        low = n->alloc.recorded < low ? n->alloc.recorded : low;
        high = n->alloc.recorded + n->alloc.bytes > high ? n->alloc.recorded + n->alloc.bytes : high;
    }
    for (uint32_t i = 0; high && i < g->count && can; i++)
        can = g->node[i].type != CU_GRAPH_NODE_TYPE_MEMCPY || !brings_address(g, &g->node[i], low, high);
    return can;
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
    bool chained = false;
    CUgraphNode *handle = ebb_nodes_can_be_read() ? ebb_nodes_in_order(graph, &count, &chained) : NULL;
    ebb_nodes_t *g = handle ? calloc(1, sizeof *g) : NULL;
    if (g) {
        g->node = calloc(count + 1, sizeof *g->node);
        g->chained = chained;
    }
    bool good = g && g->node && !ebb_driver.cuCtxGetCurrent(&g->context) && g->context;
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
    for (uint32_t i = 0; i < g->count && handle; i++)
        if (g->node[i].handle == handle)
            return &g->node[i];
    return NULL;
}

bool ebb_nodes_set(ebb_t *ebb, ebb_nodes_t *g, CUgraphNode handle, const CUgraphNodeParams *p)
{
    node_t *n = find(g, handle);
    if (!n || n->type != p->type)
        return false;
    CUDA_KERNEL_NODE_PARAMS kernel;
    switch (n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        memcpy(&kernel, &p->kernel, sizeof kernel); /* the same under another name */
        kernel.ctx = NULL;                          /* a node stays in its context */
        return read_kernel(ebb, g, n, &kernel) && find_moves(ebb, g);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return read_copy(ebb, g, n, &p->memcpy.copyParams) && find_moves(ebb, g);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&n->set, &p->memset, sizeof n->set); /* which the newer one begins with */
        return is_here(ebb, g, n->set.dst) && find_moves(ebb, g);
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

CUcontext ebb_nodes_context(const ebb_nodes_t *g)
{
    return g->context;
}

/* Which node of one graph is which of the other only a chain tells. */
bool ebb_nodes_succeed(ebb_nodes_t *g, const ebb_nodes_t *older)
{
    const bool paired = g->chained && older->chained;
    bool good = g->count == older->count;
    for (uint32_t i = 0; i < g->count && good; i++) {
        good = !older->node[i].disabled && (!paired || g->node[i].type == older->node[i].type);
        g->node[i].handle = paired ? older->node[i].handle : NULL;
    }
    return good;
}

size_t ebb_nodes_peak(const ebb_nodes_t *g)
{
    size_t now = 0, peak = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const node_t *n = &g->node[i];
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            now += n->alloc.bytes;
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_FREE && g->chained) /* else both may be there at once */
            now -= g->node[n->free.allocation].alloc.bytes;
        peak = now > peak ? now : peak;
    }
    return peak;
}

/* ---- issuing ---- */

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
        return cuMemcpyHtoDAsync_v2(to[0], (void *)(uintptr_t)to[1], p->WidthInBytes, stream);
    if (src == CU_MEMORYTYPE_DEVICE && dst == CU_MEMORYTYPE_HOST)
        return cuMemcpyDtoHAsync_v2((void *)(uintptr_t)to[0], to[1], p->WidthInBytes, stream);
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
    bool begun = false;
    for (uint32_t i = 0; i < g->count && !result; i++) {
        node_t *n = &g->node[i];
        const uint32_t moves = n->moves;
        for (uint32_t k = 0; k < moves && !result; k++)
            result = move(g, &m[k], false);
        if (!result && !n->disabled)
            result = issue(g, n, stream);
        begun |= !result && n->type <= CU_GRAPH_NODE_TYPE_MEMSET;
        for (uint32_t k = 0; k < moves; k++)
            move(g, &m[k], true);
        m += moves;
    }
    for (uint32_t i = 0; result && i < g->count; i++)
        if (g->node[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            issue_free(&g->node[i], stream);
    if (result && begun) {
        ebb_log(EBB_WARN,
                "error %d in the middle of a graph, which cannot be launched in part: the program's results "
                "are lost",
                result);
        ebb_fail_program(&ebb_global);
    }
    return result;
}

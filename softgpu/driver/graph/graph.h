/* graph.h: graphs, their nodes, what stream capture makes of them, and their execution.
 *
 * Glossary
 *   action    what a node does: a kernel, a copy, an event... with its parameters
 *   image     an executable graph's private clone of the graph that it was made of
 *   item      a node of the image as it is run: those of child graphs lie among the others
 *   lane      a chain of items that run in one stream: lane 0 in the stream of the launch, the others in streams
 *             of the executable graph
 *   origin    the node that another one is a clone of
 *   tail      of a capturing stream: the nodes that the next captured node will depend on
 *   block     memory that an allocation node allocates; its address stays the same for ever (graph/memory.c)
 *
 * Handles are numbers that are never given twice, so that one of a destroyed object is an error for ever.
 *
 * Everything here is guarded by sg.lock. Launching puts ops into streams and has no threads of its own.
 */
#ifndef SG_GRAPH_H
#define SG_GRAPH_H

#include "softgpu/driver/stream/streams.h"

typedef struct sg_graph sg_graph_t;
typedef struct sg_node sg_node_t;
typedef struct sg_exec sg_exec_t;
typedef struct sg_capture sg_capture_t;
typedef struct sg_block sg_block_t;

/* ---- graph/table.c: handles ---- */
typedef enum sg_object_kind {
    SG_OBJECT_GRAPH = 1,
    SG_OBJECT_NODE,
    SG_OBJECT_EXEC,
} sg_object_kind_t;

/* Begins every object with a handle. */
typedef struct sg_object {
    uint64_t id; /* 0: has no handle */
    sg_object_kind_t kind;
} sg_object_t;

/* Gives the object its handle. False: out of host memory. */
bool sg_object_add_locked(sg_object_t *object, sg_object_kind_t kind);
void sg_object_remove_locked(sg_object_t *object); /* no harm if it has none */
void *sg_object_find_locked(const void *handle, sg_object_kind_t kind);

/* What begins a call on graphs: initialised, not in a host function. Graphs need no current context. */
CUresult sg_graph_enter(void);
static inline sg_graph_t *sg_graph_find_locked(CUgraph handle)
{
    return sg_object_find_locked(handle, SG_OBJECT_GRAPH);
}
static inline sg_node_t *sg_node_find_locked(CUgraphNode handle)
{
    return sg_object_find_locked(handle, SG_OBJECT_NODE);
}
static inline sg_exec_t *sg_exec_find_locked(CUgraphExec handle)
{
    return sg_object_find_locked(handle, SG_OBJECT_EXEC);
}
static inline void *sg_handle_of(const sg_object_t *object)
{
    return (void *)(uintptr_t)object->id;
}

/* ---- graph/action.c ---- */

/* What cuGraphKernelNodeGetParams hands out beside the op, and the attributes of its launch. */
typedef struct sg_kernel_view {
    bool packed; /* the arguments came in one buffer */
    size_t bytes;
    void *extra[5];
    CUlaunchAttributeValue attribute[CU_LAUNCH_ATTRIBUTE_MAX];
    void *params[]; /* into the op's payload; behind them the buffer */
} sg_kernel_view_t;

typedef struct sg_action {
    CUgraphNodeType type;
    sg_op_t *op;            /* KERNEL, HOST: owned, never run itself; launches run copies */
    sg_kernel_view_t *view; /* KERNEL: owned */
    union {
        CUDA_MEMCPY3D copy;          /* MEMCPY */
        CUDA_MEMSET_NODE_PARAMS set; /* MEMSET */
        CUevent event;               /* EVENT_RECORD, WAIT_EVENT */
        sg_graph_t *child;           /* GRAPH: owned */
        sg_block_t *block;           /* MEM_ALLOC, MEM_FREE: holds a reference */
        struct {
            unsigned count;
            CUstreamBatchMemOpParams *params; /* owned */
        } memops;                             /* BATCH_MEM_OP */
    };
    bool child_moved; /* GRAPH: with its memory nodes */
    CUcontext ctx;    /* KERNEL, MEMCPY, MEMSET: where it runs */
} sg_action_t;

/* Makes actions of the API's descriptions, which are checked; nothing is left over on failure. The first is called
 * without the lock. */
CUresult sg_action_kernel(sg_action_t *out, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult sg_action_copy_locked(sg_action_t *out, const CUDA_MEMCPY3D *params, CUcontext ctx);
CUresult sg_action_set_locked(sg_action_t *out, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx);
CUresult sg_action_host_locked(sg_action_t *out, const CUDA_HOST_NODE_PARAMS *params);
CUresult sg_action_event_locked(sg_action_t *out, CUgraphNodeType type, CUevent event);
/* Checked by sg_memop_check before. */
CUresult sg_action_memops_locked(sg_action_t *out, unsigned count, const CUstreamBatchMemOpParams *params,
                                 CUcontext ctx);
/* Of an op that comes for a capturing stream; takes it over, also on failure. */
CUresult sg_action_of_op_locked(sg_action_t *out, sg_op_t *op);
/* Of kernels. */
void sg_action_take_attributes(sg_action_t *a, const sg_action_t *from);
void sg_action_describe_kernel(const sg_action_t *a, CUDA_KERNEL_NODE_PARAMS *out);

/* False: out of host memory. Child graphs are cloned; `handles`: their nodes get some. */
bool sg_action_clone_locked(sg_action_t *out, const sg_action_t *from, bool handles);
void sg_action_drop_locked(sg_action_t *a);

/* Fresh ops that perform the action, linked by `next`; NULL for those that are none of an op's. On failure, those made
 * so far. */
CUresult sg_action_ops(const sg_action_t *a, sg_op_t **out);
sg_op_t *sg_op_clone(const sg_op_t *op);

/* ---- graph/core.c: graphs as data ---- */
typedef struct sg_edge {
    sg_node_t *node;
    CUgraphEdgeData data;
} sg_edge_t;

typedef struct sg_edges {
    sg_edge_t *at;
    size_t count, capacity;
} sg_edges_t;

struct sg_node {
    sg_object_t object;
    sg_graph_t *graph;
    sg_node_t *next, *prev; /* in the graph, in the order of creation */
    uint64_t origin;
    sg_edges_t deps, dependents; /* in the order in which they were given */
    sg_action_t action;
    bool disabled;   /* in an image: cuGraphNodeSetEnabled */
    size_t mark;     /* of whoever walks over the graph */
    sg_node_t *pair; /* the same */
};

struct sg_graph {
    sg_object_t object;
    sg_node_t *first, *last;
    size_t count;
    sg_node_t *owner;      /* the child graph node that it belongs to; NULL: the program's */
    sg_capture_t *capture; /* being captured into */
    unsigned execs;        /* executable graphs made of it that are alive */
    bool has_memory;       /* holds, or child graphs hold, allocation or free nodes */
};

sg_graph_t *sg_graph_new_locked(bool handle); /* NULL: out of host memory */
void sg_graph_delete_locked(sg_graph_t *g);
/* NULL: out of host memory. */
sg_graph_t *sg_graph_clone_locked(const sg_graph_t *g, bool handles);

/* The dependencies that a call gives: INVALID_VALUE unless they are nodes of `g`, each once, with valid data. */
CUresult sg_edges_read_locked(sg_edges_t *out, const sg_graph_t *g, const CUgraphNode *nodes,
                              const CUgraphEdgeData *data, size_t count);
bool sg_edges_add(sg_edges_t *e, sg_node_t *node, CUgraphEdgeData data); /* false: out of host memory */
sg_edge_t *sg_edges_find(const sg_edges_t *e, const sg_node_t *node);
void sg_edges_clear(sg_edges_t *e);
/* Whether such an edge may end at a node of type `to`. */
bool sg_edge_data_fits(const CUgraphEdgeData *data, CUgraphNodeType from, CUgraphNodeType to);

/* Adds a node; the action becomes the graph's, also on failure. */
CUresult sg_node_add_locked(sg_graph_t *g, const sg_edges_t *deps, sg_action_t *action, sg_node_t **out);
void sg_node_delete_locked(sg_node_t *node);
/* All nodes so that dependencies come first, otherwise in the order of creation. Returns how many there are: fewer
 * than g->count if there is a cycle, and `stuck` is a node of it then. */
size_t sg_graph_sort_locked(sg_graph_t *g, sg_node_t **out, sg_node_t **stuck);

/* ---- graph/exec.c ---- */
enum { SG_MAX_LANES = 16 };

typedef struct sg_item {
    sg_node_t *node; /* of the image, or of a child graph in it */
    unsigned lane;
    uint32_t first_dep, dep_count; /* in exec->deps */
    uint64_t number;               /* of the launch under way: what its lane's stream has reached then */
    sg_op_t *ops;                  /* of the launch under way: owned until submitted */
} sg_item_t;

struct sg_exec {
    sg_object_t object;
    uint64_t flags;
    uint64_t source; /* id of the graph that it was made of */
    sg_graph_t *image;
    sg_item_t *items; /* dependencies first */
    uint32_t *deps;   /* indices of items */
    size_t item_count;
    unsigned lanes;
    sg_stream_t *lane[SG_MAX_LANES]; /* references; made when first launched. 0 only for the legacy stream */
    sg_stream_t *last;               /* where it was launched last; a reference, NULL: never */
    uint64_t last_number;            /* what that stream has reached when that launch is over */
};

/* Makes items and lanes of the image; `bad`: a node of a cycle (INVALID_VALUE). */
CUresult sg_exec_build_locked(sg_exec_t *e, const sg_node_t **bad);
/* graph/launch.c: physical memory for its allocations, behind what the stream holds and earlier launches. */
CUresult sg_exec_upload_locked(sg_exec_t *e, sg_stream_t *stream);
/* The node of the image that stands for a node of the source. NULL: none. */
sg_node_t *sg_exec_node_locked(sg_exec_t *e, CUgraphNode handle);

/* ---- graph/params.c: the tagged union that describes any node; the typed calls (graph/nodes.c) fill one in ---- */
typedef struct sg_spot {
    CUgraphNode *out;
    CUgraph graph;
    const CUgraphNode *deps;
    const CUgraphEdgeData *data; /* NULL: plain edges */
    size_t count;
} sg_spot_t;

/* `params` gets what the call has to give out: the address of an allocation. */
CUresult sg_params_add(const sg_spot_t *spot, CUgraphNodeParams *params);
CUresult sg_params_set(CUgraphNode handle, const CUgraphNodeParams *params);
CUresult sg_params_set_in_exec(CUgraphExec exec, CUgraphNode handle, const CUgraphNodeParams *params);
/* INVALID_VALUE unless the node is of params->type. What it points to belongs to the node. */
CUresult sg_params_get(CUgraphNode handle, CUgraphNodeParams *params);

/* ---- graph/update.c ---- */
/* Whether an executable graph may have its node's action replaced by this one. */
CUgraphExecUpdateResult sg_update_fits(const sg_exec_t *e, const sg_action_t *old, const sg_action_t *new);

/* ---- graph/capture.c ---- */

/* A graph that streams are captured into. */
struct sg_capture {
    uint64_t id;
    sg_graph_t *graph;
    bool borrowed; /* the graph is the program's (cuStreamBeginCaptureToGraph) */
    bool invalid;
    CUstreamCaptureMode mode;
    uint64_t thread;
    sg_stream_t *origin;
    struct sg_capturing *streams; /* the origin's first, then those that joined */
    sg_capture_t *next;
};

/* A stream's part in a capture (stream->capturing). */
typedef struct sg_capturing {
    sg_capture_t *capture;
    sg_stream_t *stream; /* holds a reference */
    sg_edges_t tail;
    CUgraphNode *nodes; /* what cuStreamGetCaptureInfo gave out last */
    CUgraphEdgeData *data;
    struct sg_capturing *next;
} sg_capturing_t;

/* An event's record in a capturing stream (event->captured). */
typedef struct sg_captured {
    uint64_t capture; /* its id; it may be over */
    sg_edges_t tail;
} sg_captured_t;

sg_capture_t *sg_capture_begin_locked(sg_stream_t *s, sg_graph_t *graph, CUstreamCaptureMode mode);
void sg_capture_end_locked(sg_capture_t *c); /* streams go on as usual; the graph stays */
void sg_capture_invalidate_locked(sg_capture_t *c);
/* False: the stream is none of the captures' business. Otherwise `result` is the call's, unless it is success: then the
 * stream captures. */
bool sg_capture_concerns_locked(sg_stream_t *s, CUresult *result);
/* The stream's capture if it is active; else INVALIDATED or ILLEGAL_STATE. */
CUresult sg_capture_of_locked(sg_stream_t *s, sg_capture_t **out);
/* A node behind the stream's tail, which it becomes. Takes the action over. */
CUresult sg_capture_node_locked(sg_stream_t *s, sg_action_t *action, sg_node_t **out);
/* The legacy stream cannot be used while a blocking stream captures: IMPLICIT. `invalidate` those captures? */
CUresult sg_capture_legacy_locked(sg_stream_t *s, bool invalidate);
uint64_t sg_capture_thread(void); /* the calling thread */
CUstreamCaptureMode
sg_capture_exchange_mode(CUstreamCaptureMode mode); /* the calling thread's; returns the old one */

/* ---- graph/memory.c ---- */
/* An allocation node's memory. NULL: out of address space. */
CUresult sg_block_new_locked(const CUDA_MEM_ALLOC_NODE_PARAMS *params, sg_graph_t *graph, sg_block_t **out);
sg_block_t *sg_block_find_locked(CUdeviceptr address); /* by its base */
void sg_block_ref(sg_block_t *b);
void sg_block_unref_locked(sg_block_t *b);
CUdeviceptr sg_block_address(const sg_block_t *b);
const CUDA_MEM_ALLOC_NODE_PARAMS *sg_block_params(const sg_block_t *b);
/* A free node for it in `graph`: INVALID_VALUE if it may not have one. */
CUresult sg_block_plan_free_locked(sg_block_t *b, sg_graph_t *graph);
/* Whether each free node stands behind its allocation node; `bad`: one that does not (INVALID_VALUE). */
CUresult sg_memory_check_locked(const sg_exec_t *e, const sg_node_t **bad);
/* Before a launch: its allocations fit what is alive now, and have physical memory. What a launch with
 * AUTO_FREE_ON_LAUNCH has to free first is freed in `stream` (NULL: nothing is, for an upload). */
CUresult sg_memory_prepare_locked(sg_exec_t *e, sg_stream_t *stream);
/* In the course of a launch, in stream order. */
void sg_memory_run_locked(const sg_action_t *a, sg_stream_t *stream);

#endif

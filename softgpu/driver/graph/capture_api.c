/* capture_api.c: the calls that begin, end and ask about captures. */
#include "softgpu/driver/graph/graph.h"
#include "softgpu/driver/rules.h"

#include <stdlib.h>

static bool known_mode(CUstreamCaptureMode mode)
{
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
           mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

SG_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SG_TRY(sg_graph_enter());
    if (!mode || !known_mode(*mode))
        return CUDA_ERROR_INVALID_VALUE;
    *mode = sg_capture_exchange_mode(*mode);
    return CUDA_SUCCESS;
}

/* ---- begin ---- */

static CUresult may_begin_locked(sg_stream_t *s)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s == s->ctx->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return s->capturing ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

static CUresult begin_locked(CUstream stream, CUstreamCaptureMode mode)
{
    sg_stream_t *s = sg_stream_resolve_locked(stream);
    SG_TRY(may_begin_locked(s));
    return sg_capture_begin_locked(s, NULL, mode) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
    SG_TRY(sg_enter_context());
    if (!known_mode(mode))
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = begin_locked(stream, mode);
    sg_unlock();
    return result;
}

ASYNC_CALL(cuStreamBeginCapture, (CUstream stream), begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL))
ASYNC_CALL(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), begin_capture(stream, mode))

typedef struct dependencies {
    const CUgraphNode *nodes;
    const CUgraphEdgeData *data;
    size_t count;
} dependencies_t;

static CUresult begin_to_graph_locked(CUstream stream, CUgraph graph, const dependencies_t *d,
                                      CUstreamCaptureMode mode)
{
    sg_stream_t *s = sg_stream_resolve_locked(stream);
    SG_TRY(may_begin_locked(s));
    sg_graph_t *g = sg_graph_find_locked(graph);
    if (!g || g->capture)
        return CUDA_ERROR_INVALID_VALUE;
    sg_edges_t tail;
    SG_TRY(sg_edges_read_locked(&tail, g, d->nodes, d->data, d->count));
    if (!sg_capture_begin_locked(s, g, mode)) {
        sg_edges_clear(&tail);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    s->capturing->tail = tail;
    return CUDA_SUCCESS;
}

static CUresult begin_to_graph(CUstream stream, CUgraph graph, const dependencies_t *d,
                               CUstreamCaptureMode mode)
{
    SG_TRY(sg_enter_context());
    if (!known_mode(mode))
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = begin_to_graph_locked(stream, graph, d, mode);
    sg_unlock();
    return result;
}

ASYNC_CALL(cuStreamBeginCaptureToGraph,
           (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *data,
            size_t count, CUstreamCaptureMode mode),
           begin_to_graph(stream, graph, &(dependencies_t){nodes, data, count}, mode))

/* ---- end ---- */

/* Marks what the nodes stand behind, themselves included. False: out of host memory. */
static bool mark_behind(sg_graph_t *g, const sg_edges_t *tail)
{
    sg_node_t **stack = malloc((g->count + 1) * sizeof *stack);
    size_t depth = 0;
    if (!stack)
        return false;
    for (sg_node_t *n = g->first; n; n = n->next)
        n->mark = 0;
    for (size_t i = 0; i < tail->count; i++) {
        tail->at[i].node->mark = 1;
        stack[depth++] = tail->at[i].node;
    }
    while (depth) {
        const sg_node_t *n = stack[--depth];
        for (size_t i = 0; i < n->deps.count; i++)
            if (!n->deps.at[i].node->mark) {
                n->deps.at[i].node->mark = 1;
                stack[depth++] = n->deps.at[i].node;
            }
    }
    free(stack);
    return true;
}

/* Every stream that joined must have been waited for, down to its last captured node. */
static CUresult check_joined_locked(const sg_capture_t *c)
{
    if (!mark_behind(c->graph, &c->streams->tail))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (const sg_capturing_t *part = c->streams->next; part; part = part->next)
        for (size_t i = 0; i < part->tail.count; i++)
            if (!part->tail.at[i].node->mark)
                return sg_broken(SG_RULE_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                                 "a stream that joined the capture is not waited for");
    return CUDA_SUCCESS;
}

static CUresult end_locked(CUstream stream, CUgraph *out)
{
    sg_stream_t *s = sg_stream_resolve_locked(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    SG_TRY(sg_capture_legacy_locked(s, false));
    if (!s->capturing)
        return CUDA_ERROR_ILLEGAL_STATE;
    sg_capture_t *c = s->capturing->capture;
    if (c->origin != s) {
        sg_capture_invalidate_locked(c);
        return sg_broken(SG_RULE_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                         "a capture ends in a stream in which it did not begin");
    }
    CUresult result;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != sg_capture_thread())
        result = sg_broken(SG_RULE_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                           "a capture ends in a thread in which it did not begin");
    else
        result = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : check_joined_locked(c);
    sg_graph_t *g = c->graph;
    bool borrowed = c->borrowed;
    sg_capture_end_locked(c);
    *out = result ? NULL : sg_handle_of(&g->object);
    if (result && !borrowed)
        sg_graph_delete_locked(g);
    return result;
}

static CUresult end_capture(CUstream stream, CUgraph *out)
{
    SG_TRY(sg_enter_context());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = end_locked(stream, out);
    sg_unlock();
    return result;
}

ASYNC_CALL(cuStreamEndCapture, (CUstream stream, CUgraph *graph), end_capture(stream, graph))

/* ---- questions ---- */

static CUresult status_locked(CUstream stream, CUstreamCaptureStatus *out, sg_capturing_t **part)
{
    sg_stream_t *s = sg_stream_resolve_locked(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    SG_TRY(sg_capture_legacy_locked(s, false));
    *part = s->capturing;
    *out = !*part                      ? CU_STREAM_CAPTURE_STATUS_NONE
           : (*part)->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    SG_TRY(sg_enter_context());
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    sg_capturing_t *part;
    sg_lock();
    CUresult result = status_locked(stream, status, &part);
    sg_unlock();
    return result;
}

ASYNC_CALL(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status),
           is_capturing(stream, status))

/* Copies of the tail that the program may read until its next call on the stream. */
static CUresult publish_tail_locked(sg_capturing_t *part)
{
    size_t count = part->tail.count, room = count ? count : 1;
    CUgraphNode *nodes = realloc(part->nodes, room * sizeof *nodes);
    if (nodes)
        part->nodes = nodes;
    CUgraphEdgeData *data = realloc(part->data, room * sizeof *data);
    if (data)
        part->data = data;
    if (!nodes || !data)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        nodes[i] = sg_handle_of(&part->tail.at[i].node->object);
        data[i] = part->tail.at[i].data;
    }
    return CUDA_SUCCESS;
}

static bool has_data(const sg_edges_t *e)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->at[i].data.type || e->at[i].data.from_port)
            return true;
    return false;
}

typedef struct capture_info {
    CUstreamCaptureStatus *status; /* required; the others may be NULL */
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **nodes;
    const CUgraphEdgeData **data;
    size_t *count;
} capture_info_t;

static CUresult capture_info_locked(CUstream stream, const capture_info_t *info)
{
    sg_capturing_t *part;
    SG_TRY(status_locked(stream, info->status, &part));
    if (*info->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    if (info->nodes && !info->data && has_data(&part->tail))
        return CUDA_ERROR_LOSSY_QUERY;
    SG_TRY(publish_tail_locked(part));
    if (info->id)
        *info->id = part->capture->id;
    if (info->graph)
        *info->graph = sg_handle_of(&part->capture->graph->object);
    if (info->nodes)
        *info->nodes = part->nodes;
    if (info->data)
        *info->data = part->data;
    if (info->count)
        *info->count = part->tail.count;
    return CUDA_SUCCESS;
}

static CUresult capture_info(CUstream stream, const capture_info_t *info)
{
    SG_TRY(sg_enter_context());
    if (!info->status || (info->data && !info->nodes))
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = capture_info_locked(stream, info);
    sg_unlock();
    return result;
}

ASYNC_CALL(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
           capture_info(stream, &(capture_info_t){.status = status, .id = id}))
ASYNC_CALL(cuStreamGetCaptureInfo_v2,
           (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
            const CUgraphNode **nodes, size_t *count),
           capture_info(stream, &(capture_info_t){status, id, graph, nodes, NULL, count}))
ASYNC_CALL(cuStreamGetCaptureInfo_v3,
           (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
            const CUgraphNode **nodes, const CUgraphEdgeData **data, size_t *count),
           capture_info(stream, &(capture_info_t){status, id, graph, nodes, data, count}))

/* ---- dependencies by hand ---- */

static CUresult update_locked(CUstream stream, const dependencies_t *d, bool set)
{
    sg_stream_t *s = sg_stream_resolve_locked(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    SG_TRY(sg_capture_legacy_locked(s, false));
    sg_capture_t *c;
    SG_TRY(sg_capture_of_locked(s, &c));
    sg_edges_t edges;
    SG_TRY(sg_edges_read_locked(&edges, c->graph, d->nodes, d->data, d->count));
    sg_edges_t *tail = &s->capturing->tail;
    if (set)
        tail->count = 0;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < edges.count && !result; i++)
        if (!sg_edges_find(tail, edges.at[i].node) && !sg_edges_add(tail, edges.at[i].node, edges.at[i].data))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    sg_edges_clear(&edges);
    return result;
}

static CUresult update_dependencies(CUstream stream, const dependencies_t *d, unsigned flags)
{
    SG_TRY(sg_enter_context());
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = update_locked(stream, d, flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    sg_unlock();
    return result;
}

ASYNC_CALL(cuStreamUpdateCaptureDependencies,
           (CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags),
           update_dependencies(stream, &(dependencies_t){nodes, NULL, count}, flags))
ASYNC_CALL(cuStreamUpdateCaptureDependencies_v2,
           (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *data, size_t count, unsigned flags),
           update_dependencies(stream, &(dependencies_t){nodes, data, count}, flags))

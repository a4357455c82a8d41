/* capture.c: stream capture: which streams capture what, and what that forbids.
 *
 * What would connect captured work with work that is not captured is an error, and what breaks a capture's rules
 * invalidates it (CUDA Programming Guide, Stream Capture). A call is
 *   of a stream     for a capturing stream: captured, or refused;
 *   of the legacy   refused while a blocking stream of the context captures: it would be ordered with it;
 *   of all          cuCtxSynchronize: refused while anything captures in the context;
 *   unsafe          not seen by captures (cuMemAlloc): refused by the modes of the captures and of the thread.
 */
#include "softgpu/driver/graph/graph.h"
#include "softgpu/driver/rules.h"

#include <stdlib.h>

static sg_capture_t *captures;         /* not ended yet */
static _Atomic unsigned capture_count; /* without the lock: whether there is anything to ask */
static uint64_t last_id;

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

uint64_t sg_capture_thread(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t id;
    if (!id)
        id = atomic_fetch_add(&last, 1) + 1;
    return id;
}

CUstreamCaptureMode sg_capture_exchange_mode(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode old = thread_mode;
    thread_mode = mode;
    return old;
}

/* ---- captures ---- */

static sg_capturing_t *join_locked(sg_capture_t *c, sg_stream_t *s)
{
    sg_capturing_t *part = calloc(1, sizeof *part);
    if (!part)
        return NULL;
    part->capture = c;
    part->stream = s;
    s->refs++;
    s->capturing = part;
    sg_capturing_t **link = &c->streams;
    while (*link)
        link = &(*link)->next;
    *link = part;
    return part;
}

sg_capture_t *sg_capture_begin_locked(sg_stream_t *s, sg_graph_t *graph, CUstreamCaptureMode mode)
{
    sg_capture_t *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->borrowed = graph;
    c->graph = graph ? graph : sg_graph_new_locked(true);
    if (!c->graph || !join_locked(c, s)) {
        if (c->graph && !c->borrowed)
            sg_graph_delete_locked(c->graph);
        free(c);
        return NULL;
    }
    c->graph->capture = c;
    c->id = ++last_id;
    c->mode = mode;
    c->thread = sg_capture_thread();
    c->origin = s;
    c->next = captures;
    captures = c;
    capture_count++;
    return c;
}

void sg_capture_end_locked(sg_capture_t *c)
{
    for (sg_capturing_t *part = c->streams, *next; part; part = next) {
        next = part->next;
        part->stream->capturing = NULL;
        sg_stream_unref_locked(part->stream);
        sg_edges_clear(&part->tail);
        free(part->nodes);
        free(part->data);
        free(part);
    }
    sg_capture_t **link = &captures;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    capture_count--;
    c->graph->capture = NULL;
    free(c);
}

void sg_capture_invalidate_locked(sg_capture_t *c)
{
    c->invalid = true;
}

static sg_capture_t *find_capture(uint64_t id)
{
    sg_capture_t *c = captures;
    while (c && c->id != id)
        c = c->next;
    return c;
}

CUresult sg_capture_of_locked(sg_stream_t *s, sg_capture_t **out)
{
    if (!s->capturing)
        return CUDA_ERROR_ILLEGAL_STATE;
    *out = s->capturing->capture;
    return (*out)->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

static bool copy_tail(sg_edges_t *to, const sg_edges_t *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (!sg_edges_find(to, from->at[i].node) && !sg_edges_add(to, from->at[i].node, from->at[i].data))
            return false;
    return true;
}

CUresult sg_capture_node_locked(sg_stream_t *s, sg_action_t *action, sg_node_t **out)
{
    sg_capturing_t *part = s->capturing;
    sg_node_t *node;
    SG_TRY(sg_node_add_locked(part->capture->graph, &part->tail, action, &node));
    part->tail.count = 0;
    if (!sg_edges_add(&part->tail, node, (CUgraphEdgeData){0}))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (out)
        *out = node;
    return CUDA_SUCCESS;
}

/* ---- what captures forbid ---- */

static bool is_legacy(const sg_stream_t *s)
{
    return s == s->ctx->legacy;
}

static bool has_stream_in(const sg_capture_t *c, CUcontext ctx, bool blocking)
{
    for (const sg_capturing_t *part = c->streams; part; part = part->next)
        if (part->stream->ctx == ctx && (part->stream->blocking || !blocking))
            return true;
    return false;
}

CUresult sg_capture_legacy_locked(sg_stream_t *s, bool invalidate)
{
    CUresult result = CUDA_SUCCESS;
    if (!captures || !is_legacy(s))
        return CUDA_SUCCESS;
    for (sg_capture_t *c = captures; c; c = c->next)
        if (has_stream_in(c, s->ctx, true)) {
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            if (invalidate)
                sg_capture_invalidate_locked(c);
        }
    if (result && invalidate)
        sg_broken(SG_RULE_CAPTURE, result, "the legacy stream is used while a blocking stream captures");
    return result;
}

/* Whether this capture forbids unsafe calls to the calling thread (cuThreadExchangeStreamCaptureMode). */
static bool forbids(const sg_capture_t *c)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (c->thread == sg_capture_thread())
        return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

static CUresult check_unsafe_locked(void)
{
    CUresult result = CUDA_SUCCESS;
    for (sg_capture_t *c = captures; c; c = c->next)
        if (forbids(c)) {
            sg_capture_invalidate_locked(c);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    if (result)
        sg_broken(SG_RULE_CAPTURE, result, "a capture forbids this thread calls that it does not see");
    return result;
}

CUresult sg_enter_unsafe(void)
{
    SG_TRY(sg_enter_context());
    if (!capture_count)
        return CUDA_SUCCESS;
    sg_lock();
    CUresult result = check_unsafe_locked();
    sg_unlock();
    return result;
}

/* What a capturing stream refuses; its capture ends badly. */
static CUresult refuse_locked(sg_capture_t *c)
{
    CUresult result =
        c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    sg_capture_invalidate_locked(c);
    return sg_broken(SG_RULE_CAPTURE, result, "a call that a capturing stream does not allow");
}

CUresult sg_capture_sync_locked(sg_stream_t *s)
{
    if (!captures)
        return CUDA_SUCCESS;
    if (s->capturing)
        return refuse_locked(s->capturing->capture);
    SG_TRY(sg_capture_legacy_locked(s, true));
    return check_unsafe_locked();
}

CUresult sg_capture_sync_call(CUstream stream)
{
    if (!capture_count)
        return CUDA_SUCCESS;
    sg_lock();
    sg_stream_t *s = sg_stream_resolve_locked(stream);
    CUresult result = s ? sg_capture_sync_locked(s) : CUDA_SUCCESS; /* the call will say so */
    sg_unlock();
    return result;
}

CUresult sg_capture_event_locked(sg_event_t *e)
{
    if (!e->captured)
        return captures ? check_unsafe_locked() : CUDA_SUCCESS;
    sg_capture_t *c = find_capture(e->captured->capture);
    if (c)
        sg_capture_invalidate_locked(c);
    return sg_broken(SG_RULE_CAPTURE, CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a capture");
}

CUresult sg_capture_context_locked(CUcontext ctx, const sg_event_t *e)
{
    CUresult result = CUDA_SUCCESS;
    const sg_capture_t *of_event = e && e->captured ? find_capture(e->captured->capture) : NULL;
    for (sg_capture_t *c = captures; c; c = c->next)
        if (c == of_event || has_stream_in(c, ctx, false)) {
            sg_capture_invalidate_locked(c);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    if (result)
        sg_broken(SG_RULE_CAPTURE, result, "a call on a context of which a stream captures");
    return result;
}

CUresult sg_capture_context_sync(void)
{
    if (!capture_count)
        return CUDA_SUCCESS;
    sg_lock();
    CUresult result = sg_capture_context_locked(sg_current_context(), NULL);
    sg_unlock();
    return result;
}

void sg_capture_drop_locked(CUcontext ctx)
{
    for (sg_capture_t *c = captures, *next; c; c = next) {
        next = c->next;
        if (!has_stream_in(c, ctx, false))
            continue;
        sg_graph_t *own = c->borrowed ? NULL : c->graph;
        sg_capture_end_locked(c);
        if (own)
            sg_graph_delete_locked(own);
    }
}

bool sg_stream_captures(CUstream stream)
{
    if (!capture_count)
        return false;
    sg_lock();
    const sg_stream_t *s = sg_stream_resolve_locked(stream);
    bool captures_now = s && s->capturing;
    sg_unlock();
    return captures_now;
}

CUresult sg_capture_refuse(CUstream stream)
{
    if (!capture_count)
        return CUDA_SUCCESS;
    sg_lock();
    const sg_stream_t *s = sg_stream_resolve_locked(stream);
    CUresult result = s && s->capturing ? refuse_locked(s->capturing->capture) : CUDA_SUCCESS;
    sg_unlock();
    return result;
}

CUresult sg_capture_destroy_stream_locked(sg_stream_t *s)
{
    /* One that only joined leaves its work in the capture. */
    if (s->capturing && s->capturing->capture->origin == s)
        return refuse_locked(s->capturing->capture);
    return CUDA_SUCCESS;
}

/* ---- what captures take ---- */

bool sg_capture_concerns_locked(sg_stream_t *s, CUresult *result)
{
    sg_capture_t *c;
    if (!captures)
        return false;
    *result = s->capturing ? sg_capture_of_locked(s, &c) : sg_capture_legacy_locked(s, true);
    return s->capturing || *result;
}

bool sg_capture_take_locked(sg_stream_t *s, sg_op_t *op, CUresult *result)
{
    if (!sg_capture_concerns_locked(s, result))
        return false;
    if (*result) {
        sg_op_drop(op);
        return true;
    }
    sg_action_t action;
    *result = sg_action_of_op_locked(&action, op);
    if (!*result && action.view)
        action.view->attribute[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority = s->priority;
    if (!*result)
        *result = sg_capture_node_locked(s, &action, NULL);
    if (*result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        sg_capture_invalidate_locked(s->capturing->capture);
    return true;
}

bool sg_capture_memops(CUstream stream, unsigned count, const CUstreamBatchMemOpParams *params,
                       CUresult *result)
{
    if (!capture_count)
        return false;
    sg_poll_start();
    sg_lock();
    sg_stream_t *s = sg_stream_resolve_locked(stream);
    bool concerned = s && sg_capture_concerns_locked(s, result);
    sg_action_t action;
    if (concerned && !*result)
        *result = sg_action_memops_locked(&action, count, params, NULL);
    if (concerned && !*result)
        *result = sg_capture_node_locked(s, &action, NULL);
    sg_unlock();
    return concerned;
}

bool sg_capture_alloc_locked(sg_stream_t *s, unsigned device, size_t bytes, CUdeviceptr *out,
                             CUresult *result)
{
    if (!sg_capture_concerns_locked(s, result))
        return false;
    if (*result)
        return true;
    const CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)device}},
        .bytesize = bytes};
    sg_action_t action = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    *result = sg_block_new_locked(&params, s->capturing->capture->graph, &action.block);
    if (*result)
        return true;
    *out = sg_block_address(action.block);
    *result = sg_capture_node_locked(s, &action, NULL);
    return true;
}

bool sg_capture_free_locked(sg_stream_t *s, CUdeviceptr address, CUresult *result)
{
    if (!sg_capture_concerns_locked(s, result))
        return false;
    if (*result)
        return true;
    sg_action_t action = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .block = sg_block_find_locked(address)};
    *result = action.block ? sg_block_plan_free_locked(action.block, s->capturing->capture->graph)
                           : CUDA_ERROR_INVALID_VALUE;
    if (*result)
        return true;
    sg_block_ref(action.block);
    *result = sg_capture_node_locked(s, &action, NULL);
    return true;
}

/* ---- events ---- */

void sg_capture_forget_event(sg_event_t *e)
{
    if (!e->captured)
        return;
    sg_edges_clear(&e->captured->tail);
    free(e->captured);
    e->captured = NULL;
}

static CUresult event_node_locked(sg_stream_t *s, CUgraphNodeType type, CUevent event)
{
    sg_action_t action;
    SG_TRY(sg_action_event_locked(&action, type, event));
    return sg_capture_node_locked(s, &action, NULL);
}

/* The event stands for the stream's tail. */
static CUresult mark_event_locked(sg_event_t *e, const sg_capturing_t *part)
{
    sg_captured_t *mark = calloc(1, sizeof *mark);
    if (!mark || !copy_tail(&mark->tail, &part->tail)) {
        free(mark);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    mark->capture = part->capture->id;
    sg_event_forget_locked(e);
    e->captured = mark;
    return CUDA_SUCCESS;
}

bool sg_capture_record_locked(sg_stream_t *s, sg_event_t *e, CUevent handle, unsigned flags, CUresult *result)
{
    bool external = flags & CU_EVENT_RECORD_EXTERNAL;
    if (external && !s->capturing) {
        *result = CUDA_ERROR_INVALID_VALUE;
        return true;
    }
    if (!sg_capture_concerns_locked(s, result))
        return false;
    if (*result)
        return true;
    *result = external ? event_node_locked(s, CU_GRAPH_NODE_TYPE_EVENT_RECORD, handle)
                       : mark_event_locked(e, s->capturing);
    return true;
}

/* A stream that does not capture waits for captured work: it joins the capture. */
static CUresult fork_locked(sg_stream_t *s, sg_capture_t *c, const sg_captured_t *mark)
{
    if (is_legacy(s))
        return refuse_locked(c);
    sg_capturing_t *part = join_locked(c, s);
    return part && copy_tail(&part->tail, &mark->tail) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult wait_captured_locked(sg_stream_t *s, const sg_captured_t *mark)
{
    sg_capture_t *theirs = find_capture(mark->capture), *ours = NULL;
    if (s->capturing)
        SG_TRY(sg_capture_of_locked(s, &ours));
    if (!theirs || theirs->invalid) {
        if (ours)
            sg_capture_invalidate_locked(ours);
        return theirs ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_CAPTURED_EVENT;
    }
    if (!ours)
        return fork_locked(s, theirs, mark);
    if (ours == theirs)
        return copy_tail(&s->capturing->tail, &mark->tail) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    sg_capture_invalidate_locked(ours);
    sg_capture_invalidate_locked(theirs);
    return sg_broken(SG_RULE_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_MERGE, "a capture waits for another one");
}

bool sg_capture_wait_locked(sg_stream_t *s, sg_event_t *e, CUevent handle, unsigned flags, CUresult *result)
{
    bool external = flags & CU_EVENT_WAIT_EXTERNAL;
    if (external && !s->capturing) {
        *result = CUDA_ERROR_INVALID_VALUE;
        return true;
    }
    bool concerned = sg_capture_concerns_locked(s, result);
    if (concerned && *result)
        return true;
    if (external) {
        *result = event_node_locked(s, CU_GRAPH_NODE_TYPE_WAIT_EVENT, handle);
        return true;
    }
    if (e->captured) {
        *result = wait_captured_locked(s, e->captured);
        return true;
    }
    if (!concerned)
        return false;
    /* An event that was never recorded stands for nothing. */
    *result = CUDA_SUCCESS;
    if (e->stream) {
        sg_capture_invalidate_locked(s->capturing->capture);
        *result = sg_broken(SG_RULE_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                            "a capturing stream waits for work that is not captured");
    }
    return true;
}

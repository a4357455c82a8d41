/* launch.c: a launch of an executable graph: its items become ops of the stream and of the graph's own streams,
 * with waits where one lane depends on another. All of it is put into the streams by the call: what runs later owns its
 * parameters, so that the graph may be changed or destroyed meanwhile.
 */
#include "softgpu/driver/graph/graph.h"

#include <stdlib.h>

/* ---- what a launch needs ---- */

static void drop_ops(sg_exec_t *e)
{
    for (size_t i = 0; i < e->item_count; i++)
        for (sg_op_t *op = e->items[i].ops, *next; op; op = next) {
            next = op->next;
            sg_op_drop(op);
        }
}

static CUresult check_item_locked(const sg_action_t *a)
{
    switch (a->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sg_function_loaded_locked(a->op->kernel.function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return sg_event_find_locked(a->event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    default:
        return CUDA_SUCCESS;
    }
}

/* All ops, before anything is submitted. */
static CUresult make_ops_locked(sg_exec_t *e)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < e->item_count; i++)
        e->items[i].ops = NULL;
    for (size_t i = 0; i < e->item_count && !result; i++) {
        sg_item_t *item = &e->items[i];
        result = check_item_locked(&item->node->action);
        if (!result && !item->node->disabled)
            result = sg_action_ops(&item->node->action, &item->ops);
    }
    if (result)
        drop_ops(e);
    return result;
}

/* The launch's stream carries lane 0 itself, unless it is the legacy stream, in which every op would wait for all
 * blocking streams again. */
static bool prepare_lanes_locked(sg_exec_t *e, sg_stream_t *s)
{
    for (unsigned i = s == s->ctx->legacy ? 0 : 1; i < e->lanes; i++) {
        if (e->lane[i] && e->lane[i]->ctx != s->ctx) {
            e->lane[i]->destroyed = true;
            sg_stream_unref_locked(e->lane[i]);
            e->lane[i] = NULL;
        }
        if (!e->lane[i] && !(e->lane[i] = sg_stream_create_in_locked(s->ctx, false, s->priority, 0)))
            return false;
        e->lane[i]->priority = s->priority;
    }
    return true;
}

static sg_stream_t *stream_of_lane(const sg_exec_t *e, unsigned lane, sg_stream_t *s)
{
    return lane || s == s->ctx->legacy ? e->lane[lane] : s;
}

/* A mark in the stream, behind what the default stream's rules put before it and behind the last launch. */
static CUresult begin_locked(sg_exec_t *e, sg_stream_t *s)
{
    sg_op_t *mark = sg_op_new(SG_OP_RECORD, 0);
    if (!mark)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_submit_locked(s, mark);
    return e->last ? sg_submit_wait_locked(s, e->last, e->last_number) : CUDA_SUCCESS;
}

static void end_locked(sg_exec_t *e, sg_stream_t *s)
{
    s->refs++;
    if (e->last)
        sg_stream_unref_locked(e->last);
    e->last = s;
    e->last_number = s->submitted;
}

/* ---- items ---- */

static CUresult wait_for_deps_locked(const sg_exec_t *e, const sg_item_t *item, sg_stream_t *s)
{
    sg_stream_t *own = stream_of_lane(e, item->lane, s);
    for (uint32_t d = 0; d < item->dep_count; d++) {
        const sg_item_t *dep = &e->items[e->deps[item->first_dep + d]];
        if (dep->lane != item->lane)
            SG_TRY(sg_submit_wait_locked(own, stream_of_lane(e, dep->lane, s), dep->number));
    }
    return CUDA_SUCCESS;
}

static CUresult run_item_locked(sg_item_t *item, sg_stream_t *own)
{
    const sg_action_t *a = &item->node->action;
    sg_event_t *event = NULL;
    if (a->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || a->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
        event = sg_event_find_locked(a->event);
    if (a->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        SG_TRY(sg_event_record_locked(event, own));
    else if (event)
        SG_TRY(sg_event_wait_locked(event, own));
    sg_memory_run_locked(a, own);
    while (item->ops) {
        sg_op_t *op = item->ops;
        item->ops = op->next;
        op->next = NULL;
        sg_submit_locked(own, op);
    }
    item->number = own->submitted;
    return CUDA_SUCCESS;
}

static CUresult run_items_locked(sg_exec_t *e, sg_stream_t *s)
{
    bool begun[SG_MAX_LANES] = {false};
    uint64_t fork = s->submitted;
    for (size_t i = 0; i < e->item_count; i++) {
        sg_item_t *item = &e->items[i];
        sg_stream_t *own = stream_of_lane(e, item->lane, s);
        if (!begun[item->lane])
            SG_TRY(sg_submit_wait_locked(own, s, fork));
        begun[item->lane] = true;
        SG_TRY(wait_for_deps_locked(e, item, s));
        SG_TRY(run_item_locked(item, own));
    }
    for (unsigned lane = 0; lane < e->lanes; lane++) {
        sg_stream_t *own = stream_of_lane(e, lane, s);
        SG_TRY(sg_submit_wait_locked(s, own, own->submitted));
    }
    return CUDA_SUCCESS;
}

static CUresult launch_locked(sg_exec_t *e, sg_stream_t *s)
{
    if (!prepare_lanes_locked(e, s))
        return CUDA_ERROR_OUT_OF_MEMORY;
    SG_TRY(make_ops_locked(e));
    CUresult result = begin_locked(e, s);
    if (!result)
        result = sg_memory_prepare_locked(e, s);
    if (!result)
        result = run_items_locked(e, s);
    if (result)
        drop_ops(e);
    end_locked(e, s);
    return result;
}

CUresult sg_exec_upload_locked(sg_exec_t *e, sg_stream_t *s)
{
    SG_TRY(begin_locked(e, s));
    end_locked(e, s);
    return sg_memory_prepare_locked(e, NULL);
}

/* ---- the API ---- */

static CUresult exec_in_stream_locked(CUgraphExec exec, CUstream stream, bool upload)
{
    sg_exec_t *e = sg_exec_find_locked(exec);
    if (!e)
        return CUDA_ERROR_INVALID_VALUE;
    sg_stream_t *s = sg_stream_resolve_locked(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result;
    if (!sg_capture_concerns_locked(s, &result))
        return upload ? sg_exec_upload_locked(e, s) : launch_locked(e, s);
    return result ? result : sg_capture_sync_locked(s); /* refuses it */
}

static CUresult exec_in_stream(CUgraphExec exec, CUstream stream, bool upload)
{
    SG_TRY(sg_enter_context());
    sg_fault_keep_handlers();
    sg_lock();
    CUresult result = exec_in_stream_locked(exec, stream, upload);
    sg_unlock();
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    /* Memory that was freed behind work which is not done yet. */
    SG_TRY(sg_wait_context(NULL));
    sg_lock();
    result = exec_in_stream_locked(exec, stream, upload);
    sg_unlock();
    return result;
}

ASYNC_CALL(cuGraphLaunch, (CUgraphExec exec, CUstream stream), exec_in_stream(exec, stream, false))
ASYNC_CALL(cuGraphUpload, (CUgraphExec exec, CUstream stream), exec_in_stream(exec, stream, true))

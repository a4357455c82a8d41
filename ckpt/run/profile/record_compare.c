/* record_compare.c: operations and recorded ones; see profile.h. */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/status.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/tracker/tracker.h"

CUfunction ebb_record_function(const ebb_operation_t *op)
{
    return op->kind == EBB_OTHER ? (CUfunction)(uintptr_t)op->name : op->function;
}

bool ebb_record_is_like(const ebb_recording_t *r, uint32_t index, const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &r->trace->operation[index];
    return (ebb_trace_kind_t)op->kind == o->kind && ebb_record_function(op) == r->function[index] &&
           op->access_count == o->access_count && !op->opaque;
}

/* A copy or memset of another size: the whole of a buffer as before, or not the whole as before. */
static bool is_resized(const ebb_recording_t *r, uint32_t index, const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &r->trace->operation[index];
    const ebb_trace_access_t *a = &r->trace->access[o->first_access];
    if (op->kind == EBB_KERNEL)
        return op->param_bytes == o->param_bytes;
    if (op->kind == EBB_OTHER || !o->access_count || !op->access_count || a->param_offset ||
        op->access[0].param_offset)
        return true;
    return (a->mode == EBB_REPLACES) ==
           (!op->access[0].offset_bytes && op->bytes >= op->access[0].buffer->bytes);
}

const char *ebb_record_other_launch(const ebb_recording_t *r, uint32_t index, const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &r->trace->operation[index];
    const size_t bytes = op->kind == EBB_KERNEL ? op->param_bytes : op->bytes;
    const bool same = !memcmp(op->grid, o->grid, sizeof o->grid) &&
                      !memcmp(op->block, o->block, sizeof o->block) && op->shared_bytes == o->shared_bytes &&
                      (uint32_t)bytes == o->param_bytes;
    if ((ebb_trace_kind_t)op->kind != o->kind || ebb_record_function(op) != r->function[index])
        return "an operation that was not planned";
    if (!(r->any_size || same) || !is_resized(r, index, op) || op->opaque ||
        op->attributes != (r->attributes ? r->attributes[index] : 0) || (op->cooperative && !o->resident))
        return "a launch of another geometry than planned";
    return NULL;
}

bool ebb_record_may_be_at(const ebb_recording_t *r, const ebb_trace_access_t *a, size_t offset_bytes)
{
    return offset_bytes == a->offset_bytes || (r->any_size && r->trace->buffer[a->buffer].born != EBB_NONE);
}

void ebb_record_tried(ebb_recording_t *r, uint32_t index, const ebb_operation_t *op, bool first)
{
    const ebb_trace_operation_t *o = &r->trace->operation[index];
    unsigned char *tried = r->tried + o->first_arg, *varies = r->varies + o->first_arg;
    if (first) {
        memcpy(tried, op->params, o->arg_bytes);
        memset(varies, 0, o->arg_bytes);
    }
    for (uint32_t i = 0; i < o->arg_bytes; i++)
        if (tried[i] != op->params[i])
            varies[i / 4 * 4] = 1;
    for (uint32_t i = 0; i < o->arg_bytes; i++) /* a number that counts has seen few of its bytes */
        varies[i] = varies[i / 4 * 4];
    for (uint32_t i = 0; i < op->access_count; i++)
        if (op->access[i].param_offset + sizeof(CUdeviceptr) <= o->arg_bytes)
            memset(varies + op->access[i].param_offset, 1, sizeof(CUdeviceptr));
    for (unsigned i = 0; i < op->map_count; i++)
        memset(varies + op->map_at[i], 1, EBB_TENSOR_MAP_BYTES);
}

bool ebb_record_is_tried(ebb_device_t *dev, const ebb_recording_t *r, uint32_t index,
                         const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &r->trace->operation[index];
    const unsigned char *tried = r->tried + o->first_arg, *varies = r->varies + o->first_arg;
    for (uint32_t i = 0; r->replaces[index] && i < o->arg_bytes; i++) {
        if (varies[i] || tried[i] == op->params[i])
            continue;
        ebb_stale_view(dev, op);
        if (i / 8 * 8 + 8 > o->arg_bytes || !ebb_stale_is(dev, i / 8 * 8))
            return false;
    }
    return true;
}

void ebb_record_doubt(ebb_recording_t *r, uint32_t index)
{
    const ebb_trace_operation_t *o = r->trace->operation;
    for (uint32_t i = 0; i < r->trace->operation_count; i++)
        r->doubted[i] |= r->function[i] == r->function[index] && o[i].kind == EBB_TRACE_KERNEL;
    r->refuted = true;
    ebb_log(EBB_INFO,
            "%s (operation %u) has other arguments than ever: it may not replace what it writes any more",
            o[index].name, index);
}

void ebb_record_settle(ebb_recording_t *r)
{
    const ebb_trace_t *t = r->trace;
    uint32_t *first_touch = ebb_trace_first_touches(t);
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        r->replaces[i] = false;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            ebb_trace_access_t *a = &t->access[k];
            if (o->kind != EBB_TRACE_KERNEL || a->mode != EBB_REPLACES ||
                (first_touch && first_touch[a->buffer] == i))
                continue;
            if (r->doubted[i])
                a->mode = EBB_UPDATES;
            else
                r->replaces[i] = true;
        }
    }
    free(first_touch);
}

const char *ebb_record_difference(const ebb_recording_t *r, uint32_t index, const ebb_operation_t *op)
{
    const char *launch = ebb_record_other_launch(r, index, op);
    return launch || op->access_count == r->trace->operation[index].access_count ? launch : "other buffers";
}

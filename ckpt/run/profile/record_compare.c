/* record_compare.c: operations and recorded ones; see profile.h. */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/profile/profile.h"

CUfunction ebb_record_function(const ebb_operation_t *op)
{
    return op->kind == EBB_OTHER ? (CUfunction)(uintptr_t)op->name : op->function;
}

bool ebb_record_is_like(const ebb_recording_t *r, uint32_t index, const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &r->trace->operation[index];
    return (ebb_trace_kind_t)op->kind == o->kind && ebb_record_function(op) == r->operation[index].function &&
           op->access_count == o->access_count && !op->opaque;
}

bool ebb_record_is_within(const ebb_operation_t *op)
{
    return op->access_count == 2 && op->access[0].buffer == op->access[1].buffer;
}

bool ebb_record_is_whole(const ebb_operation_t *op)
{
    return !ebb_record_is_within(op) && !op->access[0].offset_bytes &&
           op->bytes >= op->access[0].buffer->bytes;
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
    return (a->mode == EBB_REPLACES) == ebb_record_is_whole(op);
}

const char *ebb_record_other_launch(const ebb_recording_t *r, uint32_t index, const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &r->trace->operation[index];
    const size_t bytes = op->kind == EBB_KERNEL ? op->param_bytes : op->bytes;
    const bool same = !memcmp(op->grid, o->grid, sizeof o->grid) &&
                      !memcmp(op->block, o->block, sizeof o->block) && op->shared_bytes == o->shared_bytes &&
                      (uint32_t)bytes == o->param_bytes;
    if ((ebb_trace_kind_t)op->kind != o->kind || ebb_record_function(op) != r->operation[index].function)
        return "an operation that was not planned";
    if (!(r->any_size || same) || !is_resized(r, index, op) || op->opaque ||
        op->attributes != r->operation[index].attributes || (op->cooperative && !o->resident))
        return "a launch of another geometry than planned";
    return NULL;
}

bool ebb_record_may_be_at(const ebb_recording_t *r, const ebb_trace_access_t *a, size_t offset_bytes)
{
    return offset_bytes == a->offset_bytes || (r->any_size && r->trace->buffer[a->buffer].born != EBB_NONE);
}

/* A number that has been another one may be any, though few of its bytes have varied: those of one word, as far as they are one parameter's. */
static void note_varied(ebb_device_t *dev, CUfunction function, const unsigned char *tried,
                        const unsigned char *params, unsigned char *varies, uint32_t bytes)
{
    uint32_t from, size;
    for (uint32_t i = 0; i < bytes; i++)
        varies[i] |= tried[i] != params[i];
    for (uint32_t p = 0; ebb_function_parameter(dev->ebb, function, p, &from, &size); p++)
        for (uint32_t i = from; i < from + size && from + size <= bytes; i++) {
            const uint32_t word = from + (i - from) / 4 * 4;
            if (tried[i] != params[i])
                memset(varies + word, 1, word + 4 < from + size ? 4 : from + size - word);
        }
}

void ebb_record_tried(ebb_device_t *dev, ebb_recording_t *r, uint32_t index, const ebb_operation_t *op,
                      bool first)
{
    const ebb_trace_operation_t *o = &r->trace->operation[index];
    unsigned char *tried = r->tried + o->first_arg, *varies = r->varies + o->first_arg;
    if (first) {
        memcpy(tried, op->params, o->arg_bytes);
        memset(varies, 0, o->arg_bytes);
    }
    note_varied(dev, op->function, tried, op->params, varies, o->arg_bytes);
    for (uint32_t i = 0; i < op->access_count; i++)
        if (op->access[i].param_offset + sizeof(CUdeviceptr) <= o->arg_bytes)
            memset(varies + op->access[i].param_offset, 1, sizeof(CUdeviceptr));
    for (unsigned i = 0; i < op->map_count; i++)
        memset(varies + op->map_at[i], 1, EBB_TENSOR_MAP_BYTES);
}

/* Of memory that is freed by now, or in a word that is not filled in. */
static bool is_address(ebb_device_t *dev, const unsigned char *params, uint32_t at, uint32_t bytes)
{
    CUdeviceptr word = 0;
    if (at + sizeof word <= bytes)
        memcpy(&word, params + at, sizeof word);
    return ebb_address_is_served(dev->ebb, word);
}

bool ebb_record_is_tried(ebb_device_t *dev, const ebb_recording_t *r, uint32_t index,
                         const ebb_operation_t *op)
{
    const ebb_trace_operation_t *o = &r->trace->operation[index];
    const unsigned char *tried = r->tried + o->first_arg, *varies = r->varies + o->first_arg;
    for (uint32_t i = 0; r->operation[index].replaces && i < o->arg_bytes; i++)
        if (!varies[i] && tried[i] != op->params[i] &&
            !(is_address(dev, tried, i / 8 * 8, o->arg_bytes) &&
              is_address(dev, op->params, i / 8 * 8, o->arg_bytes)))
            return false;
    return true;
}

void ebb_record_doubt(ebb_recording_t *r, uint32_t index)
{
    const ebb_trace_operation_t *o = r->trace->operation;
    for (uint32_t i = 0; i < r->trace->operation_count; i++)
        r->operation[i].doubted |=
            r->operation[i].function == r->operation[index].function && o[i].kind == EBB_TRACE_KERNEL;
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
        r->operation[i].replaces = false;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            ebb_trace_access_t *a = &t->access[k];
            if (o->kind != EBB_TRACE_KERNEL || a->mode != EBB_REPLACES ||
                (first_touch && first_touch[a->buffer] == i))
                continue;
            if (r->operation[i].doubted)
                a->mode = EBB_UPDATES;
            else
                r->operation[i].replaces = true;
        }
    }
    free(first_touch);
}

const char *ebb_record_difference(const ebb_recording_t *r, uint32_t index, const ebb_operation_t *op)
{
    const char *launch = ebb_record_other_launch(r, index, op);
    return launch || op->access_count == r->trace->operation[index].access_count ? launch : "other buffers";
}

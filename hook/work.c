/* work.c: launches, events, and the calls that wait for them. */
#include <stdlib.h>
#include <string.h>

#include "alloc/device.h"
#include "alloc/kernel/kernel.h"
#include "ckpt/run/run.h"
#include "hook/internal.h"

/* ---- launches ---- */

typedef struct launch {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void **params, **extra;
    const CUlaunchConfig *config; /* cuLaunchKernelEx's, or NULL */
    bool cooperative;
    const ebb_operation_t *op; /* what it is to ebb, or NULL */
} launch_t;

static CUresult issue_instead(const launch_t *l)
{
    ebb_t *ebb = ebb_stream_device(l->op->stream)->ebb;
    const CUlaunchConfig plain = {.gridDimX = l->grid[0],
                                  .gridDimY = l->grid[1],
                                  .gridDimZ = l->grid[2],
                                  .blockDimX = l->block[0],
                                  .blockDimY = l->block[1],
                                  .blockDimZ = l->block[2],
                                  .sharedMemBytes = l->shared,
                                  .hStream = l->stream};
    return ebb_launch_block(ebb, l->config ? l->config : &plain, l->function, l->op->instead);
}

static CUresult issue_launch(const void *context)
{
    const launch_t *l = context;
    if (l->op && l->op->instead)
        return issue_instead(l);
    if (l->config)
        return EBB_PASS(cuLaunchKernelEx, (l->config, l->function, l->params, l->extra));
    if (l->cooperative)
        return EBB_PASS(cuLaunchCooperativeKernel,
                        (l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                         l->block[2], l->shared, l->stream, l->params));
    return EBB_PASS(cuLaunchKernel, (l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                                     l->block[1], l->block[2], l->shared, l->stream, l->params, l->extra));
}

static CUresult launch(launch_t *l)
{
    ebb_device_t *dev = ebb_enter_work();
    if (!dev)
        return issue_launch(l);
    ebb_signature_t *s = ebb_signature_of(dev->ebb, l->function);
    ebb_args_t args;
    uint32_t named;
    const CUdeviceptr *operands;
    const ebb_told_t told = ebb_operands(&operands, &named);
    ebb_operation_t op = {.kind = EBB_KERNEL,
                          .stream = ebb_stream_of(dev, l->stream),
                          .function = l->function,
                          .grid = {l->grid[0], l->grid[1], l->grid[2]},
                          .block = {l->block[0], l->block[1], l->block[2]},
                          .shared_bytes = l->shared,
                          .cooperative = l->cooperative,
                          .plain = !l->cooperative};
    if (l->config)
        ebb_attributes_note(&op, l->config->attrs, l->config->numAttrs);
    op.told = told;
    op.plain &= told != EBB_TOLD;
    if (ebb_args_begin(dev->ebb, &args, &op, s, l->params, l->extra)) {
        if (named)
            ebb_args_name(dev->ebb, &args, &op, operands, named);
        ebb_args_follow(dev->ebb, &args, &op);
        op.opaque |= ebb_is_obscure(dev->ebb, s, &op, args.block);
    } else {
        op.opaque = true;
    }
    l->op = &op;
    const bool new = ebb_signatures_grew(dev->ebb);
    CUresult result = ebb_issue(&op, issue_launch, l);
    if (new && !ebb_captures_under_way(dev->ebb)) {
        ebb_device_t *of = ebb_stream_device(op.stream);
        if (ebb_is_device(of) || ebb_is_device(dev))
            ebb_measure(ebb_is_device(of) ? of : dev); /* its code may have been loaded just now */
    }
    ebb_unlock();
    ebb_args_end(&args);
    return result;
}

ASYNC_CALL(cuLaunchKernel,
           (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
            unsigned shared, CUstream stream, void **params, void **extra),
           launch(&(launch_t){
               f, {gx, gy, gz}, {bx, by, bz}, shared, stream, params, extra, NULL, false, NULL}))
ASYNC_CALL(cuLaunchCooperativeKernel,
           (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
            unsigned shared, CUstream stream, void **params),
           launch(&(launch_t){f, {gx, gy, gz}, {bx, by, bz}, shared, stream, params, NULL, NULL, true, NULL}))

/* A launch that may begin before the one in front of it has ended is given up: memory that was freed in between
 * may be the second one's, and to ebb a free is no operation that would stand between them. */
static unsigned without_early_start(const CUlaunchConfig *config, CUlaunchAttribute *out, unsigned room)
{
    unsigned count = 0;
    for (unsigned i = 0; i < config->numAttrs && i < room; i++)
        if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            out[count++] = config->attrs[i];
    return count;
}

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction f, void **params, void **extra,
                          bool per_thread)
{
    enum { ROOM = 32 }; /* more than there are kinds of */
    CUlaunchAttribute attributes[ROOM];
    if (!config)
        return EBB_PASS(cuLaunchKernelEx, (config, f, params, extra));
    CUlaunchConfig c = *config;
    if (!c.hStream && per_thread)
        c.hStream = CU_STREAM_PER_THREAD;
    if (c.attrs && c.numAttrs && c.numAttrs <= ROOM && !ebb_captures_under_way(&ebb_global)) {
        c.numAttrs = without_early_start(config, attributes, ROOM);
        c.attrs = attributes;
    }
    return launch(&(launch_t){f,
                              {c.gridDimX, c.gridDimY, c.gridDimZ},
                              {c.blockDimX, c.blockDimY, c.blockDimZ},
                              c.sharedMemBytes,
                              c.hStream,
                              params,
                              extra,
                              &c,
                              false,
                              NULL});
}

PLAIN_CALL(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
           launch_ex(config, f, params, extra, false))
PLAIN_CALL(cuLaunchKernelEx_ptsz, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
           launch_ex(config, f, params, extra, true))

/* ---- launches of before CUDA 4, whose arguments are the function's state: they may touch anything ---- */

typedef struct old_launch {
    CUfunction function;
    int width, height;
    CUstream stream;
    enum { ONE, GRID, GRID_ASYNC } form;
} old_launch_t;

static CUresult issue_old(const void *context)
{
    const old_launch_t *l = context;
    if (l->form == ONE)
        return EBB_PASS(cuLaunch, (l->function));
    if (l->form == GRID)
        return EBB_PASS(cuLaunchGrid, (l->function, l->width, l->height));
    return EBB_PASS(cuLaunchGridAsync, (l->function, l->width, l->height, l->stream));
}

static CUresult launch_old(const old_launch_t *l)
{
    ebb_device_t *dev = ebb_enter_work();
    if (!dev)
        return issue_old(l);
    ebb_operation_t op = {
        .kind = EBB_KERNEL, .stream = ebb_stream_of(dev, l->stream), .function = l->function, .opaque = true};
    CUresult result = ebb_issue(&op, issue_old, l);
    ebb_unlock();
    return result;
}

PLAIN_CALL(cuLaunch, (CUfunction f), launch_old(&(old_launch_t){f, 0, 0, CU_STREAM_LEGACY, ONE}))
PLAIN_CALL(cuLaunchGrid, (CUfunction f, int width, int height),
           launch_old(&(old_launch_t){f, width, height, CU_STREAM_LEGACY, GRID}))
PLAIN_CALL(cuLaunchGridAsync, (CUfunction f, int width, int height, CUstream stream),
           launch_old(&(old_launch_t){f, width, height, stream, GRID_ASYNC}))

/* ---- one launch per device: whatever of it touches ebb's memory is pinned, for there is no one stream on which
 * it could be ordered ---- */

static ebb_status_t pin_arguments(ebb_t *ebb, const CUDA_LAUNCH_PARAMS *l)
{
    ebb_args_t args;
    ebb_operation_t op = {.kind = EBB_KERNEL};
    ebb_status_t status = 0;
    if (!ebb_args_begin(ebb, &args, &op, ebb_signature_of(ebb, l->function), l->kernelParams, NULL))
        ebb_keep_everything(ebb, "a launch on several devices may touch any of it");
    for (uint32_t i = 0; i < op.access_count && !status; i++)
        if (!op.access[i].buffer->pinned)
            status = ebb_table_pin(op.access[i].buffer);
    ebb_args_end(&args);
    return status;
}

static CUresult launch_many(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags)
{
    ebb_status_t status = 0;
    for (unsigned i = 0; list && i < count && !status; i++) {
        const ebb_device_t *dev = ebb_enter_any();
        if (!dev)
            continue;
        status = pin_arguments(dev->ebb, &list[i]);
        ebb_unlock();
    }
    return status ? (CUresult)status : EBB_PASS(cuLaunchCooperativeKernelMultiDevice, (list, count, flags));
}

PLAIN_CALL(cuLaunchCooperativeKernelMultiDevice, (CUDA_LAUNCH_PARAMS * list, unsigned count, unsigned flags),
           launch_many(list, count, flags))

/* ---- tensor maps ---- */

static CUresult note_tensor_map(CUresult result, const CUtensorMap *map, const void *address)
{
    const ebb_device_t *dev = NULL;
    if (!result && map &&
        (ebb_arena_contains(&ebb_global, (CUdeviceptr)(uintptr_t)address) ||
         ebb_captures_under_way(&ebb_global)))
        dev = ebb_enter_any(); /* no context is needed */
    if (dev) {
        if (!ebb_tensor_map_note(dev->ebb, map, (CUdeviceptr)(uintptr_t)address))
            ebb_keep_everything(dev->ebb, "no host memory for what a tensor map points to");
        ebb_unlock();
    }
    return result;
}

PLAIN_CALL(cuTensorMapEncodeTiled,
           (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void *address,
            const cuuint64_t *dim, const cuuint64_t *strides, const cuuint32_t *box,
            const cuuint32_t *element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
            CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill),
           note_tensor_map(EBB_PASS(cuTensorMapEncodeTiled,
                                    (map, type, rank, address, dim, strides, box, element_strides, interleave,
                                     swizzle, promotion, fill)),
                           map, address))
PLAIN_CALL(cuTensorMapEncodeIm2col,
           (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void *address,
            const cuuint64_t *dim, const cuuint64_t *strides, const int *lower, const int *upper,
            cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_strides,
            CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
            CUtensorMapFloatOOBfill fill),
           note_tensor_map(EBB_PASS(cuTensorMapEncodeIm2col,
                                    (map, type, rank, address, dim, strides, lower, upper, channels, pixels,
                                     element_strides, interleave, swizzle, promotion, fill)),
                           map, address))
PLAIN_CALL(cuTensorMapEncodeIm2colWide,
           (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void *address,
            const cuuint64_t *dim, const cuuint64_t *strides, int lower, int upper, cuuint32_t channels,
            cuuint32_t pixels, const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
            CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
            CUtensorMapFloatOOBfill fill),
           note_tensor_map(EBB_PASS(cuTensorMapEncodeIm2colWide,
                                    (map, type, rank, address, dim, strides, lower, upper, channels, pixels,
                                     element_strides, interleave, mode, swizzle, promotion, fill)),
                           map, address))
PLAIN_CALL(cuTensorMapReplaceAddress, (CUtensorMap * map, void *address),
           note_tensor_map(EBB_PASS(cuTensorMapReplaceAddress, (map, address)), map, address))

/* ---- what orders streams: events, and whatever the host waits for. A record is reported before it is issued: behind it stands all that
 * was issued by then, and perhaps more, when several threads issue at once ---- */

void ebb_order_note(ebb_order_kind_t kind, CUstream stream, CUevent event)
{
    ebb_device_t *dev = ebb_run_wants_order(&ebb_global) ? ebb_enter() : NULL;
    if (!dev)
        return;
    const bool has_stream = kind <= EBB_ORDER_SYNC_STREAM && kind != EBB_ORDER_SYNC_EVENT;
    ebb_stream_t *s = has_stream ? ebb_stream_of(dev, stream) : NULL;
    ebb_device_t *of = s && ebb_is_device(ebb_stream_device(s)) ? ebb_stream_device(s) : dev;
    if (ebb_lock_go_to(of))
        ebb_run_ordered(of, &(ebb_order_t){kind, s, event});
    ebb_unlock();
}

ASYNC_CALL(cuEventRecord, (CUevent event, CUstream stream),
           (ebb_order_note(EBB_ORDER_RECORD, stream, event),
            ebb_order_recorded(EBB_PASS(cuEventRecord, (event, stream)), event)))
ASYNC_CALL(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
           (ebb_order_note(EBB_ORDER_RECORD, stream, event),
            ebb_order_recorded(EBB_PASS(cuEventRecordWithFlags, (event, stream, flags)), event)))

/* ---- waiting: what the program has waited for need not be asked of events ---- */

static CUresult synchronize_stream(CUstream stream)
{
    ebb_device_t *dev = ebb_enter();
    if (!dev)
        return EBB_PASS(cuStreamSynchronize, (stream));
    ebb_mark_t mark = ebb_mark_here(ebb_stream_of(dev, stream));
    ebb_unlock();
    CUresult result = ebb_driver.cuStreamSynchronize(stream);
    if (!result) {
        ebb_lock();
        ebb_stream_synchronised(mark.stream, mark.number);
        ebb_unlock();
    }
    return ebb_waited(ebb_order_done(result, EBB_ORDER_SYNC_STREAM, stream, NULL));
}

ASYNC_CALL(cuStreamSynchronize, (CUstream stream), synchronize_stream(stream))

static CUresult synchronize_device(CUresult result)
{
    return ebb_waited(ebb_order_done(result, EBB_ORDER_SYNC_DEVICE, NULL, NULL));
}

/* Other threads may issue while this one waits, so nothing is concluded from it. */
PLAIN_CALL(cuCtxSynchronize, (void), synchronize_device(EBB_PASS(cuCtxSynchronize, ())))
PLAIN_CALL(cuCtxSynchronize_v2, (CUcontext context),
           synchronize_device(EBB_PASS(cuCtxSynchronize_v2, (context))))
PLAIN_CALL(cuEventSynchronize, (CUevent event),
           ebb_waited(ebb_order_done(EBB_PASS(cuEventSynchronize, (event)), EBB_ORDER_SYNC_EVENT, NULL,
                                     event)))

/* A program that only asks is told what one that waits is told: of what is known, as a question waits for nothing. */
static CUresult queried(CUresult result)
{
    return !result && ebb_program_has_failed(&ebb_global) ? CUDA_ERROR_LAUNCH_FAILED : result;
}

PLAIN_CALL(cuEventQuery, (CUevent event), queried(EBB_PASS(cuEventQuery, (event))))
ASYNC_CALL(cuStreamQuery, (CUstream stream), queried(EBB_PASS(cuStreamQuery, (stream))))

static CUresult destroy_stream(CUstream stream, bool older)
{
    ebb_device_t *dev = ebb_is_default_stream(stream) ? NULL : ebb_enter_any();
    if (dev) {
        ebb_stream_t *s = ebb_stream_of(dev, stream);
        ebb_capture_stream_ends(s);
        ebb_stream_forget(dev, s);
        ebb_unlock();
    }
    return older ? EBB_PASS(cuStreamDestroy, (stream)) : EBB_PASS(cuStreamDestroy_v2, (stream));
}

PLAIN_CALL(cuStreamDestroy, (CUstream stream), destroy_stream(stream, true))
PLAIN_CALL(cuStreamDestroy_v2, (CUstream stream), destroy_stream(stream, false))

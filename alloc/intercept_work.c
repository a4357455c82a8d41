/* intercept_work.c: launches, copies, memsets, and the calls that wait for them. */
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "intercept.h"
#include "mark.h"

/* ---- launches ---- */

typedef struct launch {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void **params, **extra;
    const CUlaunchConfig *config; /* cuLaunchKernelEx's, or NULL */
} launch_t;

static CUresult issue_launch(const void *context)
{
    const launch_t *l = context;
    if (l->config)
        return EBB_PASS(cuLaunchKernelEx, (l->config, l->function, l->params, l->extra));
    return EBB_PASS(cuLaunchKernel, (l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                                     l->block[1], l->block[2], l->shared, l->stream, l->params, l->extra));
}

static CUresult launch(const launch_t *l)
{
    enum { ON_STACK = 1024 };
    if (!ebb_enter())
        return issue_launch(l);
    const ebb_signature_t *s = ebb_signature_of(l->function);
    _Alignas(16) unsigned char block_room[ON_STACK];
    ebb_access_t access_room[ON_STACK / 8];
    unsigned char *block = block_room;
    ebb_access_t *access = access_room;
    size_t bytes = s ? s->param_bytes : 0;
    if (bytes > ON_STACK) {
        block = malloc(bytes);
        access = malloc(bytes / 8 * sizeof *access);
    }
    ebb_operation_t op = {.kind = EBB_KERNEL,
                          .stream = ebb_stream_of(l->stream),
                          .function = l->function,
                          .grid = {l->grid[0], l->grid[1], l->grid[2]},
                          .block = {l->block[0], l->block[1], l->block[2]},
                          .shared_bytes = l->shared,
                          .plain = !l->config || !l->config->numAttrs};
    if (s && block && access && ebb_args_pack(s, block, l->params, l->extra)) {
        op.params = block;
        op.param_bytes = bytes;
        ebb_args_scan(&op, block, bytes, access);
    } else {
        op.opaque = true;
    }
    CUresult result = ebb_issue(&op, issue_launch, l);
    ebb_unlock();
    if (bytes > ON_STACK) {
        free(block);
        free(access);
    }
    return result;
}

ASYNC_CALL(cuLaunchKernel,
           (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
            unsigned shared, CUstream stream, void **params, void **extra),
           launch(&(launch_t){f, {gx, gy, gz}, {bx, by, bz}, shared, stream, params, extra, NULL}))

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction f, void **params, void **extra,
                          bool per_thread)
{
    if (!config)
        return EBB_PASS(cuLaunchKernelEx, (config, f, params, extra));
    CUlaunchConfig c = *config;
    if (!c.hStream && per_thread)
        c.hStream = CU_STREAM_PER_THREAD;
    return launch(&(launch_t){f,
                              {c.gridDimX, c.gridDimY, c.gridDimZ},
                              {c.blockDimX, c.blockDimY, c.blockDimZ},
                              c.sharedMemBytes,
                              c.hStream,
                              params,
                              extra,
                              &c});
}

PLAIN_CALL(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
           launch_ex(config, f, params, extra, false))
PLAIN_CALL(cuLaunchKernelEx_ptsz, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
           launch_ex(config, f, params, extra, true))

/* Functions of an unloaded module may come again as others. */
static CUresult unload(CUmodule module, CUlibrary library)
{
    if (ebb_enter()) {
        ebb_signatures_forget();
        ebb_unlock();
    }
    return module ? EBB_PASS(cuModuleUnload, (module)) : EBB_PASS(cuLibraryUnload, (library));
}

PLAIN_CALL(cuModuleUnload, (CUmodule module), unload(module, NULL))
PLAIN_CALL(cuLibraryUnload, (CUlibrary library), unload(NULL, library))

/* ---- copies and memsets: all as their asynchronous forms, on the stream that says which default stream is
 * meant ---- */

typedef enum direction { ANY, H2D, D2H, D2D } direction_t;

typedef struct copy {
    direction_t direction;
    CUdeviceptr dst, src;
    size_t bytes;
    CUstream stream;
} copy_t;

static void *host(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static CUdeviceptr address_of(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

static CUresult issue_copy(const void *context)
{
    const copy_t *c = context;
    switch (c->direction) {
    case H2D:
        return EBB_PASS(cuMemcpyHtoDAsync, (c->dst, host(c->src), c->bytes, c->stream));
    case D2H:
        return EBB_PASS(cuMemcpyDtoHAsync, (host(c->dst), c->src, c->bytes, c->stream));
    case D2D:
        return EBB_PASS(cuMemcpyDtoDAsync, (c->dst, c->src, c->bytes, c->stream));
    default:
        return EBB_PASS(cuMemcpyAsync, (c->dst, c->src, c->bytes, c->stream));
    }
}

static CUresult copy(const copy_t *c)
{
    if (!c->bytes || !ebb_enter())
        return issue_copy(c);
    ebb_access_t access[2];
    ebb_operation_t op = {.kind = EBB_COPY,
                          .stream = ebb_stream_of(c->stream),
                          .dst = c->dst,
                          .src = c->src,
                          .bytes = c->bytes,
                          .access = access};
    ebb_access_add(&op, c->dst, 0);
    ebb_access_add(&op, c->src, 1);
    CUresult result = ebb_issue(&op, issue_copy, c);
    ebb_unlock();
    return result;
}

/* The synchronous forms wait for the host's side of a copy; one within the device never waits. */
static CUresult copy_sync(const copy_t *c)
{
    CUresult result = copy(c);
    return result || c->direction == D2D ? result : ebb_waited(EBB_PASS(cuStreamSynchronize, (c->stream)));
}

SYNC_CALL(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
          copy_sync(&(copy_t){ANY, dst, src, bytes, stream}))
SYNC_CALL(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes),
          copy_sync(&(copy_t){H2D, dst, address_of(src), bytes, stream}))
SYNC_CALL(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes),
          copy_sync(&(copy_t){D2H, address_of(dst), src, bytes, stream}))
SYNC_CALL(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
          copy_sync(&(copy_t){D2D, dst, src, bytes, stream}))
ASYNC_CALL(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(&(copy_t){ANY, dst, src, bytes, stream}))
ASYNC_CALL(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),
           copy(&(copy_t){H2D, dst, address_of(src), bytes, stream}))
ASYNC_CALL(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(&(copy_t){D2H, address_of(dst), src, bytes, stream}))
ASYNC_CALL(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(&(copy_t){D2D, dst, src, bytes, stream}))

typedef struct set {
    CUdeviceptr dst;
    unsigned value, width;
    size_t count;
    CUstream stream;
} set_t;

static CUresult issue_set(const void *context)
{
    const set_t *s = context;
    if (s->width == 1)
        return EBB_PASS(cuMemsetD8Async, (s->dst, (unsigned char)s->value, s->count, s->stream));
    if (s->width == 2)
        return EBB_PASS(cuMemsetD16Async, (s->dst, (unsigned short)s->value, s->count, s->stream));
    return EBB_PASS(cuMemsetD32Async, (s->dst, s->value, s->count, s->stream));
}

static CUresult set(const set_t *s)
{
    if (!s->count || !ebb_enter())
        return issue_set(s);
    ebb_access_t access[1];
    ebb_operation_t op = {.kind = EBB_SET,
                          .stream = ebb_stream_of(s->stream),
                          .dst = s->dst,
                          .bytes = s->count * s->width,
                          .value = s->value,
                          .width = s->width,
                          .access = access};
    ebb_access_add(&op, s->dst, 0);
    CUresult result = ebb_issue(&op, issue_set, s);
    ebb_unlock();
    return result;
}

SYNC_CALL(cuMemsetD8_v2, (CUdeviceptr at, unsigned char value, size_t count),
          set(&(set_t){at, value, 1, count, stream}))
SYNC_CALL(cuMemsetD16_v2, (CUdeviceptr at, unsigned short value, size_t count),
          set(&(set_t){at, value, 2, count, stream}))
SYNC_CALL(cuMemsetD32_v2, (CUdeviceptr at, unsigned value, size_t count),
          set(&(set_t){at, value, 4, count, stream}))
ASYNC_CALL(cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t count, CUstream stream),
           set(&(set_t){at, value, 1, count, stream}))
ASYNC_CALL(cuMemsetD16Async, (CUdeviceptr at, unsigned short value, size_t count, CUstream stream),
           set(&(set_t){at, value, 2, count, stream}))
ASYNC_CALL(cuMemsetD32Async, (CUdeviceptr at, unsigned value, size_t count, CUstream stream),
           set(&(set_t){at, value, 4, count, stream}))

/* ---- waiting: what the program has waited for need not be asked of events ---- */

static CUresult synchronize_stream(CUstream stream)
{
    if (!ebb_enter())
        return EBB_PASS(cuStreamSynchronize, (stream));
    ebb_mark_t mark = ebb_mark_here(ebb_stream_of(stream));
    ebb_unlock();
    CUresult result = ebb_driver.cuStreamSynchronize(stream);
    if (!result) {
        ebb_lock();
        ebb_stream_synchronised(mark.stream, mark.number);
        ebb_unlock();
    }
    return ebb_waited(result);
}

ASYNC_CALL(cuStreamSynchronize, (CUstream stream), synchronize_stream(stream))

static CUresult synchronize_context(void)
{
    /* Other threads may issue while this one waits, so nothing is concluded from it. */
    return ebb_waited(EBB_PASS(cuCtxSynchronize, ()));
}

PLAIN_CALL(cuCtxSynchronize, (void), synchronize_context())
PLAIN_CALL(cuEventSynchronize, (CUevent event), ebb_waited(EBB_PASS(cuEventSynchronize, (event))))

static CUresult destroy_stream(CUstream stream)
{
    if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD && ebb_enter()) {
        ebb_stream_forget(ebb_stream_of(stream));
        ebb_unlock();
    }
    return EBB_PASS(cuStreamDestroy, (stream));
}

PLAIN_CALL(cuStreamDestroy_v2, (CUstream stream), destroy_stream(stream))

/* launch.c: kernel launches, and the occupancy questions that precede them. */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/rules.h"
#include "softgpu/driver/scheduler/profile.h"

#include <string.h>

/* ---- attributes ----
 * This device is like one of compute capability 8.0: it has no clusters, one memory domain, and it runs dependent kernels one after
 * the other, which is one way to honour the programmatic attributes. */

typedef struct launch_options {
    bool cooperative;
    CUevent events[2]; /* recorded behind the kernel; NULL: none */
} launch_options_t;

static CUresult check_event(CUevent event)
{
    unsigned flags;
    if (!sg_event_flags(event, &flags))
        return CUDA_ERROR_INVALID_HANDLE;
    return flags & CU_EVENT_DISABLE_TIMING && !(flags & CU_EVENT_INTERPROCESS) ? CUDA_SUCCESS
                                                                               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult read_one(const CUlaunchAttribute *a, launch_options_t *out)
{
    const CUlaunchAttributeValue *v = &a->value;
    switch ((int)a->id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: /* an op has its stream's */
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return v->accessPolicyWindow.hitRatio >= 0 && v->accessPolicyWindow.hitRatio <= 1 &&
                       v->accessPolicyWindow.missProp != CU_ACCESS_PROPERTY_PERSISTING
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        out->cooperative = v->cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        return v->clusterDim.x == 1 && v->clusterDim.y == 1 && v->clusterDim.z == 1
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_CLUSTER_SIZE;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        out->events[0] = v->programmaticEvent.event;
        return check_event(v->programmaticEvent.event);
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        out->events[1] = v->launchCompletionEvent.event;
        return check_event(v->launchCompletionEvent.event);
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return v->memSyncDomainMap.default_ || v->memSyncDomainMap.remote ? CUDA_ERROR_INVALID_VALUE
                                                                          : CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return (unsigned)v->memSyncDomain > CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE ? CUDA_ERROR_INVALID_VALUE
                                                                             : CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: /* of graphs only */
        return CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return (int)v->sharedMemCarveout < -1 || (int)v->sharedMemCarveout > 100 ? CUDA_ERROR_INVALID_VALUE
                                                                                 : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Checks a configuration's attributes and reads those with an effect. */
static CUresult read_attributes(const CUlaunchConfig *c, launch_options_t *out)
{
    *out = (launch_options_t){0};
    if (c->numAttrs && !c->attrs)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++)
        SG_TRY(read_one(&c->attrs[i], out));
    return CUDA_SUCCESS;
}

/* After the launch: no earlier than all blocks have triggered or begun, hence when the kernel is done. */
static CUresult record_events(const launch_options_t *options, CUstream stream)
{
    for (int i = 0; i < 2; i++)
        if (options->events[i])
            SG_TRY(cuEventRecord(options->events[i], stream));
    return CUDA_SUCCESS;
}

/* ---- launches ---- */

static bool dimensions_fit(const unsigned grid[3], const unsigned block[3])
{
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    return grid[0] && grid[1] && grid[2] && threads && grid[0] <= 0x7fffffff && grid[1] <= 65535 &&
           grid[2] <= 65535 && block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64 && threads <= 1024;
}

/* Copies the arguments to their offsets in `out`, from either form that a launch may give them in. A buffer has the offsets that
 * cuFuncGetParamInfo reports. It may end early, as NCCL's do (kernelArgsSize in its enqueue.cc): what the kernel finds behind that is anything. One
 * that is longer is refused (H200, driver 580.159.04). */
enum { BEHIND_THE_BUFFER = 0xcc };

static CUresult gather_params(CUfunction f, char *out, void **params, void **extra)
{
    const softgpu_kernel_t *k = f->kernel;
    if (extra) {
        const char *buffer = NULL;
        size_t bytes = 0;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
            if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
                buffer = extra[1];
            else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
                bytes = *(const size_t *)extra[1];
            else
                return CUDA_ERROR_INVALID_VALUE;
        }
        if (params || (f->buffer_bytes && !buffer))
            return CUDA_ERROR_INVALID_VALUE;
        if (bytes > f->buffer_bytes)
            return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        for (uint32_t i = 0; i < k->param_count; i++) {
            const size_t begin = sg_param_offset(k, i), size = k->params[i].size_bytes;
            const size_t left = bytes > begin ? bytes - begin : 0;
            memset(out + k->params[i].offset_bytes, BEHIND_THE_BUFFER, size);
            memcpy(out + k->params[i].offset_bytes, buffer + begin, left < size ? left : size);
        }
        return CUDA_SUCCESS;
    }
    if (k->param_count && !params)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < k->param_count; i++)
        memcpy(out + k->params[i].offset_bytes, params[i], k->params[i].size_bytes);
    return CUDA_SUCCESS;
}

static CUresult blocks_per_multiprocessor(int *blocks, CUfunction f, int block_size, size_t shared);

/* All blocks of a cooperative launch have to be on the device at once. */
static CUresult check_cooperative(const sg_wish_t *w, CUfunction f)
{
    int each, multiprocessors;
    const unsigned threads = w->block[0] * w->block[1] * w->block[2];
    SG_TRY(blocks_per_multiprocessor(&each, f, (int)threads, w->shared));
    SG_TRY(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                (CUdevice)sg_current_context()->device));
    return (uint64_t)w->grid[0] * w->grid[1] * w->grid[2] > (uint64_t)each * (uint64_t)multiprocessors
               ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
               : CUDA_SUCCESS;
}

CUresult sg_kernel_op(const sg_wish_t *w, sg_op_t **out)
{
    CUfunction f = w->function;
    SG_TRY(sg_function_resolve(&f));
    if (!dimensions_fit(w->grid, w->block) || w->shared > sg_function_max_shared(f))
        return CUDA_ERROR_INVALID_VALUE;
    if (f->kernel->max_threads && w->block[0] * w->block[1] * w->block[2] > f->kernel->max_threads)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (w->cooperative)
        SG_TRY(check_cooperative(w, f));
    softgpu_mode_t mode;
    SG_TRY(sg_function_mode(f, w->cooperative, &mode));
    sg_op_t *op = sg_op_new(SG_OP_KERNEL, f->param_bytes);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gather_params(f, sg_op_payload(op), w->params, w->extra);
    if (result) {
        sg_op_drop(op);
        return result;
    }
    op->kernel.function = f;
    op->kernel.launch = (softgpu_launch_t){.grid = {w->grid[0], w->grid[1], w->grid[2]},
                                           .block = {w->block[0], w->block[1], w->block[2]},
                                           .dynamic_shared_bytes = w->shared,
                                           .cooperative = w->cooperative,
                                           .params = sg_op_payload(op)};
    op->units = sg_op_kernel_units(op);
    *out = op;
    return CUDA_SUCCESS;
}

/* What a capture takes down is not loaded. */
static CUresult load(CUfunction f, CUstream handle)
{
    if (atomic_load(&f->loaded))
        return CUDA_SUCCESS;
    sg_lock();
    const sg_stream_t *stream = sg_stream_resolve_locked(handle);
    const bool now = stream && !stream->capturing;
    sg_unlock();
    return now ? sg_function_load(f) : CUDA_SUCCESS;
}

static CUresult launch(const sg_wish_t *w)
{
    sg_op_t *op;
    SG_TRY(sg_enter_context());
    SG_TRY(sg_kernel_op(w, &op));
    CUresult result = load(op->kernel.function, w->stream);
    if (result) {
        sg_op_drop(op);
        return result;
    }
    return sg_submit(w->stream, op, false);
}

static CUresult launch_xyz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                           unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    return launch(&(sg_wish_t){f, {gx, gy, gz}, {bx, by, bz}, shared, false, stream, params, extra});
}

ASYNC_CALL(cuLaunchKernel,
           (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
            unsigned shared, CUstream stream, void **params, void **extra),
           launch_xyz(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra))

ASYNC_CALL(cuLaunchCooperativeKernel,
           (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
            unsigned shared, CUstream stream, void **params),
           launch(&(sg_wish_t){f, {gx, gy, gz}, {bx, by, bz}, shared, true, stream, params, NULL}))

static CUresult launch_config(const CUlaunchConfig *c, CUstream stream, CUfunction f, void **params,
                              void **extra)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    launch_options_t options;
    SG_TRY(read_attributes(c, &options));
    SG_TRY(launch(&(sg_wish_t){f,
                               {c->gridDimX, c->gridDimY, c->gridDimZ},
                               {c->blockDimX, c->blockDimY, c->blockDimZ},
                               c->sharedMemBytes,
                               options.cooperative,
                               stream,
                               params,
                               extra}));
    return record_events(&options, stream);
}

static CUstream config_stream(const CUlaunchConfig *c, bool per_thread)
{
    CUstream stream = c ? c->hStream : NULL;
    return !stream && per_thread ? CU_STREAM_PER_THREAD : stream;
}

SG_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return launch_config(config, config_stream(config, false), f, params, extra);
}

SG_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params,
                                         void **extra);
SG_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params,
                                         void **extra)
{
    return launch_config(config, config_stream(config, true), f, params, extra);
}

/* ---- occupancy: warps, blocks and shared memory of a multiprocessor; registers are no limit here ---- */

static CUresult blocks_per_multiprocessor(int *blocks, CUfunction f, int block_size, size_t shared)
{
    const CUdevice device = (CUdevice)sg_current_context()->device;
    int threads, most, memory, reserved;
    SG_TRY(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device));
    SG_TRY(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, device));
    SG_TRY(cuDeviceGetAttribute(&memory, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device));
    SG_TRY(cuDeviceGetAttribute(&reserved, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, device));
    int n = threads / ((block_size + 31) / 32 * 32);
    const size_t each = f->kernel->static_shared_bytes + shared;
    if (n > most)
        n = most;
    if (f->kernel->max_threads && (uint32_t)block_size > f->kernel->max_threads)
        n = 0;
    if (shared > sg_function_max_shared(f))
        n = 0;
    else if ((size_t)n > (size_t)memory / (each + (size_t)reserved))
        n = (int)((size_t)memory / (each + (size_t)reserved));
    *blocks = n;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction f,
                                                                        int block_size, size_t shared,
                                                                        unsigned flags)
{
    SG_TRY(sg_enter_context());
    if (!blocks || block_size <= 0 || block_size > 1024 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_function_resolve(&f));
    return blocks_per_multiprocessor(blocks, f, block_size, shared);
}

SG_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int block_size,
                                                               size_t shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, block_size, shared, 0);
}

SG_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_grid, int *block, CUfunction f,
                                                             CUoccupancyB2DSize shared_of, size_t shared,
                                                             int limit, unsigned flags)
{
    (void)shared_of;
    int size = limit > 0 && limit < 1024 ? limit : 1024, per_sm;
    SG_TRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&per_sm, f, size, shared, flags));
    if (!min_grid || !block)
        return CUDA_ERROR_INVALID_VALUE;
    *block = size;
    *min_grid = per_sm * (int)(sg_profile_named ? sg_profile->multiprocessors : sg.config.workers);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block, CUfunction f,
                                                    CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block, f, shared_of, shared, limit, 0);
}

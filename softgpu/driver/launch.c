/* launch.c: kernel launches, and the occupancy questions that precede them. */
#include "profile.h"
#include "streams.h"

#include <string.h>

static bool dimensions_fit(const unsigned grid[3], const unsigned block[3])
{
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    return grid[0] && grid[1] && grid[2] && threads && grid[0] <= 0x7fffffff && grid[1] <= 65535 &&
           grid[2] <= 65535 && block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64 && threads <= 1024;
}

/* Copies the arguments to their offsets in `out`, from either form that a launch may give them in. */
static CUresult gather_params(CUfunction f, char *out, void **params, void **extra)
{
    const softgpu_kernel_t *k = f->kernel;
    if (extra) {
        const void *buffer = NULL;
        size_t bytes = 0;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
            if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
                buffer = extra[1];
            else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
                bytes = *(const size_t *)extra[1];
            else
                return CUDA_ERROR_INVALID_VALUE;
        }
        if (params || (f->param_bytes && (!buffer || bytes < f->param_bytes)))
            return CUDA_ERROR_INVALID_VALUE;
        if (f->param_bytes)
            memcpy(out, buffer, f->param_bytes);
        return CUDA_SUCCESS;
    }
    if (k->param_count && !params)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < k->param_count; i++)
        memcpy(out + k->params[i].offset_bytes, params[i], k->params[i].size_bytes);
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared,
                       CUstream stream, void **params, void **extra)
{
    SG_TRY(sg_enter_context());
    SG_TRY(sg_function_check(f));
    if (!dimensions_fit(grid, block) ||
        shared > (f->max_dynamic_shared ? (unsigned)f->max_dynamic_shared : 48u << 10))
        return CUDA_ERROR_INVALID_VALUE;
    if (!f->kernel->run[SOFTGPU_FAST]) {
        sg_log(1, "%s is not marked BLOCK_SIZE_INDEPENDENT: this form of the device cannot run it",
               f->kernel->name);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    sg_op_t *op = sg_op_new(SG_OP_KERNEL, f->param_bytes);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gather_params(f, sg_op_payload(op), params, extra);
    if (result) {
        sg_op_drop(op);
        return result;
    }
    op->kernel.function = f;
    op->kernel.launch = (softgpu_launch_t){.grid = {grid[0], grid[1], grid[2]},
                                           .block = {block[0], block[1], block[2]},
                                           .dynamic_shared_bytes = shared,
                                           .params = sg_op_payload(op)};
    op->units = (uint64_t)grid[0] * grid[1] * grid[2];
    return sg_submit(stream, op, false);
}

static CUresult launch_xyz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                           unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    return launch(f, grid, block, shared, stream, params, extra);
}

ASYNC_CALL(cuLaunchKernel,
           (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
            unsigned shared, CUstream stream, void **params, void **extra),
           launch_xyz(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra))

/* Attributes that only advise are accepted; one that changes what the launch means is not provided yet. */
static CUresult launch_config(const CUlaunchConfig *c, CUstream stream, CUfunction f, void **params,
                              void **extra)
{
    if (!c || (c->numAttrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++)
        switch (c->attrs[i].id) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            break;
        default:
            sg_log(1, "cuLaunchKernelEx: attribute %d is not provided", (int)c->attrs[i].id);
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    return launch_xyz(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
                      c->sharedMemBytes, stream, params, extra);
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

/* ---- occupancy: a software multiprocessor holds 2048 threads and 32 blocks ---- */

SG_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction f,
                                                                        int block_size, size_t shared,
                                                                        unsigned flags)
{
    (void)shared, (void)flags;
    SG_TRY(sg_enter_context());
    if (!blocks || block_size <= 0 || block_size > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_function_check(f));
    int n = 2048 / block_size;
    *blocks = n > 32 ? 32 : n;
    return CUDA_SUCCESS;
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

/* mode.c: in which mode a kernel runs.
 *
 *   SOFTGPU_MODE=auto      fast where a kernel is marked BLOCK_SIZE_INDEPENDENT, else SIMT (the default)
 *   SOFTGPU_MODE=fast      fast; a kernel that is not marked is refused
 *   SOFTGPU_MODE=simt, checked   all kernels
 *
 * Kernels of cuBLAS and others that are host code know no modes.
 */
#include "softgpu/driver/module/module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { AUTO = SOFTGPU_MODE_COUNT };

static struct {
    int mode;
    uint32_t block;
    uint64_t seed;
} setting = {AUTO, 0, 0};

static const char *const names[] = {
    [SOFTGPU_FAST] = "fast", [SOFTGPU_SIMT] = "simt", [SOFTGPU_CHECKED] = "checked", [AUTO] = "auto"};

static uint64_t number_of(const char *variable, uint64_t low, uint64_t high)
{
    const char *text = getenv(variable);
    if (!text || !*text)
        return 0;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 0);
    if (*end || errno || n < low || n > high) {
        sg_log(1, "%s=%s is not a number that makes sense there; ignored", variable, text);
        return 0;
    }
    return n;
}

CUresult sg_modes_init(void)
{
    const char *text = getenv("SOFTGPU_MODE");
    if (text && *text) {
        int mode = 0;
        while (mode <= AUTO && strcmp(text, names[mode]))
            mode++;
        if (mode > AUTO)
            sg_log(1, "SOFTGPU_MODE=%s is none of auto, fast, simt, checked; using auto", text);
        else
            setting.mode = mode;
    }
    setting.block = (uint32_t)number_of("SOFTGPU_BLOCK", 1, 1024);
    setting.seed = number_of("SOFTGPU_SEED", 0, UINT64_MAX);
    return CUDA_SUCCESS;
}

bool sg_mode_is(softgpu_mode_t mode)
{
    return setting.mode == (int)mode;
}

uint64_t sg_mode_seed(void)
{
    return setting.seed;
}

uint32_t sg_mode_block(void)
{
    return setting.block;
}

CUresult sg_function_mode(CUfunction f, bool cooperative, softgpu_mode_t *mode)
{
    const bool native = !f->module->library;
    const bool fast = f->run[SOFTGPU_FAST] && (native || !cooperative);
    *mode = SOFTGPU_FAST;
    if (native || setting.mode == SOFTGPU_FAST || (setting.mode == AUTO && fast)) {
        if (fast)
            return CUDA_SUCCESS;
        sg_log(1, "%s cannot run in fast mode: %s", f->kernel->name,
               cooperative ? "the launch is cooperative" : "it is not marked BLOCK_SIZE_INDEPENDENT");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *mode = setting.mode == SOFTGPU_CHECKED ? SOFTGPU_CHECKED : SOFTGPU_SIMT;
    return atomic_load(&f->run[*mode]) ? CUDA_SUCCESS : sg_function_compile(f, *mode);
}

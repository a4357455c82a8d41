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

/* The rows of the units that the module holds. */
static const softgpu_kernel_t *const *rows_of(const sg_module_t *m, const softgpu_kernel_table_t *table,
                                              uint32_t *count)
{
    if (m->unit == SG_ALL_UNITS || m->unit >= table->unit_count) {
        *count = table->kernel_count;
        return table->kernels;
    }
    *count = table->units[m->unit].kernel_count;
    return table->units[m->unit].kernels;
}

static CUresult open_locked(sg_module_t *m, softgpu_mode_t mode)
{
    if (m->table[mode])
        return CUDA_SUCCESS;
    const softgpu_kernel_table_t *table = m->library ? sg_library_for_mode(m->library, mode) : NULL;
    if (!table) {
        sg_log(1,
               "%s has no kernels for %s mode: %.*s.%s.so is missing (softgpu_kernels(... MODES %s), or "
               "target *_softgpu_%s)",
               m->origin, names[mode], m->library ? (int)strlen(m->library) - 3 : 0,
               m->library ? m->library : "", names[mode], names[mode], names[mode]);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    uint32_t count;
    const softgpu_kernel_t *const *rows = rows_of(m, table, &count);
    bool same = count == m->kernel_count;
    for (uint32_t i = 0; same && i < count; i++)
        same = !strcmp(rows[i]->name, m->functions[i].kernel->name);
    if (!same) {
        sg_log(1,
               "%s: its kernel libraries for fast and for %s mode come from different sources; rebuild them",
               m->origin, names[mode]);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    SG_TRY(sg_variables_attach(m, &table));
    rows = rows_of(m, table, &count);
    for (uint32_t i = 0; i < count; i++)
        atomic_store(&m->functions[i].run[mode], rows[i]->run[mode]);
    m->table[mode] = table;
    return CUDA_SUCCESS;
}

CUresult sg_module_open(sg_module_t *m, softgpu_mode_t mode)
{
    pthread_mutex_lock(&sg_libraries_lock);
    CUresult result = open_locked(m, mode);
    pthread_mutex_unlock(&sg_libraries_lock);
    return result;
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
    CUresult result = CUDA_SUCCESS;
    if (!atomic_load(&f->run[*mode]))
        result = sg_module_open(f->module, *mode);
    if (!result && !atomic_load(&f->run[*mode]))
        result = sg_function_compile(f, *mode);
    if (!result && f->run[*mode])
        return CUDA_SUCCESS;
    sg_log(1, "%s has no code for %s mode", f->kernel->name, names[*mode]);
    return result ? result : CUDA_ERROR_NOT_SUPPORTED;
}

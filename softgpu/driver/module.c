/* module.c: modules and libraries, which are the same thing here (module.h). */
#include "module.h"

#include <stdlib.h>
#include <string.h>

static sg_module_t *modules; /* loaded ones; guarded by sg.lock */

/* ---- loading ---- */

static uint32_t param_bytes(const softgpu_kernel_t *k)
{
    return k->param_count
               ? k->params[k->param_count - 1].offset_bytes + k->params[k->param_count - 1].size_bytes
               : 0;
}

static void module_free_locked(sg_module_t *m)
{
    sg_variables_free_locked(m->variables);
    free(m->functions);
    free(m->origin);
    free(m->library);
    free(m);
}

static CUresult fill(sg_module_t *m)
{
    const softgpu_kernel_table_t *table = m->table[SOFTGPU_FAST];
    const bool all = m->unit == SG_ALL_UNITS;
    SG_TRY(sg_variables_create(m, sg_current_context()->device));
    table = m->table[SOFTGPU_FAST];
    const softgpu_kernel_t *const *rows = all ? table->kernels : table->units[m->unit].kernels;
    m->kernel_count = all ? table->kernel_count : table->units[m->unit].kernel_count;
    m->functions = calloc(m->kernel_count ? m->kernel_count : 1, sizeof *m->functions);
    if (!m->functions)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < m->kernel_count; i++) {
        CUfunction f = &m->functions[i];
        f->kernel = rows[i];
        f->module = m;
        f->param_bytes = param_bytes(rows[i]);
        atomic_store(&f->max_dynamic_shared, -1);
        atomic_store(&f->run[SOFTGPU_FAST], rows[i]->run[SOFTGPU_FAST]);
    }
    /* A mode that was asked for must be there; what auto needs is seen when a kernel is launched. */
    for (int mode = SOFTGPU_SIMT; mode < SOFTGPU_MODE_COUNT; mode++)
        if (m->library && sg_mode_is((softgpu_mode_t)mode))
            SG_TRY(sg_module_open(m, (softgpu_mode_t)mode));
    return CUDA_SUCCESS;
}

/* `image`: in memory, or NULL. */
static CUresult load(const char *origin, const void *image, CUcontext ctx, sg_module_t **out)
{
    sg_module_t *m = calloc(1, sizeof *m);
    if (!m || !(m->origin = strdup(origin))) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&sg_libraries_lock);
    m->table[SOFTGPU_FAST] = sg_library_find(origin, &m->library);
    CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (m->table[SOFTGPU_FAST]) {
        m->ctx = ctx;
        m->unit = image ? sg_library_unit(m->table[SOFTGPU_FAST], image) : SG_ALL_UNITS;
        result = fill(m);
        if (result == CUDA_ERROR_NOT_SUPPORTED)
            result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    pthread_mutex_unlock(&sg_libraries_lock);
    sg_lock();
    if (result) {
        module_free_locked(m);
    } else {
        m->next = modules;
        modules = m;
        *out = m;
    }
    sg_unlock();
    return result;
}

static CUresult load_image(const void *image, CUcontext ctx, sg_module_t **out)
{
    char origin[PATH_MAX];
    if (!image || !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_library_origin(image, origin)) {
        sg_log(1, "a module image at %p lies in no file, so no kernel library belongs to it", image);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    return load(origin, image, ctx, out);
}

static CUresult load_file(const char *path, CUcontext ctx, sg_module_t **out)
{
    char origin[PATH_MAX];
    if (!path || !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!realpath(path, origin))
        return CUDA_ERROR_FILE_NOT_FOUND;
    return load(origin, NULL, ctx, out);
}

void sg_modules_drop_locked(CUcontext ctx)
{
    for (sg_module_t **link = &modules, *m; (m = *link);) {
        if (m->ctx != ctx) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        module_free_locked(m);
    }
}

static CUresult unload(const void *handle)
{
    SG_TRY(sg_enter_context());
    SG_TRY(sg_wait_context(NULL));
    sg_lock();
    sg_module_t **link = &modules;
    while (*link && *link != handle)
        link = &(*link)->next;
    sg_module_t *m = *link;
    if (m) {
        *link = m->next;
        module_free_locked(m);
    }
    sg_unlock();
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult find_function(CUfunction *out, const void *handle, const char *name)
{
    SG_TRY(sg_enter_context());
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    sg_lock();
    for (const sg_module_t *m = modules; m; m = m->next) {
        if (m != handle)
            continue;
        result = CUDA_ERROR_NOT_FOUND;
        for (uint32_t i = 0; i < m->kernel_count; i++)
            if (sg_names_match(m->functions[i].kernel->name, name)) {
                *out = &m->functions[i];
                result = CUDA_SUCCESS;
            }
    }
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    SG_TRY(sg_enter_unsafe());
    return load_file(path, sg_current_context(), (sg_module_t **)out);
}

SG_EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    SG_TRY(sg_enter_unsafe());
    return load_image(image, sg_current_context(), (sg_module_t **)out);
}

SG_EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count, CUjit_option *options,
                                      void **values)
{
    (void)count, (void)options, (void)values; /* nothing is compiled */
    return cuModuleLoadData(out, image);
}

SG_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    return cuModuleLoadData(out, image);
}

SG_EXPORT CUresult cuModuleUnload(CUmodule module)
{
    SG_TRY(sg_enter_unsafe());
    return unload(module);
}

SG_EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    return find_function(out, module, name);
}

static CUresult function_count(unsigned *count, const void *handle)
{
    SG_TRY(sg_enter_context());
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    sg_lock();
    for (const sg_module_t *m = modules; m && count; m = m->next)
        if (m == handle) {
            *count = m->kernel_count;
            result = CUDA_SUCCESS;
        }
    sg_unlock();
    return count ? result : CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module)
{
    return function_count(count, module);
}

static CUresult find_global(CUdeviceptr *out, size_t *bytes, const void *handle, const char *name)
{
    SG_TRY(sg_enter_context());
    if (!name || (!out && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    sg_lock();
    for (const sg_module_t *m = modules; m; m = m->next) {
        CUdeviceptr address;
        size_t size;
        if (m != handle)
            continue;
        result = CUDA_ERROR_NOT_FOUND;
        if (!sg_variable_find(m->variables, name, &address, &size))
            continue;
        result = CUDA_SUCCESS;
        if (out)
            *out = address;
        if (bytes)
            *bytes = size;
    }
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule module, const char *name)
{
    return find_global(out, bytes, module, name);
}

/* The first `count` of the module's functions. */
static CUresult enumerate(CUfunction *out, unsigned count, const void *handle)
{
    SG_TRY(sg_enter_context());
    if (!out || !count)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    sg_lock();
    for (const sg_module_t *m = modules; m; m = m->next) {
        if (m != handle)
            continue;
        result = CUDA_SUCCESS;
        for (unsigned i = 0; i < count && i < m->kernel_count; i++)
            out[i] = &m->functions[i];
    }
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned count, CUmodule module)
{
    return enumerate(out, count, module);
}

SG_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned count, CUlibrary library)
{
    return enumerate((CUfunction *)out, count, library);
}

SG_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    SG_TRY(sg_enter());
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuLibraryLoadData(CUlibrary *out, const void *image, CUjit_option *jit, void **jit_values,
                                     unsigned jit_count, CUlibraryOption *options, void **values,
                                     unsigned count)
{
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    SG_TRY(sg_enter_context());
    return load_image(image, NULL, (sg_module_t **)out);
}

SG_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit,
                                         void **jit_values, unsigned jit_count, CUlibraryOption *options,
                                         void **values, unsigned count)
{
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    SG_TRY(sg_enter_context());
    return load_file(path, NULL, (sg_module_t **)out);
}

SG_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
    return unload(library);
}

SG_EXPORT CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
    return find_function((CUfunction *)out, library, name);
}

SG_EXPORT CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library)
{
    return function_count(count, library);
}

SG_EXPORT CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library)
{
    unsigned count;
    SG_TRY(function_count(&count, library));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmodule)library;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *out, size_t *bytes, CUlibrary library, const char *name)
{
    return find_global(out, bytes, library, name);
}

bool sg_function_loaded_locked(CUfunction f)
{
    const uintptr_t at = (uintptr_t)f;
    bool found = false;
    for (const sg_module_t *m = modules; m && !found; m = m->next) {
        const uintptr_t first = (uintptr_t)m->functions, bytes = m->kernel_count * sizeof *m->functions;
        found = at - first < bytes && (at - first) % sizeof *m->functions == 0;
    }
    return found;
}

CUresult sg_function_check(CUfunction f)
{
    sg_lock();
    bool found = sg_function_loaded_locked(f);
    sg_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

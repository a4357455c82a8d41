/* module.c: modules and libraries, which have handles of two kinds (module.h). */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/rules.h"

#include <signal.h>
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

static uint32_t buffer_bytes(const softgpu_kernel_t *k)
{
    const uint32_t last = k->param_count - 1;
    return k->param_count ? sg_param_offset(k, last) + k->params[last].size_bytes : 0;
}

static void module_free_locked(sg_module_t *m)
{
    sg_variables_free_locked(m->variables);
    for (uint32_t i = 0; m->ptx && i < m->table->unit_count; i++)
        sg_ptx_free(m->ptx[i]);
    free(m->ptx);
    free(m->functions);
    free(m->kernels);
    free(m->origin);
    free(m->library);
    free(m);
}

static CUresult fill(sg_module_t *m)
{
    const bool all = m->unit == SG_ALL_UNITS;
    SG_TRY(sg_variables_create(m, sg_current_context()->device));
    const softgpu_kernel_table_t *table = m->table;
    const softgpu_kernel_t *const *rows = all ? table->kernels : table->units[m->unit].kernels;
    m->kernel_count = all ? table->kernel_count : table->units[m->unit].kernel_count;
    m->functions = calloc(m->kernel_count ? m->kernel_count : 1, sizeof *m->functions);
    m->kernels = m->ctx ? NULL : calloc(m->kernel_count ? m->kernel_count : 1, sizeof *m->kernels);
    if (!m->functions || (!m->ctx && !m->kernels))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < m->kernel_count; i++) {
        CUfunction f = &m->functions[i];
        f->kernel = rows[i];
        f->module = m;
        f->param_bytes = param_bytes(rows[i]);
        f->buffer_bytes = buffer_bytes(rows[i]);
        atomic_store(&f->max_dynamic_shared, -1);
        for (int mode = 0; mode < SOFTGPU_MODE_COUNT; mode++)
            atomic_store(&f->run[mode], rows[i]->run[mode]);
        if (m->kernels)
            m->kernels[i].function = f;
    }
    return CUDA_SUCCESS;
}

/* Of PTX that the program has loaded: a library for the mode that all kernels run in. */
static CUresult compile(sg_module_t *m, const char *ptx, size_t bytes)
{
    sg_ptx_module_t *parts;
    SG_TRY(sg_jit_open(ptx, bytes, &m->ptx_target, &parts, &m->library));
    m->table = sg_library_open(m->library, false);
    m->ptx = m->table ? calloc(1, sizeof *m->ptx) : NULL;
    if (m->ptx)
        m->ptx[0] = parts;
    else
        sg_ptx_free(parts);
    return !m->table ? CUDA_ERROR_INVALID_PTX : !m->ptx ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* A unit's first function among the module's. */
static uint32_t first_of(const sg_module_t *m, uint32_t unit)
{
    uint32_t first = 0;
    for (uint32_t u = 0; m->unit == SG_ALL_UNITS && u < unit; u++)
        first += m->table->units[u].kernel_count;
    return first;
}

/* The table's number of units: of none. */
static uint32_t unit_of(const sg_module_t *m, CUfunction f)
{
    if (m->unit != SG_ALL_UNITS)
        return m->unit;
    uint32_t unit = 0;
    while (unit < m->table->unit_count && first_of(m, unit + 1) <= (uint32_t)(f - m->functions))
        unit++;
    return unit;
}

static CUresult read_ptx(sg_module_t *m, uint32_t unit, softgpu_mode_t mode, const char *kernel)
{
    const bool of_unit = unit < m->table->unit_count;
    const char *text = of_unit ? m->table->units[unit].ptx : NULL;
    if (text && !m->ptx && !(m->ptx = calloc(m->table->unit_count, sizeof *m->ptx)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (of_unit && m->ptx && m->ptx[unit])
        return CUDA_SUCCESS;
    if (text)
        return sg_jit_module(text, strlen(text), &m->ptx[unit]);
    sg_log(1, "%s has no code for %s mode: its kernel library was built without Clang (softgpu-clang++)",
           kernel, mode == SOFTGPU_SIMT ? "SIMT" : "checked");
    return CUDA_ERROR_NOT_SUPPORTED;
}

static bool same_parameters(const softgpu_kernel_t *a, const softgpu_kernel_t *b)
{
    bool same = a->param_count == b->param_count;
    for (uint32_t i = 0; same && i < a->param_count; i++)
        same = a->params[i].offset_bytes == b->params[i].offset_bytes &&
               a->params[i].size_bytes == b->params[i].size_bytes;
    return same;
}

/* What a library has of the unit's kernels. */
static CUresult take_kernels(sg_module_t *m, uint32_t unit, const softgpu_kernel_table_t *table,
                             softgpu_mode_t mode)
{
    CUfunction all = m->functions + first_of(m, unit);
    for (uint32_t k = 0; k < table->kernel_count; k++)
        for (uint32_t i = 0; i < m->table->units[unit].kernel_count; i++) {
            if (!sg_names_match(table->kernels[k]->name, all[i].kernel->name))
                continue;
            if (!same_parameters(table->kernels[k], all[i].kernel)) {
                sg_log(1, "%s: g++ and Clang disagree on its parameters", all[i].kernel->name);
                return CUDA_ERROR_NOT_SUPPORTED;
            }
            atomic_store(&all[i].run[mode], table->kernels[k]->run[mode]);
        }
    return CUDA_SUCCESS;
}

static CUresult compile_kernel(CUfunction f, softgpu_mode_t mode)
{
    sg_module_t *m = f->module;
    const uint32_t unit = unit_of(m, f);
    char *path = NULL;
    sg_ptx_layout_t *layout = NULL;
    SG_TRY(read_ptx(m, unit, mode, f->kernel->name));
    if (!m->ptx_target && !(layout = sg_variables_layout(&m->table->units[unit], m->ptx[unit])))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sg_jit_kernel(m->ptx[unit], f->kernel->name, layout, &path);
    const softgpu_kernel_table_t *table = result ? NULL : sg_library_open(path, false);
    if (!result && !table)
        result = CUDA_ERROR_INVALID_PTX;
    if (table)
        result = sg_variables_attach(m, unit, &table);
    if (!result)
        result = take_kernels(m, unit, table, mode);
    free(layout);
    free(path);
    return result;
}

CUresult sg_function_compile(CUfunction f, softgpu_mode_t mode)
{
    pthread_mutex_lock(&sg_libraries_lock);
    const CUresult result = atomic_load(&f->run[mode]) ? CUDA_SUCCESS : compile_kernel(f, mode);
    pthread_mutex_unlock(&sg_libraries_lock);
    return result;
}

/* The library that belongs to the image by where it lies, else what becomes of its PTX. `image`: NULL: all of the file. */
static CUresult find_library(sg_module_t *m, const void *image, bool in_file)
{
    size_t bytes = 0;
    const bool text = image && sg_jit_is_ptx(image, &bytes);
    const char *ptx = text ? image : image ? sg_fatbin_ptx(image, &bytes) : NULL;
    const softgpu_kernel_table_t *table = NULL;
    if (in_file && text)
        table = sg_library_open(m->origin, true);
    else if (in_file)
        table = sg_library_find(m->origin, image, &m->library);
    m->unit = table && image ? sg_library_unit(table, image) : SG_ALL_UNITS;
    m->table = table;
    if (table)
        return CUDA_SUCCESS;
    if (ptx)
        return compile(m, ptx, bytes);
    if (in_file)
        sg_library_missing(m->origin);
    else
        sg_log(1,
               "a module image at %p lies in no file, so no kernel library belongs to it, and has no PTX for "
               "this device",
               image);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

/* `image`: in memory, or NULL; `origin`: the file that it is in, or NULL. What is loaded into a context waits until that
 * has done all that it had to do (meta-pytorch/torchcomms 2334). */
static CUresult load(const char *origin, const void *image, CUcontext ctx, sg_module_t **out)
{
    if (ctx)
        SG_TRY(sg_wait_context(ctx));
    sg_module_t *m = calloc(1, sizeof *m);
    if (!m || !(m->origin = strdup(origin ? origin : "PTX"))) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&sg_libraries_lock);
    m->ctx = ctx;
    CUresult result = find_library(m, image, origin != NULL);
    if (!result)
        result = fill(m);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = CUDA_ERROR_NO_BINARY_FOR_GPU;
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
    return load(sg_library_origin(image, origin) ? origin : NULL, image, ctx, out);
}

static CUresult load_file(const char *path, CUcontext ctx, sg_module_t **out)
{
    char origin[PATH_MAX];
    if (!path || !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!realpath(path, origin))
        return CUDA_ERROR_FILE_NOT_FOUND;
    char *image = sg_jit_read(origin);
    const CUresult result = load(origin, image, ctx, out);
    free(image);
    return result;
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

/* ---- handles ---- */

/* No document says what a driver does with a module in place of a library. */
static _Noreturn void die_of_module(void)
{
    sg_log(0, "rule %s: a CUmodule is given as a CUlibrary: a driver may follow it and crash",
           sg_rule_name(SG_RULE_HANDLE));
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    abort();
}

static sg_module_t *module_locked(CUmodule handle)
{
    sg_module_t *m = modules;
    while (m && (const void *)m != handle)
        m = m->next;
    return m;
}

static sg_module_t *library_locked(CUlibrary handle)
{
    sg_module_t *m = modules;
    while (m && (m->ctx || (const void *)&m->library_handle != handle)) {
        if ((const void *)m == handle)
            die_of_module();
        m = m->next;
    }
    return m;
}

/* Which of a module's functions, or of its kernels, the address is; -1: none. */
static int64_t place_in(const void *address, const void *array, size_t count, size_t size)
{
    const uintptr_t at = (uintptr_t)address - (uintptr_t)array;
    return array && at < count * size && at % size == 0 ? (int64_t)(at / size) : -1;
}

bool sg_function_loaded_locked(CUfunction f)
{
    const sg_module_t *m = modules;
    while (m && place_in(f, m->functions, m->kernel_count, sizeof *m->functions) < 0)
        m = m->next;
    return m != NULL;
}

static CUfunction function_of_locked(CUkernel kernel)
{
    const sg_module_t *m = modules;
    while (m && place_in(kernel, m->kernels, m->kernel_count, sizeof *m->kernels) < 0)
        m = m->next;
    return m ? kernel->function : NULL;
}

CUresult sg_function_check(CUfunction f)
{
    sg_lock();
    const bool found = sg_function_loaded_locked(f);
    if (!found && function_of_locked((CUkernel)f))
        sg_broken(SG_RULE_HANDLE, CUDA_ERROR_INVALID_HANDLE, "a CUkernel is given as a CUfunction");
    sg_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sg_function_resolve(CUfunction *f)
{
    sg_lock();
    if (!sg_function_loaded_locked(*f))
        *f = function_of_locked((CUkernel)*f);
    sg_unlock();
    return *f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sg_kernel_resolve(CUkernel kernel, CUfunction *out)
{
    sg_lock();
    *out = function_of_locked(kernel);
    if (!*out && sg_function_loaded_locked((CUfunction)kernel))
        sg_broken(SG_RULE_HANDLE, CUDA_ERROR_INVALID_HANDLE, "a CUfunction is given as a CUkernel");
    sg_unlock();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- unloading and looking up ---- */

static CUresult unload(CUmodule module, CUlibrary library)
{
    SG_TRY(sg_enter_context());
    SG_TRY(sg_wait_context(NULL));
    sg_lock();
    sg_module_t *m = module ? module_locked(module) : library_locked(library), **link = &modules;
    if (m && module && !m->ctx)
        m = NULL; /* its library's, which goes by its own call */
    while (m && *link != m)
        link = &(*link)->next;
    if (m) {
        *link = m->next;
        module_free_locked(m);
    }
    sg_unlock();
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Which of the module's kernels; -1: there is none of the name. */
static int64_t find_name(const sg_module_t *m, const char *name)
{
    int64_t i = (int64_t)m->kernel_count - 1;
    while (i >= 0 && !sg_names_match(m->functions[i].kernel->name, name))
        i--;
    return i;
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
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(out, image);
}

SG_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    return cuModuleLoadData(out, image);
}

SG_EXPORT CUresult cuModuleUnload(CUmodule module)
{
    SG_TRY(sg_enter_unsafe());
    return module ? unload(module, NULL) : CUDA_ERROR_INVALID_HANDLE;
}

/* A call on a module: `found` is its result with the module as `m`, under the lock. */
#define LOOK_UP(wrong, find, found)                                                                          \
    SG_TRY(sg_enter_context());                                                                              \
    if (wrong)                                                                                               \
        return CUDA_ERROR_INVALID_VALUE;                                                                     \
    sg_lock();                                                                                               \
    const sg_module_t *m = find;                                                                             \
    const CUresult result = m ? (found) : CUDA_ERROR_INVALID_HANDLE;                                         \
    sg_unlock();                                                                                             \
    return result

static CUresult function_by_name(CUfunction *out, const sg_module_t *m, const char *name)
{
    const int64_t i = find_name(m, name);
    if (i < 0)
        return CUDA_ERROR_NOT_FOUND;
    *out = &m->functions[i];
    return CUDA_SUCCESS;
}

static CUresult kernel_by_name(CUkernel *out, const sg_module_t *m, const char *name)
{
    const int64_t i = find_name(m, name);
    if (i < 0)
        return CUDA_ERROR_NOT_FOUND;
    *out = &m->kernels[i];
    return CUDA_SUCCESS;
}

static CUresult count_functions(unsigned *count, const sg_module_t *m)
{
    *count = m->kernel_count;
    return CUDA_SUCCESS;
}

static CUresult list_functions(CUfunction *out, unsigned count, const sg_module_t *m)
{
    for (unsigned i = 0; i < count && i < m->kernel_count; i++)
        out[i] = &m->functions[i];
    return CUDA_SUCCESS;
}

static CUresult list_kernels(CUkernel *out, unsigned count, const sg_module_t *m)
{
    for (unsigned i = 0; i < count && i < m->kernel_count; i++)
        out[i] = &m->kernels[i];
    return CUDA_SUCCESS;
}

static CUresult variable_by_name(CUdeviceptr *out, size_t *bytes, const sg_module_t *m, const char *name)
{
    /* Where there is no such variable the address becomes 0 (H200, driver 580.159.04). */
    CUdeviceptr address = 0;
    size_t size = 0;
    const bool found = sg_variable_find(m->variables, name, &address, &size);
    if (out)
        *out = address;
    if (bytes)
        *bytes = size;
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult find_function(CUfunction *out, CUmodule module, const char *name)
{
    LOOK_UP(!out || !name, module_locked(module), function_by_name(out, m, name));
}

SG_EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    SG_TRY(find_function(out, module, name));
    return sg_function_load(*out);
}

SG_EXPORT CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module)
{
    LOOK_UP(!count, module_locked(module), count_functions(count, m));
}

SG_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule module, const char *name)
{
    LOOK_UP(!name || (!out && !bytes), module_locked(module), variable_by_name(out, bytes, m, name));
}

SG_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned count, CUmodule module)
{
    LOOK_UP(!out || !count, module_locked(module), list_functions(out, count, m));
}

SG_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned count, CUlibrary library)
{
    LOOK_UP(!out || !count, library_locked(library), list_kernels(out, count, m));
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
    sg_module_t *m;
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    SG_TRY(sg_enter_context());
    SG_TRY(load_image(image, NULL, out ? &m : NULL));
    *out = (CUlibrary)(void *)&m->library_handle;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit,
                                         void **jit_values, unsigned jit_count, CUlibraryOption *options,
                                         void **values, unsigned count)
{
    sg_module_t *m;
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    SG_TRY(sg_enter_context());
    SG_TRY(load_file(path, NULL, out ? &m : NULL));
    *out = (CUlibrary)(void *)&m->library_handle;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
    return unload(NULL, library);
}

SG_EXPORT CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
    LOOK_UP(!out || !name, library_locked(library), kernel_by_name(out, m, name));
}

SG_EXPORT CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library)
{
    LOOK_UP(!count, library_locked(library), count_functions(count, m));
}

static CUresult module_of(CUmodule *out, const sg_module_t *m)
{
    *out = (CUmodule)(uintptr_t)m;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library)
{
    LOOK_UP(!out, library_locked(library), module_of(out, m));
}

SG_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *out, size_t *bytes, CUlibrary library, const char *name)
{
    LOOK_UP(!name || (!out && !bytes), library_locked(library), variable_by_name(out, bytes, m, name));
}

SG_EXPORT CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel kernel)
{
    CUfunction f;
    SG_TRY(sg_enter_look_up());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_kernel_resolve(kernel, &f));
    *out = (CUlibrary)(void *)&f->module->library_handle;
    return CUDA_SUCCESS;
}

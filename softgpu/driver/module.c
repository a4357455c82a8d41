/* module.c: modules, libraries, kernels. A library and a module are the same thing here, and so are a kernel
 * and its function: both name a row of a kernel library's table. How a module image leads to its kernel
 * library: softgpu/kernel_abi.h.
 */
#include "streams.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sg_module {
    uint32_t kernel_count;
    struct CUfunc_st *functions; /* [kernel_count], in the table's order */
    char *origin;                /* the object that holds the image */
    CUcontext ctx;               /* NULL: a library, which belongs to none */
    sg_module_t *next;
};

static sg_module_t *modules; /* loaded ones; guarded by sg.lock */

/* ---- finding the kernel library ---- */

static const softgpu_kernel_table_t *table_of(const char *path, bool must_be_loaded)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | (must_be_loaded ? RTLD_NOLOAD : 0));
    if (!object) {
        if (!must_be_loaded && !access(path, R_OK))
            sg_log(1, "%s cannot be loaded: %s", path, dlerror());
        return NULL;
    }
    const softgpu_kernel_table_t *table = dlsym(object, SOFTGPU_TABLE_SYMBOL);
    /* dlsym also looks into what the object depends on. */
    struct link_map *map = NULL;
    Dl_info where;
    if (table && (dlinfo(object, RTLD_DI_LINKMAP, &map) || !dladdr(table, &where) ||
                  (ElfW(Addr))where.dli_fbase != map->l_addr))
        table = NULL;
    if (table && table->abi_version != SOFTGPU_ABI_VERSION) {
        sg_log(1, "%s has kernel table version %u, this driver wants %u: rebuild it", path,
               table->abi_version, SOFTGPU_ABI_VERSION);
        table = NULL;
    }
    if (!table)
        dlclose(object);
    return table; /* stays loaded: kernels may be running */
}

static const softgpu_kernel_table_t *find_table(const char *origin)
{
    char path[2 * PATH_MAX];
    const softgpu_kernel_table_t *table = table_of(origin, true);
    if (table)
        return table;
    snprintf(path, sizeof path, "%s.softgpu.so", origin);
    if ((table = table_of(path, false)))
        return table;
    const char *base = strrchr(origin, '/');
    base = base ? base + 1 : origin;
    const char *folders = getenv("SOFTGPU_KERNEL_PATH");
    for (const char *at = folders; at && *at;) {
        size_t length = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s.softgpu.so", (int)length, at, base);
        if ((table = table_of(path, false)))
            return table;
        at += length + (at[length] == ':');
    }
    sg_log(1,
           "no kernels for %s: neither %s.softgpu.so nor one in SOFTGPU_KERNEL_PATH=%s (softgpu_kernels() "
           "builds it)",
           origin, origin, folders ? folders : "");
    return NULL;
}

/* The file that an image in memory belongs to; false if it is in none. */
static bool origin_of(const void *image, char out[PATH_MAX])
{
    Dl_info info;
    if (!image || !dladdr(image, &info) || !info.dli_fname)
        return false;
    /* For the program itself the name may be relative, or whatever it was started as. */
    void *self = dlopen(NULL, RTLD_NOW);
    struct link_map *map = NULL;
    bool main_program = self && !dlinfo(self, RTLD_DI_LINKMAP, &map) && !*map->l_name &&
                        !strcmp(info.dli_fname, program_invocation_name);
    if (self)
        dlclose(self);
    const char *name = main_program ? "/proc/self/exe" : info.dli_fname;
    ssize_t n = main_program ? readlink(name, out, PATH_MAX - 1) : -1;
    if (n > 0)
        out[n] = 0;
    else if (!realpath(info.dli_fname, out))
        snprintf(out, PATH_MAX, "%s", info.dli_fname);
    return true;
}

/* ---- loading ---- */

static uint32_t param_bytes(const softgpu_kernel_t *k)
{
    return k->param_count
               ? k->params[k->param_count - 1].offset_bytes + k->params[k->param_count - 1].size_bytes
               : 0;
}

static CUresult load(const char *origin, CUcontext ctx, sg_module_t **out)
{
    const softgpu_kernel_table_t *table = find_table(origin);
    if (!table)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    sg_module_t *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->ctx = ctx;
    m->kernel_count = table->kernel_count;
    m->functions = calloc(table->kernel_count ? table->kernel_count : 1, sizeof *m->functions);
    m->origin = strdup(origin);
    if (!m->functions || !m->origin) {
        free(m->functions);
        free(m->origin);
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < table->kernel_count; i++)
        m->functions[i] = (struct CUfunc_st){
            .kernel = table->kernels[i], .module = m, .param_bytes = param_bytes(table->kernels[i])};
    sg_lock();
    m->next = modules;
    modules = m;
    sg_unlock();
    *out = m;
    return CUDA_SUCCESS;
}

static CUresult load_image(const void *image, CUcontext ctx, sg_module_t **out)
{
    char origin[PATH_MAX];
    if (!image || !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!origin_of(image, origin)) {
        sg_log(1, "a module image at %p lies in no file, so no kernel library belongs to it", image);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    return load(origin, ctx, out);
}

static CUresult load_file(const char *path, CUcontext ctx, sg_module_t **out)
{
    char origin[PATH_MAX];
    if (!path || !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!realpath(path, origin))
        return CUDA_ERROR_FILE_NOT_FOUND;
    return load(origin, ctx, out);
}

static void module_free(sg_module_t *m)
{
    free(m->functions);
    free(m->origin);
    free(m);
}

void sg_modules_drop_locked(CUcontext ctx)
{
    for (sg_module_t **link = &modules, *m; (m = *link);) {
        if (m->ctx != ctx) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        module_free(m);
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
    if (m)
        *link = m->next;
    sg_unlock();
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    module_free(m);
    return CUDA_SUCCESS;
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
            if (!strcmp(m->functions[i].kernel->name, name)) {
                *out = &m->functions[i];
                result = CUDA_SUCCESS;
            }
    }
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    SG_TRY(sg_enter_context());
    return load_file(path, sg_current_context(), (sg_module_t **)out);
}

SG_EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    SG_TRY(sg_enter_context());
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

SG_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule module, const char *name)
{
    unsigned count;
    (void)out, (void)bytes;
    SG_TRY(function_count(&count, module));
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_FOUND; /* kernel libraries have no device variables in this form */
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
    return cuModuleGetGlobal_v2(out, bytes, (CUmodule)library, name);
}

/* ---- functions ---- */

CUresult sg_function_check(CUfunction f)
{
    const uintptr_t at = (uintptr_t)f;
    bool found = false;
    sg_lock();
    for (const sg_module_t *m = modules; m && !found; m = m->next) {
        const uintptr_t first = (uintptr_t)m->functions, bytes = m->kernel_count * sizeof *m->functions;
        found = at - first < bytes && (at - first) % sizeof *m->functions == 0;
    }
    sg_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUcontext sg_function_context(CUfunction f)
{
    return f->module->ctx;
}

static CUresult check_function(CUfunction f)
{
    SG_TRY(sg_enter_look_up());
    return sg_function_check(f);
}

SG_EXPORT CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
    SG_TRY(check_function((CUfunction)kernel));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuFuncGetModule(CUmodule *out, CUfunction f)
{
    SG_TRY(check_function(f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmodule)f->module;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel kernel)
{
    return cuFuncGetModule((CUmodule *)out, (CUfunction)kernel);
}

SG_EXPORT CUresult cuFuncGetName(const char **out, CUfunction f)
{
    SG_TRY(check_function(f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = f->kernel->name;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuKernelGetName(const char **out, CUkernel kernel)
{
    return cuFuncGetName(out, (CUfunction)kernel);
}

SG_EXPORT CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *size)
{
    SG_TRY(check_function(f));
    if (!offset || index >= f->kernel->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = f->kernel->params[index].offset_bytes;
    if (size)
        *size = f->kernel->params[index].size_bytes;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return cuFuncGetParamInfo((CUfunction)kernel, index, offset, size);
}

SG_EXPORT CUresult cuFuncGetAttribute(int *out, CUfunction_attribute attribute, CUfunction f)
{
    SG_TRY(check_function(f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *out = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *out = f->max_dynamic_shared ? f->max_dynamic_shared : 48 << 10;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *out = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *out = 80;
        break;
    default:
        if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        *out = 0;
    }
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuKernelGetAttribute(int *out, CUfunction_attribute attribute, CUkernel kernel,
                                        CUdevice device)
{
    return sg_device_check(device) ? CUDA_ERROR_INVALID_DEVICE
                                   : cuFuncGetAttribute(out, attribute, (CUfunction)kernel);
}

SG_EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    SG_TRY(check_function(f));
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > 163 << 10)
            return CUDA_ERROR_INVALID_VALUE;
        f->max_dynamic_shared = value;
        return CUDA_SUCCESS;
    }
    return attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ? CUDA_SUCCESS
                                                                           : CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                        CUdevice device)
{
    return sg_device_check(device) ? CUDA_ERROR_INVALID_DEVICE
                                   : cuFuncSetAttribute((CUfunction)kernel, attribute, value);
}

SG_EXPORT CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config)
{
    (void)config;
    return check_function(f);
}

SG_EXPORT CUresult cuFuncLoad(CUfunction f)
{
    return check_function(f);
}

SG_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction f)
{
    SG_TRY(check_function(f));
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

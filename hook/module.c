/* module.c: code that comes and goes. Modules and libraries take device memory for code and variables. It is
 * measured when one was loaded, and when a function is launched for the first time, for much is
 * loaded no earlier. Where the device has none left because ebb has it all, ebb gives way. What variables there are is
 * looked up in the image, before the program may free that. What is looked up in a module is noted by its kind (function.h). */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/device.h"
#include "alloc/kernel/kernel.h"
#include "ckpt/run/run.h"
#include "hook/internal.h"

/* ---- they come ---- */

/* First what is free, then, as the size needed is unknown, a part of what is in use. */
static bool give_way(unsigned round)
{
    enum { ROUNDS = 3, PART = 16 };
    ebb_device_t *dev = round < ROUNDS ? ebb_enter() : NULL;
    if (!dev)
        return false;
    if (round)
        ebb_run_make_room(dev, ebb_chunks_limit(dev) / PART * round + 1);
    ebb_heap_reclaim(dev, SIZE_MAX, true);
    ebb_chunks_release(dev);
    ebb_unlock();
    return true;
}

/* `out`: where the CUmodule or CUlibrary is by now. */
static CUresult noted(CUresult result, const void *out, bool is_library, const void *image, bool from_file)
{
    ebb_device_t *dev = result ? NULL : ebb_enter_any();
    if (dev) {
        ebb_module_loaded(dev->ebb, *(const void *const *)out, is_library, image, from_file);
        ebb_unlock();
    }
    if (!result && !ebb_captures_under_way(&ebb_global) && (dev = ebb_enter())) {
        ebb_measure(dev);
        ebb_unlock();
    }
    return result;
}

static CUresult loaded(CUresult result, const void *out, bool is_library, const void *image)
{
    return noted(result, out, is_library, image, false);
}

/* A file in memory, with a byte of zero behind it, as PTX has one. NULL: it cannot be had. */
static char *read_file(const char *path)
{
    struct stat s;
    size_t bytes = 0, at = 0;
    ssize_t n = 1;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && !fstat(file, &s))
        bytes = (size_t)s.st_size;
    char *image = calloc(1, bytes + 1);
    for (; image && at < bytes && n > 0; at += n > 0 ? (size_t)n : 0)
        n = read(file, image + at, bytes - at);
    if (file >= 0)
        close(file);
    if (at && at == bytes)
        return image;
    free(image);
    return NULL;
}

static CUresult loaded_file(CUresult result, const void *out, bool is_library, const char *path)
{
    char *image = result ? NULL : read_file(path);
    noted(result, out, is_library, image, true);
    free(image);
    return result;
}

/* `note` of the result, where it stands, and what was loaded. */
#define LOAD_CALL(function, parameters, arguments, note, is_library, source)                                 \
    static CUresult load_by_##function parameters                                                            \
    {                                                                                                        \
        CUresult result = EBB_PASS(function, arguments);                                                     \
        for (unsigned round = 0; result == CUDA_ERROR_OUT_OF_MEMORY && give_way(round); round++)             \
            result = EBB_PASS(function, arguments);                                                          \
        return note(result, out, is_library, source);                                                        \
    }                                                                                                        \
    PLAIN_CALL(function, parameters, load_by_##function arguments)

LOAD_CALL(cuModuleLoad, (CUmodule * out, const char *path), (out, path), loaded_file, false, path)
LOAD_CALL(cuModuleLoadData, (CUmodule * out, const void *image), (out, image), loaded, false, image)
LOAD_CALL(cuModuleLoadDataEx,
          (CUmodule * out, const void *image, unsigned count, CUjit_option *options, void **values),
          (out, image, count, options, values), loaded, false, image)
LOAD_CALL(cuModuleLoadFatBinary, (CUmodule * out, const void *image), (out, image), loaded, false, image)
LOAD_CALL(cuLibraryLoadData,
          (CUlibrary * out, const void *image, CUjit_option *jit, void **jit_values, unsigned jit_count,
           CUlibraryOption *options, void **values, unsigned count),
          (out, image, jit, jit_values, jit_count, options, values, count), loaded, true, image)
LOAD_CALL(cuLibraryLoadFromFile,
          (CUlibrary * out, const char *path, CUjit_option *jit, void **jit_values, unsigned jit_count,
           CUlibraryOption *options, void **values, unsigned count),
          (out, path, jit, jit_values, jit_count, options, values, count), loaded_file, true, path)

/* ---- functions are looked up in them ---- */

/* [count] functions of a module, or kernels of a library. */
static CUresult found(CUresult result, const void *list, unsigned count, bool kernels, const void *owner)
{
    const ebb_device_t *dev = result || !list ? NULL : ebb_enter_any();
    if (!dev)
        return result;
    for (unsigned i = 0; i < count; i++)
        ebb_function_note(dev->ebb, ((const CUfunction *)list)[i], kernels, owner);
    ebb_unlock();
    return result;
}

static CUresult found_by_kernel(CUresult result, const CUfunction *out, CUkernel kernel)
{
    const ebb_device_t *dev = result ? NULL : ebb_enter_any();
    if (dev) {
        ebb_function_note(dev->ebb, *out, false, ebb_function_owner(dev->ebb, (CUfunction)kernel));
        ebb_unlock();
    }
    return result;
}

/* As many of a list as the driver has filled in. */
static unsigned listed(unsigned room, CUresult result, unsigned present)
{
    if (result)
        return 0;
    return room < present ? room : present;
}

static unsigned functions_in(CUmodule module, unsigned room)
{
    unsigned present = 0;
    const CUresult result = EBB_PASS(cuModuleGetFunctionCount, (&present, module));
    return listed(room, result, present);
}

static unsigned kernels_in(CUlibrary library, unsigned room)
{
    unsigned present = 0;
    const CUresult result = EBB_PASS(cuLibraryGetKernelCount, (&present, library));
    return listed(room, result, present);
}

PLAIN_CALL(cuModuleGetFunction, (CUfunction * out, CUmodule module, const char *name),
           found(EBB_PASS(cuModuleGetFunction, (out, module, name)), out, 1, false, module))
PLAIN_CALL(cuLibraryGetKernel, (CUkernel * out, CUlibrary library, const char *name),
           found(EBB_PASS(cuLibraryGetKernel, (out, library, name)), out, 1, true, library))
PLAIN_CALL(cuKernelGetFunction, (CUfunction * out, CUkernel kernel),
           found_by_kernel(EBB_PASS(cuKernelGetFunction, (out, kernel)), out, kernel))
PLAIN_CALL(cuModuleEnumerateFunctions, (CUfunction * out, unsigned count, CUmodule module),
           found(EBB_PASS(cuModuleEnumerateFunctions, (out, count, module)), out, functions_in(module, count),
                 false, module))
PLAIN_CALL(cuLibraryEnumerateKernels, (CUkernel * out, unsigned count, CUlibrary library),
           found(EBB_PASS(cuLibraryEnumerateKernels, (out, count, library)), out, kernels_in(library, count),
                 true, library))

/* ---- they go ---- */

/* A library may be loaded on every device. */
static void tell(ebb_t *ebb, const void *handle)
{
    ebb_visit_t visit;
    ebb_lock_stay(true); /* the module is the process's */
    for (unsigned i = 0; i < ebb->device_count; i++)
        if (ebb->device[i].context && !ebb_device_visit(&ebb->device[i], &visit)) {
            ebb_run_unloading(&ebb->device[i], handle);
            ebb_device_return(visit);
        }
    ebb_lock_stay(false);
}

static CUresult unload(CUmodule module, CUlibrary library)
{
    const void *handle = module ? (const void *)module : library;
    const ebb_device_t *dev = ebb_enter_work();
    if (dev) {
        tell(dev->ebb, handle);
        ebb_signatures_forget(dev->ebb);
        ebb_foreign_forget(dev->ebb, handle);
        ebb_module_forget(dev->ebb, handle);
        ebb_unlock();
    }
    return module ? EBB_PASS(cuModuleUnload, (module)) : EBB_PASS(cuLibraryUnload, (library));
}

PLAIN_CALL(cuModuleUnload, (CUmodule module), unload(module, NULL))
PLAIN_CALL(cuLibraryUnload, (CUlibrary library), unload(NULL, library))

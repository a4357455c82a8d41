/* intercept_module.c: code that comes and goes. Modules and libraries take device memory for code and variables. It is
 * measured when one was loaded, and when a function is launched for the first time, for much is
 * loaded no earlier. Where the device has none left because ebb has it all, ebb gives way. What variables there are is
 * looked up in the image, before the program may free that. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"
#include "capture.h"
#include "chunk.h"
#include "core.h"
#include "foreign.h"
#include "heap.h"
#include "intercept.h"
#include "module.h"

/* ---- they come ---- */

/* First what nobody uses, then, as nobody says how much is needed, a part of what is in use. */
static bool give_way(unsigned round)
{
    enum { ROUNDS = 3, PART = 16 };
    if (round >= ROUNDS || !ebb_enter())
        return false;
    if (round && ebb_listener && ebb_listener->make_room)
        ebb_listener->make_room(ebb_chunks_limit() / PART * round + 1);
    ebb_heap_reclaim(SIZE_MAX, true);
    ebb_chunks_release();
    ebb_unlock();
    return true;
}

/* `out`: where the CUmodule or CUlibrary is by now. */
static CUresult loaded(CUresult result, const void *out, const void *image)
{
    if (!result && ebb_enter_any()) {
        ebb_module_loaded(*(const void *const *)out, image);
        ebb_unlock();
    }
    if (!result && !ebb_captures_under_way() && ebb_enter()) {
        ebb_heap_measure();
        ebb_unlock();
    }
    return result;
}

/* The file as an image; a byte of zero follows it, as behind PTX, unless it fills its last page. */
static CUresult loaded_file(CUresult result, const void *out, const char *path)
{
    struct stat s;
    void *image = MAP_FAILED;
    int file = result ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && !fstat(file, &s) && s.st_size > 0 && s.st_size % sysconf(_SC_PAGESIZE))
        image = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (file >= 0)
        close(file);
    loaded(result, out, image == MAP_FAILED ? NULL : image);
    if (image != MAP_FAILED)
        munmap(image, (size_t)s.st_size);
    return result;
}

/* `note` of the result, where it stands, and what was loaded. */
#define LOAD_CALL(function, parameters, arguments, note, source)                                             \
    static CUresult load_by_##function parameters                                                            \
    {                                                                                                        \
        CUresult result = EBB_PASS(function, arguments);                                                     \
        for (unsigned round = 0; result == CUDA_ERROR_OUT_OF_MEMORY && give_way(round); round++)             \
            result = EBB_PASS(function, arguments);                                                          \
        return note(result, out, source);                                                                    \
    }                                                                                                        \
    PLAIN_CALL(function, parameters, load_by_##function arguments)

LOAD_CALL(cuModuleLoad, (CUmodule * out, const char *path), (out, path), loaded_file, path)
LOAD_CALL(cuModuleLoadData, (CUmodule * out, const void *image), (out, image), loaded, image)
LOAD_CALL(cuModuleLoadDataEx,
          (CUmodule * out, const void *image, unsigned count, CUjit_option *options, void **values),
          (out, image, count, options, values), loaded, image)
LOAD_CALL(cuModuleLoadFatBinary, (CUmodule * out, const void *image), (out, image), loaded, image)
LOAD_CALL(cuLibraryLoadData,
          (CUlibrary * out, const void *image, CUjit_option *jit, void **jit_values, unsigned jit_count,
           CUlibraryOption *options, void **values, unsigned count),
          (out, image, jit, jit_values, jit_count, options, values, count), loaded, image)
LOAD_CALL(cuLibraryLoadFromFile,
          (CUlibrary * out, const char *path, CUjit_option *jit, void **jit_values, unsigned jit_count,
           CUlibraryOption *options, void **values, unsigned count),
          (out, path, jit, jit_values, jit_count, options, values, count), loaded_file, path)

/* ---- they go ---- */

/* Functions of an unloaded module may come again as others, and so may its variables. */
static uint64_t modules_unloaded;

uint64_t ebb_modules_unloaded(void)
{
    return modules_unloaded;
}

/* A library may be loaded on every device. */
static void tell_listener(const void *handle)
{
    ebb_visit_t visit;
    for (unsigned slot = 0; slot < ebb_slot_count && ebb_listener && ebb_listener->unloading; slot++)
        if (ebb_served[slot].context && !ebb_slot_visit(slot, &visit)) {
            ebb_listener->unloading(handle);
            ebb_slot_return(visit);
        }
}

static CUresult unload(CUmodule module, CUlibrary library)
{
    if (ebb_enter_work()) {
        tell_listener(module ? (const void *)module : library);
        ebb_signatures_forget();
        modules_unloaded++;
        ebb_foreign_forget(module ? (const void *)module : library);
        ebb_module_forget(module ? (const void *)module : library);
        ebb_unlock();
    }
    return module ? EBB_PASS(cuModuleUnload, (module)) : EBB_PASS(cuLibraryUnload, (library));
}

PLAIN_CALL(cuModuleUnload, (CUmodule module), unload(module, NULL))
PLAIN_CALL(cuLibraryUnload, (CUlibrary library), unload(NULL, library))

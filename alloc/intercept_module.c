/* intercept_module.c: code that comes: what variables it has is looked up in the image, before the program may free
 * that. Code that goes: intercept_work.c. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "intercept.h"
#include "module.h"

/* `out`: where the CUmodule or CUlibrary is by now. */
static CUresult note(CUresult result, const void *out, const void *image)
{
    if (!result && ebb_enter_any()) {
        ebb_module_loaded(*(const void *const *)out, image);
        ebb_unlock();
    }
    return result;
}

/* The file as an image; a byte of zero follows it, as behind PTX, unless it fills its last page. */
static CUresult note_file(CUresult result, const void *out, const char *path)
{
    struct stat s;
    void *image = MAP_FAILED;
    int file = result ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && !fstat(file, &s) && s.st_size > 0 && s.st_size % sysconf(_SC_PAGESIZE))
        image = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (file >= 0)
        close(file);
    note(result, out, image == MAP_FAILED ? NULL : image);
    if (image != MAP_FAILED)
        munmap(image, (size_t)s.st_size);
    return result;
}

PLAIN_CALL(cuModuleLoad, (CUmodule * out, const char *path),
           note_file(EBB_PASS(cuModuleLoad, (out, path)), out, path))
PLAIN_CALL(cuModuleLoadData, (CUmodule * out, const void *image),
           note(EBB_PASS(cuModuleLoadData, (out, image)), out, image))
PLAIN_CALL(cuModuleLoadDataEx,
           (CUmodule * out, const void *image, unsigned count, CUjit_option *options, void **values),
           note(EBB_PASS(cuModuleLoadDataEx, (out, image, count, options, values)), out, image))
PLAIN_CALL(cuModuleLoadFatBinary, (CUmodule * out, const void *image),
           note(EBB_PASS(cuModuleLoadFatBinary, (out, image)), out, image))
PLAIN_CALL(cuLibraryLoadData,
           (CUlibrary * out, const void *image, CUjit_option *jit, void **jit_values, unsigned jit_count,
            CUlibraryOption *options, void **values, unsigned count),
           note(EBB_PASS(cuLibraryLoadData, (out, image, jit, jit_values, jit_count, options, values, count)),
                out, image))
PLAIN_CALL(cuLibraryLoadFromFile,
           (CUlibrary * out, const char *path, CUjit_option *jit, void **jit_values, unsigned jit_count,
            CUlibraryOption *options, void **values, unsigned count),
           note_file(EBB_PASS(cuLibraryLoadFromFile,
                              (out, path, jit, jit_values, jit_count, options, values, count)),
                     out, path))

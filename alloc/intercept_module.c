/* intercept_module.c: modules and libraries take device memory for code and variables. It is measured when one was
 * loaded, and when a function is launched for the first time (intercept_work.c), for much is loaded no earlier. Where
 * the device has none left because ebb has it all, ebb gives way. */
#include "capture.h"
#include "chunk.h"
#include "heap.h"
#include "intercept.h"

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

static CUresult loaded(CUresult result)
{
    if (!result && !ebb_captures_under_way() && ebb_enter()) {
        ebb_heap_measure();
        ebb_unlock();
    }
    return result;
}

#define LOAD_CALL(field, symbol, parameters, arguments)                                                      \
    static CUresult load_by_##field parameters                                                               \
    {                                                                                                        \
        CUresult result = EBB_PASS(field, arguments);                                                        \
        for (unsigned round = 0; result == CUDA_ERROR_OUT_OF_MEMORY && give_way(round); round++)             \
            result = EBB_PASS(field, arguments);                                                             \
        return loaded(result);                                                                               \
    }                                                                                                        \
    PLAIN_CALL(symbol, parameters, load_by_##field arguments)

LOAD_CALL(cuModuleLoad, cuModuleLoad, (CUmodule * out, const char *name), (out, name))
LOAD_CALL(cuModuleLoadData, cuModuleLoadData, (CUmodule * out, const void *image), (out, image))
LOAD_CALL(cuModuleLoadDataEx, cuModuleLoadDataEx,
          (CUmodule * out, const void *image, unsigned count, CUjit_option *options, void **values),
          (out, image, count, options, values))
LOAD_CALL(cuModuleLoadFatBinary, cuModuleLoadFatBinary, (CUmodule * out, const void *image), (out, image))
LOAD_CALL(cuLibraryLoadData, cuLibraryLoadData,
          (CUlibrary * out, const void *code, CUjit_option *options, void **values, unsigned count,
           CUlibraryOption *library_options, void **library_values, unsigned library_count),
          (out, code, options, values, count, library_options, library_values, library_count))
LOAD_CALL(cuLibraryLoadFromFile, cuLibraryLoadFromFile,
          (CUlibrary * out, const char *name, CUjit_option *options, void **values, unsigned count,
           CUlibraryOption *library_options, void **library_values, unsigned library_count),
          (out, name, options, values, count, library_options, library_values, library_count))

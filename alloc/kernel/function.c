#include "alloc/kernel/function.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/table.h"
#include "alloc/kernel/module.h"

typedef struct known {
    uint64_t function;
    const void *owner; /* NULL: not asked yet */
    bool is_kernel;
} known_t;

static ebb_table_t table;

static known_t *find(CUfunction f)
{
    return ebb_table_find(&table, sizeof(known_t), (uintptr_t)f);
}

/* Without memory the driver is asked again. */
static void put(known_t known)
{
    bool added;
    known_t *k = ebb_table_add(&table, sizeof *k, known.function, &added);
    if (k)
        *k = known;
}

void ebb_function_note(CUfunction f, bool is_kernel, const void *owner)
{
    if (f)
        put((known_t){(uintptr_t)f, owner && !is_kernel ? ebb_module_source(owner) : owner, is_kernel});
}

void ebb_functions_forget(const void *owner)
{
    const ebb_table_t old = table;
    const known_t *k = old.at;
    memset(&table, 0, sizeof table);
    for (size_t i = 0; i < old.room; i++)
        if (k[i].function && k[i].owner != owner)
            put(k[i]);
    free(old.at);
}

bool ebb_function_is_kernel(CUfunction f)
{
    int value;
    const known_t *k = find(f);
    if (k || !ebb_driver.cuFuncGetAttribute)
        return k && k->is_kernel;
    const CUresult result = ebb_driver.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
    if (!result || result == CUDA_ERROR_INVALID_HANDLE)
        ebb_function_note(f, result != CUDA_SUCCESS, NULL);
    return result == CUDA_ERROR_INVALID_HANDLE;
}

static const void *library_of(CUfunction kernel)
{
    CUlibrary library = NULL;
    if (ebb_driver.cuKernelGetLibrary && ebb_driver.cuKernelGetLibrary(&library, (CUkernel)kernel))
        return NULL;
    return library;
}

static const void *module_of(CUfunction f)
{
    CUmodule module = NULL;
    if (ebb_driver.cuFuncGetModule && ebb_driver.cuFuncGetModule(&module, f))
        return NULL;
    return module;
}

const void *ebb_function_owner(CUfunction f)
{
    const known_t *k = find(f);
    if (k && k->owner)
        return k->owner;
    const bool is_kernel = ebb_function_is_kernel(f);
    const void *owner = is_kernel ? library_of(f) : module_of(f);
    if (owner)
        ebb_function_note(f, is_kernel, owner);
    k = find(f);
    return k ? k->owner : NULL;
}

CUresult ebb_function_ask_param(CUfunction f, size_t index, size_t *offset, size_t *size)
{
    if (!ebb_function_is_kernel(f))
        return ebb_driver.cuFuncGetParamInfo(f, index, offset, size);
    return ebb_driver.cuKernelGetParamInfo ? ebb_driver.cuKernelGetParamInfo((CUkernel)f, index, offset, size)
                                           : CUDA_ERROR_NOT_SUPPORTED;
}

const char *ebb_function_name(CUfunction f)
{
    const char *name = NULL;
    if (!ebb_function_is_kernel(f))
        return ebb_driver.cuFuncGetName(&name, f) ? NULL : name;
    return ebb_driver.cuKernelGetName && !ebb_driver.cuKernelGetName(&name, (CUkernel)f) ? name : NULL;
}

bool ebb_function_is_from(CUfunction f, const void *handle)
{
    const void *owner = ebb_function_owner(f);
    /* Of what ebb has not seen loading it cannot tell which library's module it is. */
    return !owner || owner == handle || (!ebb_module_is_known(owner) && !ebb_module_is_known(handle));
}

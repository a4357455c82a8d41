#include "alloc/kernel/function.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/kernel/module.h"

typedef struct known {
    CUfunction function; /* NULL: free */
    const void *owner;   /* NULL: not asked yet */
    bool is_kernel;
} known_t;

/* By hash of the function. */
static struct {
    known_t *slot;
    size_t count, room; /* room: 0 or a power of two */
} table;

static known_t *place_of(known_t *slots, size_t room, CUfunction f)
{
    size_t i = (size_t)((uintptr_t)f * 0x9e3779b97f4a7c15u >> 20) & (room - 1);
    while (slots[i].function && slots[i].function != f)
        i = (i + 1) & (room - 1);
    return &slots[i];
}

/* The table anew, without the functions of `gone`. */
static bool rebuild(size_t room, const void *gone)
{
    known_t *slots = calloc(room, sizeof *slots);
    if (!slots)
        return false;
    size_t count = 0;
    for (size_t i = 0; i < table.room; i++) {
        const known_t *k = &table.slot[i];
        if (!k->function || (gone && k->owner == gone))
            continue;
        *place_of(slots, room, k->function) = *k;
        count++;
    }
    free(table.slot);
    table.slot = slots;
    table.room = room;
    table.count = count;
    return true;
}

static known_t *find(CUfunction f)
{
    known_t *k = table.room ? place_of(table.slot, table.room, f) : NULL;
    return k && k->function ? k : NULL;
}

void ebb_function_note(CUfunction f, bool is_kernel, const void *owner)
{
    if (!f || (2 * table.count >= table.room && !rebuild(table.room ? 2 * table.room : 256, NULL)))
        return; /* the driver is asked, then */
    if (owner && !is_kernel)
        owner = ebb_module_source(owner);
    known_t *k = place_of(table.slot, table.room, f);
    table.count += !k->function;
    *k = (known_t){f, owner, is_kernel};
}

void ebb_functions_forget(const void *owner)
{
    if (!table.count || rebuild(table.room, owner))
        return;
    free(table.slot); /* rather nothing than what may be another one's */
    memset(&table, 0, sizeof table);
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

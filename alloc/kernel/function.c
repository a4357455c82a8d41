#include "alloc/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/table.h"
#include "alloc/device.h"

typedef struct known {
    uint64_t function;
    const void *owner; /* NULL: not asked yet */
    bool is_kernel;
} known_t;

static known_t *find(ebb_t *ebb, CUfunction f)
{
    return ebb_table_find(&ebb->functions, sizeof(known_t), (uintptr_t)f);
}

/* Without memory the driver is asked again. */
static void put(ebb_t *ebb, known_t known)
{
    bool added;
    known_t *k = ebb_table_add(&ebb->functions, sizeof *k, known.function, &added);
    if (k)
        *k = known;
}

void ebb_function_note(ebb_t *ebb, CUfunction f, bool is_kernel, const void *owner)
{
    if (f)
        put(ebb,
            (known_t){(uintptr_t)f, owner && !is_kernel ? ebb_module_source(ebb, owner) : owner, is_kernel});
}

void ebb_functions_forget(ebb_t *ebb, const void *owner)
{
    const ebb_table_t old = ebb->functions;
    const known_t *k = old.at;
    memset(&ebb->functions, 0, sizeof ebb->functions);
    for (size_t i = 0; i < old.room; i++)
        if (k[i].function && k[i].owner != owner)
            put(ebb, k[i]);
    free(old.at);
}

bool ebb_function_is_kernel(ebb_t *ebb, CUfunction f)
{
    int value;
    const known_t *k = find(ebb, f);
    if (k || !ebb_driver.cuFuncGetAttribute)
        return k && k->is_kernel;
    const CUresult result = ebb_driver.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
    if (!result || result == CUDA_ERROR_INVALID_HANDLE)
        ebb_function_note(ebb, f, result != CUDA_SUCCESS, NULL);
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

const void *ebb_function_owner(ebb_t *ebb, CUfunction f)
{
    const known_t *k = find(ebb, f);
    if (k && k->owner)
        return k->owner;
    const bool is_kernel = ebb_function_is_kernel(ebb, f);
    const void *owner = is_kernel ? library_of(f) : module_of(f);
    if (owner)
        ebb_function_note(ebb, f, is_kernel, owner);
    k = find(ebb, f);
    return k ? k->owner : NULL;
}

CUresult ebb_function_ask_param(ebb_t *ebb, CUfunction f, size_t index, size_t *offset, size_t *size)
{
    if (!ebb_function_is_kernel(ebb, f))
        return ebb_driver.cuFuncGetParamInfo(f, index, offset, size);
    return ebb_driver.cuKernelGetParamInfo ? ebb_driver.cuKernelGetParamInfo((CUkernel)f, index, offset, size)
                                           : CUDA_ERROR_NOT_SUPPORTED;
}

const char *ebb_function_name(ebb_t *ebb, CUfunction f)
{
    const char *name = NULL;
    if (!ebb_function_is_kernel(ebb, f))
        return ebb_driver.cuFuncGetName(&name, f) ? NULL : name;
    return ebb_driver.cuKernelGetName && !ebb_driver.cuKernelGetName(&name, (CUkernel)f) ? name : NULL;
}

bool ebb_function_is_from(ebb_t *ebb, CUfunction f, const void *handle)
{
    const void *owner = ebb_function_owner(ebb, f);
    /* Of what ebb has not seen loading it cannot tell which library's module it is. */
    return !owner || owner == handle ||
           (!ebb_module_is_known(ebb, owner) && !ebb_module_is_known(ebb, handle));
}

/* ---- parameters ---- */

enum { MOST_PARAMS = 1023 }; /* of a kernel with more nothing is known */

/* False: the driver does not tell. */
static bool list_params(ebb_t *ebb, CUfunction f, struct ebb_param *params, size_t room, size_t *count)
{
    CUresult result = CUDA_SUCCESS;
    size_t n = 0, offset, size;
    while (n < room && !(result = ebb_function_ask_param(ebb, f, n, &offset, &size)))
        params[n++] = (struct ebb_param){(uint32_t)offset, (uint32_t)size};
    *count = n;
    /* The driver ends the list with INVALID_VALUE. */
    return n < room && result == CUDA_ERROR_INVALID_VALUE;
}

static bool ask_driver(ebb_t *ebb, CUfunction f, ebb_signature_t *out)
{
    struct ebb_param params[MOST_PARAMS + 1], *copy;
    size_t n = 0;
    if (!list_params(ebb, f, params, MOST_PARAMS + 1, &n))
        return false;
    copy = malloc((n ? n : 1) * sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, params, n * sizeof *copy);
    size_t end = n ? params[n - 1].offset_bytes + (size_t)params[n - 1].size_bytes : 0, filled = 0;
    bool is_plain = true, has_structures = false;
    for (size_t i = 0; i < n; i++) {
        has_structures |= params[i].size_bytes > 8;
        filled += params[i].size_bytes;
        is_plain &= params[i].size_bytes == 8 && params[i].offset_bytes == 8 * i;
    }
    *out = (ebb_signature_t){.function = f,
                             .param_count = (uint32_t)n,
                             .param_bytes = (uint32_t)end,
                             .has_gaps = filled < end,
                             .is_plain = is_plain,
                             .has_structures = has_structures,
                             .params = copy};
    return true;
}

ebb_signature_t *ebb_signature_of(ebb_t *ebb, CUfunction f)
{
    const uint64_t key = (uintptr_t)f;
    ebb_signature_t *s = ebb_table_find(&ebb->signatures.by_function, sizeof *s, key), found;
    bool added;
    if (s || !f || !ask_driver(ebb, f, &found))
        return s;
    s = ebb_table_add(&ebb->signatures.by_function, sizeof *s, key, &added);
    if (!s) {
        free((void *)found.params);
        return NULL;
    }
    *s = found;
    ebb->signatures.grew = true;
    return s;
}

bool ebb_signatures_grew(ebb_t *ebb)
{
    const bool grew = ebb->signatures.grew;
    ebb->signatures.grew = false;
    return grew;
}

void ebb_signatures_forget(ebb_t *ebb)
{
    const ebb_signature_t *at = ebb->signatures.by_function.at;
    for (size_t i = 0; i < ebb->signatures.by_function.room; i++)
        free((void *)at[i].params);
    free(ebb->signatures.by_function.at);
    memset(&ebb->signatures, 0, sizeof ebb->signatures);
}

bool ebb_function_parameter(ebb_t *ebb, CUfunction f, uint32_t index, uint32_t *offset, uint32_t *size)
{
    const ebb_signature_t *s = ebb_signature_of(ebb, f);
    if (!s || index >= s->param_count)
        return false;
    *offset = s->params[index].offset_bytes;
    *size = s->params[index].size_bytes;
    return true;
}

CUresult ebb_launch_block(ebb_t *ebb, const CUlaunchConfig *config, CUfunction f, const unsigned char *block)
{
    void *params[MOST_PARAMS];
    const ebb_signature_t *s = ebb_signature_of(ebb, f);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY; /* it was known when the block was made */
    for (uint32_t i = 0; i < s->param_count; i++)
        params[i] = (unsigned char *)(uintptr_t)block + s->params[i].offset_bytes;
    return ebb_driver.cuLaunchKernelEx ? ebb_driver.cuLaunchKernelEx(config, f, params, NULL)
                                       : CUDA_ERROR_NOT_SUPPORTED;
}

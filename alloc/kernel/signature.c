#include "alloc/kernel/signature.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/table.h"
#include "alloc/kernel/function.h"

enum { MOST_PARAMS = 1023 }; /* of a kernel with more nothing is known */

static struct {
    ebb_table_t by_function; /* ebb_signature_t */
    bool grew;
} known;

/* False: the driver does not tell. */
static bool list_params(CUfunction f, struct ebb_param *params, size_t room, size_t *count)
{
    CUresult result = CUDA_SUCCESS;
    size_t n = 0, offset, size;
    while (n < room && !(result = ebb_function_ask_param(f, n, &offset, &size)))
        params[n++] = (struct ebb_param){(uint32_t)offset, (uint32_t)size};
    *count = n;
    /* The driver ends the list with INVALID_VALUE. */
    return n < room && result == CUDA_ERROR_INVALID_VALUE;
}

/* Where a kernel's constant bank has its parameters (compiled with nvcc 13.0, EIATTR_PARAM_CBANK in .nv.info). 0: not known. */
static size_t bank_begin(void)
{
    CUdevice device;
    int major = 0;
    if (ebb_driver.cuCtxGetDevice(&device) ||
        ebb_driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
        return 0;
    return major == 7 || major == 8 ? 0x160 : major == 9 ? 0x210 : major >= 10 && major <= 12 ? 0x380 : 0;
}

/* Its address is aligned, and not its offset, if its type has an alignment that goes with both. */
static bool is_shifted(const struct ebb_param *p, size_t begin)
{
    for (size_t align = 32; align <= 128; align *= 2)
        if (p->size_bytes && p->size_bytes % align == 0 &&
            (!begin || ((begin + p->offset_bytes) % align == 0 && p->offset_bytes % align)))
            return true;
    return false;
}

static bool ask_driver(CUfunction f, ebb_signature_t *out)
{
    struct ebb_param params[MOST_PARAMS + 1], *copy;
    size_t n = 0;
    if (!list_params(f, params, MOST_PARAMS + 1, &n))
        return false;
    copy = malloc((n ? n : 1) * sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, params, n * sizeof *copy);
    size_t end = n ? params[n - 1].offset_bytes + (size_t)params[n - 1].size_bytes : 0, filled = 0;
    const size_t begin = bank_begin();
    bool is_plain = true, has_structures = false, shifted = false;
    for (size_t i = 0; i < n; i++) {
        has_structures |= params[i].size_bytes > 8;
        shifted |= is_shifted(&params[i], begin);
        filled += params[i].size_bytes;
        is_plain &= params[i].size_bytes == 8 && params[i].offset_bytes == 8 * i;
    }
    *out = (ebb_signature_t){.function = f,
                             .param_count = (uint32_t)n,
                             .param_bytes = (uint32_t)end,
                             .has_gaps = filled < end,
                             .is_plain = is_plain,
                             .has_structures = has_structures,
                             .is_shifted = shifted,
                             .params = copy};
    return true;
}

ebb_signature_t *ebb_signature_of(CUfunction f)
{
    const uint64_t key = (uintptr_t)f;
    ebb_signature_t *s = ebb_table_find(&known.by_function, sizeof *s, key), found;
    bool added;
    if (s || !f || !ask_driver(f, &found))
        return s;
    s = ebb_table_add(&known.by_function, sizeof *s, key, &added);
    if (!s) {
        free((void *)found.params);
        return NULL;
    }
    *s = found;
    known.grew = true;
    return s;
}

bool ebb_signatures_grew(void)
{
    const bool grew = known.grew;
    known.grew = false;
    return grew;
}

void ebb_signatures_forget(void)
{
    const ebb_signature_t *at = known.by_function.at;
    for (size_t i = 0; i < known.by_function.room; i++)
        free((void *)at[i].params);
    free(known.by_function.at);
    memset(&known, 0, sizeof known);
}

bool ebb_function_parameter(CUfunction f, uint32_t index, uint32_t *offset, uint32_t *size)
{
    const ebb_signature_t *s = ebb_signature_of(f);
    if (!s || index >= s->param_count)
        return false;
    *offset = s->params[index].offset_bytes;
    *size = s->params[index].size_bytes;
    return true;
}

CUresult ebb_launch_block(const CUlaunchConfig *config, CUfunction f, const unsigned char *block)
{
    void *params[MOST_PARAMS];
    const ebb_signature_t *s = ebb_signature_of(f);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY; /* it was known when the block was made */
    for (uint32_t i = 0; i < s->param_count; i++)
        params[i] = (unsigned char *)(uintptr_t)block + s->params[i].offset_bytes;
    return ebb_driver.cuLaunchKernelEx ? ebb_driver.cuLaunchKernelEx(config, f, params, NULL)
                                       : CUDA_ERROR_NOT_SUPPORTED;
}

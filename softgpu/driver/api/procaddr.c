/* procaddr.c: how functions are found by name and version, and what is not provided. */
#include "softgpu/driver/api/gate.h"
#include "softgpu/driver/stream/streams.h"

#include <stdlib.h>
#include <string.h>

unsigned sg_not_supported(const char *name)
{
    static _Atomic(const char *) said[1024]; /* by stub or caller: names are literals, so addresses do */
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        const char *none = NULL;
        if (atomic_load(&said[i]) == name)
            break;
        if (atomic_compare_exchange_strong(&said[i], &none, name)) {
            sg_log(1, "%s is not provided by this device (CUDA_ERROR_NOT_SUPPORTED)", name);
            break;
        }
        if (none == name)
            break;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult look_up(const char *name, void **out, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    CUdriverProcAddressQueryResult ignored;
    if (!status)
        status = &ignored;
    if (!name || !out || flags & ~(cuuint64_t)3)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    for (const sg_form_t *f = sg_forms; f->name; f++) {
        if (strcmp(f->name, name))
            continue;
        if (f->version > version) {
            if (!*out)
                *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
            continue;
        }
        *out = (void *)(uintptr_t)(per_thread && f->per_thread ? f->per_thread : f->plain);
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

SG_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                       CUdriverProcAddressQueryResult *status)
{
    return look_up(name, out, version, flags, status);
}

SG_EXPORT CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags);
SG_EXPORT CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags)
{
    return look_up(name, out, version, flags, NULL);
}

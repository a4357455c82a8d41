#ifndef __CUDA_API_VERSION_INTERNAL /* whoever compiles it: the whole table (driver.h) */
#define __CUDA_API_VERSION_INTERNAL
#endif
#include "alloc/base/driver.h"

#include "alloc/base/log.h"

ebb_driver_t ebb_driver;

/* What the driver is asked for has a form of CUDA 12 at least. */
static int at_least_12(int version)
{
    return version < 12000 ? 12000 : version;
}

ebb_status_t ebb_driver_fill(PFN_cuGetProcAddress_v12000 real)
{
    CUdriverProcAddressQueryResult status;
    ebb_status_t result = 0;
    ebb_driver.cuGetProcAddress = real;
#define X(name, version)                                                                                     \
    if (real(#name, (void **)&ebb_driver.name, at_least_12(version), 0, &status) || !ebb_driver.name) {      \
        ebb_log(EBB_WARN, "the driver has no %s (CUDA %d.%d): ebb leaves this program alone", #name,         \
                version / 1000, version % 1000 / 10);                                                        \
        result = CUDA_ERROR_NOT_FOUND;                                                                       \
    }
    EBB_DRIVER_FUNCTIONS(X)
#undef X
#define X(field, name, version)                                                                              \
    if (real(#name, (void **)&ebb_driver.field, version, 0, &status))                                        \
        ebb_driver.field = NULL;
    EBB_DRIVER_MORE(X)
#undef X
    return result;
}

#ifndef __CUDA_API_VERSION_INTERNAL /* in every target that compiles this: the whole table (driver.h) */
#define __CUDA_API_VERSION_INTERNAL
#endif
#include "alloc/base/driver.h"

#include "alloc/base/status.h"

ebb_driver_t ebb_driver;

static const struct {
    const char *name;
    int version;
    bool required;
    void **field;
} calls[] = {
#define CALL_REQUIRED(name, version, field) {name, version, true, field},
#define CALL_OPTIONAL(name, version, field) {name, version, false, field},
#define CALL_UNUSED(name, version, field)
#define CALL(name, symbol, version, form, use) CALL_##use(#name, version, (void **)&ebb_driver.symbol)
#include "alloc/base/driver_calls.h"
};

ebb_status_t ebb_driver_fill(PFN_cuGetProcAddress_v12000 real)
{
    CUdriverProcAddressQueryResult status;
    ebb_status_t result = 0;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (real(calls[i].name, calls[i].field, calls[i].version, 0, &status))
            *calls[i].field = NULL;
        if (*calls[i].field || !calls[i].required)
            continue;
        ebb_log(EBB_WARN, "the driver has no %s (CUDA %d.%d): ebb leaves this program alone", calls[i].name,
                calls[i].version / 1000, calls[i].version % 1000 / 10);
        result = CUDA_ERROR_NOT_FOUND;
    }
    ebb_driver.cuGetProcAddress_v2 =
        real; /* by which the program's look-ups go on, whatever the driver calls its own */
    return result;
}

/* fake_driver.c: a libcuda.so.1 for test_other_drivers.c. FAKE_DRIVER chooses what is wrong with it. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *kind)
{
    const char *chosen = getenv("FAKE_DRIVER");
    return chosen && !strcmp(chosen, kind);
}

static CUresult get_version(int *version)
{
    *version = is("old") ? 12020 : 13000;
    return CUDA_SUCCESS;
}

static CUresult init(unsigned flags)
{
    (void)flags;
    return is("no_device") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

static CUresult get_count(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

static CUcontext current;
static CUresult retain(CUcontext *context, CUdevice device)
{
    static int object;
    (void)device;
    *context = (CUcontext)(void *)&object;
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    {"cuDriverGetVersion", (void (*)(void))get_version},  {"cuInit", (void (*)(void))init},
    {"cuDeviceGetCount", (void (*)(void))get_count},      {"cuDeviceGet", (void (*)(void))get_device},
    {"cuDevicePrimaryCtxRetain", (void (*)(void))retain}, {"cuCtxGetCurrent", (void (*)(void))get_current},
    {"cuCtxSetCurrent", (void (*)(void))set_current},
};

/* Has these functions, and says of all others what a driver says. */
CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    (void)version, (void)flags;
    *out = NULL;
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (!strcmp(name, functions[i].name)) {
            memcpy(out, &functions[i].function, sizeof *out);
            *status = CU_GET_PROC_ADDRESS_SUCCESS;
        }
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

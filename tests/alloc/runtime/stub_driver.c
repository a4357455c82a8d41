/* stub_driver.c: a libcuda.so.1 in front of another one (INNER_DRIVER), as on WSL2: it asks dlsym for the inner driver's functions
 * itself, one of them when it is loaded and one when it is first used. (HAMi-core pull request 326 tells of that dlsym, and of the recursion when
 * a layer answers it.)
 *
 * And as under a profiler, something in it calls the driver's functions, as a program finds them, in the middle of a cuMemCreate or a
 * cuMemHostRegister. On other threads than the first these take long.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static PFN_cuInit_v2000 init;
static PFN_cuMemAlloc_v3020 allocate; /* the inner driver's, not to be called: as other entries of a table */
static PFN_cuMemCreate_v10020 create;
static PFN_cuMemHostRegister_v6050 pin;
static unsigned calls_beside; /* of these, on other threads */
static void *driver;

__attribute__((constructor)) static void open_inner(void)
{
    driver = dlopen(getenv("INNER_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    init = driver ? (PFN_cuInit_v2000)dlsym(driver, "cuInit") : NULL;
    allocate = driver ? (PFN_cuMemAlloc_v3020)dlsym(driver, "cuMemAlloc_v2") : NULL;
}

EXPORT CUresult cuInit(unsigned flags);
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes);
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status);
EXPORT void *stub_found(void);
EXPORT unsigned stub_calls_beside(void);

CUresult cuInit(unsigned flags)
{
    return init ? init(flags) : CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    return allocate(out, bytes);
}

/* What its constructor has been given. */
void *stub_found(void)
{
    return (void *)allocate;
}

unsigned stub_calls_beside(void)
{
    return __atomic_load_n(&calls_beside, __ATOMIC_RELAXED);
}

static bool look_around(void)
{
    PFN_cuMemGetInfo_v3020 info = (PFN_cuMemGetInfo_v3020)dlsym(RTLD_DEFAULT, "cuMemGetInfo_v2");
    PFN_cuCtxSynchronize_v2000 wait = (PFN_cuCtxSynchronize_v2000)dlsym(RTLD_DEFAULT, "cuCtxSynchronize");
    size_t free_bytes, total;
    if (gettid() != getpid()) {
        __atomic_add_fetch(&calls_beside, 1, __ATOMIC_RELAXED);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return !(info && info(&free_bytes, &total)) && !(wait && wait());
}

static CUresult create_and_look_around(CUmemGenericAllocationHandle *out, size_t bytes,
                                       const CUmemAllocationProp *prop, unsigned long long flags)
{
    return look_around() ? create(out, bytes, prop, flags) : CUDA_ERROR_UNKNOWN;
}

static CUresult pin_and_look_around(void *p, size_t bytes, unsigned flags)
{
    return look_around() ? pin(p, bytes, flags) : CUDA_ERROR_UNKNOWN;
}

CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    static PFN_cuGetProcAddress_v12000 inner;
    if (!inner && !(inner = (PFN_cuGetProcAddress_v12000)dlsym(driver, "cuGetProcAddress_v2")))
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    CUresult result = inner(name, out, version, flags, status);
    if (!result && *out && !strcmp(name, "cuMemCreate")) {
        create = (PFN_cuMemCreate_v10020)*out;
        *out = (void *)create_and_look_around;
    }
    if (!result && *out && !strcmp(name, "cuMemHostRegister")) {
        pin = (PFN_cuMemHostRegister_v6050)*out;
        *out = (void *)pin_and_look_around;
    }
    return result;
}

/* conformance.h: what the conformance programs share. One program, one behaviour; see README.md.
 *
 * A program defines CONFORMANCE { ... }. Before it runs there is a current primary context of device 0. Checks that
 * fail print file, line and values, and the program goes on to its end; it exits with 0, 1, or 77 (skipped).
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <cuda.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int conformance_failures;
static CUdevice device;
static CUcontext context;

static inline const char *conformance_name(CUresult code)
{
    const char *name = NULL;
    return cuGetErrorName(code, &name) == CUDA_SUCCESS && name ? name : "(no name)";
}

static inline void conformance_expect(CUresult got, CUresult want, const char *call, const char *file,
                                      int line)
{
    if (got == want)
        return;
    conformance_failures++;
    printf("%s:%d: %s: %s, expected %s\n", file, line, call, conformance_name(got), conformance_name(want));
}

static inline void conformance_check(bool holds, const char *what, const char *file, int line)
{
    if (holds)
        return;
    conformance_failures++;
    printf("%s:%d: %s does not hold\n", file, line, what);
}

/* The call returns this code. */
#define EXPECT(code, call) conformance_expect((call), (code), #call, __FILE__, __LINE__)
#define CHECK(condition)   conformance_check((condition), #condition, __FILE__, __LINE__)

/* The call succeeds, or nothing that follows makes sense. */
#define OK(call)                                                                                             \
    do {                                                                                                     \
        CUresult ok_ = (call);                                                                               \
        conformance_expect(ok_, CUDA_SUCCESS, #call, __FILE__, __LINE__);                                    \
        if (ok_ != CUDA_SUCCESS)                                                                             \
            exit(1);                                                                                         \
    } while (0)

#define SKIP(why)                                                                                            \
    do {                                                                                                     \
        printf("skipped: %s\n", why);                                                                        \
        exit(conformance_failures ? 1 : 77);                                                                 \
    } while (0)

static void conformance_body(void);
#define CONFORMANCE static void conformance_body(void)

int main(void)
{
    CUresult started = cuInit(0);
    if (started == CUDA_ERROR_NO_DEVICE)
        SKIP("no device");
    OK(started);
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    conformance_body();
    return conformance_failures ? 1 : 0;
}

static inline int device_attribute(CUdevice_attribute which)
{
    int value = 0;
    OK(cuDeviceGetAttribute(&value, which, device));
    return value;
}

/* ---- kernels of kernels.cu ---- */

/* Where their module is: of the build folder, or of wherever that was copied to. */
static inline const char *conformance_kernels(void)
{
    const char *elsewhere = getenv("CONFORMANCE_KERNELS");
    return elsewhere ? elsewhere : CONFORMANCE_KERNELS;
}

static inline CUmodule conformance_module(void)
{
    static CUmodule module;
    if (!module)
        OK(cuModuleLoad(&module, conformance_kernels()));
    return module;
}

/* By the name in kernels.cu, which declares them extern "C". */
static inline CUfunction kernel(const char *name)
{
    CUfunction f = NULL;
    OK(cuModuleGetFunction(&f, conformance_module(), name));
    return f;
}

/* One launch of `blocks` blocks of 128 threads; the arguments are addresses of values, as for cuLaunchKernel. */
#define LAUNCH(stream, name, blocks, ...)                                                                    \
    cuLaunchKernel(kernel(name), (unsigned)(blocks), 1, 1, 128, 1, 1, 0, stream, (void *[]){__VA_ARGS__},    \
                   NULL)

/* fill: n ints become `value`. */
static inline void fill(CUstream stream, CUdeviceptr p, int value, int n)
{
    OK(LAUNCH(stream, "fill", (n + 1023) / 1024, &p, &value, &n));
}
/* add: n ints grow by `value`. */
static inline void add(CUstream stream, CUdeviceptr p, int value, int n)
{
    OK(LAUNCH(stream, "add", (n + 1023) / 1024, &p, &value, &n));
}

/* A kernel that keeps `stream` busy until let_go. Launch nothing behind it that the host waits for meanwhile, and at most
 * one holding kernel a stream. */
typedef struct hold {
    volatile int *gate; /* mapped host memory: 0 while the kernel must wait */
} hold_t;

static inline hold_t hold(CUstream stream)
{
    hold_t h;
    void *p;
    CUdeviceptr seen;
    OK(cuMemHostAlloc(&p, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    memset(p, 0, 4096);
    h.gate = p;
    OK(cuMemHostGetDevicePointer(&seen, p, 0));
    OK(cuLaunchKernel(kernel("wait_for"), 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&seen}, NULL));
    return h;
}

static inline void let_go(hold_t h)
{
    *h.gate = 1;
    __sync_synchronize();
}

static inline CUdeviceptr device_alloc(size_t bytes)
{
    CUdeviceptr p = 0;
    OK(cuMemAlloc(&p, bytes));
    return p;
}

/* What a pool of memory of this device is made with. */
static inline CUmemPoolProps pool_props(void)
{
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    return props;
}

static inline int read_int(CUdeviceptr p)
{
    int value = 0;
    OK(cuMemcpyDtoH(&value, p, sizeof value));
    return value;
}

static inline CUstream new_stream(unsigned flags)
{
    CUstream s;
    OK(cuStreamCreate(&s, flags));
    return s;
}

static inline CUevent new_event(unsigned flags)
{
    CUevent e;
    OK(cuEventCreate(&e, flags));
    return e;
}

#endif

/* conformance.h: what the cases share. One file, one behaviour, in a process of its own; see README.md.
 *
 * A case defines CONFORMANCE { ... }. Before it runs there is a current primary context of device 0, in which all kernels of
 * kernels.cu are loaded: one that is loaded later runs only when the device has come to an end of what it does, a stream that is held
 * included (CUDA programming guide, Lazy Loading; H200, driver 580.159.04). Checks that
 * fail print file, line and values, and the case goes on to its end; it exits with 0, 1, or 77 (skipped).
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int conformance_failures;
extern int conformance_device; /* which one the case wants, before CUDA is initialised */
extern CUdevice device;
extern CUcontext context;
extern CUmodule module; /* kernels.cu */

void conformance_expect(CUresult got, CUresult want, const char *call, const char *file, int line);
void conformance_check(bool holds, const char *what, const char *file, int line);

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

/* `before` is called before CUDA is initialised. */
#define CONFORMANCE_AFTER(before)                                                                            \
    static void conformance_body(void);                                                                      \
    __attribute__((constructor)) static void conformance_register(void)                                      \
    {                                                                                                        \
        static conformance_case_t this = {__FILE__, before, conformance_body, NULL};                         \
        conformance_add(&this);                                                                              \
    }                                                                                                        \
    static void conformance_body(void)
#define CONFORMANCE CONFORMANCE_AFTER(NULL)

typedef struct conformance_case {
    const char *file;
    void (*before)(void), (*body)(void);
    struct conformance_case *next;
} conformance_case_t;

void conformance_add(conformance_case_t *added);

int device_attribute(CUdevice_attribute which);
CUdeviceptr device_alloc(size_t bytes);
int read_int(CUdeviceptr p);
CUstream new_stream(unsigned flags);
CUevent new_event(unsigned flags);
/* What a pool of memory of this device is made with. */
CUmemPoolProps pool_props(void);

/* ---- kernels of kernels.cu ---- */

/* Where their module is: of the build folder, or of wherever that was copied to. */
const char *conformance_kernels(void);
/* By the name in kernels.cu, which declares them extern "C". */
CUfunction kernel(const char *name);

/* One launch of `blocks` blocks of 128 threads; the arguments are addresses of values, as for cuLaunchKernel. */
#define LAUNCH(stream, name, blocks, ...)                                                                    \
    cuLaunchKernel(kernel(name), (unsigned)(blocks), 1, 1, 128, 1, 1, 0, stream, (void *[]){__VA_ARGS__},    \
                   NULL)

/* NULL is the legacy stream here, also for a case that is compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM. */
void fill(CUstream stream, CUdeviceptr p, int value, int n); /* n ints become `value` */
void add(CUstream stream, CUdeviceptr p, int value, int n);  /* n ints grow by `value` */

/* A kernel that keeps `stream` busy until let_go. Launch nothing behind it that the host waits for meanwhile, and at most
 * one holding kernel a stream. */
typedef struct hold {
    volatile int *gate; /* mapped host memory: 0 while the kernel must wait */
} hold_t;

hold_t hold(CUstream stream);
void let_go(hold_t h);

#endif

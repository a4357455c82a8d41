/* runtime.h: what the parts of softgpu's CUDA runtime share.
 *
 * The runtime is a thin layer over the driver API; it finds the driver as NVIDIA's does (driver_loader.h). It
 * keeps only what the driver does not know: the current device and the last error of each thread, the primary
 * contexts that it retained, and which host addresses stand for which kernels and variables (registry.c).
 * Loading the library does nothing; the driver is opened by the first call that needs it.
 *
 * Glossary
 *   driver table   the driver's functions. There are two: RT_LEGACY for the API as it is, RT_PER_THREAD for
 * its `_ptsz` and `_ptds` forms, in which stream 0 is the calling thread's own. enter          what every
 * call does first: open the driver, make a context current epoch          counts what makes cached function
 * handles stale: device resets, unloaded images
 *
 * Threads: every function may be called from any thread. Locks: `context_lock` (context.c) and
 * `registry_lock` (registry.c); neither is taken while the other is held.
 *
 * Errors: a driver error is passed on (cudaError_t has the driver's numbers). A driver function that is not
 * there is cudaErrorNotSupported. Each public function notes its failure for cudaGetLastError by ending in
 * rt_record().
 */
#ifndef SOFTGPU_RUNTIME_H
#define SOFTGPU_RUNTIME_H

#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

/* driver table */
typedef struct driver {
#define DRIVER(name)        __typeof__(name) *name;
#define DRIVER_STREAM(name) __typeof__(name) *name;
#include "softgpu/runtime/driver_functions.h"
#undef DRIVER
#undef DRIVER_STREAM
} driver_t;

typedef enum rt_form { RT_LEGACY, RT_PER_THREAD, RT_FORM_COUNT } rt_form_t;

/* Constant once rt_enter_driver() has succeeded. */
extern driver_t rt_driver[RT_FORM_COUNT];

/* errors (error.c) */

/* Notes `error`, unless it is cudaSuccess, as the thread's last one; returns it. */
cudaError_t rt_note(cudaError_t error);
static inline cudaError_t rt_record(cudaError_t error)
{
    return __builtin_expect(error == cudaSuccess, 1) ? error : rt_note(error);
}
/* The runtime's form of a driver error. */
cudaError_t rt_translate(CUresult result);
/* After a device reset: the calling thread's error is forgotten, be it sticky. */
void rt_forget_error(void);
/* Says once per `said` that a function is not provided. Returns cudaErrorNotSupported, not recorded. */
cudaError_t rt_missing(const char *name, _Atomic int *said);

/* entering (context.c) */

/* Opens the driver and calls cuInit, once per process. */
cudaError_t rt_enter_driver(void);
/* The same without cuInit; cudaErrorInsufficientDriver if there is no driver library. */
cudaError_t rt_open_driver(void);
/* rt_enter_driver, then makes sure that a context is current: the one that is, else the primary one of the
 * thread's device. The second form also returns it. */
cudaError_t rt_enter(void);
cudaError_t rt_enter_context(CUcontext *current);
/* The primary context of a device, retained on first use. */
cudaError_t rt_primary_context(int device, CUcontext *context);
/* The driver's handle for a device number; cudaErrorInvalidDevice if there is none. Enters the driver. */
cudaError_t rt_device(int device, CUdevice *handle);
/* The same for the current device. */
cudaError_t rt_current_device(CUdevice *handle);

uint64_t rt_epoch(void);
void rt_next_epoch(void);

/* kernels and variables (registry.c, launch.c) */

/* The function that `symbol` means: the host address of a kernel, or a cudaKernel_t. Enters.
 * cudaErrorInvalidDeviceFunction if it is neither. */
cudaError_t rt_function(const void *symbol, CUfunction *function);
/* What is launched for it: the CUkernel, cast, as NVIDIA's runtime does with newer drivers (accel-sim pull request 521); the driver's
 * documentation of cuLaunchKernel allows it. */
cudaError_t rt_launched(const void *symbol, CUfunction *handle);

/* One kernel launch, as the entry points hand it on. */
typedef struct rt_launch {
    dim3 grid, block;
    void **args;
    size_t shared_bytes;
    cudaStream_t stream;
} rt_launch_t;

/* Launches on the stream's form `d`. A geometry that the device cannot run is cudaErrorInvalidConfiguration. */
cudaError_t rt_launch(const driver_t *d, CUfunction function, const rt_launch_t *launch);

/* calling the driver */

/* Calls a function of driver table `d`; its value is a cudaError_t, not recorded. */
#define RT_CALL(d, function, ...)                                                                            \
    __extension__({                                                                                          \
        static _Atomic int rt_said;                                                                          \
        (d)->function ? rt_translate((d)->function(__VA_ARGS__)) : rt_missing(#function, &rt_said);          \
    })

/* The body of a public function that is one driver call: enters, calls, records. */
#define RT_PASS(function, ...) rt_record(rt_enter() ?: RT_CALL(&rt_driver[RT_LEGACY], function, __VA_ARGS__))
/* The same for a call that needs no context. */
#define RT_PASS_DRIVER(function, ...)                                                                        \
    rt_record(rt_enter_driver() ?: RT_CALL(&rt_driver[RT_LEGACY], function, __VA_ARGS__))

/* Defines the public functions `name` and `name`+`suffix` (_ptsz or _ptds). Both evaluate `expression`, in
 * which `d` is the driver table of the form, and record. RT_FORMS leaves entering to the expression. */
#define RT_FORMS(name, suffix, parameters, expression)                                                       \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        const driver_t *d = &rt_driver[RT_LEGACY];                                                           \
        return rt_record(expression);                                                                        \
    }                                                                                                        \
    cudaError_t name##suffix parameters;                                                                     \
    cudaError_t name##suffix parameters                                                                      \
    {                                                                                                        \
        const driver_t *d = &rt_driver[RT_PER_THREAD];                                                       \
        return rt_record(expression);                                                                        \
    }
#define RT_BOTH_FORMS(name, suffix, parameters, expression)                                                  \
    RT_FORMS(name, suffix, parameters, rt_enter() ?: (expression))

static inline CUdeviceptr rt_address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

#endif

/* context.c: opening the driver, the current device, primary contexts. */
#include "softgpu/runtime/runtime.h"
#include "softgpu/runtime/driver_loader.h"

#include <pthread.h>
#include <stdatomic.h>

#define DRIVER_COUNT (sizeof driver_entries / sizeof driver_entries[0])
enum { MAX_DEVICES = 64 };

driver_t rt_driver[RT_FORM_COUNT];

static const driver_entry_t driver_entries[] = {
#define DRIVER(name)        {#name, offsetof(driver_t, name), 0},
#define DRIVER_STREAM(name) {#name, offsetof(driver_t, name), 1},
#include "softgpu/runtime/driver_functions.h"
#undef DRIVER
#undef DRIVER_STREAM
};

static pthread_once_t open_once = PTHREAD_ONCE_INIT, init_once = PTHREAD_ONCE_INIT;
static cudaError_t open_error, init_error;
static int device_count;

static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MAX_DEVICES]; /* NULL until retained; guarded by context_lock */
static _Atomic uint64_t epoch = 1;

/* What a thread remembers. `bound` is the primary context that this runtime made current last, in epoch
 * `bound_epoch`: after a reset of its device by another thread it must be retained anew. */
static _Thread_local struct {
    int device;
    CUcontext bound;
    uint64_t bound_epoch;
} self;

uint64_t rt_epoch(void)
{
    return atomic_load_explicit(&epoch, memory_order_acquire);
}

void rt_next_epoch(void)
{
    atomic_fetch_add(&epoch, 1);
}

static void open_driver(void)
{
    driver_lookup_fn lookup = driver_open();
    if (!lookup) {
        open_error = cudaErrorInsufficientDriver;
        return;
    }
    for (int form = 0; form < RT_FORM_COUNT; form++)
        driver_fill(lookup, driver_entries, DRIVER_COUNT, form == RT_PER_THREAD, &rt_driver[form]);
}

cudaError_t rt_open_driver(void)
{
    pthread_once(&open_once, open_driver);
    return open_error;
}

static cudaError_t init_driver_once(void)
{
    const driver_t *d = &rt_driver[RT_LEGACY];
    int version = 0;
    cudaError_t error = rt_open_driver();
    if (error != cudaSuccess)
        return error;
    error = RT_CALL(d, cuDriverGetVersion, &version);
    if (error != cudaSuccess || version < CUDART_VERSION)
        return cudaErrorInsufficientDriver;
    error = RT_CALL(d, cuInit, 0) ?: RT_CALL(d, cuDeviceGetCount, &device_count);
    if (error != cudaSuccess)
        return error;
    return device_count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

static void init_driver(void)
{
    init_error = init_driver_once();
}

cudaError_t rt_enter_driver(void)
{
    pthread_once(&init_once, init_driver);
    return init_error;
}

cudaError_t rt_device(int device, CUdevice *handle)
{
    cudaError_t error = rt_enter_driver();
    if (error != cudaSuccess)
        return error;
    if (device < 0 || device >= device_count || device >= MAX_DEVICES)
        return cudaErrorInvalidDevice;
    return RT_CALL(&rt_driver[RT_LEGACY], cuDeviceGet, handle, device);
}

cudaError_t rt_primary_context(int device, CUcontext *context)
{
    CUdevice handle;
    cudaError_t error = rt_device(device, &handle);
    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&context_lock);
    if (!primary[device])
        error = RT_CALL(&rt_driver[RT_LEGACY], cuDevicePrimaryCtxRetain, &primary[device], handle);
    *context = primary[device];
    pthread_mutex_unlock(&context_lock);
    return error;
}

/* Makes the primary context of the thread's device current. */
static cudaError_t bind_primary(CUcontext *current)
{
    uint64_t now = rt_epoch();
    CUcontext context;
    cudaError_t error =
        rt_primary_context(self.device, &context) ?: RT_CALL(&rt_driver[RT_LEGACY], cuCtxSetCurrent, context);
    if (error != cudaSuccess)
        return error;
    self.bound = context;
    self.bound_epoch = now;
    *current = context;
    return cudaSuccess;
}

cudaError_t rt_enter_context(CUcontext *current)
{
    cudaError_t error = rt_enter_driver();
    if (error != cudaSuccess)
        return error;
    *current = NULL;
    error = RT_CALL(&rt_driver[RT_LEGACY], cuCtxGetCurrent, current);
    if (error != cudaSuccess)
        return error;
    if (*current && (*current != self.bound || self.bound_epoch == rt_epoch()))
        return cudaSuccess;
    return bind_primary(current);
}

cudaError_t rt_enter(void)
{
    CUcontext current;
    return rt_enter_context(&current);
}

cudaError_t rt_current_device(CUdevice *handle)
{
    const driver_t *d = &rt_driver[RT_LEGACY];
    CUcontext current = NULL;
    cudaError_t error = rt_enter_driver() ?: RT_CALL(d, cuCtxGetCurrent, &current);
    if (error != cudaSuccess)
        return error;
    return current ? RT_CALL(d, cuCtxGetDevice, handle) : rt_device(self.device, handle);
}

/* public functions */

cudaError_t cudaGetDeviceCount(int *count)
{
    if (!count)
        return rt_record(cudaErrorInvalidValue);
    cudaError_t error = rt_enter_driver();
    *count = error == cudaSuccess ? device_count : 0;
    return rt_record(error);
}

cudaError_t cudaGetDevice(int *device)
{
    CUdevice handle = 0;
    if (!device)
        return rt_record(cudaErrorInvalidValue);
    cudaError_t error = rt_current_device(&handle);
    if (error == cudaSuccess)
        *device = handle; /* a CUdevice is its number */
    return rt_record(error);
}

static cudaError_t set_device(int device)
{
    CUdevice handle;
    CUcontext current;
    cudaError_t error = rt_device(device, &handle);
    if (error != cudaSuccess)
        return error;
    self.device = device;
    return bind_primary(&current);
}

cudaError_t cudaSetDevice(int device)
{
    return rt_record(set_device(device));
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    CUdevice handle;
    CUcontext context;
    cudaError_t error = rt_device(device, &handle);
    if (error == cudaSuccess && (flags & cudaInitDeviceFlagsAreValid))
        error = RT_CALL(&rt_driver[RT_LEGACY], cuDevicePrimaryCtxSetFlags, handle, device_flags);
    return rt_record(error ?: rt_primary_context(device, &context));
}

/* Destroys everything on the current device. Handles of other threads become stale: the new epoch makes them
 * notice. */
cudaError_t cudaDeviceReset(void)
{
    const driver_t *d = &rt_driver[RT_LEGACY];
    CUdevice handle = 0;
    cudaError_t error = rt_current_device(&handle);
    if (error != cudaSuccess)
        return rt_record(error);
    pthread_mutex_lock(&context_lock);
    if (primary[handle])
        error = RT_CALL(d, cuDevicePrimaryCtxRelease, handle);
    primary[handle] = NULL;
    pthread_mutex_unlock(&context_lock);
    cudaError_t reset = RT_CALL(d, cuDevicePrimaryCtxReset, handle);
    RT_CALL(d, cuCtxSetCurrent, NULL);
    self.device = handle;
    self.bound = NULL;
    rt_next_epoch();
    if (reset == cudaSuccess)
        rt_forget_error();
    return rt_record(reset != cudaSuccess ? reset : error);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return rt_record(cudaErrorInvalidValue);
    *version = 0;
    if (rt_open_driver() != cudaSuccess)
        return cudaSuccess; /* no driver: version 0, and no error */
    return rt_record(RT_CALL(&rt_driver[RT_LEGACY], cuDriverGetVersion, version));
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return rt_record(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* context.c: the end of a context. */
#include "alloc/device.h"
#include "hook/internal.h"

/* Before the driver destroys it. */
static void end_of(CUcontext context)
{
    ebb_device_t *dev = ebb_is_context(context) ? ebb_enter_context(context) : NULL;
    if (dev) {
        ebb_context_ends(dev);
        ebb_unlock();
    } else if (context && (dev = ebb_enter_any())) {
        ebb_foreign_forget(dev->ebb, context); /* what the driver has served there */
        ebb_unlock();
    }
}

static void end_of_primary(CUdevice device)
{
    ebb_device_t *dev = ebb_is_primary_of(device) ? ebb_enter_device(device) : NULL;
    if (dev) {
        ebb_context_ends(dev);
        ebb_unlock();
    }
}

/* The last release of a primary context destroys it. Which one is the last only the driver knows, so this comes
 * too late to give anything back. */
static CUresult released(CUresult result, CUdevice device, bool ours)
{
    unsigned flags;
    int active = 1;
    if (!result && ours && !ebb_driver.cuDevicePrimaryCtxGetState(device, &flags, &active) && !active)
        ebb_context_gone(device);
    return result;
}

static CUresult release(CUdevice device, bool older)
{
    const bool ours = ebb_have_driver() && ebb_is_primary_of(device);
    return released(older ? EBB_PASS(cuDevicePrimaryCtxRelease, (device))
                          : EBB_PASS(cuDevicePrimaryCtxRelease_v2, (device)),
                    device, ours);
}

static CUresult detach(CUcontext context)
{
    CUdevice device = -1;
    unsigned version;
    const ebb_device_t *dev =
        ebb_have_driver() && ebb_is_context(context) ? ebb_enter_context(context) : NULL;
    if (dev) {
        device = dev->device;
        ebb_unlock();
    }
    CUresult result = EBB_PASS(cuCtxDetach, (context));
    if (!result && device >= 0 && ebb_driver.cuCtxGetApiVersion &&
        ebb_driver.cuCtxGetApiVersion(context, &version))
        ebb_context_gone(device);
    return result;
}

PLAIN_CALL(cuCtxDestroy, (CUcontext context), (end_of(context), EBB_PASS(cuCtxDestroy, (context))))
PLAIN_CALL(cuCtxDestroy_v2, (CUcontext context), (end_of(context), EBB_PASS(cuCtxDestroy_v2, (context))))
PLAIN_CALL(cuCtxDetach, (CUcontext context), detach(context))
PLAIN_CALL(cuDevicePrimaryCtxReset, (CUdevice device),
           (end_of_primary(device), EBB_PASS(cuDevicePrimaryCtxReset, (device))))
PLAIN_CALL(cuDevicePrimaryCtxReset_v2, (CUdevice device),
           (end_of_primary(device), EBB_PASS(cuDevicePrimaryCtxReset_v2, (device))))
PLAIN_CALL(cuDevicePrimaryCtxRelease, (CUdevice device), release(device, true))
PLAIN_CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice device), release(device, false))

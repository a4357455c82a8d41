/* intercept_context.c: the end of a context. */
#include "intercept.h"

/* Before the driver destroys it. */
static void end_of(bool ours)
{
    if (ours && ebb_enter_own()) {
        ebb_context_ends();
        ebb_unlock();
    }
}

/* The last release of a primary context destroys it. Which one is the last only the driver knows, so this comes
 * too late to give anything back. */
static CUresult released(CUresult result, CUdevice device)
{
    unsigned flags;
    int active = 1;
    if (!result && ebb_is_device(device) && ebb_driver.cuDevicePrimaryCtxGetState &&
        !ebb_driver.cuDevicePrimaryCtxGetState(device, &flags, &active) && !active)
        ebb_context_gone();
    return result;
}

static CUresult detached(CUresult result, bool ours, CUcontext context)
{
    unsigned version;
    if (!result && ours && ebb_driver.cuCtxGetApiVersion && ebb_driver.cuCtxGetApiVersion(context, &version))
        ebb_context_gone();
    return result;
}

PLAIN_CALL(cuCtxDestroy, (CUcontext context),
           (end_of(ebb_is_context(context)), EBB_PASS(cuCtxDestroy, (context))))
PLAIN_CALL(cuCtxDestroy_v2, (CUcontext context),
           (end_of(ebb_is_context(context)), EBB_PASS(cuCtxDestroy_v2, (context))))
PLAIN_CALL(cuCtxDetach, (CUcontext context),
           detached(EBB_PASS(cuCtxDetach, (context)), ebb_is_context(context), context))
PLAIN_CALL(cuDevicePrimaryCtxReset, (CUdevice device),
           (end_of(ebb_is_primary_of(device)), EBB_PASS(cuDevicePrimaryCtxReset, (device))))
PLAIN_CALL(cuDevicePrimaryCtxReset_v2, (CUdevice device),
           (end_of(ebb_is_primary_of(device)), EBB_PASS(cuDevicePrimaryCtxReset_v2, (device))))
PLAIN_CALL(cuDevicePrimaryCtxRelease, (CUdevice device),
           released(EBB_PASS(cuDevicePrimaryCtxRelease, (device)), device))
PLAIN_CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice device),
           released(EBB_PASS(cuDevicePrimaryCtxRelease_v2, (device)), device))

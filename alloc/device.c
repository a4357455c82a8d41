
#include "alloc/base/driver.h"
#include "alloc/device.h"

ebb_t ebb_process;
ebb_device_t *ebb_here = &ebb_process.device[0];

void ebb_open(ebb_t *ebb)
{
    for (unsigned i = 0; i < EBB_STATES; i++) {
        ebb->device[i].ebb = ebb;
        ebb->device[i].number = i;
    }
}

unsigned ebb_slot_open(ebb_t *ebb, CUcontext context, CUdevice device)
{
    if (ebb->device_count == EBB_SLOTS)
        return EBB_NOWHERE;
    ebb_device_t *dev = &ebb->device[ebb->device_count];
    dev->context = context;
    dev->device = device;
    return ebb->device_count++;
}

unsigned ebb_slot_of_context(ebb_t *ebb, CUcontext context)
{
    for (unsigned i = 0; context && i < ebb->device_count; i++)
        if (ebb->device[i].context == context)
            return i;
    return EBB_NOWHERE;
}

unsigned ebb_slot_of_device(ebb_t *ebb, CUdevice device)
{
    for (unsigned i = 0; i < ebb->device_count; i++)
        if (ebb->device[i].context && ebb->device[i].device == device)
            return i;
    return EBB_NOWHERE;
}

unsigned ebb_slot_of_stream(ebb_device_t *dev, CUstream handle)
{
    CUcontext context = NULL;
    if (!dev->ebb->device_count || !ebb_driver.cuStreamGetCtx || ebb_driver.cuStreamGetCtx(handle, &context))
        return dev->number;
    return ebb_slot_of_context(dev->ebb, context);
}

ebb_status_t ebb_slot_visit(unsigned slot, ebb_visit_t *visit)
{
    *visit = (ebb_visit_t){.from = ebb_here};
    ebb_device_t *to = &ebb_process.device[slot];
    if (to != ebb_here && to->context) {
        if (!ebb_driver.cuCtxPushCurrent_v2)
            return ebb_fail(CUDA_ERROR_NOT_SUPPORTED, "cuCtxPushCurrent", 0);
        EBB_DRIVER(cuCtxPushCurrent_v2, 0, (to->context));
        visit->pushed = true;
    }
    ebb_here = to;
    return 0;
}

void ebb_slot_return(ebb_visit_t visit)
{
    CUcontext none;
    if (visit.pushed)
        ebb_driver.cuCtxPopCurrent_v2(&none);
    ebb_here = visit.from;
}

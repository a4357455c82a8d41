
#include "alloc/device.h"

#include "alloc/base/driver.h"

ebb_device_t *ebb_current_device;

void ebb_open(ebb_t *ebb)
{
    for (unsigned i = 0; i < EBB_STATES; i++) {
        ebb->device[i].ebb = ebb;
        ebb->device[i].number = i;
    }
    ebb->round_of_questions = 1;
    ebb_device_begins(&ebb->device[0]);
}

ebb_device_t *ebb_device_open(ebb_t *ebb, CUcontext context, CUdevice device)
{
    if (ebb->device_count == EBB_DEVICES)
        return NULL;
    ebb_device_t *dev = &ebb->device[ebb->device_count++];
    dev->context = context;
    dev->device = device;
    return dev;
}

ebb_device_t *ebb_device_of_context(ebb_t *ebb, CUcontext context)
{
    for (unsigned i = 0; context && i < ebb->device_count; i++)
        if (ebb->device[i].context == context)
            return &ebb->device[i];
    return NULL;
}

ebb_device_t *ebb_device_of(ebb_t *ebb, CUdevice device)
{
    for (unsigned i = 0; i < ebb->device_count; i++)
        if (ebb->device[i].context && ebb->device[i].device == device)
            return &ebb->device[i];
    return NULL;
}

ebb_device_t *ebb_device_of_stream(ebb_device_t *dev, CUstream handle)
{
    CUcontext context = NULL;
    if (!dev->ebb->device_count || !ebb_driver.cuStreamGetCtx || ebb_driver.cuStreamGetCtx(handle, &context))
        return dev;
    ebb_device_t *of = ebb_device_of_context(dev->ebb, context);
    return of ? of : ebb_no_device(dev->ebb);
}

void ebb_device_begins(ebb_device_t *dev)
{
    ebb_lock_only(0);
    ebb_lock_device(dev);
    ebb_current_device = dev;
}

ebb_status_t ebb_context_visit(ebb_device_t *to, ebb_visit_t *visit)
{
    *visit = (ebb_visit_t){.from = ebb_current_device};
    if (to != ebb_current_device && to->context) {
        if (!ebb_driver.cuCtxPushCurrent_v2)
            return ebb_fail(CUDA_ERROR_NOT_SUPPORTED, "cuCtxPushCurrent", 0);
        EBB_DRIVER(cuCtxPushCurrent_v2, 0, (to->context));
        visit->pushed = true;
    }
    ebb_current_device = to;
    return 0;
}

ebb_status_t ebb_device_visit(ebb_device_t *to, ebb_visit_t *visit)
{
    const int named = ebb_this_thread.device;
    const uint32_t before = ebb_lock_device(to);
    const ebb_status_t status = ebb_context_visit(to, visit);
    visit->owns = true;
    visit->devices = before;
    visit->named = named;
    if (status) {
        ebb_lock_only(before);
        ebb_this_thread.device = named;
    }
    return status;
}

void ebb_device_return(ebb_visit_t visit)
{
    CUcontext none;
    if (visit.pushed)
        ebb_driver.cuCtxPopCurrent_v2(&none);
    ebb_current_device = visit.from;
    if (!visit.owns)
        return;
    ebb_lock_only(visit.devices);
    ebb_this_thread.device = visit.named;
}

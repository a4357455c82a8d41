#include "alloc/slot.h"

#include "alloc/base/driver.h"

unsigned ebb_slot;
ebb_served_t ebb_served[EBB_STATES];
unsigned ebb_slot_count;

unsigned ebb_slot_open(CUcontext context, CUdevice device)
{
    if (ebb_slot_count == EBB_SLOTS)
        return EBB_NOWHERE;
    ebb_served[ebb_slot_count] = (ebb_served_t){.context = context, .device = device};
    return ebb_slot_count++;
}

unsigned ebb_slot_of_context(CUcontext context)
{
    for (unsigned i = 0; context && i < ebb_slot_count; i++)
        if (ebb_served[i].context == context)
            return i;
    return EBB_NOWHERE;
}

unsigned ebb_slot_of_device(CUdevice device)
{
    for (unsigned i = 0; i < ebb_slot_count; i++)
        if (ebb_served[i].context && ebb_served[i].device == device)
            return i;
    return EBB_NOWHERE;
}

unsigned ebb_slot_of_stream(CUstream handle)
{
    CUcontext context = NULL;
    if (!ebb_slot_count || !ebb_driver.cuStreamGetCtx || ebb_driver.cuStreamGetCtx(handle, &context))
        return ebb_slot;
    return ebb_slot_of_context(context);
}

ebb_status_t ebb_slot_visit(unsigned slot, ebb_visit_t *visit)
{
    *visit = (ebb_visit_t){.from = ebb_slot};
    CUcontext context = ebb_served[slot].context;
    if (slot != ebb_slot && context) {
        if (!ebb_driver.cuCtxPushCurrent_v2)
            return ebb_fail(CUDA_ERROR_NOT_SUPPORTED, "cuCtxPushCurrent", 0);
        EBB_DRIVER(cuCtxPushCurrent_v2, 0, (context));
        visit->pushed = true;
    }
    ebb_slot = slot;
    return 0;
}

void ebb_slot_return(ebb_visit_t visit)
{
    CUcontext none;
    if (visit.pushed)
        ebb_driver.cuCtxPopCurrent_v2(&none);
    ebb_slot = visit.from;
}

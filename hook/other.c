#include "hook/other.h"

#include <stdlib.h>

#include "alloc/device.h"
#include "alloc/arena.h"
#include "alloc/base/driver.h"
#include "hook/args.h"
#include "hook/intercept.h"

bool ebb_touches(const CUdeviceptr *address, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ebb_arena_contains(ebb_here->ebb, address[i]))
            return true;
    return false;
}

/* What neither ebb nor the driver knows is the host's. */
static bool is_device_memory(CUdeviceptr address)
{
    unsigned type = 0, managed = 1;
    CUpointer_attribute attribute[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *out[] = {&type, &managed};
    return ebb_arena_contains(ebb_here->ebb, address) ||
           (ebb_driver.cuPointerGetAttributes &&
            !ebb_driver.cuPointerGetAttributes(2, attribute, out, address) && type == CU_MEMORYTYPE_DEVICE &&
            !managed);
}

bool ebb_host_waits(const CUdeviceptr *address, size_t count)
{
    bool waits = ebb_sync_memops() || !ebb_have_driver();
    for (size_t i = 0; i < count && !waits; i++)
        waits = !is_device_memory(address[i]);
    return waits;
}

CUresult ebb_issue_other(const ebb_other_t *o, CUresult (*issue)(const void *context), const void *context)
{
    enum { ON_STACK = 16 };
    if (!ebb_enter_work())
        return issue(context);
    ebb_access_t room[ON_STACK], *access = room;
    if (o->count > ON_STACK)
        access = malloc(o->count * sizeof *access);
    ebb_operation_t op = {.kind = EBB_OTHER,
                          .stream = ebb_stream_of(ebb_here, o->stream),
                          .name = o->name,
                          .bytes = o->bytes,
                          .access = access,
                          .opaque = !access};
    bool known = true;
    for (size_t i = 0; access && i < o->count; i++)
        known = ebb_access_add_span(&op, o->address[i], o->span ? o->span[i] : 0, (uint32_t)i) && known;
    CUresult result = known || !o->bytes ? ebb_issue(&op, issue, context) : CUDA_ERROR_INVALID_VALUE;
    ebb_unlock();
    if (access != room)
        free(access);
    return result;
}

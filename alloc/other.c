#include "other.h"

#include <stdlib.h>

#include "arena.h"
#include "args.h"

bool ebb_touches(const CUdeviceptr *address, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ebb_arena_contains(address[i]))
            return true;
    return false;
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
                          .stream = ebb_stream_of(o->stream),
                          .name = o->name,
                          .bytes = o->bytes,
                          .access = access,
                          .opaque = !access};
    for (size_t i = 0; access && i < o->count; i++)
        ebb_access_add(&op, o->address[i], (uint32_t)i);
    CUresult result = ebb_issue(&op, issue, context);
    ebb_unlock();
    if (access != room)
        free(access);
    return result;
}

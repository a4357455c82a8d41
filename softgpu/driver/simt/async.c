/* async.c: asynchronous copies to shared memory (cp.async of PTX): carried out when the thread that issued them waits for
 * their group, so that a wait that is missing shows. */
#include "softgpu/driver/simt/shadow.h"
#include "softgpu/driver/simt/simt.h"

#include <stdlib.h>
#include <string.h>

void sg_async_copy(void *to, const void *from, uint32_t bytes, uint32_t from_bytes, softgpu_place_t place)
{
    sg_fiber_t *f = sg_run.fiber;
    if ((uintptr_t)to % bytes || (from_bytes && (uintptr_t)from % bytes))
        sg_run_fail(CUDA_ERROR_MISALIGNED_ADDRESS, place, "an asynchronous copy of %u bytes from %p to %p",
                    bytes, from, to);
    if (f->async_count == f->async_capacity) {
        const uint32_t capacity = f->async_capacity ? 2 * f->async_capacity : 16;
        sg_async_t *grown = realloc(f->async, capacity * sizeof *grown);
        if (!grown)
            sg_run_fail(CUDA_ERROR_OUT_OF_MEMORY, place, "no memory for asynchronous copies");
        f->async = grown;
        f->async_capacity = capacity;
    }
    f->async[f->async_count++] = (sg_async_t){.to = to,
                                              .from = from,
                                              .bytes = bytes,
                                              .from_bytes = from_bytes < bytes ? from_bytes : bytes,
                                              .group = f->groups,
                                              .lane = sg_run.lane,
                                              .place = place};
}

void sg_async_commit(void)
{
    sg_run.fiber->groups++;
}

void sg_async_wait(uint32_t pending)
{
    sg_fiber_t *f = sg_run.fiber;
    const uint32_t all = f->groups + 1; /* the open group counts for "wait for all" only */
    const uint32_t due = pending == UINT32_MAX ? all : f->groups > pending ? f->groups - pending : 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->async_count; i++) {
        const sg_async_t *a = &f->async[i];
        if (a->group >= due) {
            f->async[kept++] = *a;
            continue;
        }
        sg_run.lane = a->lane;
        sg_run.place = a->place;
        sg_check_access(a->from, a->from_bytes, SOFTGPU_READ);
        sg_check_access(a->to, a->bytes, SOFTGPU_WRITE);
        memcpy(a->to, a->from, a->from_bytes);
        memset((char *)a->to + a->from_bytes, 0, a->bytes - a->from_bytes);
    }
    f->async_count = kept;
}

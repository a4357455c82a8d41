/* drive_guard.c: EBB_GUARD. What a large buffer is between two operations that touch it, nobody sees: its addresses lead to
 * nothing there, so that an access that ebb does not know of (through a pointer that it could not find) faults at once, and the
 * program's next call says so.
 *
 * Behind each operation the host waits for the device and takes the chunks from under all places that were touched for it; they
 * come back just before a planned copy, a replay, a hash, or the operation itself. The chunks stay the plan's, and keep what they hold.
 */
#include <stdlib.h>

#include "alloc/base/driver.h"
#include "alloc/base/log.h"
#include "alloc/base/options.h"
#include "ckpt/run/drive/drive_state.h"

#define D ebb_drive

static bool is_guarded(void)
{
    return ebb_options.guard && D.open;
}

ebb_status_t ebb_guard_open(uint32_t place)
{
    site_t *s = &D.site[place];
    const ebb_place_t *p = &D.plan->place[place];
    if (!is_guarded() || !s->range || !p->chunk_count || s->range->mapped)
        return 0;
    for (uint32_t k = 0; k < p->chunk_count; k++)
        s->range->chunk[k] = D.chunk[D.plan->chunk[p->first_chunk + k]];
    EBB_TRY(ebb_range_map_on(s->range, s->range->chunk));
    D.open[D.open_count++] = place;
    return 0;
}

ebb_status_t ebb_guard_open_operation(const ebb_action_t *replay, uint32_t operation)
{
    const ebb_trace_operation_t *o = &D.trace->operation[operation];
    for (uint32_t i = o->first_access; is_guarded() && i < o->first_access + o->access_count; i++)
        EBB_TRY(ebb_guard_open(ebb_replay_place(replay, D.trace->access[i].buffer)));
    return 0;
}

ebb_status_t ebb_guard_open_buffers(const ebb_operation_t *op)
{
    for (uint32_t i = 0; is_guarded() && i < op->access_count; i++)
        if (op->access[i].buffer->tag)
            EBB_TRY(ebb_guard_open(D.at[op->access[i].buffer->tag - 1]));
    return 0;
}

/* What has faulted; the context is dead from here on. */
static void tell(CUresult error)
{
    const uint32_t last = D.cursor ? D.cursor - 1 : 0;
    const char *name = "?";
    ebb_driver.cuGetErrorName(error, &name);
    if (error == CUDA_ERROR_ILLEGAL_ADDRESS && D.trace->operation_count)
        ebb_log(EBB_WARN,
                "EBB_GUARD: %s behind operation %u (%s), or one that the plan does not know: it went where "
                "nothing "
                "leads that ebb has seen",
                name, last, D.trace->operation[last].name);
    else
        ebb_log(EBB_WARN, "EBB_GUARD: %s", name);
}

void ebb_guard_close(void)
{
    if (!is_guarded())
        return;
    const ebb_status_t error = ebb_wait_for_device();
    if (error) {
        tell(error);
        ebb_drive_leave("the device has failed");
        return;
    }
    for (; D.open_count; D.open_count--)
        ebb_range_unmap_from(D.site[D.open[D.open_count - 1]].range);
}

ebb_status_t ebb_guard_set_up(void)
{
    if (!ebb_options.guard)
        return 0;
    D.open = calloc((size_t)D.plan->place_count + 1, sizeof *D.open);
    for (uint32_t i = 0; D.open && i < D.plan->place_count; i++)
        if (D.site[i].range && D.site[i].range->mapped)
            D.open[D.open_count++] = i;
    return D.open ? 0 : ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
}

/* What stays where it is must be there, unless the context is dead: then nothing can be mapped, and it has been told why. */
void ebb_guard_tear_down(void)
{
    const bool alive = is_guarded() && !ebb_wait_for_device();
    for (uint32_t i = 0; alive && i < D.plan->place_count; i++)
        if (D.site[i].buffer && D.site[i].device && ebb_guard_open(i))
            ebb_log(EBB_WARN, "%s", ebb_last_failure());
    free(D.open);
    D.open = NULL;
    D.open_count = 0;
}

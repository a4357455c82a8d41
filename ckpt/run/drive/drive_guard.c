/* drive_guard.c: EBB_GUARD. Between two operations that touch a large buffer, its addresses
 * are unmapped, so that an access that ebb does not know of (through a pointer that it could not find) faults at once, and the
 * program's next call says so.
 *
 * Behind each operation the host waits for the device and takes the chunks from under all places that were touched for it; they
 * come back just before a planned copy, a replay, a hash, or the operation itself. The chunks stay the plan's, and keep what they hold.
 */
#include <stdlib.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "ckpt/run/drive/internal.h"

ebb_status_t ebb_guard_open(drive_t *drive, uint32_t place)
{
    site_t *s = &drive->site[place];
    const ebb_place_t *p = &drive->plan->place[place];
    if (!drive->open || !s->range || !p->chunk_count || s->range->mapped)
        return 0;
    for (uint32_t k = 0; k < p->chunk_count; k++)
        s->range->chunk[k] = drive->chunk[drive->plan->chunk[p->first_chunk + k]];
    EBB_TRY(ebb_range_map_on(s->range, s->range->chunk));
    drive->open[drive->open_count++] = place;
    return 0;
}

ebb_status_t ebb_guard_open_operation(drive_t *drive, const ebb_action_t *replay, uint32_t operation)
{
    const ebb_trace_operation_t *o = &drive->trace->operation[operation];
    for (uint32_t i = o->first_access; drive->open && i < o->first_access + o->access_count; i++)
        EBB_TRY(ebb_guard_open(drive, ebb_replay_place(drive, replay, drive->trace->access[i].buffer)));
    return 0;
}

ebb_status_t ebb_guard_open_buffers(drive_t *drive, const ebb_operation_t *op)
{
    for (uint32_t i = 0; drive->open && i < op->access_count; i++)
        if (op->access[i].buffer->number)
            EBB_TRY(ebb_guard_open(drive, drive->at[op->access[i].buffer->number - 1]));
    return 0;
}

/* What has faulted; the context is dead from here on. */
static void tell(drive_t *drive, CUresult error)
{
    const uint32_t last = drive->cursor ? drive->cursor - 1 : 0;
    const char *name = "?";
    ebb_driver.cuGetErrorName(error, &name);
    if (error == CUDA_ERROR_ILLEGAL_ADDRESS && drive->trace->operation_count)
        ebb_log(EBB_WARN,
                "EBB_GUARD: %s behind operation %u (%s), or one that the plan does not know: it went where "
                "nothing "
                "leads that ebb has seen",
                name, last, drive->trace->operation[last].name);
    else
        ebb_log(EBB_WARN, "EBB_GUARD: %s", name);
}

void ebb_guard_close(drive_t *drive)
{
    if (!drive->open)
        return;
    const ebb_status_t error = ebb_wait_for_device(drive->device->ebb);
    if (error) {
        tell(drive, error);
        ebb_drive_leave(drive->device, "the device has failed");
        return;
    }
    for (; drive->open_count; drive->open_count--)
        ebb_range_unmap_from(drive->site[drive->open[drive->open_count - 1]].range);
}

ebb_status_t ebb_guard_set_up(drive_t *drive)
{
    if (!ebb_options.guard)
        return 0;
    drive->open = calloc((size_t)drive->plan->place_count + 1, sizeof *drive->open);
    for (uint32_t i = 0; drive->open && i < drive->plan->place_count; i++)
        if (drive->site[i].range && drive->site[i].range->mapped)
            drive->open[drive->open_count++] = i;
    return drive->open ? 0 : ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
}

/* What stays where it is must be there, unless the context is dead: then nothing can be mapped, and the program has the error. */
void ebb_guard_tear_down(drive_t *drive)
{
    const bool alive = drive->open && !ebb_wait_for_device(drive->device->ebb);
    for (uint32_t i = 0; alive && i < drive->plan->place_count; i++)
        if (drive->site[i].buffer && drive->site[i].device && ebb_guard_open(drive, i))
            ebb_log(EBB_WARN, "%s", ebb_last_failure());
    free(drive->open);
    drive->open = NULL;
    drive->open_count = 0;
}

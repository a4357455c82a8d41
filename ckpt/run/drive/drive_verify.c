/* drive_verify.c: what a plan discards is compared with what its replays make (replay.h).
 *
 * In the first steps of a drive the host looks at once, and keeps a copy as far as there is memory for it: the copy is put back, and nothing
 * is lost. Where steps are of any size, it does so the first times that a content is made again, and the first that it is of some other size,
 * whichever plan does. Later the device compares, and the program is told (EBB_ON_MISMATCH) by the call with which it waits for what came behind.
 *
 * With EBB_VERIFY=N another Nth of each content is compared in every step, in pieces (profile.h): all steps cost the same, and a launch
 * that begins to write all of what it was only seen to read, long after it was learned, is noticed in that step.
 */
#include <stdlib.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/internal.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

static bool allocate(drive_t *drive)
{
    const size_t actions = drive->plan->action_count;
    ebb_drive_own(drive, &drive->check, calloc(actions + 1, sizeof *drive->check));
    ebb_drive_own(drive, &drive->check_at, ebb_none_array(actions));
    return !drive->no_memory;
}

/* Its content is at other places in other steps. Plans of ebb's own discard none such. */
static bool rotates(const drive_t *drive, uint32_t action)
{
    const uint32_t place = drive->plan->action[action].place;
    return place < drive->trace->buffer_count && ebb_trace_rotates(drive->trace, place);
}

static void list_checks(drive_t *drive, const uint32_t *completion, const uint32_t *users,
                        const uint32_t *streams)
{
    for (uint32_t i = 0; i < drive->plan->action_count; i++) {
        const uint32_t last = completion[i];
        if (last == EBB_NONE)
            continue;
        drive->check[drive->check_count] =
            (check_t){.buffer = drive->plan->action[i].place,
                      .operation = drive->plan->action[last].operation,
                      .stream = drive->plan->action[last].stream,
                      .users = rotates(drive, i) ? EBB_ALL_STREAMS : users[drive->plan->action[i].place],
                      .streams = rotates(drive, i) ? EBB_ALL_STREAMS : streams[drive->plan->action[i].place],
                      .next = drive->check_at[last]};
        drive->check_at[i] = drive->check_at[last] = drive->check_count++;
    }
}

ebb_status_t ebb_drive_verify_set_up(drive_t *drive)
{
    if (!ebb_verify_open(drive->device, drive->learned))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "memory to compare with", 0);
    uint32_t *completion = allocate(drive) ? ebb_plan_completions(drive->plan, drive->trace) : NULL;
    uint32_t *users = completion ? ebb_plan_place_streams(drive->plan, drive->trace, false) : NULL;
    uint32_t *streams = users ? ebb_plan_place_streams(drive->plan, drive->trace, true) : NULL;
    const bool good = streams;
    if (good)
        list_checks(drive, completion, users, streams);
    free(completion);
    free(users);
    free(streams);
    return good ? 0 : ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
}

static CUdeviceptr address_of(drive_t *drive, const check_t *c)
{
    return ebb_site_of(drive, c->buffer)->range->base;
}

static ebb_stream_t *stream_of(drive_t *drive, const check_t *c)
{
    return ebb_drive_stream(drive, c->stream);
}

/* ---- copies, in the first steps ---- */

static void free_copy(drive_t *drive, check_t *c)
{
    ebb_host_free(drive->device, c->copy);
    c->copy = (ebb_host_t){.at = NULL};
}

/* Of a content whose comparison was refused, or of a copy that was refused: it may be under way still, and is nobody's then. */
static void drop_copy(drive_t *drive, check_t *c)
{
    if (c->copy.at && !ebb_await_stream(ebb_stream_handle(stream_of(drive, c))))
        free_copy(drive, c);
    c->copy = (ebb_host_t){.at = NULL};
}

static void keep_copy(drive_t *drive, check_t *c)
{
    c->copy =
        (ebb_host_t){.at = ebb_pinned_alloc(drive->device, c->bytes), .pinned = true, .bytes = c->bytes};
    if (c->copy.at && ebb_copy_pieces(drive->device, EBB_OUT, address_of(drive, c), c->copy.at, c->bytes,
                                      stream_of(drive, c)))
        drop_copy(drive, c);
}

static bool restore(drive_t *drive, const check_t *c)
{
    return !ebb_copy_pieces(drive->device, EBB_IN, address_of(drive, c), c->copy.at, c->bytes,
                            stream_of(drive, c)) &&
           !ebb_await_stream(ebb_stream_handle(stream_of(drive, c)));
}

/* What has no copy is told of like that of later steps. */
static void compare_now(drive_t *drive, check_t *c)
{
    if (!c->copy.at)
        ebb_verify_poll(drive->device, drive->learned, true);
    else if (!ebb_verify_agrees(drive->device, drive->learned, c->buffer) && !restore(drive, c))
        ebb_content_lost(drive->device, c->buffer, "its copy could not be brought back");
    free_copy(drive, c);
}

ebb_host_t ebb_drive_verify_copy(drive_t *drive, uint32_t buffer)
{
    ebb_host_t copy = {.at = NULL};
    for (uint32_t i = 0; i < drive->check_count && !copy.at; i++)
        if (drive->check[i].buffer == buffer) {
            copy = drive->check[i].copy;
            drive->check[i].copy = (ebb_host_t){.at = NULL};
        }
    return copy;
}

void ebb_drive_verify_tear_down(drive_t *drive)
{
    ebb_verify_poll(drive->device, drive->learned, false);
    for (uint32_t i = 0; i < drive->check_count; i++)
        free_copy(drive, &drive->check[i]);
    drive->check_count = 0;
}

/* ---- around the plan's actions ----
 *
 * Hashed on the stream of the replay that completes the content. Where there are several, that one waits for those that use the place (each
 * may make a part), and those that use its memory later wait for the hash. All else goes on beside it: collectives, say, on what has had
 * the memory before.
 */

void ebb_drive_verify_discard(drive_t *drive, uint32_t action)
{
    const uint32_t index = drive->check_at[action], place = drive->plan->action[action].place;
    if (place < drive->trace->buffer_count) /* of another content */
        ebb_verify_forget(drive->learned, place);
    if (index == EBB_NONE || (place < drive->trace->buffer_count && !ebb_site_of(drive, place)->buffer))
        return;
    check_t *c = &drive->check[index];
    const size_t operand_bytes = drive->issued[c->operation].operand_bytes;
    c->bytes = ebb_content_bytes(drive, ebb_place_now(drive, c->buffer));
    c->trial = drive->learned->any_size
                   ? ebb_verify_is_trial(drive->learned, c->operation, c->buffer, operand_bytes)
                   : ebb_is_first_step(drive);
    const ebb_dropping_t d = {.id = c->buffer,
                              .operation = c->operation,
                              .address = address_of(drive, c),
                              .bytes = c->bytes,
                              .operand_bytes = operand_bytes,
                              .step = drive->step,
                              .trial = c->trial};
    if ((!d.trial && !ebb_options.verify) || ebb_guard_open(drive, ebb_place_now(drive, c->buffer)))
        return;
    if (!ebb_streams_order(drive, c->stream, c->users) &&
        !ebb_verify_dropping(drive->device, drive->learned, &d, stream_of(drive, c)) && d.trial)
        keep_copy(drive, c);
    if (ebb_streams_scatter(drive, c->stream, c->streams))
        ebb_wait_for_device(drive->device->ebb);
}

void ebb_drive_verify_replay(drive_t *drive, uint32_t action)
{
    for (uint32_t i = drive->check_at[action]; i != EBB_NONE; i = drive->check[i].next) {
        check_t *c = &drive->check[i];
        if (!ebb_verify_is_hashed(drive->learned, c->buffer) ||
            ebb_streams_order(drive, c->stream, c->users) ||
            ebb_verify_made(drive->device, drive->learned, c->buffer, stream_of(drive, c),
                            address_of(drive, c), c->bytes)) {
            drop_copy(drive, c);
            continue;
        }
        if (c->trial)
            compare_now(drive, c);
        if (ebb_streams_scatter(drive, c->stream, c->streams))
            ebb_wait_for_device(drive->device->ebb);
    }
}

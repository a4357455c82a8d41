/* drive_verify.c: compares what was recomputed with what was dropped.
 *
 * Every discarded content is hashed when it is given up, and again after the replay that completes it.
 * Different hashes mean that the launch does not give the same bits any more, or that an operation known
 * only to read the content has written it. In the first steps of a drive the host looks at once, and
 * keeps a copy as far as there is memory for it: the copy is put back, and nothing is lost. Later the device
 * compares, and the program is told (EBB_ON_MISMATCH) by the call with which it waits for what came behind. Either way the
 * operation may not be replayed any more. Contents of one buffer share an entry: all their operations are refuted together.
 *
 * With EBB_VERIFY=N another Nth of each content is compared in every step, in pieces (hash.h): all steps cost the same, and a launch
 * that begins to write all of what it was only seen to read, long after it was learned, is noticed in that step.
 */
#include <stdlib.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/internal.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

enum { FIRST_STEPS = 2 };

bool ebb_verify_prepare(ebb_device_t *dev, drive_t *d, const ebb_trace_t *trace)
{
    unsigned count = 1;
    for (uint32_t i = 0; i < trace->buffer_count; i++)
        count += ebb_is_large(&trace->buffer[i]);
    if (count <= d->compared)
        return true;
    ebb_hashes_delete(dev, d->hashes);
    d->hashes = ebb_hashes_new(dev, count);
    d->compared = d->hashes ? count : 0;
    return d->hashes;
}

static bool allocate(drive_t *drive)
{
    size_t actions = drive->plan->action_count;
    drive->check = calloc(actions + 1, sizeof *drive->check);
    drive->check_at = malloc((actions + 1) * sizeof *drive->check_at);
    drive->entry_of = calloc((size_t)drive->trace->buffer_count + 1, sizeof *drive->entry_of);
    if (!drive->check || !drive->check_at || !drive->entry_of)
        return false;
    for (uint32_t i = 0; i < actions; i++)
        drive->check_at[i] = EBB_NONE;
    for (uint32_t i = 0, entry = 0; i < drive->trace->buffer_count; i++)
        drive->entry_of[i] = ebb_is_large(&drive->trace->buffer[i]) ? entry++ : 0;
    return true;
}

static void list_checks(drive_t *drive, const uint32_t *completion)
{
    for (uint32_t i = 0; i < drive->plan->action_count; i++) {
        const uint32_t last = completion[i];
        if (last == EBB_NONE)
            continue;
        drive->check[drive->check_count] =
            (check_t){.discard = i, .last_replay = last, .next = drive->check_at[last]};
        drive->check_at[i] = drive->check_at[last] = drive->check_count++;
    }
}

ebb_status_t ebb_verify_set_up(ebb_device_t *dev)
{
    drive_t *drive = ebb_driven(dev->ebb);
    if (!ebb_verify_prepare(dev, drive, drive->trace))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "memory to compare with", 0);
    uint32_t *completion = allocate(drive) ? ebb_plan_completions(drive->plan, drive->trace) : NULL;
    if (!completion)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
    list_checks(drive, completion);
    free(completion);
    for (unsigned i = 0; i < drive->compared; i++)
        ebb_hash_clear(drive->hashes, i);
    return 0;
}

static uint32_t place_of(drive_t *drive, const check_t *c)
{
    return drive->plan->action[c->discard].place;
}

static size_t bytes_of(drive_t *drive, const check_t *c)
{
    return drive->plan->place[place_of(drive, c)].bytes;
}

static void free_copy(drive_t *drive, check_t *c)
{
    if (c->copy)
        ebb_pinned_free(drive->device, c->copy, bytes_of(drive, c));
    c->copy = NULL;
}

static unsigned entry_of(drive_t *drive, const check_t *c)
{
    return drive->entry_of[place_of(drive, c)];
}

static CUdeviceptr address_of(ebb_t *ebb, const check_t *c)
{
    drive_t *drive = ebb_driven(ebb);
    return ebb_site_of(ebb, place_of(drive, c))->range->base;
}

/* Where there are several streams, what comes before a hash comes before it on D.stream, and what comes after it after it. */
static uint32_t own_stream(drive_t *drive)
{
    return drive->trace->operation[0].stream;
}

static void complain(ebb_t *ebb, const check_t *c, bool has_copy)
{
    drive_t *drive = ebb_driven(ebb);
    drive->counts.mismatches++;
    ebb_mismatch(ebb, drive->learned->trace, drive->plan->action[c->last_replay].operation,
                 place_of(drive, c), has_copy);
}

/* ---- the first steps: at once, with a copy ---- */

bool ebb_verify_is_first(ebb_t *ebb)
{
    drive_t *drive = ebb_driven(ebb);
    return drive->step < FIRST_STEPS;
}

static void keep_copy(ebb_t *ebb, check_t *c)
{
    drive_t *drive = ebb_driven(ebb);
    c->copy = ebb_pinned_alloc(drive->device, bytes_of(drive, c));
    if (c->copy && ebb_copy_pieces(drive->device, EBB_OUT, address_of(ebb, c), c->copy, bytes_of(drive, c),
                                   drive->stream))
        free_copy(drive, c);
}

static bool restore(ebb_t *ebb, const check_t *c)
{
    drive_t *drive = ebb_driven(ebb);
    return c->copy &&
           !ebb_copy_pieces(drive->device, EBB_IN, address_of(ebb, c), c->copy, bytes_of(drive, c),
                            drive->stream) &&
           !ebb_driver.cuStreamSynchronize(ebb_stream_handle(drive->stream));
}

static void compare_now(ebb_t *ebb, check_t *c)
{
    drive_t *drive = ebb_driven(ebb);
    if (ebb_mark_wait(ebb_mark_here(drive->stream)) || ebb_hash_differs(drive->hashes, entry_of(drive, c)))
        complain(ebb, c, restore(ebb, c));
    ebb_hash_clear(drive->hashes, entry_of(drive, c));
    free_copy(drive, c);
}

/* ---- later ones: when that is over ---- */

void ebb_verify_poll(ebb_t *ebb)
{
    drive_t *drive = ebb_driven(ebb);
    for (check_t *c = drive->check; c < drive->check + drive->check_count; c++)
        if (!c->refuted && ebb_hash_differs(drive->hashes, entry_of(drive, c))) {
            c->refuted = true;
            complain(ebb, c, false);
        }
}

void ebb_verify_step_end(ebb_t *ebb)
{
    drive_t *drive = ebb_driven(ebb);
    ebb_verify_poll(ebb);
    for (uint32_t i = 0; i < drive->check_count; i++)
        drive->check[i].begun = drive->check[i].ended = false;
}

void ebb_verify_hand_over(ebb_t *ebb, ebb_given_up_t *out)
{
    drive_t *drive = ebb_driven(ebb);
    for (uint32_t i = 0; i < drive->check_count; i++) {
        check_t *c = &drive->check[i];
        if (place_of(drive, c) != out->id || !c->begun || c->ended)
            continue;
        out->hashes = drive->hashes;
        out->entry = entry_of(drive, c);
        out->part = c->part;
        out->copy = c->copy;
        c->copy = NULL;
    }
}

void ebb_verify_tear_down(ebb_t *ebb)
{
    drive_t *drive = ebb_driven(ebb);
    ebb_verify_poll(ebb);
    for (uint32_t i = 0; i < drive->check_count; i++)
        free_copy(drive, &drive->check[i]);
    free(drive->check);
    free(drive->check_at);
    free(drive->entry_of);
    drive->check = NULL;
    drive->check_at = drive->entry_of = NULL;
    drive->check_count = 0;
}

/* ---- around the plan's actions ---- */

void ebb_verify_discard(ebb_device_t *dev, uint32_t action)
{
    drive_t *drive = ebb_driven(dev->ebb);
    check_t *c = drive->check_at[action] != EBB_NONE ? &drive->check[drive->check_at[action]] : NULL;
    const uint64_t every = ebb_verify_is_first(dev->ebb) ? 1 : (uint64_t)ebb_options.verify;
    if (!c || !every || ebb_guard_open(dev->ebb, ebb_place_now(dev->ebb, place_of(drive, c))))
        return;
    c->part = (ebb_hash_part_t){drive->step + drive->check_at[action], every};
    c->begun = !ebb_streams_gather(dev->ebb, own_stream(drive)) &&
               !ebb_hash_issue(dev, drive->hashes, entry_of(drive, c), drive->stream, address_of(dev->ebb, c),
                               bytes_of(drive, c), c->part);
    if (c->begun && ebb_verify_is_first(dev->ebb))
        keep_copy(dev->ebb, c);
    if (ebb_streams_scatter(dev->ebb, own_stream(drive)))
        ebb_wait_for_device(dev->ebb);
}

void ebb_verify_replay(ebb_device_t *dev, uint32_t action)
{
    drive_t *drive = ebb_driven(dev->ebb);
    for (uint32_t i = drive->check_at[action]; i != EBB_NONE; i = drive->check[i].next) {
        check_t *c = &drive->check[i];
        if (!c->begun || ebb_streams_gather(dev->ebb, own_stream(drive)) ||
            ebb_hash_compare(dev, drive->hashes, entry_of(drive, c), drive->stream, address_of(dev->ebb, c),
                             bytes_of(drive, c), c->part))
            continue;
        c->ended = true;
        drive->counts.verified++;
        if (ebb_verify_is_first(dev->ebb))
            compare_now(dev->ebb, c);
        if (ebb_streams_scatter(dev->ebb, own_stream(drive)))
            ebb_wait_for_device(dev->ebb);
    }
}

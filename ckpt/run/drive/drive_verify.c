/* drive_verify.c: compares what was recomputed with what was dropped.
 *
 * Every discarded content is hashed when it is given up, and again after the replay that completes it.
 * Different hashes mean that the launch does not give the same bits any more, or that something has written
 * the content which was believed only to read it. In the first steps of a drive the host looks at once, and
 * keeps a copy as far as there is memory for it: the copy is put back, and nothing is lost. Later the device
 * compares, and the program is told (EBB_ON_MISMATCH) by the call with which it waits for what came behind. Either way the
 * operation may not be replayed any more. Contents of one buffer share a slot: all their operations are refuted together.
 *
 * With EBB_VERIFY=N another Nth of each content is compared in every step, in pieces (hash.h): all steps cost the same, and a launch
 * that begins to write all of what it was only seen to read, long after it was learned, is noticed in that step.
 */
#include <stdlib.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "ckpt/plan/plan.h"
#include "ckpt/run/drive/drive_state.h"
#include "ckpt/run/own.h"
#include "ckpt/run/replay/mismatch.h"
#include "offload/ebb_offload.h"
#include "offload/pinned.h"

#define D ebb_drive

enum { FIRST_STEPS = 2 };

bool ebb_verify_prepare(drive_t *d, const ebb_trace_t *trace)
{
    unsigned count = 1;
    for (uint32_t i = 0; i < trace->buffer_count; i++)
        count += ebb_is_large(&trace->buffer[i]);
    if (count <= d->compared)
        return true;
    ebb_hashes_delete(d->hashes);
    d->hashes = ebb_hashes_new(count);
    d->compared = d->hashes ? count : 0;
    return d->hashes;
}

static bool allocate(void)
{
    size_t actions = D.plan->action_count;
    D.check = calloc(actions + 1, sizeof *D.check);
    D.check_at = malloc((actions + 1) * sizeof *D.check_at);
    D.slot_of = calloc((size_t)D.trace->buffer_count + 1, sizeof *D.slot_of);
    if (!D.check || !D.check_at || !D.slot_of)
        return false;
    for (uint32_t i = 0; i < actions; i++)
        D.check_at[i] = EBB_NONE;
    for (uint32_t i = 0, slot = 0; i < D.trace->buffer_count; i++)
        D.slot_of[i] = ebb_is_large(&D.trace->buffer[i]) ? slot++ : 0;
    return true;
}

static void list_checks(const uint32_t *completion)
{
    for (uint32_t i = 0; i < D.plan->action_count; i++) {
        const uint32_t last = completion[i];
        if (last == EBB_NONE)
            continue;
        D.check[D.check_count] = (check_t){.discard = i, .last_replay = last, .next = D.check_at[last]};
        D.check_at[i] = D.check_at[last] = D.check_count++;
    }
}

ebb_status_t ebb_verify_set_up(void)
{
    if (!ebb_verify_prepare(&D, D.trace))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "memory to compare with", 0);
    uint32_t *completion = allocate() ? ebb_plan_completions(D.plan, D.trace) : NULL;
    if (!completion)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
    list_checks(completion);
    free(completion);
    for (unsigned i = 0; i < D.compared; i++)
        ebb_hash_clear(D.hashes, i);
    return 0;
}

static uint32_t place_of(const check_t *c)
{
    return D.plan->action[c->discard].place;
}

static size_t bytes_of(const check_t *c)
{
    return D.plan->place[place_of(c)].bytes;
}

static void free_copy(check_t *c)
{
    if (c->copy)
        ebb_pinned_free(c->copy, bytes_of(c));
    c->copy = NULL;
}

static unsigned slot_of(const check_t *c)
{
    return D.slot_of[place_of(c)];
}

static CUdeviceptr address_of(const check_t *c)
{
    return ebb_site_of(place_of(c))->range->base;
}

/* Where there are several streams, what comes before a hash comes before it on D.stream, and what comes after it after it. */
static uint32_t own_stream(void)
{
    return D.trace->operation[0].stream;
}

static void complain(const check_t *c, bool has_copy)
{
    D.counts.mismatches++;
    ebb_mismatch(D.learned->trace, D.plan->action[c->last_replay].operation, place_of(c), has_copy);
}

/* ---- the first steps: at once, with a copy ---- */

bool ebb_verify_is_first(void)
{
    return D.step < FIRST_STEPS;
}

static void keep_copy(check_t *c)
{
    c->copy = ebb_pinned_alloc(bytes_of(c));
    if (c->copy && ebb_copy_pieces(EBB_OUT, address_of(c), c->copy, bytes_of(c), D.stream))
        free_copy(c);
}

static bool restore(const check_t *c)
{
    return c->copy && !ebb_copy_pieces(EBB_IN, address_of(c), c->copy, bytes_of(c), D.stream) &&
           !ebb_driver.cuStreamSynchronize(ebb_stream_handle(D.stream));
}

static void compare_now(check_t *c)
{
    if (ebb_mark_wait(ebb_mark_here(D.stream)) || ebb_hash_differs(D.hashes, slot_of(c)))
        complain(c, restore(c));
    ebb_hash_clear(D.hashes, slot_of(c));
    free_copy(c);
}

/* ---- later ones: when that is over ---- */

void ebb_verify_poll(void)
{
    for (check_t *c = D.check; c < D.check + D.check_count; c++)
        if (!c->refuted && ebb_hash_differs(D.hashes, slot_of(c))) {
            c->refuted = true;
            complain(c, false);
        }
}

void ebb_verify_step_end(void)
{
    ebb_verify_poll();
    for (uint32_t i = 0; i < D.check_count; i++)
        D.check[i].begun = D.check[i].ended = false;
}

void ebb_verify_hand_over(ebb_given_up_t *out)
{
    for (uint32_t i = 0; i < D.check_count; i++) {
        check_t *c = &D.check[i];
        if (place_of(c) != out->id || !c->begun || c->ended)
            continue;
        out->hashes = D.hashes;
        out->slot = slot_of(c);
        out->part = c->part;
        out->copy = c->copy;
        c->copy = NULL;
    }
}

void ebb_verify_tear_down(void)
{
    ebb_verify_poll();
    for (uint32_t i = 0; i < D.check_count; i++)
        free_copy(&D.check[i]);
    free(D.check);
    free(D.check_at);
    free(D.slot_of);
    D.check = NULL;
    D.check_at = D.slot_of = NULL;
    D.check_count = 0;
}

/* ---- around the plan's actions ---- */

void ebb_verify_discard(uint32_t action)
{
    check_t *c = D.check_at[action] != EBB_NONE ? &D.check[D.check_at[action]] : NULL;
    const uint64_t every = ebb_verify_is_first() ? 1 : (uint64_t)ebb_options.verify;
    if (!c || !every || ebb_guard_open(ebb_place_now(place_of(c))))
        return;
    c->part = (ebb_hash_part_t){D.step + D.check_at[action], every};
    c->begun = !ebb_streams_gather(own_stream()) &&
               !ebb_hash_issue(D.hashes, slot_of(c), D.stream, address_of(c), bytes_of(c), c->part);
    if (c->begun && ebb_verify_is_first())
        keep_copy(c);
    if (ebb_streams_scatter(own_stream()))
        ebb_wait_for_device();
}

void ebb_verify_replay(uint32_t action)
{
    for (uint32_t i = D.check_at[action]; i != EBB_NONE; i = D.check[i].next) {
        check_t *c = &D.check[i];
        if (!c->begun || ebb_streams_gather(own_stream()) ||
            ebb_hash_compare(D.hashes, slot_of(c), D.stream, address_of(c), bytes_of(c), c->part))
            continue;
        c->ended = true;
        D.counts.verified++;
        if (ebb_verify_is_first())
            compare_now(c);
        if (ebb_streams_scatter(own_stream()))
            ebb_wait_for_device();
    }
}

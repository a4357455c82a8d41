/* drive_verify.c: compares what was recomputed with what was dropped.
 *
 * Every discarded content is hashed when it is given up, and again after the replay that completes it.
 * Different hashes mean that the launch does not give the same bits any more, or that something has written
 * the content which was believed only to read it. In the first steps of a drive the host looks at once, and
 * keeps a copy as far as there is memory for it: the copy is put back, and nothing is lost. Later the hashes
 * of a step are fetched when it ends and compared when they have arrived: the program is told
 * (EBB_ON_MISMATCH). Either way the operation may not be replayed any more.
 *
 * With EBB_VERIFY=N every content is compared in one of N steps, others in each: all steps cost the same, and what a
 * function of many operations does wrong is seen in nearly every step.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "ckpt/plan/completions.h"
#include "ckpt/run/drive/drive_state.h"
#include "ckpt/run/own.h"
#include "ckpt/run/replay/mismatch.h"
#include "offload/ebb_offload.h"
#include "offload/pinned.h"

#define D ebb_drive

enum { FIRST_STEPS = 2, MOST_VERDICTS = 4096 };

bool ebb_verify_prepare(drive_t *d, const ebb_trace_t *trace)
{
    const size_t bytes = 2 * MOST_VERDICTS * sizeof *d->arrived;
    unsigned slots = 0;
    for (uint32_t i = 0; i < trace->buffer_count; i++)
        slots += ebb_is_large(&trace->buffer[i]) ? 2 : 0;
    if (slots > d->hash_slots) {
        ebb_hashes_delete(d->hashes);
        d->hashes = ebb_hashes_new(slots);
        d->hash_slots = d->hashes ? slots : 0;
    }
    if (!d->arrived)
        d->arrived = ebb_own_pinned_alloc(bytes);
    if (!d->verdict)
        d->verdict = ebb_own_alloc(bytes, NULL);
    return d->hash_slots >= slots && d->arrived && d->verdict;
}

static bool allocate(void)
{
    size_t actions = D.plan->action_count;
    D.check = calloc(actions + 1, sizeof *D.check);
    D.check_at = malloc((actions + 1) * sizeof *D.check_at);
    D.slot_of = calloc((size_t)D.trace->buffer_count + 1, sizeof *D.slot_of);
    for (int i = 0; i < 2; i++)
        D.pending[i] = calloc(actions + 1, sizeof *D.pending[i]);
    if (!D.check || !D.check_at || !D.slot_of || !D.pending[0] || !D.pending[1])
        return false;
    for (uint32_t i = 0; i < actions; i++)
        D.check_at[i] = EBB_TRACE_NEVER;
    for (uint32_t i = 0, slot = 0; i < D.trace->buffer_count; i++)
        D.slot_of[i] = ebb_is_large(&D.trace->buffer[i]) ? slot++ : 0;
    return true;
}

/* All, in steps one after the other, if their verdicts have no room in one. */
static uint64_t steps_for_all(void)
{
    const uint64_t least = (D.check_count + MOST_VERDICTS - 1) / MOST_VERDICTS;
    const uint64_t wanted = (uint64_t)ebb_options.verify;
    return wanted && wanted < least ? least : wanted;
}

static void list_checks(const uint32_t *completion)
{
    for (uint32_t i = 0; i < D.plan->action_count; i++) {
        const uint32_t last = completion[i];
        if (last == EBB_TRACE_NEVER)
            continue;
        D.check[D.check_count] = (check_t){.discard = i, .last_replay = last, .next = D.check_at[last]};
        D.check_at[i] = D.check_at[last] = D.check_count++;
    }
    D.check_every = steps_for_all();
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
    for (int i = 0; i < 2 && D.check_count; i++)
        EBB_DRIVER(cuEventCreate, 0, (&D.fetched[i], CU_EVENT_DISABLE_TIMING));
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
    return 2 * D.slot_of[place_of(c)];
}

static ebb_status_t hash_place(const check_t *c, bool after)
{
    return ebb_hash_issue(D.hashes, slot_of(c) + after, D.stream, ebb_site_of(place_of(c))->range->base,
                          bytes_of(c));
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
    if (c->copy &&
        ebb_copy_pieces(EBB_OUT, ebb_site_of(place_of(c))->range->base, c->copy, bytes_of(c), D.stream))
        free_copy(c);
}

static bool restore(const check_t *c)
{
    return c->copy &&
           !ebb_copy_pieces(EBB_IN, ebb_site_of(place_of(c))->range->base, c->copy, bytes_of(c), D.stream) &&
           !ebb_driver.cuStreamSynchronize(ebb_stream_handle(D.stream));
}

static void compare_now(check_t *c)
{
    uint64_t hash[2] = {0, 1};
    bool known = !ebb_hash_read(D.hashes, slot_of(c), 2, D.stream, hash);
    D.counts.verified++;
    if (!known || hash[0] != hash[1])
        complain(c, restore(c));
    free_copy(c); /* the read has waited for the copy too */
}

/* ---- later ones: when the hashes have arrived ---- */

static bool is_checked(uint32_t check)
{
    return ebb_verify_is_first() || ebb_is_compared(D.step, check, D.check_every);
}

/* Of those that are compared in one step, no two have the same. */
static size_t verdict_at(unsigned turn, uint32_t check)
{
    return (size_t)turn * MOST_VERDICTS + check / D.check_every;
}

static void compare_arrived(unsigned turn)
{
    for (uint32_t i = 0; i < D.check_count; i++) {
        if (!D.pending[turn][i])
            continue;
        D.pending[turn][i] = false;
        D.counts.verified++;
        if (D.arrived[verdict_at(turn, i)])
            complain(&D.check[i], false);
    }
}

/* Of a step, behind all its comparisons. On the stream of copies out: on the program's it would have that wait for the copies that
 * are under way. */
static ebb_status_t fetch_verdicts(unsigned turn)
{
    ebb_stream_t *out = ebb_copy_stream(EBB_OUT);
    const size_t first = verdict_at(turn, 0);
    const size_t bytes = (verdict_at(turn, D.check_count - 1) - first + 1) * sizeof *D.arrived;
    if (!out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUstream stream = ebb_stream_handle(out);
    EBB_DRIVER(cuEventRecord, 0, (D.fetched[turn], ebb_stream_handle(D.stream)));
    EBB_DRIVER(cuStreamWaitEvent, 0, (stream, D.fetched[turn], 0));
    EBB_DRIVER(cuMemcpyDtoHAsync, bytes,
               (D.arrived + first, D.verdict->address + first * sizeof *D.arrived, bytes, stream));
    EBB_DRIVER(cuEventRecord, 0, (D.fetched[turn], stream));
    ebb_mark_issue(out);
    return 0;
}

static bool is_pending(unsigned turn)
{
    bool any = false;
    for (uint32_t i = 0; i < D.check_count; i++)
        any |= D.pending[turn][i];
    return any;
}

void ebb_verify_step_end(void)
{
    unsigned turn = D.step & 1;
    /* Two steps ago: the host hardly ever waits here. */
    if (is_pending(turn) && !ebb_driver.cuEventSynchronize(D.fetched[turn]))
        compare_arrived(turn);
    for (uint32_t i = 0; i < D.check_count; i++) {
        check_t *c = &D.check[i];
        D.pending[turn][i] = c->begun && c->ended && !ebb_verify_is_first();
        c->begun = c->ended = false;
    }
    if (is_pending(turn) && fetch_verdicts(turn))
        memset(D.pending[turn], 0, D.check_count * sizeof *D.pending[turn]);
}

void ebb_verify_poll(void)
{
    for (unsigned turn = 0; turn < 2 && D.check_count; turn++)
        if (is_pending(turn) && !ebb_driver.cuEventQuery(D.fetched[turn]))
            compare_arrived(turn);
}

void ebb_verify_hand_over(ebb_given_up_t *out)
{
    for (uint32_t i = 0; i < D.check_count; i++) {
        check_t *c = &D.check[i];
        if (place_of(c) != out->id || !c->begun || c->ended)
            continue;
        out->hashes = D.hashes;
        out->slot = slot_of(c);
        out->copy = c->copy;
        c->copy = NULL;
    }
}

void ebb_verify_tear_down(void)
{
    for (int turn = 0; turn < 2; turn++)
        if (D.check_count)
            compare_arrived((unsigned)turn);
    for (uint32_t i = 0; i < D.check_count; i++)
        free_copy(&D.check[i]);
    for (int i = 0; i < 2; i++) {
        if (D.fetched[i])
            ebb_driver.cuEventDestroy(D.fetched[i]);
        free(D.pending[i]);
        D.pending[i] = NULL;
        D.fetched[i] = NULL;
    }
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
    check_t *c = D.check_at[action] != EBB_TRACE_NEVER ? &D.check[D.check_at[action]] : NULL;
    if (!c || !is_checked(D.check_at[action]) || ebb_guard_open(ebb_place_now(place_of(c))))
        return;
    c->begun = !ebb_streams_gather(own_stream()) && !hash_place(c, false);
    if (c->begun && ebb_verify_is_first())
        keep_copy(c);
    if (ebb_streams_scatter(own_stream()))
        ebb_wait_for_device();
}

void ebb_verify_replay(uint32_t action)
{
    for (uint32_t i = D.check_at[action]; i != EBB_TRACE_NEVER; i = D.check[i].next) {
        check_t *c = &D.check[i];
        if (!c->begun || ebb_streams_gather(own_stream()) || hash_place(c, true))
            continue;
        c->ended = true;
        if (ebb_verify_is_first())
            compare_now(c);
        else
            c->ended = !ebb_hash_compare(D.hashes, slot_of(c), slot_of(c) + 1, D.stream,
                                         D.verdict->address + verdict_at(D.step & 1, i) * sizeof *D.arrived);
        if (ebb_streams_scatter(own_stream()))
            ebb_wait_for_device();
    }
}

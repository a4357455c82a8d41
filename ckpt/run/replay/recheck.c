#include "ckpt/run/replay/internal.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/drive/drive.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"
#include "offload/ebb_offload.h"

/* Contents that are compared at once; those of an operation that are on trial. */
enum { MOST = 240, TRIALS = 2 }; /* hashes of so many share a chunk with others */

typedef enum state { FREE, HASHED, COMPARED } state_t;

/* Entry i of the hashes: of what is dropped, and whether what is made is another. */
typedef struct check {
    state_t state;
    uint32_t id, operation;
    ebb_hash_part_t part;
    ebb_mark_t end; /* the last thing that was issued for it */
} check_t;

struct ebb_recheck {
    ebb_hashes_t *hashes;
    ebb_stream_t *side;
    check_t check[MOST];
    uint32_t *entry_of; /* [buffers]: 1 + entry of those that are HASHED; 0 */
    uint64_t verified, mismatches;
};
const size_t ebb_part_recheck = sizeof(struct ebb_recheck);

void ebb_recheck_count(ebb_t *ebb, uint64_t *verified, uint64_t *mismatches)
{
    struct ebb_recheck *recheck = ebb->run->recheck;
    *verified = recheck->verified;
    *mismatches = recheck->mismatches;
}

static bool open_side(ebb_device_t *dev)
{
    struct ebb_recheck *recheck = dev->ebb->run->recheck;
    CUstream handle;
    if (!recheck->side && !ebb_driver.cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING))
        recheck->side = ebb_stream_of(dev, handle);
    return recheck->side != NULL;
}

/* It stays for the life of the process. */
static bool set_up(ebb_device_t *dev)
{
    struct ebb_recheck *recheck = dev->ebb->run->recheck;
    if (!recheck->hashes)
        recheck->hashes = ebb_hashes_new(dev, MOST);
    return recheck->hashes && open_side(dev);
}

ebb_stream_t *ebb_recheck_side(ebb_device_t *dev)
{
    struct ebb_recheck *recheck = dev->ebb->run->recheck;
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    return open_side(dev) ? recheck->side : tracked->learned->stream;
}

bool ebb_recheck_begin(ebb_device_t *dev)
{
    struct ebb_recheck *recheck = dev->ebb->run->recheck;
    ebb_tracked_t *tracked = dev->ebb->run->tracked;
    recheck->entry_of = calloc((size_t)tracked->learned->trace->buffer_count + 1, sizeof *recheck->entry_of);
    if (!tracked->learned->passed)
        tracked->learned->passed =
            calloc((size_t)tracked->learned->trace->operation_count + 1, sizeof *tracked->learned->passed);
    if (recheck->entry_of && tracked->learned->passed && set_up(dev))
        return true;
    ebb_log(EBB_DEBUG, "there is no memory to compare with: nothing is recomputed before there is a plan");
    ebb_recheck_end(dev->ebb);
    return false;
}

/* ---- entries ---- */

static check_t *check_of(struct ebb_recheck *recheck, uint32_t id)
{
    return recheck->entry_of && recheck->entry_of[id] ? &recheck->check[recheck->entry_of[id] - 1] : NULL;
}

static unsigned entry_of(struct ebb_recheck *recheck, const check_t *c)
{
    return (unsigned)(c - recheck->check);
}

void ebb_recheck_judged(ebb_t *ebb, uint32_t id, uint32_t operation, bool same, bool has_copy)
{
    struct ebb_recheck *recheck = ebb->run->recheck;
    ebb_tracked_t *tracked = ebb->run->tracked;
    uint8_t *passed = tracked->learned->passed;
    recheck->verified++;
    recheck->mismatches += !same;
    if (!same)
        ebb_mismatch(ebb, tracked->learned->trace, operation, id, has_copy);
    else if (passed && passed[operation] < TRIALS)
        passed[operation]++;
}

/* The comparison is over. */
static bool judge(ebb_t *ebb, check_t *c, bool has_copy)
{
    struct ebb_recheck *recheck = ebb->run->recheck;
    const bool same = !ebb_hash_differs(recheck->hashes, entry_of(recheck, c));
    ebb_hash_clear(recheck->hashes, entry_of(recheck, c));
    ebb_recheck_judged(ebb, c->id, c->operation, same, has_copy);
    c->state = FREE;
    return same;
}

static void read_verdicts(ebb_t *ebb, bool wait)
{
    struct ebb_recheck *recheck = ebb->run->recheck;
    for (check_t *c = recheck->check; recheck->entry_of && c < recheck->check + MOST; c++)
        if (c->state == COMPARED && (wait ? !ebb_mark_wait(c->end) : ebb_mark_reached(c->end)))
            judge(ebb, c, false);
}

void ebb_recheck_poll(ebb_t *ebb)
{
    read_verdicts(ebb, false);
}

void ebb_recheck_end(ebb_t *ebb)
{
    struct ebb_recheck *recheck = ebb->run->recheck;
    read_verdicts(ebb, true);
    memset(recheck->check, 0, sizeof recheck->check);
    free(recheck->entry_of);
    recheck->entry_of = NULL;
}

static check_t *find_free(struct ebb_recheck *recheck)
{
    for (unsigned i = 0; i < MOST; i++)
        if (recheck->check[i].state == FREE)
            return &recheck->check[i];
    return NULL;
}

static check_t *take(ebb_t *ebb)
{
    struct ebb_recheck *recheck = ebb->run->recheck;
    check_t *c = find_free(recheck);
    if (c)
        return c;
    read_verdicts(ebb, true);
    return find_free(recheck);
}

bool ebb_recheck_ready(ebb_t *ebb)
{
    struct ebb_recheck *recheck = ebb->run->recheck;
    for (unsigned i = 0; recheck->entry_of && i < MOST; i++)
        if (recheck->check[i].state != HASHED)
            return true;
    return false;
}

/* ---- contents ---- */

static ebb_status_t hash_dropped(const check_t *c, ebb_buffer_t *b, ebb_mark_t ready)
{
    ebb_device_t *dev = b->range->device;
    struct ebb_recheck *recheck = dev->ebb->run->recheck;
    EBB_TRY(ebb_mark_join(recheck->side, c->end)); /* a comparison before may still read the entry */
    EBB_TRY(ebb_mark_join(recheck->side, ready));
    EBB_TRY(ebb_buffer_join(recheck->side, b));
    return ebb_hash_issue(dev, recheck->hashes, entry_of(recheck, c), recheck->side, b->address, b->bytes,
                          c->part);
}

bool ebb_recheck_is_trial(ebb_t *ebb, uint32_t operation)
{
    ebb_tracked_t *tracked = ebb->run->tracked;
    return tracked->learned->passed[operation] < TRIALS;
}

ebb_mark_t ebb_recheck_dropping(ebb_buffer_t *b, uint32_t id, uint32_t operation, ebb_mark_t ready,
                                bool *keep_copy)
{
    ebb_t *ebb = b->range->device->ebb;
    struct ebb_recheck *recheck = ebb->run->recheck;
    ebb_tracked_t *tracked = ebb->run->tracked;
    const bool trial = ebb_recheck_is_trial(ebb, operation);
    *keep_copy = trial;
    const uint64_t every = trial ? 1 : (uint64_t)ebb_options.verify;
    if (!every)
        return (ebb_mark_t){0};
    check_t *c = take(ebb);
    if (c)
        c->part = (ebb_hash_part_t){tracked->step + operation, every};
    if (!c || hash_dropped(c, b, ready)) {
        *keep_copy = true; /* it cannot be compared */
        return (ebb_mark_t){0};
    }
    *c = (check_t){HASHED, id, operation, c->part, ebb_mark_here(recheck->side)};
    recheck->entry_of[id] = 1 + entry_of(recheck, c);
    return c->end;
}

static ebb_status_t hash_made(const check_t *c, ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_device_t *dev = b->range->device;
    struct ebb_recheck *recheck = dev->ebb->run->recheck;
    EBB_TRY(ebb_mark_join(stream, c->end));
    EBB_TRY(
        ebb_hash_compare(dev, recheck->hashes, entry_of(recheck, c), stream, b->address, b->bytes, c->part));
    return ebb_residence_used(b, ebb_mark_here(stream));
}

ebb_status_t ebb_recheck_made(ebb_buffer_t *b, uint32_t id, ebb_stream_t *stream)
{
    ebb_t *ebb = b->range->device->ebb;
    struct ebb_recheck *recheck = ebb->run->recheck;
    check_t *c = check_of(recheck, id);
    if (!c)
        return 0;
    EBB_TRY(hash_made(c, b, stream));
    c->state = COMPARED;
    c->end = ebb_mark_here(stream);
    return 0;
}

bool ebb_recheck_agrees(ebb_t *ebb, uint32_t id)
{
    struct ebb_recheck *recheck = ebb->run->recheck;
    check_t *c = check_of(recheck, id);
    if (!c || c->state != COMPARED)
        return false;
    recheck->entry_of[id] = 0;
    return !ebb_mark_wait(c->end) && judge(ebb, c, true);
}

void ebb_recheck_forget(ebb_t *ebb, uint32_t id)
{
    struct ebb_recheck *recheck = ebb->run->recheck;
    check_t *c = check_of(recheck, id);
    if (c && c->state == HASHED)
        c->state = FREE; /* `end` stays: the hash may be under way */
    if (recheck->entry_of)
        recheck->entry_of[id] = 0;
}

/* ---- other bits than before ---- */

void ebb_content_lost(ebb_t *ebb, uint32_t buffer, const char *why)
{
    ebb_log(EBB_WARN, "the content of buffer %u of the step is lost: %s", buffer, why);
    ebb_fail_program(ebb);
}

void ebb_mismatch(ebb_t *ebb, ebb_trace_t *trace, uint32_t operation, uint32_t buffer, bool has_copy)
{
    ebb_trace_operation_t *o = &trace->operation[operation];
    o->proofs = 0;
    o->verdict = EBB_DIFFERS;
    ebb_drive_refute(ebb);
    ebb_log(EBB_WARN,
            "buffer %u, recomputed by %s (operation %u), has other bits: it is not recomputed any more",
            buffer, o->name, operation);
    if (has_copy)
        return;
    if (!strcmp(ebb_options.on_mismatch, "warn"))
        ebb_log(EBB_WARN, "going on with other bits (EBB_ON_MISMATCH=warn)");
    else
        ebb_content_lost(ebb, buffer, "it was recomputed with other bits, and no copy was left");
}

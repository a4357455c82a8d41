
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/profile/internal.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"

/* Profiling passes lost in a row before giving up; profiling passes since the recording. */
enum { MOST_LOST = 8, MOST_STEPS = 16 };
/* Times that another step is recorded, because the next one lacked something of it. */
enum { MOST_AGAIN = 3 };
/* In steps' worth of time: how much slower a profiling pass that proves may make its step, by a guess that the profiling passes before have
 * corrected, within bounds: a step may be slow for other reasons, such as evictions. */
static const double cost_of_a_pass = 1.25, most_wrong = 2.0;

struct ebb_pass {
    ebb_profile_t *profile;      /* NULL: none is under way */
    bool spoiled;                /* it teaches nothing */
    uint32_t operation;          /* between before and after */
    bool resized;                /* nothing but its place is known of it */
    ebb_stream_t *stream;        /* the first operation's */
    bool timed;                  /* its beginning was recorded */
    CUevent mark[EBB_STATES][2]; /* its begin and end; made once */
};
const size_t ebb_part_pass = sizeof(struct ebb_pass);

/* ---- profiling passes as values ---- */

ebb_profile_t *ebb_profile_new(void)
{
    return calloc(1, sizeof(ebb_profile_t));
}

static void forget(ebb_device_t *dev, ebb_profile_t *l)
{
    if (ebb_tracker_follows(dev->ebb, &l->recorded))
        ebb_tracker_end(dev);
    ebb_recording_delete(&l->recorded);
    free(l->fact);
    free(l->extent);
    free(l->first_tile);
    free(l->arena);
    free(l->crossed);
    free(l->wide);
    free(l->first_use);
    free(l->left);
    *l = (ebb_profile_t){.lost = l->lost,
                         .lost_in_a_row = l->lost_in_a_row,
                         .given = l->given,
                         .earlier = l->given,
                         .again = l->again,
                         .all = l->all};
}

void ebb_profile_delete(ebb_device_t *dev, ebb_profile_t *l)
{
    struct ebb_pass *pass = dev->ebb->run->pass;
    if (!l)
        return;
    if (pass->profile == l)
        ebb_learn_abandon(dev);
    forget(dev, l);
    free(l);
}

ebb_recording_t *ebb_profile_recording(ebb_profile_t *l)
{
    return &l->recorded;
}

/* ---- one profiling pass ---- */

bool ebb_learn_running(ebb_t *ebb)
{
    struct ebb_pass *pass = ebb->run->pass;
    return pass->profile != NULL;
}

/* What is guessed for proofs that take so long, by those that there were. */
static double guess_for(const ebb_profile_t *l, double ns)
{
    const double ratio = l->proofs_ns > 0 ? l->proofs_guessed_ns / l->proofs_ns : 1;
    return ns * (ratio > most_wrong ? most_wrong : ratio < 1 / most_wrong ? 1 / most_wrong : ratio);
}

static bool begin_stage(ebb_device_t *dev, ebb_profile_t *l)
{
    switch (l->stage) {
    case EBB_STAGE_RECORD:
        ebb_record_begin(dev);
        return true;
    case EBB_STAGE_TIMES:
        return ebb_times_begin(dev, l);
    case EBB_STAGE_WATCH:
        return ebb_writes_begin(dev, l, true);
    case EBB_STAGE_LOOK:
        return ebb_writes_begin(dev, l, false);
    default:
        return ebb_proofs_begin(dev, l, guess_for(l, cost_of_a_pass * l->step_ns));
    }
}

/* Ends the stage's part; `good`: what it has seen is a step. */
static void end_stage(ebb_device_t *dev, ebb_profile_t *l, bool good)
{
    struct ebb_pass *pass = dev->ebb->run->pass;
    switch (l->stage) {
    case EBB_STAGE_RECORD:
        break;
    case EBB_STAGE_TIMES:
        if (good && ebb_wait_for_device(dev->ebb))
            good = false;
        ebb_times_end(dev, good);
        break;
    case EBB_STAGE_WATCH:
    case EBB_STAGE_LOOK:
        ebb_writes_end(dev, good, pass->stream);
        break;
    default:
        ebb_proofs_end(dev, good, pass->stream);
    }
}

bool ebb_learn_begin(ebb_device_t *dev, ebb_profile_t *l)
{
    struct ebb_pass *pass = dev->ebb->run->pass;
    ebb_learn_abandon(dev);
    const bool anew = l->unloaded != ebb_modules_unloaded(dev->ebb);
    if (anew)
        forget(dev, l);
    l->unloaded = ebb_modules_unloaded(dev->ebb);
    if (!anew && l->stage != EBB_STAGE_RECORD && !ebb_match_begin(dev->ebb, &l->recorded, l->left))
        return false;
    if (!begin_stage(dev, l)) {
        ebb_match_end(dev->ebb);
        return false;
    }
    pass->profile = l;
    return true;
}

bool ebb_learn_give(ebb_t *ebb, ebb_profile_t *l)
{
    struct ebb_pass *pass = ebb->run->pass;
    if (pass->profile == l)
        return true;
    if (!pass->profile || pass->profile->stage != EBB_STAGE_RECORD || l->stage != EBB_STAGE_RECORD)
        return false;
    l->unloaded = pass->profile->unloaded;
    pass->profile = l;
    return true;
}

static void close_pass(ebb_t *ebb)
{
    struct ebb_pass *pass = ebb->run->pass;
    ebb_match_end(ebb);
    ebb_record_abandon(ebb);
    memset(pass, 0, sizeof *pass);
}

void ebb_learn_abandon(ebb_device_t *dev)
{
    struct ebb_pass *pass = dev->ebb->run->pass;
    if (!pass->profile)
        return;
    end_stage(dev, pass->profile, false);
    pass->profile->lost++;
    close_pass(dev->ebb);
}

bool ebb_learn_relieve(ebb_t *ebb)
{
    struct ebb_pass *pass = ebb->run->pass;
    return pass->profile && pass->profile->stage == EBB_STAGE_PROVE && ebb_proofs_relieve(ebb);
}

static bool record_mark(ebb_device_t *dev, unsigned which)
{
    struct ebb_pass *pass = dev->ebb->run->pass;
    CUevent *e = &dev->ebb->run->pass->mark[dev->number][which];
    return (*e || !ebb_driver.cuEventCreate(e, CU_EVENT_DEFAULT)) &&
           !ebb_driver.cuEventRecord(*e, ebb_stream_handle(pass->stream));
}

static void note_time(ebb_device_t *dev, ebb_profile_t *l)
{
    struct ebb_pass *pass = dev->ebb->run->pass;
    float ms = 0;
    const CUevent *mark = dev->ebb->run->pass->mark[dev->number];
    if (!pass->timed || !record_mark(dev, 1) || ebb_driver.cuEventSynchronize(mark[1]) ||
        ebb_driver.cuEventElapsedTime(&ms, mark[0], mark[1]))
        return;
    if (l->stage == EBB_STAGE_RECORD)
        l->step_ns = (double)ms * 1e6;
    if (l->stage == EBB_STAGE_PROVE && (double)ms * 1e6 > l->step_ns)
        l->proofs_ns += (double)ms * 1e6 - l->step_ns;
    l->total_ns += (double)ms * 1e6;
    l->steps++;
    ebb_log(EBB_DEBUG, "profiling pass %u, stage %d: %.3f ms", l->given, (int)l->stage, (double)ms);
}

/* ---- what happens in it ---- */

/* An operation that the recording does not know comes in between. */
static void note_stranger(ebb_t *ebb, const ebb_profile_t *l)
{
    if (l->stage == EBB_STAGE_WATCH || l->stage == EBB_STAGE_LOOK)
        ebb_writes_interrupt(ebb);
}

void ebb_learn_before(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_pass *pass = dev->ebb->run->pass;
    ebb_profile_t *l = pass->profile;
    pass->operation = EBB_NONE;
    pass->resized = false;
    if (!pass->stream) {
        pass->stream = op->stream;
        pass->timed = record_mark(dev, 0);
    }
    if (l->stage == EBB_STAGE_RECORD || pass->spoiled)
        return;
    uint32_t i = pass->operation = ebb_match_operation(dev->ebb, op);
    if (i == EBB_NONE)
        pass->spoiled = ebb_match_difference(dev->ebb, false) != NULL;
    else
        pass->resized = ebb_match_is_resized(dev->ebb);
    if (i == EBB_NONE || pass->resized)
        note_stranger(dev->ebb, l);
    else if (l->stage == EBB_STAGE_TIMES)
        ebb_times_before(dev, i, op);
    else if (l->stage == EBB_STAGE_PROVE)
        ebb_proofs_before(dev, i, op);
    else
        ebb_writes_before(dev, i, op);
}

void ebb_learn_after(ebb_device_t *dev, const ebb_operation_t *op, CUresult result)
{
    struct ebb_pass *pass = dev->ebb->run->pass;
    ebb_profile_t *l = pass->profile;
    uint32_t i = pass->operation;
    if (l->stage == EBB_STAGE_RECORD) {
        if (!result)
            ebb_record_operation(dev, op);
        return;
    }
    if (pass->spoiled || i == EBB_NONE)
        return;
    if (result) {
        pass->spoiled = true;
        return;
    }
    ebb_match_advance(dev->ebb, i);
    if (pass->resized)
        return;
    if (l->stage == EBB_STAGE_TIMES)
        ebb_times_after(dev, i, op);
    else if (l->stage == EBB_STAGE_PROVE)
        ebb_proofs_after(dev, i, op);
    else
        ebb_writes_after(dev, i, op);
    /* What was issued behind the operation has touched its buffers too. */
    for (uint32_t k = 0; l->stage > EBB_STAGE_TIMES && k < op->access_count; k++)
        ebb_buffer_touch(op->access[k].buffer, ebb_mark_here(op->stream));
}

void ebb_learn_allocated(const ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    ebb_t *ebb = buffer->range->device->ebb;
    struct ebb_pass *pass = ebb->run->pass;
    if (pass->profile->stage == EBB_STAGE_RECORD)
        ebb_record_allocated(buffer, stream);
    else
        ebb_match_allocated(buffer);
}

void ebb_learn_freed(ebb_buffer_t *buffer, ebb_stream_t *stream)
{
    ebb_t *ebb = buffer->range->device->ebb;
    struct ebb_pass *pass = ebb->run->pass;
    if (pass->profile->stage == EBB_STAGE_RECORD)
        ebb_record_freed(buffer, stream);
    else
        ebb_match_freed(buffer);
}

/* ---- what it has taught ---- */

/* What comes after this profiling pass. */
static bool next_stage(ebb_device_t *dev, ebb_profile_t *l)
{
    if (l->stage == EBB_STAGE_TIMES)
        l->stage = EBB_STAGE_WATCH;
    else if (l->stage == EBB_STAGE_WATCH && ebb_writes_is_needed(dev, l))
        l->stage = EBB_STAGE_LOOK;
    else if (l->stage == EBB_STAGE_WATCH || l->stage == EBB_STAGE_LOOK)
        l->stage = EBB_STAGE_PROVE;
    if (l->stage != EBB_STAGE_PROVE)
        return true;
    if (!ebb_facts_select(dev, l))
        return false;
    if (l->given - l->earlier >= MOST_STEPS || !ebb_proofs_is_needed(l))
        l->stage = EBB_STAGE_DONE;
    return true;
}

static ebb_learned_t finish(ebb_device_t *dev, ebb_profile_t *l)
{
    if (ebb_tracker_follows(dev->ebb, &l->recorded)) /* as it was recorded, without times and proofs */
        ebb_tracker_end(dev);
    if (l->recorded.hidden)
        ebb_log(
            EBB_WARN,
            "an operation reaches buffers through a table of pointers that another one has made: no plan, "
            "ebb stays reactive");
    ebb_facts_conclude(dev, l);
    double cost = l->step_ns > 0 ? (l->total_ns - l->steps * l->step_ns) / l->step_ns : 0;
    ebb_log(EBB_INFO, "learned in %u steps, which cost %.2f steps' worth of time", l->given,
            cost > 0 ? cost : 0);
    return EBB_LEARNED;
}

bool ebb_profile_ask_more(ebb_device_t *dev, ebb_profile_t *l)
{
    if (l->stage != EBB_STAGE_DONE || l->all)
        return false;
    l->all = true;
    /* What has turned out to differ since then stays so. */
    for (uint32_t i = 0; i < l->recorded.trace->operation_count; i++)
        l->fact[i].refuted |= l->recorded.trace->operation[i].verdict == EBB_DIFFERS;
    if (!ebb_facts_select(dev, l) || !ebb_proofs_is_needed(l))
        return false;
    l->stage = EBB_STAGE_PROVE;
    if (ebb_tracker_follows(dev->ebb, &l->recorded))
        ebb_tracker_end(dev);
    l->recorded.concluded = false;
    return true;
}

static ebb_learned_t lose(ebb_device_t *dev, ebb_profile_t *l, const char *why)
{
    l->lost_in_a_row++;
    if (why)
        ebb_log(EBB_INFO, "two steps differ in %s", why);
    close_pass(dev->ebb);
    if (l->lost_in_a_row < MOST_LOST) {
        if (l->lost_in_a_row > 1)
            forget(dev, l); /* it may be the recorded one that is no step */
        return EBB_LEARNED_NOT;
    }
    ebb_log(EBB_WARN, "the program's steps differ from one another: no plan, ebb stays reactive");
    return EBB_LEARNED_NEVER;
}

ebb_learned_t ebb_learn_end(ebb_device_t *dev)
{
    struct ebb_pass *pass = dev->ebb->run->pass;
    ebb_profile_t *l = pass->profile;
    const bool records = l->stage == EBB_STAGE_RECORD;
    l->given++;
    if (l->unloaded != ebb_modules_unloaded(dev->ebb)) {
        end_stage(dev, l, false);
        forget(dev, l);
        return lose(dev, l, "their modules: one was unloaded");
    }
    if (records) {
        if (!ebb_record_end(dev->ebb, &l->recorded) || !ebb_pieces_measure(l)) {
            forget(dev, l);
            return lose(dev, l, NULL);
        }
        note_time(dev, l);
        l->stage = EBB_STAGE_TIMES;
    } else {
        const char *difference = ebb_match_difference(dev->ebb, true);
        if (pass->spoiled || difference) {
            end_stage(dev, l, false);
            return lose(dev, l, difference);
        }
        if (l->stage == EBB_STAGE_TIMES && ebb_match_missing(dev->ebb) && l->again < MOST_AGAIN) {
            l->again++;
            end_stage(dev, l, false);
            close_pass(dev->ebb);
            forget(dev, l);
            return EBB_LEARNED_NOT;
        }
        ebb_match_note_left(dev->ebb, l->recorded.trace, l->left);
        end_stage(dev, l, true);
        note_time(dev, l);
        if (!next_stage(dev, l))
            l->stage = EBB_STAGE_DONE;
    }
    l->lost_in_a_row = 0;
    close_pass(dev->ebb);
    return l->stage == EBB_STAGE_DONE ? finish(dev, l) : EBB_LEARNED_NOT;
}

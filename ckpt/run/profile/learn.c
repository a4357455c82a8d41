/* learn.c: the table of profiling passes, and the loop over it; see internal.h. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/profile/internal.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"

/* Passes lost in a row before giving up; passes since the recording, lost ones too. */
enum { MOST_LOST = 8, MOST_PASSES = 16 };

/* In their order; what is not given is none (NULL, 0). */
static const ebb_pass_kind_t kinds[] = {
    {.name = "record",
     .most = 1,
     .begin = ebb_record_begin,
     .stray = ebb_record_operation,
     .end = ebb_record_end},
    {.name = "times",
     .most = 1,
     .most_again = 3,
     .begin = ebb_times_begin,
     .before = ebb_times_before,
     .after = ebb_times_after,
     .end = ebb_times_end},
    {.name = "writes",
     .most = 2,
     .is_needed = ebb_writes_is_needed,
     .begin = ebb_writes_begin,
     .before = ebb_writes_before,
     .after = ebb_writes_after,
     .stray = ebb_writes_stray,
     .end = ebb_writes_end},
    {.name = "proofs",
     .most = MOST_PASSES,
     .is_needed = ebb_proofs_is_needed,
     .begin = ebb_proofs_begin,
     .before = ebb_proofs_before,
     .after = ebb_proofs_after,
     .end = ebb_proofs_end},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const size_t ebb_part_pass = sizeof(struct ebb_pass);

/* The pass has been given: to the next one, of this kind or a later one. False: none is needed. */
static bool go_on(ebb_device_t *dev, ebb_profile_t *l)
{
    l->turn++;
    for (;; l->kind++, l->turn = 0, l->cost_before_ns = l->cost_ns) {
        const ebb_pass_kind_t *kind = &kinds[l->kind];
        if (l->turn < kind->most && (!kind->is_needed || kind->is_needed(dev, l)))
            return true;
        if (l->kind + 1 == KINDS)
            return false;
    }
}

/* ---- what they have shown, as a value ---- */

ebb_profile_t *ebb_profile_new(void)
{
    return calloc(1, sizeof(ebb_profile_t));
}

/* All begins anew, with the first kind. */
static void forget(ebb_device_t *dev, ebb_profile_t *l)
{
    if (ebb_tracker_follows(dev, &l->recorded))
        ebb_tracker_end(dev);
    ebb_verify_close(dev, &l->recorded);
    ebb_recording_delete(&l->recorded);
    free(l->fact);
    free(l->reach);
    free(l->buffer);
    free(l->seen);
    *l = (ebb_profile_t){.lost_in_a_row = l->lost_in_a_row,
                         .given = l->given,
                         .earlier = l->given,
                         .again = l->again,
                         .all = l->all};
}

void ebb_profile_delete(ebb_device_t *dev, ebb_profile_t *l)
{
    if (!l)
        return;
    if (dev->run->pass->profile == l)
        ebb_learn_abandon(dev);
    forget(dev, l);
    free(l);
}

ebb_recording_t *ebb_profile_recording(ebb_profile_t *l)
{
    return &l->recorded;
}

bool ebb_profile_ask_more(ebb_device_t *dev, ebb_profile_t *l, bool all)
{
    if (!l->recorded.concluded || (all && l->all))
        return false;
    l->all |= all;
    if (!all && ebb_sizes_are_new(l)) {
        for (l->kind = 0; kinds[l->kind].begin != ebb_writes_begin; l->kind++)
            ;
        l->turn = 0;
    } else if (!go_on(dev, l)) {
        return false;
    }
    if (ebb_tracker_follows(dev, &l->recorded))
        ebb_tracker_end(dev);
    l->recorded.concluded = false;
    return true;
}

/* ---- begin and end of a pass ---- */

bool ebb_learn_running(ebb_device_t *dev)
{
    return dev->run->pass->profile != NULL;
}

static void close_pass(ebb_device_t *dev)
{
    memset(dev->run->pass, 0, offsetof(struct ebb_pass, mark));
}

bool ebb_learn_begin(ebb_device_t *dev, ebb_profile_t *l)
{
    const uint64_t unloaded = ebb_modules_unloaded(dev->ebb);
    const bool is_recorded = l->recorded.trace && l->unloaded == unloaded;
    ebb_learn_abandon(dev);
    if (!is_recorded)
        forget(dev, l);
    l->unloaded = unloaded;
    dev->run->pass->profile = l;
    if (is_recorded)
        ebb_tracker_boundary(dev, &l->recorded);
    dev->run->pass->step = dev->run->tracked->step;
    if ((!is_recorded || ebb_tracker_follows(dev, &l->recorded)) && kinds[l->kind].begin(dev))
        return true;
    close_pass(dev);
    return false;
}

bool ebb_learn_give(ebb_device_t *dev, ebb_profile_t *l)
{
    struct ebb_pass *pass = dev->run->pass;
    if (pass->profile == l)
        return true;
    if (!pass->profile || pass->profile->recorded.trace || l->recorded.trace)
        return false;
    l->unloaded = pass->profile->unloaded;
    pass->profile = l;
    return true;
}

ebb_recording_t *ebb_learn_recording(ebb_device_t *dev)
{
    ebb_profile_t *l = dev->run->pass->profile;
    return l && l->recorded.trace ? &l->recorded : NULL;
}

void ebb_learn_abandon(ebb_device_t *dev)
{
    const ebb_profile_t *l = dev->run->pass->profile;
    if (!l)
        return;
    kinds[l->kind].end(dev, false);
    close_pass(dev);
}

/* How the step under way differs from the recorded one; NULL: in nothing. */
static const char *difference(ebb_device_t *dev, bool whole)
{
    const struct ebb_pass *pass = dev->run->pass;
    return !ebb_tracker_follows(dev, &pass->profile->recorded) || pass->step != dev->run->tracked->step
               ? "where they begin"
               : ebb_match_difference(dev, whole);
}

/* ---- around an operation ---- */

static bool record_mark(ebb_device_t *dev, unsigned which)
{
    struct ebb_pass *pass = dev->run->pass;
    CUevent *e = &pass->mark[which];
    return (*e || !ebb_driver.cuEventCreate(e, CU_EVENT_DEFAULT)) &&
           !ebb_driver.cuEventRecord(*e, ebb_stream_handle(pass->stream));
}

/* A buffer is larger than in any step before: there is no room for what would be seen of it. */
static bool outgrows(ebb_device_t *dev, const ebb_operation_t *op)
{
    const ebb_trace_t *t = dev->run->pass->profile->recorded.trace;
    const ebb_tracked_t *tracked = dev->run->tracked;
    bool larger = false;
    for (uint32_t k = 0; tracked->match == EBB_MATCH_EXACT && k < op->access_count; k++)
        larger |= op->access[k].buffer->bytes >
                  t->buffer[t->access[t->operation[tracked->at].first_access + k].buffer].bytes;
    return larger && ebb_learn_recording(dev)->any_size;
}

void ebb_learn_before(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_pass *pass = dev->run->pass;
    const ebb_tracked_t *tracked = dev->run->tracked;
    const ebb_profile_t *l = pass->profile;
    if (!pass->stream) {
        pass->stream = op->stream;
        pass->timed = record_mark(dev, 0);
    }
    pass->spoiled |= l->recorded.trace && difference(dev, false);
    pass->outgrown |= l->recorded.trace && outgrows(dev, op);
    pass->strays = pass->outgrown || !l->recorded.trace || tracked->match != EBB_MATCH_EXACT;
    if (!pass->spoiled && !pass->strays)
        kinds[l->kind].before(dev, tracked->at, op);
}

void ebb_learn_after(ebb_device_t *dev, const ebb_operation_t *op, CUresult result)
{
    struct ebb_pass *pass = dev->run->pass;
    const ebb_pass_kind_t *kind = &kinds[pass->profile->kind];
    if (result)
        pass->spoiled |= !pass->strays;
    if (pass->spoiled || result)
        return;
    if (pass->strays) {
        if (kind->stray)
            kind->stray(dev, op);
        return;
    }
    kind->after(dev, dev->run->tracked->at, op);
    for (uint32_t k = 0; k < op->access_count; k++)
        ebb_buffer_touch(op->access[k].buffer, ebb_mark_here(op->stream));
}

void ebb_learn_lifetime(const ebb_buffer_t *buffer, ebb_sync_kind_t what, ebb_stream_t *stream)
{
    if (!ebb_learn_recording(buffer->range->device))
        ebb_record_lifetime(buffer, what, stream);
}

/* ---- what a step has taught ---- */

/* The first one's is the step's own: nothing of ebb's is in it. */
static void note_time(ebb_device_t *dev, ebb_profile_t *l, const char *kind)
{
    struct ebb_pass *pass = dev->run->pass;
    const CUevent *mark = pass->mark;
    float ms = 0;
    if (!pass->timed || !record_mark(dev, 1) || ebb_await_event(mark[1]) ||
        ebb_driver.cuEventElapsedTime(&ms, mark[0], mark[1]))
        return;
    const double ns = (double)ms * 1e6;
    if (l->step_ns <= 0)
        l->step_ns = ns;
    l->cost_ns += ns - l->step_ns;
    ebb_log(EBB_DEBUG, "profiling pass %u, %s: %.3f ms", l->given, kind, (double)ms);
}

/* The step teaches nothing. `anew`: nor is what is recorded any good. */
static ebb_learned_t lose(ebb_device_t *dev, ebb_profile_t *l, const char *why, bool anew)
{
    if (why)
        ebb_log(EBB_INFO, "two steps differ in %s", why);
    ebb_learn_abandon(dev);
    if (anew)
        forget(dev, l);
    if (++l->lost_in_a_row < MOST_LOST)
        return EBB_LEARNED_NOT;
    ebb_log(EBB_WARN, "the program's steps differ from one another: no plan, ebb stays reactive");
    return EBB_LEARNED_NEVER;
}

static ebb_learned_t finish(ebb_device_t *dev, ebb_profile_t *l)
{
    if (ebb_tracker_follows(dev, &l->recorded)) /* as it was recorded, without times and proofs */
        ebb_tracker_end(dev);
    if (l->recorded.hidden)
        ebb_log(
            EBB_WARN,
            "an operation reaches buffers through a table of pointers that another one has made: no plan, "
            "ebb stays reactive");
    ebb_facts_conclude(dev, l);
    const double cost = l->step_ns > 0 ? l->cost_ns / l->step_ns : 0;
    ebb_log(EBB_INFO, "learned in %u steps, which cost %.2f steps' worth of time", l->given,
            cost > 0 ? cost : 0);
    return EBB_LEARNED;
}

ebb_learned_t ebb_learn_end(ebb_device_t *dev)
{
    struct ebb_pass *pass = dev->run->pass;
    ebb_profile_t *l = pass->profile;
    const ebb_pass_kind_t *kind = &kinds[l->kind];
    const bool is_first = !l->recorded.trace;
    l->given++;
    if (l->unloaded != ebb_modules_unloaded(dev->ebb))
        return lose(dev, l, "their modules: one was unloaded", true);
    if (l->recorded.trace) {
        const char *what = difference(dev, true);
        if (pass->spoiled || what)
            return lose(dev, l, what, l->lost_in_a_row); /* it may be the recorded one that is no step */
        if (l->again < kind->most_again && ebb_match_missing(dev)) {
            l->again++;
            ebb_learn_abandon(dev);
            forget(dev, l);
            return EBB_LEARNED_NOT;
        }
        ebb_match_note_next(dev);
    }
    if (!kind->end(dev, !pass->outgrown))
        return lose(dev, l, NULL, true);
    if (!is_first)
        ebb_profile_grow(dev, l);
    if (pass->outgrown) {
        l->earlier++;
        close_pass(dev);
        return EBB_LEARNED_NOT;
    }
    note_time(dev, l, kind->name);
    l->lost_in_a_row = 0;
    const bool more = go_on(dev, l);
    close_pass(dev);
    return more && l->given - l->earlier < MOST_PASSES ? EBB_LEARNED_NOT : finish(dev, l);
}

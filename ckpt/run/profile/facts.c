/* facts.c: what profiling passes have found about the operations of a step: which write, which may be tried, which are worth it, and what
 * the trace says of them in the end. */
#include "ckpt/run/profile/internal.h"

#include <string.h>

#include "alloc/base/options.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "alloc/kernel/kernel.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/tracker/tracker.h"

static bool may_write(ebb_device_t *dev, const ebb_recording_t *r, uint32_t i, uint32_t access)
{
    const uint32_t word = ebb_word_of(r, i, &r->trace->access[access]);
    return ebb_know_word(dev, r->operation[i].function, word) != EBB_WORD_READS;
}

static void note_modes_of(ebb_device_t *dev, const ebb_recording_t *r, uint32_t i)
{
    ebb_trace_access_t *a = r->trace->access;
    const ebb_trace_operation_t *o = &r->trace->operation[i];
    const uint32_t end = o->first_access + o->access_count;
    for (uint32_t k = o->first_access; k < end; k++) {
        bool writes = false;
        if (!ebb_trace_is_first(r->trace, i, k))
            continue;
        for (uint32_t m = k; m < end; m++)
            writes |= a[m].buffer == a[k].buffer && may_write(dev, r, i, m);
        for (uint32_t m = k; m < end; m++)
            if (a[m].buffer == a[k].buffer && writes != (a[m].mode != EBB_READS))
                a[m].mode = writes ? EBB_UPDATES : EBB_READS;
    }
}

void ebb_facts_note_modes(ebb_device_t *dev, const ebb_profile_t *l)
{
    for (uint32_t i = 0; i < l->recorded.trace->operation_count; i++)
        if (l->recorded.trace->operation[i].kind == EBB_TRACE_KERNEL)
            note_modes_of(dev, &l->recorded, i);
}

/* ---- which operations may be tried ---- */

bool ebb_facts_has_foreign(ebb_device_t *dev, const unsigned char *params, size_t bytes)
{
    for (size_t at = 0; at + sizeof(CUdeviceptr) <= bytes; at += sizeof(CUdeviceptr)) {
        CUdeviceptr word;
        memcpy(&word, params + at, sizeof word);
        if (ebb_word_is_foreign(dev, word))
            return true;
    }
    return false;
}

/* Something else may change what it reads, or read what it writes. */
static bool touches_pinned(const ebb_trace_t *t, const ebb_trace_operation_t *o)
{
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        if (t->buffer[t->access[k].buffer].pinned)
            return true;
    return false;
}

static ebb_verdict_t qualify(ebb_device_t *dev, const ebb_profile_t *l, uint32_t i)
{
    const ebb_trace_t *t = l->recorded.trace;
    const ebb_trace_operation_t *o = &t->operation[i];
    if (l->fact[i].why == EBB_TABLE || l->fact[i].why == EBB_NO_ROOM || l->fact[i].why == EBB_REFUSED)
        return l->fact[i].why;
    if (ebb_function_has_variables(dev->ebb, l->recorded.operation[i].function))
        return EBB_GLOBALS;
    if (o->verdict == EBB_ATTRIBUTES || o->verdict == EBB_TABLE)
        return o->verdict;
    if (!o->access_count)
        return EBB_UNTRIED;
    if (!o->arg_bytes || o->arg_bytes > EBB_RELAUNCH_PARAM_BYTES)
        return EBB_OPAQUE;
    return ebb_name_communicates(ebb_know_name(dev, l->recorded.operation[i].function)) ? EBB_COMMUNICATES
           : ebb_facts_has_foreign(dev, t->args + o->first_arg, o->arg_bytes)           ? EBB_FOREIGN
           : touches_pinned(t, o) ? l->fact[i].wanted ? EBB_FOREIGN : EBB_UNTRIED
                                  : EBB_PROVEN;
}

/* Says of every operation why it may not be replayed, or PROVEN if its replays agree. */
static void qualify_all(ebb_device_t *dev, ebb_profile_t *l)
{
    for (uint32_t i = 0; i < l->recorded.trace->operation_count; i++) {
        ebb_trace_operation_t *o = &l->recorded.trace->operation[i];
        if (o->kind != EBB_TRACE_KERNEL)
            continue;
        l->fact[i].refuted |= o->verdict == EBB_DIFFERS; /* since it was learned */
        l->fact[i].why = qualify(dev, l, i);
        if (l->fact[i].why != EBB_PROVEN && !l->recorded.concluded)
            o->verdict = l->fact[i].why;
    }
}

/* Steps in which it is replayed, unless more are needed for enough that agree. */
enum { ROUNDS = 2, MOST_ROUNDS = 3 };

bool ebb_fact_is_open(const ebb_fact_t *f)
{
    return f->wanted && f->why == EBB_PROVEN && !f->refuted &&
           (f->rounds < ROUNDS || (f->agreed < EBB_LEAST_PROOFS && f->rounds < MOST_ROUNDS));
}

/* ---- which are worth it ---- */

static bool is_used_later(const ebb_trace_t *t, uint32_t operation, uint32_t buffer)
{
    const ebb_trace_operation_t *o = &t->operation[operation];
    for (uint32_t k = o->first_access + o->access_count; k < t->access_count; k++)
        if (t->access[k].buffer == buffer)
            return true;
    return false;
}

/* Buffers that outlive the step are idle from their last use in it to the first in the next one: gradients, say. If that
 * first use replaces them, nothing need be kept; only a replay from zeros shows it. Worth trying where all of a large
 * buffer was seen to be written, and others use it in the step: what no other uses is the operation's own state, an
 * optimizer's, say. */
static void choose_replacements(ebb_profile_t *l, ebb_need_t *need)
{
    const ebb_trace_t *t = l->recorded.trace;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            const ebb_trace_access_t *a = &t->access[k];
            const ebb_trace_buffer_t *b = &t->buffer[a->buffer];
            if (o->kind == EBB_TRACE_KERNEL && l->buffer[a->buffer].first_use == k && b->born == EBB_NONE &&
                !b->pinned && !l->buffer[a->buffer].arena && b->bytes > EBB_SMALL_BYTES &&
                a->tile_count == ebb_tile_count(b->bytes) && is_used_later(t, i, a->buffer))
                need[i] = EBB_WANTED;
        }
    }
}

bool ebb_facts_select(ebb_device_t *dev, ebb_profile_t *l)
{
    const ebb_trace_t *t = l->recorded.trace;
    const uint64_t evictable = (uint64_t)ebb_options.min_buffer;
    ebb_worth_t worth;
    if (!l->recorded.concluded) /* else others go by it, until it is given up */
        ebb_facts_note_modes(dev, l);
    qualify_all(dev, l);
    if (!ebb_worth_find(t, evictable > EBB_SMALL_BYTES ? evictable : EBB_SMALL_BYTES + 1, &worth))
        return false;
    choose_replacements(l, worth.need);
    /* A fixed strategy gives up what it says, worth it or not. */
    const bool all =
        l->all || (ebb_options.policy.code != EBB_POLICY_AUTO && ebb_options.policy.code != EBB_POLICY_LEARN);
    const ebb_need_t least = all ? EBB_WANTED_LAST : EBB_WANTED;
    for (uint32_t i = 0; i < t->operation_count; i++)
        l->fact[i].wanted = worth.need[i] >= least && t->operation[i].kind == EBB_TRACE_KERNEL;
    ebb_worth_free(&worth);
    return true;
}

/* ---- what it comes to ---- */

/* Distinct buffers that an operation may write. */
static unsigned count_written(const ebb_trace_t *t, uint32_t i)
{
    const ebb_trace_operation_t *o = &t->operation[i];
    unsigned written = 0;
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        written += ebb_trace_is_first(t, i, k) && t->access[k].mode != EBB_READS;
    return written;
}

/* Whether what came out the same from zeros is so in every step. Where these are of any size, an operation may leave a part of a buffer
 * as it was that it filled when it was tried: rows behind the last one. Only a content that the step has not touched yet is none that
 * anything could need, where the buffer is born in it. */
static bool may_replace(const ebb_profile_t *l, uint32_t i, uint32_t access)
{
    const uint32_t buffer = l->recorded.trace->access[access].buffer;
    return !l->recorded.any_size ||
           (l->buffer[buffer].first_use >= l->recorded.trace->operation[i].first_access &&
            l->recorded.trace->buffer[buffer].born != EBB_NONE);
}

/* The trace says what is known by now. */
void ebb_facts_conclude(ebb_device_t *dev, ebb_profile_t *l)
{
    ebb_trace_t *t = l->recorded.trace;
    l->recorded.concluded = true;
    qualify_all(dev, l);
    ebb_facts_note_modes(dev, l);
    for (uint32_t i = 0; i < t->operation_count; i++) {
        ebb_trace_operation_t *o = &t->operation[i];
        const ebb_fact_t *f = &l->fact[i];
        if (o->kind != EBB_TRACE_KERNEL)
            continue;
        bool proven = f->why == EBB_PROVEN && !f->refuted && f->rounds >= 2 &&
                      f->agreed >= EBB_LEAST_PROOFS && count_written(t, i) == f->written;
        o->proofs = proven ? f->agreed : 0;
        o->verdict = f->refuted             ? EBB_DIFFERS
                     : f->why != EBB_PROVEN ? f->why
                     : proven               ? EBB_PROVEN
                                            : EBB_UNTRIED;
        unsigned written = 0;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            if (!ebb_trace_is_first(t, i, k) || t->access[k].mode == EBB_READS)
                continue;
            const bool zeroed = proven && written < 64 && f->zeroed >> written & 1;
            const ebb_mode_t mode = zeroed && may_replace(l, i, k) ? EBB_REPLACES : EBB_UPDATES;
            written++;
            for (uint32_t m = k; m < o->first_access + o->access_count; m++)
                if (t->access[m].buffer == t->access[k].buffer)
                    t->access[m].mode = mode;
        }
    }
    ebb_record_settle(&l->recorded);
}

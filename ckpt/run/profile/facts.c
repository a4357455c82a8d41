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

/* Of a kernel's access, by what is known of the word. */
static bool word_may_write(ebb_device_t *dev, const ebb_profile_t *l, uint32_t operation, uint32_t access)
{
    const ebb_trace_access_t *a = &l->recorded.trace->access[access];
    return l->recorded.trace->operation[operation].kind == EBB_TRACE_KERNEL
               ? ebb_know_word(dev, l->recorded.function[operation],
                               ebb_word_of(&l->recorded, operation, a)) != EBB_WORD_READS
               : a->mode != EBB_READS;
}

bool ebb_profile_writes(ebb_device_t *dev, const ebb_profile_t *l, uint32_t operation, uint32_t buffer)
{
    const ebb_trace_operation_t *o = &l->recorded.trace->operation[operation];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        if (l->recorded.trace->access[k].buffer == buffer && word_may_write(dev, l, operation, k))
            return true;
    return false;
}

/* ---- which operations may be tried ---- */

/* Beside the words that are known to point to buffers (those of a trace may be gone by now). */
static bool has_foreign_beside(ebb_device_t *dev, const ebb_trace_t *t, const ebb_trace_operation_t *o)
{
    for (uint32_t at = 0; at + sizeof(CUdeviceptr) <= o->arg_bytes; at += (uint32_t)sizeof(CUdeviceptr)) {
        CUdeviceptr word;
        bool known = false;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
            known |= t->access[k].param_offset == at;
        memcpy(&word, t->args + o->first_arg + at, sizeof word);
        if (!known && ebb_word_is_foreign(dev, word))
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
    if (ebb_function_has_variables(dev->ebb, l->recorded.function[i]))
        return EBB_GLOBALS;
    if (o->verdict == EBB_ATTRIBUTES || o->verdict == EBB_TABLE)
        return o->verdict;
    if (!o->access_count)
        return EBB_UNTRIED;
    if (!o->arg_bytes || o->arg_bytes > EBB_RELAUNCH_PARAM_BYTES)
        return EBB_OPAQUE;
    return ebb_name_communicates(ebb_know_name(dev, l->recorded.function[i])) ? EBB_COMMUNICATES
           : has_foreign_beside(dev, t, o)                                    ? EBB_FOREIGN
           : touches_pinned(t, o) ? l->fact[i].wanted ? EBB_FOREIGN : EBB_UNTRIED
                                  : EBB_PROVEN;
}

/* Says of every operation why it may not be replayed, or PROVEN if its replays agree. */
static void qualify_all(ebb_device_t *dev, ebb_profile_t *l)
{
    for (uint32_t i = 0; i < l->recorded.trace->operation_count; i++)
        if (l->recorded.trace->operation[i].kind == EBB_TRACE_KERNEL)
            l->fact[i].why = qualify(dev, l, i);
}

/* Steps in which it is replayed, unless more are needed for enough that agree. */
enum { ROUNDS = 2, MOST_ROUNDS = 3 };

bool ebb_fact_is_open(const ebb_fact_t *f)
{
    return f->wanted && f->why == EBB_PROVEN && !f->refuted &&
           (f->rounds < ROUNDS || (f->agreed < EBB_LEAST_PROOFS && f->rounds < MOST_ROUNDS));
}

/* ---- which are worth it ---- */

/* For ebb_worth_find. */
typedef struct asked {
    ebb_device_t *dev;
    const ebb_profile_t *profile;
} asked_t;

static bool may_write(void *context, uint32_t operation, uint32_t access)
{
    const asked_t *a = context;
    return word_may_write(a->dev, a->profile, operation, access);
}

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
    if (!ebb_worth_find(t, may_write, &(asked_t){dev, l},
                        evictable > EBB_SMALL_BYTES ? evictable : EBB_SMALL_BYTES + 1, &worth))
        return false;
    qualify_all(dev, l);
    choose_replacements(l, worth.need);
    /* A fixed strategy gives up what it says, worth it or not. */
    const bool all =
        l->all || (ebb_options.policy.code != EBB_POLICY_AUTO && ebb_options.policy.code != EBB_POLICY_LEARN);
    const ebb_need_t least = all ? EBB_WANTED_LAST : EBB_WANTED;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        l->fact[i].wanted = worth.need[i] >= least && t->operation[i].kind == EBB_TRACE_KERNEL;
        l->fact[i].refuted |= t->operation[i].verdict == EBB_DIFFERS; /* since it was learned */
    }
    ebb_worth_free(&worth);
    return true;
}

/* ---- what it comes to ---- */

/* Distinct buffers that an operation may write. */
static unsigned count_written(ebb_device_t *dev, const ebb_profile_t *l, uint32_t i)
{
    const ebb_trace_t *t = l->recorded.trace;
    const ebb_trace_operation_t *o = &t->operation[i];
    unsigned written = 0;
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        written += ebb_trace_is_first(t, i, k) && ebb_profile_writes(dev, l, i, t->access[k].buffer);
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
    for (uint32_t i = 0; i < t->operation_count; i++) {
        ebb_trace_operation_t *o = &t->operation[i];
        const ebb_fact_t *f = &l->fact[i];
        if (o->kind != EBB_TRACE_KERNEL)
            continue;
        bool proven = f->why == EBB_PROVEN && !f->refuted && f->rounds >= 2 &&
                      f->agreed >= EBB_LEAST_PROOFS && count_written(dev, l, i) == f->written;
        o->proofs = proven ? f->agreed : 0;
        o->verdict = f->refuted             ? EBB_DIFFERS
                     : f->why != EBB_PROVEN ? f->why
                     : proven               ? EBB_PROVEN
                                            : EBB_UNTRIED;
        o->proof_bytes = f->bytes;
        o->proof_ns = f->ns;
        unsigned written = 0;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            if (!ebb_trace_is_first(t, i, k))
                continue;
            const bool writes = ebb_profile_writes(dev, l, i, t->access[k].buffer);
            ebb_mode_t mode = !writes ? EBB_READS
                              : proven && written < 64 && f->zeroed >> written & 1 && may_replace(l, i, k)
                                  ? EBB_REPLACES
                                  : EBB_UPDATES;
            written += writes;
            for (uint32_t m = k; m < o->first_access + o->access_count; m++)
                if (t->access[m].buffer == t->access[k].buffer) {
                    t->access[m].mode = mode;
                    if (!word_may_write(dev, l, i, m))
                        t->access[m].first_tile = t->access[m].tile_count = 0;
                }
        }
    }
    ebb_record_settle(&l->recorded);
}

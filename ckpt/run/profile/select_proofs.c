/* select_proofs.c: which launches are proven: those that are worth it; when no plan fits with these, the rest. */

#include "alloc/base/options.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/profile/internal.h"

/* For ebb_worth_find. */
typedef struct asked {
    ebb_device_t *dev;
    const ebb_profile_t *profile;
} asked_t;

static bool may_write(void *context, uint32_t operation, uint32_t access)
{
    const asked_t *a = context;
    return ebb_profile_may_write(a->dev, a->profile, operation, access);
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
 * buffer was seen to be written, and others use it in the step: what nobody else uses is the operation's own state, an
 * optimizer's, say. */
static void choose_replacements(ebb_profile_t *l, ebb_need_t *need)
{
    const ebb_trace_t *t = l->recorded.trace;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            const ebb_trace_access_t *a = &t->access[k];
            const ebb_trace_buffer_t *b = &t->buffer[a->buffer];
            if (o->kind == EBB_TRACE_KERNEL && l->first_use[a->buffer] == k && b->born == EBB_NONE &&
                !b->pinned && !l->arena[a->buffer] && b->bytes > EBB_SMALL_BYTES &&
                a->tile_count == ebb_tile_count(b->bytes) && is_used_later(t, i, a->buffer))
                need[i] = EBB_WANTED;
        }
    }
}

bool ebb_select_proofs(ebb_device_t *dev, ebb_profile_t *l)
{
    const ebb_trace_t *t = l->recorded.trace;
    const uint64_t evictable = (uint64_t)ebb_options.min_buffer;
    ebb_worth_t worth;
    if (!ebb_worth_find(t, may_write, &(asked_t){dev, l},
                        evictable > EBB_SMALL_BYTES ? evictable : EBB_SMALL_BYTES + 1, &worth))
        return false;
    ebb_prove_qualify(dev, l);
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

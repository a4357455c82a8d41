/* recipe.c: which contents have a recipe, along with the program, and what is dropped; see replay.h. Making: recipe_make.c;
 * what a plan leaves behind: recipe_orphans.c. */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "ckpt/run/replay/internal.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/run/state.h"

/* Dropped buffers that need one another, in a row; of several operations, a recipe takes at
 * most this share of a step. */
enum { DEEPEST = 12, MOST_SHARE = 4 };
/* What zeroing, and issuing at all, adds to a launch's time. */
enum { ISSUE_NS = 4000 };

const size_t ebb_part_recipes = sizeof(recipes_t);

ebb_recipe_counts_t ebb_recipe_counts(ebb_device_t *dev)
{
    return dev->run->recipes->counts;
}

ebb_stream_t *ebb_recipe_side(ebb_device_t *dev)
{
    recipes_t *recipes = dev->run->recipes;
    CUstream handle;
    if (!recipes->side && !ebb_driver.cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING))
        recipes->side = ebb_stream_of(dev, handle);
    return recipes->side ? recipes->side : dev->run->tracked->learned->stream;
}

static const ebb_trace_t *trace(ebb_tracked_t *tracked)
{
    return tracked->learned->trace;
}

/* ---- does a recipe hold? ---- */

/* Whether the recipe of `id` reads buffer `input`. */
static bool reads(ebb_device_t *dev, uint32_t id, uint32_t input)
{
    const recipe_t *r = dev->run->recipes->of[id].recipe;
    for (uint32_t i = 0; i < r->count; i++)
        for (uint32_t k = 0; k < ebb_recorded(dev, r->operation[i])->access_count; k++)
            if (ebb_accesses(dev, r->operation[i])[k].buffer == input &&
                ebb_is_there(dev, id, r->operation[i], k))
                return true;
    return false;
}

static bool may_write(const ebb_operation_t *op, const ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    ebb_tracked_t *tracked = dev->run->tracked;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (op->access[i].buffer == b &&
            (!tracked->matches || ebb_accesses(dev, tracked->at)[i].mode != EBB_READS))
            return true;
    return op->opaque;
}

/* What a recipe reads: there, and as it was. */
static bool is_unchanged(ebb_device_t *dev, uint32_t operation, uint32_t k)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    const ebb_trace_access_t *a = &ebb_accesses(dev, operation)[k];
    const ebb_buffer_t *b = tracked->buffer[a->buffer];
    return b && !b->pinned &&
           recipes->of[a->buffer].version == recipes->seen[ebb_recorded(dev, operation)->first_access + k] &&
           !(recipes->under_way && may_write(recipes->under_way, b));
}

/* By the trace: not written and not freed before operation `until`. */
static bool stays(ebb_device_t *dev, uint32_t id, uint32_t until)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    if (trace(tracked)->buffer[id].dies <= until)
        return false;
    for (uint32_t at = tracked->cursor; at < until; at++) {
        at = ebb_uses_next(&tracked->uses, id, at);
        if (at >= until)
            break;
        for (uint32_t k = 0; k < ebb_recorded(dev, at)->access_count; k++)
            if (ebb_accesses(dev, at)[k].buffer == id && ebb_accesses(dev, at)[k].mode != EBB_READS)
                return false;
    }
    return true;
}

static uint64_t time_of(ebb_device_t *dev, const uint32_t *operation, uint32_t count)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < count; i++)
        ns += ebb_recorded(dev, operation[i])->duration_ns + ISSUE_NS;
    return ns;
}

/* The operations that have made the content, the last one first, back to the one that replaced what was there, in `chain`: how many. 0: that is
 * not known, or they take too long. */
static uint32_t list_chain(ebb_device_t *dev, uint32_t id)
{
    recipes_t *recipes = dev->run->recipes;
    uint32_t count = 0;
    uint64_t ns = 0;
    for (uint32_t o = recipes->of[id].writer; o != EBB_NONE && (count < 2 || ns <= recipes->most_ns);) {
        uint32_t k = 0;
        recipes->chain[count++] = o;
        ns += time_of(dev, &o, 1);
        while (ebb_accesses(dev, o)[k].buffer != id)
            k++;
        if (ebb_accesses(dev, o)[k].mode == EBB_REPLACES)
            return count == 1 || ns <= recipes->most_ns ? count : 0;
        o = recipes->maker[ebb_recorded(dev, o)->first_access + k];
    }
    return 0;
}

/* What these operations read is there, as it was, and stays so until then. */
static bool holds(ebb_device_t *dev, uint32_t id, const uint32_t *operation, uint32_t count, uint32_t until)
{
    for (uint32_t i = 0; i < count; i++) {
        const ebb_trace_operation_t *o = ebb_recorded(dev, operation[i]);
        if (!o->proofs || o->access_count > EBB_RELAUNCH_POINTERS)
            return false;
        for (uint32_t k = 0; k < o->access_count; k++) {
            const ebb_trace_access_t *a = &ebb_accesses(dev, operation[i])[k];
            if (a->buffer == id || a->mode == EBB_REPLACES)
                continue;
            if (a->mode != EBB_READS || !is_unchanged(dev, operation[i], k) || !stays(dev, a->buffer, until))
                return false;
        }
    }
    return true;
}

/* The longest row of dropped buffers that these operations need for one, no more than `left`; their time, itself included. */
static unsigned needs(ebb_device_t *dev, uint32_t id, const uint32_t *operation, uint32_t count,
                      unsigned left, uint64_t *ns)
{
    unsigned most = 0;
    *ns += time_of(dev, operation, count);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; left && k < ebb_recorded(dev, operation[i])->access_count; k++) {
            const uint32_t other = ebb_accesses(dev, operation[i])[k].buffer;
            const recipe_t *r = dev->run->recipes->of[other].recipe;
            if (!r || !ebb_is_there(dev, id, operation[i], k))
                continue;
            const unsigned d = 1 + needs(dev, other, r->operation, r->count, left - 1, ns);
            most = d > most ? d : most;
        }
    return most;
}

/* The longest row of those that need it. */
static unsigned needed_by(ebb_device_t *dev, uint32_t id, unsigned left)
{
    recipes_t *recipes = dev->run->recipes;
    unsigned most = 0;
    if (!left || !recipes->of[id].needed)
        return 0;
    for (uint32_t i = 0; i < recipes->dropped_count; i++)
        if (reads(dev, recipes->dropped[i], id)) {
            const unsigned d = 1 + needed_by(dev, recipes->dropped[i], left - 1);
            most = d > most ? d : most;
        }
    return most;
}

bool ebb_recipe_can_rebuild(const ebb_buffer_t *b, uint64_t *cost_ns)
{
    ebb_device_t *dev = b->range->device;
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    if (!tracked->learned || !tracked->known || !b->number || b->pinned || recipes->shut ||
        tracked->resumed || !recipes->of || tracked->learned->any_size)
        return false; /* resumed: the room for what a plan has given up is counted */
    const uint32_t id = b->number - 1, until = ebb_uses_next(&tracked->uses, id, tracked->cursor);
    if (ebb_is_dropped(dev, id) || until >= trace(tracked)->operation_count)
        return false;
    const uint32_t *chain = recipes->chain, count = list_chain(dev, id);
    if (!count || !holds(dev, id, chain, count, until))
        return false;
    *cost_ns = 0;
    return needs(dev, id, chain, count, DEEPEST, cost_ns) + needed_by(dev, id, DEEPEST) < DEEPEST;
}

/* ---- dropping ---- */

static void count_needed(ebb_device_t *dev, uint32_t id, bool more)
{
    recipes_t *recipes = dev->run->recipes;
    const recipe_t *r = recipes->of[id].recipe;
    for (uint32_t i = 0; i < r->count; i++)
        for (uint32_t k = 0; k < ebb_recorded(dev, r->operation[i])->access_count; k++)
            if (ebb_is_there(dev, id, r->operation[i], k))
                recipes->of[ebb_accesses(dev, r->operation[i])[k].buffer].needed += more ? 1 : -1u;
}

void ebb_recipe_list(ebb_device_t *dev, uint32_t id, recipe_t *r)
{
    recipes_t *recipes = dev->run->recipes;
    EBB_DCHECK(!ebb_is_dropped(dev, id));
    recipes->of[id].recipe = r;
    recipes->orphan_count += r->given_up;
    count_needed(dev, id, true);
    recipes->of[id].place = recipes->dropped_count;
    recipes->dropped[recipes->dropped_count++] = id;
}

static void unlist(ebb_device_t *dev, uint32_t id)
{
    recipes_t *recipes = dev->run->recipes;
    if (!ebb_is_dropped(dev, id))
        return;
    count_needed(dev, id, false);
    const uint32_t last = recipes->dropped[--recipes->dropped_count];
    recipes->dropped[recipes->of[id].place] = last;
    recipes->of[last].place = recipes->of[id].place;
    recipes->orphan_count -= recipes->of[id].recipe->given_up;
    free(recipes->of[id].recipe);
    recipes->of[id].recipe = NULL;
}

/* NULL: no host memory. */
static recipe_t *recipe_of_chain(ebb_device_t *dev, uint32_t id)
{
    const uint32_t count = list_chain(dev, id);
    recipe_t *r = count ? calloc(1, sizeof *r + count * sizeof r->operation[0]) : NULL;
    for (uint32_t i = count; r && i-- > 0;)
        r->operation[r->count++] = dev->run->recipes->chain[i];
    return r;
}

bool ebb_recipe_dropping(ebb_buffer_t *b, ebb_mark_t ready, bool *keep_copy, ebb_mark_t *looked)
{
    ebb_device_t *dev = b->range->device;
    ebb_tracked_t *tracked = dev->run->tracked;
    ebb_stream_t *side = ebb_recipe_side(dev);
    const uint32_t id = b->number - 1, last = dev->run->recipes->of[id].writer;
    recipe_t *r = recipe_of_chain(dev, id);
    if (!r)
        return false;
    const ebb_dropping_t d = {.id = id,
                              .operation = last,
                              .address = b->address,
                              .bytes = b->bytes,
                              .operand_bytes = dev->run->recipes->issued[last].operand_bytes,
                              .step = tracked->step,
                              .trial = ebb_recipe_may_keep_copy(b)};
    ebb_recipe_list(dev, id, r);
    ebb_verify_forget(tracked->learned, id); /* a plan may have hashed another content, and was left */
    *keep_copy = d.trial;
    *looked = (ebb_mark_t){0};
    if (!d.trial && !ebb_options.verify)
        return true;
    if (!ebb_mark_join(side, ready) && !ebb_buffer_join(side, b) &&
        !ebb_verify_dropping(dev, tracked->learned, &d, side))
        *looked = ebb_mark_here(side);
    else
        *keep_copy = true; /* it cannot be compared */
    return true;
}

bool ebb_recipe_may_keep_copy(const ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    const uint32_t last = dev->run->recipes->of[b->number - 1].writer;
    return ebb_verify_is_trial(dev->run->tracked->learned, last, b->number - 1,
                               dev->run->recipes->issued[last].operand_bytes);
}

void ebb_recipe_dropped(ebb_buffer_t *b, bool dropped)
{
    ebb_device_t *dev = b->range->device;
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    recipes->counts.dropped += dropped;
    if (dropped || !tracked->learned || !b->number || !recipes->of)
        return;
    unlist(dev, b->number - 1);
    ebb_verify_forget(tracked->learned, b->number - 1);
}

static void tell_lost(const ebb_buffer_t *b)
{
    ebb_log(EBB_WARN,
            "the content of the buffer at %#llx (%zu bytes) is lost: it could not be made again: %s",
            (unsigned long long)b->address, b->bytes, ebb_last_failure());
    ebb_fail_program(b->range->device->ebb);
}

ebb_status_t ebb_recipe_make_readers(ebb_device_t *dev, uint32_t input, ebb_stream_t *stream)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    ebb_status_t status = 0;
    recipes->shut = true;
    for (uint32_t i = 0; i < recipes->dropped_count && !status;) {
        const uint32_t id = recipes->dropped[i];
        if (input != EBB_NONE && !reads(dev, id, input)) {
            i++;
            continue;
        }
        status = ebb_residence_restore(tracked->buffer[id], stream);
        if (!status && ebb_is_dropped(dev, id)) /* it was nothing of the kind */
            unlist(dev, id);
        i = 0;
    }
    recipes->shut = false;
    return status;
}

/* All that is dropped is made; what cannot be is lost. */
static void make_all(ebb_device_t *dev)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    while (recipes->dropped_count && ebb_recipe_make_readers(dev, EBB_NONE, ebb_recipe_side(dev))) {
        const uint32_t id = recipes->dropped[0];
        if (ebb_residence_restore(tracked->buffer[id], ebb_recipe_side(dev)))
            tell_lost(tracked->buffer[id]);
        unlist(dev, id);
    }
}

/* ---- along with the program ---- */

static void release(ebb_device_t *dev)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    for (uint32_t i = 0; recipes->issued && i < trace(tracked)->operation_count; i++)
        ebb_issued_forget(&recipes->issued[i]);
    for (uint32_t i = 0; recipes->of && i < trace(tracked)->buffer_count; i++)
        free(recipes->of[i].recipe);
    free(recipes->of);
    free(recipes->chain);
    free(recipes->issued);
    free(recipes->seen);
    free(recipes->maker);
    free(recipes->dropped);
    free(recipes->path);
    free(recipes->own);
    free(recipes->last_read);
    *recipes = (recipes_t){.counts = recipes->counts, .side = recipes->side};
}

bool ebb_recipe_open(ebb_device_t *dev)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    const size_t m = trace(tracked)->buffer_count, accesses = trace(tracked)->access_count;
    recipes->of = calloc(m + 1, sizeof *recipes->of);
    recipes->seen = calloc(accesses + 1, sizeof *recipes->seen);
    recipes->maker = calloc(accesses + 1, sizeof *recipes->maker);
    recipes->chain = calloc((size_t)trace(tracked)->operation_count + 1, sizeof *recipes->chain);
    recipes->dropped = calloc(m + 1, sizeof *recipes->dropped);
    recipes->path = calloc(m + 2, sizeof *recipes->path);
    recipes->own = calloc(m + 1, sizeof(ebb_buffer_t *));
    recipes->last_read = calloc(m + 1, sizeof *recipes->last_read);
    if (!recipes->of || !recipes->seen || !recipes->maker || !recipes->chain || !recipes->dropped ||
        !recipes->path || !recipes->own || !recipes->last_read) {
        release(dev);
        return false;
    }
    for (size_t i = 0; i < m; i++)
        recipes->of[i].writer = EBB_NONE;
    recipes->most_ns =
        ebb_uses_ns(&tracked->uses, 0, trace(tracked)->operation_count) / MOST_SHARE + ISSUE_NS;
    return true;
}

void ebb_recipe_begin(ebb_device_t *dev)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    if (!ebb_options.recompute || !tracked->learned->concluded || !ebb_recipe_open(dev))
        return;
    recipes->issued = calloc((size_t)trace(tracked)->operation_count + 1, sizeof *recipes->issued);
    if (recipes->issued && ebb_verify_open(dev, tracked->learned))
        return;
    ebb_log(EBB_DEBUG, "there is no memory to compare with: nothing is recomputed before there is a plan");
    release(dev);
}

void ebb_recipe_end(ebb_device_t *dev)
{
    recipes_t *recipes = dev->run->recipes;
    if (!recipes->of)
        return;
    make_all(dev);
    ebb_verify_poll(dev, dev->run->tracked->learned, true);
    release(dev);
}

void ebb_recipe_step_ends(ebb_device_t *dev)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    if (!recipes->of)
        return;
    make_all(dev);
    for (uint32_t i = 0; i < trace(tracked)->buffer_count; i++)
        recipes->of[i].writer = EBB_NONE;
}

ebb_status_t ebb_recipe_before(ebb_device_t *dev, const ebb_operation_t *op)
{
    recipes_t *recipes = dev->run->recipes;
    recipes->under_way = op;
    for (uint32_t i = 0; recipes->dropped_count && i < op->access_count; i++) {
        ebb_buffer_t *b = op->access[i].buffer;
        if (b->number && recipes->of[b->number - 1].needed && may_write(op, b))
            EBB_TRY(ebb_recipe_make_readers(dev, b->number - 1, op->stream));
    }
    return 0;
}

void ebb_recipe_note(ebb_device_t *dev, uint32_t index, bool kept)
{
    recipes_t *recipes = dev->run->recipes;
    const ebb_trace_operation_t *o = ebb_recorded(dev, index);
    for (uint32_t k = 0; k < o->access_count; k++) {
        const content_t *c = &recipes->of[ebb_accesses(dev, index)[k].buffer];
        recipes->seen[o->first_access + k] = c->version;
        recipes->maker[o->first_access + k] = c->writer;
    }
    for (uint32_t k = 0; k < o->access_count; k++)
        if (ebb_accesses(dev, index)[k].mode != EBB_READS && ebb_is_first(dev, index, k)) {
            content_t *c = &recipes->of[ebb_accesses(dev, index)[k].buffer];
            const bool known = ebb_accesses(dev, index)[k].mode == EBB_REPLACES || c->writer != EBB_NONE;
            c->version++;
            c->writer = kept && known ? index : EBB_NONE;
        }
}

void ebb_recipe_note_stray(ebb_device_t *dev, uint32_t id)
{
    recipes_t *recipes = dev->run->recipes;
    recipes->of[id].version++;
    recipes->of[id].writer = EBB_NONE;
}

static bool keep_arguments(ebb_device_t *dev, const ebb_operation_t *op)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    return ebb_recorded(dev, tracked->at)->proofs && (op->kind != EBB_KERNEL || op->plain) &&
           ebb_record_is_tried(dev, tracked->learned, tracked->at, op) &&
           ebb_issued_keep(&recipes->issued[tracked->at], op);
}

void ebb_recipe_after(ebb_device_t *dev, const ebb_operation_t *op, bool issued)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    recipes->under_way = NULL;
    if (!recipes->of || !issued)
        return;
    for (uint32_t i = 0; op->opaque && i < trace(tracked)->buffer_count; i++)
        ebb_recipe_note_stray(dev, i);
    for (uint32_t i = 0; !tracked->matches && i < op->access_count; i++)
        if (op->access[i].buffer->number)
            ebb_recipe_note_stray(dev, op->access[i].buffer->number - 1);
    if (tracked->matches)
        ebb_recipe_note(dev, tracked->at, keep_arguments(dev, op));
}

/* They could not be made. */
static void lose_readers(ebb_device_t *dev, uint32_t input)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    for (uint32_t i = recipes->dropped_count; i-- > 0;)
        if (reads(dev, recipes->dropped[i], input)) {
            tell_lost(tracked->buffer[recipes->dropped[i]]);
            unlist(dev, recipes->dropped[i]);
        }
}

void ebb_recipe_freeing(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_device_t *dev = b->range->device;
    recipes_t *recipes = dev->run->recipes;
    const uint32_t id = b->number - 1;
    if (!recipes->of)
        return;
    ebb_stream_t *s = stream ? stream : ebb_recipe_side(dev);
    if (recipes->of[id].needed) {
        if (ebb_recipe_make_readers(dev, id, s))
            lose_readers(dev, id);
        if (!stream && ebb_mark_wait(ebb_mark_here(s))) /* its memory may be used at once */
            ebb_log(EBB_WARN, "%s", ebb_last_failure());
    }
    unlist(dev, id);
    ebb_verify_forget(dev->run->tracked->learned, id);
    ebb_recipe_note_stray(dev, id);
}

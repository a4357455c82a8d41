/* recipe_orphans.c: recipes of what a plan has given up; see replay.h. */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/replay/internal.h"
#include "ckpt/run/residence/residence.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

/* ---- which operations ---- */

/* Marks those that made what `operation` needs and is not there. False: something cannot be made again. */
static bool mark_makers(ebb_device_t *dev, uint32_t id, uint32_t operation, bool *marked)
{
    recipes_t *recipes = dev->run->recipes;
    const ebb_trace_operation_t *o = ebb_recorded(dev, operation);
    if (!o->proofs || o->access_count > EBB_RELAUNCH_POINTERS)
        return false;
    for (uint32_t k = 0; k < o->access_count; k++) {
        if (ebb_accesses(dev, operation)[k].mode == EBB_REPLACES || ebb_is_there(dev, id, operation, k))
            continue;
        const uint32_t maker = recipes->maker[o->first_access + k];
        if (maker == EBB_NONE)
            return false;
        marked[maker] = true;
    }
    return true;
}

/* NULL: there is no recipe, or no host memory. */
static recipe_t *new_recipe(ebb_device_t *dev, uint32_t id, bool *marked)
{
    recipes_t *recipes = dev->run->recipes;
    const uint32_t last = recipes->of[id].writer;
    uint32_t count = 0;
    if (last == EBB_NONE)
        return NULL;
    memset(marked, 0, (last + 1) * sizeof *marked);
    marked[last] = true;
    for (uint32_t o = last + 1; o-- > 0;) {
        if (marked[o] && !mark_makers(dev, id, o, marked))
            return NULL;
        count += marked[o];
    }
    recipe_t *r = calloc(1, sizeof *r + count * sizeof r->operation[0]);
    for (uint32_t o = 0; r && o <= last; o++)
        if (marked[o])
            r->operation[r->count++] = o;
    return r;
}

/* ---- and how much memory beside the program's ---- */

static size_t whole_bytes(ebb_device_t *dev, uint32_t id)
{
    const ebb_trace_buffer_t b = {.bytes = ebb_recipe_bytes(dev, id)};
    return ebb_uses_chunks(&b) ? ebb_uses_chunks(&b) * EBB_CHUNK_BYTES : b.bytes;
}

/* The most that is there at once. `own` [buffers]: false before and after. */
static size_t most_own_bytes(ebb_device_t *dev, uint32_t id, const recipe_t *r, bool *own)
{
    recipes_t *recipes = dev->run->recipes;
    size_t bytes = 0, most = 0;
    ebb_recipe_note_reads(dev, id, r, true);
    for (uint32_t i = 0; i < r->count; i++) {
        const uint32_t operation = r->operation[i];
        for (uint32_t k = 0; k < ebb_recorded(dev, operation)->access_count; k++) {
            const uint32_t other = ebb_accesses(dev, operation)[k].buffer;
            if (!ebb_is_own(dev, id, operation, k) || own[other])
                continue;
            own[other] = true;
            bytes += whole_bytes(dev, other);
        }
        most = bytes > most ? bytes : most;
        for (uint32_t k = 0; k < ebb_recorded(dev, operation)->access_count; k++) {
            const uint32_t other = ebb_accesses(dev, operation)[k].buffer;
            if (!own[other] || recipes->last_read[other] > i + 1)
                continue;
            own[other] = false;
            bytes -= whole_bytes(dev, other);
        }
    }
    ebb_recipe_note_reads(dev, id, r, false);
    return most;
}

/* Whether all that is alive, and what making needs beside it, fits into device and host together, with `more` bytes. */
static bool has_room(ebb_device_t *dev, size_t more)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    recipes_t *recipes = dev->run->recipes;
    const ebb_pinned_usage_t host = ebb_pinned_usage(dev);
    size_t large = 0, mapped = 0, own = 0, copies = 0;
    for (const ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer) {
        large += b->range->chunk_count * EBB_CHUNK_BYTES;
        mapped += b->range->mapped ? b->range->chunk_count * EBB_CHUNK_BYTES : 0;
    }
    for (uint32_t i = 0; i < recipes->dropped_count; i++) {
        const recipe_t *r = recipes->of[recipes->dropped[i]].recipe;
        if (!r->given_up)
            continue;
        own = r->own_bytes > own ? r->own_bytes : own;
        copies += r->copied ? tracked->buffer[recipes->dropped[i]]->bytes : 0;
    }
    const size_t rest = ebb_usage(dev).mapped_bytes - mapped; /* small buffers, and spare memory */
    const size_t pinned = host.budget_bytes > host.others_bytes ? host.budget_bytes - host.others_bytes : 0;
    return large + rest + own + copies + ebb_scratch_pinned_bytes(dev) + more + EBB_CHUNK_BYTES <=
           ebb_chunks_limit(dev) * EBB_CHUNK_BYTES + pinned;
}

void ebb_recipe_allocating(ebb_device_t *dev, size_t bytes)
{
    recipes_t *recipes = dev->run->recipes;
    if (!recipes->orphan_count || has_room(dev, bytes))
        return;
    ebb_log(EBB_DEBUG, "what the plan has given up is made at once: later there might be no room for it");
    if (ebb_recipe_make_readers(dev, EBB_NONE, ebb_recipe_side(dev)))
        ebb_log(EBB_DEBUG, "what the plan has given up: %s", ebb_last_failure());
}

/* ---- what the plan has given up ---- */

/* It cannot be made. */
static void take_copy(ebb_buffer_t *b, ebb_given_up_t *g, const char *why)
{
    if (g->copy.at)
        ebb_residence_put(b, g->copy);
    else
        ebb_content_lost(b->range->device, g->id, why);
    g->copy = (ebb_host_t){.at = NULL};
}

void ebb_recipe_abandon(ebb_orphans_t *left)
{
    for (uint32_t i = 0; i < left->given_up_count; i++)
        take_copy(left->buffer[left->given_up[i].id], &left->given_up[i], "there is no host memory");
}

static void drop(ebb_device_t *dev, ebb_given_up_t *g, bool *marked, bool *own)
{
    ebb_buffer_t *b = dev->run->tracked->buffer[g->id];
    recipe_t *r = new_recipe(dev, g->id, marked);
    if (!r) {
        take_copy(b, g, "it cannot be made again");
        return;
    }
    ebb_residence_put_dropped(b, g->copy);
    r->given_up = true;
    r->copied = g->copy.at != NULL;
    g->copy = (ebb_host_t){.at = NULL};
    r->own_bytes = most_own_bytes(dev, g->id, r, own);
    ebb_recipe_list(dev, g->id, r);
}

/* Another launch that stood in for it is not. */
static bool is_kept(ebb_device_t *dev, uint32_t operation)
{
    recipes_t *recipes = dev->run->recipes;
    return ebb_recorded(dev, operation)->kind != EBB_TRACE_KERNEL || recipes->issued[operation].op.function;
}

/* What the operations so far have made. */
static void note_operations(ebb_device_t *dev, ebb_orphans_t *left)
{
    recipes_t *recipes = dev->run->recipes;
    uint32_t stray = 0;
    recipes->issued = left->issued;
    left->issued = NULL;
    for (uint32_t i = 0; i <= left->cursor; i++) {
        for (; stray < left->stray_count && left->stray[stray].before == i; stray++)
            ebb_recipe_note_stray(dev, left->stray[stray].id);
        if (i < left->cursor && !recipes->issued[i].left_out)
            ebb_recipe_note(dev, i, ebb_recorded(dev, i)->proofs != 0 && is_kept(dev, i));
    }
}

void ebb_recipe_resume(ebb_device_t *dev, ebb_orphans_t *left)
{
    ebb_tracked_t *tracked = dev->run->tracked;
    bool *marked = calloc((size_t)tracked->learned->trace->operation_count + 1, sizeof *marked);
    bool *own = calloc((size_t)tracked->learned->trace->buffer_count + 1, sizeof *own);
    if (marked && own && ebb_recipe_open(dev)) {
        note_operations(dev, left);
        for (uint32_t i = 0; i < left->given_up_count; i++)
            drop(dev, &left->given_up[i], marked, own);
        ebb_recipe_allocating(dev, 0);
    } else {
        ebb_recipe_abandon(left);
    }
    free(marked);
    free(own);
}

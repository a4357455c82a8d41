/* recipe_left.c: recipes of what a plan has given up; see left.h. */
#include <stdlib.h>
#include <string.h>

#include "alloc/device.h"
#include "alloc/base/log.h"
#include "ckpt/run/own.h"
#include "ckpt/run/replay/left.h"
#include "ckpt/run/replay/mismatch.h"
#include "ckpt/run/replay/recheck.h"
#include "ckpt/run/replay/recipe_state.h"
#include "ckpt/run/residence/residence.h"
#include "offload/pinned.h"

#define F ebb_followed
#define R ebb_recipes

/* ---- which operations ---- */

/* Marks those that made what `operation` needs and is not there. False: something cannot be made again. */
static bool mark_makers(uint32_t id, uint32_t operation, bool *marked)
{
    const ebb_trace_operation_t *o = ebb_recorded(operation);
    if (!o->proofs || o->access_count > EBB_RELAUNCH_POINTERS)
        return false;
    for (uint32_t k = 0; k < o->access_count; k++) {
        if (ebb_accesses(operation)[k].mode == EBB_REPLACES || ebb_is_there(id, operation, k))
            continue;
        const uint32_t maker = R.maker[o->first_access + k];
        if (maker == EBB_NONE)
            return false;
        marked[maker] = true;
    }
    return true;
}

/* NULL: there is no recipe, or no host memory. */
static left_t *new_recipe(uint32_t id, bool *marked)
{
    const uint32_t last = R.of[id].writer;
    uint32_t count = 0;
    if (last == EBB_NONE)
        return NULL;
    memset(marked, 0, (last + 1) * sizeof *marked);
    marked[last] = true;
    for (uint32_t o = last + 1; o-- > 0;) {
        if (marked[o] && !mark_makers(id, o, marked))
            return NULL;
        count += marked[o];
    }
    left_t *l = calloc(1, sizeof *l + count * sizeof l->operation[0]);
    for (uint32_t o = 0; l && o <= last; o++)
        if (marked[o])
            l->operation[l->count++] = o;
    return l;
}

/* ---- and how much memory beside the program's ---- */

static size_t whole_bytes(uint32_t id)
{
    const ebb_trace_buffer_t *b = &F.learned->trace->buffer[id];
    return ebb_uses_chunks(b) ? ebb_uses_chunks(b) * EBB_CHUNK_BYTES : b->bytes;
}

/* The most that is there at once. `own` [buffers]: false before and after. */
static size_t most_own_bytes(uint32_t id, bool *own)
{
    const recipe_t r = ebb_recipe_of(id);
    size_t bytes = 0, most = 0;
    ebb_recipe_note_reads(id, &r, true);
    for (uint32_t i = 0; i < r.count; i++) {
        const uint32_t operation = r.operation[i];
        for (uint32_t k = 0; k < ebb_recorded(operation)->access_count; k++) {
            const uint32_t other = ebb_accesses(operation)[k].buffer;
            if (!ebb_is_own(id, operation, k) || own[other])
                continue;
            own[other] = true;
            bytes += whole_bytes(other);
        }
        most = bytes > most ? bytes : most;
        for (uint32_t k = 0; k < ebb_recorded(operation)->access_count; k++) {
            const uint32_t other = ebb_accesses(operation)[k].buffer;
            if (!own[other] || R.last_read[other] > i + 1)
                continue;
            own[other] = false;
            bytes -= whole_bytes(other);
        }
    }
    ebb_recipe_note_reads(id, &r, false);
    return most;
}

/* Whether all that is alive, and what making needs beside it, fits into device and host together, with `more` bytes. */
static bool has_room(size_t more)
{
    const ebb_pinned_usage_t host = ebb_pinned_usage();
    size_t large = 0, mapped = 0, own = 0, copies = 0;
    for (const ebb_buffer_t *b = ebb_buffer_oldest(ebb_here); b; b = b->newer) {
        large += b->range->chunk_count * EBB_CHUNK_BYTES;
        mapped += b->range->mapped ? b->range->chunk_count * EBB_CHUNK_BYTES : 0;
    }
    for (uint32_t i = 0; i < R.dropped_count; i++) {
        const left_t *l = R.of[R.dropped[i]].left;
        if (!l)
            continue;
        own = l->own_bytes > own ? l->own_bytes : own;
        copies += l->copied ? F.buffer[R.dropped[i]]->bytes : 0;
    }
    const size_t rest = ebb_usage(ebb_here).mapped_bytes - mapped; /* small buffers, and spare memory */
    const size_t pinned = host.budget_bytes > host.others_bytes ? host.budget_bytes - host.others_bytes : 0;
    return large + rest + own + copies + ebb_own_pinned_bytes() + more + EBB_CHUNK_BYTES <=
           ebb_chunks_limit(ebb_here) * EBB_CHUNK_BYTES + pinned;
}

void ebb_recipe_allocating(size_t bytes)
{
    if (!R.left_count || has_room(bytes))
        return;
    ebb_log(EBB_INFO, "what the plan has given up is made at once: later there might be no room for it");
    if (ebb_recipe_make_readers(EBB_NONE, ebb_recheck_side()))
        ebb_log(EBB_INFO, "what the plan has given up: %s", ebb_last_failure());
}

/* ---- what the plan has given up ---- */

/* It cannot be made. */
static void take_copy(ebb_buffer_t *b, ebb_given_up_t *g, const char *why)
{
    if (g->copy)
        ebb_residence_put(b, g->copy);
    else
        ebb_content_lost(g->id, why);
    g->copy = NULL;
}

void ebb_recipe_abandon(ebb_left_t *left)
{
    for (uint32_t i = 0; i < left->given_up_count; i++)
        take_copy(left->buffer[left->given_up[i].id], &left->given_up[i], "there is no host memory");
}

static void drop(ebb_given_up_t *g, bool *marked, bool *own)
{
    ebb_buffer_t *b = F.buffer[g->id];
    left_t *l = new_recipe(g->id, marked);
    if (!l) {
        take_copy(b, g, "it cannot be made again");
        return;
    }
    ebb_residence_put_dropped(b, g->copy);
    l->hashes = g->hashes;
    l->slot = g->slot;
    l->part = g->part;
    l->copied = g->copy != NULL;
    g->copy = NULL;
    R.of[g->id].left = l;
    l->own_bytes = most_own_bytes(g->id, own);
    R.left_count++;
    ebb_recipe_list(g->id);
}

/* Another launch that stood in for it is not. */
static bool is_kept(uint32_t operation)
{
    return ebb_recorded(operation)->kind != EBB_TRACE_KERNEL || R.issued[operation].function;
}

/* What the operations so far have made. */
static void note_operations(ebb_left_t *left)
{
    uint32_t stray = 0;
    R.issued = left->issued;
    left->issued = NULL;
    for (uint32_t i = 0; i <= left->cursor; i++) {
        for (; stray < left->stray_count && left->stray[stray].before == i; stray++)
            ebb_recipe_note_stray(left->stray[stray].id);
        if (i < left->cursor)
            ebb_recipe_note(i, ebb_recorded(i)->proofs != 0 && is_kept(i));
    }
}

void ebb_recipe_resume(ebb_left_t *left)
{
    bool *marked = calloc((size_t)F.learned->trace->operation_count + 1, sizeof *marked);
    bool *own = calloc((size_t)F.learned->trace->buffer_count + 1, sizeof *own);
    if (marked && own && ebb_recipe_open()) {
        note_operations(left);
        for (uint32_t i = 0; i < left->given_up_count; i++)
            drop(&left->given_up[i], marked, own);
        ebb_recipe_allocating(0);
    } else {
        ebb_recipe_abandon(left);
    }
    free(marked);
    free(own);
}

/* recipe.c: which contents have a recipe, along with the program, and what is dropped; see recipe.h. Making: recipe_make.c;
 * what a plan leaves behind: recipe_left.c. */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/log.h"
#include "alloc/base/options.h"
#include "ckpt/run/replay/recheck.h"
#include "ckpt/run/replay/recipe_state.h"
#include "ckpt/run/residence/residence.h"

#define F ebb_followed
#define R ebb_recipes

/* Dropped buffers that need one another, in a row; of several operations, a recipe takes at
 * most this share of a step. */
enum { DEEPEST = 12, MOST_SHARE = 4 };
/* What zeroing, and issuing at all, adds to a launch's time. */
enum { ISSUE_NS = 4000 };

recipes_t ebb_recipes;

ebb_recipe_counts_t ebb_recipe_counts(void)
{
    ebb_recipe_counts_t c = R.counts;
    ebb_recheck_count(&c.verified, &c.mismatches);
    return c;
}

static const ebb_trace_t *trace(void)
{
    return F.learned->trace;
}

/* ---- does a recipe hold? ---- */

/* Whether the recipe of `id` reads buffer `input`. */
static bool reads(uint32_t id, uint32_t input)
{
    const recipe_t r = ebb_recipe_of(id);
    for (uint32_t i = 0; i < r.count; i++)
        for (uint32_t k = 0; k < ebb_recorded(r.operation[i])->access_count; k++)
            if (ebb_accesses(r.operation[i])[k].buffer == input && ebb_is_there(id, r.operation[i], k))
                return true;
    return false;
}

static bool may_write(const ebb_operation_t *op, const ebb_buffer_t *b)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        if (op->access[i].buffer == b && (!F.matches || ebb_accesses(F.at)[i].mode != EBB_READS))
            return true;
    return op->opaque;
}

/* What a recipe reads: there, and as it was. */
static bool is_unchanged(uint32_t operation, uint32_t k)
{
    const ebb_trace_access_t *a = &ebb_accesses(operation)[k];
    const ebb_buffer_t *b = F.buffer[a->buffer];
    return b && !b->pinned && R.of[a->buffer].version == R.seen[ebb_recorded(operation)->first_access + k] &&
           !(R.under_way && may_write(R.under_way, b));
}

/* By the trace: not written and not freed before operation `until`. */
static bool stays(uint32_t id, uint32_t until)
{
    if (trace()->buffer[id].dies <= until)
        return false;
    for (uint32_t at = F.cursor; at < until; at++) {
        at = ebb_uses_next(&F.uses, id, at);
        if (at >= until)
            break;
        for (uint32_t k = 0; k < ebb_recorded(at)->access_count; k++)
            if (ebb_accesses(at)[k].buffer == id && ebb_accesses(at)[k].mode != EBB_READS)
                return false;
    }
    return true;
}

static bool holds(uint32_t id)
{
    const content_t *c = &R.of[id];
    for (uint32_t i = 0; i < c->length; i++) {
        const ebb_trace_operation_t *o = ebb_recorded(c->chain[i]);
        if (!o->proofs || o->access_count > EBB_RELAUNCH_POINTERS)
            return false;
        for (uint32_t k = 0; k < o->access_count; k++) {
            const ebb_trace_access_t *a = &ebb_accesses(c->chain[i])[k];
            if (a->buffer == id || a->mode == EBB_REPLACES)
                continue;
            if (a->mode != EBB_READS || !is_unchanged(c->chain[i], k))
                return false;
        }
    }
    return c->length != 0;
}

static bool inputs_stay(uint32_t id, uint32_t until)
{
    const content_t *c = &R.of[id];
    for (uint32_t i = 0; i < c->length; i++)
        for (uint32_t k = 0; k < ebb_recorded(c->chain[i])->access_count; k++) {
            const ebb_trace_access_t *a = &ebb_accesses(c->chain[i])[k];
            if (a->buffer != id && a->mode == EBB_READS && !stays(a->buffer, until))
                return false;
        }
    return true;
}

/* The longest row of dropped buffers that the recipe of one needs, no more than `left`; their time, itself included. */
static unsigned needs(uint32_t id, unsigned left, uint64_t *ns)
{
    const content_t *c = &R.of[id];
    unsigned most = 0;
    *ns += c->ns;
    for (uint32_t i = 0; i < c->length; i++) {
        const ebb_trace_operation_t *o = ebb_recorded(c->chain[i]);
        for (uint32_t k = 0; left && k < o->access_count; k++) {
            const uint32_t other = ebb_accesses(c->chain[i])[k].buffer;
            if (!ebb_is_there(id, c->chain[i], k) || !ebb_is_dropped(other))
                continue;
            const unsigned d = 1 + needs(other, left - 1, ns);
            most = d > most ? d : most;
        }
    }
    return most;
}

/* The longest row of those that need it. */
static unsigned needed_by(uint32_t id, unsigned left)
{
    unsigned most = 0;
    if (!left || !R.of[id].needed)
        return 0;
    for (uint32_t i = 0; i < R.dropped_count; i++)
        if (reads(R.dropped[i], id)) {
            const unsigned d = 1 + needed_by(R.dropped[i], left - 1);
            most = d > most ? d : most;
        }
    return most;
}

bool ebb_recipe_can_rebuild(const ebb_buffer_t *b, uint64_t *cost_ns)
{
    if (!F.learned || !F.known || !b->number || b->pinned || R.shut || !R.of || !ebb_recheck_ready())
        return false;
    const uint32_t id = b->number - 1, until = ebb_uses_next(&F.uses, id, F.cursor);
    if (ebb_is_dropped(id) || until >= trace()->operation_count || !holds(id) || !inputs_stay(id, until))
        return false;
    *cost_ns = 0;
    return needs(id, DEEPEST, cost_ns) + needed_by(id, DEEPEST) < DEEPEST;
}

/* ---- dropping ---- */

static void count_needed(uint32_t id, bool more)
{
    const recipe_t r = ebb_recipe_of(id);
    for (uint32_t i = 0; i < r.count; i++)
        for (uint32_t k = 0; k < ebb_recorded(r.operation[i])->access_count; k++)
            if (ebb_is_there(id, r.operation[i], k))
                R.of[ebb_accesses(r.operation[i])[k].buffer].needed += more ? 1 : -1u;
}

void ebb_recipe_list(uint32_t id)
{
    if (ebb_is_dropped(id))
        return;
    count_needed(id, true);
    R.of[id].place = R.dropped_count;
    R.dropped[R.dropped_count++] = id;
}

static void unlist(uint32_t id)
{
    if (!ebb_is_dropped(id))
        return;
    count_needed(id, false);
    const uint32_t last = R.dropped[--R.dropped_count];
    R.dropped[R.of[id].place] = last;
    R.of[last].place = R.of[id].place;
    R.of[id].place = EBB_NONE;
    R.left_count -= R.of[id].left != NULL;
    free(R.of[id].left);
    R.of[id].left = NULL;
}

static uint32_t last_of(uint32_t id)
{
    return R.of[id].chain[R.of[id].length - 1];
}

ebb_mark_t ebb_recipe_dropping(ebb_buffer_t *b, ebb_mark_t ready, bool *keep_copy)
{
    const uint32_t id = b->number - 1;
    ebb_recipe_list(id);
    return ebb_recheck_dropping(b, id, last_of(id), ready, keep_copy);
}

bool ebb_recipe_may_keep_copy(const ebb_buffer_t *b)
{
    return ebb_recheck_is_trial(last_of(b->number - 1));
}

void ebb_recipe_dropped(ebb_buffer_t *b, bool dropped)
{
    R.counts.dropped += dropped;
    if (dropped || !F.learned || !b->number || !R.of)
        return;
    unlist(b->number - 1);
    ebb_recheck_forget(b->number - 1);
}

static void tell_lost(const ebb_buffer_t *b)
{
    ebb_log(EBB_WARN,
            "the content of the buffer at %#llx (%zu bytes) is lost: it could not be made again: %s",
            (unsigned long long)b->address, b->bytes, ebb_last_failure());
    ebb_fail_program();
}

ebb_status_t ebb_recipe_make_readers(uint32_t input, ebb_stream_t *stream)
{
    ebb_status_t status = 0;
    R.shut = true;
    for (uint32_t i = 0; i < R.dropped_count && !status;) {
        const uint32_t id = R.dropped[i];
        if (input != EBB_NONE && !reads(id, input)) {
            i++;
            continue;
        }
        status = ebb_residence_restore(F.buffer[id], stream);
        if (!status && ebb_is_dropped(id)) /* it was nothing of the kind */
            unlist(id);
        i = 0;
    }
    R.shut = false;
    return status;
}

/* All that is dropped is made; what cannot be is lost. */
static void make_all(void)
{
    while (R.dropped_count && ebb_recipe_make_readers(EBB_NONE, ebb_recheck_side())) {
        const uint32_t id = R.dropped[0];
        if (ebb_residence_restore(F.buffer[id], ebb_recheck_side()))
            tell_lost(F.buffer[id]);
        unlist(id);
    }
}

/* ---- along with the program ---- */

static void release(void)
{
    for (uint32_t i = 0; R.issued && i < trace()->operation_count; i++)
        ebb_issued_forget(&R.issued[i]);
    for (uint32_t i = 0; R.of && i < trace()->buffer_count; i++) {
        free(R.of[i].chain);
        free(R.of[i].left);
    }
    free(R.of);
    free(R.issued);
    free(R.seen);
    free(R.maker);
    free(R.dropped);
    free(R.path);
    free(R.own);
    free(R.last_read);
    R = (recipes_t){.counts = R.counts};
}

bool ebb_recipe_open(void)
{
    const size_t m = trace()->buffer_count, accesses = trace()->access_count;
    R.of = calloc(m + 1, sizeof *R.of);
    R.seen = calloc(accesses + 1, sizeof *R.seen);
    R.maker = calloc(accesses + 1, sizeof *R.maker);
    R.dropped = calloc(m + 1, sizeof *R.dropped);
    R.path = calloc(m + 2, sizeof *R.path);
    R.own = calloc(m + 1, sizeof(ebb_buffer_t *));
    R.last_read = calloc(m + 1, sizeof *R.last_read);
    if (!R.of || !R.seen || !R.maker || !R.dropped || !R.path || !R.own || !R.last_read) {
        release();
        return false;
    }
    for (size_t i = 0; i < m; i++)
        R.of[i].place = R.of[i].writer = EBB_NONE;
    R.most_ns = ebb_uses_ns(&F.uses, 0, trace()->operation_count) / MOST_SHARE + ISSUE_NS;
    return true;
}

void ebb_recipe_begin(void)
{
    if (!ebb_options.recompute || !F.learned->concluded || !ebb_recipe_open())
        return;
    R.issued = calloc((size_t)trace()->operation_count + 1, sizeof *R.issued);
    if (!R.issued || !ebb_recheck_begin())
        release();
}

void ebb_recipe_end(void)
{
    if (!R.of)
        return;
    make_all();
    ebb_recheck_end();
    release();
}

void ebb_recipe_step_ends(void)
{
    if (!R.of)
        return;
    make_all();
    for (uint32_t i = 0; i < trace()->buffer_count; i++) {
        R.of[i].length = 0;
        R.of[i].writer = EBB_NONE;
    }
}

ebb_status_t ebb_recipe_before(const ebb_operation_t *op)
{
    R.under_way = op;
    for (uint32_t i = 0; R.dropped_count && i < op->access_count; i++) {
        ebb_buffer_t *b = op->access[i].buffer;
        if (b->number && R.of[b->number - 1].needed && may_write(op, b))
            EBB_TRY(ebb_recipe_make_readers(b->number - 1, op->stream));
    }
    return 0;
}

static bool append(content_t *c, uint32_t operation)
{
    if (c->length == c->room) {
        const uint32_t room = c->room ? 2 * c->room : 4;
        uint32_t *chain = realloc(c->chain, room * sizeof *chain);
        if (!chain)
            return false;
        c->chain = chain;
        c->room = room;
    }
    c->chain[c->length++] = operation;
    c->ns += ebb_recorded(operation)->duration_ns + ISSUE_NS;
    return true;
}

/* What operation `index` has made of a buffer. */
static void note_write(uint32_t index, uint32_t k, bool good)
{
    content_t *c = &R.of[ebb_accesses(index)[k].buffer];
    const bool updates = ebb_accesses(index)[k].mode != EBB_REPLACES, known = good && (!updates || c->length);
    c->version++;
    c->writer = index;
    if (!updates) {
        c->length = 0;
        c->ns = 0;
    }
    if (!known || !append(c, index) || (updates && c->ns > R.most_ns))
        c->length = 0;
}

void ebb_recipe_note(uint32_t index, bool kept)
{
    const ebb_trace_operation_t *o = ebb_recorded(index);
    for (uint32_t k = 0; k < o->access_count; k++) {
        const content_t *c = &R.of[ebb_accesses(index)[k].buffer];
        R.seen[o->first_access + k] = c->version;
        R.maker[o->first_access + k] = c->writer;
    }
    for (uint32_t k = 0; k < o->access_count; k++)
        if (ebb_accesses(index)[k].mode != EBB_READS && ebb_is_first(index, k))
            note_write(index, k, kept);
}

void ebb_recipe_note_stray(uint32_t id)
{
    R.of[id].version++;
    R.of[id].length = 0;
    R.of[id].writer = EBB_NONE;
}

static bool keep_arguments(const ebb_operation_t *op)
{
    return ebb_recorded(F.at)->proofs && (op->kind != EBB_KERNEL || op->plain) &&
           ebb_issued_keep(&R.issued[F.at], op);
}

void ebb_recipe_after(const ebb_operation_t *op, bool issued)
{
    R.under_way = NULL;
    if (!R.of || !issued)
        return;
    for (uint32_t i = 0; op->opaque && i < trace()->buffer_count; i++)
        ebb_recipe_note_stray(i);
    for (uint32_t i = 0; !F.matches && i < op->access_count; i++)
        if (op->access[i].buffer->number)
            ebb_recipe_note_stray(op->access[i].buffer->number - 1);
    if (F.matches)
        ebb_recipe_note(F.at, keep_arguments(op));
}

/* They could not be made. */
static void lose_readers(uint32_t input)
{
    for (uint32_t i = R.dropped_count; i-- > 0;)
        if (reads(R.dropped[i], input)) {
            tell_lost(F.buffer[R.dropped[i]]);
            unlist(R.dropped[i]);
        }
}

void ebb_recipe_freeing(ebb_buffer_t *b, ebb_stream_t *stream)
{
    const uint32_t id = b->number - 1;
    if (!R.of)
        return;
    ebb_stream_t *s = stream ? stream : ebb_recheck_side();
    if (R.of[id].needed) {
        if (ebb_recipe_make_readers(id, s))
            lose_readers(id);
        if (!stream && ebb_mark_wait(ebb_mark_here(s))) /* its memory may be used at once */
            ebb_log(EBB_WARN, "%s", ebb_last_failure());
    }
    unlist(id);
    ebb_recheck_forget(id);
    ebb_recipe_note_stray(id);
}

void ebb_recipe_waited(void)
{
    if (F.learned)
        ebb_recheck_poll();
}

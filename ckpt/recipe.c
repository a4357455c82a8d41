#include "recipe.h"

#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "follow.h"
#include "log.h"
#include "options.h"
#include "recheck.h"
#include "relaunch.h"

#define F ebb_followed

/* Operations of a recipe, beside those of other dropped buffers; distinct buffers of an operation; dropped buffers
 * that need one another, in a row. */
enum { CHAIN = 4, MOST = 64, DEEPEST = 12 };
/* What zeroing, and issuing at all, adds to a launch's time. */
enum { ISSUE_NS = 4000 };

/* A numbered buffer. */
typedef struct content {
    uint64_t version;      /* counts operations that may have written it */
    uint32_t chain[CHAIN]; /* the operations that made it, in order */
    uint32_t length;       /* 0: not known, or not to be repeated */
    uint32_t place;        /* in `dropped`, or NEVER */
    uint32_t needed;       /* dropped buffers whose recipes read it, with repetitions */
} content_t;

static struct {
    content_t *of;        /* [buffers] */
    ebb_issued_t *issued; /* [operations] as issued in this step */
    uint64_t *seen;       /* [accesses] version of the buffer before the operation, in this step */
    uint32_t *dropped;    /* [buffers] numbers: those that are dropped, or about to be */
    uint32_t dropped_count;
    const ebb_operation_t *under_way;
    bool shut; /* nothing more is dropped: what is dropped is being made */
    ebb_recipe_counts_t counts;
} recipe;

ebb_recipe_counts_t ebb_recipe_counts(void)
{
    ebb_recipe_counts_t c = recipe.counts;
    ebb_recheck_count(&c.verified, &c.mismatches);
    return c;
}

static const ebb_trace_t *trace(void)
{
    return F.learned->trace;
}

static const ebb_trace_access_t *accesses(uint32_t operation)
{
    return &trace()->access[trace()->operation[operation].first_access];
}

/* The first access of an operation to its buffer. */
static bool is_first(uint32_t operation, uint32_t k)
{
    const ebb_trace_access_t *a = accesses(operation);
    for (uint32_t i = 0; i < k; i++)
        if (a[i].buffer == a[k].buffer)
            return false;
    return true;
}

/* ---- does a recipe hold? ---- */

static bool is_dropped(uint32_t id)
{
    return recipe.of[id].place != EBB_TRACE_NEVER;
}

/* Whether the recipe of `id` reads buffer `input`. */
static bool reads(uint32_t id, uint32_t input)
{
    const content_t *c = &recipe.of[id];
    for (uint32_t i = 0; i < c->length; i++)
        for (uint32_t k = 0; k < trace()->operation[c->chain[i]].access_count; k++)
            if (accesses(c->chain[i])[k].buffer == input && input != id)
                return true;
    return false;
}

static bool may_write(const ebb_operation_t *op, const ebb_buffer_t *b)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        if (op->access[i].buffer == b && (!F.matches || accesses(F.at)[i].mode != EBB_READS))
            return true;
    return op->opaque;
}

/* What a recipe reads: there, and as it was. */
static bool is_unchanged(uint32_t operation, uint32_t k)
{
    const ebb_trace_access_t *a = &accesses(operation)[k];
    const ebb_buffer_t *b = F.buffer[a->buffer];
    return b && !b->pinned &&
           recipe.of[a->buffer].version == recipe.seen[trace()->operation[operation].first_access + k] &&
           !(recipe.under_way && may_write(recipe.under_way, b));
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
        for (uint32_t k = 0; k < trace()->operation[at].access_count; k++)
            if (accesses(at)[k].buffer == id && accesses(at)[k].mode != EBB_READS)
                return false;
    }
    return true;
}

static bool holds(uint32_t id)
{
    const content_t *c = &recipe.of[id];
    for (uint32_t i = 0; i < c->length; i++) {
        const ebb_trace_operation_t *o = &trace()->operation[c->chain[i]];
        if (!o->proofs || o->access_count > MOST)
            return false;
        for (uint32_t k = 0; k < o->access_count; k++) {
            const ebb_trace_access_t *a = &accesses(c->chain[i])[k];
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
    const content_t *c = &recipe.of[id];
    for (uint32_t i = 0; i < c->length; i++)
        for (uint32_t k = 0; k < trace()->operation[c->chain[i]].access_count; k++) {
            const ebb_trace_access_t *a = &accesses(c->chain[i])[k];
            if (a->buffer != id && a->mode == EBB_READS && !stays(a->buffer, until))
                return false;
        }
    return true;
}

/* The longest row of dropped buffers that the recipe of one needs, no more than `left`; their time, itself included. */
static unsigned needs(uint32_t id, unsigned left, uint64_t *ns)
{
    const content_t *c = &recipe.of[id];
    unsigned most = 0;
    for (uint32_t i = 0; i < c->length; i++) {
        const ebb_trace_operation_t *o = &trace()->operation[c->chain[i]];
        *ns += o->duration_ns + ISSUE_NS;
        for (uint32_t k = 0; left && k < o->access_count; k++) {
            const uint32_t other = accesses(c->chain[i])[k].buffer;
            if (other == id || accesses(c->chain[i])[k].mode != EBB_READS || !is_dropped(other))
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
    if (!left || !recipe.of[id].needed)
        return 0;
    for (uint32_t i = 0; i < recipe.dropped_count; i++)
        if (reads(recipe.dropped[i], id)) {
            const unsigned d = 1 + needed_by(recipe.dropped[i], left - 1);
            most = d > most ? d : most;
        }
    return most;
}

bool ebb_recipe_can_rebuild(const ebb_buffer_t *b, uint64_t *cost_ns)
{
    if (!F.learned || !F.known || !b->number || b->pinned || recipe.shut || !recipe.of ||
        !ebb_recheck_ready())
        return false;
    const uint32_t id = b->number - 1, until = ebb_uses_next(&F.uses, id, F.cursor);
    if (is_dropped(id) || until >= trace()->operation_count || !holds(id) || !inputs_stay(id, until))
        return false;
    *cost_ns = 0;
    return needs(id, DEEPEST, cost_ns) + needed_by(id, DEEPEST) < DEEPEST;
}

/* ---- dropping ---- */

static void count_needed(uint32_t id, bool more)
{
    const content_t *c = &recipe.of[id];
    for (uint32_t i = 0; i < c->length; i++)
        for (uint32_t k = 0; k < trace()->operation[c->chain[i]].access_count; k++)
            recipe.of[accesses(c->chain[i])[k].buffer].needed += more ? 1 : -1u;
}

static void list(uint32_t id)
{
    if (is_dropped(id))
        return;
    count_needed(id, true);
    recipe.of[id].place = recipe.dropped_count;
    recipe.dropped[recipe.dropped_count++] = id;
}

static void unlist(uint32_t id)
{
    if (!is_dropped(id))
        return;
    count_needed(id, false);
    const uint32_t last = recipe.dropped[--recipe.dropped_count];
    recipe.dropped[recipe.of[id].place] = last;
    recipe.of[last].place = recipe.of[id].place;
    recipe.of[id].place = EBB_TRACE_NEVER;
}

static uint32_t last_of(uint32_t id)
{
    return recipe.of[id].chain[recipe.of[id].length - 1];
}

ebb_mark_t ebb_recipe_dropping(ebb_buffer_t *b, ebb_mark_t ready, bool *keep_copy)
{
    const uint32_t id = b->number - 1;
    list(id);
    return ebb_recheck_dropping(b, id, last_of(id), ready, keep_copy);
}

void ebb_recipe_dropped(ebb_buffer_t *b, bool dropped)
{
    recipe.counts.dropped += dropped;
    if (dropped || !F.learned || !b->number || !recipe.of)
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

static ebb_status_t make_those_that_read(uint32_t input, ebb_stream_t *stream)
{
    ebb_status_t status = 0;
    recipe.shut = true;
    for (uint32_t i = 0; i < recipe.dropped_count && !status;) {
        const uint32_t id = recipe.dropped[i];
        if (input != EBB_TRACE_NEVER && !reads(id, input)) {
            i++;
            continue;
        }
        status = ebb_residence_restore(F.buffer[id], stream);
        if (!status && is_dropped(id)) /* it was nothing of the kind */
            unlist(id);
        i = 0;
    }
    recipe.shut = false;
    return status;
}

/* All that is dropped is made; what cannot be is lost. */
static void make_all(void)
{
    while (recipe.dropped_count && make_those_that_read(EBB_TRACE_NEVER, ebb_recheck_side())) {
        const uint32_t id = recipe.dropped[0];
        if (ebb_residence_restore(F.buffer[id], ebb_recheck_side()))
            tell_lost(F.buffer[id]);
        unlist(id);
    }
}

/* ---- making ---- */

/* A launch under way: what its buffers are this time. */
typedef struct cast {
    ebb_access_t reads[MOST];
    uint32_t read_count;
    ebb_buffer_t *scratch[MOST]; /* [accesses]: made here; NULL: none */
} cast_t;

static void list_reads(uint32_t id, uint32_t operation, cast_t *c)
{
    const ebb_trace_operation_t *o = &trace()->operation[operation];
    *c = (cast_t){.read_count = 0};
    for (uint32_t k = 0; k < o->access_count; k++) {
        const ebb_trace_access_t *a = &accesses(operation)[k];
        if (a->buffer != id && a->mode == EBB_READS && is_first(operation, k))
            c->reads[c->read_count++] = (ebb_access_t){.buffer = F.buffer[a->buffer]};
    }
}

static ebb_operation_t reading(cast_t *c, ebb_stream_t *stream)
{
    return (ebb_operation_t){
        .kind = EBB_KERNEL, .stream = stream, .access = c->reads, .access_count = c->read_count};
}

static ebb_status_t zero(const ebb_buffer_t *b, ebb_stream_t *stream)
{
    EBB_DRIVER(cuMemsetD8Async, b->bytes, (b->address, 0, b->bytes, ebb_stream_handle(stream)));
    ebb_mark_issue(stream);
    return 0;
}

/* What the launch replaces beside the buffer that is wanted. */
static ebb_status_t take_scratch(uint32_t id, uint32_t operation, cast_t *c, ebb_stream_t *stream)
{
    for (uint32_t k = 0; k < trace()->operation[operation].access_count; k++) {
        const ebb_trace_access_t *a = &accesses(operation)[k];
        if (a->buffer == id || a->mode == EBB_READS || !is_first(operation, k))
            continue;
        const ebb_request_t q = {.bytes = trace()->buffer[a->buffer].bytes, .stream = stream};
        EBB_TRY(ebb_heap_alloc(&q, &c->scratch[k]));
        c->scratch[k]->held++;
        EBB_TRY(zero(c->scratch[k], stream));
    }
    return 0;
}

static void give_scratch(cast_t *c, ebb_stream_t *stream)
{
    for (uint32_t k = 0; k < MOST; k++)
        if (c->scratch[k])
            ebb_heap_free(c->scratch[k], ebb_mark_here(stream));
}

static ebb_status_t relaunch(uint32_t operation, const cast_t *c, ebb_stream_t *stream)
{
    ebb_pointer_t pointer[MOST];
    unsigned count = 0;
    for (uint32_t k = 0; k < trace()->operation[operation].access_count; k++) {
        const ebb_trace_access_t *a = &accesses(operation)[k];
        for (uint32_t i = 0; i <= k; i++)
            if (c->scratch[i] && accesses(operation)[i].buffer == a->buffer)
                pointer[count++] = (ebb_pointer_t){a->param_offset, c->scratch[i]->address + a->offset_bytes};
    }
    recipe.counts.replays++;
    return ebb_relaunch(&recipe.issued[operation], stream, pointer, count);
}

/* Ordered behind every use of each argument; and whoever uses them next is behind this. */
static ebb_status_t issue(uint32_t operation, ebb_buffer_t *b, cast_t *c, ebb_stream_t *stream)
{
    EBB_TRY(take_scratch(b->number - 1, operation, c, stream));
    for (uint32_t i = 0; i < c->read_count; i++)
        EBB_TRY(ebb_buffer_join(ebb_stream_handle(stream), c->reads[i].buffer));
    EBB_TRY(relaunch(operation, c, stream));
    const ebb_mark_t mark = ebb_mark_here(stream);
    for (uint32_t i = 0; i < c->read_count; i++)
        EBB_TRY(ebb_residence_used(c->reads[i].buffer, mark));
    return ebb_residence_used(b, mark);
}

static ebb_status_t repeat(uint32_t operation, ebb_buffer_t *b, bool first, ebb_stream_t *stream)
{
    cast_t c;
    list_reads(b->number - 1, operation, &c);
    ebb_operation_t op = reading(&c, stream);
    EBB_TRY(ebb_residence_acquire(&op));
    ebb_status_t status = 0;
    if (first) {
        status = ebb_residence_blank(b, stream);
        b->held += !status;
        if (!status)
            status = zero(b, stream);
    }
    if (!status)
        status = issue(operation, b, &c, stream);
    give_scratch(&c, stream);
    ebb_residence_release(&op);
    return status;
}

/* Those inputs of all its operations that are dropped themselves, before anything is held. */
static ebb_status_t make_inputs(uint32_t id, ebb_stream_t *stream)
{
    const content_t *c = &recipe.of[id];
    ebb_status_t status = 0;
    for (uint32_t i = 0; i < c->length; i++) {
        cast_t cast;
        list_reads(id, c->chain[i], &cast);
        const ebb_operation_t op = reading(&cast, stream);
        ebb_residence_want(&op, true);
    }
    for (uint32_t i = 0; i < c->length && !status; i++) {
        cast_t cast;
        list_reads(id, c->chain[i], &cast);
        for (uint32_t k = 0; k < cast.read_count && !status; k++)
            status = ebb_residence_restore(cast.reads[k].buffer, stream);
    }
    return status;
}

static void unwant_inputs(uint32_t id, ebb_stream_t *stream)
{
    const content_t *c = &recipe.of[id];
    for (uint32_t i = 0; i < c->length; i++) {
        cast_t cast;
        list_reads(id, c->chain[i], &cast);
        const ebb_operation_t op = reading(&cast, stream);
        ebb_residence_want(&op, false);
    }
}

ebb_status_t ebb_recipe_rebuild(ebb_buffer_t *b, ebb_stream_t *stream)
{
    if (!F.learned || !b->number || !is_dropped(b->number - 1))
        return ebb_fail(CUDA_ERROR_UNKNOWN, "a buffer without a recipe", b->bytes);
    const uint32_t id = b->number - 1, held = b->held;
    const content_t *c = &recipe.of[id];
    ebb_status_t status = make_inputs(id, stream);
    for (uint32_t i = 0; i < c->length && !status; i++)
        status = repeat(c->chain[i], b, !i, stream);
    b->held = held;
    unwant_inputs(id, stream);
    if (!status)
        status = ebb_recheck_made(b, id, stream);
    if (status)
        ebb_residence_unblank(b, stream);
    else
        recipe.counts.rebuilt++;
    return status;
}

bool ebb_recipe_agrees(ebb_buffer_t *b, ebb_stream_t *stream)
{
    return ebb_recheck_agrees(b->number - 1, stream);
}

/* ---- along with the program ---- */

static bool allocate(void)
{
    const size_t m = trace()->buffer_count, n = trace()->operation_count;
    recipe.of = calloc(m + 1, sizeof *recipe.of);
    recipe.issued = calloc(n + 1, sizeof *recipe.issued);
    recipe.seen = calloc((size_t)trace()->access_count + 1, sizeof *recipe.seen);
    recipe.dropped = calloc(m + 1, sizeof *recipe.dropped);
    if (!recipe.of || !recipe.issued || !recipe.seen || !recipe.dropped)
        return false;
    for (size_t i = 0; i < m; i++)
        recipe.of[i].place = EBB_TRACE_NEVER;
    return true;
}

static void release(void)
{
    for (uint32_t i = 0; recipe.issued && i < trace()->operation_count; i++)
        ebb_issued_forget(&recipe.issued[i]);
    free(recipe.of);
    free(recipe.issued);
    free(recipe.seen);
    free(recipe.dropped);
    recipe.of = NULL;
    recipe.issued = NULL;
    recipe.seen = NULL;
    recipe.dropped = NULL;
    recipe.dropped_count = 0;
    recipe.under_way = NULL;
}

void ebb_recipe_begin(void)
{
    if (!ebb_options.recompute || !allocate() || !ebb_recheck_begin())
        release();
}

void ebb_recipe_end(void)
{
    if (!recipe.of)
        return;
    make_all();
    ebb_recheck_end();
    release();
}

void ebb_recipe_step_ends(void)
{
    if (!recipe.of)
        return;
    make_all();
    for (uint32_t i = 0; i < trace()->buffer_count; i++)
        recipe.of[i].length = 0;
    ebb_recheck_step_ends();
}

ebb_status_t ebb_recipe_before(const ebb_operation_t *op)
{
    recipe.under_way = op;
    for (uint32_t i = 0; recipe.dropped_count && i < op->access_count; i++) {
        ebb_buffer_t *b = op->access[i].buffer;
        if (b->number && recipe.of[b->number - 1].needed && may_write(op, b))
            EBB_TRY(make_those_that_read(b->number - 1, op->stream));
    }
    return 0;
}

/* What operation `index` has made of a buffer. */
static void note_write(uint32_t index, uint32_t k, bool good)
{
    content_t *c = &recipe.of[accesses(index)[k].buffer];
    c->version++;
    if (good && accesses(index)[k].mode == EBB_REPLACES) {
        c->chain[0] = index;
        c->length = 1;
    } else if (good && c->length && c->length < CHAIN) {
        c->chain[c->length++] = index;
    } else {
        c->length = 0;
    }
}

/* Anything may have been written. */
static void forget_all(void)
{
    for (uint32_t i = 0; i < trace()->buffer_count; i++) {
        recipe.of[i].length = 0;
        recipe.of[i].version++;
    }
}

static bool keep_arguments(const ebb_operation_t *op)
{
    return trace()->operation[F.at].proofs && (op->kind != EBB_KERNEL || op->plain) &&
           ebb_issued_keep(&recipe.issued[F.at], op);
}

void ebb_recipe_after(const ebb_operation_t *op, bool issued)
{
    recipe.under_way = NULL;
    if (!recipe.of || !issued)
        return;
    if (op->opaque)
        forget_all();
    if (!F.matches) {
        for (uint32_t i = 0; i < op->access_count; i++)
            if (op->access[i].buffer->number) {
                recipe.of[op->access[i].buffer->number - 1].version++;
                recipe.of[op->access[i].buffer->number - 1].length = 0;
            }
        return;
    }
    const bool kept = keep_arguments(op);
    const ebb_trace_operation_t *o = &trace()->operation[F.at];
    for (uint32_t k = 0; k < o->access_count; k++)
        recipe.seen[o->first_access + k] = recipe.of[accesses(F.at)[k].buffer].version;
    for (uint32_t k = 0; k < o->access_count; k++)
        if (accesses(F.at)[k].mode != EBB_READS && is_first(F.at, k))
            note_write(F.at, k, kept);
}

void ebb_recipe_freeing(ebb_buffer_t *b, ebb_stream_t *stream)
{
    const uint32_t id = b->number - 1;
    if (!recipe.of)
        return;
    ebb_stream_t *s = stream ? stream : ebb_recheck_side();
    if (recipe.of[id].needed) {
        if (make_those_that_read(id, s))
            for (uint32_t i = 0; i < recipe.dropped_count; i++)
                if (reads(recipe.dropped[i], id))
                    tell_lost(F.buffer[recipe.dropped[i]]);
        if (!stream && ebb_mark_wait(ebb_mark_here(s))) /* its memory may be used at once */
            ebb_log(EBB_WARN, "%s", ebb_last_failure());
    }
    unlist(id);
    ebb_recheck_forget(id);
    recipe.of[id].length = 0;
    recipe.of[id].version++;
}

void ebb_recipe_waited(void)
{
    if (F.learned)
        ebb_recheck_poll();
}

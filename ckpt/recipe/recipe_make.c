/* recipe_make.c: making what was dropped: the operations of its recipe are issued again (recipe.h). */
#include <string.h>

#include "driver.h"
#include "recheck.h"
#include "recipe_state.h"

#define F ebb_followed
#define R ebb_recipes

/* A launch under way: what its buffers are this time. */
typedef struct cast {
    ebb_access_t reads[EBB_RECIPE_BUFFERS];
    uint32_t read_count;
    ebb_buffer_t *scratch[EBB_RECIPE_BUFFERS]; /* [accesses]: made here; NULL: none */
} cast_t;

static void list_reads(uint32_t id, uint32_t operation, cast_t *c)
{
    const ebb_trace_operation_t *o = ebb_recorded(operation);
    *c = (cast_t){.read_count = 0};
    for (uint32_t k = 0; k < o->access_count; k++) {
        const ebb_trace_access_t *a = &ebb_accesses(operation)[k];
        if (a->buffer != id && a->mode == EBB_READS && ebb_is_first(operation, k))
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
    for (uint32_t k = 0; k < ebb_recorded(operation)->access_count; k++) {
        const ebb_trace_access_t *a = &ebb_accesses(operation)[k];
        if (a->buffer == id || a->mode == EBB_READS || !ebb_is_first(operation, k))
            continue;
        const ebb_request_t q = {.bytes = F.learned->trace->buffer[a->buffer].bytes, .stream = stream};
        EBB_TRY(ebb_heap_alloc(&q, &c->scratch[k]));
        c->scratch[k]->held++;
        EBB_TRY(zero(c->scratch[k], stream));
    }
    return 0;
}

static void give_scratch(cast_t *c, ebb_stream_t *stream)
{
    for (uint32_t k = 0; k < EBB_RECIPE_BUFFERS; k++)
        if (c->scratch[k])
            ebb_heap_free(c->scratch[k], ebb_mark_here(stream));
}

static ebb_status_t relaunch(uint32_t operation, const cast_t *c, ebb_stream_t *stream)
{
    ebb_pointer_t pointer[EBB_RECIPE_BUFFERS];
    unsigned count = 0;
    for (uint32_t k = 0; k < ebb_recorded(operation)->access_count; k++) {
        const ebb_trace_access_t *a = &ebb_accesses(operation)[k];
        for (uint32_t i = 0; i <= k; i++)
            if (c->scratch[i] && ebb_accesses(operation)[i].buffer == a->buffer)
                pointer[count++] = (ebb_pointer_t){a->param_offset, c->scratch[i]->address + a->offset_bytes};
    }
    R.counts.replays++;
    return ebb_relaunch(&R.issued[operation], stream, pointer, count);
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
    const content_t *c = &R.of[id];
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
    const content_t *c = &R.of[id];
    for (uint32_t i = 0; i < c->length; i++) {
        cast_t cast;
        list_reads(id, c->chain[i], &cast);
        const ebb_operation_t op = reading(&cast, stream);
        ebb_residence_want(&op, false);
    }
}

ebb_status_t ebb_recipe_rebuild(ebb_buffer_t *b, ebb_stream_t *stream)
{
    if (!F.learned || !b->number || !ebb_is_dropped(b->number - 1))
        return ebb_fail(CUDA_ERROR_UNKNOWN, "a buffer without a recipe", b->bytes);
    const uint32_t id = b->number - 1, held = b->held;
    const content_t *c = &R.of[id];
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
        R.counts.rebuilt++;
    return status;
}

bool ebb_recipe_agrees(ebb_buffer_t *b, ebb_stream_t *stream)
{
    return ebb_recheck_agrees(b->number - 1, stream);
}

#include "rebuild.h"

#include <stdlib.h>

#include "driver.h"
#include "ebb_offload.h"
#include "mismatch.h"
#include "pinned.h"

enum { MOST = 64 /* distinct buffers of an operation */, DEEPEST = 256 };

/* One launch under way: what stands for each of its buffers. */
typedef struct cast {
    uint32_t count;
    uint32_t id[MOST];
    ebb_buffer_t *buffer[MOST];
    bool own[MOST]; /* made here, to be freed after it */
} cast_t;

static ebb_mode_t mode_of(const ebb_trace_t *t, uint32_t operation, uint32_t id)
{
    const ebb_trace_operation_t *o = &t->operation[operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++)
        if (t->access[i].buffer == id)
            return t->access[i].mode;
    return 0;
}

/* The last operation before `upto` that wrote the buffer. NEVER: none in this step. */
static uint32_t last_write(const ebb_trace_t *t, uint32_t id, uint32_t upto)
{
    for (uint32_t i = upto; i-- > 0;)
        if (mode_of(t, i, id) >= EBB_REPLACES)
            return i;
    return EBB_TRACE_NEVER;
}

static bool is_there(const ebb_rebuild_t *r, uint32_t id, uint32_t upto)
{
    return r->of[id].buffer && !r->of[id].dropped &&
           last_write(r->trace, id, upto) == last_write(r->trace, id, r->cursor);
}

static ebb_buffer_t *new_buffer(const ebb_rebuild_t *r, uint32_t id)
{
    ebb_buffer_t *b;
    return ebb_heap_alloc(&(ebb_request_t){.bytes = r->trace->buffer[id].bytes, .stream = r->stream}, &b)
               ? NULL
               : b;
}

static void free_buffer(const ebb_rebuild_t *r, ebb_buffer_t *b)
{
    ebb_residence_forget(b, r->stream);
    ebb_heap_free(b, ebb_mark_here(r->stream));
}

/* Something of ebb's own on buffers: makes them resident, issues, notes the use. */
typedef ebb_status_t (*issue_fn)(const ebb_rebuild_t *r, const cast_t *cast, uint32_t operation);

static ebb_status_t with_resident(const ebb_rebuild_t *r, const cast_t *cast, uint32_t operation,
                                  issue_fn issue)
{
    ebb_access_t access[MOST];
    ebb_operation_t op = {
        .kind = EBB_KERNEL, .stream = r->stream, .access = access, .access_count = cast->count};
    for (uint32_t i = 0; i < cast->count; i++)
        access[i] = (ebb_access_t){.buffer = cast->buffer[i]};
    EBB_TRY(ebb_residence_acquire(&op));
    ebb_status_t status = issue(r, cast, operation);
    ebb_mark_t mark = ebb_mark_issue(r->stream);
    for (uint32_t i = 0; i < cast->count; i++)
        ebb_buffer_touch(cast->buffer[i], mark);
    ebb_residence_release(&op);
    return status;
}

static ebb_status_t issue_zero(const ebb_rebuild_t *r, const cast_t *cast, uint32_t operation)
{
    (void)operation;
    EBB_DRIVER(cuMemsetD8Async, cast->buffer[0]->bytes,
               (cast->buffer[0]->address, 0, cast->buffer[0]->bytes, ebb_stream_handle(r->stream)));
    return 0;
}

static ebb_status_t issue_copy(const ebb_rebuild_t *r, const cast_t *cast, uint32_t operation)
{
    (void)operation;
    EBB_DRIVER(cuMemcpyDtoDAsync, cast->buffer[0]->bytes,
               (cast->buffer[0]->address, cast->buffer[1]->address, cast->buffer[0]->bytes,
                ebb_stream_handle(r->stream)));
    return 0;
}

static CUdeviceptr address_in(const cast_t *c, uint32_t buffer)
{
    uint32_t i = 0;
    while (c->id[i] != buffer) /* all of the operation's are there */
        i++;
    return c->buffer[i]->address;
}

static ebb_status_t issue_launch(const ebb_rebuild_t *r, const cast_t *cast, uint32_t operation)
{
    const ebb_trace_operation_t *o = &r->trace->operation[operation];
    ebb_pointer_t pointer[EBB_RELAUNCH_POINTERS];
    unsigned count = 0;
    for (uint32_t i = 0; i < o->access_count && count < EBB_RELAUNCH_POINTERS; i++) {
        const ebb_trace_access_t *a = &r->trace->access[o->first_access + i];
        pointer[count++] = (ebb_pointer_t){a->param_offset, address_in(cast, a->buffer) + a->offset_bytes};
    }
    return ebb_relaunch(&r->issued[operation], r->stream, pointer, count);
}

static bool provide(const ebb_rebuild_t *r, uint32_t id, uint32_t upto, ebb_buffer_t *target, unsigned depth);

/* Who stands for buffer `id` of an operation that is not the one to be rebuilt. */
static bool choose(const ebb_rebuild_t *r, cast_t *c, uint32_t operation, uint32_t id, unsigned depth)
{
    ebb_mode_t mode = mode_of(r->trace, operation, id);
    uint32_t at = c->count;
    c->id[at] = id;
    c->own[at] = mode != EBB_READS || !is_there(r, id, operation);
    c->buffer[at] = c->own[at] ? new_buffer(r, id) : r->of[id].buffer;
    if (!c->buffer[at])
        return false;
    c->count++;
    if (!c->own[at])
        return true;
    if (mode == EBB_REPLACES) /* nobody wants it */
        return !with_resident(r, &(cast_t){.count = 1, .buffer = {c->buffer[at]}}, 0, issue_zero);
    return provide(r, id, operation, c->buffer[at], depth + 1);
}

static bool launch(const ebb_rebuild_t *r, uint32_t operation, uint32_t wanted, ebb_buffer_t *target,
                   unsigned depth)
{
    const ebb_trace_operation_t *o = &r->trace->operation[operation];
    cast_t c = {.count = 1, .id = {wanted}, .buffer = {target}};
    bool good = true;
    for (uint32_t i = o->first_access; good && i < o->first_access + o->access_count; i++) {
        uint32_t id = r->trace->access[i].buffer;
        bool listed = false;
        for (uint32_t k = 0; k < c.count; k++)
            listed |= c.id[k] == id;
        good = listed || (c.count < MOST && choose(r, &c, operation, id, depth));
    }
    good = good && !with_resident(r, &c, operation, issue_launch);
    for (uint32_t i = 0; i < c.count; i++)
        if (c.own[i])
            free_buffer(r, c.buffer[i]);
    return good;
}

/* Puts the content of buffer `id` as it was just before operation `upto` into `target`. */
static bool provide(const ebb_rebuild_t *r, uint32_t id, uint32_t upto, ebb_buffer_t *target, unsigned depth)
{
    if (is_there(r, id, upto))
        return r->of[id].buffer == target ||
               !with_resident(r, &(cast_t){.count = 2, .buffer = {target, r->of[id].buffer}}, 0, issue_copy);
    uint32_t w = last_write(r->trace, id, upto);
    if (depth > DEEPEST || w == EBB_TRACE_NEVER || !r->trace->operation[w].proofs)
        return false;
    bool good = mode_of(r->trace, w, id) == EBB_REPLACES
                    ? !with_resident(r, &(cast_t){.count = 1, .buffer = {target}}, 0, issue_zero)
                    : provide(r, id, w, target, depth + 1);
    return good && launch(r, w, id, target, depth + 1);
}

/* ---- is it the same? ---- */

static ebb_status_t issue_hash(const ebb_rebuild_t *r, const cast_t *cast, uint32_t operation)
{
    (void)operation;
    return ebb_hash_issue(r->hashes, 0, r->stream, cast->buffer[0]->address, cast->buffer[0]->bytes);
}

static ebb_status_t issue_restore(const ebb_rebuild_t *r, const cast_t *cast, uint32_t id)
{
    CUstream stream = ebb_stream_handle(r->stream);
    EBB_DRIVER(cuMemcpyHtoDAsync, cast->buffer[0]->bytes,
               (cast->buffer[0]->address, r->of[id].copy, cast->buffer[0]->bytes, stream));
    EBB_DRIVER(cuStreamSynchronize, 0, (stream));
    return 0;
}

/* The copy is put in place of what came out. */
static bool restore(const ebb_rebuild_t *r, uint32_t id)
{
    return r->of[id].copy &&
           !with_resident(r, &(cast_t){.count = 1, .buffer = {r->of[id].buffer}}, id, issue_restore);
}

static void compare(const ebb_rebuild_t *r, uint32_t id)
{
    const ebb_rebuilt_t *b = &r->of[id];
    uint64_t hash = 0;
    if (!b->known)
        return;
    bool same = !with_resident(r, &(cast_t){.count = 1, .buffer = {b->buffer}}, 0, issue_hash) &&
                !ebb_hash_read(r->hashes, 0, 1, r->stream, &hash) && hash == b->hash;
    if (!same)
        ebb_mismatch(r->trace, last_write(r->trace, id, r->cursor), id, restore(r, id));
}

/* The dropped buffer that was made first, or NEVER. */
static uint32_t earliest(const ebb_rebuild_t *r)
{
    uint32_t next = EBB_TRACE_NEVER, made = 0;
    for (uint32_t i = 0; i < r->trace->buffer_count; i++) {
        uint32_t w = r->of[i].dropped ? last_write(r->trace, i, r->cursor) : 0;
        if (r->of[i].dropped && (next == EBB_TRACE_NEVER || w < made)) {
            next = i;
            made = w;
        }
    }
    return next;
}

uint64_t ebb_rebuild(const ebb_rebuild_t *r)
{
    uint64_t rebuilt = 0;
    for (uint32_t id = earliest(r); id != EBB_TRACE_NEVER; id = earliest(r)) {
        ebb_rebuilt_t *b = &r->of[id];
        bool good = provide(r, id, r->cursor, b->buffer, 0);
        b->dropped = false;
        rebuilt += good;
        if (good)
            compare(r, id);
        else if (!restore(r, id))
            ebb_content_lost(id, ebb_last_failure());
        ebb_pinned_free(b->copy, b->buffer->bytes);
        b->copy = NULL;
    }
    return rebuilt;
}

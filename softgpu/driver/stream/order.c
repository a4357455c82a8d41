/* order.c: rules about order that hardware does not check: what two ops in different streams may do with one memory.
 *
 * A stream remembers what its future work is ordered after: for other streams, the number up to which it has waited
 * (`seen`), and what those had seen when it did. An op of another stream that has not finished and is not seen is
 * unordered, however the race may end. What the streams have waited for is exact or too much, never too little, and
 * ranges that are not known exactly count as untouched: whoever is reported has a race.
 *
 *   alias-order   two ops use one chunk through different mappings, and one of them writes there (in checked mode also: a grid
 *                 reads what was written through another mapping since it began, whatever told it to: check.c)
 *   alloc-order   an op uses memory of cuMemAllocAsync before the allocation's turn in its stream
 *   free-order    cuMemFreeAsync while an op of another stream uses the memory
 *   unmap-busy    cuMemUnmap while a copy or memset there has not finished
 *
 * Known ranges are those of flat copies and memsets. Of a kernel, each argument that looks like an address counts as one
 * byte there; but an address that may be the end of what another argument points to counts not at all, and none does in a
 * large structure, of which programs fill in a part and pass with it what the stack held before. Two kernels are never
 * compared: they may both only read.
 *
 * A stream that waits for values in memory is ordered by what this file does not see; it is left out.
 */
#include "softgpu/driver/stream/streams.h"
#include "softgpu/driver/rules.h"

#include <stdlib.h>
#include <string.h>

/* What an op does to one place. */
typedef struct use {
    CUdeviceptr at;
    size_t bytes;
    bool write, exact; /* not exact: a kernel's argument */
} use_t;

enum { MAX_USES = 64 };
enum { FILLED_IN_BYTES = 64 }; /* up to so many, all of a structure counts as set by the program */

typedef struct uses {
    use_t use[MAX_USES];
    unsigned count;
} uses_t;

/* The part of an op's use that lies in one mapping of a handle that has several. */
typedef struct sg_touch {
    const sg_op_t *op;
    const sg_stream_t *stream;
    uint64_t number;
    const sg_handle_t *handle;
    CUdeviceptr mapping;
    uint64_t from, to; /* in the handle */
    bool write, exact;
    struct sg_touch *next, *next_of_op;
} touch_t;

/* An allocation whose turn in its stream had not come when the program got the address. */
typedef struct pending {
    CUdeviceptr base;
    size_t bytes;
    uint64_t stream_id, number;
    struct pending *next;
} pending_t;

static struct {
    touch_t *touches; /* of ops in the queues */
    unsigned aliased; /* handles with several mappings */
    pending_t *pending;
} order; /* guarded by sg.lock */

/* ---- what a stream has waited for ---- */

static uint64_t seen_of(const sg_stream_t *s, uint64_t stream_id)
{
    for (unsigned i = 0; i < s->seen_count; i++)
        if (s->seen[i].stream_id == stream_id)
            return s->seen[i].number;
    return 0;
}

/* Streams that have finished what was seen of them need not be remembered. */
static void prune(sg_stream_t *s)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < s->seen_count; i++) {
        const sg_stream_t *other = sg_stream_by_id_locked(s->seen[i].stream_id);
        if (other && atomic_load(&other->completed) < s->seen[i].number)
            s->seen[kept++] = s->seen[i];
    }
    s->seen_count = kept;
}

static void note_seen(sg_stream_t *s, uint64_t stream_id, uint64_t number)
{
    for (unsigned i = 0; i < s->seen_count; i++)
        if (s->seen[i].stream_id == stream_id) {
            if (s->seen[i].number < number)
                s->seen[i].number = number;
            return;
        }
    if (s->seen_count == s->seen_capacity)
        prune(s);
    if (s->seen_count == s->seen_capacity) {
        unsigned capacity = s->seen_capacity ? 2 * s->seen_capacity : 8;
        void *grown = realloc(s->seen, capacity * sizeof *s->seen);
        if (!grown) {
            s->untracked = true; /* better nothing than a race that is none */
            return;
        }
        s->seen = grown;
        s->seen_capacity = capacity;
    }
    s->seen[s->seen_count++] = (sg_seen_t){stream_id, number};
}

void sg_order_wait_locked(sg_stream_t *s, const sg_stream_t *on, uint64_t number)
{
    if (s == on)
        return;
    note_seen(s, on->id, number);
    for (unsigned i = 0; i < on->seen_count; i++)
        if (on->seen[i].stream_id != s->id)
            note_seen(s, on->seen[i].stream_id, on->seen[i].number);
    s->untracked = s->untracked || on->untracked;
}

/* The legacy default stream and blocking streams wait for one another. */
static bool legacy_orders(const sg_stream_t *a, const sg_stream_t *b)
{
    const sg_stream_t *legacy = a->ctx->legacy;
    return a->ctx == b->ctx && a->blocking && b->blocking && (a == legacy || b == legacy);
}

/* Whether what comes next in `s` may run beside op `number` of `other`. */
static bool unordered(const sg_stream_t *s, const sg_stream_t *other, uint64_t number)
{
    return s != other && !legacy_orders(s, other) && !s->untracked && !other->untracked &&
           atomic_load(&other->completed) < number && seen_of(s, other->id) < number;
}

/* ---- what an op uses ---- */

static void add_use(uses_t *u, const void *at, size_t bytes, bool write, bool exact)
{
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)at;
    if (u->count < MAX_USES && sg_window_contains(p))
        u->use[u->count++] = (use_t){p, bytes, write, exact};
}

static void add_words(uses_t *u, const sg_op_t *op, bool large)
{
    const softgpu_kernel_t *kernel = op->kernel.function->kernel;
    const char *params = op->kernel.launch.params;
    for (uint32_t k = 0; k < kernel->param_count; k++) {
        const softgpu_param_t *param = &kernel->params[k];
        const size_t end = param->offset_bytes + param->size_bytes;
        if ((param->size_bytes > FILLED_IN_BYTES) != large)
            continue;
        for (size_t i = (param->offset_bytes + 7) & ~(size_t)7; i + 8 <= end; i += 8) {
            void *p;
            memcpy(&p, params + i, sizeof p);
            add_use(u, p, 1, true, false);
        }
        for (size_t i = param->offset_bytes; i + sizeof(CUtensorMap) <= end; i += SG_TENSOR_MAP_ALIGN)
            add_use(u, (void *)(uintptr_t)sg_tensor_map_address(params + i), 1, true, false);
    }
}

/* Which words of a kernel's that look like addresses, not of large structures, may be the end of what another one, in whichever
 * structure, points to. That is known when it is given: before its turn its memory may be freed in its own stream. */
static uint64_t ends_of(const sg_op_t *op)
{
    _Static_assert(MAX_USES <= 64, "a bit for each");
    uses_t u = {.count = 0};
    uint64_t ends = 0;
    add_words(&u, op, false);
    const unsigned small = u.count;
    add_words(&u, op, true);
    for (unsigned i = 0; u.count > 1 && i < small; i++) {
        sg_extent_t before;
        bool may_be_end = false;
        if (sg_extent_find_locked(u.use[i].at - 1, &before))
            for (unsigned j = 0; j < u.count && !may_be_end; j++)
                may_be_end = u.use[j].at - before.base < before.bytes && u.use[j].at < u.use[i].at;
        ends |= (uint64_t)may_be_end << i;
    }
    return ends;
}

static void add_arguments(uses_t *u, const sg_op_t *op)
{
    unsigned kept = 0;
    add_words(u, op, false);
    for (unsigned i = 0; i < u->count; i++)
        if (!(op->kernel.ends >> i & 1))
            u->use[kept++] = u->use[i];
    u->count = kept;
}

static void find_uses(uses_t *u, const sg_op_t *op)
{
    u->count = 0;
    if (op->kind == SG_OP_KERNEL) {
        add_arguments(u, op);
    } else if (op->kind == SG_OP_COPY && op->copy.rows <= 1) {
        add_use(u, op->copy.dst, op->copy.bytes, true, true);
        add_use(u, op->copy.src, op->copy.bytes, false, true);
    } else if (op->kind == SG_OP_SET && !op->set.row) {
        add_use(u, op->set.dst, op->set.count * op->set.width, true, true);
    }
}

static bool overlaps(const use_t *u, CUdeviceptr at, size_t bytes)
{
    return u->at < at + bytes && at < u->at + u->bytes;
}

static const char *name_of(const sg_op_t *op)
{
    return op->kind == SG_OP_KERNEL ? op->kernel.function->kernel->name
           : op->kind == SG_OP_COPY ? "a copy"
                                    : "a memset";
}

/* ---- aliases ---- */

/* Whether two uses of one handle must not run side by side. */
static bool collide(const touch_t *a, const touch_t *b)
{
    return a->handle == b->handle && a->mapping != b->mapping && a->from < b->to && b->from < a->to &&
           (a->exact || b->exact) &&                           /* not two kernels */
           ((a->write && a->exact) || (b->write && b->exact)); /* what is known to be written */
}

static void check_aliases(const touch_t *mine)
{
    for (const touch_t *t = order.touches; t; t = t->next) {
        if (!collide(t, mine) || !unordered(mine->stream, t->stream, t->number))
            continue;
        sg_broken(
            SG_RULE_ALIAS_ORDER, CUDA_ERROR_LAUNCH_FAILED,
            "%s and %s use the same memory at 0x%llx and 0x%llx, in streams that do not wait for one another",
            name_of(t->op), name_of(mine->op), t->mapping + t->from, mine->mapping + mine->from);
        sg_set_sticky_in(mine->stream->ctx, CUDA_ERROR_LAUNCH_FAILED, "unordered use of two aliases");
        return;
    }
}

static void add_touch(sg_op_t *op, touch_t touch)
{
    touch_t *t = malloc(sizeof *t);
    if (!t)
        return; /* a race may go unnoticed */
    *t = touch;
    t->next_of_op = op->touches;
    op->touches = t;
    t->next = order.touches;
    order.touches = t;
}

/* Notes where an op uses handles with several mappings (`only`: this one); compares with others if `check`. */
static void touch_aliases(sg_op_t *op, const sg_stream_t *s, uint64_t number, const sg_handle_t *only,
                          bool check)
{
    uses_t uses;
    find_uses(&uses, op);
    for (unsigned i = 0; i < uses.count; i++) {
        const use_t *u = &uses.use[i];
        sg_extent_t e;
        for (CUdeviceptr at = u->at; at < u->at + u->bytes && sg_extent_find_locked(at, &e);
             at = e.base + e.bytes) {
            if (e.managed_by_heap)
                break;
            if (e.handle->mapped < 2 || (only && e.handle != only))
                continue;
            CUdeviceptr end = e.base + e.bytes < u->at + u->bytes ? e.base + e.bytes : u->at + u->bytes;
            touch_t t = {.op = op,
                         .stream = s,
                         .number = number,
                         .handle = e.handle,
                         .mapping = e.base,
                         .from = at - e.base,
                         .to = end - e.base,
                         .write = u->write,
                         .exact = u->exact};
            if (check)
                check_aliases(&t);
            add_touch(op, t);
        }
    }
}

void sg_order_forget_locked(sg_op_t *op)
{
    while (op->touches) {
        touch_t *mine = op->touches;
        touch_t **link = &order.touches;
        while (*link != mine)
            link = &(*link)->next;
        *link = mine->next;
        op->touches = mine->next_of_op;
        free(mine);
    }
}

static void touch_queued(sg_op_t *op, void *handle)
{
    if (sg_op_is_work(op))
        touch_aliases(op, op->stream, op->number, handle, false);
}

void sg_order_mapped_locked(sg_handle_t *handle)
{
    if (++handle->mapped == 2 && sg_rule_on(SG_RULE_ALIAS_ORDER)) {
        order.aliased++;
        sg_each_queued_locked(touch_queued, handle); /* ops that used it while it had one address */
    }
}

void sg_order_unmapped_locked(sg_handle_t *handle)
{
    if (handle->mapped-- == 2 && order.aliased)
        order.aliased--;
}

/* ---- allocations in stream order ---- */

void sg_order_allocated_locked(CUdeviceptr base, size_t bytes, const sg_stream_t *s)
{
    if (!sg_rule_on(SG_RULE_ALLOC_ORDER) || atomic_load(&s->completed) >= s->submitted)
        return;
    pending_t *p = malloc(sizeof *p);
    if (!p)
        return;
    *p = (pending_t){base, bytes, s->id, s->submitted, order.pending};
    order.pending = p;
}

static void check_pending(const sg_op_t *op, sg_stream_t *s)
{
    uses_t uses;
    uses.count = 0;
    bool known = false;
    for (pending_t **link = &order.pending, *p; (p = *link);) {
        const sg_stream_t *from = sg_stream_by_id_locked(p->stream_id);
        sg_extent_t e;
        if (!from || atomic_load(&from->completed) >= p->number || !sg_extent_find_locked(p->base, &e) ||
            e.base != p->base) {
            *link = p->next;
            free(p);
            continue;
        }
        link = &p->next;
        if (!unordered(s, from, p->number))
            continue;
        if (!known)
            find_uses(&uses, op);
        known = true;
        for (unsigned i = 0; i < uses.count; i++)
            if (overlaps(&uses.use[i], p->base, p->bytes)) {
                sg_broken(
                    SG_RULE_ALLOC_ORDER, CUDA_ERROR_LAUNCH_FAILED,
                    "%s uses 0x%llx, which is allocated later, on a stream that its own does not wait for",
                    name_of(op), p->base);
                sg_set_sticky_in(s->ctx, CUDA_ERROR_LAUNCH_FAILED, "use before allocation");
                return;
            }
    }
}

/* What is being freed, unmapped, and by whom. */
typedef struct range {
    CUdeviceptr base;
    size_t bytes;
    const sg_stream_t *stream; /* NULL: the host */
    const sg_op_t *found;
} range_t;

static void find_user(sg_op_t *op, void *argument)
{
    range_t *r = argument;
    bool beside = r->stream ? unordered(r->stream, op->stream, op->number) : op->kind != SG_OP_KERNEL;
    if (r->found || !sg_op_is_work(op) || !beside)
        return;
    uses_t uses;
    find_uses(&uses, op);
    for (unsigned i = 0; i < uses.count; i++)
        if (overlaps(&uses.use[i], r->base, r->bytes))
            r->found = op;
}

void sg_order_freed_locked(CUdeviceptr base, size_t bytes, const sg_stream_t *s)
{
    range_t r = {.base = base, .bytes = bytes, .stream = s};
    if (!sg_rule_on(SG_RULE_FREE_ORDER))
        return;
    sg_each_queued_locked(find_user, &r);
    if (!r.found)
        return;
    sg_broken(SG_RULE_FREE_ORDER, CUDA_ERROR_LAUNCH_FAILED,
              "0x%llx is freed while %s uses it in a stream that the freeing one does not wait for", base,
              name_of(r.found));
    sg_set_sticky_in(s->ctx, CUDA_ERROR_LAUNCH_FAILED, "memory freed under an operation in another stream");
}

void sg_order_unmapping_locked(CUdeviceptr base, size_t bytes)
{
    range_t r = {.base = base, .bytes = bytes};
    if (!sg_rule_on(SG_RULE_UNMAP_BUSY))
        return;
    sg_each_queued_locked(find_user, &r);
    if (!r.found)
        return;
    sg_broken(SG_RULE_UNMAP_BUSY, CUDA_ERROR_ILLEGAL_ADDRESS,
              "0x%llx is unmapped while %s there has not finished", base, name_of(r.found));
    sg_set_sticky_in(r.found->stream->ctx, CUDA_ERROR_ILLEGAL_ADDRESS, "memory unmapped under an operation");
}

/* ---- the one call for a new op ---- */

void sg_order_check_locked(sg_stream_t *s, sg_op_t *op)
{
    if (op->kind == SG_OP_WAIT && !op->wait.stream)
        s->untracked = true;
    if (!sg_op_is_work(op))
        return;
    if (op->kind == SG_OP_KERNEL)
        op->kernel.ends = ends_of(op);
    if (order.pending)
        check_pending(op, s);
    if (order.aliased)
        touch_aliases(op, s, s->submitted + 1, NULL, true);
}

/* check.c: checked mode: what an access leads to; see shadow.h. */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/rules.h"
#include "softgpu/driver/simt/shadow.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A worker's view of the launch that it runs. */
struct sg_check {
    const sg_op_t *op;
    sg_watch_t *watch;
    const softgpu_entry_t *entry; /* for which the following holds */
    const sg_symbols_t *symbols;
    char *area; /* shared memory */
    size_t area_bytes;
    const sg_live_t *last; /* found last */
    const sg_shared_symbol_t *last_shared;
    uintptr_t last_host;            /* a page of host memory that kernels may touch; 0: none */
    const sg_symbols_t *sorted_for; /* `foreign` is of this library and */
    CUfunction function;            /* this kernel: */
    signed char
        *foreign; /* owns: for each shared variable 1 if it is another kernel's, 0 if not, -1 unknown */
};

void sg_check_begin(const sg_op_t *op)
{
    static _Thread_local struct sg_check *own; /* kept for ever */
    if (!own && !(own = calloc(1, sizeof *own)))
        return;
    *own = (struct sg_check){.op = op,
                             .watch = op->watch,
                             .sorted_for = own->sorted_for,
                             .function = own->function,
                             .foreign = own->foreign};
    sg_run.check = own;
    sg_run.checked = op->watch != NULL;
    uint64_t not_yet = 0;
    if (op->watch)
        atomic_compare_exchange_strong(&op->watch->began, &not_yet, sg_written_now() + 1);
}

/* ---- reports ---- */

void sg_check_report(int rule, CUresult error, const char *format, ...)
{
    char text[400];
    if (!sg_rule_on((sg_rule_t)rule))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sg_run_fail(error, sg_run.place, "rule %s: %s", sg_rule_name((sg_rule_t)rule), text);
}

void sg_check_lane(uint32_t lane, softgpu_place_t place)
{
    sg_run.lane = lane;
    sg_run.place = place;
}

void sg_check_met(uint32_t lanes)
{
    sg_check_settle();
    sg_check_group(sg_run.block, sg_run.fiber->index, lanes);
}

void sg_check_order(const void *at)
{
    sg_check_settle();
    sg_check_sync(at, true, true);
}

static bool writes(softgpu_access_t how)
{
    return how != SOFTGPU_READ && how != SOFTGPU_VOLATILE_READ;
}

static bool reads(softgpu_access_t how)
{
    return how != SOFTGPU_WRITE && how != SOFTGPU_VOLATILE_WRITE;
}

static const char *verb(softgpu_access_t how)
{
    return how == SOFTGPU_ATOMIC ? "changes" : writes(how) ? "writes" : "reads";
}

/* ---- shared memory ---- */

static void know_library(struct sg_check *c)
{
    c->entry = sg_run.entry;
    c->symbols = sg_symbols_of((const void *)sg_run.entry->thread_main);
    sg_run_shared_area(&c->area, &c->area_bytes);
}

static const sg_shared_symbol_t *find_shared(struct sg_check *c, size_t offset)
{
    const sg_symbols_t *s = c->symbols;
    if (c->last_shared && offset - c->last_shared->offset < c->last_shared->bytes)
        return c->last_shared;
    uint32_t low = 0, high = s->count;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (s->shared[mid].offset <= offset)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? &s->shared[low - 1] : NULL;
}

/* Shared variables of other kernels lie beside those of this one. */
static bool is_foreign(const sg_shared_symbol_t *s)
{
    const CUfunction f = sg_run.function;
    if (sg_symbol_is_of(s, f->kernel->name))
        return false;
    for (uint32_t i = 0; i < f->module->kernel_count; i++)
        if (sg_symbol_is_of(s, f->module->functions[i].kernel->name))
            return true;
    return false;
}

static bool of_another_kernel(struct sg_check *c, const sg_shared_symbol_t *s)
{
    if (c->function != sg_run.function || c->sorted_for != c->symbols) {
        free(c->foreign);
        c->foreign = malloc(c->symbols->count);
        if (c->foreign)
            memset(c->foreign, -1, c->symbols->count);
        c->function = sg_run.function;
        c->sorted_for = c->symbols;
    }
    if (!c->foreign)
        return false;
    signed char *known = &c->foreign[s - c->symbols->shared];
    if (*known < 0)
        *known = is_foreign(s);
    return *known;
}

static void check_shared(struct sg_check *c, const char *at, size_t bytes, softgpu_access_t how)
{
    const size_t offset = (size_t)(at - c->area);
    if (!c->symbols)
        return;
    if (c->symbols->dynamic != SIZE_MAX && offset - c->symbols->dynamic < SOFTGPU_DYNAMIC_SHARED_BYTES) {
        const size_t inside = offset - c->symbols->dynamic, size = sg_run.launch->dynamic_shared_bytes;
        if (inside + bytes > size) {
            sg_check_report(SG_RULE_BOUNDS, CUDA_ERROR_ILLEGAL_ADDRESS,
                            "%s %zu bytes at offset %zu of dynamic shared memory, of which there are %zu",
                            verb(how), bytes, inside, size);
            return;
        }
        sg_check_shared(offset, bytes, how, at, "memory");
        return;
    }
    const sg_shared_symbol_t *s = find_shared(c, offset);
    while (s && s != c->last_shared && of_another_kernel(c, s))
        s = s > c->symbols->shared ? s - 1 : NULL;
    if (!s || offset + bytes > s->offset + s->bytes) {
        sg_check_report(SG_RULE_BOUNDS, CUDA_ERROR_ILLEGAL_ADDRESS,
                        "%s %zu bytes at %p, at offset %zu of shared %s, which has %zu", verb(how), bytes,
                        (const void *)at, s ? offset - s->offset : offset, s ? s->name : "memory",
                        s ? s->bytes : 0);
        return;
    }
    c->last_shared = s;
    sg_check_shared(offset, bytes, how, at, s->name);
}

/* ---- everything else ---- */

static bool is_host_memory(struct sg_check *c, const void *at, size_t bytes)
{
    const uintptr_t page = (uintptr_t)at >> 12;
    if (page == c->last_host && ((uintptr_t)at + bytes - 1) >> 12 == page)
        return true;
    sg_extent_t extent;
    sg_lock();
    bool allowed = sg_host_is_pinned_locked(at, bytes);
    const bool whole = allowed && sg_host_is_pinned_locked((const void *)(page << 12), 4096);
    /* What the live list does not know of: another kind of allocation. */
    if (!allowed)
        allowed = sg_extent_find_locked((CUdeviceptr)(uintptr_t)at, &extent) &&
                  (uintptr_t)at + bytes <= extent.base + extent.bytes && !sg_live_knows(extent.base);
    sg_unlock();
    if (whole)
        c->last_host = page;
    return allowed;
}

/* Of which thread of the running block it is a local variable; NULL: of none. */
static const sg_fiber_t *whose_memory(const char *at)
{
    const sg_block_t *b = sg_run.block;
    const sg_fiber_t *owner = sg_coroutine_owner(at);
    if (owner)
        return owner;
    for (uint32_t i = 0; i < b->warps; i++)
        if ((size_t)(at - b->fibers[i].stack) < SG_FIBER_STACK_BYTES)
            return &b->fibers[i];
    return NULL;
}

/* `address`: the device's, where it differs from what the kernel uses. */
static void report_nowhere(struct sg_check *c, const char *at, CUdeviceptr address, size_t bytes,
                           softgpu_access_t how)
{
    char what[200] = "no buffer is near";
    const sg_fiber_t *f = whose_memory(at);
    CUdeviceptr base;
    size_t size;
    const sg_live_list_t *live = c->watch->live;
    uint32_t i = 0;
    while (i < live->count && live->entry[i].base <= address)
        i++;
    const sg_live_t *below = i ? &live->entry[i - 1] : NULL, *next = i < live->count ? &live->entry[i] : NULL;
    const CUdeviceptr behind = below ? address - below->base - below->bytes : 0;
    if (f)
        snprintf(what, sizeof what, "a local variable of warp %u", f->index);
    else if (sg_live_was(address, &base, &size))
        snprintf(what, sizeof what, "at offset %llu of a buffer of %zu bytes at 0x%llx, which has been freed",
                 (unsigned long long)(address - base), size, base);
    else if (!sg_window_contains(address))
        snprintf(what, sizeof what, "host memory that is not pinned");
    else if (next && (!below || next->base - address < behind))
        snprintf(what, sizeof what, "%llu bytes before a buffer of %zu bytes at 0x%llx", next->base - address,
                 next->bytes, next->base);
    else if (below)
        snprintf(what, sizeof what, "%llu bytes behind the end of a buffer of %zu bytes at 0x%llx", behind,
                 below->bytes, below->base);
    sg_check_report(SG_RULE_BOUNDS, CUDA_ERROR_ILLEGAL_ADDRESS, "%s %zu bytes at %p: %s", verb(how), bytes,
                    (const void *)at, what);
}

/* A grid that was there before a write by other addresses does not see it, however late it reads: CUDA's programming guide, virtual
 * aliasing support. (In a grid fence.proxy.alias would help: it is not known here.) */
static void check_alias(struct sg_check *c, const sg_live_t *e, size_t offset, size_t bytes)
{
    const CUdeviceptr through = sg_written_through(e, offset, bytes, atomic_load(&c->watch->began) - 1);
    if (through)
        sg_check_report(
            SG_RULE_ALIAS_ORDER, CUDA_ERROR_LAUNCH_FAILED,
            "reads %zu bytes at offset %zu of the mapping at 0x%llx, which have been written by the one "
            "at 0x%llx since the grid began",
            bytes, offset, e->base, through);
}

static void check_buffer(struct sg_check *c, const sg_live_t *e, CUdeviceptr address, size_t bytes,
                         softgpu_access_t how)
{
    const size_t offset = address - e->base;
    if (offset + bytes > e->bytes) {
        sg_check_report(SG_RULE_BOUNDS, CUDA_ERROR_ILLEGAL_ADDRESS,
                        "%s %zu bytes at offset %zu of a buffer of %zu bytes at 0x%llx, beyond its end",
                        verb(how), bytes, offset, e->bytes, e->base);
        return;
    }
    const CUmemAccess_flags rights = e->mapped ? sg_access_flags(&e->access, c->op->stream->ctx->device)
                                               : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (rights == CU_MEM_ACCESS_FLAGS_PROT_NONE || (rights == CU_MEM_ACCESS_FLAGS_PROT_READ && writes(how))) {
        sg_check_report(SG_RULE_BOUNDS, CUDA_ERROR_ILLEGAL_ADDRESS,
                        "%s %zu bytes at offset %zu of a mapping of %zu bytes at 0x%llx, whose access rights "
                        "do not allow it",
                        verb(how), bytes, offset, e->bytes, e->base);
        return;
    }
    if (e->valid && reads(how) &&
        !sg_valid_any(e->valid, offset, bytes)) /* any byte of it, as of shared memory */
        sg_check_report(
            SG_RULE_UNINITIALISED, CUDA_ERROR_LAUNCH_FAILED,
            "reads %zu bytes at offset %zu of a buffer of %zu bytes at 0x%llx, which nothing has written",
            bytes, offset, e->bytes, e->base);
    if (reads(how)) {
        check_alias(c, e, offset, bytes);
        sg_watch_touch(c->watch, e, offset, bytes, false);
    }
    if (writes(how)) {
        sg_written_note(e, offset, bytes);
        sg_watch_touch(c->watch, e, offset, bytes, true);
        if (e->valid)
            sg_valid_set(e->valid, offset, bytes);
    }
}

static void check_global(struct sg_check *c, const char *at, size_t bytes, softgpu_access_t how)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)at;
    const sg_symbols_t *s = c->symbols;
    const softgpu_launch_t *l = sg_run.launch;
    const bool in_image = s && at >= s->image_begin && at < s->image_end;
    const CUdeviceptr variable =
        sg_window_contains(address) ? 0 : sg_variables_address(sg_run.function->module->variables, at);
    if (variable)
        address = variable;
    else if (in_image) /* a constant of the host compiler's */
        return;
    const sg_live_t *e =
        c->last && address - c->last->base < c->last->bytes ? c->last : sg_live_find(c->watch->live, address);
    if (e) {
        c->last = e;
        check_buffer(c, e, address, bytes, how);
        return;
    }
    if (!writes(how) && ((size_t)(at - (const char *)l->params) < sg_run.function->param_bytes ||
                         (size_t)(at - (const char *)l) < sizeof *l))
        return;
    if (variable || !is_host_memory(c, at, bytes))
        report_nowhere(c, at, address, bytes, how);
}

void sg_check_access(const void *where, size_t bytes, softgpu_access_t how)
{
    const sg_fiber_t *f = sg_run.fiber;
    struct sg_check *c = sg_run.check;
    const char *at = where;
    if (!f || !sg_run.checked || !bytes || (size_t)(at - f->stack) < SG_FIBER_STACK_BYTES ||
        sg_coroutine_owner(at) == f)
        return;
    sg_check_settle();
    if (c->entry != sg_run.entry)
        know_library(c);
    const bool structure = how == SOFTGPU_READ_STRUCT || how == SOFTGPU_WRITE_STRUCT;
    how = how == SOFTGPU_READ_STRUCT ? SOFTGPU_READ : how == SOFTGPU_WRITE_STRUCT ? SOFTGPU_WRITE : how;
    if (!structure && (bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16) && (uintptr_t)at % bytes) {
        sg_run_fail(CUDA_ERROR_MISALIGNED_ADDRESS, sg_run.place, "%s %zu bytes at %p", verb(how), bytes,
                    where);
        return;
    }
    if (how != SOFTGPU_READ && how != SOFTGPU_WRITE)
        sg_check_sync(where, reads(how), writes(how));
    if ((size_t)(at - c->area) < c->area_bytes)
        check_shared(c, at, bytes, how);
    else
        check_global(c, at, bytes, how);
}

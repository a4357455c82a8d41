/* variables.c: __device__ and __constant__ variables.
 *
 * A module's variables have device memory like any other allocation, at a device address, which is what cuModuleGetGlobal
 * gives. Kernels, however, were compiled with the variables of their own library, whose linker script has put those into
 * pages of their own (softgpu_unit_t). The same memory is mapped there, over the library's pages, and over those of each library that
 * PTX is compiled to, which are laid out alike. So a kernel that takes a variable's address gets another one than the host does; both
 * lead to the same bytes. A variable that only PTX has (a text, a function's static one) is its library's own.
 *
 * Modules of a context share chunks, page by page. No document says how a driver does that, but it does: a program whose thousands of
 * kernels are all loaded takes some hundred MiB, the context among them (PyTorch's, 667 MB: pytorch/pytorch 86509).
 *
 * Nothing else may be in those pages, and the variables must lie at the same offsets in all of these libraries: that is checked, and
 * where it does not hold loading fails.
 */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/simt/shadow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A unit's pages. */
typedef struct piece {
    uint32_t unit;
    size_t offset, bytes; /* in the module's variables */
} piece_t;

/* Pages of an instance over which device memory is mapped. */
typedef struct attachment {
    char *at;
    size_t offset, bytes;
    char *image; /* owns: what was there */
    struct attachment *next, *next_of_all;
} attachment_t;

typedef struct variable {
    const char *name; /* borrowed of the table, which stays */
    size_t offset, bytes;
} variable_t;

/* Device memory for variables of modules of one context; gone with the last of them. */
typedef struct segment {
    sg_range_t *range;
    sg_handle_t *handle;
    CUcontext ctx; /* NULL: of libraries */
    sg_variables_t *users;
    struct segment *next;
    bool taken[]; /* pages */
} segment_t;

enum { PAGE_BYTES = 4096 };

struct sg_variables {
    segment_t *segment;
    size_t offset, bytes; /* there: whole pages */
    piece_t *pieces;
    variable_t *variables;
    uint32_t piece_count, count;
    attachment_t *attachments;
    sg_variables_t *next; /* of the segment */
};

/* All; guarded by sg.lock. */
static attachment_t *attached;
static segment_t *segments;

static bool has_unit(const sg_module_t *m, const softgpu_kernel_table_t *t, uint32_t unit)
{
    return (m->unit == SG_ALL_UNITS || m->unit == unit) && t->units[unit].end > t->units[unit].begin;
}

/* Returns their bytes. */
static size_t collect_pieces(sg_module_t *m, const softgpu_kernel_table_t *t, sg_variables_t *v)
{
    size_t offset = 0;
    for (uint32_t u = 0; u < t->unit_count; u++) {
        const softgpu_unit_t *unit = &t->units[u];
        if (!has_unit(m, t, u))
            continue;
        const size_t bytes = (size_t)(unit->end - unit->begin);
        v->pieces[v->piece_count++] = (piece_t){u, offset, bytes};
        for (uint32_t i = 0; i < unit->variable_count; i++)
            v->variables[v->count++] = (variable_t){
                unit->variables[i].name, offset + (size_t)((char *)unit->variables[i].storage - unit->begin),
                unit->variables[i].bytes};
        offset += bytes;
    }
    return offset;
}

/* ---- device memory ---- */

static void segment_free(segment_t *s)
{
    if (s->range) {
        sg_phys_unmap(s->range->base, s->range->bytes);
        sg_window_free_locked(s->range);
    }
    if (s->handle)
        sg_phys_unref_locked(s->handle);
    free(s);
}

static CUresult segment_new(CUcontext ctx, unsigned device, size_t bytes, segment_t **out)
{
    bytes = SG_ROUND_UP(bytes, SG_CHUNK_BYTES);
    segment_t *s = calloc(1, sizeof *s + bytes / PAGE_BYTES * sizeof s->taken[0]);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const sg_access_t access = sg_access_of_device(device);
    s->ctx = ctx;
    s->handle = sg_phys_create_locked(device, bytes);
    s->range = s->handle ? sg_window_reserve_locked(bytes, 0, 0, SG_RANGE_MODULE) : NULL;
    CUresult result = s->range ? sg_phys_map(s->range->base, s->handle) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        result = sg_phys_protect_locked(s->range->base, bytes, &access);
    if (result) {
        segment_free(s);
        return result;
    }
    s->range->segment = s;
    s->next = segments;
    segments = s;
    *out = s;
    return CUDA_SUCCESS;
}

/* The lowest run of so many free pages. */
static bool find_pages(const segment_t *s, size_t pages, size_t *first)
{
    size_t run = 0;
    for (size_t i = 0; i < s->handle->bytes / PAGE_BYTES && run < pages; i++) {
        run = s->taken[i] ? 0 : run + 1;
        *first = i + 1 - run;
    }
    return run == pages;
}

static CUresult take_memory(sg_variables_t *v, CUcontext ctx, unsigned device)
{
    const size_t pages = v->bytes / PAGE_BYTES;
    size_t first = 0;
    CUresult result = CUDA_SUCCESS;
    sg_lock();
    segment_t *s = segments;
    while (s && (s->ctx != ctx || s->handle->device != device || !find_pages(s, pages, &first)))
        s = s->next;
    if (!s) {
        first = 0;
        result = segment_new(ctx, device, v->bytes, &s);
    }
    if (!result) {
        memset(s->taken + first, true, pages);
        v->segment = s;
        v->offset = first * PAGE_BYTES;
        v->next = s->users;
        s->users = v;
    }
    sg_unlock();
    return result;
}

static void give_back_memory(sg_variables_t *v)
{
    segment_t *s = v->segment;
    sg_variables_t **user = &s->users;
    while (*user != v)
        user = &(*user)->next;
    *user = v->next;
    memset(s->taken + v->offset / PAGE_BYTES, false, v->bytes / PAGE_BYTES);
    if (s->users)
        return;
    segment_t **link = &segments;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    segment_free(s);
}

static CUdeviceptr base_of(const sg_variables_t *v)
{
    return v->segment->range->base + v->offset;
}

CUresult sg_variables_create(sg_module_t *m, unsigned device)
{
    const softgpu_kernel_table_t *t = m->table;
    uint32_t variables = 0, pieces = 0;
    for (uint32_t u = 0; u < t->unit_count; u++)
        if (has_unit(m, t, u)) {
            variables += t->units[u].variable_count;
            pieces++;
        }
    if (!pieces)
        return CUDA_SUCCESS;
    sg_variables_t *v = calloc(1, sizeof *v);
    if (!v)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->variables = v;
    v->pieces = calloc(pieces, sizeof *v->pieces);
    v->variables = calloc(variables ? variables : 1, sizeof *v->variables);
    if (!v->pieces || !v->variables)
        return CUDA_ERROR_OUT_OF_MEMORY;
    v->bytes = SG_ROUND_UP(collect_pieces(m, t, v), PAGE_BYTES);
    SG_TRY(take_memory(v, m->ctx, device));
    for (uint32_t i = 0; i < v->count; i++)
        sg_live_add_valid(base_of(v) + v->variables[i].offset, v->variables[i].bytes);
    SG_TRY(sg_variables_attach(m, SG_ALL_UNITS, &m->table));
    for (const attachment_t *a = v->attachments; a; a = a->next)
        if (!sg_phys_write(v->segment->handle, v->offset + a->offset, a->image, a->bytes))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

/* ---- instances ---- */

/* The piece's unit in a table of all units, or of that `unit` alone; NULL: it has none of it. */
static const softgpu_unit_t *unit_in(const softgpu_kernel_table_t *t, uint32_t unit, const piece_t *piece)
{
    const uint32_t at = unit == SG_ALL_UNITS ? piece->unit : 0;
    const bool there = (unit == SG_ALL_UNITS || unit == piece->unit) && at < t->unit_count;
    return there && t->units[at].end > t->units[at].begin ? &t->units[at] : NULL;
}

static bool in_use(const sg_variables_t *v, uint32_t unit, const softgpu_kernel_table_t *t)
{
    bool found = false;
    sg_lock();
    for (const attachment_t *a = attached; a; a = a->next_of_all)
        for (uint32_t i = 0; i < v->piece_count; i++) {
            const softgpu_unit_t *of = unit_in(t, unit, &v->pieces[i]);
            found = found || (of && a->at == of->begin);
        }
    sg_unlock();
    return found;
}

static bool is_at(const sg_variables_t *v, size_t offset, const softgpu_variable_t *variable)
{
    for (uint32_t i = 0; i < v->count; i++)
        if (v->variables[i].offset == offset)
            return v->variables[i].bytes == variable->bytes &&
                   sg_names_match(v->variables[i].name, variable->name);
    return false;
}

/* The same variables at the same offsets as where the device memory was laid out? */
static bool fits(const sg_variables_t *v, uint32_t unit, const softgpu_kernel_table_t *t)
{
    for (uint32_t i = 0; i < v->piece_count; i++) {
        const softgpu_unit_t *of = unit_in(t, unit, &v->pieces[i]);
        if (of && (size_t)(of->end - of->begin) != v->pieces[i].bytes)
            return false;
        for (uint32_t k = 0; of && k < of->variable_count; k++)
            if (!is_at(v, v->pieces[i].offset + (size_t)((char *)of->variables[k].storage - of->begin),
                       &of->variables[k]))
                return false;
    }
    return true;
}

static CUresult attach_piece(sg_variables_t *v, const piece_t *piece, const softgpu_unit_t *unit)
{
    attachment_t *a = calloc(1, sizeof *a);
    if (!a || !(a->image = malloc(piece->bytes))) {
        free(a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    a->at = unit->begin;
    a->offset = piece->offset;
    a->bytes = piece->bytes;
    memcpy(a->image, a->at, a->bytes);
    sg_lock();
    CUresult result = sg_phys_alias_locked(a->at, v->segment->handle, v->offset + a->offset, a->bytes);
    if (!result) {
        a->next = v->attachments;
        v->attachments = a;
        a->next_of_all = attached;
        attached = a;
    }
    sg_unlock();
    if (result) {
        free(a->image);
        free(a);
    }
    return result;
}

CUresult sg_variables_attach(sg_module_t *m, uint32_t unit, const softgpu_kernel_table_t **table)
{
    sg_variables_t *v = m->variables;
    if (!v)
        return CUDA_SUCCESS;
    if (in_use(v, unit, *table)) {
        const softgpu_kernel_table_t *again = sg_library_again(*table);
        if (!again)
            return CUDA_ERROR_OUT_OF_MEMORY;
        *table = again;
    }
    if (!fits(v, unit, *table)) {
        sg_log(1, "%s: its variables lie differently in its kernel libraries; rebuild them", m->origin);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    for (uint32_t i = 0; i < v->piece_count; i++) {
        const softgpu_unit_t *of = unit_in(*table, unit, &v->pieces[i]);
        if (of)
            SG_TRY(attach_piece(v, &v->pieces[i], of));
    }
    return CUDA_SUCCESS;
}

sg_ptx_layout_t *sg_variables_layout(const softgpu_unit_t *unit, const sg_ptx_module_t *ptx)
{
    sg_ptx_layout_t *layout = calloc(1, sizeof *layout + unit->variable_count * sizeof *layout->at);
    if (!layout)
        return NULL;
    layout->bytes = (size_t)(unit->end - unit->begin);
    for (uint32_t i = 0; i < unit->variable_count; i++) /* by offset, as the linker's script has them */
        for (uint32_t k = 0; k < ptx->variable_count; k++) {
            if (!sg_names_match(ptx->variables[k]->name, unit->variables[i].name))
                continue;
            layout->at[layout->count].variable = ptx->variables[k];
            layout->at[layout->count++].offset_bytes =
                (size_t)((char *)unit->variables[i].storage - unit->begin);
            break;
        }
    return layout;
}

/* The library as it was loaded: it may be used again. */
static void detach_locked(attachment_t *a)
{
    attachment_t **link = &attached;
    while (*link != a)
        link = &(*link)->next_of_all;
    *link = a->next_of_all;
    if (mmap(a->at, a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        a->at)
        memcpy(a->at, a->image, a->bytes);
    else
        sg_log(1, "out of mappings: the variables at %p are lost", (void *)a->at);
    free(a->image);
    free(a);
}

void sg_variables_free_locked(sg_variables_t *v)
{
    if (!v)
        return;
    for (attachment_t *a = v->attachments, *next; a; a = next) {
        next = a->next;
        detach_locked(a);
    }
    if (v->segment) {
        sg_live_remove(base_of(v), v->bytes);
        give_back_memory(v);
    }
    free(v->pieces);
    free(v->variables);
    free(v);
}

/* ---- where they are ---- */

bool sg_variable_find(const sg_variables_t *v, const char *name, CUdeviceptr *address, size_t *bytes)
{
    for (uint32_t i = 0; v && i < v->count; i++)
        if (sg_names_match(v->variables[i].name, name)) {
            *address = base_of(v) + v->variables[i].offset;
            *bytes = v->variables[i].bytes;
            return true;
        }
    return false;
}

bool sg_variables_extent_locked(const void *segment, CUdeviceptr address, sg_extent_t *out)
{
    const segment_t *s = segment;
    const sg_variables_t *v = s->users;
    while (v && address - base_of(v) >= v->bytes)
        v = v->next;
    for (uint32_t i = 0; v && i < v->count; i++)
        if (address - base_of(v) - v->variables[i].offset < v->variables[i].bytes) {
            *out = (sg_extent_t){.base = base_of(v) + v->variables[i].offset,
                                 .bytes = v->variables[i].bytes,
                                 .handle = s->handle,
                                 .range = s->range,
                                 .access = sg_access_of_device(s->handle->device),
                                 .device = s->handle->device,
                                 .managed_by_heap = true};
            return true;
        }
    return false;
}

CUdeviceptr sg_variables_address(const sg_variables_t *v, const void *at)
{
    for (const attachment_t *a = v ? v->attachments : NULL; a; a = a->next)
        if ((size_t)((const char *)at - a->at) < a->bytes)
            return base_of(v) + a->offset + (size_t)((const char *)at - a->at);
    return 0;
}

/* block.c: a block of SIMT mode from its first warp to its last, and its barrier; see simt.h. */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/rules.h"
#include "softgpu/driver/simt/shadow.h"
#include "softgpu/driver/simt/simt.h"

#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local sg_run_t sg_run SG_FAST_TLS;

/* ---- which fiber runs ---- */

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d) >> 32;
}

static uint32_t nth_bit(uint32_t bits, uint32_t n)
{
    while (n--)
        bits &= bits - 1;
    return (uint32_t)__builtin_ctz(bits);
}

/* The next one in a circle after the one that ran last, or any. NULL: none can run. */
static sg_fiber_t *pick(sg_block_t *b)
{
    if (!b->ready)
        return NULL;
    const uint32_t later = b->cursor + 1 < SG_MAX_WARPS ? b->ready & ~0u << (b->cursor + 1) : 0;
    return &b->fibers[b->random ? nth_bit(b->ready, (uint32_t)(draw(&b->random) %
                                                               (uint32_t)__builtin_popcount(b->ready)))
                                : (uint32_t)__builtin_ctz(later ? later : b->ready)];
}

static void resume(sg_context_t *from, sg_fiber_t *f)
{
    sg_run.fiber = f;
    sg_run.block->cursor = f->index;
    *sg_run.entry->self = &f->thread;
    sg_context_switch(from, &f->context);
}

static void to_worker(sg_fiber_t *from)
{
    sg_run.fiber = NULL;
    sg_context_switch(&from->context, &sg_run.worker);
}

/* The running fiber stops here; comes back when it is picked again. */
static void leave(sg_fiber_t *self)
{
    sg_block_t *b = sg_run.block;
    if (sg_run.checked)
        sg_check_settle();
    sg_fiber_t *next = pick(b);
    if (next == self)
        return;
    if (next)
        resume(&self->context, next);
    else
        to_worker(self); /* the block is done, stuck, or waits for other blocks */
}

static void pause_fiber(void)
{
    sg_block_t *b = sg_run.block;
    sg_fiber_t *self = sg_run.fiber;
    if (sg_run.all && ++b->pauses > 4 * b->alive) { /* perhaps for another block */
        b->pauses = 0;
        to_worker(self);
        return;
    }
    leave(self);
}

/* ---- threads of the program ---- */

uint32_t sg_run_threads(void)
{
    const uint32_t *dim = sg_run.launch_copy.block;
    return dim[0] * dim[1] * dim[2];
}

uint32_t sg_run_thread(void)
{
    return sg_run.fiber->index * SG_WARP + sg_run.lane;
}

/* ---- failing ---- */

static void describe(char *out, size_t bytes, const sg_block_t *b, const sg_fiber_t *f)
{
    const char *name = sg_run.function ? sg_run.function->kernel->name : "?";
    const uint32_t *g = sg_run.launch->grid;
    const uint64_t n = b ? b->number : 0;
    int at = snprintf(out, bytes, "%s", name);
    if (b && (size_t)at < bytes)
        at += snprintf(out + at, bytes - (size_t)at, ", block (%u,%u,%u)", (unsigned)(n % g[0]),
                       (unsigned)(n / g[0] % g[1]), (unsigned)(n / g[0] / g[1]));
    if (!f || (size_t)at >= bytes)
        return;
    const uint32_t *dim = sg_run.launch_copy.block, i = sg_run_thread();
    if (sg_run.lane < SG_WARP)
        snprintf(out + at, bytes - (size_t)at, ", thread (%u,%u,%u)", i % dim[0], i / dim[0] % dim[1],
                 i / dim[0] / dim[1]);
    else
        snprintf(out + at, bytes - (size_t)at, ", warp %u", f->index);
}

void sg_run_describe(char *out, size_t bytes)
{
    *out = 0;
    if (sg_run.launch)
        describe(out, bytes, sg_run.block, sg_run.fiber);
}

void sg_run_fail(CUresult error, softgpu_place_t place, const char *format, ...)
{
    char who[256] = "", text[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sg_run_describe(who, sizeof who);
    if (place.file)
        sg_set_sticky(error, "%s: %s, at %s:%u", who, text, place.file, place.line);
    else
        sg_set_sticky(error, "%s: %s", who, text);
    sg_run.failed = true;
    if (sg_run.fiber)
        to_worker(sg_run.fiber);
}

static void free_all(void)
{
    for (uint64_t i = 0; sg_run.all && i < sg_run.blocks; i++) {
        for (uint32_t t = 0; sg_run.all[i].fibers && t < sg_run.all[i].warps; t++)
            free(sg_run.all[i].fibers[t].async);
        free(sg_run.all[i].fibers);
        free(sg_run.all[i].shared);
    }
    free(sg_run.all);
    sg_run.all = NULL;
}

void sg_run_abandon(void)
{
    free_all();
    sg_run.failed = true;
}

/* ---- the barrier of a block ---- */

static bool same_place(softgpu_place_t a, softgpu_place_t b)
{
    return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file));
}

/* All that are alive have come: on they go. */
static void open_barrier(sg_block_t *b)
{
    const sg_fiber_t *first = NULL;
    for (uint32_t i = 0; i < b->warps; i++) {
        sg_fiber_t *f = &b->fibers[i];
        if (f->wait != SG_BARRIER)
            continue;
        if (!first)
            first = f;
        else if (!same_place(first->place, f->place) && sg_rule_on(SG_RULE_BARRIER))
            sg_run_fail(CUDA_ERROR_LAUNCH_FAILED, f->place,
                        "rule divergent-barrier: warp %u is in this barrier, warp %u in the one at %s:%u",
                        f->index, first->index, first->place.file, first->place.line);
        f->wait = SG_RUNS;
        b->ready |= 1u << i;
    }
    b->at_barrier = 0;
    sg_check_barrier(b);
}

static void barrier(softgpu_place_t place)
{
    sg_block_t *b = sg_run.block;
    sg_fiber_t *self = sg_run.fiber;
    if (sg_run.checked)
        sg_check_settle();
    self->wait = SG_BARRIER;
    self->place = place;
    b->pauses = 0;
    if (++b->at_barrier == b->alive) {
        open_barrier(b);
        return;
    }
    b->ready &= ~(1u << self->index);
    leave(self);
}

/* ---- a warp's life ---- */

static void thread_main(void)
{
    sg_run.entry->thread_main(sg_run.launch);

    sg_block_t *b = sg_run.block;
    sg_fiber_t *self = sg_run.fiber;
    b->alive--;
    self->async_count = 0; /* never waited for: never there */
    self->wait = SG_EXITED;
    b->ready &= ~(1u << self->index);
    if (b->at_barrier && b->at_barrier == b->alive)
        open_barrier(b);
    leave(self);
    __builtin_unreachable();
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return z ? z : 1;
}

/* Fills the warps of a block in; `stacks`: the first of its stacks. */
static bool begin_block(sg_block_t *b, uint64_t number, uint32_t stacks)
{
    const softgpu_launch_t *l = sg_run.launch;
    sg_fiber_t *fibers = b->fibers;
    const uint32_t warps = l->block[0];
    char *shared = b->shared;
    *b = (sg_block_t){.number = number,
                      .warps = warps,
                      .alive = warps,
                      .ready = ~0u >> (SG_MAX_WARPS - warps),
                      .cursor = SG_MAX_WARPS - 1,
                      .random = sg_mode_seed() ? mix(sg_mode_seed(), number) : 0,
                      .fibers = fibers,
                      .shared = shared};
    for (uint32_t i = 0; i < warps; i++) {
        sg_fiber_t *f = &fibers[i];
        sg_async_t *async = f->async;
        const uint32_t capacity = f->async_capacity;
        char *stack = sg_stack(stacks + i);
        if (!stack)
            return false;
        memset(f, 0, sizeof *f);
        f->async = async;
        f->async_capacity = capacity;
        f->index = i;
        f->stack = stack;
        f->thread = (softgpu_thread_t){.thread = {i},
                                       .block = {(uint32_t)(number % l->grid[0]),
                                                 (uint32_t)(number / l->grid[0] % l->grid[1]),
                                                 (uint32_t)(number / l->grid[0] / l->grid[1])},
                                       .block_dim = {l->block[0], l->block[1], l->block[2]},
                                       .grid = {l->grid[0], l->grid[1], l->grid[2]}};
        sg_context_make(&f->context, f->stack, SG_FIBER_STACK_BYTES, thread_main);
    }
    return true;
}

/* Until the block is done, or none of its warps can run. */
static void go_on(sg_block_t *b)
{
    sg_run.block = b;
    sg_fiber_t *f = pick(b);
    if (f)
        resume(&sg_run.worker, f);
    sg_run.fiber = NULL;
}

static void stuck(const sg_block_t *b)
{
    const sg_fiber_t *f = b->fibers;
    while (f->wait == SG_EXITED)
        f++;
    if (!sg_run.failed)
        sg_run_fail(CUDA_ERROR_LAUNCH_FAILED, f->place,
                    "no warp can go on: %u have exited, %u wait in a barrier, warp %u in the one",
                    b->warps - b->alive, b->at_barrier, f->index);
}

static sg_fiber_t *new_fibers(uint32_t warps)
{
    return calloc(warps, sizeof(sg_fiber_t));
}

static void out_of_memory(void)
{
    sg_run_fail(CUDA_ERROR_OUT_OF_MEMORY, (softgpu_place_t){NULL, 0}, "no memory for the warps of a block");
}

static void run_one_by_one(uint64_t first, uint64_t count)
{
    static _Thread_local sg_block_t *own; /* kept for ever */
    sg_block_t *block = own;
    if (!block && (block = calloc(1, sizeof *block)) && !(block->fibers = new_fibers(SG_MAX_WARPS))) {
        free(block);
        block = NULL;
    }
    own = block;
    if (!block) {
        out_of_memory();
        return;
    }
    for (uint64_t n = first; n < first + count && !sg_run.failed; n++) {
        if (!begin_block(block, n, 0)) {
            out_of_memory();
            return;
        }
        sg_check_block_begin(block);
        go_on(block);
        if (block->alive)
            stuck(block);
        sg_check_block_end(block);
    }
}

/* ---- cooperative launches ---- */

/* The thread-local storage of the kernel library, which holds its shared variables. */
typedef struct tls {
    uintptr_t code;
    size_t module, bytes;
} tls_t;

/* Of a module, from an offset: Drepper, ELF Handling for Thread-Local Storage, 3.4.2. What dl_iterate_phdr tells of where it is
 * does not do: in glibc it is nothing at times for the module whose number is the length of the thread's table. */
typedef struct tls_index {
    unsigned long module, offset;
} tls_index_t;
void *__tls_get_addr(tls_index_t *index);

static int find_tls(struct dl_phdr_info *info, size_t size, void *out)
{
    tls_t *tls = out;
    bool mine = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && tls->code - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
            mine = true;
    }
    for (int i = 0; mine && i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            tls->module = info->dlpi_tls_modid;
            tls->bytes = info->dlpi_phdr[i].p_memsz;
        }
    return mine;
}

void sg_run_shared_area(char **at, size_t *bytes)
{
    tls_t tls = {.code = (uintptr_t)sg_run.entry->thread_main};
    dl_iterate_phdr(find_tls, &tls);
    *at = tls.module ? __tls_get_addr(&(tls_index_t){tls.module, 0}) : NULL;
    *bytes = tls.bytes;
}

static void swap_shared(char *area, size_t bytes, sg_block_t *from, const sg_block_t *to)
{
    if (from == to)
        return;
    if (from)
        memcpy(from->shared, area, bytes);
    memcpy(area, to->shared, bytes);
    *sg_run.entry->launch = sg_run.launch;
}

static bool prepare_all(size_t shared_bytes)
{
    const uint32_t warps = sg_run.launch->block[0];
    for (uint64_t i = 0; i < sg_run.blocks; i++) {
        sg_block_t *b = &sg_run.all[i];
        b->fibers = new_fibers(warps);
        b->shared = calloc(shared_bytes ? shared_bytes : 1, 1);
        if (!b->fibers || !b->shared || !begin_block(b, i, (uint32_t)i * warps))
            return false;
    }
    return true;
}

static void take_turns(void)
{
    char *area;
    size_t bytes;
    sg_run_shared_area(&area, &bytes);
    sg_run.blocks = (uint64_t)sg_run.launch->grid[0] * sg_run.launch->grid[1] * sg_run.launch->grid[2];
    sg_run.all = calloc(sg_run.blocks, sizeof *sg_run.all);
    if (!sg_run.all || !prepare_all(bytes)) {
        out_of_memory();
        return;
    }
    for (uint64_t i = 0; i < sg_run.blocks; i++)
        sg_check_block_begin(&sg_run.all[i]);
    sg_block_t *inside = NULL;
    for (bool moved = true; moved && !sg_run.failed;) {
        moved = false;
        for (uint64_t i = 0; i < sg_run.blocks && !sg_run.failed; i++) {
            sg_block_t *b = &sg_run.all[i];
            if (!b->ready)
                continue;
            swap_shared(area, bytes, inside, b);
            inside = b;
            go_on(b);
            moved = true;
        }
    }
    for (uint64_t i = 0; i < sg_run.blocks && !sg_run.failed; i++) {
        sg_run.block = &sg_run.all[i];
        if (sg_run.all[i].alive)
            stuck(&sg_run.all[i]);
    }
    for (uint64_t i = 0; i < sg_run.blocks; i++)
        sg_check_block_end(&sg_run.all[i]);
}

/* ---- services ---- */

static void run_warps(const softgpu_launch_t *launch, uint64_t first, uint64_t count,
                      const softgpu_entry_t *entry)
{
    sg_coroutines_begin();
    sg_run.launch = launch;
    sg_run.entry = entry;
    *entry->launch = launch;
    if (launch->cooperative) {
        take_turns();
        free_all();
    } else {
        run_one_by_one(first, count);
    }
    sg_run.block = NULL;
    sg_run.entry = NULL;
    sg_run.launch = NULL;
}

static void fail(int error, const char *why, softgpu_place_t place)
{
    sg_run_fail((CUresult)error, place, "%s", why);
}

const softgpu_services_t sg_services = {.run_warps = run_warps,
                                        .barrier = barrier,
                                        .pause = pause_fiber,
                                        .copy_async = sg_async_copy,
                                        .commit_async = sg_async_commit,
                                        .wait_async = sg_async_wait,
                                        .fail = fail,
                                        .read_tensor_map = sg_tensor_map_read,
                                        .access = sg_check_access,
                                        .coroutine = sg_coroutine,
                                        .resume = sg_coroutine_resume,
                                        .yield = sg_coroutine_yield,
                                        .end = sg_coroutine_end,
                                        .is_stack = sg_coroutine_is_stack,
                                        .lane = sg_check_lane,
                                        .met = sg_check_met,
                                        .order = sg_check_order};

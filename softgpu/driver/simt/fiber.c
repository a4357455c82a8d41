/* fiber.c: contexts and their stacks.
 *
 * A switch saves what the ABI says a function keeps (System V AMD64: rbx, rbp, r12-r15 and the stack pointer), which
 * takes 16 ns where swapcontext, with its system call for the signal mask, takes 210.
 */
#include "softgpu/driver/simt/simt.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(SG_PORTABLE_FIBERS)

__asm__(".text\n"
        ".globl sg_switch_stacks\n"
        ".hidden sg_switch_stacks\n"
        ".type sg_switch_stacks,@function\n"
        "sg_switch_stacks:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sg_switch_stacks,.-sg_switch_stacks\n");
void sg_switch_stacks(void **from, void *to);

void sg_context_make(sg_context_t *context, char *stack, size_t bytes, void (*main)(void))
{
    /* As if `main` had been called: its return address, 0, lies at a multiple of 16 less 8. */
    void **top = (void **)(void *)(stack + bytes);
    *--top = NULL;
    *--top = (void *)main;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    context->sp = top;
}

void sg_context_switch(sg_context_t *from, sg_context_t *to)
{
    sg_switch_stacks(&from->sp, to->sp);
}

#else

void sg_context_make(sg_context_t *context, char *stack, size_t bytes, void (*main)(void))
{
    getcontext(&context->uc);
    context->uc.uc_stack.ss_sp = stack;
    context->uc.uc_stack.ss_size = bytes;
    context->uc.uc_link = NULL;
    makecontext(&context->uc, main, 0);
}

void sg_context_switch(sg_context_t *from, sg_context_t *to)
{
    swapcontext(&from->uc, &to->uc);
}

#endif

/* Stacks come by the warp, below them a page that nobody may touch: one for each would cost a mapping per thread. */
char *sg_stack(uint32_t index)
{
    enum { WARPS = 4096 }; /* cooperative launches hold many blocks */
    static _Thread_local char **warps;
    const size_t guard = (size_t)sysconf(_SC_PAGESIZE), bytes = SG_WARP * SG_FIBER_STACK_BYTES;
    const uint32_t warp = index / SG_WARP;
    if (!warps)
        warps = calloc(WARPS, sizeof *warps);
    if (!warps || warp >= WARPS)
        return NULL;
    if (!warps[warp]) {
        char *p = mmap(NULL, guard + bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            return NULL;
        mprotect(p, guard, PROT_NONE);
        warps[warp] = p + guard;
    }
    return warps[warp] + index % SG_WARP * SG_FIBER_STACK_BYTES;
}

/* ---- coroutines ---- */

enum { AT_ONCE = 64, CHUNKS = 256 };

struct sg_coroutine {
    _Alignas(16) char own[SOFTGPU_COROUTINE_BYTES]; /* its handle */
    sg_context_t context, resumer;
    char *stack;
    void (*main)(void *coroutine);
    const sg_fiber_t *owner;
    struct sg_coroutine *next; /* of those that can be had */
};

/* Stacks lie together, each with a page below it that nobody may touch. */
typedef struct chunk {
    struct sg_coroutine coroutine[AT_ONCE];
    char *stacks;
    struct chunk *next;
} chunk_t;

/* This worker's, kept for ever. */
static _Thread_local struct {
    chunk_t *chunks;
    struct sg_coroutine *unused, *fresh;
    size_t guard;
    uint32_t chunk_count;
} coroutines;

/* All of a chunk can be had, the first one first. */
static void offer(chunk_t *chunk)
{
    for (uint32_t i = AT_ONCE; i-- > 0;)
        sg_coroutine_end(chunk->coroutine[i].own);
}

static bool more_coroutines(void)
{
    coroutines.guard = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = SG_COROUTINE_STACK_BYTES + coroutines.guard;
    chunk_t *made = coroutines.chunk_count < CHUNKS ? calloc(1, sizeof *made) : NULL;
    char *p = made ? mmap(NULL, AT_ONCE * bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                   : MAP_FAILED;
    if (p == MAP_FAILED) {
        free(made);
        return false;
    }
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        made->coroutine[i].stack = p + i * bytes + coroutines.guard;
        mprotect(p + i * bytes, coroutines.guard, PROT_NONE);
    }
    made->stacks = p;
    made->next = coroutines.chunks;
    coroutines.chunks = made;
    coroutines.chunk_count++;
    offer(made);
    return true;
}

void sg_coroutines_begin(void)
{
    coroutines.unused = NULL;
    for (chunk_t *chunk = coroutines.chunks; chunk; chunk = chunk->next)
        offer(chunk);
}

static void coroutine_main(void)
{
    struct sg_coroutine *c = coroutines.fresh;
    c->main(c->own);
}

void *sg_coroutine(void (*main)(void *coroutine))
{
    if (!coroutines.unused && !more_coroutines())
        return NULL;
    struct sg_coroutine *c = coroutines.unused;
    coroutines.unused = c->next;
    c->main = main;
    c->owner = sg_run.fiber;
    sg_context_make(&c->context, c->stack, SG_COROUTINE_STACK_BYTES, coroutine_main);
    return c->own;
}

void sg_coroutine_resume(void *coroutine)
{
    struct sg_coroutine *c = coroutine;
    coroutines.fresh = c; /* only looked at when it begins */
    sg_context_switch(&c->resumer, &c->context);
}

void sg_coroutine_yield(void *coroutine)
{
    struct sg_coroutine *c = coroutine;
    sg_context_switch(&c->context, &c->resumer);
}

void sg_coroutine_end(void *coroutine)
{
    struct sg_coroutine *c = coroutine;
    c->next = coroutines.unused;
    coroutines.unused = c;
}

/* Which one's; *place: where in its stack. NULL: in none. Guards count as what is above them. */
static const struct sg_coroutine *find_stack(const void *at, size_t *place)
{
    const size_t bytes = SG_COROUTINE_STACK_BYTES + coroutines.guard;
    for (const chunk_t *chunk = coroutines.chunks; chunk; chunk = chunk->next) {
        const size_t offset = (size_t)((const char *)at - chunk->stacks);
        *place = offset % bytes;
        if (offset < AT_ONCE * bytes)
            return &chunk->coroutine[offset / bytes];
    }
    return NULL;
}

int sg_coroutine_is_stack(const void *at)
{
    size_t place;
    return find_stack(at, &place) && place >= coroutines.guard;
}

const sg_fiber_t *sg_coroutine_owner(const void *at)
{
    size_t place;
    const struct sg_coroutine *c = find_stack(at, &place);
    return c && place >= coroutines.guard ? c->owner : NULL;
}

bool sg_coroutine_overflowed(const void *at)
{
    size_t place;
    return find_stack(at, &place) && place < coroutines.guard;
}

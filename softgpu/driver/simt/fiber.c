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

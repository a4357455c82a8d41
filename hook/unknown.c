/* unknown.c: functions of the driver that ebb does not know; see internal.h. */
#include "hook/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/status.h"
#include "ckpt/run/run.h"

/* As the assembler reads it. */
#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)
#define ENTRIES         TEXT(EBB_UNKNOWNS)

/* Entry point i puts i where the common part finds it. That asks ebb_unknown_called, with the program's arguments as they came, and jumps on to what
 * it answers; or returns CUDA_ERROR_OUT_OF_MEMORY, which is 2. */
#if defined(__x86_64__)
__asm__(".text\n.p2align 4\n.type ebb_unknown_entries, @function\n"
        ".globl ebb_unknown_entries\n.hidden ebb_unknown_entries\nebb_unknown_entries:\n"
        ".set entry, 0\n"
        ".rept " ENTRIES "\n"
        "  .p2align 4\n"
        "  mov $entry, %eax\n"
        "  jmp .Lunknown\n"
        "  .set entry, entry + 1\n"
        ".endr\n"
        ".p2align 4\n"
        ".Lunknown:\n"
        ".cfi_startproc\n"
        "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n"
        "  sub $136, %rsp\n"
        ".cfi_adjust_cfa_offset 184\n"
        "  movups %xmm0, (%rsp)\n  movups %xmm1, 16(%rsp)\n  movups %xmm2, 32(%rsp)\n"
        "  movups %xmm3, 48(%rsp)\n  movups %xmm4, 64(%rsp)\n  movups %xmm5, 80(%rsp)\n"
        "  movups %xmm6, 96(%rsp)\n  movups %xmm7, 112(%rsp)\n"
        "  mov %eax, %edi\n"
        "  call ebb_unknown_called\n"
        "  movups (%rsp), %xmm0\n  movups 16(%rsp), %xmm1\n  movups 32(%rsp), %xmm2\n"
        "  movups 48(%rsp), %xmm3\n  movups 64(%rsp), %xmm4\n  movups 80(%rsp), %xmm5\n"
        "  movups 96(%rsp), %xmm6\n  movups 112(%rsp), %xmm7\n"
        "  add $136, %rsp\n"
        "  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
        ".cfi_adjust_cfa_offset -184\n"
        "  test %rax, %rax\n"
        "  jz 1f\n"
        "  jmp *%rax\n"
        "1: mov $2, %eax\n"
        "  ret\n"
        ".cfi_endproc\n.size ebb_unknown_entries, .-ebb_unknown_entries\n");
#elif defined(__aarch64__)
__asm__(".text\n.p2align 4\n.type ebb_unknown_entries, %function\n"
        ".globl ebb_unknown_entries\n.hidden ebb_unknown_entries\nebb_unknown_entries:\n"
        ".set entry, 0\n"
        ".rept " ENTRIES "\n"
        "  .p2align 4\n"
        "  mov w16, #entry\n"
        "  b .Lunknown\n"
        "  .set entry, entry + 1\n"
        ".endr\n"
        ".p2align 4\n"
        ".Lunknown:\n"
        "  stp x29, x30, [sp, #-224]!\n"
        "  stp x0, x1, [sp, #16]\n  stp x2, x3, [sp, #32]\n  stp x4, x5, [sp, #48]\n"
        "  stp x6, x7, [sp, #64]\n  str x8, [sp, #80]\n"
        "  stp q0, q1, [sp, #96]\n  stp q2, q3, [sp, #128]\n  stp q4, q5, [sp, #160]\n"
        "  stp q6, q7, [sp, #192]\n"
        "  mov w0, w16\n"
        "  bl ebb_unknown_called\n"
        "  mov x16, x0\n"
        "  ldp x0, x1, [sp, #16]\n  ldp x2, x3, [sp, #32]\n  ldp x4, x5, [sp, #48]\n"
        "  ldp x6, x7, [sp, #64]\n  ldr x8, [sp, #80]\n"
        "  ldp q0, q1, [sp, #96]\n  ldp q2, q3, [sp, #128]\n  ldp q4, q5, [sp, #160]\n"
        "  ldp q6, q7, [sp, #192]\n"
        "  ldp x29, x30, [sp], #224\n"
        "  cbz x16, 1f\n"
        "  br x16\n"
        "1: mov w0, #2\n"
        "  ret\n"
        ".size ebb_unknown_entries, .-ebb_unknown_entries\n");
#else
#error "unknown.c: the entry points are not written for this processor"
#endif

enum { ENTRY_BYTES = 16 };
extern const unsigned char ebb_unknown_entries[EBB_UNKNOWNS * ENTRY_BYTES]
    __attribute__((visibility("hidden")));

typedef struct ebb_unknown {
    void *real;
    atomic_bool ready; /* called, and everything was there */
    char why[];        /* nothing leaves the device any more */
} unknown_t;

static unknown_t *new_unknown(const char *name, void *real)
{
    static const char form[] = "%s, which ebb does not know, may touch any of it";
    const size_t room = sizeof form + strlen(name);
    unknown_t *u = calloc(1, sizeof *u + room);
    if (u) {
        u->real = real;
        snprintf(u->why, room, form, name);
    }
    return u;
}

/* Everything is there, and stays. */
static bool make_ready(const char *why)
{
    const ebb_device_t *dev = ebb_enter_any();
    if (!dev)
        return true;
    const ebb_status_t status = ebb_bring_everything(dev->ebb, why);
    if (status)
        ebb_log(EBB_WARN, "%s: %s", why, ebb_last_failure());
    else
        ebb_keep_everything(dev->ebb, why);
    ebb_unlock();
    return !status;
}

/* What stands there; if nothing does, this from now on. NULL: no host memory. */
static unknown_t *unknown_in(_Atomic(unknown_t *) *place, const char *name, void *real)
{
    unknown_t *there = atomic_load(place), *ours = there ? NULL : new_unknown(name, real);
    if (ours && !atomic_compare_exchange_strong(place, &there, ours)) {
        free(ours);
        return there;
    }
    return ours ? ours : there;
}

void *ebb_unknown(const char *name, void *real)
{
    for (unsigned i = 0; ebb_global.hook && i < EBB_UNKNOWNS; i++) {
        const unknown_t *u = unknown_in(&ebb_global.hook->unknown[i], name, real);
        if (u && u->real == real)
            return (void *)&ebb_unknown_entries[i * (size_t)ENTRY_BYTES];
    }
    make_ready("more functions of the driver than ebb can tell apart may touch any of it");
    return real;
}

__attribute__((visibility("hidden"))) void *ebb_unknown_called(unsigned entry);

/* Called by the entry points. NULL: not all of it is there, so that it may not be called. */
void *ebb_unknown_called(unsigned entry)
{
    unknown_t *u = atomic_load(&ebb_global.hook->unknown[entry]);
    if (!atomic_load(&u->ready))
        atomic_store(&u->ready, make_ready(u->why));
    return atomic_load(&u->ready) ? u->real : NULL;
}

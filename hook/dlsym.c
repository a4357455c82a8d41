/* dlsym.c: dlsym and dlvsym as the program sees them. Apart from lookup.c, so that tests can link the rest
 * without having their own look-ups hooked.
 */
/* dlsym(handle, name) and dlvsym(handle, name, version): ask, telling the return address, then either return the answer or jump to the
 * real function with registers and stack as they came, so that it sees its true caller. */
#if defined(__x86_64__)
#define ENTRY(symbol, next)                                                                                  \
    __asm__(".text\n.globl " symbol "\n.type " symbol ", @function\n.p2align 4\n" symbol ":\n"               \
            ".cfi_startproc\n"                                                                               \
            "  push %rdi\n.cfi_adjust_cfa_offset 8\n"                                                        \
            "  push %rsi\n.cfi_adjust_cfa_offset 8\n"                                                        \
            "  push %rdx\n.cfi_adjust_cfa_offset 8\n"                                                        \
            "  mov 24(%rsp), %rdx\n"                                                                         \
            "  call ebb_answer_dlsym\n"                                                                      \
            "  pop %rdx\n.cfi_adjust_cfa_offset -8\n"                                                        \
            "  pop %rsi\n.cfi_adjust_cfa_offset -8\n"                                                        \
            "  pop %rdi\n.cfi_adjust_cfa_offset -8\n"                                                        \
            "  test %rax, %rax\n"                                                                            \
            "  jz 1f\n"                                                                                      \
            "  ret\n"                                                                                        \
            "1: jmp *" next "(%rip)\n"                                                                       \
            ".cfi_endproc\n.size " symbol ", .-" symbol "\n")
#elif defined(__aarch64__)
#define ENTRY(symbol, next)                                                                                  \
    __asm__(".text\n.globl " symbol "\n.type " symbol ", %function\n.p2align 4\n" symbol ":\n"               \
            "  stp x29, x30, [sp, #-48]!\n"                                                                  \
            "  stp x0, x1, [sp, #16]\n"                                                                      \
            "  str x2, [sp, #32]\n"                                                                          \
            "  mov x2, x30\n"                                                                                \
            "  bl ebb_answer_dlsym\n"                                                                        \
            "  mov x3, x0\n"                                                                                 \
            "  ldp x0, x1, [sp, #16]\n"                                                                      \
            "  ldr x2, [sp, #32]\n"                                                                          \
            "  ldp x29, x30, [sp], #48\n"                                                                    \
            "  cbz x3, 1f\n"                                                                                 \
            "  mov x0, x3\n"                                                                                 \
            "  ret\n"                                                                                        \
            "1: adrp x3, " next "\n"                                                                         \
            "  ldr x3, [x3, #:lo12:" next "]\n"                                                              \
            "  br x3\n"                                                                                      \
            ".size " symbol ", .-" symbol "\n")
#else
#error "dlsym.c: dlsym's entry is not written for this processor"
#endif

/* ebb_libc_t (alloc/base/libc_symbol.h) */
ENTRY("dlsym", "ebb_libc");
ENTRY("dlvsym", "ebb_libc+8");

/* gate.h: the gate in front of every function that this driver exports: faults on demand and the call trace.
 *
 * The gate of a function costs one compare and one jump while neither is asked for. Else it notes the call,
 * perhaps refuses it before anything has happened, and notes the result on the way back.
 *
 *   SOFTGPU_FAULT=RULE,...   RULE: KIND@N[+][=CODE][!]   the N-th call of a kind (from 1; with +: each from the
 *                            N-th on) fails with CODE, a number or a name such as OUT_OF_MEMORY. With ! the
 *                            error is sticky: the context is lost, as after a fault on hardware. KIND: alloc,
 *                            free, host, map, unmap, copy, set, launch, event, stream, sync, any, or a pattern
 *                            of function names such as cuMemAlloc*. Without CODE: OUT_OF_MEMORY for what
 *                            reserves memory, LAUNCH_FAILED for what runs, else UNKNOWN.
 *   SOFTGPU_TRACE=FILE       a line per call, in the order of return, "-" for stderr: thread, name, arguments,
 *                            result. Calls that one function of this driver makes of another are not listed.
 *
 * Names, versions, parameters: generated from NVIDIA's headers (Gate.cmake), and so are the stubs behind the gates of
 * what is not provided.
 */
#ifndef SG_GATE_H
#define SG_GATE_H

#include <stddef.h>

typedef struct sg_gate_row {
    const char *symbol;
    const char *parameters; /* "CUdeviceptr_v2 *dptr, size_t bytesize", or "" where unknown */
    void (*impl)(void);
} sg_gate_row_t;

extern const sg_gate_row_t sg_gate_table[];
extern const unsigned sg_gate_count;

/* cuGetProcAddress(name, v) gives the last row of that name whose version is at most v. */
typedef struct sg_form {
    const char *name;
    int version; /* that brought this form; 0: unknown */
    void (*plain)(void);
    void (*per_thread)(void); /* with the per-thread default stream; NULL: it has no default stream */
} sg_form_t;

/* The forms of each name in the order of their versions, ended by a NULL name. */
extern const sg_form_t sg_forms[];

/* Says once that a function is not provided. Returns CUDA_ERROR_NOT_SUPPORTED. */
unsigned sg_not_supported(const char *name);

/* What stands behind a gate unless a file defines it: a caller cleans up its own arguments. */
#define SG_STUB(symbol)                                                                                      \
    unsigned sg_stub_##symbol(void) __asm__("sg_impl_" #symbol);                                             \
    __attribute__((weak)) unsigned sg_stub_##symbol(void)                                                    \
    {                                                                                                        \
        return sg_not_supported(#symbol);                                                                    \
    }

/* The public symbol: a jump to the implementation, or into sg_gate_enter (gate.c) with the row's index in eax,
 * all argument registers as the caller left them. */
#if defined(__x86_64__)
#define SG_GATE(symbol, index)                                                                               \
    SG_STUB(symbol)                                                                                          \
    extern void sg_at_impl_##symbol(void) __asm__("sg_impl_" #symbol);                                       \
    __asm__(".text\n.p2align 4\n.globl " #symbol "\n.type " #symbol ",@function\n" #symbol ":\n"             \
            "    cmpb $0, sg_gate_armed(%rip)\n"                                                             \
            "    je sg_impl_" #symbol "\n"                                                                   \
            "    movl $" #index ", %eax\n"                                                                   \
            "    jmp sg_gate_enter\n"                                                                        \
            ".size " #symbol ", . - " #symbol "\n");
#else /* AArch64: no faults, no trace */
#define SG_GATE(symbol, index)                                                                               \
    SG_STUB(symbol)                                                                                          \
    extern void sg_at_impl_##symbol(void) __asm__("sg_impl_" #symbol);                                       \
    __asm__(".text\n.p2align 4\n.globl " #symbol "\n.type " #symbol ",%function\n" #symbol ":\n"             \
            "    b sg_impl_" #symbol "\n"                                                                    \
            ".size " #symbol ", . - " #symbol "\n");
#endif

#endif

/* cubins.h: the kernels in a file that NVIDIA's tools have made: a library or program with fat binaries in it, a fat binary, or a cubin. What
 * is read are names, sizes and offsets ("CUDA Binary Utilities" documents the sections), never machine code.
 *
 * Where a cubin has a kernel's parameters: section .nv.info.KERNEL is a list of attributes, each of a byte that tells the form, one that
 * tells which it is, and a word of 16 bits: a value, or in form 4 the length of what follows. Attribute 0x17 (EIATTR_KPARAM_INFO) is a
 * parameter (12 bytes): index, its number and its offset (16 bits each), its size in the upper 14 bits. 0x45 is the same for kernels with more
 * than 4 KiB of parameters, its size in 16 bits behind the offset. 0x0a (EIATTR_PARAM_CBANK) has a symbol (32 bits), where in the constant bank the
 * parameters begin, and how many bytes they have (16 bits each). Each kernel has a section .nv.constant0.KERNEL, functions that kernels call
 * have none. (Compiled with nvcc 13.0 for sm_80, sm_90 and sm_100 from kernels whose parameters are known.)
 */
#ifndef CUBINS_H
#define CUBINS_H

#include <stddef.h>
#include <stdint.h>

#include "alloc/kernel/code.h"

typedef struct cubins_parameter {
    uint32_t offset_bytes, size_bytes;
} cubins_parameter_t;

/* One kernel of one cubin. All of it borrows from the reader until the visitor returns. */
typedef struct cubins_kernel {
    const char *name;
    unsigned architecture; /* as nvcc writes it in sm_90 */
    uint32_t bank_begin;   /* in the constant bank, of its parameters: alignment is of the address there */
    uint32_t count;
    const cubins_parameter_t *parameter; /* [count] */
} cubins_kernel_t;

/* What to tell to whom; what is NULL is not told. */
typedef struct cubins_visitor {
    void *context;
    unsigned architecture; /* only this one; 0: all */
    unsigned one_in;       /* of so many fat binaries; 0: all */
    /* A fat binary, as ebb judges it when it is loaded. */
    void (*image)(void *context, ebb_image_variables_t variables);
    /* A cubin; then come its kernels. */
    void (*module)(void *context, unsigned architecture, ebb_image_variables_t variables);
    void (*kernel)(void *context, const cubins_kernel_t *kernel);
    /* A cubin, or a kernel, that is not understood (architecture 0: a fat binary or file). */
    void (*unread)(void *context, unsigned architecture);
} cubins_visitor_t;

/* False: the file cannot be opened. */
bool cubins_visit(const char *path, const cubins_visitor_t *visitor);

#endif

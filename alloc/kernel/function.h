/* function.h: what a launch names: a CUfunction, which belongs to a module, or a CUkernel of a library, cast to it (the documentation of
 * cuLaunchKernel allows that, and NVIDIA's runtime does it).
 *
 * They are handles of two kinds, and a driver must never be asked cuKernel* about a CUfunction: cuKernelGetFunction of one crashes
 * (NVIDIA/cuda-python issue 129). The other way round is an error: cuFuncGetAttribute of a CUkernel is CUDA_ERROR_INVALID_HANDLE
 * (accel-sim-framework pull request 521). So the kind of each handle that the program looks up is noted, and of one that ebb has never seen
 * looked up cuFuncGetAttribute is asked.
 *
 * For this folder; ebb_lock() held.
 */
#ifndef EBB_FUNCTION_H
#define EBB_FUNCTION_H

#include "alloc/ebb_alloc.h"

/* The program has looked it up in this CUmodule or CUlibrary. */
void ebb_function_note(ebb_t *ebb, CUfunction function, bool is_kernel, const void *owner);
/* The owner is unloaded, its functions with it. */
void ebb_functions_forget(ebb_t *ebb, const void *owner);

/* Whether it is a CUkernel. */
bool ebb_function_is_kernel(ebb_t *ebb, CUfunction function);
/* The CUlibrary or CUmodule that it is from: as the program has loaded it, if ebb has seen that. NULL: it cannot be told. */
const void *ebb_function_owner(ebb_t *ebb, CUfunction function);
/* Where a parameter is in the argument block. CUDA_ERROR_INVALID_VALUE: it has no more. */
CUresult ebb_function_ask_param(ebb_t *ebb, CUfunction function, size_t index, size_t *offset, size_t *size);

/* ---- parameters ---- */

/* The layout of a function's argument block, asked of the driver once per function. */
typedef struct ebb_signature {
    CUfunction function;
    uint32_t param_count, param_bytes;
    bool has_gaps;       /* between its parameters */
    bool is_plain;       /* all of 8 bytes, one behind the other */
    bool has_structures; /* some are larger */
    bool is_shifted;     /* some may be elsewhere in a structure of the same members: ebb_args_pack */
    uint8_t view;        /* obscure.c's */
    const struct ebb_param {
        uint32_t offset_bytes, size_bytes;
    } * params;
} ebb_signature_t;

/* NULL: the driver does not tell (before 12.4, or no host memory). Valid until ebb_signatures_forget. */
ebb_signature_t *ebb_signature_of(ebb_t *ebb, CUfunction function);
/* Whether some function was asked about for the first time since this was last asked. */
bool ebb_signatures_grew(ebb_t *ebb);
/* A module was unloaded: functions may come again at the same address with other parameters. */
void ebb_signatures_forget(ebb_t *ebb);

#endif

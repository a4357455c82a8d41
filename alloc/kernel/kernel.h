/* kernel.h: what is known of the program's kernels: which module a function is from, its parameters, what its launches may reach.
 *
 * Threads and locks: ebb_lock() held.
 */
#ifndef EBB_KERNEL_H
#define EBB_KERNEL_H

#include "alloc/ebb_alloc.h"

/* ---- functions (function.c) ---- */

/* What a launch names: a CUfunction, which belongs to a module, or a CUkernel of a library, cast to it (the documentation of
 * cuLaunchKernel allows that, and NVIDIA's runtime does it).
 *
 * They are handles of two kinds, and a driver must never be asked cuKernel* about a CUfunction: cuKernelGetFunction of one crashes
 * (NVIDIA/cuda-python issue 129). The other way round is an error: cuFuncGetAttribute of a CUkernel is CUDA_ERROR_INVALID_HANDLE
 * (accel-sim-framework pull request 521). So the kind of each handle that the program looks up is noted, and of one that ebb has never seen
 * looked up cuFuncGetAttribute is asked. */

/* The program has looked it up in this CUmodule or CUlibrary. */
void ebb_function_note(ebb_t *ebb, CUfunction function, bool is_kernel, const void *owner);
/* The owner is unloaded, its functions with it. */
void ebb_functions_forget(ebb_t *ebb, const void *owner);

/* Whether it is a CUkernel. */
bool ebb_function_is_kernel(ebb_t *ebb, CUfunction function);
/* The CUlibrary or CUmodule that it is from: as the program has loaded it, if ebb has seen that. NULL: unknown. */
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
    uint8_t view, talks; /* obscure.c's */
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

/* ---- modules (module.c) ---- */

/* Which modules and libraries of the program have variables that kernels may write (image.h), or of which the
 * program has looked one up, constant ones too: ebb_function_has_variables() tells. What is remembered is what was judged, for what ebb has not
 * seen loading may have some: NVIDIA's runtime can load through tables of its own (cuGetExportTable). */

/* The program has loaded an image; handle: the CUmodule or CUlibrary. NULL: the image cannot be looked at. from_file: it is a file's; else it
 * may still be part of a loaded one. */
void ebb_module_loaded(ebb_t *ebb, const void *handle, bool is_library, const void *image, bool from_file);
/* It has looked up a variable. True: until now it was not sure that there are any. */
bool ebb_module_looked_up(ebb_t *ebb, const void *handle);
void ebb_module_forget(ebb_t *ebb, const void *handle);

/* Whether its image was in a file, and says what is in it. */
bool ebb_module_is_readable(ebb_t *ebb, const void *handle);
/* Whether ebb has seen it loading. */
bool ebb_module_is_known(ebb_t *ebb, const void *handle);
/* What the program has loaded for it: itself, or, of a CUmodule, the library that it is in the current context. */
const void *ebb_module_source(ebb_t *ebb, const void *module);

/* ---- tensor maps (tensor_map.c) ---- */

/* What tensor map descriptors (cuTensorMapEncode*) point to. What is in their 128 bytes is documented nowhere (an H200's have the address in
 * the first word), so that the address is noted when one is encoded and found again by the bytes. */

/* They are copied about by value, but always to addresses of this alignment. */
enum { EBB_TENSOR_MAP_ALIGN = 64 };

/* `map` now stands for memory from `address` on. False: no host memory. */
bool ebb_tensor_map_note(ebb_t *ebb, const void *map, CUdeviceptr address);
/* The address that these bytes stand for, or 0: they are none that was encoded. */
CUdeviceptr ebb_tensor_map_address(ebb_t *ebb, const void *bytes);

/* ---- launches that ebb does not understand (obscure.c) ---- */

/* Launches that ebb does not understand must not look harmless.
 *
 * A kernel that takes parameters, and in whose arguments ebb finds no buffer, either reaches none or reaches some by an address that does not
 * look like one: masked, relative to another, in a descriptor that the driver alone can read, in the code itself. Such a launch counts as
 * touching everything (ebb_operation_t's `opaque`): all buffers are on the device before it begins, no step with it is recorded, and a
 * plan ends at it. Not so if something is known that speaks against it:
 *
 *   - its function was launched with a buffer among its arguments: it takes addresses as they are; or
 *   - its code comes from a file that ebb has seen loading, and ebb can read it (what is made at run time may have addresses in it, and
 *     what NVIDIA's libraries load by private tables may be anything), and either
 *       each word of its arguments is explained: in a parameter of less than 8 bytes, a number of 32 bits with or without sign, or an address
 *       of memory that is known and not ebb's (of the host, managed, mapped by the program, a variable), or
 *       one of them is such an address, so that it has something to work on, and no parameter is as large as a tensor map; or
 *   - its name is among those that the user vouches for (EBB_HARMLESS).
 *
 * What this lets through: an address hidden beside one that is seen, or in two numbers of 32 bits.
 *
 * Each such kernel is logged once, and tallied by its name. */

/* A kernel of NCCL's or NVSHMEM's, by its name, or by what C++ has made of that. */
bool ebb_name_communicates(const char *name);
bool ebb_function_communicates(ebb_t *ebb, ebb_signature_t *signature);

/* After ebb_args_scan, also where it has found something: whether the launch counts as touching everything. So does a kernel of NCCL's that nobody
 * has told of (EBB_UNTOLD): what it reaches is among its arguments only while it fits. */
bool ebb_is_obscure(ebb_t *ebb, ebb_signature_t *signature, const ebb_operation_t *op,
                    const unsigned char *block);

#endif

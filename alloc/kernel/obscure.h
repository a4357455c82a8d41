/* obscure.h: launches that ebb does not understand must not look harmless.
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
 * Each such kernel is told in the log once, and tallied by its name. With ebb_lock() held.
 */
#ifndef EBB_OBSCURE_H
#define EBB_OBSCURE_H

#include "alloc/kernel/function.h"

/* After ebb_args_scan, also where it has found something: whether the launch counts as touching everything. */
bool ebb_is_obscure(ebb_t *ebb, ebb_signature_t *signature, const ebb_operation_t *op,
                    const unsigned char *block);

#endif

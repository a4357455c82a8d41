/* args.h: what a launch's arguments point to. For this folder. */
#ifndef EBB_ARGS_H
#define EBB_ARGS_H

#include "alloc/kernel/function.h"

enum { EBB_MAX_PARAM_BYTES = 32764 };

/* Copies the arguments of either form of cuLaunchKernel into one block, each at its offset, zeros between
 * them. False: the driver is the one to complain about them, or it alone knows where they are: the offsets that it reports are those
 * in a kernel's constant bank, and what they have to do with the layout of the buffer in `extra` is documented nowhere. They differ from
 * a structure's where a parameter may be aligned to more than the bank's beginning is. */
bool ebb_args_pack(const ebb_signature_t *signature, unsigned char *block, void **params, void **extra);

/* Accesses that a block of so many bytes can make. */
#define EBB_ARGS_ROOM(bytes) ((bytes) / 8 + (bytes) / 64)

/* Looks up every aligned 8-byte word of such a block, and every tensor map in it (map_at; not plain if there are too many);
 * fills `access` (EBB_ARGS_ROOM of the block). */
void ebb_args_scan(ebb_operation_t *op, const ebb_signature_t *signature, const unsigned char *block,
                   ebb_access_t *access);

/* Adds one access by address, if a live buffer is there. False: the address is ebb's, but nobody's. */
bool ebb_access_add(ebb_operation_t *op, CUdeviceptr address, uint32_t param_offset);
/* The same for a stretch of so many bytes: false also if it ends behind its buffer. */
bool ebb_access_add_span(ebb_operation_t *op, CUdeviceptr address, size_t bytes, uint32_t param_offset);

#endif

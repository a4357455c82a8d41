/* args.h: what a launch's arguments point to. For this folder. */
#ifndef EBB_ARGS_H
#define EBB_ARGS_H

#include "alloc/ebb_alloc.h"

enum { EBB_MAX_PARAM_BYTES = 32764 };

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
ebb_signature_t *ebb_signature_of(CUfunction function);
/* Whether some function was asked about for the first time since this was last asked. */
bool ebb_signatures_grew(void);
/* A module was unloaded: functions may come again at the same address with other parameters. */
void ebb_signatures_forget(void);

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

/* signature.h: where a kernel's parameters lie. With ebb_lock() held. */
#ifndef EBB_SIGNATURE_H
#define EBB_SIGNATURE_H

#include "alloc/ebb_alloc.h"

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

#endif

/* fatbin.h: the parts of a fat binary, what nvcc embeds in programs: cubins (ELF) and PTX for several architectures, maybe compressed
 * (then libzstd.so.1 or liblz4.so.1, if the system has them, unpack them). The outer layout is that of fatbinary_section.h, the inner what
 * nvcc 11 to 13 write. A fat binary is believed about its own size.
 *
 * Pure functions of their arguments; any thread.
 */
#ifndef EBB_FATBIN_H
#define EBB_FATBIN_H

#include <stddef.h>

#define EBB_FATBIN_MAGIC 0xba55ed50u /* its first four bytes */

enum { EBB_FATBIN_PTX = 1, EBB_FATBIN_ELF = 2 };

typedef struct ebb_fatbin_part {
    unsigned kind;
    unsigned architecture; /* as nvcc writes it in sm_90 */
    unsigned packing;      /* 0: not compressed */
    const void *code;      /* borrows from the fat binary */
    size_t bytes;          /* as it lies there */
    size_t packed_bytes;   /* of them compressed code; as the file says */
    size_t unpacked_bytes; /* if it is compressed */
} ebb_fatbin_part_t;

/* With everything in it. */
size_t ebb_fatbin_bytes(const void *fat);

/* The next part; *at is 0 before the first. 1: there is one, 0: there are no more, -1: it is damaged. */
int ebb_fatbin_next(const void *fat, size_t *at, ebb_fatbin_part_t *part);

/* A compressed part's code, a zero behind it; the caller's to free. NULL: no library for it, no memory, or damaged. */
void *ebb_fatbin_unpack(const ebb_fatbin_part_t *part);

#endif

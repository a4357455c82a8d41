/* code.h: files of device code: ELF files, cubins among them, fat binaries, and what an image says of variables.
 *
 * Pure functions of their arguments; any thread. What they return borrows from the file.
 */
#ifndef EBB_CODE_H
#define EBB_CODE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- ELF (elf_file.c) ---- */

/* An ELF file of 64 bits that lies in memory: its sections, and what they are called. Cubins are such files (image.h), and
 * so are the libraries that fat binaries lie in (tests/cubins.h). It need not be aligned, nor what is in it: libraries write cubins into
 * their own buffers while they run. */

typedef struct ebb_elf {
    const unsigned char *at;
    size_t bytes;                 /* SIZE_MAX: not known */
    const unsigned char *headers; /* of sections */
    unsigned count, names;        /* of sections; and the one that has their names */
} ebb_elf_t;

/* False: it is none, or damaged. */
bool ebb_elf_open(ebb_elf_t *e, const void *file, size_t bytes);
/* The header of section `index`, which is less than `count`. */
Elf64_Shdr ebb_elf_header(const ebb_elf_t *e, unsigned index);
/* What is in section `index`; NULL: it lies outside of the file, or there is no such section. */
const unsigned char *ebb_elf_section(const ebb_elf_t *e, unsigned index);
/* A string of section `table`, and the name of section `index`. NULL: damaged. */
const char *ebb_elf_string(const ebb_elf_t *e, unsigned table, size_t offset);
const char *ebb_elf_name(const ebb_elf_t *e, unsigned index);

/* ---- fat binaries (fatbin.c) ---- */

/* The parts of a fat binary, what nvcc embeds in programs: cubins (ELF) and PTX for several architectures, maybe compressed
 * (then libzstd.so.1 or liblz4.so.1, if the system has them, unpack them). The outer layout is that of fatbinary_section.h, the inner what
 * nvcc 11 to 13 write. The size that a fat binary gives is trusted. */

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

/* ---- images (image.c) ---- */

/* What an image of device code (what cuModuleLoadData and cuLibraryLoadData are given) says of variables.
 *
 * A kernel can write a variable of its module without any argument that shows it. Whether there are such variables
 * only the image tells: a cubin (ELF; NVIDIA's "CUDA Binary Utilities" documents its sections), PTX, or a fat binary
 * of several of both (code.h), which may be compressed.
 *
 * Some variables are in nearly every image, and no kernel writes them: literals, the tables of CUDA's mathematical functions, the
 * empty objects of NVIDIA's headers. Their names identify them. (Of the 444 modules of PyTorch 2.11's libtorch_cuda.so 442 have such
 * variables, and all but two have no others.) */

typedef enum ebb_image_variables {
    EBB_IMAGE_NONE,   /* there are none that a kernel writes */
    EBB_IMAGE_SOME,   /* also constant tables, which an image does not tell from what is written */
    EBB_IMAGE_PACKED, /* it has to be unpacked to tell */
    EBB_IMAGE_UNKNOWN /* it cannot be determined */
} ebb_image_variables_t;

/* Whether a variable of so many bytes is one of those, by its name in the image. */
bool ebb_image_is_constant(const char *name, size_t bytes);

/* An image as the driver takes it: the size that it gives is trusted. */
ebb_image_variables_t ebb_image_variables(const void *image, bool unpack);

#endif

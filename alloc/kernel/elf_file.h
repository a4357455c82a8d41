/* elf_file.h: an ELF file of 64 bits that lies in memory: its sections, and what they are called. Cubins are such files (image.h), and
 * so are the libraries that fat binaries lie in (tests/cubins.h).
 *
 * Pure functions of their arguments; any thread. What they return borrows from the file.
 */
#ifndef EBB_ELF_FILE_H
#define EBB_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct ebb_elf {
    const unsigned char *at;
    size_t bytes; /* SIZE_MAX: not known */
    const Elf64_Shdr *section;
    unsigned count, names; /* of sections; and the one that has their names */
} ebb_elf_t;

/* False: it is none, or damaged. */
bool ebb_elf_open(ebb_elf_t *e, const void *file, size_t bytes);
/* What is in section `index`; NULL: it lies outside of the file, or there is no such section. */
const unsigned char *ebb_elf_section(const ebb_elf_t *e, unsigned index);
/* A string of section `table`, and the name of section `index`. NULL: damaged. */
const char *ebb_elf_string(const ebb_elf_t *e, unsigned table, size_t offset);
const char *ebb_elf_name(const ebb_elf_t *e, unsigned index);

#endif

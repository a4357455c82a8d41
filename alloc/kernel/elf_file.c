#include "alloc/kernel/code.h"

#include <stdint.h>
#include <string.h>

static bool lies_within(const ebb_elf_t *e, uint64_t offset, uint64_t bytes)
{
    return offset <= e->bytes && bytes <= e->bytes - offset;
}

bool ebb_elf_open(ebb_elf_t *e, const void *file, size_t bytes)
{
    const Elf64_Ehdr *h = file;
    *e = (ebb_elf_t){.at = file, .bytes = bytes};
    /* Structures in it are aligned as in memory. */
    if (!lies_within(e, 0, sizeof *h) || (uintptr_t)h % 8 || memcmp(h->e_ident, ELFMAG, SELFMAG) ||
        h->e_shoff % 8 || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_shentsize != sizeof(Elf64_Shdr) ||
        !lies_within(e, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
        return false;
    e->section = (const void *)(e->at + h->e_shoff);
    e->count = h->e_shnum;
    e->names = h->e_shstrndx;
    return e->names < e->count;
}

const unsigned char *ebb_elf_section(const ebb_elf_t *e, unsigned index)
{
    const Elf64_Shdr *s = index < e->count ? &e->section[index] : NULL;
    return s && lies_within(e, s->sh_offset, s->sh_size) ? e->at + s->sh_offset : NULL;
}

const char *ebb_elf_string(const ebb_elf_t *e, unsigned table, size_t offset)
{
    const char *text = (const char *)ebb_elf_section(e, table);
    const size_t bytes = text ? e->section[table].sh_size : 0;
    return offset < bytes && memchr(text + offset, 0, bytes - offset) ? text + offset : NULL;
}

const char *ebb_elf_name(const ebb_elf_t *e, unsigned index)
{
    return ebb_elf_string(e, e->names, e->section[index].sh_name);
}

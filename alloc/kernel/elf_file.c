#include "alloc/kernel/code.h"

#include <stdint.h>
#include <string.h>

static bool lies_within(const ebb_elf_t *e, uint64_t offset, uint64_t bytes)
{
    return offset <= e->bytes && bytes <= e->bytes - offset;
}

bool ebb_elf_open(ebb_elf_t *e, const void *file, size_t bytes)
{
    Elf64_Ehdr h;
    *e = (ebb_elf_t){.at = file, .bytes = bytes};
    if (!lies_within(e, 0, sizeof h))
        return false;
    memcpy(&h, file, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_shentsize != sizeof(Elf64_Shdr) ||
        !lies_within(e, h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr)))
        return false;
    e->headers = e->at + h.e_shoff;
    e->count = h.e_shnum;
    e->names = h.e_shstrndx;
    return e->names < e->count;
}

Elf64_Shdr ebb_elf_header(const ebb_elf_t *e, unsigned index)
{
    Elf64_Shdr s;
    memcpy(&s, e->headers + index * sizeof s, sizeof s);
    return s;
}

const unsigned char *ebb_elf_section(const ebb_elf_t *e, unsigned index)
{
    if (index >= e->count)
        return NULL;
    const Elf64_Shdr s = ebb_elf_header(e, index);
    return lies_within(e, s.sh_offset, s.sh_size) ? e->at + s.sh_offset : NULL;
}

const char *ebb_elf_string(const ebb_elf_t *e, unsigned table, size_t offset)
{
    const char *text = (const char *)ebb_elf_section(e, table);
    const size_t bytes = text ? ebb_elf_header(e, table).sh_size : 0;
    return offset < bytes && memchr(text + offset, 0, bytes - offset) ? text + offset : NULL;
}

const char *ebb_elf_name(const ebb_elf_t *e, unsigned index)
{
    return ebb_elf_string(e, e->names, ebb_elf_header(e, index).sh_name);
}

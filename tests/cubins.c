#include "cubins.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/base/libc_symbol.h"
#include "alloc/kernel/code.h"

enum {
    FORM_SIZED = 4,
    PARAMETER = 0x17,
    PARAMETER_OF_MANY = 0x45,
    PARAMETER_BANK = 0x0a,
    MOST_PARAMETERS = 1024
};

/* What fatbin.c asks for; there is nothing to hook here. */
void *ebb_real_dlsym(void *handle, const char *name)
{
    return dlsym(handle, name);
}

static uint16_t half_at(const unsigned char *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static bool begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

/* False: there is more than this knows. */
static bool read_parameters(const unsigned char *at, size_t bytes, cubins_parameter_t *parameter,
                            cubins_kernel_t *out)
{
    const unsigned char *end = at + bytes;
    while (end - at >= 4) {
        const unsigned form = at[0], attribute = at[1], length = form == FORM_SIZED ? half_at(at + 2) : 0;
        at += 4;
        if (length > end - at)
            return false;
        if (attribute == PARAMETER_BANK && length == 8)
            out->bank_begin = half_at(at + 4);
        if ((attribute == PARAMETER || attribute == PARAMETER_OF_MANY) && length == 12) {
            const unsigned number = half_at(at + 4);
            if (number >= MOST_PARAMETERS)
                return false;
            parameter[number].offset_bytes = half_at(at + 6);
            parameter[number].size_bytes = attribute == PARAMETER ? half_at(at + 10) >> 2 : half_at(at + 8);
            out->count = number >= out->count ? number + 1 : out->count;
        }
        at += length;
    }
    return true;
}

/* Only kernels have constants of their own: the parameters lie there. */
static bool is_kernel(const ebb_elf_t *e, const char *name)
{
    static const char constants[] = ".nv.constant0.";
    for (unsigned i = 0; i < e->count; i++) {
        const char *section = ebb_elf_name(e, i);
        if (section && begins(section, constants) && !strcmp(section + sizeof constants - 1, name))
            return true;
    }
    return false;
}

static void tell_unread(const cubins_visitor_t *v, unsigned architecture)
{
    if (v->unread)
        v->unread(v->context, architecture);
}

static void read_kernels(const ebb_elf_t *e, unsigned architecture, const cubins_visitor_t *v)
{
    static const char info[] = ".nv.info.";
    for (unsigned i = 0; i < e->count; i++) {
        const char *name = ebb_elf_name(e, i);
        const unsigned char *at = ebb_elf_section(e, i);
        if (!name || !begins(name, info) || !is_kernel(e, name + sizeof info - 1))
            continue;
        cubins_parameter_t parameter[MOST_PARAMETERS] = {{0, 0}};
        cubins_kernel_t k = {
            .name = name + sizeof info - 1, .architecture = architecture, .parameter = parameter};
        if (!at || !read_parameters(at, ebb_elf_header(e, i).sh_size, parameter, &k))
            tell_unread(v, architecture);
        else
            v->kernel(v->context, &k);
    }
}

static void read_cubin(const void *cubin, size_t bytes, unsigned architecture, const cubins_visitor_t *v)
{
    ebb_elf_t e;
    if (!ebb_elf_open(&e, cubin, bytes)) {
        tell_unread(v, architecture);
        return;
    }
    if (v->module)
        v->module(v->context, architecture, ebb_image_variables(cubin, true));
    if (v->kernel)
        read_kernels(&e, architecture, v);
}

static void read_part(const ebb_fatbin_part_t *part, const cubins_visitor_t *v)
{
    if (part->kind != EBB_FATBIN_ELF || (v->architecture && part->architecture != v->architecture))
        return;
    char *unpacked = part->packing ? ebb_fatbin_unpack(part) : NULL;
    if (unpacked)
        read_cubin(unpacked, part->unpacked_bytes, part->architecture, v);
    else if (part->packing)
        tell_unread(v, part->architecture);
    else
        read_cubin(part->code, part->bytes, part->architecture, v);
    free(unpacked);
}

static void read_fat_binary(const void *fat, const cubins_visitor_t *v)
{
    ebb_fatbin_part_t part;
    size_t at = 0;
    int more;
    if (v->image)
        v->image(v->context, ebb_image_variables(fat, true));
    while ((more = ebb_fatbin_next(fat, &at, &part)) > 0)
        read_part(&part, v);
    if (more)
        tell_unread(v, 0);
}

static void read_fat_binaries(const unsigned char *at, size_t bytes, const cubins_visitor_t *v)
{
    static const uint32_t magic = EBB_FATBIN_MAGIC;
    const unsigned char *end = at + bytes;
    unsigned number = 0;
    while (end - at >= 16) {
        if (memcmp(at, &magic, sizeof magic)) { /* between them is what aligns the next */
            at += 8;
            continue;
        }
        const size_t whole = ebb_fatbin_bytes(at);
        if (whole > (size_t)(end - at)) {
            tell_unread(v, 0);
            return;
        }
        if (number++ % (v->one_in ? v->one_in : 1) == 0)
            read_fat_binary(at, v);
        at += whole;
    }
}

/* Of the number of the toolkit's that have version 8 of the ABI (13.0 on). */
static unsigned architecture_of(const void *cubin)
{
    const Elf64_Ehdr *h = cubin;
    return h->e_flags >> (h->e_ident[EI_ABIVERSION] >= 8 ? 8 : 0) & 0xff;
}

static void read_file(const unsigned char *file, size_t bytes, const cubins_visitor_t *v)
{
    enum { MACHINE_CUDA = 190 };
    ebb_elf_t e;
    if (!ebb_elf_open(&e, file, bytes))
        read_fat_binaries(file, bytes, v);
    else if (((const Elf64_Ehdr *)(const void *)file)->e_machine == MACHINE_CUDA)
        read_cubin(file, bytes, architecture_of(file), v);
    else
        for (unsigned i = 0; i < e.count; i++) {
            const char *name = ebb_elf_name(&e, i);
            const unsigned char *at = ebb_elf_section(&e, i);
            if (name && at && !strcmp(name, ".nv_fatbin"))
                read_fat_binaries(at, ebb_elf_header(&e, i).sh_size, v);
        }
}

bool cubins_visit(const char *path, const cubins_visitor_t *v)
{
    struct stat about;
    const int f = open(path, O_RDONLY | O_CLOEXEC);
    void *file = f >= 0 && !fstat(f, &about) && about.st_size > 0
                     ? mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, f, 0)
                     : MAP_FAILED;
    if (f >= 0)
        close(f);
    if (file == MAP_FAILED)
        return false;
    read_file(file, (size_t)about.st_size, v);
    munmap(file, (size_t)about.st_size);
    return true;
}

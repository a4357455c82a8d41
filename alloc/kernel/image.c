#include "alloc/kernel/code.h"

#include <fatbinary_section.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The worse of two answers stands further behind. */
static ebb_image_variables_t worse(ebb_image_variables_t a, ebb_image_variables_t b)
{
    return a > b ? a : b;
}

/* ---- variables that no kernel writes ---- */

static bool begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

/* The next part of a nested name as the Itanium C++ ABI mangles it: a length and so many characters. */
static bool next_part(const char **at, const char **part, size_t *length)
{
    char *behind;
    if (**at < '1' || **at > '9')
        return false;
    *length = strtoul(*at, &behind, 10);
    *part = behind;
    if (strnlen(behind, *length) < *length)
        return false;
    *at = behind + *length;
    return true;
}

static bool is_part(const char *part, size_t length, const char *name)
{
    return length == strlen(name) && !memcmp(part, name, length);
}

/* Objects of empty classes in the namespaces of NVIDIA's headers (thrust::seq, cuda::std::ranges::begin): whatever includes these has
 * dozens, and has them in the image whether or not anything uses them. */
static bool is_empty_object(const char *name, size_t bytes)
{
    const char *part;
    size_t length;
    if (bytes != 1 || !begins(name, "_ZN"))
        return false;
    name += 3;
    bool named = next_part(&name, &part, &length);
    if (named && begins(part, "_INTERNAL_")) /* where nvcc puts what has no linkage */
        named = next_part(&name, &part, &length);
    if (!named)
        return false;
    if (is_part(part, length, "cuda"))
        return next_part(&name, &part, &length) && is_part(part, length, "std");
    return is_part(part, length, "thrust") || is_part(part, length, "cub") || is_part(part, length, "cute");
}

/* Tables of CUDA's mathematical functions and of cuRAND's headers. */
static bool is_table(const char *name)
{
    return begins(name, "__cudart_") || begins(name, "mrg32k3aM") || begins(name, "precalc_xorwow_");
}

/* Literals, as nvcc and Clang name them: of printf and assert, initial values of local arrays, names of functions. Triton numbers its own. */
static bool is_literal(const char *name)
{
    static const char *const names[] = {
        "$str", "__unnamed_", "_$_str", "__const_$_", "__func__", "__FUNCTION__", "__PRETTY_FUNCTION__"};
    static const char *const numbered[] = {"assertMessage_", "assertFile_", "assertFunc_", "printfFormat_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(name, names[i]))
            return true;
    for (size_t i = 0; i < sizeof numbered / sizeof *numbered; i++)
        if (begins(name, numbered[i])) {
            const char *number = name + strlen(numbered[i]);
            return *number && !number[strspn(number, "0123456789")];
        }
    return false;
}

/* The objects behind threadIdx and its like in Clang's headers, which it writes where nothing is optimised. */
static bool is_index(const char *name, size_t bytes)
{
    return bytes == 1 && (!strcmp(name, "threadIdx") || !strcmp(name, "blockIdx") ||
                          !strcmp(name, "blockDim") || !strcmp(name, "gridDim"));
}

bool ebb_image_is_constant(const char *name, size_t bytes)
{
    return is_literal(name) || is_table(name) || is_index(name, bytes) || is_empty_object(name, bytes);
}

/* ---- cubins ---- */

/* Whether everything in section `index` is constant. */
static bool holds_constants(const ebb_elf_t *e, unsigned index)
{
    unsigned seen = 0;
    for (unsigned i = 0; i < e->count; i++) {
        const Elf64_Shdr s = ebb_elf_header(e, i);
        const unsigned char *symbols = s.sh_type == SHT_SYMTAB ? ebb_elf_section(e, i) : NULL;
        for (size_t k = 0; symbols && k < s.sh_size / sizeof(Elf64_Sym); k++) {
            Elf64_Sym symbol;
            memcpy(&symbol, symbols + k * sizeof symbol, sizeof symbol);
            if (symbol.st_shndx != index || ELF64_ST_TYPE(symbol.st_info) == STT_SECTION)
                continue;
            const char *name = ebb_elf_string(e, s.sh_link, symbol.st_name);
            if (!name || !ebb_image_is_constant(name, symbol.st_size))
                return false;
            seen++;
        }
    }
    return seen > 0;
}

static ebb_image_variables_t look_at_elf(const void *image, size_t bytes)
{
    ebb_elf_t e;
    if (!ebb_elf_open(&e, image, bytes))
        return EBB_IMAGE_UNKNOWN;
    for (unsigned i = 0; i < e.count; i++) {
        const char *name = ebb_elf_name(&e, i);
        if (!name)
            return EBB_IMAGE_UNKNOWN;
        if ((!strcmp(name, ".nv.global") || !strcmp(name, ".nv.global.init")) &&
            ebb_elf_header(&e, i).sh_size && !holds_constants(&e, i))
            return EBB_IMAGE_SOME;
    }
    return EBB_IMAGE_NONE;
}

/* ---- PTX ---- */

/* The name in a declaration such as ".global .align 4 .b8 name[12] = {..}" is the first word that is no directive and no
 * number. An empty object is one .b8. */
static bool declares_constant(const char *at, const char *end)
{
    char name[1024]; /* a longer one is a constant's only by its beginning */
    while (at < end) {
        while (at < end && strchr(" \t\n", *at))
            at++;
        const char *word = at;
        while (at < end && !strchr(" \t\n[;=", *at))
            at++;
        if (at == word)
            return false;
        if (*word == '.' || (*word >= '0' && *word <= '9'))
            continue;
        const size_t length = (size_t)(at - word) < sizeof name ? (size_t)(at - word) : sizeof name - 1;
        memcpy(name, word, length);
        name[length] = 0;
        return ebb_image_is_constant(name, end - at > 3 && !memcmp(at, "[1];", 4));
    }
    return false;
}

/* Whether ".global" is a declaration's: instructions have it behind another word (ld.global), and a parameter that points there behind
 * ".ptr" (the manual, "Kernel Parameter Attributes"). */
static bool declares(const char *text, const char *at, const char *behind, const char *end)
{
    if ((at > text && !strchr(" \t\n", at[-1])) || behind >= end || !strchr(" \t\n", *behind))
        return false;
    while (at > text && strchr(" \t\n", at[-1]))
        at--;
    return at - text < 4 || memcmp(at - 4, ".ptr", 4) != 0;
}

/* What has no .version is no PTX (the manual, "PTX Module Directives"), but something that this cannot read. */
static ebb_image_variables_t look_at_ptx(const char *text, size_t bytes)
{
    static const char word[] = ".global", version[] = ".version";
    const char *end = text + (bytes == SIZE_MAX ? strlen(text) : strnlen(text, bytes));
    if (!memmem(text, (size_t)(end - text), version, sizeof version - 1))
        return EBB_IMAGE_UNKNOWN;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), word, sizeof word - 1)); at++) {
        const char *behind = at + sizeof word - 1;
        if (declares(text, at, behind, end) && !declares_constant(behind, end))
            return EBB_IMAGE_SOME;
    }
    return EBB_IMAGE_NONE;
}

/* ---- fat binaries ---- */

static ebb_image_variables_t look_at_code(const void *code, size_t bytes, unsigned kind)
{
    return kind == EBB_FATBIN_ELF ? look_at_elf(code, bytes) : look_at_ptx(code, bytes);
}

static ebb_image_variables_t look_at_part(const ebb_fatbin_part_t *p, bool may_unpack)
{
    if (!p->packing)
        return look_at_code(p->code, p->bytes, p->kind);
    if (!may_unpack)
        return EBB_IMAGE_PACKED;
    void *unpacked = ebb_fatbin_unpack(p);
    if (!unpacked)
        return EBB_IMAGE_UNKNOWN;
    ebb_image_variables_t found = look_at_code(unpacked, p->unpacked_bytes, p->kind);
    free(unpacked);
    return found;
}

/* All parts of one kind. UNKNOWN: there are none, or it is damaged. */
static ebb_image_variables_t look_at_parts(const void *fat, unsigned kind, bool may_unpack)
{
    ebb_image_variables_t found = EBB_IMAGE_NONE;
    ebb_fatbin_part_t part;
    size_t at = 0;
    unsigned count = 0;
    int more;
    while ((more = ebb_fatbin_next(fat, &at, &part)) > 0) {
        if (part.kind != kind)
            continue;
        found = worse(found, look_at_part(&part, may_unpack));
        count++;
    }
    return count && !more ? found : EBB_IMAGE_UNKNOWN;
}

/* Byte by byte up to the first that differs: a text may be shorter. */
static bool starts_with(const void *image, const void *magic, size_t bytes)
{
    const unsigned char *a = image, *b = magic;
    size_t i = 0;
    while (i < bytes && a[i] == b[i])
        i++;
    return i == bytes;
}

ebb_image_variables_t ebb_image_variables(const void *image, bool may_unpack)
{
    static const uint32_t wrapper = FATBINC_MAGIC, fat = EBB_FATBIN_MAGIC;
    if (!image)
        return EBB_IMAGE_UNKNOWN;
    if (starts_with(image, &wrapper, sizeof wrapper))
        return ebb_image_variables(((const __fatBinC_Wrapper_t *)image)->data, may_unpack);
    if (starts_with(image, &fat, sizeof fat)) {
        /* PTX is translated where no cubin suits, and is of the same source. */
        ebb_image_variables_t found = look_at_parts(image, EBB_FATBIN_ELF, may_unpack);
        return found == EBB_IMAGE_UNKNOWN ? look_at_parts(image, EBB_FATBIN_PTX, may_unpack) : found;
    }
    return starts_with(image, ELFMAG, SELFMAG) ? look_at_elf(image, SIZE_MAX) : look_at_ptx(image, SIZE_MAX);
}

/* fatbin.c: fat binaries, of which PTX is taken. Of machine code in them no more than names is read (library.c). The outer layout is that of the toolkit's
 * fatbinary_section.h, the inner one what nvcc 11 to 13 write and softgpu-clang++ writes as well. */
#include "softgpu/driver/module/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fatbinary_section.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { PTX = 1, BY_LZ4 = 0x2000, BY_ZSTD = 0x8000 };

typedef struct header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of all entries */
} header_t;

typedef struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t packed_bytes, unused[2], architecture, name[2];
    uint64_t flags, more, unpacked_bytes;
} entry_t;

bool sg_fatbin_open(const void *image, const char **at, size_t *bytes)
{
    header_t header;
    const char *p = image;
    uint32_t magic;
    memcpy(&magic, p, sizeof magic);
    if (magic == FATBINC_MAGIC) {
        __fatBinC_Wrapper_t wrapper;
        memcpy(&wrapper, p, sizeof wrapper);
        p = (const char *)wrapper.data;
        memcpy(&magic, p, sizeof magic);
    }
    if (magic != SG_FATBIN_MAGIC)
        return false;
    memcpy(&header, p, sizeof header);
    *at = p;
    *bytes = header.header_bytes + (size_t)header.bytes;
    return true;
}

bool sg_elf_open(const void *image, size_t *bytes)
{
    Elf64_Ehdr head;
    if (memcmp(image, ELFMAG, SELFMAG))
        return false;
    memcpy(&head, image, sizeof head);
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr))
        return false;
    *bytes = head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
    return true;
}

bool sg_image_next(const void *image, size_t *at, sg_part_t *out)
{
    header_t header;
    entry_t entry;
    const char *fat;
    size_t all;
    if (sg_elf_open(image, &all)) {
        *out = (sg_part_t){.at = image, .bytes = all};
        return !(*at)++;
    }
    if (!sg_fatbin_open(image, &fat, &all))
        return false;
    memcpy(&header, fat, sizeof header);
    *at = *at ? *at : header.header_bytes;
    if (*at >= all || all - *at < sizeof entry)
        return false;
    memcpy(&entry, fat + *at, sizeof entry);
    const size_t left = all - *at;
    if (entry.header_bytes < sizeof entry || entry.header_bytes > left ||
        entry.bytes > left - entry.header_bytes)
        return false;
    *out = (sg_part_t){.ptx = entry.kind == PTX,
                       .packed = entry.flags & (BY_LZ4 | BY_ZSTD),
                       .by_zstd = entry.flags & BY_ZSTD,
                       .packed_bytes = entry.packed_bytes,
                       .unpacked_bytes = entry.unpacked_bytes,
                       .architecture = entry.architecture,
                       .at = fat + *at + entry.header_bytes,
                       .bytes = entry.bytes};
    *at += entry.header_bytes + entry.bytes;
    return true;
}

static bool unpack_lz4(const sg_part_t *part, char *out)
{
    void *library = dlopen("liblz4.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*unpack)(const char *, char *, int, int) = NULL;
    if (library)
        *(void **)&unpack = dlsym(library, "LZ4_decompress_safe");
    return unpack && part->unpacked_bytes < INT_MAX &&
           unpack(part->at, out, (int)part->packed_bytes, (int)part->unpacked_bytes) ==
               (int)part->unpacked_bytes;
}

static bool unpack_zstd(const sg_part_t *part, char *out)
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    size_t (*unpack)(void *, size_t, const void *, size_t) = NULL;
    if (library)
        *(void **)&unpack = dlsym(library, "ZSTD_decompress");
    return unpack && unpack(out, part->unpacked_bytes, part->at, part->packed_bytes) == part->unpacked_bytes;
}

char *sg_part_unpack(const sg_part_t *part)
{
    char *out =
        part->unpacked_bytes && part->packed_bytes <= part->bytes ? malloc(part->unpacked_bytes + 1) : NULL;
    if (out && (part->by_zstd ? unpack_zstd(part, out) : unpack_lz4(part, out)))
        return out;
    free(out);
    return NULL;
}

const char *sg_fatbin_ptx(const void *image, size_t *bytes)
{
    sg_part_t part, best = {.at = NULL};
    for (size_t at = 0; sg_image_next(image, &at, &part);)
        if (part.ptx && part.architecture <= sg.config.arch && part.architecture >= best.architecture)
            best = part;
    if (best.at && best.packed)
        sg_log(2, "PTX in a fat binary is not read: it is compressed, as NVIDIA's tools leave it");
    if (!best.at || best.packed)
        return NULL;
    *bytes = strnlen(best.at, best.bytes);
    return best.at;
}

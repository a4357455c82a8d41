/* fatbin.c: fat binaries, of which PTX is taken. Machine code in them is not read. The outer layout is that of the toolkit's
 * fatbinary_section.h, the inner one what nvcc 11 to 13 write and softgpu-clang++ writes as well. */
#include "softgpu/driver/module/module.h"

#include <fatbinary_section.h>
#include <string.h>

enum { PTX = 1, PACKED = 0x2000 | 0x8000 /* by LZ4, by zstd */ };

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

const char *sg_fatbin_ptx(const void *image, size_t *bytes)
{
    header_t header;
    entry_t entry;
    const char *fat, *found = NULL;
    size_t all, at;
    uint32_t best = 0;
    bool packed = false;
    if (!sg_fatbin_open(image, &fat, &all))
        return NULL;
    memcpy(&header, fat, sizeof header);
    for (at = header.header_bytes; at < all && all - at >= sizeof entry;
         at += entry.header_bytes + entry.bytes) {
        memcpy(&entry, fat + at, sizeof entry);
        const size_t left = all - at;
        if (entry.header_bytes < sizeof entry || entry.header_bytes > left ||
            entry.bytes > left - entry.header_bytes)
            break;
        if (entry.kind != PTX || entry.architecture > sg.config.arch || entry.architecture < best)
            continue;
        best = entry.architecture;
        packed = entry.flags & PACKED;
        found = fat + at + entry.header_bytes;
        *bytes = strnlen(found, entry.bytes);
    }
    if (found && packed)
        sg_log(2, "PTX in a fat binary is not read: it is compressed, as NVIDIA's tools leave it");
    return packed ? NULL : found;
}

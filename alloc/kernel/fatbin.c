#include "alloc/kernel/code.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "alloc/base/libc_symbol.h"

enum { PACKED_LZ4 = 0x2000, PACKED_ZSTD = 0x8000 };

typedef struct fat {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of all parts */
} fat_t;

typedef struct part {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t packed_bytes, unused[2], architecture, name[2];
    uint64_t flags, more, unpacked_bytes;
} part_t;

typedef size_t (*zstd_fn)(void *to, size_t room, const void *from, size_t bytes);
typedef int (*lz4_fn)(const char *from, char *to, int bytes, int room);

static void *function_of(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    return handle ? ebb_real_dlsym(handle, name) : NULL;
}

void *ebb_fatbin_unpack(const ebb_fatbin_part_t *p)
{
    enum { LARGEST = 1 << 30 };
    const size_t bytes = p->packed_bytes, unpacked = p->unpacked_bytes;
    const bool zstd = p->packing & PACKED_ZSTD;
    if (bytes > p->bytes)
        return NULL;
    char *to = unpacked && unpacked < LARGEST && bytes < LARGEST ? malloc(unpacked + 1) : NULL;
    void *function = to ? zstd ? function_of("libzstd.so.1", "ZSTD_decompress")
                               : function_of("liblz4.so.1", "LZ4_decompress_safe")
                        : NULL;
    bool good = false;
    if (function && zstd)
        good = ((zstd_fn)function)(to, unpacked, p->code, bytes) == unpacked;
    else if (function)
        good = ((lz4_fn)function)(p->code, to, (int)bytes, (int)unpacked) == (int)unpacked;
    if (good)
        to[unpacked] = 0;
    else
        free(to);
    return good ? to : NULL;
}

size_t ebb_fatbin_bytes(const void *fat)
{
    const fat_t *f = fat;
    return f->header_bytes + f->bytes;
}

int ebb_fatbin_next(const void *fat, size_t *at, ebb_fatbin_part_t *part)
{
    if (!*at)
        *at = ((const fat_t *)fat)->header_bytes;
    const part_t *p = (const void *)((const char *)fat + *at);
    const size_t end = ebb_fatbin_bytes(fat), left = *at < end ? end - *at : 0;
    if (left < sizeof *p)
        return 0;
    /* Structures in it are aligned as in memory. */
    if (left > PTRDIFF_MAX || (uintptr_t)p % 8 || p->header_bytes < sizeof *p || p->header_bytes > left ||
        p->bytes > left - p->header_bytes)
        return -1;
    *part = (ebb_fatbin_part_t){.kind = p->kind,
                                .architecture = p->architecture,
                                .packing = p->flags & (PACKED_LZ4 | PACKED_ZSTD),
                                .code = (const char *)p + p->header_bytes,
                                .bytes = p->bytes,
                                .packed_bytes = p->packed_bytes,
                                .unpacked_bytes = p->unpacked_bytes};
    *at += p->header_bytes + p->bytes;
    return 1;
}

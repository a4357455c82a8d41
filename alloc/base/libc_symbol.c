#include "alloc/base/libc_symbol.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sanitizers and other preloaded libraries call dlsym before libc is fit for use, so nothing here calls a function: the loaded objects are
 * read off the loader's list, and strings are compared by hand. */

ebb_libc_t ebb_libc;

typedef struct symbols {
    const ElfW(Sym) * table;
    const char *names;
    const uint32_t *hash; /* DT_GNU_HASH */
} symbols_t;

static bool same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

const char *ebb_base_name(const char *path)
{
    const char *base = path;
    for (; *path; path++)
        if (*path == '/')
            base = path + 1;
    return base;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

/* The layout of DT_GNU_HASH: bucket count, first symbol, filter words, shift; filter; buckets; chains. (The
 * format is described in the ELF notes of binutils; there is no standard text.) */
static const ElfW(Sym) * find_symbol(const symbols_t *s, const char *name)
{
    uint32_t buckets = s->hash[0], first = s->hash[1], filter_words = s->hash[2];
    const uint32_t *bucket = s->hash + 4 + filter_words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;
    uint32_t h = gnu_hash(name), i = buckets ? bucket[h % buckets] : 0;
    if (i < first)
        return NULL;
    for (;; i++) {
        uint32_t link = chain[i - first];
        if ((link | 1) == (h | 1) && same(s->names + s->table[i].st_name, name) && s->table[i].st_shndx)
            return &s->table[i];
        if (link & 1)
            return NULL;
    }
}

static void *find_in(const struct link_map *object, const char *name)
{
    symbols_t s = {0};
    /* glibc has relocated these addresses already. */
    for (const ElfW(Dyn) *d = object->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            s.table = (const ElfW(Sym) *)d->d_un.d_ptr;
        else if (d->d_tag == DT_STRTAB)
            s.names = (const char *)d->d_un.d_ptr;
        else if (d->d_tag == DT_GNU_HASH)
            s.hash = (const uint32_t *)d->d_un.d_ptr;
    }
    const ElfW(Sym) *found = s.table && s.names && s.hash ? find_symbol(&s, name) : NULL;
    return found ? (void *)(object->l_addr + found->st_value) : NULL;
}

static void *function(const char *name)
{
    for (const struct link_map *o = _r_debug.r_map; o; o = o->l_next) {
        /* Since glibc 2.34 dlsym lives in libc; before, in libdl. */
        const char *base = ebb_base_name(o->l_name);
        void *found = same(base, "libc.so.6") || same(base, "libdl.so.2") ? find_in(o, name) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

void ebb_libc_find(void)
{
    *(void **)&ebb_libc.dlsym = function("dlsym");
    *(void **)&ebb_libc.dlvsym = function("dlvsym");
}

void *ebb_real_dlsym(void *handle, const char *name)
{
    if (!ebb_libc.dlsym)
        ebb_libc_find();
    return ebb_libc.dlsym(handle, name);
}

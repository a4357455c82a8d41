/* hook.c: the answer to a look-up by dlsym or dlvsym; see hook.h. */
#include "alloc/hook.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "alloc/core.h"

/* ---- the real dlsym: by its name in libc's own symbol table ----
 *
 * Sanitizers and other preloaded libraries call dlsym before libc is fit for use, so nothing here calls a
 * function: the loaded objects are read off the loader's list, and strings are compared by hand.
 */

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

static const char *base_name(const char *path)
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

static void *libc_function(const char *name)
{
    for (const struct link_map *o = _r_debug.r_map; o; o = o->l_next) {
        /* Since glibc 2.34 dlsym lives in libc; before, in libdl. */
        const char *base = base_name(o->l_name);
        void *found = same(base, "libc.so.6") || same(base, "libdl.so.2") ? find_in(o, name) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

/* What the entries in dlsym.c jump to. Resolved on first use: whoever asks twice at once finds the same. */
__attribute__((visibility("hidden"))) void *ebb_next_dlsym, *ebb_next_dlvsym;

void *ebb_real_dlsym(void *handle, const char *name)
{
    if (!ebb_next_dlsym)
        ebb_next_dlsym = libc_function("dlsym");
    return ((void *(*)(void *, const char *))ebb_next_dlsym)(handle, name);
}

/* Whether the code is the driver's own. On WSL2 libcuda.so.1 looks up the functions of the driver that is behind it (HAMi-core pull request
 * 326): given ebb's in their place it would call ebb, which calls it, for ever. */
static bool is_of_driver(const void *code)
{
    static const char name[] = "libcuda.so";
    Dl_info info;
    return dladdr(code, &info) && info.dli_fname &&
           !strncmp(base_name(info.dli_fname), name, sizeof name - 1);
}

__attribute__((visibility("hidden"))) void *ebb_answer_dlsym(void *handle, const char *name,
                                                             const void *caller);

/* Called by the entries with the program's arguments, and where it goes on: ebb's answer, or NULL to go on to the real function. */
void *ebb_answer_dlsym(void *handle, const char *name, const void *caller)
{
    if (!ebb_next_dlsym || !ebb_next_dlvsym) {
        ebb_next_dlsym = libc_function("dlsym");
        ebb_next_dlvsym = libc_function("dlvsym");
    }
    if (!name || name[0] != 'c' || name[1] != 'u')
        return NULL;
    void *ours = ebb_hook_by_symbol(name);
    if (!ours || is_of_driver(caller))
        return NULL;
    void *real = ebb_real_dlsym(handle, name);
    if (!real || real == ours)
        return NULL;
    ebb_driver_seen(handle);
    return ebb_have_driver() ? ours : NULL;
}

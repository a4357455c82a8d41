/* symbols.c: where the shared variables of a kernel library are, from its symbol table: checked mode wants their bounds and
 * their names. A symbol without a size is dynamic shared memory (translate.c of softgpu/ptx). */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/simt/shadow.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t symbols_lock = PTHREAD_MUTEX_INITIALIZER;
static sg_symbols_t *known; /* guarded by symbols_lock; never freed */

static int by_offset(const void *a, const void *b)
{
    const sg_shared_symbol_t *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* "_ZZ7reverseE1s" says where it is; the variable's own name is what follows the last E: "s". A dot and a number behind it are the
 * translator's. */
static char *short_name(const char *mangled)
{
    const char *e = strncmp(mangled, "_ZZ", 3) ? NULL : strrchr(mangled, 'E');
    e = e ? e + 1 : mangled;
    while (*e >= '0' && *e <= '9')
        e++;
    e = *e && *e != '.' ? e : mangled;
    return strndup(e, strcspn(e, "."));
}

static void take_symbol(sg_symbols_t *s, const ElfW(Sym) * symbol, const char *name)
{
    if (!strcmp(name, "softgpu_shared_window") || !strcmp(name, "_ZN7softgpu4selfE") ||
        !strcmp(name, "_ZN7softgpu14current_launchE"))
        return;
    if (!symbol->st_size) {
        s->dynamic = symbol->st_value;
        return;
    }
    s->shared[s->count++] = (sg_shared_symbol_t){.offset = symbol->st_value,
                                                 .bytes = symbol->st_size,
                                                 .name = short_name(name),
                                                 .mangled = strdup(name)};
}

static void read_table(sg_symbols_t *s, const char *file, size_t bytes)
{
    const ElfW(Ehdr) *header = (const void *)file;
    const ElfW(Shdr) *sections = (const void *)(file + header->e_shoff);
    if (header->e_shoff + header->e_shnum * sizeof *sections > bytes)
        return;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum)
            continue;
        const ElfW(Sym) *symbols = (const void *)(file + sections[i].sh_offset);
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        const size_t count = sections[i].sh_size / sizeof *symbols;
        s->shared = calloc(count ? count : 1, sizeof *s->shared);
        for (size_t k = 0; s->shared && k < count; k++)
            if (ELF64_ST_TYPE(symbols[k].st_info) == STT_TLS && symbols[k].st_shndx != SHN_UNDEF)
                take_symbol(s, &symbols[k], names + symbols[k].st_name);
    }
    if (s->shared)
        qsort(s->shared, s->count, sizeof *s->shared, by_offset);
}

/* "_ZZ7reverseE1s" is reverse's; of a C++ kernel "_Z3addPf" it begins with _ZZ3addPfE, of a static one with _ZZL. */
bool sg_symbol_is_of(const sg_shared_symbol_t *symbol, const char *kernel)
{
    char plain[2048], encoded[2100];
    const char *at = symbol->mangled;
    if (!at || strncmp(at, "_ZZ", 3) != 0)
        return false;
    at += 3 + (at[3] == 'L');
    sg_name_plain(kernel, plain, sizeof plain);
    if (!strncmp(plain, "_Z", 2))
        snprintf(encoded, sizeof encoded, "%s", plain + 2);
    else
        snprintf(encoded, sizeof encoded, "%zu%s", strlen(plain), plain);
    const size_t length = strlen(encoded);
    return !strncmp(at, encoded, length) && at[length] == 'E';
}

static int find_image(struct dl_phdr_info *info, size_t size, void *out)
{
    sg_symbols_t *s = out;
    uintptr_t end = 0;
    (void)size;
    if ((void *)info->dlpi_addr != s->base)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz > end)
            end = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    s->image_begin = (char *)info->dlpi_addr;
    s->image_end = s->image_begin + end;
    return 1;
}

static sg_symbols_t *read_library(const Dl_info *where)
{
    struct stat facts;
    sg_symbols_t *s = calloc(1, sizeof *s);
    const int fd = open(where->dli_fname, O_RDONLY | O_CLOEXEC);
    char *file = MAP_FAILED;
    if (s && fd >= 0 && !fstat(fd, &facts))
        file = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (file == MAP_FAILED) {
        free(s);
        return NULL;
    }
    s->base = where->dli_fbase;
    s->dynamic = SIZE_MAX;
    dl_iterate_phdr(find_image, s);
    read_table(s, file, (size_t)facts.st_size);
    munmap(file, (size_t)facts.st_size);
    return s;
}

const sg_symbols_t *sg_symbols_of(const void *code)
{
    Dl_info where;
    if (!dladdr(code, &where))
        return NULL;
    pthread_mutex_lock(&symbols_lock);
    sg_symbols_t *s = known;
    while (s && s->base != where.dli_fbase)
        s = s->next;
    if (!s && (s = read_library(&where))) {
        s->next = known;
        known = s;
    }
    pthread_mutex_unlock(&symbols_lock);
    return s;
}

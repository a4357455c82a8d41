/* libebb.so in a process that never calls CUDA: malloc stays libc's, nothing is loaded, nothing of jemalloc
 * is to be seen. The program starts itself again, preloaded. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Which file a function is in. */
static const char *home(void *function)
{
    Dl_info info;
    return dladdr(function, &info) ? info.dli_fname : "nowhere";
}

static int note_library(struct dl_phdr_info *info, size_t size, void *seen)
{
    (void)size;
    if (strstr(info->dlpi_name, "libebb"))
        *(int *)seen |= 1;
    if (strstr(info->dlpi_name, "libhwloc") || strstr(info->dlpi_name, "libcuda") ||
        strstr(info->dlpi_name, "jemalloc"))
        *(int *)seen |= 2;
    return 0;
}

/* The child's answer: 0, or the number of what is wrong. */
static int look_around(void)
{
    static const char *const names[] = {"malloc",  "free",          "calloc",
                                        "realloc", "aligned_alloc", "posix_memalign"};
    int seen = 0;
    dl_iterate_phdr(note_library, &seen);
    if (seen != 1)
        return 10 + seen;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strstr(home(dlsym(RTLD_DEFAULT, names[i])), "libc.so"))
            return 20 + (int)i;
    if (dlsym(RTLD_DEFAULT, "mallocx") || dlsym(RTLD_DEFAULT, "mallctl") ||
        dlsym(RTLD_DEFAULT, "malloc_conf"))
        return 30;
    void *p = malloc(100000);
    free(p);
    return p ? 0 : 40;
}

static void preloaded_process_keeps_its_malloc(void **state)
{
    (void)state;
    if (SANITIZED)
        skip(); /* malloc is the sanitizer's */
    pid_t child = fork();
    if (!child) {
        setenv("LD_PRELOAD", EBB_LIBRARY, 1);
        setenv("MALLOC_CONF", "junk:true,abort_conf:true,no_such_option:1", 1); /* the program's business */
        execl("/proc/self/exe", "test_preload", "look", (char *)NULL);
        _exit(99);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static char *read_library(void)
{
    FILE *f = fopen(EBB_LIBRARY, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size_t bytes = (size_t)ftell(f);
    rewind(f);
    char *image = malloc(bytes);
    assert_true(image && fread(image, 1, bytes, f) == bytes);
    fclose(f);
    return image;
}

static const Elf64_Shdr *section(const char *image, unsigned type)
{
    const Elf64_Ehdr *header = (const void *)image;
    const Elf64_Shdr *sections = (const void *)(image + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == type)
            return &sections[i];
    fail_msg("section of type %u is missing", type);
    return NULL;
}

/* What it defines for others: the hooks, ebb.h's functions (packaging/check_elf.sh compares them) and the node that those are in.
 * What it needs: libc. */
static void library_shows_the_hooks_and_nothing_else(void **state)
{
    (void)state;
    char *image = read_library();
    const Elf64_Shdr *table = section(image, SHT_DYNSYM), *dynamic = section(image, SHT_DYNAMIC);
    const Elf64_Shdr *all = (const void *)(image + ((const Elf64_Ehdr *)image)->e_shoff);
    const char *names = image + all[table->sh_link].sh_offset;
    const Elf64_Sym *symbol = (const void *)(image + table->sh_offset);
    int hooks = 0;
    for (size_t i = 1; i < table->sh_size / sizeof *symbol; i++) {
        const char *name = names + symbol[i].st_name;
        if (symbol[i].st_shndx == SHN_UNDEF)
            continue;
        hooks++;
        if (strncmp(name, "cu", 2) && strncmp(name, "nccl", 4) && strcmp(name, "dlsym") &&
            strcmp(name, "dlvsym") && strcmp(name, "InitializeInjectionNvtx2") && strncmp(name, "ebb_", 4) &&
            strcmp(name, "EBB_1"))
            fail_msg("libebb.so exports %s", name);
    }
    assert_true(hooks > 2);
    const Elf64_Dyn *entry = (const void *)(image + dynamic->sh_offset);
    for (; entry->d_tag != DT_NULL; entry++) {
        const char *name = names + entry->d_un.d_val;
        if (!SANITIZED && entry->d_tag == DT_NEEDED && !strstr(name, "libc.so") && !strstr(name, "ld-linux"))
            fail_msg("libebb.so needs %s", name);
    }
    free(image);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "look"))
        return look_around();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preloaded_process_keeps_its_malloc),
        cmocka_unit_test(library_shows_the_hooks_and_nothing_else),
    };
    return cmocka_run_group_tests_name("preload", tests, NULL, NULL);
}

/* kernels.c [--known] FILE: the kernels of all fat binaries in FILE, a program or library of nvcc's or a fat binary itself, as the source of a
 * kernel library (softgpu/kernel_abi.h) that has them by name and parameters, and in which they do nothing. On stderr how many there are.
 * --known: instead a table of those of PyTorch's with structures that say what is meant (ckpt/trace/layout.h), and how many of them ebb knows.
 *
 * Where a cubin has the parameters: section .nv.info.KERNEL is a list of attributes, each of a byte that tells the form, one that
 * tells which it is, and a word of 16 bits: a value, or in form 4 the length of what follows. Attribute 0x17 is a parameter (12 bytes): index,
 * its number and its offset (16 bits each), its size in the upper 14 bits.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "fatbin.h"
#include "hook.h"
#include "layout.h"

enum { FORM_SIZED = 4, ATTRIBUTE_PARAMETER = 0x17, ATTRIBUTE_PARAMETER_LARGE = 0x45, MOST_PARAMETERS = 1024 };

typedef struct kernel {
    char *name;
    ebb_layout_parameter_t *parameter;
    unsigned count;
} kernel_t;

static struct {
    kernel_t *kernel;
    size_t count, room;
    unsigned
        not_read; /* kernels with attributes that are not understood, and cubins that cannot be unpacked */
} found;

/* What fatbin.c asks for; there is nothing to hook here. */
void *ebb_real_dlsym(void *handle, const char *name)
{
    return dlsym(handle, name);
}

static void *grown(void *at, size_t bytes)
{
    void *more = realloc(at, bytes);
    if (!more)
        abort();
    return more;
}

static uint16_t half_at(const unsigned char *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

/* -1: there is more than this knows. */
static int read_parameters(const unsigned char *at, size_t bytes, ebb_layout_parameter_t *parameter)
{
    const unsigned char *end = at + bytes;
    int count = 0;
    while (end - at >= 4) {
        const unsigned form = at[0], attribute = at[1], length = form == FORM_SIZED ? half_at(at + 2) : 0;
        at += 4;
        if (length > end - at || (form == FORM_SIZED && attribute == ATTRIBUTE_PARAMETER_LARGE))
            return -1;
        if (form == FORM_SIZED && attribute == ATTRIBUTE_PARAMETER && length == 12) {
            const unsigned number = half_at(at + 4);
            if (number >= MOST_PARAMETERS)
                return -1;
            parameter[number] = (ebb_layout_parameter_t){half_at(at + 6), half_at(at + 10) >> 2};
            count = (int)number >= count ? (int)number + 1 : count;
        }
        at += length;
    }
    return count;
}

static void add_kernel(const char *name, const unsigned char *info, size_t bytes)
{
    ebb_layout_parameter_t parameter[MOST_PARAMETERS] = {{0, 0}};
    const int count = read_parameters(info, bytes, parameter);
    if (count < 0) {
        found.not_read++;
        return;
    }
    if (found.count == found.room) {
        found.room = found.room ? 2 * found.room : 1024;
        found.kernel = grown(found.kernel, found.room * sizeof *found.kernel);
    }
    kernel_t *k = &found.kernel[found.count++];
    *k = (kernel_t){grown(NULL, strlen(name) + 1), grown(NULL, (size_t)(count + 1) * sizeof *parameter),
                    (unsigned)count};
    strcpy(k->name, name);
    memcpy(k->parameter, parameter, (size_t)count * sizeof *parameter);
}

static const Elf64_Shdr *sections_of(const char *elf, const char **names)
{
    const Elf64_Ehdr *h = (const void *)elf;
    const Elf64_Shdr *section = (const void *)(elf + h->e_shoff);
    *names = elf + section[h->e_shstrndx].sh_offset;
    return section;
}

static void read_cubin(const char *elf)
{
    static const char info[] = ".nv.info.";
    const char *names;
    const Elf64_Shdr *section = sections_of(elf, &names);
    for (unsigned i = 0; i < ((const Elf64_Ehdr *)(const void *)elf)->e_shnum; i++) {
        const char *name = names + section[i].sh_name;
        if (!strncmp(name, info, sizeof info - 1))
            add_kernel(name + sizeof info - 1, (const unsigned char *)elf + section[i].sh_offset,
                       section[i].sh_size);
    }
}

/* All cubins: some kernels are there for some architectures only, and the rest have the same parameters in all. */
static void read_fat_binary(const void *fat)
{
    ebb_fatbin_part_t part;
    size_t at = 0;
    while (ebb_fatbin_next(fat, &at, &part) > 0) {
        if (part.kind != EBB_FATBIN_ELF)
            continue;
        char *unpacked = part.packing ? ebb_fatbin_unpack(&part) : NULL;
        if (unpacked || !part.packing)
            read_cubin(unpacked ? unpacked : part.code);
        else
            found.not_read++;
        free(unpacked);
    }
}

static void read_fat_binaries(const char *at, const char *end)
{
    static const uint32_t magic = EBB_FATBIN_MAGIC;
    while (end - at >= 16) {
        if (memcmp(at, &magic, sizeof magic)) { /* between them is what aligns the next */
            at += 8;
            continue;
        }
        read_fat_binary(at);
        at += ebb_fatbin_bytes(at);
    }
}

static void read_file(const char *file, size_t bytes)
{
    const char *names;
    if (memcmp(file, ELFMAG, SELFMAG)) {
        read_fat_binaries(file, file + bytes);
        return;
    }
    const Elf64_Shdr *section = sections_of(file, &names);
    for (unsigned i = 0; i < ((const Elf64_Ehdr *)(const void *)file)->e_shnum; i++)
        if (!strcmp(names + section[i].sh_name, ".nv_fatbin"))
            read_fat_binaries(file + section[i].sh_offset, file + section[i].sh_offset + section[i].sh_size);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const kernel_t *)a)->name, ((const kernel_t *)b)->name);
}

/* Several modules may have a kernel of one name: templates, as they do here, have the same parameters then. */
static size_t drop_repeated(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < found.count; i++)
        if (!i || by_name(&found.kernel[i], &found.kernel[i - 1]))
            found.kernel[kept++] = found.kernel[i];
    return kept;
}

static void write_library(void)
{
    puts("#include \"softgpu/kernel_abi.h\"\n"
         "static void nothing(const softgpu_launch_t *l, uint64_t first, uint64_t count)\n"
         "{\n    (void)l, (void)first, (void)count;\n}");
    for (size_t i = 0; i < found.count; i++) {
        const kernel_t *k = &found.kernel[i];
        printf("static const softgpu_param_t p%zu[] = {", i);
        for (unsigned j = 0; j < k->count; j++)
            printf("{%u, %u}, ", k->parameter[j].offset_bytes, k->parameter[j].size_bytes);
        printf("{0, 0}};\nstatic const softgpu_kernel_t k%zu = {.name = \"%s\", .param_count = %u, .params = "
               "p%zu,\n"
               "    .run = {nothing, nothing, nothing}, .size_independent = 1};\n",
               i, k->name, k->count, i);
    }
    puts("static const softgpu_kernel_t *const kernels[] = {");
    for (size_t i = 0; i < found.count; i++)
        printf("&k%zu, ", i);
    puts("};\nsoftgpu_kernel_table_t softgpu_kernel_table = {SOFTGPU_ABI_VERSION, sizeof kernels / sizeof "
         "*kernels, kernels, 0, 0};");
}

/* As far as their names tell, kernels with such structures; the first of each that is not known. */
static void write_known(void)
{
    static const char *const families[] = {
        "CatArrayBatchedCopy", "multi_tensor_apply_kernel", "_cleanupI",    "gpu_kernel_impl",
        "16OffsetCalculatorI", "13reduce_kernelI",          "10TensorInfoI"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        const char *unknown = NULL;
        unsigned all = 0, known = 0;
        for (size_t i = 0; i < found.count; i++) {
            const kernel_t *k = &found.kernel[i];
            ebb_layout_t layout;
            if (!strstr(k->name, "2at6native") || !strstr(k->name, families[f]) ||
                (!strcmp(families[f], "gpu_kernel_impl") && !strstr(k->name, "18elementwise_kernelI")))
                continue;
            ebb_layout_make(k->name, k->parameter, k->count, &layout);
            all++;
            known += layout.count > 0;
            unknown = layout.count || unknown ? unknown : k->name;
        }
        printf("%-26s %5u of %5u%s%s\n", families[f], known, all, unknown ? "; not " : "",
               unknown ? unknown : "");
    }
}

int main(int argc, char **argv)
{
    struct stat about;
    const bool known = argc == 3 && !strcmp(argv[1], "--known");
    const int f = argc == 2 || known ? open(argv[argc - 1], O_RDONLY) : -1;
    if (f < 0 || fstat(f, &about) || about.st_size < (off_t)sizeof(Elf64_Ehdr)) {
        fprintf(stderr, "kernels [--known] FILE: a program, library or fat binary of nvcc's\n");
        return 2;
    }
    const char *file = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, f, 0);
    if (file == MAP_FAILED)
        return 2;
    read_file(file, (size_t)about.st_size);
    if (found.count) {
        qsort(found.kernel, found.count, sizeof *found.kernel, by_name);
        found.count = drop_repeated();
        if (known)
            write_known();
        else
            write_library();
    }
    fprintf(stderr, "%s: %zu kernels, %u not read\n", argv[argc - 1], found.count, found.not_read);
    return found.count && !found.not_read ? 0 : 1;
}

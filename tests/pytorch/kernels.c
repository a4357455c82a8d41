/* kernels.c [--known] FILE: the kernels of all fat binaries in FILE, a program or library of nvcc's or a fat binary itself, as the source of a
 * kernel library (softgpu/kernel_abi.h) that has them by name and parameters, and in which they do nothing. On stderr how many there are.
 * --known: instead a table of those of PyTorch's with structures that say what is meant (ckpt/run/tracker/tracker.h), and how many of them ebb knows.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/run/tracker/tracker.h"
#include "cubins.h"

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

static void *grown(void *at, size_t bytes)
{
    void *more = realloc(at, bytes);
    if (!more)
        abort();
    return more;
}

/* All cubins: some kernels are there for some architectures only, and the rest have the same parameters in all. */
static void add_kernel(void *context, const cubins_kernel_t *read)
{
    (void)context;
    if (found.count == found.room) {
        found.room = found.room ? 2 * found.room : 1024;
        found.kernel = grown(found.kernel, found.room * sizeof *found.kernel);
    }
    kernel_t *k = &found.kernel[found.count++];
    *k = (kernel_t){grown(NULL, strlen(read->name) + 1),
                    grown(NULL, (read->count + 1) * sizeof *k->parameter), read->count};
    strcpy(k->name, read->name);
    for (unsigned i = 0; i < read->count; i++)
        k->parameter[i] =
            (ebb_layout_parameter_t){read->parameter[i].offset_bytes, read->parameter[i].size_bytes};
}

static void add_unread(void *context, unsigned architecture)
{
    (void)context, (void)architecture;
    found.not_read++;
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
        "CatArrayBatchedCopy", "multi_tensor_apply_kernel", "_cleanupI",        "gpu_kernel_impl",
        "16gpu_index_kernelI", "16OffsetCalculatorI",       "13reduce_kernelI", "10TensorInfoI"};
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
    static const cubins_visitor_t visitor = {.kernel = add_kernel, .unread = add_unread};
    const bool known = argc == 3 && !strcmp(argv[1], "--known");
    if ((argc != 2 && !known) || !cubins_visit(argv[argc - 1], &visitor)) {
        fprintf(stderr, "kernels [--known] FILE: a program, library or fat binary of nvcc's\n");
        return 2;
    }
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

/* library_kernels.c: what ebb would make of the kernels in NVIDIA's own libraries, which no program here can run: their parameters are
 * read from the files (tests/cubins.h). One JSON object on stdout.
 *
 *   library_kernels [--architecture N] [--one-in N] LIBRARY...     N: 90 for sm_90; of so many fat binaries one
 *   library_kernels --list LIBRARY...                              a line for each kernel: architecture, name, parameters as offset:size
 *
 * For each library how ebb judges its fat binaries (alloc/kernel/code.h), and for each architecture
 *   modules, kernels            those that can be read; "unread" cannot be
 *   first                       how many kernels have their first parameter at which offset
 *   structures                  kernels with parameters of 128 bytes and more, as a tensor map has
 *   may_hold_maps               those of them of which one lies at a multiple of 64 in the constant bank, as a tensor map does, and what contains one
 *   off_64                      those of them that a search at multiples of 64 of the parameter block misses, as ebb's was once
 *   words, most_words           that ebb looks up in a launch of each, all together, and of one
 *   map_places, most_map_places where ebb looks for a tensor map: from each parameter's own offset on, in steps of 64
 *   variables, too_large, no_parameters, may_repeat
 *                               kernels that ebb does not launch again (ckpt/run/profile/facts.c): the first of these reasons counts; may_repeat is
 *                               the rest, which is still to be proven
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/ebb_alloc.h"
#include "alloc/kernel/kernel.h"
#include "ckpt/run/replay/replay.h"
#include "cubins.h"

enum { ARCHITECTURES = 32, FIRSTS = 64 };

typedef struct counts {
    unsigned architecture;
    bool variables; /* of the module whose kernels come */
    unsigned long modules, unread, kernels, structures, may_hold_maps, off_64, words, most_words, map_places,
        most_map_places;
    unsigned long of_variables, too_large, no_parameters, may_repeat;
    struct {
        uint32_t offset;
        unsigned long kernels;
    } first[FIRSTS];
    unsigned first_count;
} counts_t;

typedef struct library {
    unsigned long images[EBB_IMAGE_UNKNOWN + 1], unread;
    counts_t of[ARCHITECTURES];
    unsigned count;
} library_t;

static counts_t *counts_of(library_t *l, unsigned architecture)
{
    unsigned i = 0;
    while (i < l->count && l->of[i].architecture != architecture)
        i++;
    if (i == ARCHITECTURES)
        abort();
    if (i == l->count)
        l->of[l->count++].architecture = architecture;
    return &l->of[i];
}

static void add_image(void *context, ebb_image_variables_t variables)
{
    ((library_t *)context)->images[variables]++;
}

static void add_module(void *context, unsigned architecture, ebb_image_variables_t variables)
{
    counts_t *c = counts_of(context, architecture);
    c->modules++;
    c->variables = variables != EBB_IMAGE_NONE;
}

static void add_unread(void *context, unsigned architecture)
{
    library_t *l = context;
    if (architecture)
        counts_of(l, architecture)->unread++;
    else
        l->unread++;
}

static void add_first(counts_t *c, uint32_t offset)
{
    unsigned i = 0;
    while (i < c->first_count && c->first[i].offset != offset)
        i++;
    if (i == FIRSTS)
        abort();
    c->first_count += i == c->first_count;
    c->first[i].offset = offset;
    c->first[i].kernels++;
}

static void keep_most(unsigned long *most, unsigned long value)
{
    *most = value > *most ? value : *most;
}

static void add_kernel(void *context, const cubins_kernel_t *k)
{
    counts_t *c = counts_of(context, k->architecture);
    bool structure = false, holds_maps = false, missed = false;
    unsigned long places = 0;
    size_t bytes = 0;
    for (unsigned i = 0; i < k->count; i++) {
        const cubins_parameter_t *p = &k->parameter[i];
        const size_t end = (size_t)p->offset_bytes + p->size_bytes;
        bytes = end > bytes ? end : bytes;
        if (p->size_bytes < EBB_TENSOR_MAP_BYTES)
            continue;
        const bool aligned = (k->bank_begin + p->offset_bytes) % EBB_TENSOR_MAP_ALIGN == 0;
        structure = true;
        holds_maps |= aligned;
        missed |= aligned && p->offset_bytes % EBB_TENSOR_MAP_ALIGN;
        places += (p->size_bytes - EBB_TENSOR_MAP_BYTES) / EBB_TENSOR_MAP_ALIGN + 1;
    }
    c->kernels++;
    c->structures += structure;
    c->may_hold_maps += holds_maps;
    c->off_64 += missed;
    c->words += bytes / 8;
    c->map_places += places;
    keep_most(&c->most_words, bytes / 8);
    keep_most(&c->most_map_places, places);
    if (k->count)
        add_first(c, k->parameter[0].offset_bytes);
    ++*(c->variables                       ? &c->of_variables
        : bytes > EBB_RELAUNCH_PARAM_BYTES ? &c->too_large
        : !bytes                           ? &c->no_parameters
                                           : &c->may_repeat);
}

static int by_architecture(const void *a, const void *b)
{
    const counts_t *x = a, *y = b;
    return (x->architecture > y->architecture) - (x->architecture < y->architecture);
}

static void print_counts(const counts_t *c)
{
    printf("      \"%u\": {\"modules\": %lu, \"unread\": %lu, \"kernels\": %lu, \"first\": {",
           c->architecture, c->modules, c->unread, c->kernels);
    for (unsigned i = 0; i < c->first_count; i++)
        printf("%s\"%u\": %lu", i ? ", " : "", c->first[i].offset, c->first[i].kernels);
    printf("},\n        \"structures\": %lu, \"may_hold_maps\": %lu, \"off_64\": %lu, \"words\": %lu, "
           "\"most_words\": %lu, "
           "\"map_places\": %lu, \"most_map_places\": %lu,\n"
           "        \"variables\": %lu, \"too_large\": %lu, \"no_parameters\": %lu, \"may_repeat\": %lu}",
           c->structures, c->may_hold_maps, c->off_64, c->words, c->most_words, c->map_places,
           c->most_map_places, c->of_variables, c->too_large, c->no_parameters, c->may_repeat);
}

static void print_library(const char *path, library_t *l)
{
    const char *slash = strrchr(path, '/');
    printf("    \"%s\": {\"fat_binaries\": {\"without_variables\": %lu, \"with\": %lu, \"unknown\": %lu}, "
           "\"unread\": %lu, "
           "\"architectures\": {",
           slash ? slash + 1 : path, l->images[EBB_IMAGE_NONE], l->images[EBB_IMAGE_SOME],
           l->images[EBB_IMAGE_UNKNOWN], l->unread);
    qsort(l->of, l->count, sizeof *l->of, by_architecture);
    for (unsigned i = 0; i < l->count; i++) {
        printf("%s\n", i ? "," : "");
        print_counts(&l->of[i]);
    }
    printf("}}");
}

static void list_kernel(void *context, const cubins_kernel_t *k)
{
    (void)context;
    printf("%u %s", k->architecture, k->name);
    for (unsigned i = 0; i < k->count; i++)
        printf(" %u:%u", k->parameter[i].offset_bytes, k->parameter[i].size_bytes);
    printf("\n");
}

static int usage(void)
{
    fprintf(stderr, "library_kernels [--architecture N] [--one-in N] [--list] LIBRARY...\n");
    return 2;
}

int main(int argc, char **argv)
{
    cubins_visitor_t visitor = {
        .image = add_image, .module = add_module, .kernel = add_kernel, .unread = add_unread};
    bool list = false;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--list"))
            list = true;
        else if (!strcmp(argv[i], "--architecture") && i + 1 < argc)
            visitor.architecture = (unsigned)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--one-in") && i + 1 < argc)
            visitor.one_in = (unsigned)atoi(argv[++i]);
        else
            return usage();
    }
    if (i == argc)
        return usage();
    if (list)
        visitor = (cubins_visitor_t){
            .kernel = list_kernel, .architecture = visitor.architecture, .one_in = visitor.one_in};
    else
        printf("{\n  \"libraries\": {");
    for (const char *comma = ""; i < argc; i++, comma = ",") {
        library_t library = {.count = 0};
        visitor.context = &library;
        if (!list)
            printf("%s\n", comma);
        if (!cubins_visit(argv[i], &visitor)) {
            fprintf(stderr, "library_kernels: cannot read %s\n", argv[i]);
            return 1;
        }
        if (!list)
            print_library(argv[i], &library);
    }
    if (!list)
        printf("}\n}\n");
    return 0;
}

/* The binary interface: names, version nodes, RUNPATH; what becomes of names that are not provided. */
#define _GNU_SOURCE
#include "runtime_test.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

static void *library;

static int open_library(void **state)
{
    (void)state;
    library = dlopen("libcudart.so.13", RTLD_NOW);
    return library ? 0 : -1;
}

/* NAMES lists the real library's. Each must be there under its version node, and be the default version. */
static void every_name_has_the_version_node(void **state)
{
    (void)state;
    FILE *names = fopen(NAMES, "r");
    assert_non_null(names);
    char name[128];
    int count = 0;
    for (; fscanf(names, "%127s", name) == 1; count++) {
        void *versioned = dlvsym(library, name, "libcudart.so.13");
        if (!versioned)
            fail_msg("%s@libcudart.so.13 is missing", name);
        if (versioned != dlsym(library, name))
            fail_msg("%s has another default version", name);
    }
    fclose(names);
    assert_true(count > 400);
}

static void nothing_else_is_exported(void **state)
{
    (void)state;
    assert_null(dlsym(library, "rt_enter"));
    assert_null(dlsym(library, "registry_kernel"));
    assert_null(dlvsym(library, "cudaMalloc", "libcudart.so.12"));
}

static const char *dynamic_string(ElfW(Sxword) tag)
{
    struct link_map *map;
    const char *strings = NULL;
    const ElfW(Dyn) *found = NULL;
    assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            strings = (const char *)entry->d_un.d_ptr;
        if (entry->d_tag == tag)
            found = entry;
    }
    return found ? strings + found->d_un.d_val : NULL;
}

static void neighbours_are_found_by_runpath(void **state)
{
    (void)state;
    assert_string_equal(dynamic_string(DT_SONAME), "libcudart.so.13");
    assert_string_equal(dynamic_string(DT_RUNPATH), "$ORIGIN");
    assert_null(dynamic_string(DT_RPATH));
}

/* Runs with stderr in a file and returns what was written. */
static char said[4096];
static void capture(void (*run)(void))
{
    FILE *file = tmpfile();
    int saved = dup(2);
    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), 2);
    run();
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
}

static cudaError_t array_error[2];
static void allocate_arrays(void)
{
    cudaArray_t array;
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    for (int i = 0; i < 2; i++)
        array_error[i] = cudaMallocArray(&array, &format, 16, 16, 0);
}

static void unprovided_name_says_so_once_and_is_not_supported(void **state)
{
    (void)state;
    capture(allocate_arrays);
    assert_int_equal(array_error[0], cudaErrorNotSupported);
    assert_int_equal(array_error[1], cudaErrorNotSupported);
    assert_int_equal(cudaGetLastError(), cudaErrorNotSupported);
    char *first = strstr(said, "cudaMallocArray");
    assert_non_null(first);
    assert_null(strstr(first + 1, "cudaMallocArray"));
}

static void channel_description_is_returned(void **state)
{
    (void)state;
    struct cudaChannelFormatDesc d = cudaCreateChannelDesc(8, 16, 32, 64, cudaChannelFormatKindSigned);
    assert_true(d.x == 8 && d.y == 16 && d.z == 32 && d.w == 64 && d.f == cudaChannelFormatKindSigned);
}

static void versions_are_those_of_the_headers(void **state)
{
    (void)state;
    int runtime = 0, driver = 0;
    OK(cudaRuntimeGetVersion(&runtime));
    OK(cudaDriverGetVersion(&driver));
    assert_int_equal(runtime, CUDART_VERSION);
    assert_true(driver >= CUDART_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_has_the_version_node),
        cmocka_unit_test(nothing_else_is_exported),
        cmocka_unit_test(neighbours_are_found_by_runpath),
        cmocka_unit_test(unprovided_name_says_so_once_and_is_not_supported),
        cmocka_unit_test(channel_description_is_returned),
        cmocka_unit_test(versions_are_those_of_the_headers),
    };
    return cmocka_run_group_tests(tests, open_library, NULL);
}

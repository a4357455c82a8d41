/* Checked mode of kernels that come from PTX (faulty.ptx): the same mistakes, and nothing else, are reported, of lanes and lines of PTX.
 * rules: shared-race, bounds, uninitialised, warp-mask */
#include "simt_test.h"

#include <dlfcn.h>
#include <link.h>

/* A C library that tells nobody where thread-local storage is, which is a kernel's shared memory. glibc's is so at times: of a
 * module whose number is as high as the thread's table is long (the 15th, the 30th, ...) it says nothing from the moment at
 * which another one has been loaded to the thread's next access. */
typedef struct asking {
    int (*callback)(struct dl_phdr_info *info, size_t size, void *data);
    void *data;
} asking_t;

static int without_storage(struct dl_phdr_info *info, size_t size, void *asking)
{
    const asking_t *a = asking;
    struct dl_phdr_info told = *info;
    told.dlpi_tls_data = NULL;
    return a->callback(&told, size, a->data);
}

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
    int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *) =
        (int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return real(without_storage, &(asking_t){callback, data});
}

static const char *name;
static CUresult wanted;
static bool fresh; /* the buffer is not written before */
static size_t bytes = 64 * 4, neighbour_bytes = 64 * 3 * 4;
static char log_path[64];

static void run(void)
{
    CUdeviceptr p;
    if (fresh)
        CHILD_CHECK(cuMemAlloc(&p, bytes) == CUDA_SUCCESS);
    else
        p = child_zeros(bytes);
    CUdeviceptr neighbour = child_zeros(neighbour_bytes);
    CHILD_LAUNCH_SHARED(name, 2, 64, 400, &p, &neighbour);
    CHILD_CHECK(cuCtxSynchronize() == wanted);
}

static void run_checked(void)
{
    setenv("SOFTGPU_MODE", "checked", 1);
    child_device();
    run();
}

static void run_logged(void)
{
    setenv("SOFTGPU_ACCESS_LOG", log_path, 1);
    run_checked();
}

static void run_simt(void)
{
    child_device();
    run();
}

static void check(void (*body)(void), const char *kernel, CUresult result, const char *const *words)
{
    char log[4096];
    name = kernel;
    wanted = result;
    const int status = in_child(body, log, sizeof log);
    if (status)
        fail_msg("%s: child: status %d: %s", kernel, status, log);
    if (!*words && *log)
        fail_msg("%s: the log says: %s", kernel, log);
    for (; *words; words++)
        if (!strstr(log, *words))
            fail_msg("%s: the log does not say \"%s\": %s", kernel, *words, log);
}
#define CHECK(body, kernel, result, ...) check(body, kernel, result, (const char *const[]){__VA_ARGS__, NULL})

static void mistakes_are_reported(void **state)
{
    const CUresult address = CUDA_ERROR_ILLEGAL_ADDRESS, failed = CUDA_ERROR_LAUNCH_FAILED;
    (void)state;
    CHECK(run_checked, "race_read_after_write", failed, "race_read_after_write, block (", "thread (",
          "rule shared-race: ", " 4 bytes of shared s at 0x", "which thread ", ", at PTX:13");
    CHECK(run_checked, "race_of_lanes", failed, "rule shared-race: writes 4 bytes of shared s",
          "has written something else", "at PTX:18");
    CHECK(run_checked, "race_between_lanes", failed, "rule shared-race: reads 4 bytes of shared s",
          "at PTX:23");
    CHECK(run_checked, "behind_the_end", address, "behind_the_end, block (", "thread (63,0,0)",
          "rule bounds: writes 4 bytes at 0x", ": 0 bytes behind the end of a buffer of 256 bytes at 0x");
    CHECK(run_checked, "vector_behind_the_end", address, "rule bounds: reads 4 bytes at 0x");
    CHECK(run_checked, "atomic_behind_the_end", address, "rule bounds: changes 4 bytes at 0x");
    CHECK(run_checked, "copy_behind_the_end", address, "rule bounds: reads 16 bytes at 0x");
    CHECK(run_checked, "behind_shared", address, "rule bounds: writes 4 bytes at 0x",
          "at offset 256 of shared s, which has 256");
    CHECK(run_checked, "before_shared", address, "rule bounds: writes 4 bytes at 0x");
    CHECK(run_checked, "behind_dynamic", address,
          "rule bounds: writes 4 bytes at offset 400 of dynamic shared memory, of which there are 400");
    CHECK(run_checked, "behind_variable", address, "rule bounds: reads 4 bytes at 0x",
          "a buffer of 16 bytes");
    CHECK(run_checked, "behind_whole_variable", address, "rule bounds: reads 4 bytes at 0x",
          ": 0 bytes behind the end of a buffer of 256 bytes at 0x");
    CHECK(run_checked, "misaligned", CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned, block (",
          "writes 4 bytes at 0x", "at PTX:");
    CHECK(run_checked, "uninitialised_shared", failed, "thread (17,0,0)",
          "rule uninitialised: reads 4 bytes of shared s");
    CHECK(run_checked, "shuffle_from_gone", failed,
          "rule warp-mask: shfl.sync: lane 9 reads from lane 10, which has not come to it");
    CHECK(run_checked, "shuffle_from_other_group", failed,
          "rule warp-mask: shfl.sync: lane 15 reads from lane 16, which its mask 0x0000ffff does not name");
    fresh = true;
    CHECK(run_checked, "uninitialised", failed, "rule uninitialised: reads 4 bytes at offset 4");
    fresh = false;
}

/* Not even where sizes leave nothing between them. */
static void buffers_have_gaps_between_them(void **state)
{
    (void)state;
    bytes = neighbour_bytes = 512;
    CHECK(run_checked, "into_the_next", CUDA_ERROR_ILLEGAL_ADDRESS, "rule bounds: writes 4 bytes at 0x",
          ": 0 bytes behind the end of a buffer of 512 bytes at 0x");
    CHECK(run_checked, "before_the_next", CUDA_ERROR_ILLEGAL_ADDRESS, "rule bounds: reads 4 bytes at 0x",
          ": 4 bytes before a buffer of 512 bytes at 0x");
    bytes = 64 * 4;
    neighbour_bytes = 64 * 3 * 4;
}

static void nothing_else_is_reported(void **state)
{
    static const char *const kernels[] = {"ordered", "local_memory", "strided", "shuffle_in_groups"};
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        for (int seed = 0; seed < 4; seed++) {
            char text[8];
            snprintf(text, sizeof text, "%d", seed);
            setenv("SOFTGPU_SEED", text, 1);
            CHECK(run_checked, kernels[i], CUDA_SUCCESS, NULL);
            CHECK(run_simt, kernels[i], CUDA_SUCCESS, NULL);
        }
    unsetenv("SOFTGPU_SEED");
}

/* They may: only checked mode looks. */
static void simt_mode_does_not_look(void **state)
{
    static const char *const kernels[] = {"race_read_after_write", "behind_the_end", "uninitialised_shared",
                                          "shuffle_from_gone", "shuffle_from_other_group"};
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        CHECK(run_simt, kernels[i], CUDA_SUCCESS, NULL);
}

static void launches_are_logged_with_what_they_touch(void **state)
{
    (void)state;
    strcpy(log_path, "/tmp/softgpu-log-XXXXXX");
    const int fd = mkstemp(log_path);
    assert_true(fd >= 0);
    close(fd);
    CHECK(run_logged, "strided", CUDA_SUCCESS, NULL);
    FILE *f = fopen(log_path, "r");
    assert_non_null(f);
    expect_strided_logged(f, 2);
    fclose(f);
    unlink(log_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_reported),
        cmocka_unit_test(buffers_have_gaps_between_them),
        cmocka_unit_test(nothing_else_is_reported),
        cmocka_unit_test(simt_mode_does_not_look),
        cmocka_unit_test(launches_are_logged_with_what_they_touch),
    };
    static char folder[] = "/tmp/softgpu-ptx-XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    setenv("SOFTGPU_CACHE", folder, 1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}

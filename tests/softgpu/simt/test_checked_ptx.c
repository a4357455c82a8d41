/* Checked mode of kernels that come from PTX (faulty.ptx): the same mistakes, and nothing else, are reported, of lanes and lines of PTX.
 * rules: shared-race, bounds, uninitialised, warp-mask */
#include "simt_test.h"

static const char *name;
static CUresult wanted;
static bool fresh; /* the buffer is not written before */
static char log_path[64];

static void run(void)
{
    CUdeviceptr p;
    if (fresh)
        CHILD_CHECK(cuMemAlloc(&p, 64 * 4) == CUDA_SUCCESS);
    else
        p = child_zeros(64 * 4);
    CUdeviceptr neighbour = child_zeros(64 * 3 * 4);
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
          "at offset 264 of shared s, which has 256");
    CHECK(run_checked, "behind_dynamic", address,
          "rule bounds: writes 4 bytes at offset 400 of dynamic shared memory, of which there are 400");
    CHECK(run_checked, "behind_variable", address, "rule bounds: reads 4 bytes at 0x",
          "a buffer of 16 bytes");
    CHECK(run_checked, "misaligned", CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned, block (",
          "writes 4 bytes at 0x", "at PTX:");
    CHECK(run_checked, "uninitialised_shared", failed, "thread (17,0,0)",
          "rule uninitialised: reads 4 bytes of shared s");
    CHECK(run_checked, "shuffle_from_gone", failed,
          "rule warp-mask: shfl.sync: lane 9 reads from lane 10, which has not come to it");
    fresh = true;
    CHECK(run_checked, "uninitialised", failed, "rule uninitialised: reads 4 bytes at offset 4");
    fresh = false;
}

static void nothing_else_is_reported(void **state)
{
    static const char *const kernels[] = {"ordered", "local_memory", "strided"};
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
                                          "shuffle_from_gone"};
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        CHECK(run_simt, kernels[i], CUDA_SUCCESS, NULL);
}

static void launches_are_logged_with_what_they_touch(void **state)
{
    char line[8192], want[4096];
    (void)state;
    strcpy(log_path, "/tmp/softgpu-log-XXXXXX");
    const int fd = mkstemp(log_path);
    assert_true(fd >= 0);
    close(fd);
    CHECK(run_logged, "strided", CUDA_SUCCESS, NULL);
    FILE *f = fopen(log_path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_non_null(strstr(line, "\"kernel\":\"strided\""));
    assert_non_null(strstr(line, "\"grid\":[2,1,1],\"block\":[64,1,1],\"read\":[{\"buffer\":\"0x"));
    size_t at = (size_t)snprintf(want, sizeof want, "\"bytes\":768,\"ranges\":[");
    for (int i = 0; i < 64; i++)
        at += (size_t)snprintf(want + at, sizeof want - at, "%s[%d,%d]", i ? "," : "", 12 * i, 12 * i + 4);
    snprintf(want + at, sizeof want - at, "]}],\"write\":[{\"buffer\":\"0x");
    assert_non_null(strstr(line, want));
    assert_non_null(strstr(line, "\"bytes\":256,\"ranges\":[[0,256]]}]}\n"));
    fclose(f);
    unlink(log_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_reported),
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

/* What is wrong with a kernel ends it: the context's error, and what the log names. Each in a process of its own.
 * rules: divergent-barrier, warp-mask */
#include "simt_test.h"

static CUdeviceptr p;
static CUresult wanted;

static void begin(void)
{
    child_device();
    p = child_zeros(4096);
}

/* The launch fails so, and the error stays. */
static void expect_lost(void)
{
    CHILD_CHECK(cuCtxSynchronize() == wanted);
    CHILD_CHECK(cuCtxSynchronize() == wanted);
    CHILD_CHECK(cuMemFree(p) == wanted);
}

static void check(void (*body)(void), CUresult want, const char *const *words)
{
    char log[4096];
    wanted = want;
    const int status = in_child(body, log, sizeof log);
    if (status)
        fail_msg("child: status %d: %s", status, log);
    for (; *words; words++)
        if (!strstr(log, *words))
            fail_msg("the log does not say \"%s\": %s", *words, log);
}
#define CHECK(body, want, ...) check(body, want, (const char *const[]){__VA_ARGS__, NULL})

static int part_at;
static void run_divergent(void)
{
    begin();
    CHILD_LAUNCH("divergent_barrier", 1, 64, &p, &part_at);
    expect_lost();
}
static void barriers_at_different_places_are_reported(void **state)
{
    (void)state;
    part_at = 32;
    CHECK(run_divergent, CUDA_ERROR_LAUNCH_FAILED, "divergent_barrier, block (0,0,0), warp ",
          "rule divergent-barrier: warp ", "kernels.cu:");
    part_at = 16;
    CHECK(run_divergent, CUDA_ERROR_LAUNCH_FAILED, "divergent_barrier, block (0,0,0), warp 0",
          "rule warp-mask: bar.sync at ",
          "kernels.cu:", "lanes 0xffff0000 of warp 0 wait for lanes that do not come");
}

/* As hardware takes it, if that is wanted. */
static void run_tolerated(void)
{
    int got[64], lanes = 32;
    setenv("SOFTGPU_CHECK", "-divergent-barrier", 1);
    begin();
    CHILD_LAUNCH("divergent_barrier", 1, 64, &p, &lanes);
    CHILD_CHECK(cuMemcpyDtoH(got, p, sizeof got) == CUDA_SUCCESS);
    CHILD_CHECK(got[0] == 1 && got[63] == 2);
}
static void rule_of_barriers_can_be_switched_off(void **state)
{
    (void)state;
    char log[4096];
    assert_int_equal(in_child(run_tolerated, log, sizeof log), 0);
}

static void run_stuck(void)
{
    begin();
    CHILD_LAUNCH("barrier_against_shuffle", 2, 32, &p);
    expect_lost();
}
static void a_block_that_is_stuck_is_reported(void **state)
{
    (void)state;
    CHECK(run_stuck, CUDA_ERROR_LAUNCH_FAILED, "barrier_against_shuffle, block (",
          "rule warp-mask: shfl.sync at ",
          "kernels.cu:", "lanes 0x7fffffff of warp 0 wait for lanes that do not come");
}

static void run_without_caller(void)
{
    begin();
    CHILD_LAUNCH("mask_without_caller", 1, 32, &p);
    expect_lost();
}
static void a_mask_without_its_caller_is_reported(void **state)
{
    (void)state;
    CHECK(run_without_caller, CUDA_ERROR_LAUNCH_FAILED, "rule warp-mask",
          "lane 16 has mask 0x0000ffff, which does not name it", "kernels.cu:");
}

static void run_different_masks(void)
{
    begin();
    CHILD_LAUNCH("masks_that_differ", 1, 32, &p);
    expect_lost();
}
static void masks_that_do_not_match_are_reported(void **state)
{
    (void)state;
    CHECK(run_different_masks, CUDA_ERROR_LAUNCH_FAILED,
          "rule warp-mask: ", "lanes 0xffff0000 of warp 0 wait for lanes that do not come");
}

static void run_trap(void)
{
    int values[] = {0, 1, 2, 3};
    begin();
    CHILD_CHECK(cuMemcpyHtoD(p, values, sizeof values) == CUDA_SUCCESS);
    CHILD_LAUNCH("traps", 1, 4, &p);
    expect_lost();
}
static void trap_ends_the_launch(void **state)
{
    (void)state;
    CHECK(run_trap, CUDA_ERROR_LAUNCH_FAILED, "traps, block (0,0,0), thread (3,0,0): trap", "kernels.cu:");
}

static void run_assert(void)
{
    int values[] = {0, 3, 2, 1};
    begin();
    CHILD_CHECK(cuMemcpyHtoD(p, values, sizeof values) == CUDA_SUCCESS);
    CHILD_LAUNCH("asserts", 1, 4, &p);
    expect_lost();
}
static void assert_ends_the_launch(void **state)
{
    (void)state;
    CHECK(run_assert, CUDA_ERROR_ASSERT, "asserts, block (0,0,0), thread (1,0,0)", "p[threadIdx.x] != 3",
          "kernels.cu:");
}

static void run_wild(void)
{
    begin();
    CHILD_LAUNCH("wild_store", 2, 32, &p);
    expect_lost();
}
static void a_wild_store_names_block_and_warp(void **state)
{
    (void)state;
    CHECK(run_wild, CUDA_ERROR_ILLEGAL_ADDRESS, "wild_store, block (1,0,0), warp 0");
}

static void run_deep(void)
{
    int n = 10, far = 100000, got[64];
    begin();
    CHILD_LAUNCH("deep_recursion", 1, 64, &p, &n);
    CHILD_CHECK(cuMemcpyDtoH(got, p, sizeof got) == CUDA_SUCCESS);
    CHILD_LAUNCH("deep_recursion", 1, 1, &p, &far);
    expect_lost();
}
static void a_stack_that_runs_out_is_an_error_not_a_crash(void **state)
{
    (void)state;
    CHECK(run_deep, CUDA_ERROR_HARDWARE_STACK_ERROR, "deep_recursion, block (0,0,0), warp 0", "has run out");
}

/* After an error, other contexts and later launches are well: the device is reset with its primary context. */
static void run_again(void)
{
    int got[32];
    begin();
    CHILD_LAUNCH("wild_store", 2, 32, &p);
    CHILD_CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHILD_CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
    child_device();
    p = child_zeros(4096);
    CHILD_LAUNCH("reverse", 1, 32, &p);
    CHILD_CHECK(cuMemcpyDtoH(got, p, sizeof got) == CUDA_SUCCESS);
}
static void the_device_works_again_after_a_reset(void **state)
{
    (void)state;
    char log[4096];
    const int status = in_child(run_again, log, sizeof log);
    if (status)
        fail_msg("child: status %d: %s", status, log);
}

/* ---- modes ---- */

static void run_fast_only(void)
{
    CUfunction f;
    setenv("SOFTGPU_MODE", "fast", 1);
    begin();
    CHILD_CHECK(cuModuleGetFunction(&f, test_module, "indices") == CUDA_SUCCESS);
    CHILD_CHECK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&p}, NULL) ==
                CUDA_ERROR_NOT_SUPPORTED);
    CHILD_CHECK(cuModuleGetFunction(&f, test_module, "add_to_counter") == CUDA_SUCCESS);
    int by = 1;
    CHILD_CHECK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&by}, NULL) == CUDA_SUCCESS);
    CHILD_CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
}
static void fast_mode_refuses_what_is_not_marked(void **state)
{
    (void)state;
    CHECK(run_fast_only, CUDA_SUCCESS,
          "indices cannot run in fast mode: it is not marked BLOCK_SIZE_INDEPENDENT");
}

static void launch_of(const char *library)
{
    CUmodule m;
    CUfunction f;
    child_device();
    CHILD_CHECK(cuModuleLoad(&m, library) == CUDA_SUCCESS);
    CHILD_CHECK(cuModuleGetFunction(&f, m, "kernel") == CUDA_SUCCESS);
    CHILD_CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_NOT_SUPPORTED);
}
static void run_without_ptx(void)
{
    launch_of(WITHOUT_PTX "1");
}
static void run_without_units(void)
{
    launch_of(WITHOUT_PTX "0");
}
static void a_mode_without_code_is_an_error(void **state)
{
    const char *said = "kernel has no code for SIMT mode: its kernel library was built without Clang";
    (void)state;
    CHECK(run_without_ptx, CUDA_SUCCESS, said);
    CHECK(run_without_units, CUDA_SUCCESS, said);
}

static void run_block_override(void)
{
    unsigned got[8];
    int values[8];
    setenv("SOFTGPU_MODE", "simt", 1);
    setenv("SOFTGPU_BLOCK", "64", 1);
    begin();
    CHILD_LAUNCH("indices", 1, 8, &p); /* not marked: as launched */
    CHILD_CHECK(cuMemcpyDtoH(got, p, sizeof got) == CUDA_SUCCESS);
    CHILD_CHECK(got[7] == 7);
    int by = 3;
    CHILD_LAUNCH("add_to_counter", 1, 1, &by);
    CUdeviceptr counter;
    CHILD_CHECK(cuModuleGetGlobal(&counter, NULL, test_module, "counter") == CUDA_SUCCESS);
    CHILD_CHECK(cuMemcpyDtoH(values, counter, 4) == CUDA_SUCCESS);
    CHILD_CHECK(values[0] == 8);
}
static void block_sizes_are_overridden_for_marked_kernels_only(void **state)
{
    (void)state;
    char log[4096];
    const int status = in_child(run_block_override, log, sizeof log);
    if (status)
        fail_msg("child: status %d: %s", status, log);
}

/* A barrier that is missing shows under some order of the threads. */
static bool goes_wrong(int seed)
{
    int values[256], got[256];
    char text[16];
    for (int i = 0; i < 256; i++)
        values[i] = i;
    snprintf(text, sizeof text, "%d", seed);
    setenv("SOFTGPU_SEED", text, 1);
    begin();
    CHILD_CHECK(cuMemcpyHtoD(p, values, sizeof values) == CUDA_SUCCESS);
    CHILD_LAUNCH("reverse_unsynchronised", 1, 256, &p);
    CHILD_CHECK(cuMemcpyDtoH(got, p, sizeof got) == CUDA_SUCCESS);
    for (int i = 0; i < 256; i++)
        if (got[i] != 255 - i)
            return true;
    return false;
}
static int seed_to_try;
static void run_seed(void)
{
    _exit(goes_wrong(seed_to_try) ? 9 : 0);
}
static void a_missing_barrier_shows(void **state)
{
    (void)state;
    char log[4096];
    for (seed_to_try = 0; seed_to_try < 3; seed_to_try++)
        assert_int_equal(in_child(run_seed, log, sizeof log), 9);
}

/* ---- cooperative launches ---- */

static void run_cooperative(void)
{
    enum { BLOCKS = 7 };
    int got[BLOCKS];
    begin();
    CUdeviceptr part = child_zeros(4 * BLOCKS);
    void *args[] = {&p, &part};
    CHILD_CHECK(cuLaunchCooperativeKernel(child_kernel("grid_sum"), BLOCKS, 1, 1, 64, 1, 1, 0, NULL, args) ==
                CUDA_SUCCESS);
    CHILD_CHECK(cuMemcpyDtoH(got, p, sizeof got) == CUDA_SUCCESS);
    for (int b = 0; b < BLOCKS; b++)
        CHILD_CHECK(got[b] == BLOCKS * (BLOCKS + 1) / 2 * 100 + b + 1);
    CHILD_CHECK(cuLaunchCooperativeKernel(child_kernel("grid_sum"), 100000, 1, 1, 64, 1, 1, 0, NULL, args) ==
                CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    wanted = CUDA_ERROR_LAUNCH_FAILED;
    CHILD_LAUNCH("grid_sum", 2, 32, &p, &part);
    expect_lost();
}
static void a_cooperative_grid_has_a_barrier(void **state)
{
    (void)state;
    CHECK(run_cooperative, CUDA_ERROR_LAUNCH_FAILED, "grid_sum, block (", "trap");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barriers_at_different_places_are_reported),
        cmocka_unit_test(rule_of_barriers_can_be_switched_off),
        cmocka_unit_test(a_block_that_is_stuck_is_reported),
        cmocka_unit_test(a_mask_without_its_caller_is_reported),
        cmocka_unit_test(masks_that_do_not_match_are_reported),
        cmocka_unit_test(trap_ends_the_launch),
        cmocka_unit_test(assert_ends_the_launch),
        cmocka_unit_test(a_wild_store_names_block_and_warp),
        cmocka_unit_test(a_stack_that_runs_out_is_an_error_not_a_crash),
        cmocka_unit_test(the_device_works_again_after_a_reset),
        cmocka_unit_test(fast_mode_refuses_what_is_not_marked),
        cmocka_unit_test(a_mode_without_code_is_an_error),
        cmocka_unit_test(block_sizes_are_overridden_for_marked_kernels_only),
        cmocka_unit_test(a_missing_barrier_shows),
        cmocka_unit_test(a_cooperative_grid_has_a_barrier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Checked mode: each mistake is reported with what is needed to find it, and nothing else is reported.
 * rules: shared-race, bounds, uninitialised, alias-order */
#include "simt_test.h"

static CUdeviceptr p;
static CUresult wanted;
static const char *const nothing[] = {NULL};

static void begin(void)
{
    setenv("SOFTGPU_MODE", "checked", 1);
    child_device();
    p = child_zeros(64 * 4);
}

static void expect(CUresult result)
{
    CHILD_CHECK(cuCtxSynchronize() == result);
}

static void check(void (*body)(void), const char *const *words)
{
    char log[4096];
    const int status = in_child(body, log, sizeof log);
    if (status)
        fail_msg("child: status %d: %s", status, log);
    if (!*words && *log)
        fail_msg("the log says: %s", log);
    for (; *words; words++)
        if (!strstr(log, *words))
            fail_msg("the log does not say \"%s\": %s", *words, log);
}
#define CHECK(body, ...) check(body, (const char *const[]){__VA_ARGS__, NULL})

/* ---- races ---- */

static const char *name;
static int shared_bytes;
static void run_named(void)
{
    begin();
    CHILD_LAUNCH_SHARED(name, 2, 64, shared_bytes, &p);
    expect(wanted);
}

static void races_are_reported(void **state)
{
    (void)state;
    wanted = CUDA_ERROR_LAUNCH_FAILED;
    shared_bytes = 64;
    name = "race_read_after_write";
    CHECK(run_named, "race_read_after_write, block (", "thread (",
          "rule shared-race: ", " 4 bytes of shared s at 0x", "which thread ", ", and nothing orders the two",
          "faulty.cu:");
    name = "race_write_after_read";
    CHECK(run_named, "rule shared-race: writes 4 bytes of shared s at 0x", "has read");
    name = "race_write_after_write";
    CHECK(run_named, "rule shared-race: writes 4 bytes of shared s at 0x", "has written something else");
    name = "race_between_warps";
    CHECK(run_named, "rule shared-race: ", " 4 bytes of shared s at 0x");
    name = "race_on_dynamic";
    CHECK(run_named, "rule shared-race: ", " 1 bytes of shared memory at 0x");
    name = "race_with_atomic";
    CHECK(run_named, "rule shared-race");
}

/* In every order of the threads. */
static int seed;
static void run_no_race(void)
{
    char text[16];
    snprintf(text, sizeof text, "%d", seed);
    setenv("SOFTGPU_SEED", text, 1);
    begin();
    CHILD_LAUNCH_SHARED("no_race", 2, 64, 256, &p);
    expect(CUDA_SUCCESS);
}
static void what_is_ordered_is_not_reported(void **state)
{
    (void)state;
    for (seed = 0; seed < 5; seed++)
        check(run_no_race, nothing);
}

static void run_race_off(void)
{
    setenv("SOFTGPU_CHECK", "-shared-race", 1);
    name = "race_write_after_read";
    begin();
    CHILD_LAUNCH(name, 1, 64, &p);
    expect(CUDA_SUCCESS);
}
static void a_rule_can_be_switched_off(void **state)
{
    (void)state;
    check(run_race_off, nothing);
}

/* ---- bounds ---- */

static void run_behind_the_end(void)
{
    int n = 64;
    begin();
    CUdeviceptr neighbour = child_zeros(64 * 4);
    CHILD_LAUNCH("behind_the_end", 1, 64, &p, &n);
    expect(CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)neighbour;
}
/* The heap rounds to 512 bytes: no fault would tell. */
static void a_store_behind_a_buffer_is_reported(void **state)
{
    (void)state;
    CHECK(run_behind_the_end, "behind_the_end, block (0,0,0), thread (63,0,0)",
          "rule bounds: writes 4 bytes at 0x", ": 0 bytes behind the end of a buffer of 256 bytes at 0x",
          "faulty.cu:");
}

static void run_before(void)
{
    begin();
    CUdeviceptr second = child_zeros(64 * 4);
    CHILD_LAUNCH("before_the_beginning", 1, 64, &second, &p);
    expect(CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void a_load_before_a_buffer_is_reported(void **state)
{
    (void)state;
    CHECK(run_before, "before_the_beginning, block (0,0,0), thread (0,0,0)",
          "rule bounds: reads 4 bytes at 0x");
}

static void run_behind_shared(void)
{
    begin();
    CHILD_LAUNCH("behind_shared", 1, 64, &p);
    expect(CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void a_store_behind_a_shared_array_is_reported(void **state)
{
    (void)state;
    CHECK(run_behind_shared, "rule bounds: writes 4 bytes at 0x", "at offset 240 of shared s, which has 240");
}

static void run_behind_dynamic(void)
{
    int n = 100;
    begin();
    CHILD_LAUNCH_SHARED("behind_dynamic", 1, 64, 400, &p, &n);
    expect(CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void a_store_behind_dynamic_shared_memory_is_reported(void **state)
{
    (void)state;
    CHECK(run_behind_dynamic,
          "rule bounds: writes 4 bytes at offset 400 of dynamic shared memory, of which there are 400");
}

static void run_behind_variable(void)
{
    int at = 7;
    begin();
    CHILD_LAUNCH("behind_variable", 1, 64, &p, &at);
    expect(CUDA_SUCCESS);
    at = 8;
    CHILD_LAUNCH("behind_variable", 1, 64, &p, &at);
    expect(CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void a_load_behind_a_variable_is_reported(void **state)
{
    (void)state;
    CHECK(run_behind_variable, "rule bounds: reads 4 bytes at 0x",
          "0 bytes behind the end of a buffer of 32 bytes");
}

static void run_freed(void)
{
    begin();
    CUdeviceptr gone = child_zeros(64 * 4), kept = child_zeros(64 * 4);
    CHILD_CHECK(cuMemFree(gone) == CUDA_SUCCESS);
    CHILD_LAUNCH("copy_ints", 1, 64, &p, &gone);
    expect(CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)kept;
}
static void an_access_to_freed_memory_is_reported(void **state)
{
    (void)state;
    CHECK(run_freed, "rule bounds: reads 4 bytes at 0x", "at offset 0 of a buffer of 256 bytes at 0x",
          "which has been freed");
}

static void run_host(void)
{
    static int host[64];
    const void *from = host;
    begin();
    CHILD_LAUNCH("copy_ints", 1, 64, &p, &from);
    expect(CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void an_access_to_pageable_memory_is_reported(void **state)
{
    (void)state;
    CHECK(run_host, "rule bounds: reads 4 bytes at 0x", "host memory that is not pinned");
}

static void run_local(void)
{
    begin();
    CHILD_LAUNCH("local_of_another_thread", 1, 64, &p);
    expect(CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void an_access_to_another_threads_variable_is_reported(void **state)
{
    (void)state;
    CHECK(run_local, "rule bounds: reads 4 bytes at 0x", "a local variable of warp 0");
}

static void run_misaligned(void)
{
    begin();
    CHILD_LAUNCH("misaligned", 1, 1, &p);
    expect(CUDA_ERROR_MISALIGNED_ADDRESS);
}
static void a_misaligned_access_is_reported(void **state)
{
    (void)state;
    CHECK(run_misaligned, "misaligned, block (0,0,0), thread (0,0,0): writes 4 bytes at 0x", "faulty.cu:");
}

/* Rights that the page table cannot express are checked too; the address lies in a live mapping. */
static void run_read_only(void)
{
    const size_t chunk = 2 << 20;
    CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc desc = {.location = props.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h;
    CUdeviceptr a;
    begin();
    CHILD_CHECK(cuMemCreate(&h, chunk, &props, 0) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemAddressReserve(&a, 2 * chunk, 0, 0, 0) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemMap(a, chunk, 0, h, 0) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemMap(a + chunk, chunk, 0, h, 0) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemSetAccess(a, chunk, &desc, 1) == CUDA_SUCCESS);
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    CHILD_CHECK(cuMemSetAccess(a + chunk, chunk, &desc, 1) == CUDA_SUCCESS);
    CUdeviceptr alias = a + chunk;
    CHILD_LAUNCH("copy_ints", 1, 64, &a, &p);     /* written through one mapping ... */
    CHILD_LAUNCH("copy_ints", 1, 64, &p, &alias); /* ... and read through the other one */
    expect(CUDA_SUCCESS);
    CHILD_LAUNCH("copy_ints", 1, 64, &alias, &p);
    expect(CUDA_ERROR_ILLEGAL_ADDRESS);
}
static void access_rights_and_aliases_are_known(void **state)
{
    (void)state;
    CHECK(run_read_only, "rule bounds: writes 4 bytes at offset 0 of a mapping of 2097152 bytes at 0x",
          "whose access rights do not allow it");
}

/* ---- what was never written ---- */

static void run_uninitialised_shared(void)
{
    begin();
    CHILD_LAUNCH("uninitialised_shared", 1, 64, &p);
    expect(CUDA_ERROR_LAUNCH_FAILED);
}
static void an_uninitialised_shared_variable_is_reported(void **state)
{
    (void)state;
    CHECK(run_uninitialised_shared, "thread (17,0,0): rule uninitialised: reads 4 bytes of shared s at 0x");
}

static void run_uninitialised(void)
{
    CUdeviceptr fresh;
    begin();
    CHILD_CHECK(cuMemAlloc(&fresh, 256) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemsetD32(fresh, 1, 40) == CUDA_SUCCESS);
    CHILD_LAUNCH("copy_ints", 1, 40, &p, &fresh);
    expect(CUDA_SUCCESS);
    CHILD_LAUNCH("copy_ints", 1, 64, &p, &fresh);
    expect(CUDA_ERROR_LAUNCH_FAILED);
}
static void an_uninitialised_buffer_is_reported(void **state)
{
    (void)state;
    CHECK(run_uninitialised,
          "thread (40,0,0): rule uninitialised: reads 4 bytes at offset 160 of a buffer of 256 bytes at 0x");
}

/* Everything that writes counts; copies take along what is not there. */
static void run_initialised(void)
{
    CUdeviceptr a, b;
    CUstream s;
    int host[64] = {0};
    begin();
    CHILD_CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (int round = 0; round < 20; round++) { /* the pool gives the same memory again */
        CHILD_CHECK(cuMemAllocAsync(&a, 256, s) == CUDA_SUCCESS);
        CHILD_CHECK(cuMemAllocAsync(&b, 256, s) == CUDA_SUCCESS);
        CHILD_CHECK(cuMemcpyHtoDAsync(a, host, 128, s) == CUDA_SUCCESS);
        CHILD_CHECK(cuMemcpyDtoDAsync(b, a, 256, s) == CUDA_SUCCESS);
        CHILD_CHECK(cuLaunchKernel(child_kernel("copy_ints"), 1, 1, 1, 32, 1, 1, 0, s, (void *[]){&a, &b},
                                   NULL) == CUDA_SUCCESS);
        CHILD_CHECK(cuMemFreeAsync(b, s) == CUDA_SUCCESS);
        CHILD_CHECK(cuMemFreeAsync(a, s) == CUDA_SUCCESS);
    }
    expect(CUDA_SUCCESS);
    CUdeviceptr from = child_zeros(64 * 24), to;
    int make = 0;
    CHILD_CHECK(cuMemAlloc(&to, 64 * 24) == CUDA_SUCCESS);
    CHILD_LAUNCH("copy_structs", 1, 64, &to, &from, &make);
    make = 1;
    CHILD_LAUNCH("copy_structs", 1, 64, &to, &from, &make);
    CHILD_LAUNCH("copy_structs", 1, 64, &from, &to, &make);
    expect(CUDA_SUCCESS);
    CHILD_CHECK(cuMemAlloc(&a, 256) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemAlloc(&b, 256) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemcpyHtoD(a, host, 128) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemcpyDtoD(b, a, 256) == CUDA_SUCCESS);
    CHILD_LAUNCH("copy_ints", 1, 64, &p, &b); /* the second half was copied from nothing */
    expect(CUDA_ERROR_LAUNCH_FAILED);
}
static void copies_carry_what_was_written(void **state)
{
    (void)state;
    CHECK(run_initialised, "thread (32,0,0): rule uninitialised: reads 4 bytes at offset 128");
}

/* ---- aliases ---- */

static CUdeviceptr map_somewhere(CUmemGenericAllocationHandle handle, size_t bytes)
{
    CUdeviceptr at = 0;
    const CUmemAccessDesc access = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHILD_CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemMap(at, bytes, 0, handle, 0) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemSetAccess(at, bytes, &access, 1) == CUDA_SUCCESS);
    return at;
}

/* A grid waits; what it will read is written by another stream, which is waited for before the grid is told to read. */
static enum { BY_OTHER, BY_SAME, BEFORE } written;
static void run_resident(void)
{
    const size_t bytes = 2 << 20;
    const CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemGenericAllocationHandle handle = 0;
    CUstream grid, other;
    volatile int *flag = NULL;
    setenv("SOFTGPU_WORKERS", "2", 1);
    begin();
    CHILD_CHECK(cuMemCreate(&handle, bytes, &props, 0) == CUDA_SUCCESS);
    CUdeviceptr one = map_somewhere(handle, bytes), two = map_somewhere(handle, bytes),
                where = child_zeros(8);
    CHILD_CHECK(cuMemcpyHtoD(where, &two, sizeof two) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemsetD32(two, 1, bytes / 4) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemHostAlloc((void **)&flag, 8, 0) == CUDA_SUCCESS);
    flag[0] = flag[1] = 0;
    CHILD_CHECK(cuStreamCreate(&grid, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHILD_CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemsetD32(one, 2, 4096) == CUDA_SUCCESS);
    CHILD_CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    void *parameters[] = {&flag, &where, &p};
    CHILD_CHECK(cuLaunchKernel(child_kernel("read_when_told"), 1, 1, 1, 1, 1, 1, 0, grid, parameters, NULL) ==
                CUDA_SUCCESS);
    while (!flag[0])
        usleep(100);
    if (written != BEFORE)
        CHILD_CHECK(cuMemsetD32Async(written == BY_OTHER ? one : two, 3, 16, other) == CUDA_SUCCESS);
    CHILD_CHECK(cuMemsetD32Async(one + 4096, 3, 16, other) == CUDA_SUCCESS); /* where it does not read */
    CHILD_CHECK(cuStreamSynchronize(other) == CUDA_SUCCESS);
    flag[1] = 1;
    expect(written == BY_OTHER ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS);
}

static void run_alias_in_a_grid(void)
{
    const CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemGenericAllocationHandle handle = 0;
    begin();
    CHILD_CHECK(cuMemCreate(&handle, 2 << 20, &props, 0) == CUDA_SUCCESS);
    CUdeviceptr one = map_somewhere(handle, 2 << 20), two = map_somewhere(handle, 2 << 20);
    CHILD_LAUNCH("write_and_read", 1, 1, &one, &two, &p);
    expect(CUDA_ERROR_LAUNCH_FAILED);
}

static void a_grid_that_reads_what_an_alias_has_written_since_it_began_is_reported(void **state)
{
    (void)state;
    static const char other_alias[] = "which have been written by the one at 0x";
    written = BY_OTHER;
    CHECK(run_resident, "rule alias-order: reads 4 bytes at offset 0 of the mapping at 0x", other_alias,
          "faulty.cu:");
    written = BY_SAME;
    check(run_resident, nothing);
    written = BEFORE;
    check(run_resident, nothing);
    CHECK(run_alias_in_a_grid, "rule alias-order: reads 4 bytes", other_alias);
}

/* ---- read and write sets ---- */

static char log_path[] = "/tmp/softgpu-test-XXXXXX";
static void run_sets(void)
{
    int step = 3;
    setenv("SOFTGPU_ACCESS_LOG", log_path, 1);
    begin();
    CUdeviceptr from = child_zeros(64 * 3 * 4);
    CHILD_LAUNCH("strided", 1, 64, &p, &from, &step);
    CHILD_LAUNCH("copy_ints", 3, 8, &p, &from);
    expect(CUDA_SUCCESS);
}

static void launches_are_logged_with_what_they_touch(void **state)
{
    (void)state;
    const int fd = mkstemp(log_path);
    assert_true(fd >= 0);
    close(fd);
    check(run_sets, nothing);
    FILE *f = fopen(log_path, "r");
    char line[8192];
    assert_non_null(f);
    expect_strided_logged(f, 1);
    assert_non_null(fgets(line, sizeof line, f));
    assert_non_null(strstr(line, "\"bytes\":768,\"ranges\":[[0,96]]}],\"write\":["));
    assert_non_null(strstr(line, "\"bytes\":256,\"ranges\":[[0,96]]}]}\n"));
    assert_null(fgets(line, sizeof line, f));
    fclose(f);
    unlink(log_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(races_are_reported),
        cmocka_unit_test(what_is_ordered_is_not_reported),
        cmocka_unit_test(a_rule_can_be_switched_off),
        cmocka_unit_test(a_store_behind_a_buffer_is_reported),
        cmocka_unit_test(a_load_before_a_buffer_is_reported),
        cmocka_unit_test(a_store_behind_a_shared_array_is_reported),
        cmocka_unit_test(a_store_behind_dynamic_shared_memory_is_reported),
        cmocka_unit_test(a_load_behind_a_variable_is_reported),
        cmocka_unit_test(an_access_to_freed_memory_is_reported),
        cmocka_unit_test(an_access_to_pageable_memory_is_reported),
        cmocka_unit_test(an_access_to_another_threads_variable_is_reported),
        cmocka_unit_test(a_misaligned_access_is_reported),
        cmocka_unit_test(access_rights_and_aliases_are_known),
        cmocka_unit_test(an_uninitialised_shared_variable_is_reported),
        cmocka_unit_test(an_uninitialised_buffer_is_reported),
        cmocka_unit_test(copies_carry_what_was_written),
        cmocka_unit_test(a_grid_that_reads_what_an_alias_has_written_since_it_began_is_reported),
        cmocka_unit_test(launches_are_logged_with_what_they_touch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

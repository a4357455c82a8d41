/* The link: what is measured is kept, per device and driver, and never in the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "alloc/base/options.h"
#include "alloc/device.h"
#include "hook/hook.h"
#include "offload/internal.h"
#include "offload/link.h"

static ebb_device_t *const device0 = &ebb_global.device[0];

static char folder[64], file[128];

static const ebb_link_key_t one = {
    .device = "A device (of 1 kind)", .pci = "0000:01:00.0", .driver_version = 13000};

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/ebb-link-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/ebb/links", folder);
    setenv("XDG_CACHE_HOME", folder, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char path[128];
    chmod(folder, 0700);
    remove(file);
    snprintf(path, sizeof path, "%s/ebb", folder);
    rmdir(path);
    assert_int_equal(rmdir(folder), 0); /* nothing else is left */
    return 0;
}

static void assert_link(const ebb_link_key_t *key, double out, double both)
{
    ebb_link_t link;
    assert_true(ebb_link_cache_read(key, &link));
    assert_float_equal(link.out, out, 1e-3);
    assert_float_equal(link.in, out + 1, 1e-3);
    assert_float_equal(link.out_both, both, 1e-3);
    assert_float_equal(link.in_both, both + 1, 1e-3);
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    ebb_link_key_t other = one, newer = one, renamed = one;
    ebb_link_t link;
    strcpy(other.pci, "0000:02:00.0");
    newer.driver_version++;
    strcpy(renamed.device, "kind)");
    assert_false(ebb_link_cache_read(&one, &link));
    ebb_link_cache_write(&one, &(ebb_link_t){12, 13, 10, 11, 1500, 1600});
    ebb_link_cache_write(&other, &(ebb_link_t){20, 21, 18, 19, 0, 0});
    assert_link(&one, 12, 10);
    assert_link(&other, 20, 18);
    ebb_link_cache_write(&one, &(ebb_link_t){14, 15, 9, 10, 1200, 1600});
    assert_link(&one, 14, 9);
    assert_link(&other, 20, 18);
    assert_false(ebb_link_cache_read(&newer, &link));
    assert_false(ebb_link_cache_read(&renamed, &link));
}

static void damaged_lines_do_not_count(void **state)
{
    (void)state;
    ebb_link_t link;
    ebb_link_cache_write(&one, &(ebb_link_t){12, 13, 10, 11, 1500, 1600});
    FILE *f = fopen(file, "r+");
    assert_non_null(f);
    char line[512];
    assert_non_null(fgets(line, sizeof line, f));
    char *rate = strstr(line, "12.0000");
    assert_non_null(rate);
    memcpy(rate, "-nan   ", 7);
    rewind(f);
    fputs(line, f);
    fputs("no end", f);
    fclose(f);
    assert_false(ebb_link_cache_read(&one, &link));
    ebb_link_cache_write(&one, &(ebb_link_t){12, 13, 10, 11, 1500, 1600});
    assert_link(&one, 12, 10);
}

static void a_folder_that_cannot_be_written_is_no_trouble(void **state)
{
    (void)state;
    ebb_link_t link;
    if (!geteuid())
        setenv("XDG_CACHE_HOME", "/proc/self", 1); /* root may write anywhere else */
    else
        chmod(folder, 0500);
    ebb_link_cache_write(&one, &(ebb_link_t){12, 13, 10, 11, 1500, 1600});
    assert_false(ebb_link_cache_read(&one, &link));
}

/* On the device, by a child each, because a process measures once. */
static void measured_once_then_kept(void **state)
{
    (void)state;
    struct stat first, second;
    char command[512];
    snprintf(command, sizeof command, "'/proc/%d/exe' measure", (int)getpid());
    assert_int_not_equal(access(file, F_OK), 0);
    assert_int_equal(system(command), 0);
    assert_int_equal(stat(file, &first), 0);
    assert_int_equal(system(command), 0);
    assert_int_equal(stat(file, &second), 0);
    assert_int_equal(first.st_ino, second.st_ino); /* not written again */
    remove(file);
}

/* Bytes per second, of both ways or of each; nothing is measured. */
static void given_rates_are_taken(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"7500M", "7.86,7.86,7.86,7.86"},
                                           {"10G,20G", "10.74,21.47,10.74,21.47"}};
    char command[512];
    for (int i = 0; i < 2; i++) {
        remove(file);
        snprintf(command, sizeof command, "EBB_LINK=%s '/proc/%d/exe' measure %s", cases[i][0], (int)getpid(),
                 cases[i][1]);
        assert_int_equal(system(command), 0);
        assert_int_not_equal(access(file, F_OK), 0);
    }
}

/* By the computed clock: each way at its own rate, however lopsided they are while both are in use. */
static void lopsided_ways_are_measured_each_by_itself(void **state)
{
    (void)state;
    static const char *const links[] = {"25,25,25,11", "170,411,160,60", "55,55,46.75,46.75"};
    char command[512];
    for (int i = 0; i < 3; i++) {
        remove(file);
        snprintf(command, sizeof command,
                 "SOFTGPU_SCHEDULER=deterministic SOFTGPU_LINK=%s '/proc/%d/exe' measure %s", links[i],
                 (int)getpid(), links[i]);
        assert_int_equal(system(command), 0);
    }
}

static bool is_near(double rate, double expected)
{
    return rate > 0.99 * expected && rate < 1.01 * expected;
}

static bool is_expected(const ebb_link_t *link, const char *rates)
{
    double out, in, out_both, in_both;
    if (sscanf(rates, "%lf,%lf,%lf,%lf", &out, &in, &out_both, &in_both) != 4)
        return false;
    fprintf(stderr, "%s: measured %.2f,%.2f,%.2f,%.2f\n", rates, link->out, link->in, link->out_both,
            link->in_both);
    return is_near(link->out, out) && is_near(link->in, in) && is_near(link->out_both, out_both) &&
           is_near(link->in_both, in_both);
}

/* The hooks are this program's own symbols. `expected`: rates, or NULL. */
static int measure(const char *expected)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr p;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
        cuCtxSetCurrent(context) || cuMemAlloc(&p, 1 << 20))
        return 2;
    ebb_lock();
    const ebb_link_t link = ebb_link(device0);
    const ebb_usage_t usage = ebb_usage(device0);
    const ebb_traffic_t traffic = ebb_traffic(device0);
    ebb_unlock();
    if (!(link.out > 0 && link.in > 0 && link.out_both > 0 && link.in_both > 0))
        return 4;
    if (expected && !is_expected(&link, expected))
        return 6;
    /* Nothing of it is left, and it does not count as the program's traffic. */
    return usage.live_bytes != 1 << 20 || traffic.bytes_out || traffic.host_bytes ? 5 : 0;
}

/* By a call that fails behind copies: nothing may be under way to memory that is given back next. */
static int fail_to_measure(void)
{
    CUcontext context;
    ebb_link_bench_t b = {.device = 0};
    ebb_link_t link;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
        cuMemAlloc(&b.device, EBB_LINK_BYTES) || cuMemHostAlloc((void **)&b.host, EBB_LINK_BYTES, 0) ||
        cuStreamCreate(&b.stream[0], CU_STREAM_NON_BLOCKING) ||
        cuStreamCreate(&b.stream[1], CU_STREAM_NON_BLOCKING))
        return 2;
    if (ebb_link_measure(&b, &link))
        return 3;
    return cuStreamQuery(b.stream[0]) || cuStreamQuery(b.stream[1]) ? 4 : 0;
}

static void nothing_is_under_way_after_a_failure(void **state)
{
    static const char *const faults[] = {"cuEventRecord@4", "cuEventElapsedTime@1", "cuMemcpyHtoDAsync@2"};
    char command[256];
    (void)state;
    for (int i = 0; i < 3; i++) {
        snprintf(command, sizeof command, "SOFTGPU_FAULT=%s exec /proc/%d/exe fail", faults[i],
                 (int)getpid());
        assert_int_equal(system(command), 0);
    }
}

/* ---- copies of what is pinned in pieces: this program again ---- */

enum { PIECE = 1 << 20, BYTES = 5 * PIECE / 2 };

static int copy_pieces(void)
{
    CUcontext context;
    CUdeviceptr p;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
        cuMemAlloc(&p, BYTES) || cuMemsetD8(p, 0x5a, BYTES) || cuCtxSynchronize())
        return 2;
    ebb_global.offload->pinning.piece_bytes = PIECE; /* for a GiB */
    ebb_lock();
    unsigned char *host = ebb_pinned_alloc(device0, BYTES);
    bool good = host && !ebb_copy_issue(device0, EBB_OUT, p, host, BYTES) && !cuCtxSynchronize();
    for (int i = 0; i < BYTES && good; i++) {
        good = host[i] == 0x5a;
        host[i] = (unsigned char)(i >> 12);
    }
    good = good && !ebb_copy_issue(device0, EBB_IN, p, host, BYTES) && !cuCtxSynchronize();
    memset(host, 0, BYTES);
    good = good && !ebb_copy_pieces(device0, EBB_OUT, p, host, BYTES, ebb_stream_of(device0, NULL)) &&
           !cuCtxSynchronize();
    for (int i = 0; i < BYTES && good; i++)
        good = host[i] == (unsigned char)(i >> 12);
    const ebb_traffic_t traffic = ebb_traffic(device0);
    ebb_unlock();
    return good && traffic.bytes_out == BYTES && traffic.bytes_in == BYTES ? 0 : 3;
}

static void copies_do_not_cross_from_piece_to_piece(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "exec /proc/%d/exe pieces", (int)getpid());
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv)
{
    ebb_open(&ebb_global);
    if (argc > 1 && !strcmp(argv[1], "pieces"))
        return copy_pieces();
    if (argc > 1 && !strcmp(argv[1], "fail"))
        return fail_to_measure();
    if (argc > 1 && !strcmp(argv[1], "measure"))
        return measure(argc > 2 ? argv[2] : NULL);
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read_again),
        TEST(damaged_lines_do_not_count),
        TEST(a_folder_that_cannot_be_written_is_no_trouble),
        TEST(measured_once_then_kept),
        TEST(given_rates_are_taken),
        TEST(lopsided_ways_are_measured_each_by_itself),
        TEST(nothing_is_under_way_after_a_failure),
        TEST(copies_do_not_cross_from_piece_to_piece),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}

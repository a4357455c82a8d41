/* programs/pair.c with contents on a disk (EBB_DISK), which fails in every way that there is (disk_faults.c): the same bits as without ebb, or
 * an error. TEST_LONG=1: more of them. */
#include <errno.h>
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

#include "program.h"

static char folder[] = "ebb-disk-XXXXXX", stats_path[] = "/tmp/ebb-disk-stats-XXXXXX";
static program_run_t without;
static double peak; /* bytes that it allocates at most */

static int set_up(void **state)
{
    (void)state;
    program_run(getenv("TEST_PAIR"), &without);
    const int stats = mkstemp(stats_path);
    return mkdtemp(folder) && stats >= 0 && !close(stats) && !without.status &&
                   sscanf(without.log, "peak %lf", &peak) == 1
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(stats_path);
    return rmdir(folder); /* nothing is left in it */
}

/* At half of what it takes; 8 MiB of host memory. `disk`: EBB_DISK behind the folder. */
static const program_run_t *run(const char *disk, const char *settings)
{
    static program_run_t out;
    char command[1024];
    snprintf(command, sizeof command,
             "LD_PRELOAD=\"%s %s\" EBB_STATS=%s EBB_BUDGET=%.0f EBB_HOST_BUDGET=8MiB EBB_PAGEABLE=0 "
             "EBB_DISK=%s%s %s "
             "%s",
             getenv("TEST_FAULTS"), getenv("TEST_LIBEBB"), stats_path, peak / 2, folder, disk, settings,
             getenv("TEST_PAIR"));
    program_run(command, &out);
    return &out;
}

static double statistic(const char *key)
{
    return program_statistic(stats_path, NULL, key);
}

static void runs_to_its_end(const char *disk, const char *settings)
{
    const program_run_t *with = run(disk, settings);
    if (with->status || strcmp(with->output, without.output))
        fail_msg("%s: %d: %s%s", settings, with->status, with->output, with->log);
    print_message("%s: at most %.1f MiB on disk, %.0f written, %.0f read\n", settings,
                  statistic("disk_peak_bytes") / 1048576, statistic("disk_written_bytes") / 1048576,
                  statistic("disk_read_bytes") / 1048576);
    assert_true(statistic("disk_peak_bytes") > 12 << 20 && statistic("host_peak_bytes") <= 8 << 20);
    assert_true(statistic("disk_written_bytes") >= statistic("disk_peak_bytes") / 2);
    assert_true(statistic("disk_read_bytes") > 0);
}

/* It says so, and never ends as if nothing had been. */
static void ends_with(const char *disk, const char *settings, const char *message)
{
    const program_run_t *with = run(disk, settings);
    if (WEXITSTATUS(with->status) != 3 || *with->output || !strstr(with->log, message))
        fail_msg("%s: %d: %s%s", settings, with->status, with->output, with->log);
}

static void contents_go_to_a_disk_and_come_back(void **state)
{
    (void)state;
    runs_to_its_end(":1GiB", "");
    assert_true(statistic("disk_bytes") == 0);
}

static void nothing_needs_to_be_pinned(void **state)
{
    (void)state;
    runs_to_its_end("", "SOFTGPU_FAULT=cuMemHostRegister@1+");
    assert_true(statistic("host_peak_bytes") == 0);
}

static void what_is_done_in_part_is_gone_on_with(void **state)
{
    (void)state;
    runs_to_its_end("", "DISK_FAULT=write@1+=short");
    if (!test_is_long())
        return;
    runs_to_its_end("", "DISK_FAULT=read@1+=short");
    char interrupted[64];
    snprintf(interrupted, sizeof interrupted, "DISK_FAULT=write@3=%d", EINTR);
    runs_to_its_end("", interrupted);
}

static void what_comes_back_otherwise_is_read_again_and_then_refused(void **state)
{
    (void)state;
    runs_to_its_end("", "DISK_FAULT=read@5=flip");
    ends_with("", "DISK_FAULT=read@5+=flip", "a content cannot be read back: it has other bytes");
    char error[64];
    snprintf(error, sizeof error, "DISK_FAULT=read@5=%d", EIO);
    if (test_is_long())
        runs_to_its_end("", error);
    snprintf(error, sizeof error, "DISK_FAULT=read@5+=%d", EIO);
    ends_with("", error, "a content cannot be read back: Input/output error");
}

static void what_cannot_be_written_stays(void **state)
{
    (void)state;
    char error[64];
    snprintf(error, sizeof error, "DISK_FAULT=write@5=%d", EIO);
    ends_with("", error, "a content could not be written, and stays on the device");
}

static void a_full_disk_is_no_room(void **state)
{
    (void)state;
    char full[64];
    snprintf(full, sizeof full, "DISK_FAULT=allocate@1+=%d", ENOSPC);
    ends_with("", full, "no room for");
    ends_with(":1GiB", full, "so much cannot be reserved");
    ends_with(":1MiB", "", "no room for");
}

static void a_file_system_that_cannot_do_it_is_named(void **state)
{
    (void)state;
    char cannot[64];
    snprintf(cannot, sizeof cannot, "DISK_FAULT=open@1+=%d", EACCES);
    ends_with("", cannot, "no file can be opened there: Permission denied");
    ends_with("/none", "", "No such file or directory");
    snprintf(cannot, sizeof cannot, "DISK_FAULT=open@1=%d", EINVAL); /* no direct access */
    runs_to_its_end("", cannot);
    snprintf(cannot, sizeof cannot, "DISK_FAULT=open@1+=%d", EOPNOTSUPP); /* no files without a name */
    runs_to_its_end("", cannot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_go_to_a_disk_and_come_back),
        cmocka_unit_test(nothing_needs_to_be_pinned),
        cmocka_unit_test(what_is_done_in_part_is_gone_on_with),
        cmocka_unit_test(what_comes_back_otherwise_is_read_again_and_then_refused),
        cmocka_unit_test(what_cannot_be_written_stays),
        cmocka_unit_test(a_full_disk_is_no_room),
        cmocka_unit_test(a_file_system_that_cannot_do_it_is_named),
    };
    return cmocka_run_group_tests_name("disk", tests, set_up, tear_down);
}

/* The thread that creates chunks ahead of need. */
#include "driver_test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "hook/hook.h"

static ebb_device_t *const dev = &ebb_global.device[0];

enum { BUDGET_CHUNKS = 512, BUFFERS = 256 };

/* The number of ebb's thread, 0 if there is none. */
static int thread_of_ebb(void)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *t; (t = readdir(tasks));) {
        char path[64], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%.16s/comm", t->d_name);
        FILE *f = fopen(path, "r");
        if (f && fgets(name, sizeof name, f) && !strcmp(name, "ebb-chunks\n"))
            found = atoi(t->d_name);
        if (f)
            fclose(f);
    }
    closedir(tasks);
    return found;
}

static size_t created(void)
{
    ebb_lock();
    size_t chunks = ebb_chunks_created(dev);
    ebb_unlock();
    return chunks;
}

static size_t wait_until_more_than(size_t chunks)
{
    for (int i = 0; i < 500 && created() <= chunks; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return created();
}

static void some_chunks_are_created_ahead_by_a_quiet_thread(void **state)
{
    (void)state;
    CUdeviceptr p[BUFFERS];
    assert_int_equal(thread_of_ebb(), 0);
    for (int i = 0; i < BUFFERS; i++)
        OK(cuMemAlloc_v2(&p[i], EBB_CHUNK_BYTES));
    size_t ahead = wait_until_more_than(BUFFERS) - BUFFERS;
    assert_in_range(ahead, 1, BUFFERS / 32);

    int thread = thread_of_ebb();
    assert_true(thread > 0);
    char path[64], line[128];
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    FILE *f = fopen(path, "r");
    while (fgets(line, sizeof line, f))
        sscanf(line, "SigBlk: %llx", &blocked);
    fclose(f);
    assert_true(blocked >> (SIGINT - 1) & 1 && blocked >> (SIGTERM - 1) & 1);

    /* What was released on purpose does not come back by itself. */
    for (int i = 0; i < BUFFERS; i++)
        OK(cuMemFree_v2(p[i]));
    ebb_lock();
    ebb_heap_reclaim(dev, SIZE_MAX, true);
    ebb_chunks_release(dev);
    ebb_unlock();
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(created(), 0);
}

static void budget_holds_with_the_thread_at_work(void **state)
{
    (void)state;
    static CUdeviceptr p[BUDGET_CHUNKS + 8];
    int served = 0;
    while (served < BUDGET_CHUNKS + 8 && !cuMemAlloc_v2(&p[served], EBB_CHUNK_BYTES)) {
        size_t free_bytes, total;
        OK(ebb_driver.cuMemGetInfo_v2(&free_bytes, &total)); /* what the device says */
        assert_true(total - free_bytes <= BUDGET_CHUNKS * EBB_CHUNK_BYTES);
        served++;
    }
    ebb_lock();
    assert_int_equal(served, ebb_chunks_limit(dev)); /* nothing is kept back from the program but headroom */
    ebb_unlock();
    assert_true(served >= BUDGET_CHUNKS - BUDGET_CHUNKS / 100);
    while (served--)
        OK(cuMemFree_v2(p[served]));
}

static void child_of_a_fork_has_no_thread_and_ends(void **state)
{
    (void)state;
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, 100 * EBB_CHUNK_BYTES));
    pid_t child = fork();
    if (!child)
        _exit(thread_of_ebb() ? 1 : 0);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    OK(cuMemFree_v2(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_chunks_are_created_ahead_by_a_quiet_thread),
        cmocka_unit_test(budget_holds_with_the_thread_at_work),
        cmocka_unit_test(child_of_a_fork_has_no_thread_and_ends),
    };
    setenv("EBB_BUDGET", "1GiB", 1);
    setenv("SOFTGPU_MEMORY", "2GiB", 1);
    setenv("EBB_LOG", "quiet", 1);
    return cmocka_run_group_tests(tests, driver_setup, NULL);
}

/* Device memory is off limits to the host, and what may not be accessed faults. Each case that ends a context
 * or a process runs in a child of its own: the child starts the driver itself. */
#include "driver_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* Runs `body` in a fresh process; what it returns, or 1000 + the signal that ended it. */
static int in_child(int (*body)(void))
{
    pid_t pid = fork();
    if (!pid) {
        signal(SIGSEGV, SIG_DFL); /* cmocka's handler would turn a fault into a failed test */
        driver_setup(NULL);
        _exit(body());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Without them host code can read device memory: the driver cannot keep it out. */
static int has_protection_keys(void)
{
    int key = pkey_alloc(0, 0);
    if (key >= 0)
        pkey_free(key);
    else
        print_message("no memory protection keys here (pkey_alloc: %s): nothing to test\n", strerror(errno));
    return key >= 0;
}

static int read_by_host(void)
{
    volatile int *p = (volatile int *)(uintptr_t)device_alloc(CHUNK);
    return p[0] & 0;
}

static void host_load_of_device_memory_ends_the_process(void **state)
{
    (void)state;
    if (!has_protection_keys())
        skip();
    assert_int_equal(in_child(read_by_host), 1000 + SIGSEGV);
}

static int system_calls_on_device_memory(void)
{
    void *p = (void *)(uintptr_t)device_alloc(4096);
    int zero = open("/dev/zero", O_RDONLY), pair[2];
    if (zero < 0 || pipe(pair))
        return 1;
    if (read(zero, p, 16) != -1 || errno != EFAULT)
        return 2;
    if (write(pair[1], p, 16) != -1 || errno != EFAULT)
        return 3;
    return 0;
}

static void read_and_write_on_device_memory_fail_with_efault(void **state)
{
    (void)state;
    if (!has_protection_keys())
        skip();
    assert_int_equal(in_child(system_calls_on_device_memory), 0);
}

static void touch(void *p)
{
    *(volatile int *)p = 1;
}

static int host_function_touches(void)
{
    CUdeviceptr p = device_alloc(4096);
    OK(cuLaunchHostFunc(NULL, touch, (void *)(uintptr_t)p));
    cuCtxSynchronize();
    return 0;
}

static void host_function_has_no_rights_to_device_memory(void **state)
{
    (void)state;
    if (!has_protection_keys())
        skip();
    assert_int_equal(in_child(host_function_touches), 1000 + SIGSEGV);
}

/* A child sees neither memory nor driver, whatever the parent had mapped. */
static int child_of_a_user(void)
{
    CUdeviceptr p = device_alloc(CHUNK);
    pid_t pid = fork();
    if (!pid) {
        int count;
        if (cuDeviceGetCount(&count) != CUDA_ERROR_NOT_INITIALIZED || cuInit(0) != CUDA_ERROR_NOT_INITIALIZED)
            _exit(1);
        unsigned char resident;
        /* Not even mapped: the range was not inherited. */
        _exit(mincore((void *)(uintptr_t)p, 4096, &resident) == -1 && errno == ENOMEM ? 0 : 2);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void forked_child_sees_nothing(void **state)
{
    (void)state;
    assert_int_equal(in_child(child_of_a_user), 0);
}

/* Stderr of the driver goes to a file for the time of `body`. */
static char said[4096];
static int capture(int (*body)(void))
{
    char path[] = "/tmp/softgpu-test-XXXXXX";
    int fd = mkstemp(path), old = dup(STDERR_FILENO);
    unlink(path);
    dup2(fd, STDERR_FILENO);
    int result = body();
    dup2(old, STDERR_FILENO);
    ssize_t n = pread(fd, said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = 0;
    close(fd);
    close(old);
    return result;
}

static CUdeviceptr wild;

static int store_to_wild(void)
{
    launch_slow_store(NULL, wild, 1, 1);
    return (int)cuCtxSynchronize();
}

static int unmapped_store(void)
{
    OK(cuMemAddressReserve(&wild, CHUNK, 0, 0, 0));
    int result = capture(store_to_wild);
    char address[32];
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)wild);
    if (result != CUDA_ERROR_ILLEGAL_ADDRESS)
        return 1;
    if (!strstr(said, address) || !strstr(said, "slow_store"))
        return 2;
    /* It sticks: to allocation, to launches, to synchronisation. */
    CUdeviceptr p;
    if (cuMemAlloc(&p, 16) != CUDA_ERROR_ILLEGAL_ADDRESS || cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS)
        return 3;
    return 0;
}

static void store_to_an_unmapped_range_is_a_sticky_error_naming_the_address(void **state)
{
    (void)state;
    assert_int_equal(in_child(unmapped_store), 0);
}

/* A handler that the program installs later (a crash reporter's) does not take the device's faults from it.
 */
static void crash_reporter(int number)
{
    (void)number;
    _exit(77);
}

static int store_behind_a_crash_reporter(void)
{
    signal(SIGSEGV, crash_reporter);
    OK(cuMemAddressReserve(&wild, CHUNK, 0, 0, 0));
    if (capture(store_to_wild) != CUDA_ERROR_ILLEGAL_ADDRESS)
        return 1;
    raise(SIGSEGV); /* the program's own faults are still its own */
    return 2;
}

static void fault_is_caught_under_a_handler_of_the_programs(void **state)
{
    (void)state;
    assert_int_equal(in_child(store_behind_a_crash_reporter), 77);
}

/* One that hands on what it was given before, as crash reporters do: to the device's handler, that is. */
static struct sigaction before_reporter;
static void chaining_reporter(int number, siginfo_t *info, void *context)
{
    if (before_reporter.sa_flags & SA_SIGINFO)
        before_reporter.sa_sigaction(number, info, context);
    else
        _exit(78);
}

__attribute__((no_sanitize("undefined", "address"))) static int fault_behind_a_chain(void)
{
    struct sigaction action = {.sa_sigaction = chaining_reporter, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, &before_reporter);
    CUdeviceptr p = device_alloc(16);
    launch_slow_store(NULL, p, 1, 1); /* the driver steps in front again */
    OK(cuCtxSynchronize());
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
    return 1;
}

static void fault_of_the_program_ends_it_through_a_chain_of_handlers(void **state)
{
    (void)state;
    assert_int_equal(in_child(fault_behind_a_chain), 1000 + SIGSEGV);
}

static int copy_from_nowhere(void)
{
    const size_t bytes = 1 << 20; /* too much to be staged by the calling thread */
    CUdeviceptr p = device_alloc(bytes);
    cuMemcpyHtoDAsync(p, (void *)(uintptr_t)4096, bytes, NULL);
    return (int)cuCtxSynchronize();
}

static int copy_behind_a_reporter(void)
{
    signal(SIGSEGV, crash_reporter);
    return capture(copy_from_nowhere) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1;
}

static void copy_from_unmapped_host_memory_is_an_illegal_address(void **state)
{
    (void)state;
    assert_int_equal(in_child(copy_behind_a_reporter), 0);
}

static _Atomic int told;
static void CUDA_CB on_stream(CUstream stream, CUresult status, void *data)
{
    (void)stream, (void)data;
    told = status;
}

static void CUDA_CB on_host(void *data)
{
    (void)data;
    told = 12345;
}

/* After a sticky error stream callbacks are still called, with it; host functions are not. */
static int callbacks_after_a_fault(void)
{
    OK(cuMemAddressReserve(&wild, CHUNK, 0, 0, 0));
    launch_slow_store(NULL, device_alloc(8), 1, 1); /* loads it */
    hold(NULL);
    launch_slow_store(NULL, wild, 1, 1);
    OK(cuStreamAddCallback(NULL, on_stream, NULL, 0));
    OK(cuLaunchHostFunc(NULL, on_host, NULL));
    let_go();
    cuCtxSynchronize();
    return told == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1;
}

static void stream_callback_is_told_of_a_sticky_error(void **state)
{
    (void)state;
    assert_int_equal(in_child(callbacks_after_a_fault), 0);
}

static int memory_size(void)
{
    size_t total;
    OK(cuMemGetInfo(NULL, &total));
    return total == 64 << 20 ? 0 : total > (size_t)1 << 40 ? 2 : 1;
}

static void device_size_is_read_from_the_environment(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int want; /* 0: 64 MiB; 1: the default, after a warning */
    } cases[] = {{"64MiB", 0}, {"64m", 0}, {"67108864", 0}, {"65536K", 0},
                 {"8 ", 1},    {"8Q", 1},  {"-1", 1},       {"64MiBs", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("SOFTGPU_MEMORY", cases[i].text, 1);
        if (in_child(memory_size) != cases[i].want)
            fail_msg("SOFTGPU_MEMORY=%s", cases[i].text);
    }
    unsetenv("SOFTGPU_MEMORY");
}

static int store_to_read_only(void)
{
    CUmemAllocationProp prop = device_memory();
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
    CUmemGenericAllocationHandle h;
    int value;
    OK(cuMemAddressReserve(&wild, CHUNK, 0, 0, 0));
    OK(cuMemCreate(&h, CHUNK, &prop, 0));
    OK(cuMemMap(wild, CHUNK, 0, h, 0));
    OK(cuMemSetAccess(wild, CHUNK, &desc, 1));
    OK(cuMemcpyDtoH(&value, wild, 4)); /* reading is allowed */
    return capture(store_to_wild) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1;
}

static void store_to_read_only_memory_is_an_illegal_address(void **state)
{
    (void)state;
    assert_int_equal(in_child(store_to_read_only), 0);
}

static int store_to_freed(void)
{
    wild = device_alloc(4 * CHUNK);
    OK(cuMemFree(wild));
    return capture(store_to_wild) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1;
}

static void store_to_freed_memory_is_an_illegal_address(void **state)
{
    (void)state;
    assert_int_equal(in_child(store_to_freed), 0);
}

static int poisoned(void)
{
    unsigned char host[4096];
    CUdeviceptr p = device_alloc(3 * CHUNK), q;
    OK(cuMemcpyDtoH(host, p + CHUNK, sizeof host));
    for (size_t i = 0; i < sizeof host; i++)
        if (host[i] != 0xff)
            return 1;
    /* A pool keeps the block, so the same memory comes back: poisoned. */
    OK(cuMemAllocAsync(&p, 4096, NULL));
    OK(cuMemsetD8Async(p, 0, 4096, NULL));
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemAllocAsync(&q, 4096, NULL));
    OK(cuMemcpyDtoH(host, q, sizeof host));
    if (p != q)
        return 2;
    for (size_t i = 0; i < sizeof host; i++)
        if (host[i] != 0xfe)
            return 3;
    return 0;
}

static void fresh_and_freed_memory_is_poisoned(void **state)
{
    (void)state;
    setenv("SOFTGPU_POISON", "1", 1);
    assert_int_equal(in_child(poisoned), 0);
    unsetenv("SOFTGPU_POISON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_load_of_device_memory_ends_the_process),
        cmocka_unit_test(read_and_write_on_device_memory_fail_with_efault),
        cmocka_unit_test(host_function_has_no_rights_to_device_memory),
        cmocka_unit_test(forked_child_sees_nothing),
        cmocka_unit_test(store_to_an_unmapped_range_is_a_sticky_error_naming_the_address),
        cmocka_unit_test(fault_is_caught_under_a_handler_of_the_programs),
        cmocka_unit_test(fault_of_the_program_ends_it_through_a_chain_of_handlers),
        cmocka_unit_test(copy_from_unmapped_host_memory_is_an_illegal_address),
        cmocka_unit_test(stream_callback_is_told_of_a_sticky_error),
        cmocka_unit_test(device_size_is_read_from_the_environment),
        cmocka_unit_test(store_to_read_only_memory_is_an_illegal_address),
        cmocka_unit_test(store_to_freed_memory_is_an_illegal_address),
        cmocka_unit_test(fresh_and_freed_memory_is_poisoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL); /* the parent never touches the driver */
}

/* Pinned host memory against a naive model, and at its limits. Every test leaves nothing behind. */

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alloc/base/options.h"
#include "alloc/ebb_alloc.h"
#include "offload/internal.h"
#include "offload_test.h"

#define PAGE ((size_t)4096)
#define MIB  ((size_t)1 << 20)
#define LIVE 64

static uint64_t random_state;

static uint64_t random_number(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % below;
}

static void seed_random(void)
{
    const char *given = getenv("SEED");
    random_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
    print_message("SEED=%llu\n", (unsigned long long)random_state);
}

/* ---- what is not linked into this test ---- */

static size_t measurements;

void ebb_heap_measure_soon(ebb_device_t *dev)
{
    (void)dev;
    measurements++;
}

static ebb_t process;
static ebb_device_t *dev;

/* ---- the driver, watched ---- */

static ebb_driver_t real;
static atomic_size_t registrations; /* by any thread, as soon as they are made */
static size_t locked_registrations; /* while the thread that makes them has the lock */
static size_t registered_bytes;
static size_t attempts; /* to register */
static CUresult register_result;
static size_t register_limit; /* the "system" pins no more than this */
static size_t absent_pages;   /* of what was registered, when it was */
static pthread_t main_thread;
static unsigned nap_ms; /* before other threads' registrations */

static size_t count_absent(void *p, size_t bytes)
{
    static unsigned char there[1 << 16];
    size_t absent = 0;
    assert_true(bytes / PAGE <= sizeof there);
    assert_int_equal(mincore(p, bytes, there), 0);
    for (size_t i = 0; i < bytes / PAGE; i++)
        absent += !(there[i] & 1);
    return absent;
}

static CUresult watched_register(void *p, size_t bytes, unsigned flags)
{
    attempts++;
    if (register_result)
        return register_result;
    if (registered_bytes + bytes > register_limit)
        return CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(flags, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    assert_true(bytes <= process.offload->pinning.piece_bytes);
    absent_pages += count_absent(p, bytes);
    if (!pthread_equal(pthread_self(), main_thread))
        nanosleep(&(struct timespec){.tv_nsec = (long)nap_ms * 1000000}, NULL);
    CUresult result = real.cuMemHostRegister_v2(p, bytes, flags);
    if (!result) {
        registrations++;
        locked_registrations += ebb_lock_is_held();
        registered_bytes += bytes;
    }
    return result;
}

static CUresult watched_unregister(void *p)
{
    size_t bytes = 0;
    OK(ebb_driver.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, (CUdeviceptr)(uintptr_t)p));
    CUresult result = real.cuMemHostUnregister(p);
    if (!result)
        registered_bytes -= bytes;
    return result;
}

static ebb_node_t *node(void)
{
    return &process.offload->pinned.node;
}

static int suite_setup(void **state)
{
    CUcontext context;
    driver_setup(state);
    OK(ebb_driver.cuCtxGetCurrent(&context));
    assert_ptr_equal(ebb_device_open(&process, context, 0), dev);
    snprintf(node()->name, sizeof node()->name, "/ebb-test-%d", (int)getpid());
    main_thread = pthread_self();
    real = ebb_driver;
    ebb_driver.cuMemHostRegister_v2 = watched_register;
    ebb_driver.cuMemHostUnregister = watched_unregister;
    return 0;
}

static int suite_teardown(void **state)
{
    (void)state;
    shm_unlink(node()->name);
    return 0;
}

static int each_setup(void **state)
{
    (void)state;
    ebb_options.host_budget = (int64_t)(256 * MIB);
    register_result = CUDA_SUCCESS;
    register_limit = SIZE_MAX;
    nap_ms = 0;
    ebb_options.prealloc = 1;
    ebb_options.huge_pages = 1;
    return 0;
}

static int each_teardown(void **state)
{
    (void)state;
    ebb_lock();
    ebb_pinned_trim(dev);
    ebb_pinned_check(dev);
    const ebb_pinned_usage_t u = ebb_pinned_usage(dev);
    ebb_unlock();
    return u.allocated_bytes || u.cached_bytes || u.registered_bytes || registered_bytes;
}

/* All of [p, p + bytes) lies in one registration. */
static void assert_in_one_registration(const void *p, size_t bytes)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)p, start = 0;
    size_t size = 0;
    unsigned flags = 0;
    OK(((PFN_cuMemHostGetFlags_v2030)driver_function("cuMemHostGetFlags"))(&flags, (void *)(uintptr_t)p));
    OK(ebb_driver.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
    OK(ebb_driver.cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
    assert_true(flags & CU_MEMHOSTREGISTER_PORTABLE);
    assert_true(start <= at);
    assert_true(bytes <= size - (at - start));
}

/* What the log said during `action`. */
static size_t heard(void (*action)(void), char *out, size_t size)
{
    int was = dup(STDERR_FILENO), file = memfd_create("log", 0);
    assert_true(was >= 0 && file >= 0);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    action();
    dup2(was, STDERR_FILENO);
    ssize_t n = pread(file, out, size - 1, 0);
    close(was);
    close(file);
    out[n < 0 ? 0 : n] = 0;
    return n < 0 ? 0 : (size_t)n;
}

/* ---- random traffic ---- */

typedef struct block {
    unsigned char *p;
    size_t bytes;
    unsigned char tag;
} block_t;

static void fill(const block_t *b)
{
    memset(b->p, b->tag, b->bytes);
}

static void assert_intact(const block_t *b)
{
    for (size_t i = 0; i < b->bytes; i += i + 64 < b->bytes ? 61 : 1)
        if (b->p[i] != b->tag)
            fail_msg("byte %zu of a block of %zu was changed", i, b->bytes);
}

/* Few sizes come again and again, as in a training step; the others are anything. */
static size_t random_size(void)
{
    static const size_t common[] = {1,     100,   2048,    4096,           12288,
                                    16384, 65536, 3 * MIB, 2 * MIB + 4096, 2500000};
    switch (random_number(4)) {
    case 0:
        return 1 + random_number(4 * PAGE);
    case 1:
        return 1 + random_number(5 * MIB);
    default:
        return common[random_number(sizeof common / sizeof *common)];
    }
}

static void random_traffic_equals_a_model(void **state)
{
    (void)state;
    static block_t live[LIVE];
    size_t count = 0, bytes = 0, refused = 0;
    seed_random();
    ebb_options.host_budget = (int64_t)(48 * MIB);
    for (int step = 0; step < 6000; step++) {
        uint64_t dice = random_number(1000);
        if (dice < 5) {
            ebb_pinned_trim(dev);
            assert_int_equal(ebb_pinned_usage(dev).cached_bytes, 0);
        } else if (dice < 500 ? count < LIVE : !count) {
            block_t b = {.bytes = random_size(), .tag = (unsigned char)random_number(256)};
            b.p = ebb_pinned_alloc(dev, b.bytes);
            if (b.p) {
                assert_in_one_registration(b.p, b.bytes);
                for (size_t i = 0; i < count; i++)
                    assert_true(b.p + b.bytes <= live[i].p || live[i].p + live[i].bytes <= b.p);
                fill(&b);
                bytes += b.bytes;
                live[count++] = b;
            } else {
                refused++;
                /* Only when it really did not fit, next to live blocks and their slabs' spare room. */
                assert_true(bytes + b.bytes + (count + 1) * 4 * PAGE > (size_t)ebb_options.host_budget);
            }
        } else if (count) {
            size_t i = random_number(count);
            assert_intact(&live[i]);
            ebb_pinned_free(dev, live[i].p, live[i].bytes);
            bytes -= live[i].bytes;
            live[i] = live[--count];
        }
        ebb_pinned_usage_t u = ebb_pinned_usage(dev);
        assert_int_equal(u.allocated_bytes, bytes);
        assert_int_equal(u.registered_bytes, registered_bytes);
        assert_true(u.registered_bytes <= u.budget_bytes && u.registered_bytes <= u.peak_bytes);
        if (step % 64 == 0)
            ebb_pinned_check(dev);
    }
    print_message("%zu registrations, %zu refused, peak %zu MiB\n", registrations, refused,
                  ebb_pinned_usage(dev).peak_bytes / MIB);
    while (count--) {
        assert_intact(&live[count]);
        ebb_pinned_free(dev, live[count].p, live[count].bytes);
    }
}

static void a_repeated_step_registers_nothing_new(void **state)
{
    (void)state;
    enum { BLOCKS = 24 };
    void *p[BLOCKS];
    size_t before = 0;
    for (int step = 0; step < 5; step++) {
        if (step == 1)
            before = registrations;
        /* All sizes lie within one of jemalloc's classes. */
        for (size_t i = 0; i < BLOCKS; i++)
            assert_non_null(p[i] = ebb_pinned_alloc(dev, MIB + (i * 7 % 5 + 1) * 3 * PAGE));
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t k = (i * 11 + (size_t)step) % BLOCKS;
            ebb_pinned_free(dev, p[k], MIB + (k * 7 % 5 + 1) * 3 * PAGE);
        }
    }
    assert_int_equal(registrations, before);
}

static void page_multiples_waste_nearly_nothing(void **state)
{
    (void)state;
    enum { BLOCKS = 128 };
    static size_t bytes[BLOCKS];
    static void *p[BLOCKS];
    double worst = 0;
    seed_random();
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            bytes[i] = (1 + random_number(round % 2 ? 300 : 16)) * PAGE;
            assert_non_null(p[i] = ebb_pinned_alloc(dev, bytes[i]));
        }
        ebb_pinned_usage_t u = ebb_pinned_usage(dev);
        double waste = (double)(u.registered_bytes - u.cached_bytes) / (double)u.allocated_bytes;
        worst = waste > worst ? waste : worst;
        for (size_t i = 0; i < BLOCKS; i++)
            ebb_pinned_free(dev, p[i], bytes[i]);
    }
    print_message("registered for live blocks over requested, at worst: %.4f\n", worst);
    assert_true(worst <= 1.02);
}

static void small_blocks_share_pages(void **state)
{
    (void)state;
    void *p[256];
    for (size_t i = 0; i < 256; i++)
        assert_non_null(p[i] = ebb_pinned_alloc(dev, 64));
    assert_true(ebb_pinned_usage(dev).registered_bytes <= 8 * PAGE);
    for (size_t i = 0; i < 256; i++)
        ebb_pinned_free(dev, p[i], 64);
}

/* ---- limits ---- */

static void budget_is_respected(void **state)
{
    (void)state;
    ebb_options.host_budget = (int64_t)(8 * MIB);
    void *a = ebb_pinned_alloc(dev, 5 * MIB), *b = ebb_pinned_alloc(dev, 3 * MIB);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(ebb_pinned_alloc(dev, 1));
    assert_null(ebb_pinned_alloc(dev, 9 * MIB));
    assert_null(ebb_pinned_alloc(dev, SIZE_MAX));
    ebb_pinned_free(dev, b, 3 * MIB);
    /* Another size: what is cached makes room. */
    assert_non_null(b = ebb_pinned_alloc(dev, 2 * MIB));
    assert_int_equal(ebb_pinned_usage(dev).registered_bytes, 7 * MIB);
    ebb_pinned_free(dev, a, 5 * MIB);
    ebb_pinned_free(dev, b, 2 * MIB);
    assert_non_null(a = ebb_pinned_alloc(dev, 8 * MIB));
    assert_int_equal(ebb_pinned_usage(dev).registered_bytes, 8 * MIB);
    ebb_pinned_free(dev, a, 8 * MIB);
}

static void budget_of_nothing_said_is_half_of_the_memory(void **state)
{
    (void)state;
    ebb_options.host_budget = 0;
    size_t half = ebb_pinned_usage(dev).budget_bytes;
    ebb_options.host_budget = -50;
    assert_in_range(ebb_pinned_usage(dev).budget_bytes, half - 1, half + 1);
    ebb_options.host_budget = INT64_MAX; /* more than there is */
    assert_in_range(ebb_pinned_usage(dev).budget_bytes, 2 * half, 2 * half + 1);
    assert_true(half > MIB && half <= (size_t)sysconf(_SC_PHYS_PAGES) * PAGE / 2);
}

/* ---- other processes ---- */

typedef struct other {
    pid_t process;
    ebb_others_t sees; /* when it began */
} other_t;

/* A process that has pinned so much and does nothing more. */
static other_t start_other(uint64_t cgroup, size_t pinned_bytes)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    other_t o = {.process = fork()};
    if (!o.process) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        ebb_node_t own = {0};
        memcpy(own.name, node()->name, sizeof own.name);
        ebb_node_join(&own, cgroup);
        ebb_node_tell(&own, pinned_bytes);
        o.sees = ebb_node_others(&own);
        _exit(write(ends[1], &o.sees, sizeof o.sees) == sizeof o.sees ? pause() : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &o.sees, sizeof o.sees), sizeof o.sees);
    close(ends[0]);
    return o;
}

static void kill_other(other_t o)
{
    kill(o.process, SIGKILL);
    assert_int_equal(waitpid(o.process, NULL, 0), o.process);
}

static size_t budget_now(void)
{
    return ebb_pinned_usage(dev).budget_bytes;
}

static void share_of_the_machine_is_shared_by_the_processes_on_it(void **state)
{
    (void)state;
    ebb_options.host_budget = 0;
    const size_t whole = budget_now();
    const uint64_t group = node()->cgroup;
    other_t a = start_other(group, 0), b = start_other(group, whole - 4 * MIB);
    assert_int_equal(budget_now(), 4 * MIB); /* what they have left, which is less than a third */
    void *p = ebb_pinned_alloc(dev, 3 * MIB);
    assert_non_null(p);
    assert_null(ebb_pinned_alloc(dev, 2 * MIB));
    kill_other(b);
    assert_int_equal(budget_now(), whole / 2);
    b = start_other(group + 1, whole); /* under another limit */
    assert_int_equal(budget_now(), whole / 2);
    kill_other(a);
    assert_int_equal(budget_now(), whole);
    a = start_other(group, whole); /* what is pinned stays, and may be used again */
    assert_int_equal(a.sees.count, 1);
    assert_int_equal(a.sees.pinned_bytes, ebb_pinned_usage(dev).registered_bytes);
    assert_int_equal(budget_now(), 3 * MIB);
    ebb_pinned_free(dev, p, 3 * MIB);
    assert_ptr_equal(ebb_pinned_alloc(dev, 3 * MIB), p);
    assert_null(ebb_pinned_alloc(dev, MIB));
    ebb_pinned_free(dev, p, 3 * MIB);
    ebb_options.host_budget = (int64_t)(8 * MIB); /* bytes are the process's */
    assert_int_equal(budget_now(), 8 * MIB);
    kill_other(a);
    kill_other(b);
}

/* Least recently used sizes go first. */
static void cached_size_in_use_outlives_a_forgotten_one(void **state)
{
    (void)state;
    ebb_options.host_budget = (int64_t)(8 * MIB);
    void *old = ebb_pinned_alloc(dev, 3 * MIB), *used = ebb_pinned_alloc(dev, 2 * MIB);
    ebb_pinned_free(dev, used, 2 * MIB);
    ebb_pinned_free(dev, old, 3 * MIB);
    used = ebb_pinned_alloc(dev, 2 * MIB);
    ebb_pinned_free(dev, used, 2 * MIB);
    void *other = ebb_pinned_alloc(dev, 4 * MIB);
    size_t before = registrations;
    assert_ptr_equal(ebb_pinned_alloc(dev, 2 * MIB), used);
    assert_int_equal(registrations, before);
    ebb_pinned_free(dev, used, 2 * MIB);
    ebb_pinned_free(dev, other, 4 * MIB);
}

static bool is_mapped(void *p)
{
    unsigned char resident;
    return mincore(p, PAGE, &resident) == 0;
}

static void trim_returns_memory(void **state)
{
    (void)state;
    char *kept = ebb_pinned_alloc(dev, 2 * MIB), *p = ebb_pinned_alloc(dev, 5 * MIB);
    memset(p, 1, 5 * MIB);
    ebb_pinned_free(dev, p, 5 * MIB);
    assert_int_equal(ebb_pinned_usage(dev).cached_bytes, 5 * MIB);
    assert_true(is_mapped(p));
    assert_int_equal(ebb_pinned_trim(dev), 5 * MIB);
    assert_false(is_mapped(p));
    assert_int_equal(ebb_pinned_usage(dev).registered_bytes, 2 * MIB);
    assert_in_one_registration(kept, 2 * MIB);
    ebb_pinned_free(dev, kept, 2 * MIB);
}

static void overrun_of_a_block_faults(void **state)
{
    (void)state;
    size_t bytes = 2 * MIB + PAGE;
    char *p = ebb_pinned_alloc(dev, bytes);
    int null = open("/dev/zero", O_RDONLY);
    assert_int_equal(read(null, p + bytes - 1, 1), 1);
    assert_int_equal(read(null, p + bytes, 1), -1);
    close(null);
    ebb_pinned_free(dev, p, bytes);
}

static void child_does_not_inherit_the_memory(void **state)
{
    (void)state;
    char *p = ebb_pinned_alloc(dev, MIB);
    pid_t child = fork();
    if (!child)
        _exit(is_mapped(p));
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    ebb_pinned_free(dev, p, MIB);
}

/* ---- large blocks ---- */

static void large_blocks_are_registered_in_pieces(void **state)
{
    (void)state;
    const size_t piece = process.offload->pinning.piece_bytes, before = registrations;
    process.offload->pinning.piece_bytes = 4 * MIB; /* for a GiB */
    char *p = ebb_pinned_alloc(dev, 10 * MIB + PAGE), *q = ebb_pinned_alloc(dev, 4 * MIB);
    assert_int_equal(registrations - before, 3 + 1);
    for (size_t at = 0; at < 10 * MIB + PAGE;
         at += ebb_pin_piece(&process.offload->pinning, p + at, 10 * MIB + PAGE - at))
        assert_in_one_registration(p + at,
                                   ebb_pin_piece(&process.offload->pinning, p + at, 10 * MIB + PAGE - at));
    ebb_pinned_free(dev, p, 10 * MIB + PAGE);
    ebb_pinned_free(dev, q, 4 * MIB);
    ebb_pinned_trim(dev);
    /* Refused in the middle: what was registered before is not any more. */
    register_limit = 9 * MIB;
    assert_null(ebb_pinned_alloc(dev, 10 * MIB));
    assert_int_equal(registered_bytes, 0);
    process.offload->pinning.piece_bytes = piece;
}

/* Registering would find them one after the other. */
static void pages_of_large_blocks_are_there_before(void **state)
{
    cpu_set_t cpus;
    (void)state;
    if (sched_getaffinity(0, sizeof cpus, &cpus) || CPU_COUNT(&cpus) < 2)
        skip();
    for (int huge = 0; huge < 2; huge++) {
        ebb_options.huge_pages = huge;
        absent_pages = 0;
        char *p = ebb_pinned_alloc(dev, 33 * MIB + PAGE);
        assert_non_null(p);
        assert_int_equal(absent_pages, 0);
        assert_int_equal(p[0] | p[33 * MIB], 0);
        ebb_pinned_free(dev, p, 33 * MIB + PAGE);
        ebb_pinned_trim(dev);
    }
}

static void the_device_is_measured_again_after_large_pins(void **state)
{
    (void)state;
    measurements = 0;
    void *small = ebb_pinned_alloc(dev, MIB), *large = ebb_pinned_alloc(dev, 20 * MIB);
    assert_int_equal(measurements, 1);
    ebb_pinned_free(dev, small, MIB);
    ebb_pinned_free(dev, large, 20 * MIB);
    large = ebb_pinned_alloc(dev, 20 * MIB); /* nothing new */
    assert_int_equal(measurements, 1);
    ebb_pinned_free(dev, large, 20 * MIB);
}

/* ---- ahead of need ---- */

static size_t cached_bytes(void)
{
    ebb_lock();
    const size_t bytes = ebb_pinned_usage(dev).cached_bytes;
    ebb_pinned_check(dev);
    ebb_unlock();
    return bytes;
}

static void expect(const size_t *bytes, size_t count)
{
    ebb_lock();
    ebb_pinned_expect(dev, bytes, count);
    ebb_unlock();
}

/* So many cached bytes, or 0 after some time in which there were never more. */
static size_t wait_for_cached(size_t bytes)
{
    for (int i = 0; i < 500 && cached_bytes() != bytes; i++) {
        assert_true(cached_bytes() <= bytes);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return cached_bytes();
}

static void expected_blocks_are_pinned_without_the_lock(void **state)
{
    static const size_t sizes[] = {3 * MIB, 2 * MIB, 3 * MIB};
    (void)state;
    locked_registrations = 0;
    expect(sizes, 3);
    assert_int_equal(wait_for_cached(8 * MIB), 8 * MIB);
    assert_int_equal(locked_registrations, 0);
    const size_t before = registrations;
    ebb_lock();
    void *a = ebb_pinned_alloc(dev, 3 * MIB), *b = ebb_pinned_alloc(dev, 3 * MIB),
         *c = ebb_pinned_alloc(dev, 2 * MIB);
    ebb_unlock();
    assert_true(a && b && c);
    assert_int_equal(registrations, before);
    ebb_lock();
    ebb_pinned_free(dev, a, 3 * MIB);
    ebb_pinned_free(dev, b, 3 * MIB);
    ebb_pinned_free(dev, c, 2 * MIB);
    ebb_unlock();
    expect(sizes, 3); /* they are there */
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(registrations, before);
}

static size_t registered_now(void)
{
    ebb_lock();
    const size_t bytes = ebb_pinned_usage(dev).registered_bytes;
    ebb_unlock();
    return bytes;
}

/* Who wants a block that is being pinned waits for it, and pins none. */
static void a_block_under_way_is_waited_for(void **state)
{
    static const size_t size = 3 * MIB;
    (void)state;
    nap_ms = 100;
    const size_t before = registrations;
    expect(&size, 1);
    while (registered_now() < size)
        sched_yield();
    ebb_lock();
    void *p = ebb_pinned_alloc(dev, size);
    const size_t pinned = registrations - before; /* with the lock the next one cannot begin */
    ebb_pinned_check(dev);
    ebb_unlock();
    assert_non_null(p);
    assert_int_equal(pinned, 1);
    ebb_lock();
    ebb_pinned_free(dev, p, size);
    ebb_pinned_trim(dev); /* also while another is pinned */
    ebb_unlock();
}

static void nothing_is_pinned_ahead_that_may_not_be(void **state)
{
    static const size_t sizes[] = {3 * MIB, 3 * MIB};
    (void)state;
    ebb_options.host_budget = (int64_t)(6 * MIB);
    expect(sizes, 2);
    for (int i = 0; i < 100 && cached_bytes() < 3 * MIB; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(cached_bytes(), 3 * MIB);
}

/* However often other sizes are expected. */
static void unused_blocks_are_never_more_than_are_expected(void **state)
{
    static const size_t many[] = {3 * MIB, 2 * MIB, 3 * MIB}, other[] = {3 * MIB, 5 * MIB};
    (void)state;
    expect(many, 3);
    assert_int_equal(wait_for_cached(8 * MIB), 8 * MIB);
    ebb_lock();
    void *used[] = {ebb_pinned_alloc(dev, 2 * MIB), ebb_pinned_alloc(dev, 3 * MIB)};
    ebb_pinned_free(dev, used[0], 2 * MIB);
    ebb_pinned_free(dev, used[1], 3 * MIB);
    ebb_unlock();
    expect(other, 2); /* what was used stays: a block of each size, one of which is expected again */
    assert_int_equal(wait_for_cached(13 * MIB), 13 * MIB);
    for (size_t i = 1; i <= 10; i++) {
        const size_t sizes[] = {6 * MIB + i * PAGE, 2 * MIB - i * PAGE}, before = registrations;
        expect(sizes, 2);
        for (int k = 0; k < 500 && registrations < before + 2; k++)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        assert_int_equal(wait_for_cached(13 * MIB), 13 * MIB);
    }
}

/* An address is the next block's as soon as it is unmapped, also before the thread can say so. */
static void an_address_is_used_again_before_its_unpinning_is_over(void **state)
{
    static const size_t expected[] = {3 * MIB}, other[] = {5 * MIB};
    (void)state;
    expect(expected, 1);
    assert_int_equal(wait_for_cached(3 * MIB), 3 * MIB);
    ebb_pin_job_t job;
    ebb_lock();
    assert_true(ebb_pinned_next_ahead(dev, other, 1, &job) && job.unpin);
    ebb_pinned_begin_ahead(dev, &job);
    ebb_pinned_check(dev);
    assert_int_equal(ebb_extent_delete(&process.offload->pinning, &job.extent), 0);
    void *p = ebb_pinned_alloc(dev, 3 * MIB);
    assert_ptr_equal(p, job.extent.base);
    assert_true(ebb_pinned_end_ahead(dev, &job, 0));
    ebb_pinned_check(dev);
    ebb_pinned_free(dev, p, 3 * MIB);
    assert_int_equal(ebb_pinned_trim(dev), 3 * MIB);
    ebb_unlock();
}

/* Behind the others: it is for ever. */
static void a_refusal_ends_pinning_ahead(void **state)
{
    static const size_t sizes[] = {3 * MIB, 3 * MIB};
    (void)state;
    register_result = CUDA_ERROR_OUT_OF_MEMORY;
    attempts = 0;
    for (int i = 0; i < 5; i++) {
        expect(sizes, 2);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    assert_int_equal(registered_now(), 0);
    assert_int_equal(attempts, 1);
}

/* ---- by the call that wants it ---- */

static bool want(const size_t *bytes, size_t count)
{
    ebb_lock();
    ebb_pinned_defer(true);
    const bool have = ebb_pinned_want(dev, bytes, count, true);
    ebb_pinned_defer(false);
    assert_int_equal(ebb_pinned_is_wanted(), !have);
    ebb_pinned_check(dev);
    ebb_unlock();
    return have;
}

static void what_a_call_wants_is_pinned_before_it_is_made_again(void **state)
{
    static const size_t sizes[] = {3 * MIB, 5 * MIB, 3 * MIB, PAGE};
    (void)state;
    const size_t before = attempts;
    assert_false(ebb_pinned_call.open);
    ebb_pinned_call_is_final();
    assert_true(want(sizes, 4)); /* it goes on, and pins what it needs */
    assert_true(ebb_pinned_call.open);
    assert_false(ebb_pinned_call_again(true));
    assert_false(want(sizes, 4));
    assert_int_equal(attempts, before);
    assert_true(ebb_pinned_call_again(true));
    assert_int_equal(cached_bytes(), 11 * MIB);
    assert_int_equal(attempts, before + 3);
    assert_true(want(sizes, 4));
    assert_false(ebb_pinned_call_again(true));
    assert_false(ebb_pinned_call.open);
    /* What it has done without. */
    assert_false(want((size_t[]){7 * MIB}, 1));
    assert_false(ebb_pinned_call_again(false));
    assert_int_equal(cached_bytes(), 18 * MIB);
}

static void what_cannot_be_pinned_is_not_wanted_twice(void **state)
{
    static const size_t large = 300 * MIB, size = 3 * MIB;
    (void)state;
    assert_true(want(&large, 1)); /* beyond the budget */
    register_result = CUDA_ERROR_OUT_OF_MEMORY;
    assert_false(want(&size, 1));
    assert_true(ebb_pinned_call_again(true));
    assert_true(want(&size, 1));
    assert_false(ebb_pinned_call_again(true));
    assert_int_equal(ebb_pinned_usage(dev).registered_bytes, 0);
}

/* Two that can't be there together: the call ends nevertheless. */
static void a_call_is_not_made_again_for_ever(void **state)
{
    static const size_t sizes[] = {3 * MIB, 5 * MIB};
    unsigned tries = 0;
    (void)state;
    ebb_options.host_budget = (int64_t)(8 * MIB);
    register_limit = 7 * MIB; /* the system has less */
    do
        tries += !want(sizes, 2);
    while (ebb_pinned_call_again(true) && tries < 100);
    assert_true(tries && tries < 10);
}

/* ---- where registering is not supported, or only so much at once: this program again, on such a device ---- */

/* What one allocation is too large for: all of it can be written, and is pinned. */
static int in_pieces(void)
{
    const size_t bytes = 33 * MIB + PAGE;
    size_t count = 0, wrong = 0;
    process.offload->pinning.piece_bytes = 16 * MIB;
    char *block = ebb_pinned_alloc(dev, bytes), *beside = ebb_pinned_alloc(dev, MIB);
    for (int look = 0; block && look < 2; look++)
        for (size_t at = MIB / 2, n; at < bytes; at += n, count++) { /* from the middle of one on */
            void *p = block + at;
            unsigned flags = 0;
            n = ebb_pinned_piece(dev, &p, bytes - at);
            for (size_t k = 0; k < n; k += PAGE)
                if (look)
                    wrong += *(size_t *)((char *)p + k) != at + k;
                else
                    *(size_t *)((char *)p + k) = at + k;
            wrong += ((PFN_cuMemHostGetFlags_v2030)driver_function("cuMemHostGetFlags"))(&flags, p) ||
                     !(flags & CU_MEMHOSTALLOC_PORTABLE);
        }
    ebb_pinned_check(dev);
    ebb_pinned_free(dev, block, bytes);
    ebb_pinned_free(dev, beside, MIB);
    ebb_pinned_trim(dev);
    ebb_pinned_check(dev);
    return block && beside && count == 2 * 3 && !wrong && !ebb_pinned_usage(dev).registered_bytes ? 0 : 2;
}

static int allocated_instead(void)
{
    void *p[3];
    int pinned = 0;
    unsigned flags = 0;
    driver_setup(NULL);
    ebb_options.host_budget = (int64_t)(64 * MIB);
    for (int i = 0; i < 3; i++)
        p[i] = ebb_pinned_alloc(dev, i ? (size_t)i * 5 * MIB + 100 : 100);
    for (int i = 0; i < 3; i++)
        pinned += p[i] &&
                  !((PFN_cuMemHostGetFlags_v2030)driver_function("cuMemHostGetFlags"))(&flags, p[i]) &&
                  flags & CU_MEMHOSTALLOC_PORTABLE;
    ebb_pinned_check(dev);
    for (int i = 0; i < 3; i++)
        ebb_pinned_free(dev, p[i], i ? (size_t)i * 5 * MIB + 100 : 100);
    ebb_pinned_trim(dev);
    ebb_pinned_check(dev);
    const bool large_is_refused = !ebb_pinned_alloc(dev, 17 * MIB);
    return pinned == 3 && large_is_refused && !ebb_pinned_usage(dev).registered_bytes ? in_pieces() : 1;
}

/* One registration of 512 GiB is refused, here of more than 16 MiB: a block that is larger has several, as long as a piece is no larger.
 * The driver allocates nothing here. */
static int registered_in_pieces(void)
{
    driver_setup(NULL);
    ebb_options.host_budget = (int64_t)(64 * MIB);
    return ebb_pinned_alloc(dev, 33 * MIB) ? 1 : in_pieces();
}

static int run_under(const char *limits, const char *part)
{
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        setenv("SOFTGPU_LIMITS", limits, 1);
        execl("/proc/self/exe", "test_pinned", part, (char *)NULL);
        _exit(99);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void memory_is_allocated_where_registering_is_not_supported(void **state)
{
    (void)state;
    assert_int_equal(run_under("register:0,hostalloc:16MiB", "allocated"), 0);
}

static void memory_is_registered_in_pieces_where_one_registration_is_limited(void **state)
{
    (void)state;
    assert_int_equal(run_under("register:16MiB,hostalloc:0", "registered"), 0);
    assert_int_not_equal(run_under("register:15MiB,hostalloc:0", "registered"), 0); /* a piece is refused */
}

/* ---- failures ---- */

static void allocate_twice(void)
{
    assert_null(ebb_pinned_alloc(dev, MIB));
    assert_null(ebb_pinned_alloc(dev, MIB));
}

static void failing_registration_is_explained_once(void **state)
{
    (void)state;
    char text[1024];
    register_result = CUDA_ERROR_DEINITIALIZED;
    assert_int_equal(heard(allocate_twice, text, sizeof text), 0); /* the process ends: no news */
    register_result = CUDA_ERROR_OPERATING_SYSTEM;
    assert_int_not_equal(heard(allocate_twice, text, sizeof text), 0);
    assert_non_null(strstr(text, "cuMemHostRegister of 1048576 bytes"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
    assert_int_equal(ebb_pinned_usage(dev).registered_bytes, 0);
    register_result = CUDA_SUCCESS;
    void *p = ebb_pinned_alloc(dev, MIB);
    assert_non_null(p);
    ebb_pinned_free(dev, p, MIB);
}

/* The system pins less than the budget allows: cached blocks make room as they do for the budget. */
static void refusal_by_the_system_gives_up_cached_blocks_first(void **state)
{
    (void)state;
    register_limit = 8 * MIB;
    void *a = ebb_pinned_alloc(dev, 4 * MIB), *b = ebb_pinned_alloc(dev, 3 * MIB);
    ebb_pinned_free(dev, b, 3 * MIB);
    void *c = ebb_pinned_alloc(dev, 2 * MIB);
    assert_non_null(a);
    assert_non_null(c);
    assert_null(ebb_pinned_alloc(dev, 5 * MIB));
    ebb_pinned_free(dev, a, 4 * MIB);
    ebb_pinned_free(dev, c, 2 * MIB);
}

static CUresult unregister_result;

static CUresult failing_unregister(void *p)
{
    (void)p;
    return unregister_result;
}

/* Memory that the device may still reach is not given away. */
static void failing_unregistration_keeps_memory_mapped(void **state)
{
    (void)state;
    char *p = ebb_pinned_alloc(dev, MIB);
    ebb_driver.cuMemHostUnregister = failing_unregister;
    unregister_result = CUDA_ERROR_ILLEGAL_ADDRESS;
    ebb_pinned_free(dev, p, MIB);
    assert_int_equal(ebb_pinned_trim(dev), 0);
    ebb_driver.cuMemHostUnregister = watched_unregister;
    assert_true(is_mapped(p));
    assert_int_equal(ebb_pinned_usage(dev).registered_bytes, MIB);
    ebb_pinned_check(dev);
    /* Nobody else gets it. */
    char *q = ebb_pinned_alloc(dev, MIB);
    assert_true(q && q != p);
    ebb_pinned_free(dev, q, MIB);
    ebb_pinned_trim(dev);
    /* For the other tests' figures only. */
    assert_int_equal(ebb_pinned_usage(dev).registered_bytes, MIB);
}

/* ---- the end of the process: the program starts itself again ---- */

static bool ending;

static CUresult late_unregister(void *p)
{
    (void)p;
    _exit(3);
}

static CUresult late_register(void *p, size_t bytes, unsigned flags)
{
    (void)p, (void)bytes, (void)flags;
    _exit(4);
}

/* As hook/enter.c does. */
__attribute__((destructor)) static void at_exit(void)
{
    ebb_offload_stop(&process);
}

/* Runs after destructors without a priority, as those of libraries that outlive libebb.so. */
__attribute__((destructor(101))) static void after_the_end(void)
{
    if (!ending)
        return;
    if (ebb_pinned_alloc(dev, 3 * MIB) || ebb_pinned_trim(dev))
        _exit(5);
    _exit(0);
}

static int end_with_cached_blocks(void)
{
    driver_setup(NULL);
    void *p = ebb_pinned_alloc(dev, MIB);
    ebb_pinned_free(dev, p, MIB);
    ebb_driver.cuMemHostRegister_v2 = late_register;
    ebb_driver.cuMemHostUnregister = late_unregister;
    ending = true;
    return p ? 6 : 7;
}

static void ending_process_calls_no_driver(void **state)
{
    (void)state;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        execl("/proc/self/exe", "test_pinned", "end", (char *)NULL);
        _exit(99);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

/* ---- what the log says ---- */

static void limits_are_explained_with_a_remedy(void **state)
{
    (void)state;
    char text[256];
    ebb_limits_t here = ebb_limits_read();
    assert_true(here.machine_bytes > MIB && here.available_bytes <= here.machine_bytes);
    const ebb_limits_t none = {.machine_bytes = 64 * MIB,
                               .available_bytes = 32 * MIB,
                               .cgroup_bytes = SIZE_MAX,
                               .memlock_bytes = SIZE_MAX};
    assert_false(ebb_limits_explain(&none, 0, MIB, text, sizeof text));
    assert_true(ebb_limits_explain(&none, 0, 33 * MIB, text, sizeof text));
    assert_non_null(strstr(text, "32 MiB of memory left"));
    ebb_limits_t l = none;
    l.memlock_bytes = 8 * MIB;
    assert_false(ebb_limits_explain(&l, 7 * MIB, MIB, text, sizeof text));
    assert_true(ebb_limits_explain(&l, 7 * MIB + 1, MIB, text, sizeof text));
    assert_non_null(strstr(text, "ulimit -l"));
    l = none;
    l.cgroup_bytes = 16 * MIB;
    l.cgroup_used_bytes = 15 * MIB;
    assert_false(ebb_limits_explain(&l, 0, MIB, text, sizeof text));
    assert_true(ebb_limits_explain(&l, 0, 2 * MIB, text, sizeof text));
    assert_non_null(strstr(text, "control group"));
}

static int forgiving_teardown(void **state)
{
    (void)state;
    return ebb_pinned_usage(dev).registered_bytes != MIB;
}

int main(int argc, char **argv)
{
    ebb_open(&process);
    ebb_offload_open(&process);
    dev = &process.device[0];
    if (argc > 1 && !strcmp(argv[1], "end"))
        return end_with_cached_blocks();
    if (argc > 1 && !strcmp(argv[1], "allocated"))
        return allocated_instead();
    if (argc > 1 && !strcmp(argv[1], "registered"))
        return registered_in_pieces();
#define TEST(f) cmocka_unit_test_setup_teardown(f, each_setup, each_teardown)
    const struct CMUnitTest tests[] = {
        TEST(random_traffic_equals_a_model),
        TEST(a_repeated_step_registers_nothing_new),
        TEST(page_multiples_waste_nearly_nothing),
        TEST(small_blocks_share_pages),
        TEST(budget_is_respected),
        TEST(budget_of_nothing_said_is_half_of_the_memory),
        TEST(share_of_the_machine_is_shared_by_the_processes_on_it),
        TEST(cached_size_in_use_outlives_a_forgotten_one),
        TEST(trim_returns_memory),
        TEST(overrun_of_a_block_faults),
        TEST(child_does_not_inherit_the_memory),
        TEST(pages_of_large_blocks_are_there_before),
        TEST(the_device_is_measured_again_after_large_pins),
        TEST(expected_blocks_are_pinned_without_the_lock),
        TEST(a_block_under_way_is_waited_for),
        TEST(nothing_is_pinned_ahead_that_may_not_be),
        TEST(unused_blocks_are_never_more_than_are_expected),
        TEST(an_address_is_used_again_before_its_unpinning_is_over),
        TEST(a_refusal_ends_pinning_ahead),
        TEST(what_a_call_wants_is_pinned_before_it_is_made_again),
        TEST(what_cannot_be_pinned_is_not_wanted_twice),
        TEST(a_call_is_not_made_again_for_ever),
        TEST(memory_is_allocated_where_registering_is_not_supported),
        TEST(memory_is_registered_in_pieces_where_one_registration_is_limited),
        TEST(failing_registration_is_explained_once),
        TEST(
            large_blocks_are_registered_in_pieces), /* behind the one before, which wants to hear the first refusal */
        TEST(refusal_by_the_system_gives_up_cached_blocks_first),
        TEST(ending_process_calls_no_driver),
        TEST(limits_are_explained_with_a_remedy),
        cmocka_unit_test_setup_teardown(failing_unregistration_keeps_memory_mapped, each_setup,
                                        forgiving_teardown),
    };
    return cmocka_run_group_tests_name("pinned", tests, suite_setup, suite_teardown);
}

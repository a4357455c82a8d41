/* libnccl.so.2 of the software device, beyond what any program may rely on (tests/conformance/nccl): who dies is noticed, sums have one order,
 * one worker is enough, and what a collective takes by the computed clock. */
#include "scheduler_test.h"

#include <nccl.h>
#include <signal.h>
#include <time.h>

#define OK_NCCL(call) expect_nccl((call), ncclSuccess, #call, __LINE__)
#define TRUE(holds)   expect_true((holds), #holds, __LINE__)

static void expect_nccl(ncclResult_t result, ncclResult_t want, const char *call, int line)
{
    if (result == want)
        return;
    fprintf(stderr, "line %d: %s: %s (%s)\n", line, call, ncclGetErrorString(result), ncclGetLastError(NULL));
    _exit(98);
}

static void expect_true(bool holds, const char *what, int line)
{
    if (holds)
        return;
    fprintf(stderr, "line %d: %s does not hold\n", line, what);
    _exit(97);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- processes ---- */

enum { MOST = 4 };
static struct {
    ncclUniqueId id;
    volatile int ready;
} * shared;

/* One process a rank; each exits with 0 or is `killed`. */
static void run_ranks(int ranks, int killed, void (*body)(int rank, int ranks))
{
    pid_t pid[MOST];
    char devices[16];
    snprintf(devices, sizeof devices, "%d", ranks);
    setenv("SOFTGPU_DEVICES", devices, 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(NULL);
    for (int rank = 0; rank < ranks; rank++)
        if (!(pid[rank] = fork())) {
            CUcontext context;
            alarm(60);
            OK(cuInit(0));
            OK(cuDevicePrimaryCtxRetain(&context, rank));
            OK(cuCtxSetCurrent(context));
            if (!rank) {
                OK_NCCL(ncclGetUniqueId(&shared->id));
                shared->ready = 1;
            }
            while (!shared->ready)
                usleep(1000);
            body(rank, ranks);
            _exit(0);
        }
    for (int rank = 0, status; rank < ranks; rank++) {
        assert_int_equal(waitpid(pid[rank], &status, 0), pid[rank]);
        if (rank == killed)
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    munmap(shared, sizeof *shared);
    unsetenv("SOFTGPU_DEVICES");
}

static void lose_one(int rank, int ranks)
{
    ncclComm_t comm;
    CUstream s;
    CUdeviceptr p;
    ncclResult_t error = ncclSuccess;
    OK_NCCL(ncclCommInitRank(&comm, ranks, shared->id, rank));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&p, 4096));
    OK_NCCL(ncclAllReduce((void *)p, (void *)p, 10, ncclFloat32, ncclSum, comm, s)); /* all have come */
    OK(cuStreamSynchronize(s));
    if (rank == ranks - 1)
        raise(SIGKILL);
    const double began = now();
    OK_NCCL(ncclAllReduce((void *)p, (void *)p, 10, ncclFloat32, ncclSum, comm, s));
    TRUE(cuStreamSynchronize(s) == CUDA_ERROR_LAUNCH_FAILED);
    TRUE(now() - began < 20);
    OK_NCCL(ncclCommGetAsyncError(comm, &error));
    TRUE(error == ncclRemoteError);
    TRUE(cuCtxSynchronize() != CUDA_SUCCESS); /* nobody goes on with what has not come */
}

static void a_rank_that_has_died_fails_the_others(void **state)
{
    (void)state;
    run_ranks(3, 2, lose_one);
}

static void never_come(int rank, int ranks)
{
    ncclComm_t comm;
    const double began = now();
    if (rank)
        return;
    expect_nccl(ncclCommInitRank(&comm, ranks, shared->id, rank), ncclRemoteError, "a rank that has not come",
                __LINE__);
    TRUE(now() - began < 20);
}

static void a_rank_that_does_not_come_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    setenv("SOFTGPU_NCCL_TIMEOUT", "1", 1);
    run_ranks(2, -1, never_come);
    unsetenv("SOFTGPU_NCCL_TIMEOUT");
}

/* Whoever comes late: ((1e8 + 1) - 1e8) is not 1 in fp32, and (1e8 - 1e8) + 1 is. */
static void add_in_order(int rank, int ranks)
{
    static const float values[] = {1e8f, -1e8f, 1.0f, 0.5f};
    ncclComm_t comm;
    CUstream s;
    CUdeviceptr p;
    OK_NCCL(ncclCommInitRank(&comm, ranks, shared->id, rank));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&p, 4096));
    for (int round = 0; round < 12; round++) {
        float sum;
        usleep((unsigned)((rank * 7 + round * 5) % 4) * 3000);
        OK(cuMemcpyHtoD(p, &values[rank], sizeof(float)));
        OK_NCCL(ncclAllReduce((void *)p, (void *)p, 1, ncclFloat32, ncclSum, comm, s));
        OK(cuStreamSynchronize(s));
        OK(cuMemcpyDtoH(&sum, p, sizeof sum));
        TRUE(sum == 1.5f);
        /* bf16 has eight bits: 256 + 1 + 1 + 1 is 260 if it is rounded once, and 256 if after each. */
        const uint16_t half = rank ? 0x3f80 : 0x4380;
        uint16_t got;
        OK(cuMemcpyHtoD(p, &half, sizeof half));
        OK_NCCL(ncclAllReduce((void *)p, (void *)p, 1, ncclBfloat16, ncclSum, comm, s));
        OK(cuStreamSynchronize(s));
        OK(cuMemcpyDtoH(&got, p, sizeof got));
        TRUE(got == 0x4382);
    }
    OK_NCCL(ncclCommDestroy(comm));
}

static void sums_have_the_order_of_the_ranks(void **state)
{
    (void)state;
    run_ranks(4, -1, add_in_order);
}

/* ---- one thread ---- */

typedef struct group {
    int ranks;
    ncclComm_t comm[MOST];
    CUcontext context[MOST];
    CUstream stream[MOST];
    CUdeviceptr memory[MOST];
} group_t;

static void make(group_t *g, int ranks, size_t bytes)
{
    g->ranks = ranks;
    OK(cuInit(0));
    OK_NCCL(ncclCommInitAll(g->comm, ranks, NULL));
    for (int i = 0; i < ranks; i++) {
        OK(cuDevicePrimaryCtxRetain(&g->context[i], i));
        OK(cuCtxSetCurrent(g->context[i]));
        OK(cuStreamCreate(&g->stream[i], CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&g->memory[i], bytes));
    }
    OK(cuCtxSetCurrent(g->context[0]));
}

static void all_reduce(group_t *g, size_t floats)
{
    OK_NCCL(ncclGroupStart());
    for (int i = 0; i < g->ranks; i++)
        OK_NCCL(ncclAllReduce((void *)g->memory[i], (void *)g->memory[i], floats, ncclFloat32, ncclSum,
                              g->comm[i], g->stream[i]));
    OK_NCCL(ncclGroupEnd());
}

static void with_one_worker(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        group_t g;
        float sum;
        alarm(60);
        setenv("SOFTGPU_DEVICES", "4", 1);
        setenv("SOFTGPU_WORKERS", "1", 1);
        make(&g, 4, 1 << 20);
        for (int i = 0; i < 4; i++) {
            OK(cuCtxSetCurrent(g.context[i]));
            OK(cuMemsetD32(g.memory[i], 0x3f800000, 1 << 18));
            OK(cuCtxSynchronize());
        }
        all_reduce(&g, 1 << 18);
        all_reduce(&g, 1 << 18);
        for (int i = 0; i < 4; i++) {
            OK(cuCtxSetCurrent(g.context[i]));
            OK(cuStreamSynchronize(g.stream[i]));
            OK(cuMemcpyDtoH(&sum, g.memory[i] + (1 << 20) - 4, sizeof sum));
            TRUE(sum == 16);
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- the clock ---- */

enum { BYTES = 64 << 20, RANKS = 2 };

typedef struct times {
    int64_t compute_ns, both_compute_ns, both_communication_ns;
} times_t;

static int64_t between(CUevent from, CUevent to)
{
    float ms;
    OK(cuEventElapsedTime(&ms, from, to));
    return (int64_t)((double)ms * 1e6 + 0.5);
}

static void measure(void *out)
{
    times_t *t = out;
    group_t g;
    CUstream s;
    CUevent e[5];
    CUfunction spend;
    double operations = 66.9e3 * 20e6 /* 20 ms */, bytes = 0;
    int kind = 0;
    make(&g, RANKS, BYTES);
    OK(cuModuleGetFunction(&spend, module, "spend"));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 5; i++)
        OK(cuEventCreate(&e[i], 0));
    void *params[] = {&operations, &kind, &bytes};
    OK(cuEventRecord(e[0], s));
    OK(cuLaunchKernel(spend, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
    OK(cuEventRecord(e[1], s));
    OK(cuStreamSynchronize(s));
    t->compute_ns = between(e[0], e[1]);
    OK(cuEventRecord(e[2], s));
    OK(cuStreamWaitEvent(g.stream[0], e[2], 0));
    OK(cuLaunchKernel(spend, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
    OK(cuEventRecord(e[3], s));
    all_reduce(&g, BYTES / sizeof(float));
    OK(cuEventRecord(e[4], g.stream[0]));
    OK(cuStreamSynchronize(s));
    OK(cuStreamSynchronize(g.stream[0]));
    t->both_compute_ns = between(e[2], e[3]);
    t->both_communication_ns = between(e[2], e[4]);
}

/* 100 Gbit/s, of which 80% are reached: 10 bytes a nanosecond. Half of the bytes twice, and two hops of 10 us. It has two of 132 multiprocessors. */
static void it_takes_what_the_network_takes_beside_kernels(void **state)
{
    (void)state;
    times_t t;
    memset(&t, 0, sizeof t);
    setenv("SOFTGPU_PROFILE", "H100", 1);
    setenv("SOFTGPU_MEMORY", "1G", 1);
    setenv("SOFTGPU_DEVICES", "2", 1);
    setenv("SOFTGPU_NCCL_LINK", "100", 1);
    run_seeded(1, measure, &t, sizeof t);
    const double alone = BYTES / 10.0 + 2 * 10000.0, beside = 2.0 / 132 * alone;
    print_message("%.3f ms beside %.3f, which alone take %.3f\n", (double)t.both_communication_ns / 1e6,
                  (double)t.both_compute_ns / 1e6, (double)t.compute_ns / 1e6);
    assert_true(t.both_communication_ns > (int64_t)alone &&
                t.both_communication_ns < (int64_t)alone + 100000);
    assert_true(t.both_compute_ns > t.compute_ns + (int64_t)(0.9 * beside) &&
                t.both_compute_ns < t.compute_ns + (int64_t)(1.1 * beside) + 20000);
    unsetenv("SOFTGPU_NCCL_LINK");
    unsetenv("SOFTGPU_DEVICES");
    unsetenv("SOFTGPU_MEMORY");
    unsetenv("SOFTGPU_PROFILE");
}

enum { ABSENT = 63 };

static void measure_alone(void *out)
{
    ncclUniqueId id;
    ncclComm_t comm, half;
    CUcontext context;
    CUstream s;
    CUdeviceptr p;
    CUevent e[2];
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&p, BYTES));
    OK_NCCL(ncclGetUniqueId(&id));
    OK_NCCL(ncclCommInitRank(&comm, ABSENT + 1, id, 5));
    OK_NCCL(ncclCommSplit(comm, 0, 5, &half, NULL)); /* all say the same of themselves */
    for (int i = 0; i < 2; i++)
        OK(cuEventCreate(&e[i], 0));
    OK(cuEventRecord(e[0], s));
    OK_NCCL(ncclAllReduce((void *)p, (void *)p, BYTES / sizeof(float), ncclFloat32, ncclSum, comm, s));
    OK(cuEventRecord(e[1], s));
    OK(cuStreamSynchronize(s));
    *(int64_t *)out = between(e[0], e[1]);
    OK_NCCL(ncclCommDestroy(comm));
}

/* 100 Gbit/s as above: a byte goes round 2 * 63 / 64 times, in as many hops. */
static void a_rank_alone_shows_in_a_dry_run_what_many_take(void **state)
{
    (void)state;
    int64_t ns = 0;
    setenv("SOFTGPU_PROFILE", "H100", 1);
    setenv("SOFTGPU_MEMORY", "1G", 1);
    setenv("SOFTGPU_DRY", "1", 1);
    setenv("SOFTGPU_NCCL_LINK", "100", 1);
    run_seeded(1, measure_alone, &ns, sizeof ns);
    const double expected = 2.0 * ABSENT / (ABSENT + 1) * BYTES / 10.0 + 2 * ABSENT * 10000.0;
    print_message("%.3f ms of %.3f\n", (double)ns / 1e6, expected / 1e6);
    assert_true(ns > (int64_t)expected && ns < (int64_t)expected + 100000);
    unsetenv("SOFTGPU_NCCL_LINK");
    unsetenv("SOFTGPU_DRY");
    unsetenv("SOFTGPU_MEMORY");
    unsetenv("SOFTGPU_PROFILE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_has_died_fails_the_others),
        cmocka_unit_test(a_rank_that_does_not_come_is_not_waited_for_for_ever),
        cmocka_unit_test(sums_have_the_order_of_the_ranks),
        cmocka_unit_test(with_one_worker),
        cmocka_unit_test(it_takes_what_the_network_takes_beside_kernels),
        cmocka_unit_test(a_rank_alone_shows_in_a_dry_run_what_many_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

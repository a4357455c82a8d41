/* ranks.h: cases of several ranks, each a process with a device of its own: RANKED(n) { ... } runs in all of them. Where there are
 * fewer devices they skip. `rank` and `ranks` are numbers, `comm` is there, and so is a stream. */
#ifndef CONFORMANCE_RANKS_H
#define CONFORMANCE_RANKS_H

#include "conformance.h"

#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, ranks;
static ncclComm_t comm;
static CUstream stream;

/* What all processes see. */
static struct {
    ncclUniqueId id;
    volatile int has_id;
    pid_t pid[16];
    volatile int dies[16]; /* this one is to be killed */
} * shared;

#define EXPECT_NCCL(code, call)                                                                              \
    do {                                                                                                     \
        const ncclResult_t got_ = (call);                                                                    \
        if (got_ != (code)) {                                                                                \
            conformance_failures++;                                                                          \
            printf("%s:%d: rank %d: %s: %s (%s), expected %s\n", __FILE__, __LINE__, rank, #call,            \
                   ncclGetErrorString(got_), ncclGetLastError(comm), ncclGetErrorString(code));              \
        }                                                                                                    \
    } while (0)
#define OK_NCCL(call)                                                                                        \
    do {                                                                                                     \
        const int failures_ = conformance_failures;                                                          \
        EXPECT_NCCL(ncclSuccess, call);                                                                      \
        if (conformance_failures != failures_)                                                               \
            exit(1);                                                                                         \
    } while (0)

/* Before CUDA is initialised: the others are forked. */
static void become(int n)
{
    ranks = n;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared->pid[0] = getpid();
    fflush(stdout);
    for (int i = 1; i < n && !rank; i++)
        if (!(shared->pid[i] = fork())) {
            rank = i;
            shared->pid[i] = getpid();
        }
    /* Where there are not so many, all of them skip (join_ranks). */
    int count = 0;
    conformance_device = cuInit(0) || cuDeviceGetCount(&count) || rank >= count ? 0 : rank;
}

static void join_ranks(void)
{
    int count = 0;
    OK(cuDeviceGetCount(&count));
    if (count < ranks)
        SKIP("not a device for each rank");
    if (!rank) {
        OK_NCCL(ncclGetUniqueId(&shared->id));
        shared->has_id = 1;
    }
    while (!shared->has_id)
        usleep(1000);
    OK_NCCL(ncclCommInitRank(&comm, ranks, shared->id, rank));
    stream = new_stream(CU_STREAM_NON_BLOCKING);
}

/* The first rank's exit code is the program's, so it waits for the others. */
static void part(void)
{
    if (comm)
        EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
    fflush(stdout);
    if (rank)
        _exit(conformance_failures ? 1 : 0);
    for (int i = 1, status; i < ranks; i++) {
        waitpid(shared->pid[i], &status, 0);
        CHECK(shared->dies[i] ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                              : WIFEXITED(status) && !WEXITSTATUS(status));
    }
}

#define RANKED(n)                                                                                            \
    static void fork_ranks(void)                                                                             \
    {                                                                                                        \
        become(n);                                                                                           \
    }                                                                                                        \
    static void ranked_body(void);                                                                           \
    CONFORMANCE_AFTER(fork_ranks)                                                                            \
    {                                                                                                        \
        join_ranks();                                                                                        \
        ranked_body();                                                                                       \
        part();                                                                                              \
    }                                                                                                        \
    static void ranked_body(void)

/* n ints on the device, each `first` and so much more than the one before. */
static inline CUdeviceptr ints(int n, int first, int more)
{
    int *host = malloc((size_t)n * sizeof *host);
    CUdeviceptr p = device_alloc((size_t)n * sizeof *host);
    for (int i = 0; i < n; i++)
        host[i] = first + i * more;
    OK(cuMemcpyHtoD(p, host, (size_t)n * sizeof *host));
    free(host);
    return p;
}

/* How many of the n ints are something else. */
static inline int wrong(CUdeviceptr p, int n, int first, int more)
{
    int *host = malloc((size_t)n * sizeof *host), count = 0;
    OK(cuMemcpyDtoH(host, p, (size_t)n * sizeof *host));
    for (int i = 0; i < n; i++)
        count += host[i] != first + i * more;
    free(host);
    return count;
}

#define AT(p, i)     ((void *)(uintptr_t)((p) + (size_t)(i) * sizeof(int)))
#define WAIT(stream) OK(cuStreamSynchronize(stream))

#endif

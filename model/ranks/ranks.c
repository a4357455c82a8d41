/* ranks.c: NCCL, as far as it is needed. Its interface is declared here, so that a toolkit without it will do: names, numbers and sizes are those of
 * nccl.h, which have been the same since 2.4. */
#include "model/ranks/ranks.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "model/base/check.h"

#define INT8    0
#define FLOAT32 7
#define SUM     0

typedef struct unique_id {
    char bytes[128];
} unique_id_t;

struct nccl_functions {
    int (*ncclGetUniqueId)(unique_id_t *id);
    int (*ncclCommInitRank)(struct ncclComm **comm, int count, unique_id_t id, int rank);
    int (*ncclCommDestroy)(struct ncclComm *comm);
    int (*ncclAllReduce)(const void *from, void *to, size_t count, int type, int op, struct ncclComm *comm,
                         cudaStream_t stream);
    int (*ncclReduceScatter)(const void *from, void *to, size_t count, int type, int op,
                             struct ncclComm *comm, cudaStream_t stream);
    int (*ncclAllGather)(const void *from, void *to, size_t count, int type, struct ncclComm *comm,
                         cudaStream_t stream);
    const char *(*ncclGetErrorString)(int result);
    const char *(*ncclGetLastError)(struct ncclComm *comm); /* NULL: before 2.13 */
};

static struct nccl_functions functions;

static void check_nccl(int result, const char *what)
{
    const char *more =
        result != 0 && functions.ncclGetLastError != NULL ? functions.ncclGetLastError(NULL) : NULL;
    if (result != 0)
        fatal("NCCL, %s: %s%s%s", what, functions.ncclGetErrorString(result), more != NULL ? ": " : "",
              more != NULL ? more : "");
}
#define NCCL(name, ...) check_nccl(functions.name(__VA_ARGS__), #name)

static const struct nccl_functions *open_library(void)
{
    static const struct {
        const char *name;
        size_t offset;
    } names[] = {
#define NAME(name) {#name, offsetof(struct nccl_functions, name)}
        NAME(ncclGetUniqueId),   NAME(ncclCommInitRank), NAME(ncclCommDestroy),    NAME(ncclAllReduce),
        NAME(ncclReduceScatter), NAME(ncclAllGather),    NAME(ncclGetErrorString), NAME(ncclGetLastError),
#undef NAME
    };
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    if (library == NULL)
        fatal("several GPUs need NCCL: %s", dlerror());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *address = dlsym(library, names[i].name);
        if (address == NULL && strcmp(names[i].name, "ncclGetLastError") != 0)
            fatal("libnccl.so.2 has no %s", names[i].name);
        memcpy((char *)&functions + names[i].offset, &address, sizeof address);
    }
    return &functions;
}

void ranks_open(ranks_t *ranks, gpu_t *gpu, world_t world)
{
    *ranks = (ranks_t){.world = world, .gpu = gpu};
    if (world.count == 1)
        return;
    unique_id_t id = {{0}};
    ranks->nccl = open_library();
    if (world.rank == 0)
        NCCL(ncclGetUniqueId, &id);
    ranks_meet(&world, &id, sizeof id);
    NCCL(ncclCommInitRank, &ranks->comm, world.count, id, world.rank);
    CUDA(cudaStreamCreateWithFlags(&ranks->stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&ranks->ready, cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&ranks->done, cudaEventDisableTiming));
    CUDA(cudaMalloc((void **)&ranks->token, sizeof *ranks->token));
}

void ranks_close(ranks_t *ranks)
{
    if (ranks->nccl != NULL) {
        NCCL(ncclCommDestroy, ranks->comm);
        CUDA(cudaFree(ranks->token));
        CUDA(cudaEventDestroy(ranks->ready));
        CUDA(cudaEventDestroy(ranks->done));
        CUDA(cudaStreamDestroy(ranks->stream));
    }
    *ranks = (ranks_t){.world.count = 1};
}

void ranks_follow(ranks_t *ranks)
{
    if (ranks->nccl == NULL)
        return;
    CUDA(cudaEventRecord(ranks->ready, ranks->gpu->stream));
    CUDA(cudaStreamWaitEvent(ranks->stream, ranks->ready, 0));
}

void ranks_all_reduce(ranks_t *ranks, float *values, size_t count)
{
    if (ranks->nccl == NULL)
        return;
    ranks_follow(ranks);
    NCCL(ncclAllReduce, values, values, count, FLOAT32, SUM, ranks->comm, ranks->stream);
}

void ranks_reduce_scatter(ranks_t *ranks, const float *all, float *own, size_t count)
{
    if (ranks->nccl == NULL)
        return;
    ranks_follow(ranks);
    NCCL(ncclReduceScatter, all, own, count, FLOAT32, SUM, ranks->comm, ranks->stream);
}

void ranks_all_gather(ranks_t *ranks, const void *own, void *all, size_t bytes)
{
    if (ranks->nccl == NULL)
        return;
    ranks_follow(ranks);
    NCCL(ncclAllGather, own, all, bytes, INT8, ranks->comm, ranks->stream);
}

bool ranks_agree(ranks_t *ranks, bool good)
{
    float bad = 0;
    if (ranks->nccl == NULL)
        return good;
    CUDA(cudaMemsetAsync(ranks->token, good ? 0 : 0x3f, sizeof *ranks->token,
                         ranks->gpu->stream)); /* 0 or 0.75 */
    ranks_all_reduce(ranks, ranks->token, 1);
    CUDA(cudaMemcpyAsync(&bad, ranks->token, sizeof bad, cudaMemcpyDeviceToHost, ranks->stream));
    CUDA(cudaStreamSynchronize(ranks->stream));
    return good && bad == 0;
}

void ranks_mark(ranks_t *ranks, cudaEvent_t event)
{
    if (ranks->nccl != NULL)
        CUDA(cudaEventRecord(event, ranks->stream));
}

void ranks_join(ranks_t *ranks)
{
    if (ranks->nccl == NULL)
        return;
    ranks_mark(ranks, ranks->done);
    CUDA(cudaStreamWaitEvent(ranks->gpu->stream, ranks->done, 0));
}

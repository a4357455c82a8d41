/* ranks.c: a training loop of several ranks, a process or a thread each, which knows nothing of ebb.
 *
 *   ranks [ranks=N] [threads=1] [layers=N] [steps=N] [mib=N] [shard=1 [apart=1]] [ring=1] [pieces=N] [more=MIB] [slow=RANK] [die=STEP]
 *
 * Each rank has its own batch and the same weights. Forward and backward on one stream; gradients are averaged over all ranks on another one, as
 * soon as they are there; then the weights change.
 *
 * threads=1   the ranks are threads of one process
 * shard=1     a rank keeps a part of each layer's weights: they are gathered before a layer is used, forward and backward, and a gradient's parts
 *             are summed where they are kept
 * apart=1     what gathers them has a stream and a communicator of its own, so that it goes on beside the sums
 * ring=1      in the middle of the forward pass activations go round: each rank sends its own and goes on with its neighbour's
 * pieces=N    what is averaged, and what goes round, does so in N pieces of one group: too many for one kernel's arguments
 * more=MIB    the last rank has so much more, which it fills and reads in each step
 * slow=RANK   this one comes late to every fourth step
 * die=STEP    the last rank ends in this step, by a signal
 *
 * The last line of output is a hash of all ranks' weights and sums. Exit code 3: a call failed.
 */
#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRAINER "ranks"
#include "loop.cuh"
#include "trainer_parts.h"

#ifndef EBB_CHUNK_KIB
#define EBB_CHUNK_KIB 2048
#endif
enum { LAYERS_MAX = 32, RANKS_MAX = 8 };

#define CHECK_NCCL(call)                                                                                     \
    do {                                                                                                     \
        const ncclResult_t check_ = (call);                                                                  \
        if (check_) {                                                                                        \
            fprintf(stderr, TRAINER ": %s: %s\n", #call, ncclGetLastError(NULL));                            \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

typedef struct ranks {
    int ranks, rank, layers, steps, shard, apart, ring, pieces, more, slow, die;
    size_t n, m;              /* floats of an activation, of a layer's weights */
    ncclComm_t comm, gathers; /* apart=1; else the same */
    cudaStream_t compute, aside, gathering;
    cudaEvent_t ready, done;
    float *w[LAYERS_MAX]; /* all of a layer's, or this rank's part */
    float *x[LAYERS_MAX + 1], *dw[LAYERS_MAX];
    float *sums, *extra; /* `extra`: NULL on all ranks but the last */
    unsigned *counter;
} ranks_t;

/* What the ranks share. */
typedef struct meeting {
    ncclUniqueId id;
    atomic_int has_id;
    uint64_t hash[RANKS_MAX];
} meeting_t;
static meeting_t *meeting;

static float *new_floats(const ranks_t *r, size_t count)
{
    void *p = NULL;
    CHECK(cudaMallocAsync(&p, count * sizeof(float), r->compute));
    return p;
}

static void free_floats(const ranks_t *r, float **p)
{
    CHECK(cudaFreeAsync(*p, r->compute));
    *p = NULL;
}

static size_t kept(const ranks_t *r)
{
    return r->shard ? r->m / (size_t)r->ranks : r->m;
}

static void order(cudaStream_t waits, cudaStream_t stream, cudaEvent_t event)
{
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(waits, event, 0));
}

static void set_up(ranks_t *r)
{
    CHECK(cudaSetDevice(r->rank));
    CHECK(cudaStreamCreateWithFlags(&r->compute, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&r->aside, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&r->ready, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&r->done, cudaEventDisableTiming));
    CHECK_NCCL(ncclCommInitRank(&r->comm, r->ranks, meeting->id, r->rank));
    r->gathers = r->comm;
    r->gathering = r->aside;
    if (r->apart) {
        CHECK(cudaStreamCreateWithFlags(&r->gathering, cudaStreamNonBlocking));
        CHECK_NCCL(ncclCommSplit(r->comm, 0, r->rank, &r->gathers, NULL));
    }
    for (int i = 0; i < r->layers; i++) {
        void *p;
        CHECK(cudaMalloc(&p, kept(r) * sizeof(float)));
        r->w[i] = p;
        CHECK(loop_fill(r->w[i], (unsigned)(i + 100 * (r->shard ? r->rank : 0)), kept(r), r->compute));
    }
    void *p;
    CHECK(cudaMalloc(&p, (r->n / 16384 + 1) * sizeof(float)));
    r->sums = p;
    if (r->more && r->rank == r->ranks - 1) {
        CHECK(cudaMalloc(&p, (size_t)r->more << 20));
        r->extra = p;
    }
    CHECK(cudaMalloc(&p, sizeof *r->counter));
    r->counter = p;
    CHECK(cudaMemset(r->counter, 0, sizeof *r->counter));
    CHECK(cudaMemsetAsync(r->sums, 0, (r->n / 16384 + 1) * sizeof(float), r->compute));
    CHECK(cudaDeviceSynchronize());
}

/* The layer's weights, to be given back. */
static float *weights(ranks_t *r, int i)
{
    if (!r->shard)
        return r->w[i];
    float *all = new_floats(r, r->m);
    order(r->gathering, r->compute, r->ready);
    CHECK_NCCL(ncclAllGather(r->w[i], all, kept(r), ncclFloat32, r->gathers, r->gathering));
    order(r->compute, r->gathering, r->done);
    return all;
}

static void give_back(ranks_t *r, float *all)
{
    if (r->shard)
        free_floats(r, &all);
}

/* To the next rank, from the one before. */
static void go_round(ranks_t *r, float **x)
{
    float *other = new_floats(r, r->n);
    const int next = (r->rank + 1) % r->ranks, previous = (r->rank + r->ranks - 1) % r->ranks;
    const size_t piece = r->n / (size_t)r->pieces;
    CHECK_NCCL(ncclGroupStart());
    for (size_t i = 0; i < (size_t)r->pieces; i++) {
        CHECK_NCCL(ncclSend(*x + i * piece, piece, ncclFloat32, next, r->comm, r->compute));
        CHECK_NCCL(ncclRecv(other + i * piece, piece, ncclFloat32, previous, r->comm, r->compute));
    }
    CHECK_NCCL(ncclGroupEnd());
    free_floats(r, x);
    *x = other;
}

static void reduce(ranks_t *r, int i)
{
    order(r->aside, r->compute, r->ready);
    if (r->shard) {
        CHECK_NCCL(ncclReduceScatter(r->dw[i], r->dw[i] + (size_t)r->rank * kept(r), kept(r), ncclFloat32,
                                     ncclAvg, r->comm, r->aside));
        return;
    }
    const size_t piece = r->m / (size_t)r->pieces;
    CHECK_NCCL(ncclGroupStart());
    for (size_t k = 0; k < (size_t)r->pieces; k++)
        CHECK_NCCL(ncclAllReduce(r->dw[i] + k * piece, r->dw[i] + k * piece, piece, ncclFloat32, ncclAvg,
                                 r->comm, r->aside));
    CHECK_NCCL(ncclGroupEnd());
}

static void run_step(ranks_t *r, int step)
{
    if (r->rank == r->slow && step % 4 == 0)
        usleep(30000);
    if (step == r->die && r->rank == r->ranks - 1)
        raise(SIGKILL);
    if (r->extra)
        CHECK(loop_fill(r->extra, (unsigned)step, (size_t)r->more << 18, r->compute));
    r->x[0] = new_floats(r, r->n);
    CHECK(loop_fill(r->x[0], (unsigned)(step * 7919 + r->rank), r->n, r->compute));
    for (int i = 0; i < r->layers; i++) {
        float *w = weights(r, i);
        r->x[i + 1] = new_floats(r, r->n);
        CHECK(loop_forward(r->x[i + 1], r->x[i], w, NULL, r->n, r->m, r->compute));
        give_back(r, w);
        if (r->ring && i == r->layers / 2)
            go_round(r, &r->x[i + 1]);
    }
    float *dout = new_floats(r, r->n);
    CHECK(loop_fill(dout, 99, r->n, r->compute));
    for (int i = r->layers; i-- > 0;) {
        float *din = new_floats(r, r->n), *w = weights(r, i);
        r->dw[i] = new_floats(r, r->m);
        CHECK(loop_backward(din, r->dw[i], dout, r->x[i], r->x[i + 1], w, r->n, r->m, 0, r->compute));
        give_back(r, w);
        free_floats(r, &r->x[i + 1]);
        free_floats(r, &dout);
        dout = din;
        reduce(r, i);
    }
    CHECK(loop_probe(r->sums, dout, r->n, r->compute));
    if (r->extra)
        CHECK(loop_probe(r->sums, r->extra, r->n, r->compute));
    free_floats(r, &dout);
    free_floats(r, &r->x[0]);
    order(r->compute, r->aside, r->done);
    for (int i = 0; i < r->layers; i++) {
        CHECK(loop_update(r->w[i], r->dw[i] + (r->shard ? (size_t)r->rank * kept(r) : 0), r->counter, 1e-3f,
                          kept(r), r->compute));
        free_floats(r, &r->dw[i]);
    }
    if (step % 4 == 3)
        CHECK(cudaStreamSynchronize(r->compute));
}

static void *be(void *rank)
{
    ranks_t *const r = rank;
    if (!r->rank) {
        CHECK_NCCL(ncclGetUniqueId(&meeting->id));
        meeting->has_id = 1;
    }
    while (!meeting->has_id)
        usleep(1000);
    set_up(r);
    for (int step = 0; step < r->steps; step++)
        run_step(r, step);
    CHECK(cudaStreamSynchronize(r->compute));
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < r->layers; i++)
        hash = trainer_hash(r->w[i], kept(r) * sizeof(float), hash);
    meeting->hash[r->rank] = trainer_hash(r->sums, (r->n / 16384 + 1) * sizeof(float), hash);
    if (r->apart)
        CHECK_NCCL(ncclCommDestroy(r->gathers));
    CHECK_NCCL(ncclCommDestroy(r->comm));
    return NULL;
}

/* Exit code. */
static int as_threads(const ranks_t *all)
{
    static ranks_t r[RANKS_MAX];
    pthread_t thread[RANKS_MAX];
    for (int i = 0; i < all->ranks; i++) {
        r[i] = *all;
        r[i].rank = i;
        if (pthread_create(&thread[i], NULL, be, &r[i]))
            return 2;
    }
    for (int i = 0; i < all->ranks; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

/* Exit code. */
static int as_processes(ranks_t *r)
{
    pid_t pid[RANKS_MAX];
    int failed = 0;
    for (r->rank = 0; r->rank < r->ranks; r->rank++)
        if (!(pid[r->rank] = fork())) {
            be(r);
            exit(0);
        }
    for (int i = 0, status; i < r->ranks; i++)
        if (waitpid(pid[i], &status, 0) == pid[i] && status && !failed)
            failed = WIFEXITED(status)                                                 ? WEXITSTATUS(status)
                     : r->die >= 0 && i + 1 == r->ranks && WTERMSIG(status) == SIGKILL ? 0
                                                                                       : 4;
    return failed;
}

int main(int argc, char **argv)
{
    static ranks_t r;
    r.ranks = trainer_option(argc, argv, "ranks", 2);
    r.layers = trainer_option(argc, argv, "layers", 6);
    r.steps = trainer_option(argc, argv, "steps", 24);
    r.shard = trainer_option(argc, argv, "shard", 0);
    r.apart = trainer_option(argc, argv, "apart", 0);
    r.ring = trainer_option(argc, argv, "ring", 0);
    r.pieces = trainer_option(argc, argv, "pieces", 1);
    r.more = trainer_option(argc, argv, "more", 0);
    r.slow = trainer_option(argc, argv, "slow", -1);
    r.die = trainer_option(argc, argv, "die", -1);
    r.m = EBB_CHUNK_KIB * 256;
    r.n = (size_t)trainer_option(argc, argv, "mib", 4) * r.m / 2;
    meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.ranks < 1 || r.ranks > RANKS_MAX || r.layers > LAYERS_MAX || meeting == MAP_FAILED)
        return 2;
    const int failed = trainer_option(argc, argv, "threads", 0) ? as_threads(&r) : as_processes(&r);
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < r.ranks; i++)
        hash = (hash ^ meeting->hash[i]) * 0x100000001b3u;
    printf("%016llx\n", (unsigned long long)hash);
    return failed;
}

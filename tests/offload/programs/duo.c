/* duo.c: two devices, a thread for each, which relaxes a ring of fields of its own; the driver API only. Every round they
 * hand each other fields by every kind of copy between devices, wait for each other's events, free each other's
 * memory, and ask about it. Prints one hash of all contents and answers, and the bytes that were allocated at most on one device (stderr).
 *
 *   duo copies   as said
 *   duo peers    the second device's kernels also read the first one's fields; it has more of its own than the first
 *   duo reset    the first device's primary context is reset in the middle, and its thread begins anew
 *   duo release  the same by giving back the last reference to it
 *   duo fork     a child is forked in the middle
 *   duo further  some of it is done in a further context of the first device
 *   duo trade    in the middle both offer each other memory to be freed, again and again, and capture graphs, without waiting for each other
 *   duo ends     the process ends while both threads go on
 */
#include <cuda.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.cuh"

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        CUresult check_ = (call);                                                                            \
        if (check_) {                                                                                        \
            const char *name_ = "?";                                                                         \
            cuGetErrorName(check_, &name_);                                                                  \
            fprintf(stderr, "duo:%d: %s: %s\n", __LINE__, #call, name_);                                     \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

enum {
    FIELDS = 7,
    ROUNDS = 10,
    N = (3 << 18) - 1021,
    SLICES = (N + PAIR_SLICE - 1) / PAIR_SLICE,
    SMALL = 300,
    IDLE = 6,
    TRADES = 150
};

typedef struct half {
    unsigned own, other;
    CUcontext context;
    CUmodule module;
    CUfunction relax;
    CUstream stream;
    CUevent ready, copied;
    CUdeviceptr field[FIELDS], spare, small;
    CUdeviceptr idle[IDLE];             /* of the second device when peers read the first one's */
    CUdeviceptr garbage, garbage_async; /* to be freed by the other thread */
    _Atomic CUdeviceptr offered;        /* the same; 0: nothing is */
    uint64_t hash;
    size_t bytes, peak_bytes; /* guarded by duo.lock */
} half_t;

static struct {
    half_t half[2];
    pthread_barrier_t barrier;
    pthread_mutex_t lock;
    bool copies, peers, reset, release, fork, further, trade, ends;
    sem_t goes_on;    /* once by each thread */
    CUcontext second; /* of the first device */
} duo = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void count(half_t *h, size_t more, size_t less)
{
    pthread_mutex_lock(&duo.lock);
    h->bytes += more - less;
    h->peak_bytes = h->bytes > h->peak_bytes ? h->bytes : h->peak_bytes;
    pthread_mutex_unlock(&duo.lock);
}

static CUdeviceptr allocate(half_t *h, size_t bytes)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, bytes));
    count(h, bytes, 0);
    return p;
}

static void mix(half_t *h, uint64_t value)
{
    h->hash = (h->hash ^ value) * 0x9e3779b97f4a7c15u;
    h->hash ^= h->hash >> 29;
}

static void hash_of(half_t *h, CUdeviceptr p, size_t bytes)
{
    uint64_t *host = calloc(1, (bytes + 7) / 8 * 8);
    CHECK(cuMemcpyDtoH(host, p, bytes));
    for (size_t i = 0; i < (bytes + 7) / 8; i++)
        mix(h, host[i]);
    free(host);
}

/* ---- own work ---- */

static void open_half(half_t *h)
{
    CHECK(cuDevicePrimaryCtxRetain(&h->context, (CUdevice)h->own));
    CHECK(cuCtxSetCurrent(h->context));
    CHECK(cuModuleLoad(&h->module, DUO_KERNEL_FILE));
    CHECK(cuModuleGetFunction(&h->relax, h->module, "relax"));
    CHECK(cuStreamCreate(&h->stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&h->ready, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&h->copied, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < FIELDS; i++) {
        h->field[i] = allocate(h, N * sizeof(float));
        CHECK(cuMemsetD32Async(h->field[i], 0x3e800000 + (i + 9 * h->own) * 0x1111, N, h->stream));
    }
    h->spare = allocate(h, N * sizeof(float));
    h->small = allocate(h, SMALL * sizeof(float));
    CHECK(cuMemsetD32(h->small, 0x3f000000 + h->own, SMALL));
    for (unsigned i = 0; i < IDLE && duo.peers && h->own == 1; i++) {
        h->idle[i] = allocate(h, N * sizeof(float));
        CHECK(cuMemsetD32Async(h->idle[i], i + 1, N, h->stream));
    }
}

static void launch(half_t *h, CUdeviceptr *out, CUdeviceptr *left, CUdeviceptr *mid, CUdeviceptr *right,
                   CUdeviceptr *walls)
{
    unsigned n = N;
    float rate = 0.19f;
    CHECK(cuLaunchKernel(h->relax, 16, (SLICES + 15) / 16, 1, 64, 1, 1, 0, h->stream,
                         (void *[]){out, left, mid, right, walls, &n, &rate}, NULL));
}

/* `beyond`: a field to be read beside the own ones, or 0. */
static void relax_ring(half_t *h, unsigned round, CUdeviceptr beyond)
{
    CUdeviceptr walls = allocate(h, (SLICES + round) * sizeof(float));
    CHECK(cuMemsetD32Async(walls, round << 20, SLICES + round, h->stream));
    for (unsigned i = 0; i < FIELDS; i++) {
        CUdeviceptr mid = h->field[i], right = beyond && i == 2 ? beyond : h->field[(i + 1) % FIELDS];
        launch(h, &h->spare, &h->field[(i + FIELDS - 1) % FIELDS], &mid, &right, &walls);
        h->field[i] = h->spare;
        h->spare = mid;
    }
    CHECK(cuMemFree(walls));
    count(h, 0, (SLICES + round) * sizeof(float));
}

/* ---- with the other ---- */

/* Takes one of the other's fields, which is ready, into one of its own. */
static void take(half_t *h, half_t *from, unsigned round)
{
    CUdeviceptr dst = h->field[round % FIELDS], src = from->field[(round + 3) % FIELDS];
    const size_t bytes = N * sizeof(float);
    CUDA_MEMCPY3D_PEER box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = src,
                              .srcContext = from->context,
                              .srcPitch = 4096,
                              .srcHeight = 1,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = dst,
                              .dstContext = h->context,
                              .dstPitch = 4096,
                              .dstHeight = 1,
                              .WidthInBytes = 4000,
                              .Height = 1,
                              .Depth = 600};
    CHECK(cuStreamWaitEvent(h->stream, from->ready, 0));
    switch ((round + h->own) % 6) {
    case 0:
        CHECK(cuMemcpyPeerAsync(dst, h->context, src, from->context, bytes, h->stream));
        break;
    case 1:
        CHECK(cuMemcpyDtoDAsync(dst, src, bytes, h->stream));
        break;
    case 2:
        CHECK(cuMemcpyAsync(dst, src, bytes, h->stream));
        break;
    case 3:
        CHECK(cuMemcpy3DPeerAsync(&box, h->stream));
        break;
    case 4: /* on the other's stream, behind own work */
        CHECK(cuEventRecord(h->copied, h->stream));
        CHECK(cuStreamWaitEvent(from->stream, h->copied, 0));
        CHECK(cuMemcpyAsync(dst, src, bytes, from->stream));
        CHECK(cuCtxSetCurrent(from->context)); /* an event is its stream's device's */
        CUevent there;
        CHECK(cuEventCreate(&there, CU_EVENT_DISABLE_TIMING));
        CHECK(cuEventRecord(there, from->stream));
        CHECK(cuCtxSetCurrent(h->context));
        CHECK(cuStreamWaitEvent(h->stream, there, 0));
        CHECK(cuEventDestroy(there));
        break;
    default:
        CHECK(cuStreamSynchronize(h->stream));
        CHECK(cuMemcpyPeer(dst, h->context, src, from->context, bytes));
        CHECK(cuCtxSynchronize());
    }
    CHECK(cuMemcpyPeerAsync(h->small, h->context, from->field[(round + 1) % FIELDS] + 4096, from->context,
                            (SMALL - round) * sizeof(float), h->stream));
}

/* What is said about the other's memory while this device's context is current. */
static void ask(half_t *h, half_t *about)
{
    CUdeviceptr base, at = about->field[1] + 12345;
    size_t bytes;
    CUcontext context;
    int device;
    CUmemorytype type;
    CHECK(cuMemGetAddressRange(&base, &bytes, at));
    mix(h, bytes + (base == about->field[1]));
    CHECK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
    mix(h, context == about->context);
    CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
    mix(h, (uint64_t)device + 7);
    void *answers[] = {&type, &device};
    CUpointer_attribute questions[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    CHECK(cuPointerGetAttributes(2, questions, answers, at));
    mix(h, (uint64_t)type * 16 + (uint64_t)device);
}

/* Leaves something for the other to free, and frees what that one has left. */
static void leave_garbage(half_t *h, unsigned round)
{
    h->garbage = allocate(h, ((size_t)round + 1) << 19);
    CHECK(cuMemsetD8Async(h->garbage, (unsigned char)round, ((size_t)round + 1) << 19, h->stream));
    CHECK(cuMemAllocAsync(&h->garbage_async, 3 << 19, h->stream));
    count(h, 3 << 19, 0);
    CHECK(cuMemsetD8Async(h->garbage_async, 0xa5, 3 << 19, h->stream));
}

static void take_out_garbage(half_t *h, half_t *of, unsigned round)
{
    CUdeviceptr p;
    CHECK(cuMemFree(of->garbage));
    CHECK(cuStreamWaitEvent(h->stream, of->ready, 0));
    CHECK(cuMemFreeAsync(of->garbage_async, h->stream));
    count(of, 0, (((size_t)round + 1) << 19) + (3 << 19));
    /* The stream says whose memory it is, whatever is current. */
    int device;
    CHECK(cuMemAllocAsync(&p, 5 << 18, of->stream));
    CHECK(cuMemsetD8Async(p, 1, 5 << 18, of->stream));
    CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    mix(h, (uint64_t)device);
    CHECK(cuMemFreeAsync(p, of->stream));
}

static void use_further_context(half_t *h)
{
    CUdeviceptr p;
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(duo.second));
    CHECK(cuMemAlloc(&p, 1 << 20));
    CHECK(cuMemcpyDtoD(p, h->field[0], 1 << 20));
    CHECK(cuMemsetD32(h->field[0], 0x3e000000, 1000));
    CHECK(cuMemcpyDtoD(h->field[1], p, 1 << 19));
    CHECK(cuCtxSynchronize());
    hash_of(h, p, 1 << 20);
    CHECK(cuMemFree(p));
    CHECK(cuCtxSetCurrent(h->context));
}

static void fork_child(void)
{
    pid_t child = fork();
    if (!child) {
        CUdeviceptr p; /* forbidden, and must not hang */
        cuMemAlloc(&p, 1 << 20);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status)) {
        fprintf(stderr, "duo: the child did not end well\n");
        exit(4);
    }
}

/* ---- the rounds ---- */

static void meet(void)
{
    pthread_barrier_wait(&duo.barrier);
}

static void begin_anew(half_t *h)
{
    for (unsigned i = 0; i < FIELDS; i++)
        hash_of(h, h->field[i], N * sizeof(float));
    if (duo.reset)
        CHECK(cuDevicePrimaryCtxReset((CUdevice)h->own));
    CHECK(cuDevicePrimaryCtxRelease((CUdevice)h->own));
    CHECK(cuCtxSetCurrent(NULL));
    pthread_mutex_lock(&duo.lock);
    h->bytes = 0;
    pthread_mutex_unlock(&duo.lock);
    open_half(h);
}

static void capture(half_t *h)
{
    CUgraph graph;
    CHECK(cuStreamBeginCapture(h->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemsetD32Async(h->small, 0x3f000000, SMALL, h->stream));
    CHECK(cuStreamEndCapture(h->stream, &graph));
    CHECK(cuGraphDestroy(graph));
}

static void trade(half_t *h, half_t *with)
{
    CUdeviceptr p;
    for (unsigned i = 0; i < TRADES; i++) {
        const size_t bytes = ((size_t)i % 5 + 1) << 19;
        CHECK(cuMemAlloc(&p, bytes));
        CHECK(cuMemsetD8Async(p, (unsigned char)i, bytes, h->stream));
        if ((p = atomic_exchange(&h->offered, p)))
            CHECK(cuMemFree(p));
        if ((p = atomic_exchange(&with->offered, 0)))
            CHECK(cuMemFree(p));
        if (i % 16 == 0)
            capture(h);
    }
    if ((p = atomic_exchange(&h->offered, 0)))
        CHECK(cuMemFree(p));
}

/* Both work on their own, one of them going through the end of its context. */
static void middle(half_t *h)
{
    if (duo.trade)
        trade(h, &duo.half[h->other]);
    if (h->own == 0 && (duo.reset || duo.release))
        begin_anew(h);
    else if (h->own == 0 && duo.fork)
        fork_child();
    else if (h->own == 0 && duo.further)
        use_further_context(h);
    else
        relax_ring(h, 3, 0);
}

static void *work(void *mine)
{
    half_t *h = mine, *other = &duo.half[h->other];
    open_half(h);
    meet();
    if (duo.peers && h->own == 1)
        CHECK(cuCtxEnablePeerAccess(other->context, 0));
    if (duo.further && h->own == 0) {
        CHECK(cuCtxCreate(&duo.second, NULL, 0, 0));
        CHECK(cuCtxSetCurrent(h->context));
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        relax_ring(h, round, 0);
        leave_garbage(h, round);
        CHECK(cuEventRecord(h->ready, h->stream));
        meet();
        /* One after the other, because a field may be both given and taken. */
        for (unsigned turn = 0; turn < 2; turn++) {
            if (turn == h->own) {
                take(h, other, round);
                if (duo.peers && h->own == 1)
                    relax_ring(h, round, other->field[4]);
                CHECK(cuEventRecord(h->ready, h->stream));
                CHECK(cuEventSynchronize(h->ready));
                ask(h, other);
            }
            meet();
        }
        take_out_garbage(h, other, round);
        hash_of(h, h->small, SMALL * sizeof(float));
        meet();
        if (round == ROUNDS / 2)
            middle(h);
        meet();
    }
    for (unsigned i = 0; i < FIELDS; i++)
        hash_of(h, h->field[i], N * sizeof(float));
    for (unsigned i = 0; i < IDLE && h->idle[i]; i++)
        hash_of(h, h->idle[i], N * sizeof(float));
    return NULL;
}

/* What its calls return while the driver ends is undefined. */
static void *go_on(void *mine)
{
    half_t *h = mine;
    CHECK(cuCtxSetCurrent(h->context));
    for (unsigned round = 0;; round++) {
        CUdeviceptr p = 0;
        cuMemAlloc(&p, N * sizeof(float));
        cuMemsetD32(p, round, N);
        cuMemcpyDtoD(p, h->field[round % FIELDS], SMALL * sizeof(float));
        cuMemFree(p);
        if (round == FIELDS)
            sem_post(&duo.goes_on);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[2];
    const char *mode = argc > 1 ? argv[1] : "copies";
    duo.peers = !strcmp(mode, "peers");
    duo.reset = !strcmp(mode, "reset");
    duo.release = !strcmp(mode, "release");
    duo.fork = !strcmp(mode, "fork");
    duo.further = !strcmp(mode, "further");
    duo.trade = !strcmp(mode, "trade");
    duo.ends = !strcmp(mode, "ends");
    sem_init(&duo.goes_on, 0, 0);
    CHECK(cuInit(0));
    pthread_barrier_init(&duo.barrier, NULL, 2);
    for (unsigned i = 0; i < 2; i++) {
        duo.half[i] = (half_t){.own = i, .other = 1 - i, .hash = i + 1};
        pthread_create(&thread[i], NULL, work, &duo.half[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    printf("%016llx %016llx\n", (unsigned long long)duo.half[0].hash, (unsigned long long)duo.half[1].hash);
    fprintf(stderr, "peak %zu %zu\n", duo.half[0].peak_bytes, duo.half[1].peak_bytes);
    for (unsigned i = 0; i < 2 && duo.ends; i++)
        pthread_create(&thread[i], NULL, go_on, &duo.half[i]);
    for (unsigned i = 0; i < 2 && duo.ends; i++)
        sem_wait(&duo.goes_on);
    return 0;
}

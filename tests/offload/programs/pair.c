/* pair.c: two threads, two streams, the driver API and cuMemAlloc only. One thread relaxes a ring of fields, the other
 * sorts keys by compare and exchange between arrays, and lets histograms that it reads back decide what is exchanged
 * next. Every round they hand each other one array: through an event, without the host waiting. Scratch memory comes and
 * goes in sizes that change. Prints one hash of everything, and the bytes that were allocated at most (stderr).
 *
 * `pair greedy` first allocates blocks for nothing until there is no more memory, and gives them back one by one when it
 * runs out later: what programs with caches of their own do.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pair.cuh"

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        CUresult check_ = (call);                                                                            \
        if (check_) {                                                                                        \
            const char *name_ = "?";                                                                         \
            cuGetErrorName(check_, &name_);                                                                  \
            fprintf(stderr, "pair: %s: %s\n", #call, name_);                                                 \
            _exit(3); /* another thread may be under way in the libraries */                                 \
        }                                                                                                    \
    } while (0)

enum { CACHES = 512, CACHE_BYTES = 5 << 20 };
enum {
    FIELDS = 11,
    ARRAYS = 9,
    ROUNDS = 8,
    N = (1 << 20) - 4097,
    SLICES = (N + PAIR_SLICE - 1) / PAIR_SLICE
};

static struct {
    CUcontext context;
    CUfunction relax, exchange, histogram, to_keys, to_field, seed_keys;
    /* What goes from one half to the other in a round; guarded by the barrier. */
    pthread_barrier_t barrier;
    CUdeviceptr from_fields, from_arrays;
    CUevent fields_ready, arrays_ready, fields_done, arrays_done;
    pthread_mutex_t lock;
    size_t bytes, peak_bytes;  /* guarded by `lock` */
    CUdeviceptr cache[CACHES]; /* guarded by `lock` */
    unsigned caches, retries;
} pair = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void fill_caches(void)
{
    while (pair.caches < CACHES) {
        CUresult result = cuMemAlloc(&pair.cache[pair.caches], CACHE_BYTES);
        if (result == CUDA_ERROR_OUT_OF_MEMORY)
            return;
        CHECK(result);
        CHECK(cuMemsetD8(pair.cache[pair.caches++], 0xee, CACHE_BYTES));
    }
}

static bool give_back_cache(void)
{
    CUdeviceptr p = 0;
    pthread_mutex_lock(&pair.lock);
    if (pair.caches) {
        p = pair.cache[--pair.caches];
        pair.retries++;
    }
    pthread_mutex_unlock(&pair.lock);
    if (p)
        CHECK(cuMemFree(p));
    return p != 0;
}

static CUdeviceptr allocate(size_t bytes)
{
    CUdeviceptr p = 0;
    CUresult result;
    while ((result = cuMemAlloc(&p, bytes)) == CUDA_ERROR_OUT_OF_MEMORY && give_back_cache())
        ;
    CHECK(result);
    pthread_mutex_lock(&pair.lock);
    pair.bytes += bytes;
    pair.peak_bytes = pair.bytes > pair.peak_bytes ? pair.bytes : pair.peak_bytes;
    pthread_mutex_unlock(&pair.lock);
    return p;
}

static void release(CUdeviceptr p, size_t bytes)
{
    CHECK(cuMemFree(p));
    pthread_mutex_lock(&pair.lock);
    pair.bytes -= bytes;
    pthread_mutex_unlock(&pair.lock);
}

static void launch(CUfunction f, CUstream stream, void **arguments)
{
    const unsigned across = 16;
    CHECK(cuLaunchKernel(f, across, (SLICES + across - 1) / across, 1, 64, 1, 1, 0, stream, arguments, NULL));
}

static uint64_t hash_of(CUdeviceptr p, size_t bytes, uint64_t hash)
{
    unsigned char *host = malloc(bytes);
    CHECK(cuMemcpyDtoH(host, p, bytes));
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ host[i]) * 0x100000001b3u; /* FNV-1a */
    free(host);
    return hash;
}

/* ---- fields ---- */

/* The ring once round, each field from its neighbours of before; `spare` changes places with each. */
static void relax_ring(CUdeviceptr *field, CUdeviceptr *spare, CUstream stream, unsigned round)
{
    const size_t bytes = (SLICES + round) * sizeof(float);
    CUdeviceptr walls = allocate(bytes);
    unsigned n = N;
    float rate = 0.2f / (float)(round + 1);
    CHECK(cuMemsetD32Async(walls, round << 20, SLICES + round, stream));
    for (unsigned i = 0; i < FIELDS; i++) {
        CUdeviceptr *left = &field[(i + FIELDS - 1) % FIELDS], *right = &field[(i + 1) % FIELDS],
                    mid = field[i];
        launch(pair.relax, stream, (void *[]){spare, left, &mid, right, &walls, &n, &rate});
        field[i] = *spare;
        *spare = mid;
    }
    release(walls, bytes);
}

static void *fields(void *result)
{
    CUdeviceptr field[FIELDS], spare;
    CUstream stream;
    CHECK(cuCtxSetCurrent(pair.context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    spare = allocate(N * sizeof(float));
    for (unsigned i = 0; i < FIELDS; i++) {
        field[i] = allocate(N * sizeof(float));
        CHECK(cuMemsetD32Async(field[i], 0x3e800000 + i * 0x1111, N, stream));
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned n = N;
        relax_ring(field, &spare, stream, round);
        CHECK(cuEventRecord(pair.fields_ready, stream));
        pair.from_fields = field[round % FIELDS];
        pthread_barrier_wait(&pair.barrier); /* both have given */
        CHECK(cuStreamWaitEvent(stream, pair.arrays_ready, 0));
        CUdeviceptr mine = field[(round + 3) % FIELDS];
        launch(pair.to_field, stream, (void *[]){&mine, &pair.from_arrays, &n});
        CHECK(cuEventRecord(pair.arrays_done, stream));
        pthread_barrier_wait(&pair.barrier); /* both have taken */
        CHECK(cuStreamWaitEvent(stream, pair.fields_done, 0));
    }
    CHECK(cuStreamSynchronize(stream));
    uint64_t hash = 0xcbf29ce484222325u;
    for (unsigned i = 0; i < FIELDS; i++) {
        hash = hash_of(field[i], N * sizeof(float), hash);
        release(field[i], N * sizeof(float));
    }
    release(spare, N * sizeof(float));
    CHECK(cuStreamDestroy(stream));
    *(uint64_t *)result = hash;
    return NULL;
}

/* ---- keys ---- */

static void exchange(CUdeviceptr *array, unsigned a, unsigned b, unsigned shift, CUstream stream)
{
    unsigned n = N;
    launch(pair.exchange, stream, (void *[]){&array[a], &array[b], &n, &shift});
}

/* How the keys of an array are spread: a number that depends on all of them. */
static unsigned look_at(CUdeviceptr keys, CUstream stream)
{
    static const size_t bytes = SLICES * PAIR_BINS * sizeof(unsigned);
    unsigned *host = malloc(bytes), n = N, sum = 0;
    CUdeviceptr counts = allocate(bytes);
    launch(pair.histogram, stream, (void *[]){&counts, &keys, &n});
    CHECK(cuMemcpyDtoHAsync(host, counts, bytes, stream));
    CHECK(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < SLICES * PAIR_BINS; i++)
        sum = sum * 33 + host[i];
    release(counts, bytes);
    free(host);
    return sum;
}

static void *arrays(void *result)
{
    CUdeviceptr array[ARRAYS];
    CUstream stream;
    CHECK(cuCtxSetCurrent(pair.context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < ARRAYS; i++) {
        unsigned n = N, seed = i * 99991;
        array[i] = allocate(N * sizeof(unsigned));
        launch(pair.seed_keys, stream, (void *[]){&array[i], &n, &seed});
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned n = N, salt = round * 31, seen = look_at(array[round % ARRAYS], stream);
        for (unsigned a = round % 2; a + 1 < ARRAYS; a += 2)
            exchange(array, a, a + 1, seen % N, stream);
        exchange(array, seen % ARRAYS, (seen % ARRAYS + 1 + seen / 16 % (ARRAYS - 1)) % ARRAYS, round,
                 stream);
        CHECK(cuEventRecord(pair.arrays_ready, stream));
        pair.from_arrays = array[seen % ARRAYS];
        pthread_barrier_wait(&pair.barrier);
        CHECK(cuStreamWaitEvent(stream, pair.fields_ready, 0));
        CUdeviceptr mine = array[(seen + 1) % ARRAYS];
        launch(pair.to_keys, stream, (void *[]){&mine, &pair.from_fields, &n, &salt});
        CHECK(cuEventRecord(pair.fields_done, stream));
        pthread_barrier_wait(&pair.barrier);
        CHECK(cuStreamWaitEvent(stream, pair.arrays_done, 0));
    }
    CHECK(cuStreamSynchronize(stream));
    uint64_t hash = 0xcbf29ce484222325u;
    for (unsigned i = 0; i < ARRAYS; i++) {
        hash = hash_of(array[i], N * sizeof(unsigned), hash);
        release(array[i], N * sizeof(unsigned));
    }
    CHECK(cuStreamDestroy(stream));
    *(uint64_t *)result = hash;
    return NULL;
}

/* ---- */

static void set_up(void)
{
    CUdevice device;
    CUmodule module;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&pair.context, device));
    CHECK(cuCtxSetCurrent(pair.context));
    CHECK(cuModuleLoad(&module, PAIR_KERNEL_FILE));
    CHECK(cuModuleGetFunction(&pair.relax, module, "relax"));
    CHECK(cuModuleGetFunction(&pair.exchange, module, "exchange"));
    CHECK(cuModuleGetFunction(&pair.histogram, module, "histogram"));
    CHECK(cuModuleGetFunction(&pair.to_keys, module, "to_keys"));
    CHECK(cuModuleGetFunction(&pair.to_field, module, "to_field"));
    CHECK(cuModuleGetFunction(&pair.seed_keys, module, "seed_keys"));
    CHECK(cuEventCreate(&pair.fields_ready, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&pair.arrays_ready, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&pair.fields_done, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&pair.arrays_done, CU_EVENT_DISABLE_TIMING));
    pthread_barrier_init(&pair.barrier, NULL, 2);
}

int main(int argc, char **argv)
{
    pthread_t thread[2];
    uint64_t hash[2];
    set_up();
    if (argc > 1 && !strcmp(argv[1], "greedy"))
        fill_caches();
    pthread_create(&thread[0], NULL, fields, &hash[0]);
    pthread_create(&thread[1], NULL, arrays, &hash[1]);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    printf("%016llx %016llx\n", (unsigned long long)hash[0], (unsigned long long)hash[1]);
    fprintf(stderr, "peak %zu retries %u\n", pair.peak_bytes, pair.retries);
    return 0;
}

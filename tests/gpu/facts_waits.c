/* facts_waits.c: which calls wait while a stream waits for a word in memory that the host has not written yet, and whether what comes
 * behind them in another stream is held up until then. A call that waits takes the host with it, perhaps for ever: ebb's own calls must not. */
#include "facts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench_driver.h"

enum { BYTES = 4 << 20, LONG_US = 700000, POLL_US = 1000 };

/* What the calls use: made while the device is idle. */
typedef struct bench {
    CUcontext context;
    CUstream waiting, other, unused;
    volatile unsigned *word; /* what `waiting` waits for */
    CUmodule module;         /* none of its kernels is loaded */
    CUfunction listed;
    CUdeviceptr plain, ordered, range, flag;
    CUmemGenericAllocationHandle chunk, mapped;
    CUmemAllocationProp prop;
    size_t chunk_bytes;
    void *pinned, *registered, *pageable;
} bench_t;

static CUresult give_access(const bench_t *b, CUdeviceptr at)
{
    const CUmemAccessDesc access = {b->prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return cuMemSetAccess(at, b->chunk_bytes, &access, 1);
}

static CUresult launch(const bench_t *b, CUfunction f)
{
    CUtensorMap map = {0};
    unsigned long long last = 0;
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, b->other, (void *[]){&map, &last}, NULL);
}

/* ---- the calls ---- */

#define CALL(name, ...)                                                                                      \
    static CUresult call_##name(bench_t *b)                                                                  \
    {                                                                                                        \
        union {                                                                                              \
            void *p;                                                                                         \
            CUdeviceptr at;                                                                                  \
            CUmemGenericAllocationHandle handle;                                                             \
            CUstream stream;                                                                                 \
            CUevent event;                                                                                   \
            CUmodule module;                                                                                 \
            CUfunction function;                                                                             \
            size_t bytes[2];                                                                                 \
        } out;                                                                                               \
        (void)b, (void)out;                                                                                  \
        return __VA_ARGS__;                                                                                  \
    }
#define CALLS(X)                                                                                             \
    X(none, CUDA_SUCCESS)                                                                                    \
    X(mem_get_info, cuMemGetInfo(&out.bytes[0], &out.bytes[1]))                                              \
    X(host_alloc, cuMemHostAlloc(&out.p, BYTES, CU_MEMHOSTALLOC_PORTABLE))                                   \
    X(host_free, cuMemFreeHost(b->pinned))                                                                   \
    X(host_register, cuMemHostRegister(b->pageable, BYTES, CU_MEMHOSTREGISTER_PORTABLE))                     \
    X(host_unregister, cuMemHostUnregister(b->registered))                                                   \
    X(mem_alloc, cuMemAlloc(&out.at, BYTES))                                                                 \
    X(mem_free, cuMemFree(b->plain))                                                                         \
    X(alloc_async, cuMemAllocAsync(&out.at, 16 * (size_t)BYTES, b->other))                                   \
    X(free_async, cuMemFreeAsync(b->ordered, b->other))                                                      \
    X(create, cuMemCreate(&out.handle, b->chunk_bytes, &b->prop, 0))                                         \
    X(map, cuMemMap(b->range, b->chunk_bytes, 0, b->chunk, 0) ?: give_access(b, b->range))                   \
    X(unmap, cuMemUnmap(b->range + b->chunk_bytes, b->chunk_bytes))                                          \
    X(stream_create, cuStreamCreate(&out.stream, CU_STREAM_NON_BLOCKING))                                    \
    X(stream_destroy, cuStreamDestroy(b->unused))                                                            \
    X(event_create, cuEventCreate(&out.event, CU_EVENT_DISABLE_TIMING))                                      \
    X(module_load, cuModuleLoad(&out.module, facts_module_path()))                                           \
    X(get_function, cuModuleGetFunction(&out.function, b->module, "facts_first"))                            \
    X(first_launch, launch(b, b->listed))                                                                    \
    X(copy_out, cuMemcpyDtoHAsync(b->pinned, b->flag, BYTES, b->other))                                      \
    X(copy_out_pageable, cuMemcpyDtoHAsync(b->pageable, b->flag, BYTES, b->other))                           \
    X(copy_in_pageable, cuMemcpyHtoDAsync(b->flag, b->pageable, BYTES, b->other))                            \
    X(copy_within, cuMemcpyDtoDAsync(b->plain, b->flag, 4096, b->other))                                     \
    X(set, cuMemsetD8(b->flag, 1, 64))
CALLS(CALL)

typedef struct call {
    const char *name;
    CUresult (*make)(bench_t *b);
} call_t;

#define ROW(name, ...) {#name, call_##name},
static const call_t calls[] = {CALLS(ROW)};

/* ---- one of them ---- */

static CUfunction find_listed(CUmodule module, const char *wanted)
{
    CUfunction f[16];
    const char *name;
    unsigned count;
    OK(cuModuleGetFunctionCount(&count, module));
    if (count > sizeof f / sizeof *f)
        exit(1);
    OK(cuModuleEnumerateFunctions(f, count, module));
    for (unsigned i = 0; i < count; i++)
        if (!cuFuncGetName(&name, f[i]) && !strcmp(name, wanted))
            return f[i];
    exit(1);
}

static void open_bench(bench_t *b)
{
    void *word;
    *b = (bench_t){.module = facts_open_module(), .prop.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    b->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    b->listed = find_listed(b->module, "facts_first");
    OK(cuCtxGetCurrent(&b->context));
    OK(cuMemGetAllocationGranularity(&b->chunk_bytes, &b->prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuStreamCreate(&b->waiting, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b->other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b->unused, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc(&word, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    b->word = word;
    b->word[0] = 0;
    OK(cuMemAlloc(&b->flag, BYTES));
    OK(cuMemAlloc(&b->plain, BYTES));
    OK(cuMemAllocAsync(&b->ordered, BYTES, b->other));
    OK(cuMemAddressReserve(&b->range, 2 * b->chunk_bytes, b->chunk_bytes, 0, 0));
    OK(cuMemCreate(&b->chunk, b->chunk_bytes, &b->prop, 0));
    OK(cuMemCreate(&b->mapped, b->chunk_bytes, &b->prop, 0));
    OK(cuMemMap(b->range + b->chunk_bytes, b->chunk_bytes, 0, b->mapped, 0));
    OK(give_access(b, b->range + b->chunk_bytes));
    OK(cuMemHostAlloc(&b->pinned, BYTES, CU_MEMHOSTALLOC_PORTABLE));
    b->pageable = aligned_alloc(4096, BYTES);
    b->registered = aligned_alloc(4096, BYTES);
    memset(b->pageable, 1, BYTES);
    memset(b->registered, 1, BYTES);
    OK(cuMemHostRegister(b->registered, BYTES, CU_MEMHOSTREGISTER_PORTABLE));
    /* What these need is loaded. */
    OK(cuMemsetD32Async(b->flag, 0, 16, b->other));
    OK(cuMemsetD8(b->flag, 0, 64));
    OK(cuMemcpyDtoDAsync(b->plain, b->flag, 4096, b->other));
    OK(cuCtxSynchronize());
}

typedef struct asked_call {
    bench_t *b;
    const call_t *call;
    CUresult result;
    atomic_bool done;
} asked_call_t;

static void *make_call(void *asked)
{
    asked_call_t *a = asked;
    a->result = cuCtxSetCurrent(a->b->context) ?: a->call->make(a->b);
    atomic_store(&a->done, true);
    return NULL;
}

static bool comes_true(bool (*is)(const void *of), const void *of)
{
    const double until = facts_wall_us() + LONG_US;
    while (!is(of) && facts_wall_us() < until)
        usleep(POLL_US);
    return is(of);
}

static bool is_done(const void *of)
{
    return atomic_load(&((const asked_call_t *)of)->done);
}

static bool is_idle(const void *of)
{
    return cuStreamQuery(((const bench_t *)of)->other) == CUDA_SUCCESS;
}

static void ask(const void *context)
{
    bench_t b;
    pthread_t thread;
    CUdeviceptr word;
    asked_call_t a = {.b = &b, .call = context};
    open_bench(&b);
    OK(cuMemHostGetDevicePointer(&word, (void *)(uintptr_t)b.word, 0));
    if (cuStreamWaitValue32(b.waiting, word, 1, CU_STREAM_WAIT_VALUE_GEQ)) {
        printf("fact waits.%s no waiting for words\n", a.call->name);
        return;
    }
    if (pthread_create(&thread, NULL, make_call, &a))
        exit(1);
    const bool returns = comes_true(is_done, &a);
    printf("fact waits.%s %s", a.call->name, returns ? "returns" : "waits");
    if (returns) {
        OK(cuMemsetD32Async(b.flag, 1, 16, b.other));
        printf(", %d, what comes behind it %s", (int)a.result,
               comes_true(is_idle, &b) ? "goes on" : "is held up");
    }
    printf("\n");
    b.word[0] = 1;
    pthread_join(thread, NULL);
    OK(cuCtxSynchronize());
}

void facts_ask_waits(void)
{
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        char name[64];
        snprintf(name, sizeof name, "waits.%s", calls[i].name);
        facts_ask_in_child(name, ask, &calls[i]);
    }
}

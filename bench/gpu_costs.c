/* gpu_costs.c: what the calls that ebb is built on cost on a device. One JSON object on stdout.
 *
 *   gpu_costs [--small] [MODULE]    MODULE: gpu_costs_kernels.fatbin (default: the one of the build folder)
 *
 * --small is for trying the program where the figures mean nothing, the software device. Host times are by the monotonic clock,
 * device times by events; of three rounds the fastest. Needs the driver, and cuBLAS for the products that copies run beside.
 * What is not a figure is checked: exit code 1 if two addresses of one chunk do not show the same bytes.
 */
#include <cublas_v2.h>
#include <sys/mman.h>

#include "bench_driver.h"

#define BLAS(call)                                                                                           \
    do {                                                                                                     \
        cublasStatus_t blas_ = (call);                                                                       \
        if (blas_) {                                                                                         \
            fprintf(stderr, "%s:%d: %s: status %d\n", __FILE__, __LINE__, #call, (int)blas_);                \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

enum { ROUNDS = 3, SLICE = 4096, COUNT_MAX = 1024, COPIES_MAX = 256 };
#define MIB ((size_t)1 << 20)

static struct {
    CUfunction add;
    CUstream stream, other, third;
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    size_t most_bytes;   /* of device memory, at once */
    size_t buffer_bytes; /* what kernels and copies work on */
    int products, side;  /* a chain of products of matrices of side x side */
} bench;

static double wall_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void add(CUdeviceptr at, size_t bytes, unsigned value, CUstream stream)
{
    unsigned long long n = bytes / 4;
    void *arguments[] = {&at, &value, &n};
    OK(cuLaunchKernel(bench.add, (unsigned)((n + SLICE - 1) / SLICE), 1, 1, 256, 1, 1, 0, stream, arguments,
                      NULL));
}

static float between(CUevent begin, CUevent end)
{
    float ms;
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&ms, begin, end));
    return ms;
}

static void keep_least(double *least, double value)
{
    if (*least == 0 || value < *least)
        *least = value;
}

/* ---- chunks: create, map, grant access, unmap, release ---- */

typedef struct vmm {
    double create, map, access_each, access_all, unmap_each, unmap_all, release; /* microseconds per chunk */
} vmm_t;

static void time_chunks(size_t chunk, int count, vmm_t *least)
{
    static CUmemGenericAllocationHandle handle[COUNT_MAX];
    CUdeviceptr at;
    double t = wall_us(), now;
#define LAP(field) (now = wall_us(), keep_least(&least->field, (now - t) / count), t = wall_us())
    OK(cuMemAddressReserve(&at, chunk * (size_t)count, 0, 0, 0));
    t = wall_us();
    for (int i = 0; i < count; i++)
        OK(cuMemCreate(&handle[i], chunk, &bench.prop, 0));
    LAP(create);
    for (int i = 0; i < count; i++)
        OK(cuMemMap(at + chunk * (size_t)i, chunk, 0, handle[i], 0));
    LAP(map);
    for (int i = 0; i < count; i++)
        OK(cuMemSetAccess(at + chunk * (size_t)i, chunk, &bench.access, 1));
    LAP(access_each);
    for (int i = 0; i < count; i++)
        OK(cuMemUnmap(at + chunk * (size_t)i, chunk));
    LAP(unmap_each);
    for (int i = 0; i < count; i++)
        OK(cuMemMap(at + chunk * (size_t)i, chunk, 0, handle[i], 0));
    t = wall_us();
    OK(cuMemSetAccess(at, chunk * (size_t)count, &bench.access, 1));
    LAP(access_all);
    OK(cuMemUnmap(at, chunk * (size_t)count));
    LAP(unmap_all);
    for (int i = 0; i < count; i++)
        OK(cuMemRelease(handle[i]));
    LAP(release);
#undef LAP
    OK(cuMemAddressFree(at, chunk * (size_t)count));
}

static void chunks(void)
{
    static const int counts[] = {1, 16, 128, 1024};
    const char *comma = "";
    printf("  \"chunks\": [");
    for (size_t mib = 2; mib <= 64; mib *= 2)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            if (mib * MIB * (size_t)counts[c] > bench.most_bytes)
                continue;
            vmm_t t = {0};
            for (int round = 0; round < ROUNDS; round++)
                time_chunks(mib * MIB, counts[c], &t);
            printf("%s\n    {\"chunk_mib\": %zu, \"count\": %d, \"create_us\": %.2f, \"map_us\": %.2f, "
                   "\"access_each_us\": %.2f, \"access_all_us\": %.2f, \"unmap_each_us\": %.2f, "
                   "\"unmap_all_us\": %.2f, \"release_us\": %.2f}",
                   comma, mib, counts[c], t.create, t.map, t.access_each, t.access_all, t.unmap_each,
                   t.unmap_all, t.release);
            comma = ",";
        }
    printf("\n  ],\n");
}

/* ---- two addresses of one chunk ---- */

static double rate_through(CUdeviceptr at, size_t bytes)
{
    CUevent begin, end;
    double ms = 0;
    OK(cuEventCreate(&begin, 0));
    OK(cuEventCreate(&end, 0));
    for (int round = 0; round < ROUNDS; round++) {
        OK(cuEventRecord(begin, bench.stream));
        add(at, bytes, 0, bench.stream);
        OK(cuEventRecord(end, bench.stream));
        keep_least(&ms, (double)between(begin, end));
    }
    OK(cuEventDestroy(begin));
    OK(cuEventDestroy(end));
    return 2e-6 * (double)bytes / ms;
}

/* Writes through one address, read through the other after the writer has completed: the kernel boundary on one stream, an event
 * between two, a copy. */
static bool alias_shows(CUdeviceptr a, CUdeviceptr b, size_t bytes)
{
    unsigned *host = malloc(bytes);
    CUevent done;
    bool right = host != NULL;
    OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    OK(cuMemsetD32Async(a, 5, bytes / 4, bench.stream));
    add(b, bytes, 7, bench.stream);  /* 12 */
    add(a, bytes, 30, bench.stream); /* 42 */
    OK(cuEventRecord(done, bench.stream));
    OK(cuStreamWaitEvent(bench.other, done, 0));
    add(b, bytes, 100, bench.other); /* 142 */
    OK(cuStreamSynchronize(bench.other));
    OK(cuMemcpyDtoH(host, a, bytes));
    for (size_t i = 0; right && i < bytes / 4; i++)
        right = host[i] == 142;
    OK(cuEventDestroy(done));
    free(host);
    return right;
}

static bool aliases(void)
{
    const size_t chunk = 2 * MIB, bytes = bench.buffer_bytes;
    const size_t count = bytes / chunk;
    CUmemGenericAllocationHandle *handle = calloc(count, sizeof *handle);
    CUdeviceptr a, b;
    if (!handle)
        exit(1);
    OK(cuMemAddressReserve(&a, bytes, 0, 0, 0));
    OK(cuMemAddressReserve(&b, bytes, 0, 0, 0));
    for (size_t i = 0; i < count; i++) {
        OK(cuMemCreate(&handle[i], chunk, &bench.prop, 0));
        OK(cuMemMap(a + i * chunk, chunk, 0, handle[i], 0));
    }
    OK(cuMemSetAccess(a, bytes, &bench.access, 1));
    OK(cuMemsetD32Async(a, 0, bytes / 4, bench.stream));
    const double alone = rate_through(a, bytes);
    for (size_t i = 0; i < count; i++)
        OK(cuMemMap(b + i * chunk, chunk, 0, handle[i], 0));
    OK(cuMemSetAccess(b, bytes, &bench.access, 1));
    const double first = rate_through(a, bytes), second = rate_through(b, bytes);
    const bool right = alias_shows(a, b, bytes);
    printf("  \"alias\": {\"right\": %s, \"bytes\": %zu, \"one_address_gb_s\": %.1f, \"first_of_two_gb_s\": "
           "%.1f, "
           "\"second_of_two_gb_s\": %.1f},\n",
           right ? "true" : "false", bytes, alone, first, second);
    OK(cuMemUnmap(b, bytes));
    OK(cuMemUnmap(a, bytes));
    for (size_t i = 0; i < count; i++)
        OK(cuMemRelease(handle[i]));
    OK(cuMemAddressFree(b, bytes));
    OK(cuMemAddressFree(a, bytes));
    free(handle);
    return right;
}

/* ---- mapping while kernels run ---- */

typedef struct mapping {
    double kernels_ms;                          /* the chain's time on the device */
    double create, map, access, unmap, release; /* worst call in microseconds, while the chain ran */
    int cycles;
} mapping_t;

static mapping_t run_chain(CUdeviceptr at, bool map)
{
    enum { KERNELS = 60 };
    const size_t chunk = 2 * MIB;
    mapping_t m = {0};
    CUevent begin, end;
    CUdeviceptr place;
    OK(cuEventCreate(&begin, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuMemAddressReserve(&place, chunk, 0, 0, 0));
    OK(cuEventRecord(begin, bench.stream));
    for (int i = 0; i < KERNELS; i++)
        add(at, bench.buffer_bytes, 1, bench.stream);
    OK(cuEventRecord(end, bench.stream));
#define TIMED(field, call)                                                                                   \
    do {                                                                                                     \
        const double t_ = wall_us();                                                                         \
        OK(call);                                                                                            \
        const double us_ = wall_us() - t_;                                                                   \
        if (us_ > m.field)                                                                                   \
            m.field = us_;                                                                                   \
    } while (0)
    while (map && cuEventQuery(end) == CUDA_ERROR_NOT_READY) {
        CUmemGenericAllocationHandle handle;
        TIMED(create, cuMemCreate(&handle, chunk, &bench.prop, 0));
        TIMED(map, cuMemMap(place, chunk, 0, handle, 0));
        TIMED(access, cuMemSetAccess(place, chunk, &bench.access, 1));
        TIMED(unmap, cuMemUnmap(place, chunk));
        TIMED(release, cuMemRelease(handle));
        m.cycles++;
    }
#undef TIMED
    m.kernels_ms = (double)between(begin, end);
    OK(cuMemAddressFree(place, chunk));
    OK(cuEventDestroy(begin));
    OK(cuEventDestroy(end));
    return m;
}

static void mapping(void)
{
    CUdeviceptr at;
    OK(cuMemAlloc(&at, bench.buffer_bytes));
    OK(cuMemsetD8Async(at, 0, bench.buffer_bytes, bench.stream));
    run_chain(at, false);
    const mapping_t alone = run_chain(at, false), beside = run_chain(at, true);
    printf("  \"mapping_beside_kernels\": {\"alone_ms\": %.3f, \"beside_ms\": %.3f, \"cycles\": %d, "
           "\"worst_create_us\": %.1f, "
           "\"worst_map_us\": %.1f, \"worst_access_us\": %.1f, \"worst_unmap_us\": %.1f, "
           "\"worst_release_us\": %.1f},\n",
           alone.kernels_ms, beside.kernels_ms, beside.cycles, beside.create, beside.map, beside.access,
           beside.unmap, beside.release);
    OK(cuMemFree(at));
}

/* ---- events and waits ---- */

/* The stream has some milliseconds to do, in which the host gets ahead: what follows is not slowed down by the issuing of it. */
static void keep_busy(CUdeviceptr at)
{
    for (int i = 0; i < 10; i++)
        add(at, bench.buffer_bytes, 1, bench.stream);
}

static void events(void)
{
    enum { CALLS = 200 };
    CUevent e[CALLS], begin, end;
    CUdeviceptr at;
    double record = 0, wait = 0, one = 0, two = 0, launch = 0;
    OK(cuMemAlloc(&at, bench.buffer_bytes));
    OK(cuEventCreate(&begin, 0));
    OK(cuEventCreate(&end, 0));
    for (int i = 0; i < CALLS; i++)
        OK(cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
    for (int round = 0; round < ROUNDS; round++) {
        double t = wall_us();
        for (int i = 0; i < CALLS; i++)
            OK(cuEventRecord(e[i], bench.stream));
        keep_least(&record, (wall_us() - t) / CALLS);
        t = wall_us();
        for (int i = 0; i < CALLS; i++)
            OK(cuStreamWaitEvent(bench.other, e[i], 0));
        keep_least(&wait, (wall_us() - t) / CALLS);
        OK(cuCtxSynchronize());
        /* A chain of short kernels on one stream, and the same taking turns between two. */
        keep_busy(at);
        OK(cuEventRecord(begin, bench.stream));
        t = wall_us();
        for (int i = 0; i < CALLS; i++)
            add(at, 4096, 1, bench.stream);
        keep_least(&launch, (wall_us() - t) / CALLS);
        OK(cuEventRecord(end, bench.stream));
        keep_least(&one, (double)between(begin, end) * 1e3 / CALLS);
        keep_busy(at);
        OK(cuEventRecord(begin, bench.stream));
        for (int i = 0; i < CALLS; i++) {
            CUstream here = i % 2 ? bench.other : bench.stream, next = i % 2 ? bench.stream : bench.other;
            add(at, 4096, 1, here);
            OK(cuEventRecord(e[i], here));
            OK(cuStreamWaitEvent(next, e[i], 0));
        }
        OK(cuEventRecord(end, bench.stream));
        keep_least(&two, (double)between(begin, end) * 1e3 / CALLS);
        OK(cuCtxSynchronize());
    }
    printf("  \"events\": {\"launch_host_us\": %.3f, \"record_host_us\": %.3f, \"wait_host_us\": %.3f, "
           "\"kernel_after_kernel_us\": %.3f, \"kernel_after_event_us\": %.3f},\n",
           launch, record, wait, one, two);
    for (int i = 0; i < CALLS; i++)
        OK(cuEventDestroy(e[i]));
    OK(cuEventDestroy(begin));
    OK(cuEventDestroy(end));
    OK(cuMemFree(at));
}

/* ---- pinned memory ---- */

static void pinned(void)
{
    const char *comma = "";
    printf("  \"pinned\": [");
    for (size_t mib = 2; mib * MIB <= bench.most_bytes && mib <= 2048; mib *= 8) {
        const size_t bytes = mib * MIB;
        double alloc = 0, release = 0, pin = 0, unpin = 0;
        for (int round = 0; round < ROUNDS; round++) {
            void *p;
            double t = wall_us();
            OK(cuMemAllocHost(&p, bytes));
            keep_least(&alloc, wall_us() - t);
            t = wall_us();
            OK(cuMemFreeHost(p));
            keep_least(&release, wall_us() - t);
            p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
            if (p == MAP_FAILED)
                exit(1);
            t = wall_us();
            OK(cuMemHostRegister(p, bytes, CU_MEMHOSTREGISTER_PORTABLE));
            keep_least(&pin, wall_us() - t);
            t = wall_us();
            OK(cuMemHostUnregister(p));
            keep_least(&unpin, wall_us() - t);
            munmap(p, bytes);
        }
        printf("%s\n    {\"mib\": %zu, \"alloc_us\": %.1f, \"free_us\": %.1f, \"register_touched_us\": %.1f, "
               "\"unregister_us\": %.1f}",
               comma, mib, alloc, release, pin, unpin);
        comma = ",";
    }
    printf("\n  ],\n");
}

/* ---- the link, alone and beside products of matrices ---- */

enum { MOST_COPIES = 1000 };

typedef struct copies {
    CUdeviceptr out, in; /* each of buffer_bytes */
    void *host_out, *host_in;
    CUevent begin, out_end[MOST_COPIES], in_end[MOST_COPIES], end_products; /* of each copy */
    CUdeviceptr a, b, c;
    cublasHandle_t blas;
} copies_t;

static void products(copies_t *k)
{
    const float one = 1, zero = 0;
    const int n = bench.side;
    for (int i = 0; i < bench.products; i++)
        BLAS(cublasGemmEx(k->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, (void *)k->a, CUDA_R_16BF, n,
                          (void *)k->b, CUDA_R_16BF, n, &zero, (void *)k->c, CUDA_R_16BF, n,
                          CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

typedef struct sample {
    double out_gb_s, in_gb_s, products_ms;
} sample_t;

/* GB/s of the copies that end before the `other` way has none left: what follows has the link for itself. */
static double rate(const copies_t *k, size_t bytes, int copies, const CUevent *end, const CUevent *other)
{
    int i = copies - 1;
    float until = between(k->begin, end[i]);
    if (other && between(k->begin, other[i]) < until)
        until = between(k->begin, other[i]);
    while (i > 0 && between(k->begin, end[i]) > until)
        i--;
    return 1e-6 * (double)bytes * (i + 1) / (double)between(k->begin, end[i]);
}

/* `copies` of `bytes` each way that is asked for, and the products if asked, all at once. */
static sample_t copy_beside(copies_t *k, size_t bytes, int copies, bool out, bool in, bool multiply)
{
    sample_t s = {0};
    OK(cuCtxSynchronize());
    OK(cuEventRecord(k->begin, bench.stream));
    OK(cuStreamWaitEvent(bench.other, k->begin, 0));
    OK(cuStreamWaitEvent(bench.third, k->begin, 0));
    for (int i = 0; i < copies; i++) {
        const size_t at = (size_t)i % (bench.buffer_bytes / bytes) * bytes;
        if (out)
            OK(cuMemcpyDtoHAsync((char *)k->host_out + at, k->out + at, bytes, bench.other));
        if (in)
            OK(cuMemcpyHtoDAsync(k->in + at, (char *)k->host_in + at, bytes, bench.third));
        OK(cuEventRecord(k->out_end[i], bench.other));
        OK(cuEventRecord(k->in_end[i], bench.third));
    }
    if (multiply)
        products(k);
    OK(cuEventRecord(k->end_products, bench.stream));
    s.products_ms = (double)between(k->begin, k->end_products);
    if (out)
        s.out_gb_s = rate(k, bytes, copies, k->out_end, in ? k->in_end : NULL);
    if (in)
        s.in_gb_s = rate(k, bytes, copies, k->in_end, out ? k->out_end : NULL);
    return s;
}

static void open_copies(copies_t *k)
{
    const size_t matrix = (size_t)bench.side * (size_t)bench.side * 2;
    OK(cuMemAlloc(&k->out, bench.buffer_bytes));
    OK(cuMemAlloc(&k->in, bench.buffer_bytes));
    OK(cuMemAllocHost(&k->host_out, bench.buffer_bytes));
    OK(cuMemAllocHost(&k->host_in, bench.buffer_bytes));
    memset(k->host_in, 1, bench.buffer_bytes);
    OK(cuMemsetD8Async(k->out, 2, bench.buffer_bytes, bench.other));
    OK(cuMemAlloc(&k->a, matrix));
    OK(cuMemAlloc(&k->b, matrix));
    OK(cuMemAlloc(&k->c, matrix));
    /* Not zeros, with which a GPU saves power: 0.7 and -1.1 in BF16. */
    OK(cuMemsetD16Async(k->a, 0x3f33, matrix / 2, bench.stream));
    OK(cuMemsetD16Async(k->b, 0xbf8d, matrix / 2, bench.stream));
    OK(cuEventCreate(&k->begin, 0));
    for (int i = 0; i < MOST_COPIES; i++) {
        OK(cuEventCreate(&k->out_end[i], 0));
        OK(cuEventCreate(&k->in_end[i], 0));
    }
    OK(cuEventCreate(&k->end_products, 0));
    BLAS(cublasCreate(&k->blas));
    BLAS(cublasSetStream(k->blas, bench.stream));
    products(k);
}

static void close_copies(copies_t *k)
{
    BLAS(cublasDestroy(k->blas));
    OK(cuEventDestroy(k->begin));
    for (int i = 0; i < MOST_COPIES; i++) {
        OK(cuEventDestroy(k->out_end[i]));
        OK(cuEventDestroy(k->in_end[i]));
    }
    OK(cuEventDestroy(k->end_products));
    OK(cuMemFree(k->out));
    OK(cuMemFree(k->in));
    OK(cuMemFree(k->a));
    OK(cuMemFree(k->b));
    OK(cuMemFree(k->c));
    OK(cuMemFreeHost(k->host_out));
    OK(cuMemFreeHost(k->host_in));
}

/* So many copies as last about as long as the products at the given rate. */
static int copies_for(double ms, double gb_s, size_t bytes)
{
    const double n = ms * 1e6 * gb_s / (double)bytes;
    return n < 1 ? 1 : n > MOST_COPIES ? MOST_COPIES : (int)n;
}

static void link_and_products(void)
{
    copies_t k;
    const char *comma = "";
    double full = 0;
    open_copies(&k);
    printf("  \"link\": [");
    for (size_t bytes = MIB / 16; bytes <= bench.buffer_bytes; bytes *= 4) {
        const int n =
            bench.buffer_bytes / bytes < COPIES_MAX ? (int)(bench.buffer_bytes / bytes) : COPIES_MAX;
        copy_beside(&k, bytes, n, true, true, false);
        const sample_t out = copy_beside(&k, bytes, n, true, false, false),
                       in = copy_beside(&k, bytes, n, false, true, false),
                       both = copy_beside(&k, bytes, n, true, true, false);
        printf("%s\n    {\"kib\": %zu, \"out_gb_s\": %.2f, \"in_gb_s\": %.2f, \"both_out_gb_s\": %.2f, "
               "\"both_in_gb_s\": %.2f}",
               comma, bytes >> 10, out.out_gb_s, in.in_gb_s, both.out_gb_s, both.in_gb_s);
        comma = ",";
        full = out.out_gb_s;
    }
    const size_t bytes = bench.buffer_bytes < 16 * MIB ? bench.buffer_bytes : 16 * MIB;
    copy_beside(&k, bytes, 1, false, false, true);
    const double alone = copy_beside(&k, bytes, 0, false, false, true).products_ms;
    const int n = copies_for(alone, full, bytes);
    const sample_t out = copy_beside(&k, bytes, n, true, false, true),
                   in = copy_beside(&k, bytes, n, false, true, true),
                   both = copy_beside(&k, bytes, n, true, true, true);
    const double side = bench.side;
    printf("\n  ],\n  \"copies_beside_products\": {\"side\": %d, \"products\": %d, \"alone_ms\": %.3f, "
           "\"tflop_s\": %.1f, "
           "\"copies\": %d, \"beside_out_ms\": %.3f, \"beside_in_ms\": %.3f, \"beside_both_ms\": %.3f, "
           "\"out_gb_s\": %.2f, \"in_gb_s\": %.2f, \"both_out_gb_s\": %.2f, \"both_in_gb_s\": %.2f},\n",
           bench.side, bench.products, alone, 2e-9 * side * side * side * bench.products / alone, n,
           out.products_ms, in.products_ms, both.products_ms, out.out_gb_s, in.in_gb_s, both.out_gb_s,
           both.in_gb_s);
    close_copies(&k);
}

/* ---- */

static void set_up(bool small, const char *path)
{
    CUmodule module;
    open_device();
    OK(cuModuleLoad(&module, path));
    OK(cuModuleGetFunction(&bench.add, module, "add"));
    OK(cuStreamCreate(&bench.stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&bench.other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&bench.third, CU_STREAM_NON_BLOCKING));
    bench.prop = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    bench.access =
        (CUmemAccessDesc){.location = bench.prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t free_bytes, total;
    OK(cuMemGetInfo(&free_bytes, &total));
    bench.most_bytes = small ? 64 * MIB : 8192 * MIB;
    if (bench.most_bytes > free_bytes / 2)
        bench.most_bytes = free_bytes / 2;
    bench.buffer_bytes = small ? 4 * MIB : bench.most_bytes < 8192 * MIB ? 256 * MIB : 1024 * MIB;
    bench.products = small ? 2 : 40;
    bench.side = small ? 64 : 8192;
}

int main(int argc, char **argv)
{
    const bool small = argc > 1 && !strcmp(argv[1], "--small");
    char name[128];
    int driver;
    set_up(small, argc > 1 + small ? argv[1 + small] : GPU_COSTS_KERNELS);
    OK(cuDeviceGetName(name, sizeof name, 0));
    OK(cuDriverGetVersion(&driver));
    setvbuf(stdout, NULL, _IOLBF, 0); /* whoever ends this keeps what is known */
    printf("{\n  \"device\": \"%s\", \"cuda\": %d, \"small\": %s,\n", name, driver, small ? "true" : "false");
    chunks();
    const bool right = aliases();
    mapping();
    events();
    pinned();
    link_and_products();
    printf("  \"right\": %s\n}\n", right ? "true" : "false");
    return !right;
}

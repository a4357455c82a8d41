/* bench_alloc.c: nanoseconds per allocation and free, and per launch. One line per figure: name, nanoseconds.
 *
 * The same program is run with libebb.so preloaded and without (alloc.sh); the difference is the layer's. On
 * the driver that does nothing (null_driver.c) that difference is all that there is to see; on others,
 * --no-launch leaves out what needs that driver's kernels.
 */
#include "bench_driver.h"

enum { ROUNDS = 20, BUFFERS = 64, STREAMS = 2 };

static CUstream stream[STREAMS];

typedef void (*body_fn)(unsigned count, const void *context);

/* The fastest of several rounds: what the layer costs, not what else the machine does. */
static void report(const char *name, unsigned count, body_fn body, const void *context)
{
    uint64_t best = UINT64_MAX;
    body(count / 10 + 1, context);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = now_ns();
        body(count, context);
        uint64_t ns = now_ns() - start;
        best = ns < best ? ns : best;
    }
    printf("%s %.1f\n", name, (double)best / count);
    fflush(stdout);
}

/* ---- allocation and free ---- */

static void pair_async(unsigned count, const void *context)
{
    const size_t bytes = *(const size_t *)context;
    for (unsigned i = 0; i < count; i++) {
        CUdeviceptr p;
        OK(cuMemAllocAsync(&p, bytes, stream[0]));
        OK(cuMemFreeAsync(p, stream[0]));
    }
}

static void pair_sync(unsigned count, const void *context)
{
    const size_t bytes = *(const size_t *)context;
    for (unsigned i = 0; i < count; i++) {
        CUdeviceptr p;
        OK(cuMemAlloc(&p, bytes));
        OK(cuMemFree(p));
    }
}

/* Many sizes, many alive, freed in another order than allocated, each stream its own. */
static void pair_many(unsigned count, const void *context)
{
    static CUdeviceptr live[BUFFERS];
    const unsigned streams = *(const unsigned *)context;
    uint64_t seed = 1;
    for (unsigned i = 0; i < count; i++) {
        unsigned slot = (unsigned)(random64(&seed) >> 32) % BUFFERS;
        CUstream s = stream[slot % streams];
        if (live[slot])
            OK(cuMemFreeAsync(live[slot], s));
        OK(cuMemAllocAsync(&live[slot], (size_t)512 << slot % 16, s));
    }
    for (unsigned slot = 0; slot < BUFFERS; slot++) {
        if (live[slot])
            OK(cuMemFreeAsync(live[slot], stream[slot % streams]));
        live[slot] = 0;
    }
}

static void bench_pairs(void)
{
    static const size_t sizes[] = {512, 64 << 10, 1 << 20, 3 << 20, 64 << 20};
    static const unsigned one = 1, two = 2;
    char name[64];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(name, sizeof name, "pair_async_%zuKiB", sizes[i] >> 10);
        report(sizes[i] == 512 ? "pair_async_512B" : name, 20000, pair_async, &sizes[i]);
    }
    report("pair_sync_64KiB", 5000, pair_sync, &sizes[1]);
    report("pair_sync_3072KiB", 5000, pair_sync, &sizes[3]);
    report("pair_many", 20000, pair_many, &one);
    report("pair_many_2_streams", 20000, pair_many, &two);
}

/* ---- launches ---- */

static CUdeviceptr buffer[BUFFERS];
static CUfunction function[33];

typedef struct launches {
    unsigned params, streams;
} launches_t;

static void launch(unsigned count, const void *context)
{
    const launches_t *l = context;
    void *params[32];
    for (unsigned i = 0; i < count; i++) {
        /* Other buffers each time, as a program has it. */
        for (unsigned k = 0; k < l->params; k++)
            params[k] = &buffer[(i * 5 + k) % BUFFERS];
        OK(cuLaunchKernel(function[l->params], 1, 1, 1, 32, 1, 1, 0, stream[i % l->streams], params, NULL));
    }
}

/* A step of 500 launches, of functions with up to 8 arguments, again and again: it is found, and followed. */
static void launch_in_steps(unsigned count, const void *context)
{
    (void)context;
    static unsigned at; /* goes on in the next round */
    void *params[8];
    for (unsigned i = 0; i < count; i++, at++) {
        const unsigned n = (at % 500 * 2654435761u >> 13) % 9;
        for (unsigned k = 0; k < n; k++)
            params[k] = &buffer[(i * 5 + k) % BUFFERS];
        OK(cuLaunchKernel(function[n], 1, 1, 1, 32, 1, 1, 0, stream[0], params, NULL));
    }
}

/* A temporary for each launch, as PyTorch's programs do. */
static void launch_with_temporary(unsigned count, const void *context)
{
    const launches_t *l = context;
    void *params[32];
    for (unsigned i = 0; i < count; i++) {
        CUdeviceptr p;
        OK(cuMemAllocAsync(&p, 3 << 20, stream[0]));
        for (unsigned k = 0; k < l->params; k++)
            params[k] = k ? &buffer[(i * 5 + k) % BUFFERS] : &p;
        OK(cuLaunchKernel(function[l->params], 1, 1, 1, 32, 1, 1, 0, stream[0], params, NULL));
        OK(cuMemFreeAsync(p, stream[0]));
    }
}

static void bench_launches(void)
{
    CUmodule module;
    OK(cuModuleLoadData(&module, ""));
    for (unsigned n = 0; n <= 32; n++) {
        char name[8];
        snprintf(name, sizeof name, "p%u", n);
        OK(cuModuleGetFunction(&function[n], module, name));
    }
    for (unsigned i = 0; i < BUFFERS; i++) /* one in four small */
        OK(cuMemAllocAsync(&buffer[i], i % 4 ? 3 << 20 : 3 << 10, stream[0]));
    static const launches_t kinds[] = {{0, 1}, {1, 1}, {8, 1}, {8, 2}, {16, 1}, {32, 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[64];
        snprintf(name, sizeof name, "launch_%u%s", kinds[i].params, kinds[i].streams > 1 ? "_2_streams" : "");
        report(name, 20000, launch, &kinds[i]);
    }
    report("launch_in_steps", 20000, launch_in_steps, NULL);
    report("launch_8_temporary", 20000, launch_with_temporary, &kinds[2]);
}

int main(int argc, char **argv)
{
    open_device();
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    bench_pairs();
    if (argc < 2 || strcmp(argv[1], "--no-launch"))
        bench_launches();
    return 0;
}

/* bench_plan.c: how long the program's calls take while ebb plans a large step. A step of a deep network, on the driver that does nothing
 * (null_driver.c): per layer an activation that lives until backward, and 23 launches. On stderr, beside ebb's log, a line for each step:
 *
 *   step N: T ms, the longest call L ms, WHAT
 *
 *   bench_plan [LAYERS [STEPS]]     default: 450 30
 */
#include "bench_driver.h"

enum { FORWARD = 8, BACKWARD = 15, MOST_PARAMS = 24, MOST_LAYERS = 2000 };

static CUstream stream;
static CUfunction function[MOST_PARAMS + 1];
static CUdeviceptr weight[MOST_LAYERS], gradient[MOST_LAYERS], activation[MOST_LAYERS + 1];

/* The longest call so far. */
static struct {
    double ms;
    const char *what;
} longest;

static double wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void end_call(double begin, const char *what)
{
    const double ms = wall_ms() - begin;
    if (ms > longest.ms) {
        longest.ms = ms;
        longest.what = what;
    }
}

static CUdeviceptr allocate(size_t bytes)
{
    CUdeviceptr p;
    const double begin = wall_ms();
    OK(cuMemAllocAsync(&p, bytes, stream));
    end_call(begin, "allocating");
    return p;
}

static void release(CUdeviceptr p)
{
    const double begin = wall_ms();
    OK(cuMemFreeAsync(p, stream));
    end_call(begin, "freeing");
}

/* The kernel with `n` parameters, which lead to these buffers. */
static void launch(unsigned n, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c)
{
    CUdeviceptr *const three[] = {&a, &b, &c};
    void *params[MOST_PARAMS];
    for (unsigned i = 0; i < n; i++)
        params[i] = three[i % 3];
    const double begin = wall_ms();
    OK(cuLaunchKernel(function[n], 64, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    end_call(begin, "launching");
}

static void step(unsigned layers)
{
    const size_t bytes = 2 << 20;
    activation[0] = allocate(bytes);
    launch(17, activation[0], activation[0], activation[0]);
    for (unsigned i = 0; i < layers; i++) {
        activation[i + 1] = allocate(bytes);
        CUdeviceptr between = allocate(2 * bytes);
        for (unsigned k = 0; k < FORWARD; k++)
            launch(3 + k % 4, k % 2 ? between : activation[i], weight[i], activation[i + 1]);
        release(between);
    }
    CUdeviceptr out = allocate(bytes);
    for (unsigned i = layers; i-- > 0;) {
        CUdeviceptr in = allocate(bytes), between = allocate(2 * bytes);
        for (unsigned k = 0; k < BACKWARD; k++)
            launch(7 + k % 8, k % 3 ? between : out, activation[i + k % 2], k % 2 ? in : gradient[i]);
        release(between);
        release(activation[i + 1]);
        release(out);
        out = in;
    }
    for (unsigned i = 0; i < layers; i++)
        launch(16, weight[i], gradient[i], gradient[i]);
    release(out);
    release(activation[0]);
}

int main(int argc, char **argv)
{
    const unsigned layers = argc > 1 ? (unsigned)atoi(argv[1]) : 450,
                   steps = argc > 2 ? (unsigned)atoi(argv[2]) : 30;
    CUmodule module;
    if (!layers || layers > MOST_LAYERS)
        return 2;
    open_device();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuModuleLoadData(&module, ""));
    for (unsigned n = 1; n <= MOST_PARAMS; n++) {
        char name[8];
        snprintf(name, sizeof name, "p%u", n);
        OK(cuModuleGetFunction(&function[n], module, name));
    }
    for (unsigned i = 0; i < layers; i++) {
        OK(cuMemAlloc(&weight[i], 2 << 20));
        OK(cuMemAlloc(&gradient[i], 2 << 20));
    }
    for (unsigned i = 0; i < steps; i++) {
        const double begin = wall_ms();
        longest.ms = 0;
        step(layers);
        fprintf(stderr, "step %u: %.1f ms, the longest call %.1f ms, %s\n", i, wall_ms() - begin, longest.ms,
                longest.what);
    }
    OK(cuStreamSynchronize(stream));
    return 0;
}
